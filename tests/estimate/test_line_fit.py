"""Lines through points and tails of an optimisation: data with known answers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnvmc.estimate.line_fit import (
    binned_steps,
    change_over_last_quarter,
    converging_tail,
    fit_line,
    on_plateau,
    reached,
)

RNG = np.random.default_rng
SIGMAS = 4.0  # chance alone fails a check once in 16 000 runs, and the seeds are fixed


@given(
    intercept=st.floats(-100, 100),
    slope=st.floats(-10, 10),
    shift=st.floats(-50, 50),
    n=st.integers(2, 9),
)
def test_points_on_a_line_give_that_line(
    intercept: float, slope: float, shift: float, n: int
) -> None:
    x = np.arange(n) + shift
    line = fit_line(x, intercept + slope * x, np.full(n, 0.1))
    assert line.intercept == pytest.approx(intercept, abs=1e-9)
    assert line.slope == pytest.approx(slope, abs=1e-9)
    assert math.isinf(line.intercept_error) == (n == 2)


def test_errors_of_a_line_are_those_of_least_squares() -> None:
    """Against the textbook matrix (A^T W A)^-1, with chi^2 per degree of freedom below 1."""
    x, error = np.array([1.0, 2.0, 4.0, 7.0]), np.array([0.1, 0.2, 0.1, 0.3])
    y = 2 + 3 * x + 0.5 * error * np.array([1, -1, 1, -1])
    design = np.stack([np.ones(4), x], axis=1)
    covariance = np.linalg.inv(design.T @ (design / error[:, None] ** 2))
    line = fit_line(x, y, error)
    assert line.chi2_per_dof < 1
    assert line.intercept_error == pytest.approx(math.sqrt(covariance[0, 0]))
    assert line.slope_error == pytest.approx(math.sqrt(covariance[1, 1]))
    expected = covariance @ (design.T @ (y / error**2))
    assert [line.intercept, line.slope] == pytest.approx(list(expected))


def test_points_that_scatter_more_than_they_say_get_larger_errors() -> None:
    rng = RNG(3)
    x, pulls = np.linspace(1, 2, 12), []
    for _ in range(300):
        y = 1 - 2 * x + 0.5 * rng.normal(size=12)  # ten times the error given
        line = fit_line(x, y, np.full(12, 0.05))
        pulls.append((line.intercept - 1) / line.intercept_error)
    # Student's t with 10 degrees of freedom has a variance of 10/8.
    assert np.std(pulls) == pytest.approx(math.sqrt(10 / 8), rel=0.2)


def test_points_without_errors_count_alike() -> None:
    x = np.array([0.0, 1.0, 2.0])
    line = fit_line(x, np.array([0.0, 1.5, 2.0]), np.zeros(3))
    assert line.slope == pytest.approx(1.0)
    assert 0 < line.intercept_error < math.inf
    assert math.isnan(line.chi2_per_dof)


def test_no_line_through_one_place() -> None:
    with pytest.raises(ValueError, match="fix no line"):
        fit_line([1.0, 1.0], [0.0, 1.0], [1.0, 1.0])


def optimisation(n: int = 200, error: float = 2e-3, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Energy -10 + 0.3 variance, which falls from 3 to 0.3; the start is off the line."""
    rng = RNG(seed)
    step = np.arange(n)
    variance = 0.3 + 2.7 * np.exp(-step / 40)
    energy = -10 + 0.3 * variance + 0.2 * np.maximum(variance - 1.5, 0) ** 2
    return energy + error * rng.normal(size=n), np.full(n, error), variance


def test_the_tail_of_an_optimisation_points_at_the_energy_of_zero_variance() -> None:
    energy, error, variance = optimisation()
    points = converging_tail(energy, error, variance)
    assert 3 <= len(points) <= 12
    assert points[-1].last == 199
    assert max(point.variance for point in points) < 4 * 0.35
    line = fit_line(
        [p.variance for p in points], [p.energy for p in points], [p.energy_error for p in points]
    )
    assert abs(line.intercept + 10) < SIGMAS * line.intercept_error < 5e-3


def test_a_variance_that_does_not_fall_gives_no_tail() -> None:
    rng = RNG(0)
    noise = rng.exponential(size=100)
    energy = -1 - 0.1 * noise
    assert converging_tail(energy, np.full(100, 0.1), 1 + noise) == []
    assert converging_tail(energy[:8], np.full(8, 0.1), np.arange(8.0, 0, -1)) == []


def test_bins_are_of_equal_length_and_end_with_the_last_step() -> None:
    assert binned_steps([], [], []) == []
    (only,) = binned_steps(np.arange(7.0), np.ones(7), np.ones(7), first=10)
    assert (only.first, only.last) == (10, 16)
    assert only.energy == 3.0
    assert only.energy_error == pytest.approx(1 / math.sqrt(7))
    many = binned_steps(np.arange(100.0), np.ones(100), np.ones(100))
    assert len(many) == 12
    assert (many[0].first, many[-1].last) == (4, 99)


