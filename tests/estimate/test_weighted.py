"""Weighted samples: means, honest errors, and what the weights cost."""

from __future__ import annotations

import math

import array_api_strict as strict
import numpy as np
import pytest

from tests.estimate.test_statistics import ar1
from tnvmc.estimate.mixing import r_hat_limit
from tnvmc.estimate.statistics import effective_samples, estimate, weighted_estimate


def test_equal_weights_are_no_weights() -> None:
    """Up to rounding."""
    values = ar1(64, 20, 0.6, seed=1)[0]
    plain, found = estimate(values), weighted_estimate(values, np.full(values.shape, 3e200))
    assert found.mean == pytest.approx(plain.mean, abs=1e-12)
    assert found.error == pytest.approx(plain.error, rel=1e-9)
    assert found.variance == pytest.approx(plain.variance)
    assert found.tau == pytest.approx(plain.tau, rel=1e-9)
    assert effective_samples(np.ones(1280)) == pytest.approx(1280)
    flat = weighted_estimate(strict.asarray(values.ravel()), strict.ones(1280), 20)
    assert flat.error == pytest.approx(found.error)


def test_a_shifted_gaussian() -> None:
    """Drawn at 0, wanted at 1/2: weights e^(x/2), mean 1/2, variance 1, sizes M e^(-1/4)."""
    x = np.random.default_rng(2).normal(size=(256, 256))
    found = weighted_estimate(x, np.exp(0.5 * x))
    assert found.mean == pytest.approx(0.5, abs=5 * found.error)
    assert found.variance == pytest.approx(1.0, abs=0.05)
    assert effective_samples(np.exp(0.5 * x)) == pytest.approx(x.size * math.exp(-0.25), rel=0.03)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("n_draws", "n_walkers", "rho", "strength"),
    [(1, 64, 0.0, 0.4), (16, 64, 0.7, 0.5), (512, 4, 0.7, 0.5), (1, 1024, 0.0, 0.7)],
)
def test_coverage(n_draws: int, n_walkers: int, rho: float, strength: float) -> None:
    """The mean of x with weights e^(strength x) lies within two errors in 95 % of 400 runs.

    The weights are correlated with the values and along the chains; a common factor differs
    from run to run, and must not matter.
    """
    runs = ar1(n_draws, n_walkers, rho, seed=3, repeats=400)
    found = [weighted_estimate(run, np.exp(strength * run + k)) for k, run in enumerate(runs)]
    gaps = np.abs([e.mean - strength for e in found])
    errors = np.array([e.error for e in found])
    # binomial: 0.011; unbounded weights of few samples cover a little less than bounded ones
    assert 0.90 < np.mean(gaps < 2 * errors) < 0.985
    assert np.median(errors) == pytest.approx(np.std([e.mean for e in found]), rel=0.2)


def test_the_bias_of_a_ratio_is_taken_off() -> None:
    """Means of 32 samples: without the correction they lie 4 standard errors of 1000 runs off."""
    runs = ar1(1, 32, 0.0, seed=5, repeats=1000)
    means = np.array([weighted_estimate(run, np.exp(0.7 * run)).mean for run in runs])
    assert abs(means.mean() - 0.7) < 3 * means.std() / math.sqrt(1000)


def test_a_dominating_weight_is_no_certainty() -> None:
    values, weight = np.array([3.0, 1.0, 2.0, 2.0]), np.array([1e9, 1.0, 1.0, 1.0])
    found = weighted_estimate(values, weight, 4)
    assert found.mean == pytest.approx(3.0)
    assert found.error > 0.3
    alone = weighted_estimate(values, np.array([1.0, 0.0, 0.0, 0.0]), 4)
    assert (alone.mean, alone.error, alone.variance) == (3.0, math.inf, 0.0)


def test_values_without_weight_may_be_anything() -> None:
    values = np.array([math.nan, 1.0, 2.0, math.inf])
    found = weighted_estimate(values, np.array([0.0, 1.0, 1.0, 0.0]))
    assert found.mean == pytest.approx(1.5)
    assert math.isfinite(found.error)
    assert math.isnan(weighted_estimate(values, np.ones(4)).mean)


def test_complex_values_and_variance() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=400) + 1j * rng.normal(size=400)
    weight = rng.random(400)
    found = weighted_estimate(values, weight, 20)
    share = weight / weight.sum()
    own = share.reshape(20, 20).sum(axis=0)  # of each walker
    mean = (share @ values).real
    pulls = (share * (values.real - mean)).reshape(20, 20)
    assert found.mean == pytest.approx(mean + float((own * pulls).sum()))
    biased = share @ np.abs(values - mean) ** 2
    assert found.variance == pytest.approx(biased / (1 - share @ share))


@pytest.mark.parametrize("weight", [[-1.0, 2.0], [0.0, 0.0], [math.inf, 1.0], [math.nan, 1.0]])
def test_weights_that_are_none(weight: list[float]) -> None:
    with pytest.raises(ValueError, match="weights from"):
        weighted_estimate(np.ones(2), np.array(weight))
    with pytest.raises(ValueError, match="weights from"):
        effective_samples(np.array(weight))


def test_few_values_with_weights_do_not_make_walkers_disagree() -> None:
    """Equal values have equal ranks in all walkers, whatever weight a walker has."""
    rng = np.random.default_rng(0)
    which = rng.choice(3, size=(256, 32), p=[0.5, 0.3, 0.2])
    values, weights = np.array([-1.0, 0.3, 2.0]), np.array([0.9, 0.5, 0.2])
    found = weighted_estimate(values[which], weights[which], 32)
    assert found.r_hat < r_hat_limit(256, 32) - 0.05
