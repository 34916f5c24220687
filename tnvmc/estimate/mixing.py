"""What the scatter of chains tells: the error of a mean, and R-hat.

Source: A. Vehtari, A. Gelman, D. Simpson, B. Carpenter, P.-C. Buerkner, Bayesian Analysis 16, 667
(2021).  Series are (n_draws, W).
"""

import math
from typing import Any

import numpy as np

from tnvmc.sampling import FEWEST_WALKERS

LEAST_TAU, OUTLASTED, DRAWS_PER_TAU = 1.0, 2.0, 40.0
"""Chains are well mixed where tau is below 1 draw, or below 2 of 32 or more, which burn-in
outlasts, or below 1/40 of their length, where R-hat is 1.05 at most."""

_CHANCE = 5e-4  # that R-hat of chains at that limit exceeds `r_hat_limit`; two numbers are compared


def split_r_hat(values: np.ndarray) -> float:
    """Rank-normalised split R-hat (eq. 14 of the source) of real values (n_draws, W).

    Each chain is cut into halves; 1 means that all halves look alike in location and in spread (the
    largest number is given).  Beside ranks the values themselves are compared: in ranks, chains of
    4 draws that stay in wells far apart look like slow ones.  Chains that are not much longer than
    tau give more than 1 even in equilibrium; `r_hat_limit` says how much chance allows.

    NaN where there is nothing to compare: one draw per walker, or 2 to 3 draws of one walker.
    1 where all values are equal; inf where chains are constant and differ.
    """
    n_draws, walkers = values.shape
    if n_draws < 2 or n_draws < 4 and walkers < 2:
        return math.nan
    half, chains = n_draws // 2, values
    if n_draws >= 4:  # those of 2 or 3 draws are left whole
        chains = np.concatenate([values[:half], values[n_draws - half :]], axis=1)
    if not np.isfinite(chains).all():
        return math.inf
    folded = np.abs(chains - np.median(chains))
    plain = chains - chains[0, 0]  # equal values give 0, not rounding
    return max(_r_hat(plain), _r_hat(_normal_scores(chains)), _r_hat(_normal_scores(folded)))


