"""Products of two states: psi(s) = psi_a(s) psi_b(s)."""

from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from tnvmc.ansatz.files import InFiles, part_in_file, probe_configs
from tnvmc.ansatz.generic import amplitude_sweep
from tnvmc.ansatz.metropolis import largest_log_ratio
from tnvmc.ansatz.protocol import (
    Ansatz,
    Draw,
    Execution,
    LogAmplitude,
    Snapshot,
    SweepInfo,
    Targets,
    Walkers,
    require_ansatz,
)
from tnvmc.backend.arguments import one_of
from tnvmc.backend.namespace import array_namespace, to_host
from tnvmc.jacobian.dense import as_base
from tnvmc.jacobian.hstack import HStackJacobian
from tnvmc.lattice.lattice import Patch

Array = Any

_LARGEST = 300.0
"""Of ln of a weight against that of the reference: its square is finite still."""


class _Factors(InFiles):
    """What two states give their product: parameters, one after the other, starts and files."""

    first: Ansatz
    second: Ansatz
    sweeps: Literal["first", "both"]

    n_params = 0  #: length P of theta, of both states

    @property
    def execution(self) -> Execution:
        """Chunks and workers as the first state needs them; memory for both."""
        first, second = self.first.execution, self.second.execution
        sizes = first.bytes_per_walker, second.bytes_per_walker
        return Execution(
            min(first.chunk, second.chunk),
            None if None in sizes else sum(sizes),  # type: ignore[arg-type]
            own_threads=first.own_threads and second.own_threads,
            apart=first.apart and second.apart,
        )

    def description(self) -> dict[str, Any]:
        parts = {"first": self.first.description(), "second": self.second.description()}
        return {**super().description(), "architecture": parts}

    def rebuild(self) -> dict[str, Any] | None:
        """Give what makes both states again; None if one has no such words."""
        parts = {"first": part_in_file(self.first), "second": part_in_file(self.second)}
        return None if None in parts.values() else {**parts, "sweeps": self.sweeps}

    def for_operator(self, operator: Any) -> Any:
        """Give the product of what both states are for an operator."""
        first, second = (each.for_operator(operator) for each in (self.first, self.second))
        if first is self.first and second is self.second:
            return self
        return ProductOfStates(first, second, self.sweeps)

    def split(self, theta: Array) -> tuple[Array, Array]:
        """Give theta_a and theta_b out of theta (P,)."""
        return theta[: self.first.n_params], theta[self.first.n_params :]

    def initial(self, operator: Any, seed: int = 0, kind: str | None = None) -> Array:
        """Give theta (P,) as psi_a starts, with psi_b nearly constant; see `initial_second`."""
        return self.initial_second(self.first.initial(operator, seed, kind), operator, seed)

    def initial_second(
        self, first: Array, operator: Any, seed: int = 0, kind: str | None = None
    ) -> Array:
        """Give theta (P,) of theta_a, and psi_b made `nearly_constant` from its start of a kind."""
        second = to_host(self.second.initial(operator, seed, kind))
        return self.joined(to_host(first), nearly_constant(self.second, second))

    def joined(self, first: Array, second: Array) -> Array:
        """Give theta (P,) of theta_a and theta_b."""
        xp = array_namespace(first, second)
        return xp.concat([first, xp.astype(second, first.dtype)])


