"""The sampling loop: burn in, thin, measure; walkers in chunks, chunks in threads."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np

from tnvmc.ansatz.jacobian import concatenate
from tnvmc.ansatz.protocol import Ansatz, LogAmplitude, Snapshot, Targets, Walkers
from tnvmc.ansatz.wrappers.mixed import Mixed
from tnvmc.backend.namespace import array_namespace, to_namespace
from tnvmc.backend.random import uniforms
from tnvmc.operators.term import Operator
from tnvmc.sampling.chunks import chunks, in_chunks
from tnvmc.sampling.tempering import EXCHANGE_PASS, check_tempers, coldest, exchanged, powers

Array = Any
T = TypeVar("T")


@dataclass(frozen=True)
class Sampler:
    """How to sample: W walkers, each making n_burn sweeps and then n_draws draws.

    A draw is n_thin sweeps and a measurement of every walker; n_draws is `n_samples`/W, rounded
    up.  `threads` defaults to the cores available.  `chunk` is the number of walkers that move
    in one batch; by default what the ansatz hints at (64 without a hint), but at most half of the
    walkers, so that two threads have work.  Results do not depend on `threads` in any bit, and
    on `chunk` by rounding only.  With `n_replicas` R > 1 each walker is the coldest of R tempered
    ones (`sampling.tempering`), for chains that stick: R times the sweeps, as many measurements.
    With `precision` "single" chains walk in single precision and samples are measured in double
    and weighted (`ansatz.mixed`).  With a `power` p < 1 chains draw from |psi|^(2 p) and samples are
    weighted by |psi|^(2 - 2 p), so that configurations where psi is small are seen and their signs
    can turn; importance sampling as in Owen, chapter 9.2 (see `estimate.statistics`).  For an ansatz
    that takes replicas.
    """

    n_walkers: int = 128
    n_samples: int = 512
    n_burn: int = 1
    n_thin: int = 1
    n_replicas: int = 1
    threads: int | None = None
    chunk: int | None = None
    precision: Literal["single"] | None = None
    power: float = 1.0

    def __post_init__(self) -> None:
        lowest = {
            "n_walkers": 1,
            "n_samples": 1,
            "n_burn": 0,
            "n_thin": 1,
            "n_replicas": 1,
            "threads": 1,
            "chunk": 1,
        }
        for name, least in lowest.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"Sampler: {name} must be at least {least}, got {value}")
        if not 0 < self.power <= 1 or self.power < 1 and self.n_replicas > 1:
            raise ValueError(
                f"Sampler: power must lie in 0 < power <= 1, and be 1 with replicas, got {self.power} "
                f"and n_replicas = {self.n_replicas}"
            )
        if self.precision not in (None, "single"):
            raise ValueError(f"Sampler: precision must be 'single' or None, got {self.precision!r}")

    @property
    def n_draws(self) -> int:
        """Draws per walker; n_draws * n_walkers >= n_samples samples are returned."""
        return -(-self.n_samples // self.n_walkers)

    @property
    def n_configs(self) -> int:
        """Configurations in flight: all replicas of all walkers."""
        return self.n_walkers * self.n_replicas

    def chunks(self, ansatz: Ansatz, xp: Any = np) -> list[range]:
        """Walkers of each chunk; see `sampling.chunks`."""
        return chunks(self.n_walkers, ansatz, xp, self.chunk, self.n_replicas)


@dataclass(frozen=True)
class SampleInfo:
    """What sampling reports beside the samples."""

    acceptance: float  #: accepted / possible moves of the measured chains; 0 if none was possible
    n_walkers: int
    n_draws: int
    seconds: float
    mean_weight: float = 1.0  #: of the samples, before their weights were made to sum to 1


@dataclass(frozen=True)
class _ChunkResult:
    configs: Array
    draws: list[Snapshot]
    proposed: float
    accepted: float


def sample(
    sampler: Sampler,
    ansatz: Ansatz,
    theta: Array,
    configs: Array,
    operator_targets: Targets,
    moves: Targets,
    seed: int,
    step: int,
    jacobian: bool = True,
) -> tuple[Array, Snapshot, SampleInfo]:
    """Draw from |psi|^2 by Markov chains that go on from `configs` (W, N).

    With replicas `configs` are (W * R, N), walker by walker.  Returns the last ones, a snapshot of M = n_draws * W samples in draw-major
    order (sample = draw * W + walker) with the ratios of `operator_targets`, and an info.
    The random numbers have the address (seed, step, sweep, walker, move), so the chain is a
    function of the arguments.  Cost: n_burn + n_draws * n_thin sweeps and n_draws measurements
    per walker.  Memory: the Jacobian dominates, M * P numbers when dense and M * P / d as
    slices, twice that while draws are joined; plus one ansatz cache per thread.

    Raises:
        ValueError: `configs` is not (W * R, N); psi vanishes for a walker even after burn-in; an
            ansatz that reweights gives all samples weight 0, or cannot be tempered.
    """
    began = time.perf_counter()
    if sampler.n_replicas > 1 or sampler.power < 1:
        check_tempers(ansatz, "n_replicas" if sampler.n_replicas > 1 else "power")
    if sampler.precision == "single":
        ansatz = Mixed(ansatz)
    expected = (sampler.n_configs, ansatz.lattice.n_sites)
    if tuple(configs.shape) != expected:
        raise ValueError(f"sample: configs must have shape {expected}, got {tuple(configs.shape)}")
    xp = array_namespace(theta, configs)
    targets, moves = tables_in(operator_targets, xp), tables_in(moves, xp)
    run = partial(_run_chunk, sampler, ansatz, theta, configs, targets, moves, seed, step, jacobian)
    results = in_chunks(run, sampler.chunks(ansatz, xp), ansatz, xp, sampler.threads)
    draws = [result.draws[draw] for draw in range(sampler.n_draws) for result in results]
    configs, snapshot = xp.concat([result.configs for result in results]), join(draws)
    mean_weight = 1.0
    if sampler.power < 1:
        weight = _flattened(snapshot.amplitude, snapshot.weight, sampler.power)
        snapshot = replace(snapshot, weight=weight)
    if snapshot.weight is not None:
        mean_weight = float(xp.mean(snapshot.weight))
        snapshot = replace(snapshot, weight=_normalised(snapshot.weight))
    proposed = sum(result.proposed for result in results)
    info = SampleInfo(
        acceptance=sum(result.accepted for result in results) / max(proposed, 1.0),
        n_walkers=sampler.n_walkers,
        n_draws=sampler.n_draws,
        seconds=time.perf_counter() - began,
        mean_weight=mean_weight,
    )
    return configs, snapshot, info


def initial_configs(
    operator: Operator, n_walkers: int, seed: int, magnetisation: int = 0
) -> np.ndarray:
    """Draw starting configurations (W, N), int8, on the host.

    For an operator that conserves the magnetisation they lie in the sector of the given
    `magnetisation` (twice the total Sz), uniformly for d = 2; otherwise every local state is
    independent and uniform.  Raises ValueError for a magnetisation that N sites cannot have.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    n_sites, local_dim = operator.n_sites, operator.local_dim
    if not operator.conserves_magnetisation:
        return rng.integers(local_dim, size=(n_walkers, n_sites), dtype=np.int8)
    n_steps = n_sites * (local_dim - 1)
    check_magnetisation(n_sites, local_dim, magnetisation)
    n_down = (n_steps - magnetisation) // 2
    order = rng.permuted(np.tile(np.arange(n_steps), (n_walkers, 1)), axis=1)
    lowered = (order < n_down).reshape(n_walkers, n_sites, local_dim - 1)
    return lowered.sum(axis=2).astype(np.int8)


