"""The guard: what it lets pass, what it stops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tnvmc.vmc.guard import PATIENCE, Guard

N_SITES = 36


def series(energies: list[float], error: float = 0.05, variance: float = 1.0) -> Guard:
    recent = Guard()
    for energy in energies:
        recent = recent.accepted(energy, error, variance, norm=1.0)
    return recent


def test_noise_and_descent_pass() -> None:
    rng = np.random.default_rng(1)
    falling = -21 - 0.5 * (1 - np.exp(-np.arange(400) / 60)) + 0.05 * rng.normal(size=400)
    recent = Guard()
    for energy in falling:
        assert recent.objection(energy, 1.0, N_SITES) is None
        recent = recent.accepted(energy, 0.05, 1.0, 1.0)


def test_steep_descent_from_a_poor_start_passes() -> None:
    energies = [31.9, 20.0, 7.5, 1.0, -3.0, -5.0, -5.6, -6.5, -6.6, -6.5, -6.8]
    variances = [543.0, 400.0, 180.0, 80.0, 36.0, 20.0, 12.0, 2.6, 3.3, 9.0, 1.1]
    recent = Guard()
    for energy, variance in zip(energies, variances, strict=True):
        error = math.sqrt(variance / 256)
        assert recent.objection(energy, variance, 16) is None
        recent = recent.accepted(energy, error, variance, 1.0)


@pytest.mark.parametrize("n_before", [1, 3, 10, 40])
def test_a_jump_upwards_is_stopped(n_before: int) -> None:
    recent = series([-21.7] * n_before)
    found = recent.objection(-19.0, 1.0, N_SITES)
    assert found is not None and found.code == "energy_jump"
    assert found.values == {"before": -21.7, "after": -19.0}


def test_a_fall_passes_whatever_its_size() -> None:
    recent = series([-20.0] * 10)
    assert recent.objection(-25.0, 1.0, N_SITES) is None


def test_a_schedule_that_has_come_down_to_zero_shortens_nothing() -> None:
    recent = series([-20.0] * 3)
    assert recent.shortened(norm=1.0, learning_rate=0.0, size=2.0) == 1.0


def test_an_exploding_variance_is_stopped_and_a_small_one_may_grow() -> None:
    recent = series([-21.7] * 10)
    found = recent.objection(-21.7, 50.0, N_SITES)
    assert found is not None and found.code == "variance_jump"
    nearly_exact = series([-21.7] * 10, error=1e-6, variance=1e-6)
    assert nearly_exact.objection(-21.7, 1e-4, N_SITES) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_stopped_always(bad: float) -> None:
    assert Guard().objection(bad, 1.0, N_SITES)
    assert Guard().objection(-1.0, bad, N_SITES)


def test_without_noise_an_oscillation_is_stopped_and_rounding_is_not() -> None:
    energies = [-9.0 - 0.18 * (1 - 0.8**k) for k in range(100)]
    recent = series(energies, error=0.0, variance=1e-9)
    last = energies[-1]
    assert recent.objection(last + 1e-6, 1e-9, N_SITES) is None
    assert recent.objection(last + 1e-2, 1e-9, N_SITES)


def test_an_unknown_error_bar_is_no_objection() -> None:
    recent = series([-1.0] * 5, error=math.inf)
    assert recent.objection(-1.0, 1.0, N_SITES) is None
    assert recent.objection(5.0, 1.0, N_SITES)


def test_long_steps_are_shortened() -> None:
    recent = series([-1.0] * 10)
    assert recent.shortened(norm=2.0, learning_rate=0.1, size=10.0) == 1.0
    assert recent.shortened(norm=40.0, learning_rate=0.01, size=10.0) == pytest.approx(0.1)
    assert Guard().shortened(norm=100.0, learning_rate=0.1, size=10.0) == pytest.approx(0.3)


def test_the_learning_rate_shrinks_and_grows_back() -> None:
    recent = series([-1.0] * 5).rejected().rejected()
    assert (recent.scale, recent.rollbacks) == (0.25, 2)
    again = recent.accepted(-1.0, 0.1, 1.0, 1.0, retried=True)
    assert (again.scale, again.rollbacks) == (0.25, 2)
    for _ in range(40):
        again = again.accepted(-1.0, 0.1, 1.0, 1.0)
    assert (again.scale, again.rollbacks) == (1.0, 0)


def test_after_many_retries_the_present_is_taken_as_it_is() -> None:
    recent = series([-1.0] * 5)
    for _ in range(PATIENCE):
        assert recent.objection(5.0, 1.0, N_SITES)
        recent = recent.rejected()
    assert recent.objection(5.0, 1.0, N_SITES) is None
    assert recent.accepted(5.0, 0.1, 1.0, 1.0).energies == (5.0,)
