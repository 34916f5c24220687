"""Direct sampling: independent draws from q near |psi|^2, each with its weight |psi|^2 / q.

Beside the Markov chain (`chains.py`) and the enumeration: no burn-in and no autocorrelation, and
weights that tell by themselves, in the effective number of samples, how good the draws are.
"""

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Draw, Snapshot
from tnvmc.backend import progress
from tnvmc.backend.arguments import one_of, set_whole
from tnvmc.backend.namespace import array_namespace, distinct_rows, to_host, to_namespace
from tnvmc.backend.random import uniforms
from tnvmc.sampling.configurations import sector_of
from tnvmc.sampling.problem import Point, Problem, SampleInfo, Samples
from tnvmc.sampling.streams import DRAW_PASS
from tnvmc.sampling.workers import chunks, expanded, in_chunks, join, measure_rows, split, tables_in

Array = Any

_WIDENING = 3.0
"""Of the variance of a look-ahead: a factor that is too narrow makes large weights (measured)."""

_FEWEST_DRAWS = 64  # of a part, where there are as many

_DISTINCT = 0.75
"""Share of different configurations up to which each is measured once."""

_SMALLEST_LOG = -12.0
"""Of a look-ahead, so that the sector is covered wherever the Gaussian is wrong."""


@dataclass(frozen=True)
class DirectSampler(Samples):
    """Draws M independent configurations from q near |psi|^2, each with its weight |psi|^2 / q.

    Args:
        n_samples: M.
        chi, chi_mpo: bonds of the single- and the double-layer boundary that a PEPS is drawn with,
            by default those of its `drawer`: larger ones make the weights more even and never
            change what is estimated.
        magnetisation: twice the total Sz, for an operator that conserves it; by default that of
            the problem.
        n_pilot: draws more, which teach how the rest of a configuration will make up for what is
            drawn (`Lookahead`); 0: only what is out of reach is left out.
        threads, chunk: as for `Sampler`.
        by_orbit: as for `Enumerate`, in steps.

    Raises:
        ValueError: no whole number, or one below its least value.
    """

    n_samples: int = 512
    chi: int | None = None
    chi_mpo: int | None = None
    magnetisation: int | None = None
    n_pilot: int = 128
    threads: int | None = None
    chunk: int | None = None
    by_orbit: bool = True

    def __post_init__(self) -> None:
        least = dict.fromkeys(("n_samples", "chi", "chi_mpo", "threads", "chunk"), 1)
        set_whole(self, {**least, "n_pilot": 0, "magnetisation": None})
        one_of("DirectSampler", "by_orbit", self.by_orbit, (True, False))

    @property
    def n_walkers(self) -> int:
        """M: every draw is a walker by itself, since all are independent."""
        return self.n_samples

    def draw(
        self, problem: Problem, point: Point, stream: int, jacobian: bool = True
    ) -> tuple[Snapshot, Point, SampleInfo]:
        """Draw M configurations and measure each once; see `Samples.draw`.

        Where the operator conserves the magnetisation, psi is that of the sector.  Random numbers
        have the address (seed, stream, DRAW_PASS, draw, site).  The weights |psi|^2 / q are
        normalised by their sum (Vieijra, Haegeman, Verstraete and Vanderstraeten, PRB 104, 235141
        (2021)).  Cost per draw: see the `drawer` of the ansatz, one `start` and one `measure`;
        memory as for `Sampler`.

        Raises:
            ValueError: an ansatz without direct draws; a magnetisation that there is not
                (`sector_of`); psi vanishes at all draws.
        """
        began = time.perf_counter()
        ansatz, theta, xp = problem.ansatz, point.theta, array_namespace(point.theta)
        if ansatz.exact_draws is None:
            raise ValueError(
                f"direct sampling: a {type(ansatz).__name__} cannot be drawn from directly, so it "
                "is sampled by Markov chains only; take sampler.kind = 'metropolis' (Sampler)"
            )
        draw = ansatz.drawer(theta, chi=self.chi, chi_mpo=self.chi_mpo)
        spread = partial(in_chunks, ansatz=ansatz, xp=xp, workers=self.threads)
        parts = chunks(self.n_samples, ansatz, xp, self.chunk)
        guide = _sector(problem, self.magnetisation)
        run = partial(_drawn, draw, ansatz.lattice.n_sites, theta)
        key = problem.seed, stream, DRAW_PASS
        if guide is not None and self.n_pilot and not ansatz.exact_draws:
            pilot = partial(run, (*key[:2], DRAW_PASS + 1), None)
            with progress.watched(None):  # short beside what it prepares
                found = spread(pilot, split(self.n_pilot, len(parts[0])))
            configs = np.concatenate([to_host(drawn) for drawn, *_ in found])
            n_recent = problem.operator.lattice.shape[1]
            guide = replace(guide, lookahead=Lookahead.fit(configs, n_recent))
        drawn, log_probs, seconds = map(
            list, zip(*spread(partial(run, key, guide), parts), strict=True)
        )
        configs = xp.concat(drawn)
        snapshot = self._measured(problem, theta, configs, jacobian)
        log_abs = to_host(snapshot.amplitude.log_abs).astype(np.float64)
        log_prob = np.concatenate([*map(to_host, log_probs)])
        weight, log_norm = _normalised(2.0 * log_abs - log_prob)
        info = SampleInfo(
            n_walkers=self.n_samples,
            n_draws=1,
            seconds=time.perf_counter() - began,
            log_norm=log_norm,
            draw_seconds=sum(seconds),
        )
        return replace(snapshot, weight=to_namespace(weight, xp)), point, info

    def _measured(self, problem: Problem, theta: Array, configs: Array, jacobian: bool) -> Snapshot:
        """Measure draws (M, N), each configuration once where many exact ones are equal.

        For a step one of each orbit does: sums over the lattice are the same in all of it.
        """
        ansatz, xp, classes = problem.ansatz, array_namespace(theta), None
        if jacobian and self.by_orbit:
            classes = ansatz.orbit_classes(to_host(configs), problem.operator)
        distinct, which = classes or distinct_rows(to_host(configs))
        few = distinct.shape[0] <= _DISTINCT * configs.shape[0] and ansatz.exact_draws
        if few:
            configs, which = to_namespace(distinct, xp), to_namespace(which, xp)
        tables = tables_in(problem.targets, xp)
        task = partial(measure_rows, ansatz, theta, tables, jacobian, configs)
        parts = chunks(configs.shape[0], ansatz, xp, self.chunk)
        snapshot = join(in_chunks(task, parts, ansatz, xp, self.threads))
        return expanded(snapshot, which) if few else snapshot

    def parts(self, problem: Problem, point: Point, at_once: int) -> "list[DirectSampler]":
        """Samplers of at most `at_once` draws, but 64: each prepares and pilots anew."""
        rows = split(self.n_samples, max(_FEWEST_DRAWS, at_once))
        return [replace(self, n_samples=len(part)) for part in rows]


