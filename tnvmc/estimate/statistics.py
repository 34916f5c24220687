"""Means with error bars that can be trusted: binning, autocorrelation time, R-hat, V-score.

Samples of W walkers with n_draws draws each are (n_draws, W), or flat in draw-major order
(sample = draw * W + walker) as the sampler returns them.  Walkers are independent of each other;
draws of one walker are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tnvmc.backend.namespace import to_host
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.sampling.problem import SampleInfo

Array = Any

BINS_FOR_AN_ERROR = 16
"""Fewest bins whose scatter is taken for an error: 18 % uncertain then."""

TAUS_PER_BIN = 16.0
"""Length of a bin in autocorrelation times, at least: errors come out 3 % small then."""


@dataclass(frozen=True)
class Estimate:
    """The mean of a quantity and what is known about its reliability."""

    mean: float
    error: float  #: standard error of the mean; 0 for enumeration, inf where nothing is known
    variance: float  #: of the quantity itself; for local energies that of the Hamiltonian
    tau: float  #: integrated autocorrelation time 1/2 + sum_t rho(t) in draws; 1/2: independent
    r_hat: float  #: split R-hat; NaN where it cannot be measured
    n_samples: int
    diagnostics: tuple[Diagnostic, ...] = ()  #: of the state it was measured in

    def __str__(self) -> str:
        told = "".join(f"; {found}" for found in self.diagnostics)
        return f"{self.mean:.8g} +- {self.error:.2g}{told}"


def estimate(values: Array, n_walkers: int = 1, weight: Array | None = None) -> Estimate:
    """Estimate the mean of `values`, (M,) or (n_draws, W), with its error.

    Error by binning: the draws of each walker are averaged in bins of 1, 2, 4, ... draws, and the
    scatter of the bin means (all walkers, about the common mean) gives an error for each length,
    which grows to a plateau.  The plateau is read at the first length that is at least 16 tau, with
    tau from that same length, tau = error^2 M / (2 variance).  Where no length is (few draws per
    walker, or slow chains), whole walkers are the bins: they are independent, so 8 draws of 128
    walkers have an honest error.  With fewer than 16 walkers and chains too short for a plateau
    the largest error over all lengths with at least 16 bins is given, which is then too small.

    Values may be complex, as local values of a Hermitian operator are: the mean and its error
    are those of the real part, the variance is that of the complex values.  Other complex
    quantities: estimate real and imaginary parts.

    With `weight` (M,) the values are an enumeration: error 0, exact variance, tau 1/2, R-hat 1.
    For reweighted samples use `weighted_estimate`.

    Never warns.  Constant values: error 0, tau 1/2, R-hat 1.  A single sample: error inf,
    variance 0.  Values not finite: mean NaN, all else inf.

    Raises:
        ValueError: no values, or a number of them that is no multiple of `n_walkers`.
    """
    if weight is not None:
        return _enumerated(to_host(values), to_host(weight))
    series = _series(values, n_walkers)
    n_samples = series.size
    if not np.isfinite(series).all():
        return Estimate(math.nan, math.inf, math.inf, math.inf, math.inf, n_samples)
    real = np.asarray(series.real, dtype=np.float64)
    # Sums of deviations from one of the values: constant values have variance 0, not rounding.
    deviation = real - real[0, 0]
    mean = float(real[0, 0] + deviation.mean())
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = deviation - deviation.mean()
        square = deviation**2 + np.asarray(series.imag, dtype=np.float64) ** 2
        real_variance = float((deviation**2).sum()) / max(1, n_samples - 1)
        variance = float(square.sum()) / max(1, n_samples - 1)
    if not math.isfinite(variance):
        return Estimate(mean, math.inf, math.inf, math.inf, math.inf, n_samples)
    r_hat = split_r_hat(real)
    if n_samples == 1:
        return Estimate(mean, math.inf, variance, 0.5, r_hat, 1)
    if real_variance == 0:
        return Estimate(mean, 0.0, variance, 0.5, r_hat, n_samples)
    error = _plateau(deviation, real_variance)
    tau = 0.5 * error**2 * n_samples / real_variance
    return Estimate(mean, error, variance, tau, r_hat, n_samples)


def binning(values: Array, n_walkers: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors of the mean for growing bins: lengths in draws, errors, numbers of bins, (K,) each.

    Lengths are 1, 2, 4, ... and last whole walkers.  What does not fill a bin is left out at the
    start of the chains.  See `estimate` for which one it takes.
    """
    series = np.asarray(_series(values, n_walkers).real, dtype=np.float64)
    n_draws, walkers = series.shape
    lengths = [2**k for k in range(n_draws.bit_length()) if 2**k < n_draws] + [n_draws]
    errors, counts = [], []
    for length in lengths:
        per_walker = n_draws // length
        used = per_walker * length
        bins = series[n_draws - used :].reshape(per_walker, length, walkers).mean(axis=1)
        counts.append(bins.size)
        scatter = bins.var(ddof=1) if bins.size > 1 else math.inf
        errors.append(math.sqrt(scatter / bins.size * used / n_draws))
    return np.array(lengths), np.array(errors), np.array(counts)


