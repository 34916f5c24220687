"""The error of a mean of independent values, few or with a heavy tail: wider than their scatter
says.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tnvmc.sampling.problem import FEWEST_WALKERS

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

    For few normal values that stands for Student's t (68 % within one error are 70 % then, 95 %
    within two 94 %, for n = 8 and more), for rare large ones for what was not seen of them: k
    events have the error of k + 1.  c = 1 for 4 to 7 values, 2 and 3 of them get 3.7 and 1.6 times
    the plain error, so that 91 % lie within two.  Of 32 values and more the largest counts up to
    twice more where it has a fifth to a half of the sum of squares: the tail is heavy then.

    Returns:
        Errors (...), inf for one value, 0 where all are equal.

    What it does not do: know of events of which none was seen.
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

    Whole walkers take the place of bins where they scatter more than chance allows: bins that are
    independent for sure leave a ratio of squares with Fisher's F distribution.

    Args:
        bins: deviations of bins from the mean (n, ...).
        walkers: those of whole walkers (W, ...).

    Returns:
        The plain error (...), from which `tau` is made, and that of `error_of_mean` (...).
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
