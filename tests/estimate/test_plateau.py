"""The plateau rule on series made by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tnvmc.estimate.plateau import on_plateau, reached

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