def _plateau(series: np.ndarray, variance: float) -> float:
    """The error of the mean of (n_draws, W) deviations, as `estimate` describes."""
    lengths, errors, counts = binning(series, series.shape[1])
    taus = 0.5 * errors**2 * series.size / variance
    usable = counts >= BINS_FOR_AN_ERROR
    reached = np.flatnonzero(usable & (lengths >= TAUS_PER_BIN * taus))
    if reached.size:
        return float(errors[reached[0]])
    if usable[-1]:
        return float(errors[-1])
    return float(errors[usable].max() if usable.any() else errors[0])


def _enumerated(values: np.ndarray, weight: np.ndarray) -> Estimate:
    """Weighted mean and variance; values without weight may be anything."""
    if values.size != weight.size or values.size == 0:
        raise ValueError(
            f"estimate: {values.size} values and {weight.size} weights; give one weight per value"
        )
    seen = weight.ravel() > 0
    x, w = values.ravel()[seen], weight.ravel()[seen]
    n_samples = values.size
    if not np.isfinite(x).all() or not np.isfinite(weight).all() or not seen.any():
        return Estimate(math.nan, math.inf, math.inf, math.inf, math.inf, n_samples)
    w = w / w.sum()
    anchor = float(x[np.argmax(w)].real)
    mean = anchor + float(w @ (x.real - anchor))
    with np.errstate(over="ignore"):
        variance = float(w @ np.abs(x - mean) ** 2)
    return Estimate(mean, 0.0, variance, 0.5, 1.0, n_samples)


def split_r_hat(values: Array, n_walkers: int = 1) -> float:
    """Rank-normalised split R-hat (Vehtari et al., Bayesian Analysis 16, 667 (2021), eq. 14).

    Each chain is cut into halves; 1 means that all halves look alike in location and in spread
    (the larger of the two numbers is given).  Chains that are not much longer than tau give more
    than 1 even in equilibrium.  Chains of 2 or 3 draws are not cut.

    NaN where there is nothing to compare: one draw per walker, or 2 to 3 draws of one walker.
    1 where all values are equal; inf where chains are constant and differ.
    """
    series = np.asarray(_series(values, n_walkers).real, dtype=np.float64)
    n_draws, walkers = series.shape
    if n_draws >= 4:
        half = n_draws // 2
        series = np.concatenate([series[:half], series[n_draws - half :]], axis=1)
    elif n_draws < 2 or walkers < 2:
        return math.nan
    if not np.isfinite(series).all():
        return math.inf
    folded = np.abs(series - np.median(series))
    return max(_r_hat(_normal_scores(series)), _r_hat(_normal_scores(folded)))


