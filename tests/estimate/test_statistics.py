"""Error bars, autocorrelation times and R-hat on synthetic chains of known properties."""

from __future__ import annotations

import math
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tnvmc.estimate.statistics import Estimate, binning, estimate, exact_estimate, of_many, v_score


def ar1(n_draws: int, n_walkers: int, rho: float, seed: int, repeats: int = 1) -> np.ndarray:
    """Stationary chains of unit variance, tau = (1 + rho) / (1 - rho) / 2: (repeats, n, W)."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(n_draws, repeats * n_walkers))
    chain = np.empty_like(noise)
    chain[0] = noise[0]
    for t in range(1, n_draws):
        chain[t] = rho * chain[t - 1] + math.sqrt(1 - rho**2) * noise[t]
    return chain.reshape(n_draws, repeats, n_walkers).transpose(1, 0, 2)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8, 0.9])
def test_known_tau(rho: float) -> None:
    """The bins are at least 16 tau long, so tau comes out at most 1/16 small, plus noise."""
    found = estimate(ar1(16384, 8, rho, seed=1)[0])
    tau = 0.5 * (1 + rho) / (1 - rho)
    assert found.tau == pytest.approx(tau, rel=0.15)
    assert found.variance == pytest.approx(1.0, abs=6 * math.sqrt(4 * tau / 131072))
    # The scatter of 8 walkers: 27 % uncertain, and widened.
    assert found.error == pytest.approx(math.sqrt(2 * tau / 131072), rel=0.9)
    assert found.n_samples == 131072
    assert found.r_hat < 1.01


WITHIN_1, WITHIN_2 = (0.60, 0.80), (0.91, 0.99)
"""Shares of 400 runs, 0.023 and 0.011 uncertain; error bars of few walkers are widened by design."""


@pytest.mark.whole
@pytest.mark.parametrize(
    ("n_draws", "n_walkers", "rho"),
    [
        (8, 128, 0.5), (16, 64, 0.7), (64, 16, 0.9), (32, 8, 0.97), (32, 8, -0.7),
        (512, 1, 0.0), (256, 4, 0.5), (256, 4, -0.7), (64, 4, 0.99), (1, 64, 0.0), (1, 8, 0.0),
    ],
)  # fmt: skip
def test_coverage(n_draws: int, n_walkers: int, rho: float) -> None:
    """The true mean lies within one error in 68 % of runs and within two in 95, whatever tau is."""
    runs = ar1(n_draws, n_walkers, rho, seed=2, repeats=400)
    found = [estimate(run) for run in runs]
    means = np.abs([e.mean for e in found])
    errors = np.array([e.error for e in found])
    assert WITHIN_1[0] < np.mean(means < errors) < WITHIN_1[1]
    assert WITHIN_2[0] < np.mean(means < 2 * errors) < WITHIN_2[1]


def test_anticorrelated_draws_gain_no_more_than_their_walkers_show() -> None:
    """A common alternation cancels within each walker; what walkers differ by does not."""
    rng = np.random.default_rng(21)
    places = 0.1 * rng.normal(size=16)
    found = estimate(np.tile([[1.0], [-1.0]], (32, 1)) + places)
    assert found.error > places.std(ddof=1) / 4


def test_a_few_rare_events_count_once_more() -> None:
    """Three events of size a in 1024 samples: the error of four."""
    values = np.zeros(1024)
    values[[5, 500, 900]] = 1.0
    found = estimate(values, 1024)
    plain = values.std(ddof=1) / 32
    assert found.largest_share == pytest.approx(1 / 3, rel=0.01)
    assert found.error > math.sqrt(4 / 3) * plain


@pytest.mark.parametrize(("n", "factor"), [(2, 3.7), (3, 1.6)])
def test_two_or_three_samples_are_widened(n: int, factor: float) -> None:
    values = np.random.default_rng(22).normal(size=n)
    assert estimate(values, n).error == pytest.approx(factor * values.std(ddof=1) / math.sqrt(n))


def test_walkers_that_disagree_widen_the_error() -> None:
    """Chains stuck in two places mix fast within each: only whole walkers tell the error."""
    rng = np.random.default_rng(3)
    places = np.where(rng.random(64) < 0.5, -1.0, 1.0)
    values = places + 0.1 * rng.normal(size=(256, 64))
    found = estimate(values)
    assert found.error == pytest.approx(places.std(ddof=1) / 8, rel=0.03)
    assert found.r_hat > 1.5


def test_flat_and_shaped_input_agree() -> None:
    values = ar1(32, 20, 0.4, seed=4)[0]
    assert estimate(values) == estimate(values.ravel(), 20)
    assert estimate(strict.asarray(values.ravel()), 20) == estimate(values)
    shifted = estimate(values + 1e6)
    assert shifted.error == pytest.approx(estimate(values).error, rel=1e-8)
    assert shifted.mean == pytest.approx(values.mean() + 1e6, abs=1e-8)


def test_binning_curve() -> None:
    values = ar1(100, 3, 0.6, seed=5)[0]
    lengths, errors, counts = binning(values)
    np.testing.assert_array_equal(lengths, [1, 2, 4, 8, 16, 32, 64, 100])
    np.testing.assert_array_equal(counts, [300, 150, 75, 36, 18, 9, 3, 3])
    assert errors[0] == pytest.approx(values.std(ddof=1) / math.sqrt(300))
    assert errors[-1] == pytest.approx(values.mean(axis=0).std(ddof=1) / math.sqrt(3))
    pairs = 0.5 * (values[::2] + values[1::2])
    assert errors[1] == pytest.approx(pairs.std(ddof=1) / math.sqrt(150))


def test_short_single_chains_take_the_largest_error() -> None:
    values = ar1(64, 1, 0.95, seed=6)[0]
    _, errors, _ = binning(values)
    assert estimate(values).error >= errors[np.isfinite(errors)].max()


def test_complex_local_values() -> None:
    """The imaginary part averages to zero and is part of the variance of the operator."""
    rng = np.random.default_rng(7)
    real, imaginary = rng.normal(size=(2, 64, 32))
    found, of_real = estimate(real + 1j * imaginary), estimate(real)
    assert (found.mean, found.error, found.tau) == (of_real.mean, of_real.error, of_real.tau)
    expected = (np.abs(real + 1j * imaginary - real.mean()) ** 2).sum() / 2047
    assert found.variance == pytest.approx(expected)


def test_enumeration_is_exact() -> None:
    rng = np.random.default_rng(8)
    values, weight = rng.normal(size=(2, 30))
    weight = np.abs(weight) / np.abs(weight).sum()
    found = exact_estimate(values, weight)
    mean = weight @ values
    assert found.mean == pytest.approx(mean)
    assert found.variance == pytest.approx(weight @ (values - mean) ** 2)
    assert (found.error, found.tau, found.r_hat, found.n_samples) == (0.0, 0.5, 1.0, 30)
    assert exact_estimate(values, 5 * weight).mean == pytest.approx(mean)
    turned = exact_estimate(values + 2j, weight)
    assert turned.variance == pytest.approx(found.variance + 4)
    weight[3], values[3] = 0.0, np.inf  # psi vanishes there
    weight /= weight.sum()
    assert math.isfinite(exact_estimate(values, weight).variance)
    eigenstate = exact_estimate(np.full(30, -0.1), weight)
    assert (eigenstate.mean, eigenstate.variance) == (-0.1, 0.0)


@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (1, 5), (3, 2), (40, 30)])
def test_constant_values(shape: tuple[int, int]) -> None:
    found = estimate(np.full(shape, 0.1))
    assert (found.mean, found.variance, found.tau) == (0.1, 0.0, 0.5)
    assert found.error == (math.inf if shape == (1, 1) else 0.0)
    unmeasured = shape[0] == 1 or (shape[0] < 4 and shape[1] == 1)
    assert math.isnan(found.r_hat) if unmeasured else found.r_hat == 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_values_that_are_not_finite(bad: float) -> None:
    """1e200 is finite, its variance is not."""
    values = np.random.default_rng(0).normal(size=(16, 20))
    values[3, 4] = bad
    found = estimate(values)
    assert (found.error, found.variance, found.tau, found.r_hat) == (math.inf,) * 4
    assert math.isnan(found.mean) or bad == 1e200
    weighted = exact_estimate(values.ravel(), np.full(320, 1 / 320))
    assert weighted.variance == math.inf


@settings(max_examples=100, deadline=None)
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 9), st.integers(1, 9)),
        elements=st.floats(-1e6, 1e6, allow_subnormal=False) | st.sampled_from([0.0, 1.0, 2.0]),
    )
)
def test_any_shape_and_any_ties(values: np.ndarray) -> None:
    """Never a warning; NaN only in R-hat, where there is nothing to compare."""
    found = estimate(values)
    assert found.mean == pytest.approx(values.mean(), rel=1e-9, abs=1e-9)
    assert found.n_samples == values.size
    assert found.error >= 0
    assert found.tau >= 0
    assert math.isfinite(found.variance)
    assert math.isfinite(found.tau)
    assert math.isfinite(found.error) == (values.size > 1)
    unmeasured = values.shape[0] < 2 or (values.shape[0] < 4 and values.shape[1] == 1)
    assert math.isnan(found.r_hat) == unmeasured


def test_v_score() -> None:
    assert v_score(-10.0, 0.5, 16) == pytest.approx(16 * 0.5 / 100)
    assert v_score(-10.0, 0.5, 16, e_inf=-2.0) == pytest.approx(16 * 0.5 / 64)
    assert v_score(0.0, 0.5, 16) == math.inf
    assert v_score(0.0, 0.0, 16) == 0.0


def test_v_score_of_numbers_whose_squares_are_none() -> None:
    assert v_score(-1e200, 1e280, 16) == pytest.approx(16e-120)
    assert v_score(-1e-200, 1e-300, 16) == pytest.approx(16e100)
    assert v_score(-1e300, math.inf, 16) == math.inf
    for energy, variance in ((math.nan, 1.0), (math.inf, math.inf), (-1.0, math.nan)):
        assert math.isnan(v_score(energy, variance, 16))


def test_reads_well() -> None:
    found: Any = Estimate(-0.61903712345, 2.34e-6, 0.1, 0.7, 1.01, 100)
    assert str(found) == "-0.6190371(23)"


def test_the_largest_of_many_values_is_looked_at_among_them() -> None:
    """Of N sites without order one is clear of 0 as seldom as a single one beyond two errors."""
    assert of_many(2.0, 1) == pytest.approx(2.0) == of_many(2.0, 0)
    noise = np.abs(np.random.default_rng(5).normal(size=(20_000, 36)))
    assert (noise > 2.0).any(axis=1).mean() > 0.75
    found = (noise > of_many(2.0, 36)).any(axis=1).mean()
    assert found == pytest.approx(0.0455, abs=5 * np.sqrt(0.0455 / 20_000))
