"""R-hat and effective sample sizes against their published formulas, and what chance makes of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.estimate.test_statistics import ar1
from tnvmc.estimate.mixing import r_hat_limit, split_r_hat
from tnvmc.estimate.reliability import slowest


def test_r_hat_is_the_published_formula() -> None:
    """Against the formula written out with scipy's ranks and loops."""
    from scipy.stats import norm, rankdata

    def plain(chains: np.ndarray) -> float:
        n = chains.shape[0]
        within = np.mean([np.var(c, ddof=1) for c in chains.T])
        between = n * np.var([np.mean(c) for c in chains.T], ddof=1)
        return math.sqrt(((n - 1) / n * within + between / n) / within)

    def scores(x: np.ndarray) -> np.ndarray:
        return norm.ppf((rankdata(x).reshape(x.shape) - 3 / 8) / (x.size + 1 / 4))

    values = np.round(ar1(21, 5, 0.7, seed=9)[0], 1)  # ties
    halves = np.concatenate([values[:10], values[11:]], axis=1)
    folded = np.abs(halves - np.median(halves))
    expected = max(plain(halves), plain(scores(halves)), plain(scores(folded)))
    assert split_r_hat(values) == pytest.approx(expected)


def test_r_hat_sees_location_spread_drift_and_nothing_else() -> None:
    rng = np.random.default_rng(10)
    good = rng.normal(size=(200, 8))
    assert split_r_hat(good) < 1.01
    assert split_r_hat(rng.standard_cauchy(size=(200, 8))) < 1.01
    assert split_r_hat(good + np.arange(8)) > 1.5
    assert split_r_hat(good * np.array([1, 1, 1, 1, 1, 1, 1, 10])) > 1.05
    assert split_r_hat(good + np.linspace(0, 3, 200)[:, None]) > 1.2
    assert split_r_hat(np.tile([1.0, 2.0], (8, 1))) == math.inf


@pytest.mark.parametrize(
    ("n_draws", "n_walkers", "tau"),
    [(4, 64, 0.5), (4, 128, 1.0), (32, 8, 0.5), (32, 8, 1.5), (256, 2, 2.0), (1024, 1, 5.0)],
)
def test_healthy_chains_stay_below_the_limit(n_draws: int, n_walkers: int, tau: float) -> None:
    """False alarms: none of 150 runs, where a fixed limit of 1.05 has up to a half."""
    rho = (2 * tau - 1) / (2 * tau + 1)
    runs = ar1(n_draws, n_walkers, rho, seed=4, repeats=150)
    limit = r_hat_limit(n_draws, n_walkers)
    assert np.mean([split_r_hat(run) > limit for run in runs]) == 0


@pytest.mark.parametrize(("n_draws", "n_walkers"), [(4, 64), (32, 8), (512, 8), (64, 64)])
def test_chains_that_stay_where_they_are_are_seen(n_draws: int, n_walkers: int) -> None:
    """Two wells that no chain leaves, half of the walkers in each."""
    rng = np.random.default_rng(5)
    runs = rng.normal(size=(50, n_draws, n_walkers)) + 5.0 * (np.arange(n_walkers) % 2)
    limit = r_hat_limit(n_draws, n_walkers)
    assert np.mean([split_r_hat(run) > limit for run in runs]) > 0.95


def test_the_worst_of_many_quantities_is_farther_off_by_chance() -> None:
    """Of 400 measurements of 300 terms, healthy all, one in a thousand is told: 0 or 1, never 4."""
    rng = np.random.default_rng(7)
    n_draws, n_walkers, told = 8, 32, 0
    for _ in range(400):
        series = rng.normal(size=(n_draws, n_walkers, 300))
        between = n_draws * series.mean(axis=0).var(axis=0, ddof=1)
        told += (
            slowest(between / series.var(axis=0, ddof=1).mean(axis=0), n_draws, n_walkers)
            is not None
        )
    assert told <= 3
    assert r_hat_limit(8, 32, 300) > r_hat_limit(8, 32)


def test_where_r_hat_is_not_known_there_is_no_limit() -> None:
    assert r_hat_limit(1, 64) == r_hat_limit(3, 1) == math.inf
