"""Markov chains: burn in, thin, measure; walkers in chunks, chunks side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tnvmc.ansatz.protocol import (
    MOVE_KINDS,
    Ansatz,
    Snapshot,
    SweepInfo,
    Targets,
    Walkers,
)
from tnvmc.backend import progress
from tnvmc.backend.arguments import real, set_whole
from tnvmc.backend.namespace import array_namespace, to_host
from tnvmc.backend.random import uniforms, uniforms_of_passes
from tnvmc.sampling.problem import FEWEST_WALKERS, Point, Problem, SampleInfo
from tnvmc.sampling.tempering import flattened, followed, require_tempered
from tnvmc.sampling.workers import chunks, in_chunks, join, tables_in

Array = Any

_BLOCKS = 32  # of the chains of few walkers, at least

_AT_ONCE = 1024
"""Samples of few walkers that one call walks through, and one call measures, where the ansatz can:
with 16 walkers and an RBM the calls took four fifths of the time."""


@dataclass(frozen=True)
class Sampler:
    """Draws from |psi|^2 by Markov chains: W walkers, each n_burn sweeps and then n_draws draws.

    A draw is n_thin sweeps and a measurement of every walker; n_draws is `n_samples`/W, rounded up.

    Args:
        n_walkers: W, chains side by side.
        n_samples: M, at least; M = n_draws * W are drawn.
        n_burn: sweeps before the first draw.
        n_thin: sweeps between draws.
        threads: workers; the cores available by default.  Results do not depend on it in any bit.
        chunk: walkers that move in one batch; by default what the ansatz wants (`Execution`), but
            at most half of the walkers, so that two workers have work.  Results depend on it by
            rounding only.
        power: p < 1 draws from |psi|^(2 p) and weighs samples by |psi|^(2 - 2 p), so that
            configurations where psi is small are seen and their signs can turn; for an ansatz with
            tempered sweeps.  "auto": a power that follows the state from draw to draw
            (`sampling.tempering`), where the ansatz is tempered, else 1.

    Raises:
        ValueError: no whole number, or one below its least value; power outside 0 < power <= 1.
    """

    n_walkers: int = 128
    n_samples: int = 512
    n_burn: int = 1
    n_thin: int = 1
    threads: int | None = None
    chunk: int | None = None
    power: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        least = dict.fromkeys(("n_walkers", "n_samples", "n_thin", "threads", "chunk"), 1)
        set_whole(self, {**least, "n_burn": 0})
        if self.power != "auto":
            object.__setattr__(self, "power", real("Sampler", "power", self.power))
            if not 0 < self.power <= 1:
                raise ValueError(f"Sampler: power must lie in 0 < power <= 1, got {self.power}")

    @property
    def n_draws(self) -> int:
        """Draws per walker; n_draws * n_walkers >= n_samples samples are returned."""
        return -(-self.n_samples // self.n_walkers)

    @property
    def n_configs(self) -> int:
        """Configurations in flight: one of each walker."""
        return self.n_walkers

    def draw(
        self, problem: Problem, point: Point, stream: int, jacobian: bool = True
    ) -> tuple[Snapshot, Point, SampleInfo]:
        """Draw from |psi|^2 by chains that go on from `point.configs` (W, N), walker by walker.

        Random numbers have the address (seed, stream, sweep, walker, move), so the chain is a
        function of the arguments.  Cost: n_burn + n_draws * n_thin sweeps and n_draws measurements
        per walker.  Memory: the Jacobian dominates, M * P numbers when dense and M * P / d as
        slices, and while draws are joined twice that
        when dense; plus one ansatz cache per worker.

        Returns:
            See `Samples.draw`; sample = draw * W + walker.

        Raises:
            ValueError: configs of another shape; psi vanishes for a walker even after burn-in; all
                weights are 0; an ansatz that cannot be tempered.
        """
        began = time.perf_counter()
        self._check(problem.ansatz, point.configs)
        power = self._power(problem.ansatz, point)
        xp = array_namespace(point.theta, point.configs)
        ansatz = problem.ansatz
        parts = chunks(self.n_walkers, ansatz, xp, self.chunk)
        run = _Chunk(
            self, ansatz, point, tables_in(problem.targets, xp), tables_in(problem.moves, xp),
            (problem.seed, stream), power, jacobian,
            max(1, _AT_ONCE // self.n_walkers) if len(parts) == 1 else 1,
        )  # fmt: skip
        results = in_chunks(run, parts, ansatz, xp, self.threads)
        draws = [
            snapshot
            for found in zip(*(r.draws for r in results), strict=True)
            for snapshot in found
        ]
        for result in results:
            result.draws.clear()
        configs, snapshot = xp.concat([result.configs for result in results]), join(draws)
        follows = self._follows(problem.ansatz)
        after = followed(snapshot.amplitude, power) if follows else point.power
        snapshot, log_norm = _weighted(snapshot, power)
        proposed, accepted = (
            np.sum([getattr(result, name) for result in results], axis=0)
            for name in ("proposed", "accepted")
        )
        info = SampleInfo(
            n_walkers=self.n_walkers,
            n_draws=self.n_draws,
            seconds=time.perf_counter() - began,
            acceptance=float(accepted.sum() / max(proposed.sum(), 1.0)),
            acceptance_by_move={
                kind: float(taken / tried)
                for kind, tried, taken in zip(MOVE_KINDS, proposed, accepted, strict=True)
                if tried
            },
            log_norm=log_norm,
            power=power,
        )
        return snapshot, replace(point, configs=configs, power=after), info

    def _follows(self, ansatz: Ansatz) -> bool:
        """Whether the power is one that follows the state."""
        return self.power == "auto" and ansatz.tempered

    def _power(self, ansatz: Ansatz, point: Point) -> float:
        """The power of this draw."""
        if self.power != "auto":
            return float(self.power)
        return point.power if self._follows(ansatz) else 1.0

    def parts(self, problem: Problem, point: Point, at_once: int) -> list[Sampler]:
        """Samplers of whole draws; the first one burns in.

        With few walkers each part is a block of their chains, so there are some tens of parts.  All
        draw from one distribution: |psi|^2 where the power is "auto".
        """
        draws = max(1, min(self.n_draws, at_once // self.n_walkers))
        if self.n_walkers < FEWEST_WALKERS:
            draws = min(draws, max(1, self.n_draws * self.n_walkers // _BLOCKS))
        begins = range(0, self.n_draws, draws)
        return [
            replace(
                self,
                n_samples=min(draws, self.n_draws - begin) * self.n_walkers,
                n_burn=0 if begin else self.n_burn,
                power=1.0 if self.power == "auto" else self.power,
            )
            for begin in begins
        ]

    def for_measurement(
        self,
        n_samples: int | None = None,
        n_burn: int | None = None,
        n_thin: int | None = None,
    ) -> Sampler:
        """The same chains drawing from |psi|^2, with other numbers where they are given."""
        return replace(
            self,
            n_samples=self.n_samples if n_samples is None else n_samples,
            n_burn=self.n_burn if n_burn is None else n_burn,
            n_thin=self.n_thin if n_thin is None else n_thin,
            power=1.0,
        )

    def _check(self, ansatz: Ansatz, configs: Array) -> None:
        if self.power not in ("auto", 1.0):
            require_tempered(ansatz)
        expected = (self.n_configs, ansatz.lattice.n_sites)
        if tuple(configs.shape) != expected:
            raise ValueError(
                f"sample: the sampler moves {self.n_walkers} walkers, so configs must have shape "
                f"{expected}, got {tuple(configs.shape)}. To measure with a sampler of its own, "
                "give it the n_walkers of the optimisation (and any n_samples), or make another "
                "VMC with it from theta"
            )


@dataclass(frozen=True)
class _ChunkResult:
    configs: Array
    draws: list[Snapshot]  #: of one draw each, or of several where there is one chunk
    proposed: np.ndarray  #: (kinds,)
    accepted: np.ndarray


@dataclass(frozen=True)
class _Chunk:
    """Burns in, then draws, for the walkers of one chunk; picklable, for ranks."""

    sampler: Sampler
    ansatz: Ansatz
    point: Point
    targets: Targets
    moves: Targets
    stream: tuple[int, int]  #: seed, stream
    power: float  #: of the draw
    jacobian: bool
    together: int  #: sweeps in one call, of an ansatz that walks

    def __call__(self, chunk: range) -> _ChunkResult:
        configs = self.point.configs[chunk.start : chunk.stop, :]
        walkers = self.ansatz.start(self.point.theta, configs)
        return (self._walked if self.ansatz.walks else self._swept)(chunk, walkers)

    def _walked(self, chunk: range, walkers: Walkers) -> _ChunkResult:
        """Several sweeps in one call, and one measurement of the draws among them."""
        sampler, theta, n_walkers = self.sampler, self.point.theta, len(chunk)
        seed, stream = self.stream
        xp = array_namespace(walkers.configs)
        draws: list[Snapshot] = []
        proposed = accepted = np.zeros(len(MOVE_KINDS))
        n_sweeps = sampler.n_burn + sampler.n_draws * sampler.n_thin
        n_calls = -(-n_sweeps // self.together)
        length = -(-n_sweeps // n_calls)
        if not sampler.n_burn:
            _check_support(walkers, chunk, 0)
        for begin in range(0, n_sweeps, length):
            passes = range(begin, min(begin + length, n_sweeps))
            numbers = uniforms_of_passes(seed, (stream, passes), chunk, len(self.moves), xp=xp)
            found, info = self.ansatz.walk(theta, walkers, self.moves, numbers, self.power)
            proposed = proposed + _summed(info.proposed)
            accepted = accepted + _summed(info.accepted)
            walkers = _after(found, n_walkers, [len(passes) - 1])
            if sampler.n_burn - 1 in passes:
                _check_support(
                    _after(found, n_walkers, [sampler.n_burn - 1 - begin]), chunk, sampler.n_burn
                )
            ends = [
                number - begin
                for number in passes
                if number >= sampler.n_burn and (number - sampler.n_burn + 1) % sampler.n_thin == 0
            ]
            if ends:
                seen = _after(found, n_walkers, ends)
                draws.append(self._seen(seen)[1])
            progress.tell(passes.stop / n_sweeps)
        return _ChunkResult(walkers.configs, draws, proposed, accepted)

    def _swept(self, chunk: range, walkers: Walkers) -> _ChunkResult:
        """One sweep after another, and a measurement after every draw."""
        sampler = self.sampler
        xp = array_namespace(self.point.configs)
        draws: list[Snapshot] = []
        proposed = accepted = np.zeros(len(MOVE_KINDS))
        n_sweeps = 0
        units = sampler.n_burn + sampler.n_draws * (sampler.n_thin + 1)  # a draw is one more
        for draw in range(-1, sampler.n_draws):
            for _ in range(sampler.n_thin if draw >= 0 else sampler.n_burn):
                walkers, info = self._sweep(walkers, chunk, n_sweeps, xp)
                proposed = proposed + _summed(info.proposed)
                accepted = accepted + _summed(info.accepted)
                n_sweeps += 1
                progress.tell((n_sweeps + len(draws)) / units)
            if draw < 0:
                _check_support(walkers, chunk, sampler.n_burn)
                continue
            walkers, snapshot = self._seen(walkers)
            draws.append(snapshot)
        return _ChunkResult(walkers.configs, draws, proposed, accepted)

    def _sweep(
        self, walkers: Walkers, chunk: range, number: int, xp: Any
    ) -> tuple[Walkers, SweepInfo]:
        theta = self.point.theta
        seed, stream = self.stream
        numbers = uniforms(seed, (stream, number), chunk, len(self.moves), xp=xp)
        if self.power == 1:
            return self.ansatz.sweep(theta, walkers, self.moves, numbers)
        power = xp.full((len(chunk),), self.power, dtype=xp.float64)
        return self.ansatz.tempered_sweep(theta, walkers, self.moves, numbers, power)

    def _seen(self, walkers: Walkers) -> tuple[Walkers, Snapshot]:
        theta, jacobian = self.point.theta, self.jacobian
        after, found = self.ansatz.measure(theta, walkers, self.targets, jacobian=bool(jacobian))
        return after, found


def _weighted(snapshot: Snapshot, power: float) -> tuple[Snapshot, float]:
    """Weights that sum to 1, where there are any, and ln of their mean before."""
    weight, scale = snapshot.weight, 0.0
    if power < 1:
        weight, scale = flattened(snapshot.amplitude, weight, power)
    if weight is None:
        return snapshot, 0.0
    xp = array_namespace(weight)
    total = xp.sum(weight)
    if not float(total) > 0:
        raise ValueError(
            f"sample: all {weight.shape[0]} samples have weight 0: the wave function that was "
            "asked for vanishes wherever the one that was sampled took it. Are the characters of a "
            "symmetrised state right?"
        )
    return replace(snapshot, weight=weight / total), scale + float(np.log(float(xp.mean(weight))))


def _after(found: Walkers, n_walkers: int, sweeps: list[int]) -> Walkers:
    """Walkers after some of the sweeps of a `walk`, sweep by sweep."""
    xp = array_namespace(found.configs)
    rows = xp.asarray([k * n_walkers + w for k in sweeps for w in range(n_walkers)])
    return Walkers(xp.take(found.configs, rows, axis=0), found.amplitude.take(rows))


def _summed(counts: Array) -> np.ndarray:
    """Counts (kinds,) of all walkers together, on the host."""
    return to_host(array_namespace(counts).sum(counts, axis=0))


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