class ProductOfStates(_Factors):
    """psi(s) = psi_a(s) psi_b(s), with the parameters of both: theta = (theta_a, theta_b).

    Args:
        first: psi_a.
        second: psi_b, on the same sites; its parameters have the same type.
        sweeps: whose |psi|^2 chains walk on.  "first": |psi_a|^2, by the sweeps of psi_a; samples
            have the weights |psi_b|^2.  "both": |psi_a psi_b|^2, every move by full amplitudes of
            both; no weights.  None: "first" where psi_a is contracted with boundaries, which its
            sweeps use again and full amplitudes do not (PEPS, open MPS); else "both".

    With "first" a snapshot has the weight |psi_b(s)|^2 over that of a reference configuration,
    times the weight that psi_a gave it, if any: importance sampling, with a bias of one over the
    number of samples.  The effective number of samples falls as exp(-Var ln |psi_b|^2) where that
    is Gaussian; configurations where psi_a = 0 are never seen. "both" has neither, at the cost of
    two full amplitudes a move (decision 26).

    Starts where psi_a starts, with psi_b nearly constant (`initial`).  Cost of a measurement: one
    of psi_a, and one `start` and `measure` of psi_b.

    What it does not do: orbits; grow in D; be symmetrised with sweeps of psi_a.

    Raises:
        ValueError: different sites, local dimensions or types of the parameters; other `sweeps`.

    Source: products of tensor networks with a reference state: Sikora, Chang, Chou, Pollmann and
    Kao, PRB 91, 165113 (2015); weights as in Owen, chapter 9.2.
    """

    def __init__(
        self, first: Ansatz, second: Ansatz, sweeps: Literal["first", "both"] | None = None
    ) -> None:
        _check(first, second)
        one_of("ProductOfStates", "sweeps", sweeps, (None, "first", "both"))
        self.first, self.second = first, second
        self.n_params = first.n_params + second.n_params
        self.lattice, self.local_dim, self.dtype = first.lattice, first.local_dim, first.dtype
        self.scheme, self.scheme_given = first.scheme, first.scheme_given
        self.starts = first.starts
        self.sweeps = sweeps or ("both" if first.scheme is None else "first")
        self.sharing = first.sharing or second.sharing
        if self.sharing:
            self.n_unshared = sum(each.n_unshared or each.n_params for each in (first, second))
        self.tempered = first.tempered
        self.exact_draws = None if first.exact_draws is None else False
        self.weighted = self.sweeps == "first"

    @property
    def kept_by(self) -> tuple[Patch, ...]:
        """See `Abilities.kept_by`: those of both factors."""
        return tuple(g for g in self.first.kept_by if g in self.second.kept_by)

    def with_scheme(self, scheme: Any) -> "ProductOfStates":
        return ProductOfStates(self.first.with_scheme(scheme), self.second, self.sweeps)

    def drawer(self, theta: Array, chi: int | None = None, chi_mpo: int | None = None) -> Draw:
        """Give draws of the first state, which weights correct."""
        return self.first.drawer(self.split(theta)[0], chi, chi_mpo)

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        states = zip((self.first, self.second), self.split(theta), strict=True)
        return _product(*(state.log_amplitude(own, configs) for state, own in states))

    def start(self, theta: Array, configs: Array) -> Walkers:
        """Walkers of psi_a, or with "both" of psi."""
        if self.sweeps == "both":
            return Walkers(configs, self.log_amplitude(theta, configs))
        return self.first.start(self.split(theta)[0], configs)

    def sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array
    ) -> tuple[Walkers, SweepInfo]:
        """A sweep of psi_a, or with "both" every move once by full amplitudes."""
        if self.sweeps == "both":
            psi = partial(self.log_amplitude, theta)
            return amplitude_sweep(psi, self.local_dim, walkers, moves, uniforms)
        return self.first.sweep(self.split(theta)[0], walkers, moves, uniforms)

    def tempered_sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array, power: Array
    ) -> tuple[Walkers, SweepInfo]:
        """Make a `sweep` of walkers that sample |psi_a|^(2 power), or |psi|^(2 power): (B,)."""
        if self.sweeps == "both":
            psi = partial(self.log_amplitude, theta)
            return amplitude_sweep(psi, self.local_dim, walkers, moves, uniforms, power)
        first = self.split(theta)[0]
        return self.first.tempered_sweep(first, walkers, moves, uniforms, power)

    def measure(
        self, theta: Array, walkers: Walkers, replacements: Targets, *, jacobian: bool = True
    ) -> tuple[Walkers, Snapshot]:
        """Ratios and log-derivatives of psi; with sweeps of psi_a the weights |psi_b|^2.

        `closure_spread` is the sum of those of both.

        Raises:
            ValueError: a weight that is too large for a number.
        """
        own, other = self.split(theta)
        inner = walkers if self.sweeps == "first" else self.first.start(own, walkers.configs)
        after, a = self.first.measure(own, inner, replacements, jacobian=jacobian)
        there = self.second.start(other, a.configs)
        b = self.second.measure(other, there, replacements, jacobian=jacobian)[1]
        rows = None
        if a.jacobian is not None and b.jacobian is not None:
            rows = HStackJacobian((as_base(a.jacobian), as_base(b.jacobian)))
        spreads = [each for each in (a.closure_spread, b.closure_spread) if each is not None]
        snapshot = replace(
            a,
            amplitude=_product(a.amplitude, b.amplitude),
            ratios={patch: _ratios(a.ratios[patch], b.ratios[patch]) for patch in replacements},
            jacobian=rows,
            closure_spread=sum(spreads) if spreads else None,
        )
        if self.sweeps == "both":
            return walkers, replace(snapshot, weight=None)
        weight = self._weights(other, b.amplitude)
        weight = weight if a.weight is None else a.weight * weight
        return after, replace(snapshot, weight=weight)

    def _weights(self, theta: Array, amplitude: LogAmplitude) -> Array:
        """|psi_b|^2 over that of a reference configuration: (B,)."""
        xp = array_namespace(amplitude.log_abs)
        pattern = xp.arange(self.lattice.n_sites)[None, :] % self.local_dim
        reference = self.second.log_amplitude(theta, xp.astype(pattern, xp.int8)).log_abs[0]
        scale = float(reference) if bool(xp.isfinite(reference)) else 0.0
        log_abs = xp.astype(amplitude.log_abs, xp.float64)
        alive = amplitude.phase != 0
        gap = 2.0 * (xp.where(alive, log_abs, xp.zeros_like(log_abs)) - scale)
        if bool(xp.any(alive & (gap > _LARGEST))):
            raise ValueError(
                f"ProductOfStates: |psi_b|^2 is e^{float(xp.max(gap)):.0f} times that of the "
                "reference configuration, so a few samples would have all of the weight. The "
                "second state is no correction of the first one any more; take smaller steps, or "
                "sweeps = 'both'"
            )
        return xp.where(alive, xp.exp(gap), xp.zeros_like(gap))