@dataclass(frozen=True)
class Lookahead:
    """A guess of what the sites after each one will sum to, from the sums of those drawn.

    A Gaussian whose mean is linear in the sum of the last `n_recent` sites, which border on what
    is to come, and in that of the older ones.
    """

    n_recent: int
    coefficients: np.ndarray  #: (N, 3): constant, recent sum, older sum
    variances: np.ndarray  #: (N,)

    @classmethod
    def fit(cls, configs: np.ndarray, n_recent: int) -> "Lookahead":
        """Fit to configurations (M, N) that were drawn without a guide."""
        sums = np.concatenate([np.zeros((len(configs), 1)), np.cumsum(configs, axis=1)], axis=1)
        coefficients, variances = [], []
        for site in range(configs.shape[1]):
            older = sums[:, max(0, site + 1 - n_recent)]
            drawn, rest = sums[:, site + 1], sums[:, -1] - sums[:, site + 1]
            features = np.stack([np.ones_like(older), drawn - older, older], axis=1)
            found = np.linalg.lstsq(features, rest, rcond=1e-9)[0]
            coefficients.append(found)
            variances.append(max(np.mean((rest - features @ found) ** 2), 0.05))
        return cls(n_recent, np.array(coefficients), np.array(variances))

    def factors(self, site: int, recent: Array, older: Array, missing: Array) -> Array:
        """How likely the sites after `site` sum to `missing`, up to a factor; never below e^-12."""
        xp = array_namespace(missing)
        constant, by_recent, by_older = map(float, self.coefficients[site])
        mean = constant + by_recent * recent + by_older * older
        log = -((missing - mean) ** 2) / (2.0 * _WIDENING * float(self.variances[site]))
        return xp.exp(xp.maximum(log, xp.full_like(log, _SMALLEST_LOG)))


