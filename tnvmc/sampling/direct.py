"""Direct sampling: independent draws from q near |psi|^2, each with its weight |psi|^2 / q.

Beside the Markov chain (`chains.py`) and the enumeration: no burn-in and no autocorrelation, and
weights that tell by themselves, in the effective number of samples, how good the draws are.
For any ansatz with ``draw(theta, uniforms, guide) -> (configs, log_prob)``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Ansatz, Snapshot, Targets
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.backend.random import uniforms
from tnvmc.operators.term import Operator
from tnvmc.sampling.chains import check_magnetisation, join, tables_in
from tnvmc.sampling.chunks import chunks, in_chunks, split

Array = Any

DRAW_PASS = 2**31
"""Pass of the random numbers; no chain makes as many sweeps.  The pilot takes the next one."""

_WIDENING = 3.0
"""Of the variance of a look-ahead: a factor that is too narrow makes large weights (measured)."""

_SMALLEST_LOG = -12.0
"""Of a look-ahead, so that the sector is covered wherever the Gaussian is wrong."""


@dataclass(frozen=True)
class DirectSampler:
    """How to draw: M = `n_samples` independent configurations.

    `chi` and `chi_mpo` are the bonds of the single- and the double-layer boundary that a PEPS is
    drawn with, by default those of its `drawer`: larger ones make the weights more even and never
    change what is estimated.  `magnetisation` is twice the total Sz, for an operator that conserves
    it; `n_pilot` draws more then teach the draws how the rest of a configuration will make up for
    what is drawn (`Lookahead`; 0: only what is out of reach is left out).  `threads` and `chunk` are as for `Sampler`: results do not depend on `threads` in any bit,
    and on `chunk` by rounding only.
    """

    n_samples: int = 512
    chi: int | None = None
    chi_mpo: int | None = None
    magnetisation: int = 0
    n_pilot: int = 128
    threads: int | None = None
    chunk: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_samples", "chi", "chi_mpo", "threads", "chunk"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"DirectSampler: {name} must be at least 1, got {value}")
        if self.n_pilot < 0:
            raise ValueError(f"DirectSampler: n_pilot must be at least 0, got {self.n_pilot}")

    @property
    def n_walkers(self) -> int:
        """M: every draw is a walker by itself, since all are independent."""
        return self.n_samples

    def chunks(self, ansatz: Ansatz, xp: Any = np) -> list[range]:
        """Draws of each chunk; see `sampling.chunks`."""
        return chunks(self.n_samples, ansatz, xp, self.chunk)


@dataclass(frozen=True)
class DirectInfo:
    """What direct sampling reports beside the samples."""

    effective_samples: float  #: (sum w)^2 / sum w^2: equal weights that would be worth these
    largest_share: float  #: the largest weight, of a sum of 1
    log_norm: float  #: ln of the mean of |psi|^2 / q, which estimates <psi|psi>, of the sector
    n_samples: int
    draw_seconds: float  #: drawing alone, summed over the chunks, without the pilot
    seconds: float


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
    def fit(cls, configs: np.ndarray, n_recent: int) -> Lookahead:
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

    With that alone q is, on the sector, nowhere smaller than without the guide, so that weights
    are bounded and M draws are worth at least M times the share of the sector in |psi|^2.  It
    comes late, however: the last spins of a row of bad luck are forced.  A `lookahead` favours
    local states from which the sector is likely to be reached.
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


Draw = Callable[[Array, SectorGuide | None], tuple[Array, Array]]


@dataclass(frozen=True)
class _ChunkResult:
    snapshot: Snapshot
    log_weight: Array
    seconds: float


def draw_samples(
    sampler: DirectSampler,
    ansatz: Ansatz,
    theta: Array,
    operator: Operator,
    targets: Targets,
    seed: int,
    step: int,
    jacobian: bool = True,
) -> tuple[Snapshot, DirectInfo]:
    """Draw M configurations and measure each once.

    Returns a snapshot with the ratios of `targets` and self-normalised weights |psi|^2 / q, which
    sum to 1 (estimates: `estimate.statistics.weighted_estimate`), and an info.  Where the operator
    conserves the magnetisation, psi is that of the sector.  Random numbers have the address
    (seed, step, DRAW_PASS, draw, site).  Cost per draw: see the `draw` of the ansatz, one `start`
    and one `measure`; memory as for `sample`.

    Raises:
        ValueError: an ansatz without `draw`; a magnetisation that N sites cannot have; psi
            vanishes at all draws.

    Source: weights of perfect sampling with truncated boundaries, Vieijra, Haegeman, Verstraete
    and Vanderstraeten, PRB 104, 235141 (2021).
    """
    began = time.perf_counter()
    xp = array_namespace(theta)
    draw = _drawing(sampler, ansatz, theta)
    spread = partial(in_chunks, ansatz=ansatz, xp=xp, workers=sampler.threads)
    parts = sampler.chunks(ansatz, xp)
    guide = _sector(operator, sampler.magnetisation)
    if guide is not None and sampler.n_pilot and not getattr(ansatz, "exact_draws", False):
        pilot = partial(_draw_chunk, draw, operator.n_sites, xp, (seed, step, DRAW_PASS + 1), None)
        drawn = spread(pilot, split(sampler.n_pilot, len(parts[0])))
        configs = np.concatenate([to_host(found) for found, _ in drawn])
        guide = replace(guide, lookahead=Lookahead.fit(configs, operator.lattice.shape[1]))
    tables = tables_in(targets, xp)
    drawing = partial(_draw_chunk, draw, operator.n_sites, xp, (seed, step, DRAW_PASS), guide)
    run = partial(_run_chunk, drawing, ansatz, theta, tables, jacobian)
    results = spread(run, parts)
    log_weight = np.concatenate([to_host(result.log_weight) for result in results])
    weight, log_norm = _normalised(log_weight)
    snapshot = join([result.snapshot for result in results])
    info = DirectInfo(
        effective_samples=float(1 / np.sum(weight**2)),
        largest_share=float(weight.max()),
        log_norm=log_norm,
        n_samples=sampler.n_samples,
        draw_seconds=sum(result.seconds for result in results),
        seconds=time.perf_counter() - began,
    )
    return replace(snapshot, weight=to_namespace(weight, xp)), info


def _drawing(sampler: DirectSampler, ansatz: Ansatz, theta: Array) -> Draw:
    """The `draw` of an ansatz at theta, with what serves all draws made once."""
    if hasattr(ansatz, "drawer"):
        return ansatz.drawer(theta, chi=sampler.chi, chi_mpo=sampler.chi_mpo).draw  # type: ignore
    if hasattr(ansatz, "draw"):
        return partial(ansatz.draw, theta)
    raise ValueError(
        f"direct sampling: {type(ansatz).__name__} has no `draw`, so it is sampled by Markov "
        "chains only; take sampler.kind = 'metropolis' (Sampler)"
    )


def _sector(operator: Operator, magnetisation: int) -> SectorGuide | None:
    if not operator.conserves_magnetisation:
        return None
    n_sites, local_dim = operator.n_sites, operator.local_dim
    check_magnetisation(n_sites, local_dim, magnetisation)
    return SectorGuide(n_sites, local_dim, (n_sites * (local_dim - 1) - magnetisation) // 2)


def _draw_chunk(
    draw: Draw,
    n_sites: int,
    xp: Any,
    key: tuple[int, int, int],
    guide: SectorGuide | None,
    chunk: range,
) -> tuple[Array, Array]:
    """Draw one chunk with the random numbers of (seed, step, pass)."""
    seed, *stream = key
    return draw(uniforms(seed, (stream[0], stream[1]), chunk, n_sites, xp=xp), guide)


def _run_chunk(
    drawing: Callable[[range], tuple[Array, Array]],
    ansatz: Ansatz,
    theta: Array,
    targets: Targets,
    jacobian: bool,
    chunk: range,
) -> _ChunkResult:
    """Draw and measure one chunk."""
    began = time.perf_counter()
    xp = array_namespace(theta)
    configs, log_prob = drawing(chunk)
    seconds = time.perf_counter() - began
    walkers = ansatz.start(theta, configs)
    snapshot = ansatz.measure(theta, walkers, targets, jacobian=jacobian)[1]
    log_abs = xp.astype(snapshot.amplitude.log_abs, xp.float64)
    return _ChunkResult(snapshot, 2.0 * log_abs - log_prob, seconds)


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