def _check(first: Ansatz, second: Ansatz) -> None:
    for name, state in (("first", first), ("second", second)):
        require_ansatz("ProductOfStates", name, state)
    if first.local_dim != second.local_dim:
        raise ValueError(
            f"ProductOfStates: the first state has {first.local_dim} local states, the second "
            f"{second.local_dim}; both must be of one lattice"
        )
    if first.lattice != second.lattice:
        raise ValueError(
            f"ProductOfStates: the first state is on {first.lattice!r}, the second on "
            f"{second.lattice!r}; sites of the same number must be the same ones, so make both "
            "with one lattice"
        )
    types = [
        "unknown" if state.dtype is None else str(np.dtype(state.dtype))
        for state in (first, second)
    ]
    if types[0] != types[1] or "unknown" in types:
        raise ValueError(
            f"ProductOfStates: the parameters of the first state are {types[0]}, those of the "
            f"second {types[1]}; they are one vector of one type. Give both the same dtype (in a "
            f"file ansatz.second.dtype = {types[0]!r}); a network with real parameters and output "
            "= 'complex' has phases as well"
        )


def _product(a: LogAmplitude, b: LogAmplitude) -> LogAmplitude:
    """psi_a psi_b."""
    return LogAmplitude(a.phase * b.phase, a.log_abs + b.log_abs)


def _ratios(a: Array, b: Array) -> Array:
    """Products of ratios, cut as each of them is: their squares must be finite."""
    xp = array_namespace(a, b)
    product = a * b
    size = xp.abs(product)
    largest = float(np.exp(largest_log_ratio(xp, size.dtype)))
    return product * xp.where(size > largest, largest / xp.where(size == 0, 1.0, size), 1.0)


LARGEST = 0.02
"""Standard deviation of ln psi, over a few configurations, that counts as nearly constant.  With
0.05 a CNN with random phases raised the energy of an optimised PEPS by 5e-3 of itself."""

_HALVINGS = 20


def nearly_constant(ansatz: Ansatz, theta: np.ndarray) -> np.ndarray:
    """Halve parameters (P,) until ln psi differs by `LARGEST` at most between configurations.

    The deviation is that over 16 configurations of one sector.  Of a network with a readout only
    that is halved, so that the layers before it keep their features; else, or where this is not
    enough, all parameters are.  Parameters of a state that does not get there (tensors, or signs
    that are fixed) come back as they are: the product starts elsewhere then.
    """
    configs, readout = probe_configs(ansatz), ansatz.readout
    for which in ([] if readout is None else [readout]) + [np.ones(theta.shape, dtype=bool)]:
        smaller = theta
        for _ in range(_HALVINGS):
            if deviation(ansatz, smaller, configs) <= LARGEST:
                return smaller
            smaller = np.where(which, smaller / 2, smaller)
    return theta


def deviation(ansatz: Ansatz, theta: np.ndarray, configs: np.ndarray) -> float:
    """Give the standard deviation of ln psi, its phase relative to the first configuration."""
    amplitude = ansatz.log_amplitude(theta, configs)
    log_abs, phase = to_host(amplitude.log_abs), to_host(amplitude.phase)
    if not (np.isfinite(log_abs).all() and (phase != 0).all()):
        return float("inf")
    return float(np.std(log_abs + 1j * np.angle(phase / phase[0])))
