"""States that another one is kept orthogonal to, and its overlaps with them.

Adding a penalty to the energy, H + sum_k lambda_k |phi_k><phi_k| / <phi_k|phi_k>, makes the lowest
state that is orthogonal to all phi_k the ground state, where every lambda_k is above its distance
from them (Choo, Carleo, Regnault and Neupert, PRL 121, 167204 (2018); Pathak, Busemeyer, Rodrigues
and Wagner, J. Chem. Phys. 154, 034101 (2021)).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from tnvmc.ansatz.metropolis import amplitude_ratio
from tnvmc.ansatz.protocol import Ansatz, LogAmplitude, Snapshot
from tnvmc.backend.namespace import array_namespace, is_complex, to_host, to_namespace
from tnvmc.estimate.bridge import Side, bridged
from tnvmc.estimate.observables import local_energy
from tnvmc.estimate.statistics import Estimate, estimate_samples
from tnvmc.operators.properties import fingerprint
from tnvmc.operators.term import Operator
from tnvmc.sampling import streams
from tnvmc.sampling.configurations import sectors_of
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.sampling.problem import Point, Problem, SampleInfo, Samples
from tnvmc.sampling.workers import chunks, in_chunks
from tnvmc.storage.identity import parameters_hash

Array = Any

POOL = 4096
"""Samples of a lower state that steps take their part from, in turn.  What is orthogonal in all of
them may have a squared overlap of one over their number."""

_BURN = 50  # sweeps before them: its walkers may be anywhere


@dataclass(frozen=True)
class Overlap:
    """|<psi|phi>|^2 / (<psi|psi> <phi|phi>) of a state with a lower one."""

    squared: float
    error: float  #: standard error; an estimate near 0 may be negative
    penalty: float  #: lambda, in the units of the Hamiltonian


@dataclass(frozen=True, eq=False)
class LowerState:
    """A state phi that another one, psi, is kept orthogonal to.

    Args:
        problem: its ansatz; the Hamiltonian and the sector are those of psi.
        point: its parameters, and where walkers start.
        sampler: how it is sampled.
        penalty: lambda; see the module.

    Its samples are drawn once, when they are first needed: `POOL` of them, or all configurations.
    """

    problem: Problem
    point: Point
    sampler: Samples
    penalty: float

    @cached_property
    def samples(self) -> tuple[Snapshot, SampleInfo]:
        """Configurations with amplitudes that steps take their part from."""
        return self.draw(POOL, streams.KEPT)

    @cached_property
    def fingerprint(self) -> str:
        """What identifies its parameters, bit for bit."""
        return parameters_hash(np.asarray(to_host(self.point.theta)))

    def draw(self, n_samples: int, stream: int) -> tuple[Snapshot, SampleInfo]:
        """Draw configurations of |phi|^2, with amplitudes and nothing else."""
        sampler = everywhere(self.sampler).for_measurement(n_samples, _BURN)
        problem = replace(self.problem, targets={})
        snapshot, _, info = sampler.draw(problem, self.point, stream, jacobian=False)
        return snapshot, info

    @cached_property
    def energy(self) -> Estimate:
        """Its energy, from a fourth of as many samples."""
        sampler = everywhere(self.sampler).for_measurement(POOL // 4, _BURN)
        snapshot, _, info = sampler.draw(self.problem, self.point, streams.KEPT + 2, jacobian=False)
        local = local_energy(self.problem.operator, snapshot)
        return estimate_samples(local, snapshot.weight, info)

    def part(self, n_samples: int, number: int) -> tuple[Snapshot, SampleInfo]:
        """Give about `n_samples` of `samples`, others for each number until all had their turn."""
        snapshot, info = self.samples
        n_draws = max(1, min(info.n_draws, -(-n_samples // info.n_walkers)))
        if info.exact or n_draws == info.n_draws:
            return snapshot, info
        begin = number % (info.n_draws // n_draws) * n_draws * info.n_walkers
        chosen = slice(begin, begin + n_draws * info.n_walkers)
        amplitude, weight = snapshot.amplitude, snapshot.weight
        taken = replace(
            snapshot,
            configs=snapshot.configs[chosen, :],
            amplitude=LogAmplitude(amplitude.phase[chosen], amplitude.log_abs[chosen]),
            weight=None if weight is None else weight[chosen],
        )
        return taken, replace(info, n_draws=n_draws)

    def check(self, problem: Problem) -> None:
        """Refuse to keep another problem's state away from this one.

        Raises:
            ValueError: of another Hamiltonian; in another sector, where states are orthogonal as
                they are.
        """
        own = self.problem
        if fingerprint(own.operator) != fingerprint(problem.operator):
            raise ValueError(
                f"orthogonal_to: a state found for {own.operator.name} on "
                f"{own.operator.lattice.size}, and here {problem.operator.name} on "
                f"{problem.operator.lattice.size} with its own couplings; an excited state is "
                "orthogonal to states of the same Hamiltonian. Give one of these"
            )
        if own.magnetisation != problem.magnetisation:
            raise ValueError(
                f"orthogonal_to: a state with 2 Sz = {own.magnetisation}, and here 2 Sz = "
                f"{problem.magnetisation}: they are orthogonal without a penalty. Leave it out"
            )


@dataclass(frozen=True)
class SampledState:
    """A state psi at one theta, and samples of it."""

    ansatz: Ansatz
    theta: Array  #: (P,)
    snapshot: Snapshot
    info: SampleInfo
    threads: int | None = None
    sector: tuple[Operator, int] | None = None
    """A Hamiltonian and its sector, outside of which psi counts as 0; None: it is left as it is."""

    def amplitudes(self, configs: Array) -> LogAmplitude:
        """psi at other configurations (M, N)."""
        if self.sector is None:
            return _amplitudes(self.ansatz, self.theta, configs, self.threads)
        inside = np.flatnonzero(sectors_of(self.sector[0], configs) == self.sector[1])
        phase, log_abs = np.zeros(len(configs), complex), np.full(len(configs), -np.inf)
        if len(inside):
            some = to_host(configs)[inside]
            found = _amplitudes(self.ansatz, self.theta, some, self.threads)
            phase[inside], log_abs[inside] = to_host(found.phase), to_host(found.log_abs)
        return LogAmplitude(phase, log_abs)


def everywhere(sampler: Samples) -> Samples:
    """The same sampler, of no orbits: a lower state may lack symmetries."""
    if isinstance(sampler, Enumerate | DirectSampler):
        return replace(sampler, by_orbit=False)
    return sampler


def repeated(lower: Sequence[LowerState]) -> tuple[int, int] | None:
    """Give the numbers of two lower states that have the same parameters, from 1; None where all
    differ.
    """
    seen: dict[str, int] = {}
    for number, each in enumerate(lower, 1):
        if (before := seen.setdefault(each.fingerprint, number)) != number:
            return before, number
    return None


def penalties(
    lower: Sequence[LowerState], seen: SampledState, number: int
) -> tuple[Array | None, tuple[Overlap, ...]]:
    """Give what all penalties add to the local energies (M,), None without any, and the overlaps.

    With B = <phi|psi> / <phi|phi>, the mean of psi(t) / phi(t) over samples t of phi, a penalty
    adds lambda B phi(s) / psi(s) to the local energy at s: its mean is lambda times the squared
    overlap.

    Cost: an amplitude of psi and one of phi for each sample.
    """
    added, overlaps = None, []
    for each in lower:
        local, found = _penalty(each, seen, each.part(len(seen.snapshot.configs), number))
        overlaps.append(found)
        added = local if added is None else added + local
    return added, tuple(overlaps)


def overlap(lower: LowerState, seen: SampledState) -> Overlap:
    """Estimate a squared overlap from as many new samples of one state as of the other."""
    samples = lower.draw(len(seen.snapshot.configs), streams.KEPT + 1)
    return _penalty(lower, seen, samples)[1]


def _penalty(
    lower: LowerState, seen: SampledState, samples: tuple[Snapshot, SampleInfo]
) -> tuple[Array, Overlap]:
    of_phi, info = samples
    psi, phi = seen.amplitudes(of_phi.configs), of_phi.amplitude
    # Norms of the two states differ by any factor, which the product of the ratios does not have.
    size = _typical(psi.log_abs - phi.log_abs)
    from_phi = amplitude_ratio(_scaled(psi, -size), phi)
    at, phi_state = seen.snapshot.configs, lower.problem.ansatz
    there = _amplitudes(phi_state, lower.point.theta, at, seen.threads)
    from_psi = amplitude_ratio(_scaled(there, size), seen.snapshot.amplitude)
    mean = _mean(from_phi, of_phi.weight, info)
    found = bridged(Side.of(seen.snapshot, there, seen.info), Side.of(of_phi, psi, info))
    squared = Overlap(found.squared, found.squared_error, lower.penalty)
    return (lower.penalty * mean) * from_psi, squared


def _mean(values: Array, weight: Array | None, info: SampleInfo) -> complex | float:
    """Mean of ratios; a float where they are real."""
    xp = array_namespace(values)
    if not is_complex(values):
        return float(estimate_samples(values, weight, info).mean)
    parts = xp.real(values), xp.imag(values)
    return complex(*(estimate_samples(part, weight, info).mean for part in parts))


def _scaled(amplitude: LogAmplitude, log_factor: float) -> LogAmplitude:
    return LogAmplitude(amplitude.phase, amplitude.log_abs + log_factor)


def _typical(logs: Array) -> float:
    """Median of the finite ones, 0 where there are none."""
    xp = array_namespace(logs)
    finite = logs[xp.isfinite(logs)]
    return float(xp.sort(finite)[finite.shape[0] // 2]) if finite.shape[0] else 0.0


def _amplitudes(ansatz: Ansatz, theta: Array, configs: Array, threads: int | None) -> LogAmplitude:
    xp = array_namespace(theta)
    configs = to_namespace(configs, xp)
    task = partial(_of_chunk, ansatz, theta, configs)
    parts = in_chunks(task, chunks(configs.shape[0], ansatz, xp), ansatz, xp, threads)
    return LogAmplitude(*(xp.concat([getattr(x, n) for x in parts]) for n in ("phase", "log_abs")))


def _of_chunk(ansatz: Ansatz, theta: Array, configs: Array, chunk: range) -> LogAmplitude:
    return ansatz.log_amplitude(theta, configs[chunk.start : chunk.stop, :])


def largest_change_by_a_site(operator: Operator) -> float:
    """Give what changing one site can change the energy by: a penalty above any gap of one changed
    site.

    The largest sum, over the terms at one site, of the distance between their lowest and highest
    level.
    """
    at = np.zeros(operator.n_sites)
    for term in operator.terms:
        levels = np.linalg.eigvalsh(np.asarray(term.matrix))
        at[list(term.sites)] += levels[-1] - levels[0]
    return float(at.max())
