"""Solvers against numpy.linalg on matrices of known spectrum."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

from tests.jacobian.test_triangle import stored
from tnvmc.backend.namespace import to_host
from tnvmc.jacobian.cholesky import Triangle
from tnvmc.optimize.solve import Cholesky, Eigen

SPACES = {"numpy": np, "strict": strict}


def matrix_with(values: np.ndarray, dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    square = rng.normal(size=(len(values),) * 2).astype(dtype)
    if dtype == "complex128":
        square = square + 1j * rng.normal(size=square.shape)
    basis = np.linalg.qr(square)[0]
    return (basis * values) @ basis.conj().T


def vector(n: int, dtype: str) -> np.ndarray:
    values = np.random.default_rng(9).normal(size=(2, n))
    return (values[0] + 1j * values[1]) if dtype == "complex128" else values[0]


def halved(matrix: np.ndarray) -> Triangle:
    return stored(matrix)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("solver", [Cholesky(), Eigen()])
def test_regular_systems(solver: Any, dtype: str, space: str) -> None:
    xp = SPACES[space]
    matrix = matrix_with(np.geomspace(1e-4, 1, 20), dtype)
    rhs = vector(20, dtype)
    before = matrix.copy()
    x, info = solver(xp.asarray(matrix), xp.asarray(rhs), 1e-3)
    shifted = matrix + 1e-3 * np.eye(20)
    np.testing.assert_allclose(to_host(x), np.linalg.solve(shifted, rhs), rtol=1e-10)
    np.testing.assert_array_equal(matrix, before)
    assert info.method == ("cholesky" if isinstance(solver, Cholesky) else "eigh")
    assert (info.rank, info.shift) == (20, 1e-3)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("single", "dtype"), [("float32", "float64"), ("complex64", "complex128")])
@pytest.mark.parametrize("smallest", [1e-3, 1e-9])  # of which single precision knows nothing
def test_matrices_of_single_precision_are_solved_in_double(
    smallest: float, single: str, dtype: str, space: str
) -> None:
    xp = SPACES[space]
    matrix = matrix_with(np.geomspace(1e-12, 1, 80), dtype).astype(single)
    rhs = vector(80, dtype)
    for system in ((xp.asarray(matrix), xp.asarray(rhs)), (halved(matrix), rhs)):
        x, info = Cholesky()(*system, smallest)
        residual = matrix.astype(dtype) @ to_host(x) + smallest * to_host(x) - rhs
        if info.method == "cholesky":
            assert np.abs(residual).max() < 1e-7 * np.linalg.norm(rhs)
        else:  # rounding of the matrix has made it negative
            assert smallest == 1e-9
        assert info.shift == smallest


def test_a_usual_average_of_s_is_not_factorised_in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pivots fall below n eps; the residual shows that the factor is good."""
    rows = np.random.default_rng(0).normal(size=(250, 500)) / np.sqrt(250)  # fewer than parameters
    matrix, rhs = (rows.T @ rows).astype(np.float32), vector(500, "float64")
    monkeypatch.setattr(Triangle, "dense", None)
    x, _ = Cholesky()(halved(matrix), rhs, 2e-5)
    residual = matrix.astype(float) @ x + 2e-5 * x - rhs
    assert np.linalg.norm(residual) < 1e-7 * np.linalg.norm(rhs)


def test_single_precision_without_room_for_the_rhs_is_left() -> None:
    matrix = 1e37 * np.eye(3, dtype=np.float32)
    for system in (matrix, halved(matrix)):
        x, _ = Cholesky()(system, np.full(3, 1e39), 0.0)
        np.testing.assert_allclose(x, 1e39 / matrix[0, 0].astype(float))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("single", ["float32", "complex64"])
def test_eigenvalues_of_a_matrix_in_single_precision_are_not_cut_at_its_rounding(
    single: str, space: str
) -> None:
    xp = SPACES[space]
    matrix = np.diag(np.geomspace(1e-6, 1, 30)).astype(single)
    rhs = np.ones(30, "float64" if single == "float32" else "complex128")
    x, info = Eigen()(xp.asarray(matrix), xp.asarray(rhs), 0.0)
    assert info.rank == 30
    np.testing.assert_allclose(to_host(x), 1 / np.diag(matrix), rtol=1e-6)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_cutoff_is_relative_and_gives_the_pseudo_inverse(dtype: str, space: str) -> None:
    xp = SPACES[space]
    values = np.array([0.0, 0.0, 1e-9, 1e-3, 1.0, 50.0])
    matrix, rhs = matrix_with(values, dtype), vector(6, dtype)
    x, info = Eigen(cutoff=1e-7)(xp.asarray(matrix), xp.asarray(rhs))
    expected = np.linalg.pinv(matrix, rcond=1e-7, hermitian=True) @ rhs
    np.testing.assert_allclose(to_host(x), expected, rtol=1e-9)
    assert info.rank == 3


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    "values", [[0.0, 1.0, 2.0], [-1e-13, 1.0, 2.0], [1e-15, 1.0, 3.0], [0.0, 0.0, 0.0]]
)
def test_cholesky_falls_back_where_it_cannot_work(values: list[float], space: str) -> None:
    xp = SPACES[space]
    matrix, rhs = matrix_with(np.array(values), "float64"), vector(3, "float64")
    x, info = Cholesky()(xp.asarray(matrix), xp.asarray(rhs), 0.0)
    assert info.method == "cholesky failed, eigh"
    assert info.rank == (0 if max(values) == 0 else 2)
    expected = np.linalg.pinv(matrix, rcond=1e-11, hermitian=True) @ rhs
    np.testing.assert_allclose(to_host(x), expected, atol=1e-10)


def test_cutoff_out_of_range() -> None:
    with pytest.raises(ValueError, match="cutoff = 1"):
        Eigen(cutoff=1)