@pytest.mark.parametrize("slope", [0.0, -1e-3])
def test_the_change_over_the_last_quarter(slope: float) -> None:
    step, error = np.arange(160), 2e-3
    energy = -5 + slope * step + error * RNG(4).normal(size=160)
    seen = change_over_last_quarter(energy, np.full(160, error))
    assert seen is not None
    change, uncertainty = seen
    assert abs(change - 40 * slope) < SIGMAS * uncertainty
    assert uncertainty < 5e-3
    longer = change_over_last_quarter(energy, np.full(160, error), quarters=2)
    assert longer is not None
    assert abs(longer[0] - 40 * slope) < SIGMAS * longer[1]
    assert longer[1] < 0.6 * uncertainty
    assert change_over_last_quarter(energy[:40], np.full(40, error)) is None


@pytest.mark.parametrize(
    ("y", "error"),
    [
        ([1.0, 2.0], [0.1] * 3),
        ([1.0, 2.0, math.nan], [0.1] * 3),
        ([1.0, 2.0, 3.0], [0.1, -0.1, 0.1]),
    ],
)
def test_points_that_are_none_are_refused(y: list[float], error: list[float]) -> None:
    with pytest.raises(ValueError, match="fit_line"):
        fit_line([1.0, 2.0, 3.0], y, error)


WINDOW = 20
SIGMA = 0.1 / math.sqrt(WINDOW)  # error of the mean of 20 values of error 0.1
SLOPE_ERROR = 0.1 * math.sqrt(12 / (WINDOW * (WINDOW**2 - 1)))
TRIALS = 2000


def share_on_plateau(slope: float) -> float:
    """Of series with this slope and noise of 0.1."""
    rng = np.random.default_rng(1)
    series = slope * np.arange(WINDOW) + 0.1 * rng.normal(size=(TRIALS, WINDOW))
    return float(np.mean([on_plateau(row, [0.1] * WINDOW) for row in series.tolist()]))


def lines(energies: Any, error: float | None = 0.1) -> list[dict[str, Any]]:
    return [{"energy": e, "energy_error": error, "undone": False} for e in energies]


@pytest.mark.whole
def test_flat_noise_is_a_plateau_and_a_slope_of_three_errors_is_not() -> None:
    """Shares as the normal distribution has them, within three of their binomial errors."""
    for errors_of_slope in (0.0, 1.0, 3.0):
        spread = WINDOW * SLOPE_ERROR
        mean_fall = errors_of_slope * spread
        expected = 0.5 * (1 + math.erf((SIGMA - mean_fall) / spread / math.sqrt(2)))
        allowed = 3 * math.sqrt(expected * (1 - expected) / TRIALS)
        found = share_on_plateau(-errors_of_slope * SLOPE_ERROR)
        assert abs(found - expected) < allowed
    assert share_on_plateau(0.0) > 0.55
    assert share_on_plateau(-3 * SLOPE_ERROR) < 0.01
    assert share_on_plateau(3 * SLOPE_ERROR) > 0.99  # a rising energy


def test_the_limit_is_one_error_of_the_mean() -> None:
    for share, expected in ((0.99, True), (1.01, False)):
        series = -share * SIGMA / WINDOW * np.arange(WINDOW)
        assert on_plateau(series.tolist(), [0.1] * WINDOW) is expected


def test_values_count_by_their_errors() -> None:
    energies = [-1.0] * 10 + [5.0]
    assert not on_plateau([-0.1 * step for step in range(10)] + [5.0], [0.01] * 10 + [1e3])
    assert on_plateau(energies, [0.01] * 11)


def test_without_noise_the_line_must_not_fall() -> None:
    assert not on_plateau([-1e-9 * step for step in range(8)], [0.0] * 8)
    assert on_plateau([1e-9 * step for step in range(8)], [0.0] * 8)


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_values_are_no_plateau(n: int) -> None:
    assert not on_plateau([-1.0] * n, [0.1] * n)


def test_only_the_last_steps_that_stayed_count() -> None:
    steep, flat = lines(-np.arange(10.0)), lines([-9.0] * 6)
    assert not reached(steep, 6)
    assert reached(steep + flat, 6)
    assert not reached(steep + flat, 0)
    assert not reached(flat, 7)  # too few
    undone = [{"energy": 50.0, "energy_error": 0.1, "undone": True}]
    assert reached(steep + flat[:3] + undone + flat[3:], 6)
    unknown = lines([None]) + lines([-9.0], error=None)
    assert reached(steep + flat[:3] + unknown + flat[3:], 6)
    assert not reached(steep + flat[:3] + undone + unknown + flat[3:], 8)