@dataclass(frozen=True)
class SectorGuide:
    """Keeps draws in one magnetisation: a local state from which it is out of reach gets factor 0.

    So q is, on the sector, nowhere smaller than without the guide, and M draws are worth at least M
    times the share of the sector in |psi|^2.  The last spins of a row of bad luck are forced, which
    a `lookahead` avoids by favouring states from which the sector is likely to be reached.
    """

    n_sites: int
    local_dim: int
    total: int  #: sum of the local states of every configuration
    lookahead: Lookahead | None = None

    def __call__(self, configs: Array, site: int) -> Array:
        """Factors (B, d) for the local states of `site`, those before it being drawn."""
        xp = array_namespace(configs)
        states = xp.astype(xp.arange(self.local_dim)[None, :], xp.float64)
        missing = self.total - _sum(configs[:, :site]) - states
        most = (self.n_sites - site - 1) * (self.local_dim - 1)
        factors = xp.astype((missing >= 0) & (missing <= most), xp.float64)
        if self.lookahead is None:
            return factors
        edge = max(0, site + 1 - self.lookahead.n_recent)
        recent = _sum(configs[:, edge:site]) + states
        older = _sum(configs[:, :edge])
        return factors * self.lookahead.factors(site, recent, older, missing)


def _sum(states: Array) -> Array:
    """Sums (B, 1) of local states (B, n), as floats."""
    xp = array_namespace(states)
    return xp.sum(xp.astype(states, xp.float64), axis=1, keepdims=True)


def _sector(problem: Problem, magnetisation: int | None) -> SectorGuide | None:
    n_sites, local_dim = problem.operator.n_sites, problem.operator.local_dim
    if problem.operator.fermions is not None:
        raise ValueError("DirectSampler: fermions are not drawn directly; take Sampler (chains)")
    sector = sector_of(problem.operator, magnetisation, problem.magnetisation)
    if sector is None:
        return None
    return SectorGuide(n_sites, local_dim, (n_sites * (local_dim - 1) - sector) // 2)


def _drawn(
    draw: Draw, n_sites: int, theta: Array, key: tuple[int, ...], guide: Any, chunk: range
) -> tuple[Array, Array, float]:
    """Configurations, ln q, and the seconds that it took; picklable, for ranks."""
    began = time.perf_counter()
    numbers = uniforms(key[0], (key[1], key[2]), chunk, n_sites, xp=array_namespace(theta))
    return *draw(numbers, guide), time.perf_counter() - began


def _normalised(log_weight: np.ndarray) -> tuple[np.ndarray, float]:
    """exp(log_weight) with a sum of 1, 0 where psi vanishes; and the log of its mean before."""
    largest = log_weight.max()
    if not np.isfinite(largest):
        raise ValueError(
            f"direct sampling: the largest ln of |psi|^2 / q is {largest} over {log_weight.size} "
            "draws; psi vanishes at all of them or theta holds non-finite numbers. Check the "
            "parameters and the magnetisation."
        )
    weight = np.exp(log_weight - largest)
    return weight / weight.sum(), float(largest + np.log(weight.mean()))
