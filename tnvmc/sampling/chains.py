"""Markov chains: burn in, thin, measure; walkers in chunks, chunks side by side.

A chain of the plain |psi|^2 hardly visits configurations where psi is small, so their signs stay
those of the start; one that samples |psi|^(2 p) with p < 1 does, and weights restore |psi|^2.
"""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tnvmc.ansatz.protocol import MOVE_KINDS, Ansatz, LogAmplitude, Snapshot, Targets, Walkers
from tnvmc.backend import progress
from tnvmc.backend.arguments import ArgumentWarning, level_of_caller, real, set_whole
from tnvmc.backend.namespace import array_namespace, to_host
from tnvmc.backend.random import uniforms_of_passes
from tnvmc.sampling import FEWEST_WALKERS
from tnvmc.sampling.problem import Point, Problem, SampleInfo, Samples
from tnvmc.sampling.workers import chunks, in_chunks, join, tables_in

Array = Any

_BLOCKS = 32  # of the chains of few walkers, at least

_AT_ONCE = 1024
"""Samples of few walkers that one call walks through, and one call measures, where the ansatz can:
with 16 walkers and an RBM the calls took four fifths of the time."""


_TRIED = 32
"""Walkers that tell whether a smaller chi is good enough to walk on."""

_GAP = 1e-3
"""Standard deviation of ln |psi / psi_1|^2 up to which chains of psi_1 stand for those of psi: the
energy is off by at most that part of the deviation of local energies, the error of a million
independent samples."""

_GAP_OF_WEIGHTED = 0.05
"""The same where weights correct it: 400 samples are worth 399."""

_EVEN = 1.02
"""Largest over least weight up to which samples of |psi_1|^2 count as those of |psi|^2: then no
rare configuration, that the few walkers did not show, is counted wrongly by more than that."""


