"""Sums of vectors that do not depend on the order, and are as good as plain ones."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tnvmc.jacobian.exact_sums import total


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_the_order_makes_no_difference_and_the_sum_is_right(dtype: str) -> None:
    rng = np.random.default_rng(0)
    terms = [
        (rng.normal(size=50) * 10.0 ** rng.integers(-8, 8, size=50)).astype(dtype) for _ in range(5)
    ]
    if dtype == "complex128":
        terms = [x + 1j * x[::-1] for x in terms]
    found = total(terms, 5, terms[0])
    for order in itertools.permutations(terms):
        np.testing.assert_array_equal(total(order, 5, terms[0]), found)
    exact = np.array([math.fsum(x[k].real for x in terms) for k in range(50)])
    largest = np.max([abs(x.real) for x in terms], axis=0)
    assert np.all(abs(found.real - exact) <= 5 * 5 * 2.0**-49 * largest)
    assert found.dtype == dtype


def test_what_is_not_finite_is_not_hidden() -> None:
    terms = [np.array([1.0, np.inf, np.nan, 1e308, 0.0]), np.array([2.0, 1.0, 1.0, 1e308, 0.0])]
    found = total(terms, 2, terms[0])
    assert found[0] == 3.0
    assert not np.isfinite(found[1:4]).any()
    assert found[4] == 0.0
    assert not np.isfinite(total([np.array([np.nan])], 1, np.zeros(1))).any()