def check_magnetisation(n_sites: int, local_dim: int, magnetisation: int) -> None:
    """Raise ValueError when N sites cannot have this (doubled) total Sz."""
    largest = n_sites * (local_dim - 1)
    if abs(magnetisation) > largest or (largest - magnetisation) % 2:
        raise ValueError(
            f"no configuration of {n_sites} sites with local dimension {local_dim} has 2 Sz = "
            f"{magnetisation}: |2 Sz| is at most {largest} and "
            f"{'even' if largest % 2 == 0 else 'odd'} here. Use an even number of sites, or "
            "another magnetisation."
        )


def tables_in(targets: Targets, xp: Any) -> Targets:
    """The same tables in the namespace of the walkers."""
    return {patch: to_namespace(table, xp) for patch, table in targets.items()}


def join(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Put snapshots one after another; their weights, if any, stay as they are."""
    xp = array_namespace(snapshots[0].configs)
    weights = [snapshot.weight for snapshot in snapshots]
    parts = [snapshot.jacobian for snapshot in snapshots if snapshot.jacobian is not None]
    spreads = [snapshot.closure_spread for snapshot in snapshots]
    return Snapshot(
        configs=xp.concat([snapshot.configs for snapshot in snapshots]),
        amplitude=LogAmplitude(
            xp.concat([snapshot.amplitude.phase for snapshot in snapshots]),
            xp.concat([snapshot.amplitude.log_abs for snapshot in snapshots]),
        ),
        ratios={
            patch: xp.concat([snapshot.ratios[patch] for snapshot in snapshots])
            for patch in snapshots[0].ratios
        },
        jacobian=concatenate(parts) if parts else None,
        weight=None if weights[0] is None else xp.concat(weights),
        closure_spread=None if spreads[0] is None else xp.concat(spreads),
    )


def _flattened(amplitude: LogAmplitude, weight: Array | None, power: float) -> Array:
    """Weights (M,) of samples of |psi|^(2 power), up to a factor: |psi|^(2 - 2 power).

    `weight` is |psi / psi_1|^2 where psi_1 was walked on in its place.
    """
    xp = array_namespace(amplitude.log_abs)
    log_abs = xp.astype(amplitude.log_abs, xp.float64)
    finite = xp.where(xp.isfinite(log_abs), log_abs, xp.full_like(log_abs, -xp.inf))
    found = xp.exp((2 - 2 * power) * (finite - xp.max(finite)))
    return found if weight is None else found * weight**power


def _normalised(weight: Array) -> Array:
    xp = array_namespace(weight)
    total = xp.sum(weight)
    if not float(total) > 0:
        raise ValueError(
            f"sample: all {weight.shape[0]} samples have weight 0: the wave function that was asked "
            "for vanishes wherever the one that was sampled took it. Are the characters of a "
            "symmetrised state right?"
        )
    return weight / total


def _run_chunk(
    sampler: Sampler,
    ansatz: Ansatz,
    theta: Array,
    configs: Array,
    targets: Targets,
    moves: Targets,
    seed: int,
    step: int,
    jacobian: bool,
    chunk: range,
) -> _ChunkResult:
    """Burn in, then draw, for the walkers of one chunk."""
    xp, n_replicas = array_namespace(configs), sampler.n_replicas
    rows = range(chunk.start * n_replicas, chunk.stop * n_replicas)
    walkers = ansatz.start(theta, configs[rows.start : rows.stop, :])
    tempered = {}
    if n_replicas > 1 or sampler.power < 1:
        tempered["power"] = powers(len(chunk), n_replicas, xp) * sampler.power
    proposed = accepted = 0.0
    draws = []
    n_sweeps = 0

    def sweep(walkers: Walkers, times: int) -> Walkers:
        nonlocal proposed, accepted, n_sweeps
        for _ in range(times):
            numbers = uniforms(seed, (step, n_sweeps), rows, len(moves), xp=xp)
            walkers, info = ansatz.sweep(theta, walkers, moves, numbers, **tempered)
            proposed += float(xp.sum(info.proposed[::n_replicas]))
            accepted += float(xp.sum(info.accepted[::n_replicas]))
            if n_replicas > 1:
                numbers = uniforms(seed, (step, EXCHANGE_PASS + n_sweeps), rows, 1, xp=xp)
                walkers = exchanged(walkers, n_replicas, n_sweeps % 2 == 1, numbers)
            n_sweeps += 1
        return walkers

    walkers = sweep(walkers, sampler.n_burn)
    _check_support(walkers, chunk, sampler.n_burn)
    for _ in range(sampler.n_draws):
        walkers = sweep(walkers, sampler.n_thin)
        if n_replicas > 1:
            measured = coldest(walkers, n_replicas)
            snapshot = ansatz.measure(theta, measured, targets, jacobian=jacobian)[1]
        else:
            walkers, snapshot = ansatz.measure(theta, walkers, targets, jacobian=jacobian)
        draws.append(snapshot)
    return _ChunkResult(walkers.configs, draws, proposed, accepted)


def _check_support(walkers: Walkers, chunk: range, n_burn: int) -> None:
    xp = array_namespace(walkers.configs)
    vanishing = xp.nonzero(walkers.amplitude.phase == 0)[0]
    if vanishing.shape[0]:
        raise ValueError(
            f"sample: psi is still exactly 0 for {vanishing.shape[0]} of walkers "
            f"{chunk.start}..{chunk.stop - 1} after n_burn = {n_burn} sweeps (first: walker "
            f"{chunk.start + int(vanishing[0])}); |psi|^2 is not sampled there. The wave function "
            "is zero on most configurations: start from configurations in its support, raise "
            "n_burn, or add noise to the parameters."
        )
