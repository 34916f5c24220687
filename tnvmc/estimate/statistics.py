"""Means with error bars that can be trusted: binning, autocorrelation time, R-hat, V-score.

Samples of W walkers with n_draws draws each are (n_draws, W), or flat in draw-major order
(sample = draw * W + walker) as the sampler returns them.  Walkers are independent of each other;
draws of one walker are not.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tnvmc.backend.namespace import to_host
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.mixing import ENOUGH, bins_or_walkers, error_of_mean, largest_share, split_r_hat
from tnvmc.sampling.problem import SampleInfo
from tnvmc.shown import Result, Table, with_error

Array = Any

BINS_FOR_AN_ERROR = 16
"""Fewest bins of the chains of few walkers that are taken for independent."""

TAUS_PER_BIN = 16.0
"""Length of a bin in autocorrelation times, at least: errors come out 3 % small then."""

INDEPENDENT_TAU = 0.5  # of draws: at least, so that anticorrelated ones count as no better


@dataclass(frozen=True, repr=False)
class Estimate(Result):
    """The mean of a quantity and what is known about its reliability."""

    mean: float
    error: float  #: of the mean; 0 for enumeration, inf where nothing is known; see `estimate`
    variance: float  #: of the quantity itself; for local energies that of the Hamiltonian
    tau: float  #: integrated autocorrelation time 1/2 + sum_t rho(t) in draws; 1/2: independent
    r_hat: float  #: split R-hat; NaN where it cannot be measured
    n_samples: int
    diagnostics: tuple[Diagnostic, ...] = ()  #: of the state it was measured in, and of its error
    largest_share: float = 0.0
    """Of the sum of squares, in the sample farthest from the mean; see `reliability.doubts`."""

    def _line(self) -> str:
        return with_error(self.mean, self.error)

    def _rows(self) -> list[tuple[str, str]]:
        return [("mean", with_error(self.mean, self.error))]

    def _table(self) -> Table:
        rows = [
            *self._rows(),
            ("variance", f"{self.variance:.3g}"),
            ("tau", f"{self.tau:.3g}"),
            ("r_hat", f"{self.r_hat:.4g}"),
            ("n_samples", str(self.n_samples)),
        ]
        return Table(type(self).__name__, ("", ""), rows, self.diagnostics)


@dataclass(frozen=True, repr=False)
class ComplexEstimate(Result):
    """The mean of an operator that is not Hermitian: two parts, each with its error."""

    real: Estimate
    imaginary: Estimate

    @property
    def mean(self) -> complex:
        """The mean, complex."""
        return complex(self.real.mean, self.imaginary.mean)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Those of both parts."""
        return (*self.real.diagnostics, *self.imaginary.diagnostics)

    def _line(self) -> str:
        return f"real part {self.real._line()}; imaginary part {self.imaginary._line()}"

    def _table(self) -> Table:
        one, other = self.real._rows(), self.imaginary._rows()
        rows = [(*row, both[1]) for row, both in zip(one, other, strict=True)]
        return Table("complex mean", ("", "real part", "imaginary part"), rows, self.diagnostics)


def estimate(values: Array, n_walkers: int = 1) -> Estimate:
    """Estimate the mean of `values`, (M,) or (n_draws, W), with its error.

    Walkers are independent, draws of one walker are not.  With 8 walkers or more the error is that
    of the mean of their means, whatever the autocorrelation is, and widened where they are few or
    one of them lies far off (`mixing.error_of_mean`).  Anticorrelated draws cannot make it smaller
    than the walkers' means allow.

    The chains of fewer walkers are cut into bins of 1, 2, 4, ... draws.  Bins count as independent
    from the first length that is at least 16 tau and 8 draws, tau = error^2 M / (2 variance) of
    that same length, with 16 bins at least; whole walkers take their place where they scatter more
    than chance allows.  Where no length is long enough the largest error over all lengths and over
    whole walkers is given, which may be too small (`reliability.doubts`).

    `tau` is that of such bins for any number of walkers, and of whole walkers where none is long
    enough.

    Values may be complex, as local values of a Hermitian operator are: the mean and its error
    are those of the real part, the variance is that of the complex values.  Other complex
    quantities: estimate real and imaginary parts.

    For reweighted samples use `weighted_estimate`, for all configurations `exact_estimate`.

    Never warns.  Constant values: error 0, tau 1/2, R-hat 1.  A single sample: error inf,
    variance 0.  Values not finite: mean NaN, all else inf.
    """
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
    plain, error = _errors(deviation, real_variance)
    tau = 0.5 * plain**2 * n_samples / real_variance
    share = float(largest_share(deviation.ravel()))
    return Estimate(mean, error, variance, tau, r_hat, n_samples, largest_share=share)


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


def _errors(series: np.ndarray, variance: float) -> tuple[float, float]:
    """Errors of the mean of (n_draws, W) deviations, as `estimate` says: for tau, and to give."""
    walkers = series.shape[1]
    lengths, errors, counts = binning(series, walkers)
    taus = np.maximum(0.5 * errors**2 * series.size / variance, INDEPENDENT_TAU)
    usable = counts >= BINS_FOR_AN_ERROR
    reached = np.flatnonzero(usable & (lengths >= TAUS_PER_BIN * taus))
    by_walkers = float(error_of_mean(series.mean(axis=0)))
    finite = np.isfinite(errors)
    if reached.size:
        plain = float(errors[reached[0]])
    elif usable[-1]:
        plain = float(errors[-1])
    else:
        plain = float(errors[finite].max())
    if walkers >= ENOUGH:
        return plain, by_walkers
    if not reached.size:
        every = [error_of_mean(_bins(series, int(length))) for length in lengths[finite]]
        return plain, float(max(every))
    own, error = bins_or_walkers(_bins(series, int(lengths[reached[0]])), series.mean(axis=0))
    return float(own), float(error)


