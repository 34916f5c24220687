"""Rows of tiles of a Hermitian matrix against the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jacobian.test_cholesky import DTYPES, SIZES, bound, positive
from tnvmc.backend.process import ALONE, using_threads
from tnvmc.jacobian.cholesky import Triangle
from tnvmc.jacobian.tiles import TILE, n_stored, rows_of


def stored(matrix: np.ndarray) -> Triangle:
    tiles = [matrix[i : i + TILE, : i + TILE].ravel() for i in range(0, len(matrix), TILE)]
    return Triangle(len(matrix), rows_of(len(matrix)), np.concatenate(tiles))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_is_the_matrix(n: int, dtype: str) -> None:
    matrix = positive(n, dtype)
    triangle = stored(matrix)
    assert len(triangle.numbers) == n_stored(n) <= n * (n + TILE) / 2
    lower = np.tril_indices(n)
    np.testing.assert_array_equal(triangle.dense()[lower], matrix[lower])
    np.testing.assert_array_equal(triangle.diagonal(ALONE), np.diagonal(matrix).real)
    halved = triangle.plus([], 0.5)
    np.testing.assert_array_equal(halved.dense(), triangle.dense() / 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_squares_are_added(n: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    rows = rng.normal(size=(2, 5, n)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        rows = rows + (1j * rng.normal(size=rows.shape)).astype(dtype)
    triangle = Triangle(n, rows_of(n), np.zeros(n_stored(n), rows.dtype))
    triangle = triangle.plus(rows)
    expected = sum(part.conj().T @ part for part in rows)
    atol = 20 * np.finfo(dtype).eps * np.abs(rows).max() ** 2  # ten terms of each entry
    np.testing.assert_allclose(triangle.dense(), expected, rtol=0, atol=atol)


@pytest.mark.whole
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_products_and_solutions(n: int, dtype: str) -> None:
    matrix = positive(n, dtype)
    triangle, double = stored(matrix), np.result_type(dtype, np.float64)
    rng = np.random.default_rng(1)
    x = rng.normal(size=n)
    x = x + 1j * rng.normal(size=n) if double.kind == "c" else x
    exact = matrix.astype(double)
    found = triangle.times(x, ALONE)
    assert found.dtype == double
    rounding = 10 * n * np.finfo(double).eps * np.linalg.norm(matrix, 2) * np.linalg.norm(x)
    # Entries of the two triangles of `matrix` differ by the rounding of its own type.
    rounding += float(np.abs(matrix - matrix.conj().T).max()) * np.abs(x).sum()
    np.testing.assert_allclose(found, exact @ x, rtol=0, atol=rounding)
    factor = triangle.factor(0.5, ALONE)
    assert factor is not None
    lower = np.linalg.cholesky(matrix + 0.5 * np.eye(n, dtype=dtype))
    np.testing.assert_allclose(
        factor.pivots(), np.diagonal(lower).real, rtol=0, atol=bound(n, matrix)
    )
    solved = factor.solve(x.astype(dtype))
    assert solved.dtype == matrix.dtype
    expected = np.linalg.solve(exact + 0.5 * np.eye(n), x)
    error = 100 * bound(n, matrix) * np.linalg.norm(expected)
    np.testing.assert_allclose(solved, expected, rtol=0, atol=error)


@pytest.mark.parametrize("row", [0, TILE - 1, TILE + 2])
def test_a_pivot_that_is_not_positive_gives_no_factor(row: int) -> None:
    matrix = positive(TILE + 5, "float64")
    matrix[row, row] = -10.0
    assert stored(matrix).factor(0.0, ALONE) is None


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_bits_do_not_depend_on_the_number_of_threads(dtype: str) -> None:
    n, found = 3 * TILE + 1, []
    matrix = positive(n, dtype)
    x = np.linspace(-1.0, 1.0, n).astype(np.result_type(dtype, np.float64))
    for n_threads in (1, 2, 3):
        with using_threads(n_threads):
            triangle = stored(matrix).plus([matrix[:7]])
            factor = triangle.factor(0.5, ALONE)
            assert factor is not None
            results = triangle.numbers, triangle.times(x, ALONE), factor.solve(x)
            found.append(b"".join(each.tobytes() for each in results))
    assert len(set(found)) == 1
