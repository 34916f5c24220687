"""Schedules at their ends, in between, and beyond."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from tnvmc.optimize.schedules import Constant, Cosine, Exponential, Piecewise, WarmUp


def values(schedule: Any, n: int) -> np.ndarray:
    return np.array([schedule(step) for step in range(n)])


def test_constant() -> None:
    np.testing.assert_array_equal(values(Constant(0.05), 3), 0.05)


def test_exponential() -> None:
    found = values(Exponential(0.1, 0.001, 11), 14)
    np.testing.assert_allclose(found[:11], np.geomspace(0.1, 0.001, 11))
    np.testing.assert_allclose(found[10:], 0.001)


def test_cosine() -> None:
    found = values(Cosine(0.03, 0.0, 101), 105)
    assert found[0] == pytest.approx(0.03)
    assert found[50] == pytest.approx(0.015)
    np.testing.assert_allclose(found[100:], 0.0, atol=1e-17)
    assert (np.diff(found) <= 0).all()


@pytest.mark.parametrize("kind", [Exponential, Cosine])
def test_a_single_step_takes_the_start(kind: Any) -> None:
    assert kind(0.1, 0.01, 1)(0) == pytest.approx(0.1)
    assert kind(0.1, 0.01, 1)(1) == pytest.approx(0.01)


def test_piecewise_of_numbers_and_schedules() -> None:
    schedule = Piecewise([0.1, Exponential(0.08, 0.02, 3), 0.01], [2, 3, 1])  # type: ignore[arg-type]
    expected = [0.1, 0.1, 0.08, 0.04, 0.02, 0.01, 0.01, 0.01]
    np.testing.assert_allclose(values(schedule, 8), expected)


def test_warm_up() -> None:
    found = values(WarmUp(Constant(0.1), 4), 6)
    np.testing.assert_allclose(found, [0.025, 0.05, 0.075, 0.1, 0.1, 0.1])


def test_schedules_are_values() -> None:
    one = WarmUp(Piecewise((0.1, Cosine(0.1, 0.0, 5)), (3, 5)), 2)
    other = WarmUp(Piecewise((0.1, Cosine(0.1, 0.0, 5)), (3, 5)), 2)
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant(-1.0), "Constant: value .* -1.0"),
        (lambda: Constant(float("nan")), "Constant: value .* nan"),
        (lambda: Exponential(0.1, 0.0, 5), "Exponential: end .* 0.0"),
        (lambda: Cosine(0.1, -0.1, 5), "Cosine: end .* -0.1"),
        (lambda: Cosine(0.1, 0.0, 0), "Cosine: steps .* 0"),
        (lambda: Piecewise((), ()), "0 stages and 0 lengths"),
        (lambda: Piecewise((0.1, 0.2), (5,)), "2 stages and 1 lengths"),
        (lambda: Piecewise((0.1,), (0,)), r"lengths\[0\] .* 0"),
        (lambda: Piecewise((0.1, -0.2), (1, 1)), r"stages\[1\] .* -0.2"),
        (lambda: WarmUp(Constant(0.1), 0), "WarmUp: steps .* 0"),
    ],
)
def test_letters(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
