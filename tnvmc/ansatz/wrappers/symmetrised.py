"""A wave function made symmetric: psi_sym(s) = sum_g chi(g) psi(g s) over a finite group.

Measuring with restored symmetry lowers the energy of a good state at no cost in parameters (spin
inversion: Liu, Huang, Gong and Gu, PRB 103, 235155 (2021); projection in general: Mizusaki and
Imada, PRB 69, 125110 (2004)).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any

import numpy as np

from tnvmc.ansatz.generic import amplitude_sweep, as_log_amplitude, replacement_ratios
from tnvmc.ansatz.jacobian import DenseJacobian, is_complex
from tnvmc.ansatz.protocol import (
    Ansatz,
    Execution,
    FollowsOperator,
    Jacobian,
    LogAmplitude,
    Reweighted,
    Snapshot,
    SweepInfo,
    Targets,
    Walkers,
    description_of,
)
from tnvmc.ansatz.wrappers.base import OF_STATE, Wrapper
from tnvmc.backend.namespace import array_namespace, to_namespace
from tnvmc.lattice.lattice import Patch
from tnvmc.operators.symmetry import Symmetry, SymmetryGroup

Array = Any


@dataclass(frozen=True)
class _Shown:
    """Walkers of the ansatz, and their images to be measured next."""

    walkers: Walkers
    configs: Array  #: (B, N)


class Symmetrised(Wrapper):
    """The sum of a wave function over a group, with the parameters of the wave function.

    Args:
        ansatz: the wave function psi.
        group: symmetries g with their characters chi(g) = +-1; see
            `tnvmc.operators.symmetry.symmetry_group`.
        reweight: walk with the sweeps of `ansatz` itself and weigh the samples (below); False
            walks on |psi_sym|^2 by full amplitudes, |G| of them per move: for small systems.

    A measurement costs |G| times `start` and `measure` of `ansatz` and gives ratios by
    psi_sym(s')/psi_sym(s) = sum_g w_g psi(g s')/psi(g s), w_g = chi(g) psi(g s)/psi_sym(s), and
    log-derivatives sum_g w_g O(g s), dense: M P numbers.

    Reweighting: chains draw s from |psi|^2 as they do without symmetry, and every sweep ends by
    picking for each walker a random g; a measurement looks at g s.  Such configurations are
    distributed as q(s) = sum_g |psi(g s)|^2 / |G|, and the snapshot gives them the weight
    |psi_sym(s)|^2 / (|G|^2 q(s)), which lies between 0 and 1, whatever psi is, and is 1 where psi
    is symmetric already.  Hence no configuration is missed and no weight diverges, as may happen
    with the plain |psi_sym/psi|^2.  `estimate.statistics.weighted_estimate` takes it from there.
    Walkers stay those of `ansatz`, configurations and amplitudes; snapshots are of psi_sym.

    What it does not do: complex characters, representations of higher dimension, translations.

    Raises:
        ValueError: a group of another number of sites; a state that walks on another distribution.
    """

    abilities = OF_STATE

    def __init__(self, ansatz: Ansatz, group: SymmetryGroup, reweight: bool = True) -> None:
        if any(len(g.sites) != ansatz.lattice.n_sites for g in group.elements):
            raise ValueError(
                f"Symmetrised: the group moves {len(group.elements[0].sites)} sites, the ansatz "
                f"has {ansatz.lattice.n_sites}"
            )
        if isinstance(ansatz, Symmetrised):
            raise ValueError(  # noqa: TRY004 (of what is allowed, a state among others)
                "Symmetrised: this state is a sum over symmetries already; make one group of all of them, "
                "symmetry_group(operator, [...]), and sum the state within over it"
            )
        if reweight and isinstance(ansatz, Reweighted) and ansatz.weighted:
            raise ValueError(
                "Symmetrised: its weights are those of chains that sample |psi|^2, and this "
                f"{type(ansatz).__name__} walks on its first state alone; make it with sweeps = 'both' "
                "(ansatz.sweeps in a file), or symmetrise nothing"
            )
        self.ansatz, self.group, self.reweight = ansatz, group, reweight

    @property
    def execution(self) -> Execution:
        """As the inner state, which meets one image of each walker at a time.

        Log-derivatives are summed as dense rows, for which a walker takes more memory.
        """
        inner = super().execution
        if inner.bytes_per_walker is None:
            return inner
        rows = 8 * len(self.group) * self.n_params
        return replace(inner, bytes_per_walker=inner.bytes_per_walker + rows)

    def description(self) -> dict[str, Any]:
        """What the inner state says of itself, and a digest of the group with its characters."""
        inner = description_of(self.ansatz)
        elements = sorted((*g.key, g.character) for g in self.group.elements)
        digest = sha256(repr(elements).encode()).hexdigest()[:16]
        about = {"elements": len(elements), "group": digest}
        return {
            **inner,
            "ansatz": self.family.__name__,
            "of": inner["ansatz"],
            "symmetrised": about,
        }

    def for_operator(self, operator: Any) -> Symmetrised:
        """The sum of what the inner state is for an operator; see `FollowsOperator`."""
        if not isinstance(self.ansatz, FollowsOperator):
            return self
        inner = self.ansatz.for_operator(operator)
        return self if inner is self.ansatz else Symmetrised(inner, self.group, self.reweight)

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi_sym(s) for (B, N).  Cost: |G| times that of the ansatz.

        What is below the rounding of the sum counts as zero: a configuration that an element
        of character -1 maps on itself has psi_sym = 0.
        """
        return self._summed(self.image_amplitudes(theta, configs))[0]

    def image_amplitudes(self, theta: Array, configs: Array) -> list[LogAmplitude]:
        """psi(g s) of the ansatz, for every element in turn, each (B,)."""
        return [self.ansatz.log_amplitude(theta, image) for image in self._images(configs)]

    def log_derivatives(self, theta: Array, configs: Array) -> Array:
        """O_k(s) = d ln psi_sym(s) / d theta_k, dense (B, P), zero where psi_sym = 0."""
        return self.jacobian(theta, configs).dense()

    def jacobian(self, theta: Array, configs: Array) -> Jacobian:
        """Log-derivatives at `configs`."""
        jacobian = self.measure(theta, self.start(theta, configs), {})[1].jacobian
        assert jacobian is not None
        return jacobian

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
        inner, info = self.ansatz.sweep(theta, self._shown(walkers).walkers, moves, uniforms)
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

        `closure_spread` is the largest over the images.

        Raises:
            ValueError: with `jacobian`, where psi is exactly 0 at an image and psi_sym is not.
        """
        configs = self._shown(walkers).configs if self.reweight else walkers.configs
        xp = array_namespace(configs)
        parts = []
        for g, image in zip(self.group.elements, self._images(configs), strict=True):
            tables = {
                moved_patch(patch, g): moved_table(table, patch, g, self.local_dim)
                for patch, table in replacements.items()
            }
            inner = self.ansatz.start(theta, image)
            parts.append(self.ansatz.measure(theta, inner, tables, jacobian=jacobian)[1])
        amplitude, shares, weight = self._summed([part.amplitude for part in parts])
        lost = self._vanishing(amplitude, [part.amplitude for part in parts])
        if lost:  # ratios of such an image say nothing of where it leads
            ratios = replacement_ratios(
                lambda changed: self.log_amplitude(theta, changed),
                configs, amplitude, replacements, self.local_dim, self.execution.chunk,
            )  # fmt: skip
        else:
            ratios = {
                patch: _mixed(
                    shares,
                    [
                        part.ratios[moved_patch(patch, g)]
                        for g, part in zip(self.group.elements, parts, strict=True)
                    ],
                )
                for patch in replacements
            }
        if lost and jacobian:
            raise ValueError(
                f"Symmetrised: psi is exactly 0 at an image of {lost} of {configs.shape[0]} "
                "configurations whose psi_sym is not; their log-derivatives cannot be put together "
                "from those of the images. Add a little noise to the parameters"
            )
        derivatives = None
        if jacobian:
            blocks = [part.jacobian.dense() for part in parts if part.jacobian is not None]
            derivatives = DenseJacobian(_mixed(shares, blocks))
        spreads = [part.closure_spread for part in parts]
        snapshot = Snapshot(
            configs,
            amplitude,
            ratios,
            derivatives,
            weight if self.reweight else None,
            None if spreads[0] is None else xp.max(xp.stack(spreads), axis=0),
        )
        return walkers, snapshot

    @staticmethod
    def _vanishing(amplitude: LogAmplitude, parts: list[LogAmplitude]) -> int:
        """Number of configurations with psi_sym other than 0 and psi = 0 at one of their images."""
        xp = array_namespace(amplitude.phase)
        smallest = xp.min(xp.stack([xp.abs(part.phase) for part in parts]), axis=0)
        return int(xp.sum(xp.astype((smallest == 0) & (amplitude.phase != 0), xp.int64)))

    @staticmethod
    def _shown(walkers: Walkers) -> _Shown:
        if not isinstance(walkers.cache, _Shown):
            raise TypeError("Symmetrised: make these walkers with start(theta, configs)")
        return walkers.cache

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
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        noise = 64 * len(parts) * float(xp.finfo(largest.dtype).eps)
        zero = xp.abs(total) <= noise
        total = xp.where(zero, xp.zeros_like(total), total)
        safe = xp.where(zero, xp.ones_like(total), total)
        shares = [xp.where(zero, xp.zeros_like(term), term / safe) for term in terms]
        squares = xp.sum(sizes**2, axis=0)
        squares = xp.where(squares == 0, xp.ones_like(squares), squares)
        weight = xp.astype(xp.abs(total) ** 2 / (len(parts) * squares), xp.float64)
        return as_log_amplitude(total, largest), shares, weight


def inner_state(ansatz: Ansatz) -> Ansatz:
    """Give the wave function that is summed over a group; of any other itself."""
    return ansatz.ansatz if isinstance(ansatz, Symmetrised) else ansatz


def inner_description(described: Mapping[str, Any]) -> dict[str, Any]:
    """Give what a file says of a symmetrised state as what it would say of the state within."""
    found = dict(described)
    if found.pop("symmetrised", None) is not None:
        found["ansatz"] = found.pop("of")
    return found


def moved_patch(patch: Patch, symmetry: Symmetry) -> Patch:
    """Where the sites of a patch are in g s, in increasing order."""
    return tuple(sorted(symmetry.places[site] for site in patch))


def moved_table(table: Array, patch: Patch, symmetry: Symmetry, local_dim: int) -> Array:
    """Replacements (d^k, R) of a patch of s, as those of the same sites in g s.

    Columns stay where they are, so column r of both leads to the same configuration.
    """
    xp = array_namespace(table)
    places = [symmetry.places[site] for site in patch]
    order = tuple(sorted(range(len(patch)), key=places.__getitem__))
    there, back = _relabelled(order, symmetry.inverts, local_dim)
    rows = xp.take(table, to_namespace(back, xp), axis=0)
    safe = xp.where(rows < 0, xp.zeros_like(rows), rows)
    moved = xp.take(to_namespace(there, xp), xp.reshape(safe, (-1,)), axis=0)
    return xp.where(rows < 0, rows, xp.astype(xp.reshape(moved, rows.shape), rows.dtype))


@lru_cache(maxsize=256)
def _relabelled(
    order: tuple[int, ...], inverts: bool, local_dim: int
) -> tuple[np.ndarray, np.ndarray]:
    """New local state of every old one when digit j comes from digit order[j]; and the inverse."""
    digits = np.indices((local_dim,) * len(order)).reshape(len(order), -1)
    digits = digits[list(order)]
    if inverts:
        digits = local_dim - 1 - digits
    there = np.array(np.ravel_multi_index(tuple(digits), (local_dim,) * len(order)), dtype=np.int64)
    return there, np.argsort(there).astype(np.int64)


def _mixed(shares: list[Array], values: list[Array]) -> Array:
    """sum_g w_g x_g for values (B, ...) of every image."""
    xp = array_namespace(values[0])
    total = None
    for share, value in zip(shares, values, strict=True):
        factor = share[:, None]
        if is_complex(factor) != is_complex(value):
            dtype = factor.dtype if is_complex(factor) else value.dtype
            factor, value = xp.astype(factor, dtype), xp.astype(value, dtype)
        term = factor * value
        total = term if total is None else total + term
    return total