@dataclass(frozen=True)
class Sampler(Samples):
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
            (`followed`), where the ansatz is tempered, else 1.

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

    def draw(
        self, problem: Problem, point: Point, stream: int, jacobian: bool = True
    ) -> tuple[Snapshot, Point, SampleInfo]:
        """Draw from |psi|^2 by chains that go on from `point.configs` (W, N), walker by walker.

        Sample draw * W + walker is that of a walker.  Random numbers have the address (seed,
        stream, sweep, walker, move), so the chain is a function of the arguments.  Cost: n_burn +
        n_draws * n_thin sweeps and n_draws measurements per walker.  Memory: the Jacobian
        dominates, M * P numbers when dense and M * P / d as slices, and while draws are joined
        twice that when dense; plus one ansatz cache per worker.

        Raises:
            ValueError: configs of another shape; psi vanishes for a walker even after burn-in; all
                weights are 0; an ansatz that cannot be tempered.
        """
        began = time.perf_counter()
        ansatz, follows = problem.ansatz, self.power == "auto" and problem.ansatz.tempered
        power = point.power if follows else 1.0 if self.power == "auto" else float(self.power)
        self._check(ansatz, point.configs, power)
        xp = array_namespace(point.theta, point.configs)
        parts = chunks(self.n_walkers, ansatz, xp, self.chunk)
        run = _Chunk(
            self, ansatz, ansatz.coarser is not None and walks_coarser(ansatz, point, power),
            point, tables_in(problem.targets, xp), tables_in(problem.moves, xp),
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
        after = followed(snapshot.amplitude, power) if follows else point.power
        snapshot, log_norm = _weighted(snapshot, power, run.coarser)
        proposed, accepted = np.sum([result.counts for result in results], axis=0)
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

    def warn_if_rounded(self, name: str) -> None:
        """Warn, under this name, where more samples are drawn: a whole number for each walker."""
        drawn = self.n_draws * self.n_walkers
        if drawn != self.n_samples:
            told = f"{name} = {self.n_samples}: {drawn} are drawn, {self.n_draws} by each of the "
            told += f"{self.n_walkers} walkers; take a multiple of n_walkers, or fewer walkers"
            warnings.warn(told, ArgumentWarning, stacklevel=level_of_caller())

    def parts(self, problem: Problem, point: Point, at_once: int) -> "list[Sampler]":
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

    def _check(self, ansatz: Ansatz, configs: Array, power: float) -> None:
        if power != 1 and not ansatz.tempered:
            raise ValueError(
                f"sampler.power: the sweeps of a {type(ansatz).__name__} sample |psi|^2 alone, "
                "so it cannot be tempered; take power = 1"
            )
        expected = (self.n_walkers, ansatz.lattice.n_sites)
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
    counts: np.ndarray  #: (2, kinds) of moves, possible and accepted


@dataclass(frozen=True)
class _Chunk:
    """Burns in, then draws, for the walkers of one chunk; picklable, for ranks."""

    sampler: Sampler
    ansatz: Ansatz
    coarser: bool  #: whether chains walk on `ansatz.coarser`
    point: Point
    targets: Targets
    moves: Targets
    stream: tuple[int, int]  #: seed, stream
    power: float  #: of the draw
    jacobian: bool
    together: int  #: sweeps in one call, of an ansatz that walks

    def __call__(self, chunk: range) -> _ChunkResult:
        """Sweep, in one call several times where the ansatz walks, and measure what is due.

        Walkers of an ansatz that walks go on from the last sweep, others from what was measured.
        """
        sampler, theta = self.sampler, self.point.theta
        ansatz = self.ansatz.coarser if self.coarser else self.ansatz
        n_burn, n_sweeps = sampler.n_burn, sampler.n_burn + sampler.n_draws * sampler.n_thin
        length = -(-n_sweeps // -(-n_sweeps // self.together)) if ansatz.walks else 1
        walkers = ansatz.start(theta, self.point.configs[chunk.start : chunk.stop, :])
        xp = array_namespace(walkers.configs)
        powers = xp.full((len(chunk),), self.power, dtype=xp.float64)
        draws: list[Snapshot] = []
        counts = np.zeros((2, len(MOVE_KINDS)))
        if not n_burn:
            _check_support(walkers, chunk, 0)
        for begin in range(0, n_sweeps, length):
            passes = range(begin, min(begin + length, n_sweeps))
            stream = self.stream[1], passes
            numbers = uniforms_of_passes(self.stream[0], stream, chunk, len(self.moves), xp)
            given = theta, walkers, self.moves
            if ansatz.walks:
                found, info = ansatz.walk(*given, numbers, self.power)
            elif self.power == 1:
                found, info = ansatz.sweep(*given, numbers[0, ...])
            else:
                found, info = ansatz.tempered_sweep(*given, numbers[0, ...], powers)
            moves = vars(info).values()  # possible and accepted, of all walkers
            counts = counts + [to_host(xp.sum(x, axis=0, dtype=xp.float64)) for x in moves]
            if n_burn - 1 in passes:
                _check_support(_after(found, passes, [n_burn - 1]), chunk, n_burn)
            walkers = _after(found, passes, passes[-1:])
            ends = [k for k in passes if k >= n_burn and (k - n_burn + 1) % sampler.n_thin == 0]
            if ends:
                seen = _after(found, passes, ends)
                walked = seen.amplitude.log_abs
                if self.coarser:
                    seen = self.ansatz.start(theta, seen.configs)
                seen, snapshot = self.ansatz.measure(
                    theta, seen, self.targets, jacobian=self.jacobian
                )
                draws.append(_reweighted(snapshot, walked) if self.coarser else snapshot)
                walkers = walkers if ansatz.walks or self.coarser else seen
            progress.tell(passes.stop / n_sweeps)
        return _ChunkResult(walkers.configs, draws, counts)


def _reweighted(snapshot: Snapshot, walked: Array) -> Snapshot:
    """With weights |psi / psi_1|^2, from ln|psi_1| (M,) of what was walked on."""
    xp = array_namespace(walked)
    weight = xp.exp(2 * xp.astype(snapshot.amplitude.log_abs - walked, xp.float64))
    return replace(snapshot, weight=weight)


def walks_coarser(ansatz: Ansatz, point: Point, power: float) -> bool:
    """Whether a few of the walkers find the coarser contraction good enough to walk on.

    Which configurations come next needs psi less exactly than what is measured there; and where
    samples have weights anyway, these restore |psi|^2.  Cost: 2 amplitudes of `_TRIED` walkers.
    """
    both, some = (ansatz, ansatz.coarser), point.configs[:_TRIED, :]
    ln, ln_1 = (to_host(each.log_amplitude(point.theta, some).log_abs) for each in both)
    alive = np.isfinite(ln) & np.isfinite(ln_1)
    gap = 2 * float(np.std((ln - ln_1)[alive], dtype=np.float64)) if alive.sum() > 1 else np.inf
    return gap <= (_GAP if power == 1 else _GAP_OF_WEIGHTED)


def _weighted(snapshot: Snapshot, power: float, coarser: bool) -> tuple[Snapshot, float]:
    """Weights that sum to 1, where there are any that differ, and ln of their mean before."""
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
    even = coarser and power == 1 and float(xp.max(weight)) <= _EVEN * float(xp.min(weight))
    log_norm = scale + float(np.log(float(xp.mean(weight))))
    return replace(snapshot, weight=None if even else weight / total), log_norm


def _after(found: Walkers, passes: range, some: Sequence[int]) -> Walkers:
    """Walkers after some of the passes of one call, pass by pass."""
    if len(passes) == 1:
        return found
    xp, n_walkers = array_namespace(found.configs), found.configs.shape[0] // len(passes)
    begins = [(k - passes.start) * n_walkers for k in some]
    rows = xp.asarray([begin + w for begin in begins for w in range(n_walkers)])
    return Walkers(xp.take(found.configs, rows, axis=0), found.amplitude.take(rows))


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


SHARE = 0.5
"""Effective samples, of all samples, that "auto" keeps.  Tried: 0.25 to 1, see docs/decisions."""

SMALLEST = 0.2
"""Least power that "auto" takes."""


def flattened(amplitude: LogAmplitude, weight: Array | None, power: float) -> tuple[Array, float]:
    """Weights (M,) of samples of |psi|^(2 power), |psi|^(2 - 2 power), over the exponential of a
    number.

    The largest would not fit otherwise; with the number, weights of several draws have one scale.
    `weight` is |psi / psi_1|^2 where psi_1 was walked on in its place.
    """
    xp = array_namespace(amplitude.log_abs)
    log_abs = xp.astype(amplitude.log_abs, xp.float64)
    finite = xp.where(xp.isfinite(log_abs), log_abs, xp.full_like(log_abs, -xp.inf))
    largest = float(xp.max(finite))
    found = xp.exp((2 - 2 * power) * (finite - largest))
    return found if weight is None else found * weight**power, (2 - 2 * power) * largest


def followed(amplitude: LogAmplitude, power: float, share: float = SHARE) -> float:
    """Power for the next draw, from samples (M,) of |psi|^(2 power).

    Half way from the present one to that at which this share of samples would be effective (Kish),
    by these samples reweighted: so a step does not follow what few of them say.  Stays as it is
    where psi vanishes in all of them.
    """
    log_abs = to_host(amplitude.log_abs).astype(np.float64)
    log_prob = 2 * log_abs[np.isfinite(log_abs)]
    if log_prob.size == 0:
        return power
    log_prob = log_prob - log_prob.max()
    low, high = SMALLEST, 1.0
    if _effective_share(log_prob, power, low) >= share:
        high = low
    while high - low > 1e-3:  # the share rises with the power
        middle = (low + high) / 2
        if _effective_share(log_prob, power, middle) < share:
            low = middle
        else:
            high = middle
    return (power + high) / 2


def _effective_share(log_prob: np.ndarray, power: float, other: float) -> float:
    """Effective share of samples of |psi|^(2 other), judged by those of |psi|^(2 power).

    With l = ln |psi|^2 and w = e^((1 - other) l) it is <w>^2 / <w^2>, and a mean over the samples
    of the one is <e^((other - power) l) ...> / <e^((other - power) l)> over those of the other.
    """
    log_means = []
    for share in (1 - power, other - power, 2 - power - other):
        largest = float((share * log_prob).max())
        log_means.append(largest + float(np.log(np.mean(np.exp(share * log_prob - largest)))))
    return float(np.exp(2 * log_means[0] - log_means[1] - log_means[2]))
