"""A wave function made symmetric: psi_sym(s) = sum_g chi(g) psi(g s) over a finite group.

Measuring with restored symmetry lowers the energy of a good state at no cost in parameters (spin
inversion: Liu, Huang, Gong and Gu, PRB 103, 235155 (2021); projection in general: Mizusaki and
Imada, PRB 69, 125110 (2004)).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np

from tnvmc.ansatz.generic import amplitude_sweep, as_log_amplitude, replacement_ratios
from tnvmc.ansatz.metropolis import local_states
from tnvmc.ansatz.protocol import (
    Ansatz,
    Execution,
    LogAmplitude,
    Snapshot,
    SweepInfo,
    Targets,
    Walkers,
    require_ansatz,
)
from tnvmc.ansatz.wrappers.images import DERIVATIVES, RATIOS, Sums, moved_patch, moved_table
from tnvmc.backend.arguments import one_of, refuse
from tnvmc.backend.namespace import array_namespace
from tnvmc.jacobian.dense import DenseJacobian
from tnvmc.lattice.permutations import Symmetry, SymmetryGroup
from tnvmc.operators.fermions import Strings
from tnvmc.operators.symmetry import require_symmetric

Array = Any


@dataclass(frozen=True)
class _Shown:
    """Walkers of the ansatz, and their images to be measured next."""

    walkers: Walkers
    configs: Array  #: (B, N)


START_SHARE = 1e-2
"""Least `Symmetrised.share` of parameters to start from; less of it gets noise."""

_NOISE = (0.03, 0.1, 0.3)  # of all parameters, of the largest one

_PROBES = 64  # configurations


class Symmetrised(Ansatz):
    """The sum of a wave function over a group, with the parameters of the wave function.

    Args:
        ansatz: the wave function psi.
        group: symmetries g with their characters chi(g) = +-1; see
            `tnvmc.operators.symmetry.symmetry_group`.
        reweight: walk with the sweeps of `ansatz` itself and weigh the samples (below); False
            walks on |psi_sym|^2 by full amplitudes, |G| of them per move: for small systems, and
            where few weighted samples are effective.
        strings: of fermions, whose order g changes: psi(g s) gets that sign (`Strings.of_image`).
            Those of the Hamiltonian in a `VMC`.

    A measurement costs |G| times `start` and `measure` of `ansatz` and gives ratios by
    psi_sym(s')/psi_sym(s) = sum_g w_g psi(g s')/psi(g s), w_g = chi(g) psi(g s)/psi_sym(s), and
    log-derivatives sum_g w_g O(g s), dense: M P numbers.  Memory does not grow with |G|.

    Reweighting: chains draw s from |psi|^2, and every sweep ends by picking for each walker a
    random g; a measurement looks at g s, which has the distribution q(s) = sum_g |psi(g s)|^2 / |G|
    and the weight |psi_sym(s)|^2 / (|G|^2 q(s)), between 0 and 1 and 1 where psi is symmetric
    already (decision 29).  Walkers stay those of `ansatz`; snapshots are of psi_sym.

    A PEPS with open bonds summed over the translations of a torus is a periodic state, at the price
    of N contractions.

    What it does not do: complex characters (momenta other than 0 and pi), representations of higher
    dimension, tempered chains, direct draws, the double layer.

    Raises:
        ValueError: a group of another number of sites; a state that walks on another distribution.
    """

    group: SymmetryGroup
    n_params = 0  #: length P of theta, that of the inner state

    def __init__(
        self,
        ansatz: Ansatz,
        group: SymmetryGroup,
        reweight: bool = True,
        strings: Strings | None = None,
    ) -> None:
        require_ansatz("Symmetrised", "ansatz", ansatz)
        if not isinstance(group, SymmetryGroup):
            example = 'a group, as symmetry_group(operator, ["spin"])'
            raise refuse("Symmetrised", "group", group, example)
        one_of("Symmetrised", "reweight", reweight, (True, False))
        if any(len(g.sites) != ansatz.lattice.n_sites for g in group.elements):
            raise ValueError(
                f"Symmetrised: the group moves {len(group.elements[0].sites)} sites, the ansatz "
                f"has {ansatz.lattice.n_sites}"
            )
        if ansatz.group is not None:
            raise ValueError(
                "Symmetrised: this state is a sum over symmetries already; make one group of all "
                "of them, symmetry_group(operator, [...]), and sum the state within over it"
            )
        if reweight and ansatz.weighted:
            raise ValueError(
                "Symmetrised: its weights are those of chains that sample |psi|^2, and this "
                f"{type(ansatz).__name__} walks on its first state alone; make it with sweeps = "
                "'both' (ansatz.sweeps in a file), or symmetrise nothing"
            )
        self.ansatz, self.n_params = ansatz, ansatz.n_params
        self.lattice, self.local_dim, self.dtype = ansatz.lattice, ansatz.local_dim, ansatz.dtype
        self.scheme, self.scheme_given = ansatz.scheme, ansatz.scheme_given
        self.sharing, self.n_unshared, self.starts = (
            ansatz.sharing, ansatz.n_unshared, ansatz.starts
        )  # fmt: skip
        self.group, self.reweight, self.strings = group, reweight, strings
        self.built_in, self.signed = ansatz.built_in, ansatz.signed

    def with_scheme(self, scheme: Any) -> "Symmetrised":
        return self._with(self.ansatz.with_scheme(scheme), self.strings)

    def _with(self, ansatz: Ansatz, strings: Strings | None) -> "Symmetrised":
        return Symmetrised(ansatz, self.group, self.reweight, strings)

    def __repr__(self) -> str:
        walks = "reweighted" if self.reweight else "walked on"
        return f"<Symmetrised: {self.ansatz!r}, {len(self.group)} elements, {walks}>"

    @property
    def execution(self) -> Execution:
        """As the inner state, which meets one image of each walker at a time."""
        inner = self.ansatz.execution
        if inner.bytes_per_walker is None:
            return inner
        rows = 3 * 8 * self.n_params  # dense: of an image, of the sum, and one on the way
        return replace(inner, bytes_per_walker=inner.bytes_per_walker + rows)

    def description(self) -> dict[str, Any]:
        """What the inner state says of itself, and a digest of the group with its characters."""
        inner = self.ansatz.description()
        elements = sorted((*g.key, g.character) for g in self.group.elements)
        digest = sha256(repr(elements).encode()).hexdigest()[:16]
        about = {"elements": len(elements), "group": digest}
        return {**inner, "ansatz": "Symmetrised", "of": inner["ansatz"], "symmetrised": about}

    def for_operator(self, operator: Any) -> "Symmetrised":
        """Give the sum of what the inner state is for an operator, which must have the group."""
        make = "symmetry_group(hamiltonian, ...)"
        require_symmetric("Symmetrised: group", operator, self.group.elements, make, signs=True)
        inner = self.ansatz.for_operator(operator)
        same = inner is self.ansatz and operator.strings == self.strings
        return self if same else self._with(inner, operator.strings)

    def initial(self, operator: Any, seed: int = 0, kind: str | None = None) -> Array:
        """Give theta (P,) as the inner state starts, and as `with_share` changes it."""
        return self.with_share(self.ansatz.initial(operator, seed, kind), seed)

    def share(self, theta: Array, configs: Array) -> float:
        """Give |psi_sym|^2 over |G| sum_g |psi(g s)|^2, both summed over configurations (B, N).

        It is 1 for a state that has these characters, 0 for one that has others.
        """
        parts = self.image_amplitudes(theta, configs)
        xp = array_namespace(theta)
        logs = xp.stack([part.log_abs for part in parts])
        largest = xp.max(logs)
        if not xp.isfinite(largest):
            return 0.0
        sizes = xp.sum(xp.exp(2 * (logs - largest)), axis=0)
        _, _, weight = self._summed(parts)
        return float(xp.sum(weight * sizes) / xp.sum(sizes))

    def with_share(self, theta: Array, seed: int = 0) -> Array:
        """Give theta (P,), on the host, with noise where the sum over the group nearly cancels.

        The ground state that simple update leads to may have none of what is asked for.  All
        parameters get the least noise, 0.03, 0.1 or 0.3 of the largest, that gives a `share` of
        `START_SHARE` in random configurations.
        """
        rng = np.random.Generator(np.random.PCG64(seed))
        noise = rng.standard_normal(theta.shape) * np.abs(theta).max()
        pattern = np.arange(self.lattice.n_sites) % self.local_dim
        configs = rng.permuted(np.tile(pattern, (_PROBES, 1)), axis=1).astype(np.int8)
        for size in (0.0, *_NOISE):
            found = (theta + size * noise).astype(theta.dtype)
            if self.share(found, configs) >= START_SHARE:
                break
        return found

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi_sym(s) for (B, N).  Cost: |G| times that of the ansatz.

        What is below the rounding of the sum counts as zero: a configuration that an element
        of character -1 maps on itself has psi_sym = 0.
        """
        return self._summed(self.image_amplitudes(theta, configs))[0]

    def image_amplitudes(self, theta: Array, configs: Array) -> list[LogAmplitude]:
        """psi(g s) of the ansatz, for every element in turn, each (B,)."""
        found = [self.ansatz.log_amplitude(theta, image) for image in self._images(configs)]
        if self.strings is None:
            return found
        pairs = zip(self.group.elements, found, strict=True)
        return [_signed(each, self.strings.of_image(configs, g.places)) for g, each in pairs]

    def start(self, theta: Array, configs: Array) -> Walkers:
        """Walkers of the ansatz at `configs`, or of psi_sym without `reweight`."""
        if not self.reweight:
            return Walkers(configs, self.log_amplitude(theta, configs))
        inner = self.ansatz.start(theta, configs)
        return Walkers(configs, inner.amplitude, _Shown(inner, configs))

    def sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array
    ) -> tuple[Walkers, SweepInfo]:
        """A sweep of the ansatz, then a random g for each walker; see the class.

        Which one is told by the binary digits of the first column of `uniforms` after the 31st,
        on which acceptance depends by less than one part in 2^31.
        """
        if not self.reweight:
            psi = partial(self.log_amplitude, theta)
            return amplitude_sweep(psi, self.local_dim, walkers, moves, uniforms)
        before: Any = walkers.cache
        inner, info = self.ansatz.sweep(theta, before.walkers, moves, uniforms)
        shown = inner.configs
        if uniforms.shape[1]:
            xp = array_namespace(uniforms)
            digits = uniforms[:, 0] * 2.0**31
            which = xp.floor((digits - xp.floor(digits)) * len(self.group))
            for number, image in enumerate(self._images(inner.configs)):
                shown = xp.where((which == number)[:, None], image, shown)
        return Walkers(inner.configs, inner.amplitude, _Shown(inner, shown)), info

    def measure(
        self, theta: Array, walkers: Walkers, replacements: Targets, *, jacobian: bool = True
    ) -> tuple[Walkers, Snapshot]:
        """Ratios, closures, log-derivatives and (with `reweight`) weights of psi_sym.

        `closure_spread` is sum_g |w_g| times that of g s: what truncation does to ln psi_sym at
        most, which is much where images nearly cancel.  Memory does not grow with the group.

        Raises:
            ValueError: with `jacobian`, where psi is exactly 0 at an image and psi_sym is not.
        """
        shown: Any = walkers.cache if self.reweight else walkers
        configs = shown.configs
        sums = Sums()
        for g, image in zip(self.group.elements, self._images(configs), strict=True):
            tables = {
                moved_patch(patch, g): moved_table(table, patch, g, self.local_dim)
                for patch, table in replacements.items()
            }
            inner = self.ansatz.start(theta, image)
            part = self.ansatz.measure(theta, inner, tables, jacobian=jacobian)[1]
            rows: dict[str, Array] = {}
            if replacements:  # in one array: a product for each patch took a tenth of the time
                found = [part.ratios[moved_patch(patch, g)] for patch in replacements]
                if self.strings is not None:
                    found = self._signed_ratios(found, configs, g, replacements)
                rows[RATIOS] = array_namespace(configs).concat(found, axis=1)
            if part.jacobian is not None:
                rows[DERIVATIVES] = part.jacobian.dense()
            if self.strings is not None:
                signs = self.strings.of_image(configs, g.places)
                part = replace(part, amplitude=_signed(part.amplitude, signs))
            sums.add(float(g.character), part, rows)
        amplitude, shares, weight = self._summed([part.amplitude for part in sums.parts])
        xp = array_namespace(amplitude.phase)
        vanishes = xp.any(xp.stack([part.amplitude.phase for part in sums.parts]) == 0, axis=0)
        lost = int(xp.sum(xp.astype(vanishes & (amplitude.phase != 0), xp.int64)))
        if lost and jacobian:
            raise ValueError(
                f"Symmetrised: psi is exactly 0 at an image of {lost} of {configs.shape[0]} "
                "configurations whose psi_sym is not; their log-derivatives cannot be put together "
                "from those of the images. Add a little noise to the parameters"
            )
        if lost:  # ratios of such an image say nothing of where it leads
            ratios = replacement_ratios(
                partial(self.log_amplitude, theta),
                configs, amplitude, replacements, self.local_dim, self.execution.chunk,
            )  # fmt: skip
        else:
            ratios = sums.ratios(amplitude, replacements)
        derivatives = DenseJacobian(sums.over(amplitude, DERIVATIVES)) if jacobian else None
        kept = weight if self.reweight else None
        return walkers, Snapshot(configs, amplitude, ratios, derivatives, kept, sums.spread(shares))

    def _signed_ratios(
        self, ratios: list[Array], configs: Array, g: Symmetry, replacements: Targets
    ) -> list[Array]:
        """Ratios (B, R) of the image by each patch, times what they change of its sign."""
        strings, found = self.strings, []
        assert strings is not None
        for own, (patch, table) in zip(ratios, replacements.items(), strict=True):
            states = local_states(configs, patch, self.local_dim)
            signs = strings.changes_of_image(configs, states, g.places, patch, table)
            found.append(own * array_namespace(own).astype(signs, own.dtype))
        return found

    def _images(self, configs: Array) -> Iterator[Array]:
        """Yield g s for every element, each (B, N)."""
        xp = array_namespace(configs)
        for g in self.group.elements:
            image = xp.take(configs, xp.asarray(g.sites), axis=1)
            yield self.local_dim - 1 - image if g.inverts else image

    def _summed(self, parts: list[LogAmplitude]) -> tuple[LogAmplitude, list[Array], Array]:
        """psi_sym, the shares w_g = chi(g) psi(g s) / psi_sym (B,) in it, and the weights (B,)."""
        xp = array_namespace(parts[0].phase)
        logs = xp.stack([part.log_abs for part in parts])
        largest = xp.max(logs, axis=0)
        largest = xp.where(xp.isfinite(largest), largest, xp.zeros_like(largest))
        characters = [float(g.character) for g in self.group.elements]
        sizes = xp.exp(logs - largest[None, :])
        terms = [
            chi * part.phase * sizes[k, :]
            for k, (chi, part) in enumerate(zip(characters, parts, strict=True))
        ]
        total = sum(terms[1:], start=terms[0])
        noise = 64 * len(parts) * float(xp.finfo(largest.dtype).eps)
        zero = xp.abs(total) <= noise
        total = xp.where(zero, xp.zeros_like(total), total)
        safe = xp.where(zero, xp.ones_like(total), total)
        shares = [xp.where(zero, xp.zeros_like(term), term / safe) for term in terms]
        squares = xp.sum(sizes**2, axis=0)
        squares = xp.where(squares == 0, xp.ones_like(squares), squares)
        weight = xp.astype(xp.abs(total) ** 2 / (len(parts) * squares), xp.float64)
        return as_log_amplitude(total, largest), shares, weight


def _signed(amplitude: LogAmplitude, signs: Array) -> LogAmplitude:
    phase = amplitude.phase
    signs = array_namespace(phase).astype(signs, phase.dtype)
    return LogAmplitude(phase * signs, amplitude.log_abs)


def inner_state(ansatz: Ansatz) -> Ansatz:
    """Give the wave function that is summed over a group; of any other itself."""
    within: Ansatz = ansatz if ansatz.group is None else ansatz.ansatz  # type: ignore[attr-defined]
    return within


def inner_description(described: Mapping[str, Any]) -> dict[str, Any]:
    """Give what a file says of a symmetrised state as what it would say of the state within."""
    found = dict(described)
    if found.pop("symmetrised", None) is not None:
        found["ansatz"] = found.pop("of")
    return found
