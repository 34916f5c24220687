"""Products of compiled functions: columns in groups, several matrices, two inner indices."""

from __future__ import annotations

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from tnvmc.backend.host.products import products
from tnvmc.backend.host.vectors import keep, pointer


@numba.njit
def multiplied(a, b, c, of_a, of_b, of_c, sizes):
    """Write products to an array."""
    products(pointer(a, 0), pointer(b, 0), pointer(c, 0), of_a, of_b, of_c, sizes)
    keep(a, b, c)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("width", [1, 3, 4, 5, 8, 9, 12, 16, 17])
def test_columns_of_a_product_are_written_in_groups(width: int, dtype: str) -> None:
    """Whole numbers, so that sums are exact; what lies between groups stays as it was."""
    rng, (number, m, inner, outer, n_groups) = np.random.default_rng(width), (2, 11, 3, 2, 5)
    of_c, n = (n_groups * (m * width + 7) + 3, width, m * width + 7), width * n_groups
    a = rng.integers(-9, 9, size=(number, m, outer, inner)).astype(dtype)
    b = rng.integers(-9, 9, size=(number, outer * inner, n)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        a, b = a * (1 + 2j), b * (3 - 1j)
        a, b = a.astype(dtype), b.astype(dtype)
    a[..., 0, :] *= 2
    c = np.full(number * of_c[0], 7, dtype)
    of_a = m * inner * outer, inner * outer, 1, inner
    sizes = number, m, n, inner, outer, width
    multiplied(a.ravel(), b.ravel(), c, of_a, (b[0].size, n), of_c, sizes)
    wanted = np.full(c.shape, 7, dtype)
    product = (a.reshape(number, m, -1) @ b).reshape(number, m, n_groups, width)
    for i in range(number):
        for group in range(n_groups):
            begin = i * of_c[0] + group * of_c[2]
            wanted[begin : begin + m * width] = product[i, :, group].ravel()
    np.testing.assert_array_equal(c, wanted)


def test_the_inner_index_may_run_over_rows_of_a() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, size=(6, 13)).astype(float), rng.integers(-9, 9, size=(6, 20)) + 0.0
    c = np.full((13, 24), 7.0)
    multiplied(a, b, c, (0, 1, 13, 0), (0, 20), (0, 24, 20), (1, 13, 20, 6, 1, 20))
    np.testing.assert_array_equal(c[:, :20], a.T @ b)
    assert np.all(c[:, 20:] == 7)
