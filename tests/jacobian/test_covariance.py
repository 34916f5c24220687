"""Half of S in rows of tiles, as one process has it, against the dense matrix; tests/ranks have it on several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.jacobian.test_jacobian import centred, dumb_dense, random_slices, weights
from tnvmc.jacobian import tiles
from tnvmc.jacobian.base import Jacobian
from tnvmc.jacobian.centered import CenteredJacobian
from tnvmc.jacobian.covariance import of_numbers, of_samples, plus
from tnvmc.jacobian.dense import DenseJacobian, as_base

ROUNDING = 1e-13  # of sums of some dozens of numbers of order one


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "TILE", 5)


def matrices(kind: str) -> tuple[CenteredJacobian, np.ndarray]:
    """A as an operator, and the dense matrix."""
    dtype: Any = np.float64 if kind in ("real", "dense") else np.complex128
    jacobian: Jacobian = random_slices(9, (3, 4, 2), dtype=dtype)
    matrix, weight = centred(dumb_dense(jacobian), weights(9)), weights(9)
    if kind == "dense":
        jacobian = DenseJacobian(dumb_dense(jacobian))
    if kind != "parts":
        return CenteredJacobian(jacobian, weight), matrix
    stacked = CenteredJacobian(as_base(jacobian).stacked_real(), weight, parts=2)
    return stacked, np.concatenate([matrix.real, matrix.imag])


@pytest.mark.parametrize("kind", ["real", "dense", "complex", "parts"])
def test_is_the_square_of_a(kind: str) -> None:
    a, matrix = matrices(kind)
    expected, found = matrix.conj().T @ matrix, of_samples(a)
    np.testing.assert_allclose(found.dense(), expected, atol=ROUNDING)
    assert found.shape == np.asarray(found).shape
    more = plus(found, a, 0.5)
    np.testing.assert_allclose(more.dense(), 1.5 * expected, atol=ROUNDING)
    np.testing.assert_allclose(found.dense(), expected, atol=ROUNDING)  # as it was
    np.testing.assert_allclose(more.diagonal(), 1.5 * np.diagonal(expected).real, atol=ROUNDING)
    x = np.linspace(-1, 1, len(expected)).astype(expected.dtype)
    np.testing.assert_allclose(found.times(x), expected @ x, atol=10 * ROUNDING)
    units = np.linspace(1, 2, len(expected))
    scaled = units[:, None] * expected * units
    np.testing.assert_allclose(found.in_units(units).dense(), scaled, atol=10 * ROUNDING)


def test_that_of_a_file_goes_on() -> None:
    a, _ = matrices("complex")
    found = of_samples(a)
    again = of_numbers(np.array(found), found.n)
    np.testing.assert_array_equal(plus(found, a, 0.3).dense(), plus(again, a, 0.3).dense())
    np.array(found)[:] = 0.0
    assert found.diagonal().any()
