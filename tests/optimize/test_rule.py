"""Schedules at their ends, in between, and beyond."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from tnvmc.optimize.rule import Cosine


def values(schedule: Any, n: int) -> np.ndarray:
    return np.array([schedule(step) for step in range(n)])


def test_cosine() -> None:
    found = values(Cosine(0.03, 0.0, 101), 105)
    assert found[0] == pytest.approx(0.03)
    assert found[50] == pytest.approx(0.015)
    np.testing.assert_allclose(found[100:], 0.0, atol=1e-17)
    assert (np.diff(found) <= 0).all()


def test_a_single_step_takes_the_start() -> None:
    assert Cosine(0.1, 0.01, 1)(0) == pytest.approx(0.1)
    assert Cosine(0.1, 0.01, 1)(1) == pytest.approx(0.01)


def test_schedules_are_values() -> None:
    one = Cosine(0.1, 0.0, 5)
    other = Cosine(0.1, 0.0, 5)
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cosine(-1.0, 0.1, 5), "Cosine: start .* -1.0"),
        (lambda: Cosine(float("nan"), 0.1, 5), "Cosine: start .* nan"),
        (lambda: Cosine(0.1, -0.1, 5), "Cosine: end .* -0.1"),
        (lambda: Cosine(0.1, 0.0, 0), "Cosine: steps .* 0"),
    ],
)
def test_letters(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