def _r_hat(chains: np.ndarray) -> float:
    """sqrt of (variance between and within) / (variance within) for (n_draws, n_chains)."""
    n = chains.shape[0]
    within = float(chains.var(axis=0, ddof=1).mean())
    between = float(chains.mean(axis=0).var(ddof=1))
    if within == 0:
        return 1.0 if between == 0 else math.inf
    return math.sqrt((n - 1) / n + between / within)


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Normal quantiles of the ranks, ties sharing their mean rank."""
    from scipy.special import ndtri

    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - 0.5 * (count - 1)
    scores: np.ndarray = ndtri((rank - 0.375) / (values.size + 0.25))
    return scores[place].reshape(values.shape)


def ratio(numerator: Array, denominator: Array, n_walkers: int = 1) -> Estimate:
    """Estimate <numerator> / <denominator> from samples of both, (M,) or (n_draws, W).

    Error by binning of the linearised ratio (a - R b) / <b>, so that correlations between the two
    and along the chains count; the bias of order 1/M stays.  Reweighted samples: ``ratio(w * x,
    w)``, whose `variance` over `n_samples` shows what the weights cost.

    Raises ValueError where the denominator averages to 0.
    """
    a, b = (np.asarray(_series(x, n_walkers).real, dtype=float) for x in (numerator, denominator))
    below = float(b.mean())
    if below == 0:
        raise ValueError("ratio: the denominator averages to exactly 0; are all weights zero?")
    with np.errstate(over="ignore", invalid="ignore"):
        value = float(a.mean()) / below
        linear = (a - value * b) / below
    return replace(estimate(linear, a.shape[1]), mean=value)


def weighted_estimate(values: Array, weight: Array, n_walkers: int = 1) -> Estimate:
    """Estimate the mean sum(w x) / sum(w) of weighted samples, (M,) or (n_draws, W) both.

    For samples drawn from another distribution than the one wanted, with weights (wanted / drawn,
    to any common factor); an enumeration goes to `estimate`.  The error bins the jackknife's
    w (x - mean) / (<w> (1 - h)) with h = w / sum(w), as `estimate` does, so chains and
    correlations of weight and value count, and a sample that dominates is not mistaken for
    certainty.  `variance` is that of x under the wanted distribution, freed of bias by the
    effective number of samples; `tau` and `r_hat` are those of the binned series.  The bias of
    the mean, of order one over `effective_samples`, stays.  Values without weight may be anything.

    Values may be complex, as for `estimate`.  All weight on one sample: error inf, variance 0.

    Raises:
        ValueError: weights of another number than values, negative, not finite or all zero.

    Source: A. B. Owen, Monte Carlo theory, methods and examples, chapter 9.2 (2013).
    """
    x, w = _series(values, n_walkers), _series(weight, n_walkers)
    share = _shares(w, x.size)
    seen = share > 0
    x = np.where(seen, x, x[seen][0])
    if not np.isfinite(x).all():
        return Estimate(math.nan, math.inf, math.inf, math.inf, math.inf, x.size)
    anchor = float(x.real.ravel()[share.argmax()])
    mean = anchor + float((share * (x.real - anchor)).sum())
    effective = effective_samples(w)
    with np.errstate(over="ignore", invalid="ignore"):
        variance = float((share * np.abs(x - mean) ** 2).sum())
        if seen.sum() == 1:
            return Estimate(mean, math.inf, 0.0, 0.5, math.nan, x.size)
        variance /= 1 - 1 / effective
        linear = share * x.size * (x.real - mean) / (1 - share)
    return replace(estimate(linear), mean=mean, variance=variance)


def effective_samples(weight: Array) -> float:
    """(sum w)^2 / sum w^2 (Kish): how many equal weights would be worth these; M for equal ones.

    Raises:
        ValueError: weights negative, not finite or all zero.
    """
    series = _series(weight, 1)
    return 1.0 / float((_shares(series, series.size) ** 2).sum())


def _shares(weight: np.ndarray, n_values: int) -> np.ndarray:
    """Weights divided by their sum, without overflow."""
    if weight.size != n_values:
        raise ValueError(f"{n_values} values and {weight.size} weights; give one weight per value")
    largest = float(weight.max())
    if not np.isfinite(weight).all() or float(weight.min()) < 0 or largest == 0:
        raise ValueError(
            f"weights from {float(weight.min()):g} to {largest:g}; they must be finite, not "
            "negative and not all zero. Do the amplitudes they come from vanish or overflow?"
        )
    scaled = np.asarray(weight, dtype=np.float64) / largest
    return np.asarray(scaled / scaled.sum())


def jackknife(
    function: Callable[[np.ndarray], float], values: Array, n_walkers: int = 1
) -> tuple[float, float]:
    """Give a function of means, freed of its bias of order 1/M, and its error.

    `values` is (M, k), k quantities per sample in draw-major order; `function` takes their k means.
    Blocks left out in turn are whole walkers where there are at least 16; otherwise the chains
    are cut into about 32 blocks, which must be longer than tau.

    Raises ValueError for a single block.
    """
    values = np.asarray(to_host(values))
    series = values.reshape(-1, n_walkers, values.shape[1])
    n_draws = series.shape[0]
    per_walker = 1 if n_walkers >= BINS_FOR_AN_ERROR else min(n_draws, -(-32 // n_walkers))
    length = n_draws // per_walker
    used = series[n_draws - length * per_walker :]
    blocks = used.reshape(per_walker, length, *series.shape[1:]).mean(axis=1)
    blocks = blocks.reshape(-1, values.shape[1])
    n = blocks.shape[0]
    if n < 2:
        raise ValueError("jackknife: one draw of one walker; at least two samples are needed")
    without = (blocks.sum(axis=0) - blocks) / (n - 1)
    partial = np.array([function(means) for means in without])
    whole = float(function(blocks.mean(axis=0)))
    error = math.sqrt((n - 1) * float(partial.var()))
    return n * whole - (n - 1) * float(partial.mean()), error


def difference(first: Array, second: Array, n_walkers: int = 1) -> Estimate:
    """Estimate <first> - <second> of two quantities of the same samples.

    Fluctuations that they share cancel, which the errors of two estimates cannot know.
    """
    return estimate(_series(first, n_walkers) - _series(second, n_walkers), n_walkers)


def v_score(energy: float, variance: float, n_sites: int, e_inf: float = 0.0) -> float:
    """N Var(E) / (E - E_inf)^2 (Wu et al., Science 386, 296 (2024)): 0 for an eigenstate.

    `energy` is the total, `e_inf` the energy at infinite temperature, tr H / dim.  inf where the
    two are equal (and the variance is not 0), NaN where one of them is not finite.
    """
    gap, variance = float(energy - e_inf), float(variance)
    if not math.isfinite(gap) or math.isnan(variance):
        return math.nan
    if gap == 0:
        return 0.0 if variance == 0 else math.inf
    return n_sites * (variance / gap / gap)  # gap**2 may be beyond the largest number, or below


def _series(values: Array, n_walkers: int) -> np.ndarray:
    """Values as (n_draws, W) on the host."""
    array = np.asarray(to_host(values))
    if array.ndim == 2:
        n_walkers = array.shape[1]
    if array.size == 0:
        raise ValueError("estimate: no values were given")
    if array.ndim > 2 or array.size % n_walkers:
        raise ValueError(
            f"estimate: values of shape {array.shape} are not a whole number of draws of "
            f"{n_walkers} walkers; give (n_draws, W), or (n_draws * W,) in draw-major order"
        )
    return array.reshape(-1, n_walkers)


def estimate_samples(values: Array, weight: Array | None, info: SampleInfo) -> Estimate:
    """Estimate the mean of local values of samples, by how they were drawn.

    Args:
        values: (M,) local values, in draw-major order.
        weight: (M,) of the snapshot, to any common factor; None for equal weights.
        info: of the draw.  An enumeration has error 0; chains are binned (`estimate`), weights
            counted by the jackknife (`weighted_estimate`).

    Raises:
        ValueError: as these two.
    """
    if info.exact:
        return estimate(values, weight=weight)
    if weight is None:
        return estimate(values, info.n_walkers)
    return weighted_estimate(values, weight, info.n_walkers)
