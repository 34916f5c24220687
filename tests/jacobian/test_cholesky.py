"""The factor by tiles against LAPACK's, and that threads do not change a bit of it."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc.backend.process import using_threads
from tnvmc.jacobian.cholesky import lower_factor
from tnvmc.jacobian.tiles import TILE

SIZES = [1, 7, TILE, TILE + 1, 2 * TILE + 3]
DTYPES = ["float32", "float64", "complex64", "complex128"]


def positive(n: int, dtype: str, seed: int = 0) -> np.ndarray:
    """A matrix whose eigenvalues are of order 1 to 4."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(2 * n, n)) / np.sqrt(2 * n)
    if np.dtype(dtype).kind == "c":
        rows = rows + 1j * rng.normal(size=rows.shape) / np.sqrt(2 * n)
    rows = rows.astype(dtype)
    return rows.conj().T @ rows


def bound(n: int, matrix: np.ndarray) -> float:
    """Of the error of the factor: n eps times its norm, and its condition is of order 10."""
    return 10 * (n + 1) * float(np.finfo(matrix.dtype).eps) * float(np.linalg.norm(matrix, 2))


@pytest.mark.whole
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_the_factor_is_that_of_lapack(n: int, dtype: str) -> None:
    matrix = positive(n, dtype)
    before = matrix.copy()
    lower = np.tril(lower_factor(matrix, 0.5))
    expected = np.linalg.cholesky(matrix + 0.5 * np.eye(n, dtype=dtype))
    assert lower.dtype == matrix.dtype == np.dtype(dtype)
    np.testing.assert_allclose(lower, expected, rtol=0, atol=bound(n, matrix))
    np.testing.assert_array_equal(matrix, before)


def test_the_other_triangle_is_not_read() -> None:
    matrix = positive(TILE + 5, "float64")
    expected = np.tril(lower_factor(matrix, 0.5))
    half = np.tril(matrix) + np.triu(np.full_like(matrix, np.nan), 1)
    np.testing.assert_array_equal(np.tril(lower_factor(half, 0.5)), expected)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_bits_do_not_depend_on_the_number_of_threads(dtype: str) -> None:
    matrix = positive(3 * TILE + 1, dtype)
    found = []
    for n_threads in (1, 2, 3):
        with using_threads(n_threads):
            found.append(np.tril(lower_factor(matrix, 0.5)))
    assert all(np.array_equal(found[0], each) for each in found[1:])


@pytest.mark.parametrize("row", [0, TILE - 1, TILE + 2])
def test_a_pivot_that_is_not_positive_is_refused(row: int) -> None:
    matrix = positive(TILE + 5, "float64")
    matrix[row, row] = -10.0
    with pytest.raises(np.linalg.LinAlgError, match=f"pivot {row} "):
        lower_factor(matrix, 0.0)