def r_hat_limit(
    n_draws: int, n_walkers: int, n_quantities: int = 1, least_tau: float = LEAST_TAU
) -> float:
    """Give the R-hat above which chains of this shape are not well mixed, by more than chance.

    For chains of length n and autocorrelation time tau, n (R-hat^2 - 1) + 1 is 2 tau times a
    variable of Fisher's F distribution.  The limit has the largest tau that counts as well mixed
    (`LEAST_TAU`, `DRAWS_PER_TAU`) and the quantile of F that one of two thousand exceeds: a fixed
    limit of 1.05 or 1.01 calls every sixth sample of few draws badly mixed.

    inf where R-hat is NaN.
    """
    from scipy.special import fdtri

    if n_draws < 2 or n_draws < 4 and n_walkers < 2:
        return math.inf
    n, chains = (n_draws // 2, 2 * n_walkers) if n_draws >= 4 else (n_draws, n_walkers)
    tau = max(least_tau, min(OUTLASTED, n_draws / 16), n_draws / DRAWS_PER_TAU)
    quantile = float(fdtri(chains - 1, chains * (n - 1), 1 - _CHANCE / n_quantities))
    return r_hat_of(2 * tau * quantile, n)


def r_hat_of(ratio: float, n_draws: float) -> float:
    """Give R-hat for n times the variance between over that within chains: 2 tau."""
    return math.sqrt((n_draws - 1) / n_draws + ratio / n_draws)


def _r_hat(chains: np.ndarray) -> float:
    """sqrt of (variance between and within) / (variance within) for (n_draws, n_chains)."""
    n = chains.shape[0]
    within = float(chains.var(axis=0, ddof=1).mean())
    between = float(chains.mean(axis=0).var(ddof=1))
    if not math.isfinite(within + between):
        return math.inf
    if within == 0:
        return 1.0 if between == 0 else math.inf
    return r_hat_of(n * between / within, n)


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Normal quantiles of the ranks, ties sharing their mean rank."""
    from scipy.special import ndtri

    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - 0.5 * (count - 1)
    scores: np.ndarray = ndtri((rank - 0.375) / (values.size + 0.25))
    return scores[place].reshape(values.shape)


ENOUGH = FEWEST_WALKERS
"""Independent means whose scatter gives an error bar; fewer are told (`estimate.reliability`)."""

MANY = 32
"""Independent values of which one that is far larger than the others shows a heavy tail."""

_FEW = {2: 3.7, 3: 1.6}
"""Of the plain error: Student's t of 1 and 2 degrees of freedom has 91 % within twice as much."""

_HEAVY_FROM, _HEAVY_TO, _MORE = 0.2, 0.5, 2.0
"""Share of the largest square in their sum, from where to where the tail is taken to be heavy, and
how often more the largest one is counted then.  Of 32 normal numbers it is 0.15, of 1024 0.01."""


def largest_share(deviations: np.ndarray) -> np.ndarray:
    """Largest square over the sum of squares along the first axis; 0 where all are 0."""
    square = np.abs(deviations) ** 2
    total = square.sum(axis=0)
    return np.asarray(square.max(axis=0) / np.where(total > 0, total, 1.0))


def error_of_mean(deviations: np.ndarray) -> np.ndarray:
    """Give the error of the mean of n independent values, from their deviations (n, ...) from it.

    The sum of squares counts the largest deviation c times more, as if the next value were another
    such one::

        error^2 = (sum d^2 + c max d^2) / (n (n - 1)),   c = 1 - 2 / n

    For few normal values that stands for Student's t, for rare large ones for what was not seen of
    them: k events have the error of k + 1. c = 1 for 4 to 7 values, 2 and 3 of them get 3.7 and 1.6
    times the plain error.  Of 32 values and more the largest counts up to twice more where it has a
    fifth to a half of the sum of squares.

    Gives errors (...), inf for one value, 0 where all are equal.  It does not know of events of
    which none was seen.
    """
    n = len(deviations)
    square = np.abs(deviations) ** 2
    total = square.sum(axis=0)
    if n < 2:
        return np.full(total.shape, np.inf)
    if n in _FEW:
        return np.asarray(_FEW[n] * _plain(deviations))
    c: Any = 1.0 if n < ENOUGH else 1.0 - 2.0 / n
    if n >= MANY:
        share = largest_share(deviations)
        c = c + _MORE * np.clip((share - _HEAVY_FROM) / (_HEAVY_TO - _HEAVY_FROM), 0.0, 1.0)
    return np.asarray(np.sqrt((total + c * square.max(axis=0)) / (n * (n - 1))))


_BY_CHANCE = 0.01  # that walkers of well-mixed chains are taken to scatter more than their bins


def bins_or_walkers(bins: np.ndarray, walkers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give the error of the mean by independent bins of few chains, or by the whole chains.

    Whole walkers take the place of bins where they scatter more than chance allows (Fisher's F).
    Deviations from the mean are those of bins (n, ...) and of walkers (W, ...).  Gives the plain
    error (...), from which `tau` is made, and that of `error_of_mean` (...).
    """
    from scipy.special import fdtri

    plain, error = _plain(bins), error_of_mean(bins)
    if len(walkers) < 2:
        return plain, error
    of_walkers = _plain(walkers)
    limit = float(fdtri(len(walkers) - 1, max(1, len(bins) - 1), 1 - _BY_CHANCE))
    wider = np.square(of_walkers / np.where(plain > 0, plain, np.inf)) > limit
    return np.where(wider, of_walkers, plain), np.where(wider, error_of_mean(walkers), error)


def _plain(deviations: np.ndarray) -> np.ndarray:
    """The error of the mean of n independent values, from their deviations (n, ...)."""
    n = len(deviations)
    return np.asarray(np.sqrt((np.abs(deviations) ** 2).sum(axis=0) / (n * (n - 1))))