def _bins(series: np.ndarray, length: int) -> np.ndarray:
    """Deviations of independent bins of (n_draws, W) from their mean, for the error of all."""
    n_draws, walkers = series.shape
    used = n_draws // length * length
    bins = series[n_draws - used :].reshape(-1, length, walkers).mean(axis=1).ravel()
    return np.asarray((bins - bins.mean()) * math.sqrt(used / n_draws))


def exact_estimate(values: Array, weight: Array) -> Estimate:
    """Give mean and variance of values (M,) of all configurations, with their |psi|^2 as weights.

    Error 0, tau 1/2, R-hat 1; values without weight may be anything.
    """
    values, weight = to_host(values), to_host(weight)
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


def weighted_estimate(values: Array, weight: Array, n_walkers: int = 1) -> Estimate:
    """Estimate the mean sum(w x) / sum(w) of weighted samples, (M,) or (n_draws, W) both.

    For samples drawn from another distribution than the one wanted, with weights (wanted / drawn,
    to any common factor).  The bias of order one over `effective_samples`, - sum h^2 (x - mean)
    with the shares h of walkers in the weight, is taken off.  The error is that of `estimate` for
    the pseudo-values of the jackknife that leaves out walkers, w (x - mean) / <w> times (1 - 1 / W)
    / (1 - h), so chains and correlations of weight and value count.  (The draws of a single walker
    stand for walkers there.) `variance` is that of x under the wanted distribution, freed of bias;
    `tau`, `r_hat` and `largest_share` are those of the pseudo-values.

    Values may be complex, as for `estimate`; those without weight may be anything.  All weight on
    one sample: error inf, variance 0.

    Raises:
        ValueError: weights negative, not finite or all zero.

    Source: A. B. Owen, Monte Carlo theory, methods and examples, chapter 9.2 (2013); the jackknife:
    B. Efron, The jackknife, the bootstrap and other resampling plans (1982).
    """
    x, w = _series(values, n_walkers), _series(weight, n_walkers)
    share = _shares(w)
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
        left_out = share.sum(axis=0) if x.shape[1] > 1 else share
        n = x.shape[1] if x.shape[1] > 1 else x.size
        if left_out.max() == 1:  # one walker has it all: its draws are all there is
            left_out, n = share, x.size
        pull = share * (x.real - mean)
        linear = pull * x.size * (1 - 1 / n) / (1 - left_out)
        mean += float((left_out * pull).sum())
        found = estimate(linear)
        # By ranks: equal pulls must stay equal in all walkers.
        r_hat = split_r_hat(pull) if math.isfinite(found.r_hat) else found.r_hat
    return replace(found, mean=mean, variance=variance, r_hat=r_hat)


def pull(values: Array, weight: Array | None) -> np.ndarray:
    """Give each sample's pull (M,) on the mean of weighted values: w (x - mean) / <w>.

    Their scatter is that of the mean; what two sets of values and weights of the same samples share
    cancels in the difference of the pulls.
    """
    x = np.real(to_host(values)).ravel().astype(np.float64)
    w = np.ones(x.size) if weight is None else _shares(to_host(weight).ravel()) * x.size
    x = np.where(w > 0, x, x[w.argmax()])
    return np.asarray(w * (x - np.average(x, weights=w)))


def effective_samples(weight: Array) -> float:
    """(sum w)^2 / sum w^2 (Kish): how many equal weights would be worth these; M for equal ones.

    Raises:
        ValueError: weights negative, not finite or all zero.
    """
    series = _series(weight, 1)
    return 1.0 / float((_shares(series) ** 2).sum())


def _shares(weight: np.ndarray) -> np.ndarray:
    """Weights divided by their sum, without overflow."""
    largest = float(weight.max())
    if not np.isfinite(weight).all() or float(weight.min()) < 0 or largest == 0:
        raise ValueError(
            f"weights from {float(weight.min()):g} to {largest:g}; they must be finite, not "
            "negative and not all zero. Do the amplitudes they come from vanish or overflow?"
        )
    scaled = np.asarray(weight, dtype=np.float64) / largest
    return np.asarray(scaled / scaled.sum())


def of_many(sigmas: float, n: int) -> float:
    """Give the errors beyond which the largest of n values of nothing but noise lies as seldom as a
    single one beyond `sigmas`: 2 become 3.0 for 16 values and 3.7 for 200 (Bonferroni).
    """
    from scipy.special import ndtr, ndtri  # scipy.stats is half of all imports

    return float(-ndtri(ndtr(-sigmas) / max(1, n)))


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
    return array.reshape(-1, n_walkers)


def estimate_samples(values: Array, weight: Array | None, info: SampleInfo) -> Estimate:
    """Estimate the mean of local values of samples, by how they were drawn.

    Values (M,) are in draw-major order.  An enumeration has error 0; chains are binned
    (`estimate`), weights (M,), to any common factor, are counted by the jackknife
    (`weighted_estimate`); None are equal ones.

    Raises:
        ValueError: as these two.
    """
    if info.exact:  # values may be of one configuration of each orbit
        return replace(exact_estimate(values, weight), n_samples=info.n_draws)
    if weight is None:
        return estimate(values, info.n_walkers)
    return weighted_estimate(values, weight, info.n_walkers)
