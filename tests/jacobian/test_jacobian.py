"""Jacobians against the dense matrix written down entry by entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tnvmc.backend.namespace import to_host
from tnvmc.jacobian import centered as module
from tnvmc.jacobian.centered import CenteredJacobian
from tnvmc.jacobian.dense import DenseJacobian, as_base, concatenate
from tnvmc.jacobian.slices import SliceJacobian

EXACT = 1e-13  # rounding of sums of some tens of products of numbers of size 1
SPACES = {"numpy": np, "strict": strict}


def numbers(rng: np.random.Generator, shape: Any, dtype: Any) -> np.ndarray:
    values = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.normal(size=shape)
    return values.astype(dtype)


def random_slices(
    n_samples: int,
    widths: tuple[int, ...],
    local_dim: int = 2,
    dtype: Any = np.float64,
    seed: int = 0,
    xp: Any = np,
) -> SliceJacobian:
    rng = np.random.default_rng(seed)
    slices = [xp.asarray(numbers(rng, (n_samples, n), dtype)) for n in widths]
    spins = rng.integers(local_dim, size=(n_samples, len(widths)), dtype=np.int8)
    return SliceJacobian(slices, xp.asarray(spins), local_dim)


def dumb_dense(jacobian: SliceJacobian) -> np.ndarray:
    """The matrix O, one sample, one site at a time."""
    rows = []
    for s, spins in enumerate(to_host(jacobian.spins)):
        row = []
        for site, spin in enumerate(spins):
            selected = to_host(jacobian.slices[site])[s]
            block = np.zeros((jacobian.local_dim, len(selected)), dtype=selected.dtype)
            block[spin] = selected
            row.append(block.ravel())
        rows.append(np.concatenate(row))
    return np.array(rows)


def centred(dense: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.sqrt(weight)[:, None] * (dense - weight @ dense)


def weights(n_samples: int, seed: int = 1) -> np.ndarray:
    values = np.random.default_rng(seed).random(n_samples) + 1e-3
    return values / values.sum()


@dataclass
class Foreign:
    """A Jacobian that offers what the interface asks for and no more."""

    matrix: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape  # type: ignore[return-value]

    def apply(self, v: np.ndarray) -> np.ndarray:
        return self.matrix @ v

    def adjoint(self, u: np.ndarray) -> np.ndarray:
        return self.matrix.conj().T @ u

    def gram(self) -> np.ndarray:
        return self.matrix @ self.matrix.conj().T

    def dense(self) -> np.ndarray:
        return self.matrix


def assert_same_operator(
    jacobian: Any, dense: np.ndarray, rtol: float = EXACT, xp: Any = np
) -> None:
    """apply, adjoint and gram agree with the matrix `dense`."""
    rng = np.random.default_rng(5)
    v, u = (numbers(rng, n, dense.dtype) for n in reversed(dense.shape))
    size = max(1.0, float(np.abs(dense).max()))
    assert tuple(jacobian.shape) == dense.shape
    for found, expected in (
        (jacobian.apply(xp.asarray(v)), dense @ v),
        (jacobian.adjoint(xp.asarray(u)), dense.conj().T @ u),
        (jacobian.gram(), dense @ dense.conj().T),
    ):
        scale = size**2 * max(dense.shape)
        np.testing.assert_allclose(to_host(found), expected, rtol=0, atol=rtol * scale)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32", "complex64"])
@pytest.mark.parametrize("local_dim", [1, 2, 3])
def test_slices_are_the_dense_matrix(space: str, dtype: str, local_dim: int) -> None:
    jacobian = random_slices(23, (3, 1, 4, 2, 5), local_dim, dtype, xp=SPACES[space])
    dense = dumb_dense(jacobian)
    np.testing.assert_array_equal(to_host(jacobian.dense()), dense)
    single = dtype in ("float32", "complex64")
    assert_same_operator(jacobian, dense, 1e-6 if single else EXACT, SPACES[space])
    assert str(to_host(jacobian.gram()).dtype) == ("complex128" if "c" in dtype else "float64")


@pytest.mark.whole
@settings(max_examples=60, deadline=None)
@given(
    n_samples=st.integers(1, 17),
    widths=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    local_dim=st.integers(1, 4),
    dtype=st.sampled_from([np.float64, np.complex128]),
    seed=st.integers(0, 2**16),
)
def test_any_shape(
    n_samples: int, widths: list[int], local_dim: int, dtype: Any, seed: int
) -> None:
    jacobian = random_slices(n_samples, tuple(widths), local_dim, dtype, seed)
    dense = dumb_dense(jacobian)
    assert_same_operator(jacobian, dense)
    weight = weights(n_samples, seed)
    matrix = centred(dense, weight)
    centred_jacobian = CenteredJacobian(jacobian, weight)
    assert_same_operator(centred_jacobian, matrix)
    np.testing.assert_allclose(centred_jacobian.covariance(), matrix.conj().T @ matrix, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(7, 3, 4), (5, 4, 100), (11, 7, 2)])
def test_a_covariance_is_added_in_pieces(
    dtype: Any, shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces of rows that do not divide their number, and a single one that holds all."""
    n_samples, n_sites, rows = shape
    for name, value in (("_DENSE_ROWS", rows), ("_DENSE_ENTRIES", 1)):
        monkeypatch.setattr(f"tnvmc.jacobian.centered.{name}", value)
    jacobian = random_slices(n_samples, (2,) * n_sites, 2, dtype, 0)
    weight = weights(n_samples, 1)
    matrix = centred(dumb_dense(jacobian), weight)
    exact = matrix.conj().T @ matrix
    total = 2 * exact
    CenteredJacobian(jacobian, weight).add_covariance(total)
    np.testing.assert_allclose(total, 3 * exact, atol=1e-12)


def test_equal_spins_everywhere() -> None:
    jacobian = random_slices(40, (4, 4, 4), dtype=np.float64)
    ordered = SliceJacobian(jacobian.slices, np.zeros((40, 3), dtype=np.int8))
    assert_same_operator(ordered, dumb_dense(ordered))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_dense(space: str, dtype: str) -> None:
    matrix = numbers(np.random.default_rng(2), (9, 14), dtype)
    jacobian = DenseJacobian(SPACES[space].asarray(matrix))
    assert_same_operator(jacobian, matrix, xp=SPACES[space])
    np.testing.assert_array_equal(to_host(jacobian.dense()), matrix)
    np.testing.assert_array_equal(to_host(jacobian.rows(2, 5).dense()), matrix[2:5])


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("kind", ["slices", "dense"])
def test_centred(space: str, dtype: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_DENSE_ENTRIES", 100)  # many pieces
    xp = SPACES[space]
    jacobian: Any = random_slices(31, (2, 3, 4), 2, dtype, xp=xp)
    dense = dumb_dense(jacobian)
    if kind == "dense":
        jacobian = DenseJacobian(xp.asarray(dense))
    weight = weights(31)
    weight[[3, 7]] = 0.0  # configurations that enumeration visits though psi vanishes there
    weight /= weight.sum()
    found = CenteredJacobian(jacobian, xp.asarray(weight))
    matrix = centred(dense, weight)
    assert_same_operator(found, matrix, xp=xp)
    covariance = to_host(found.covariance())
    np.testing.assert_allclose(covariance, matrix.conj().T @ matrix, atol=1e-13)
    assert np.abs(to_host(found.gram()) @ np.sqrt(weight)).max() < 1e-13


@pytest.mark.parametrize("kind", ["slices", "dense", "foreign"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_real_and_imaginary_parts_stacked(kind: str, dtype: str) -> None:
    jacobian: Any = random_slices(12, (2, 3), 2, dtype)
    dense = dumb_dense(jacobian)
    if kind != "slices":
        jacobian = {"dense": DenseJacobian, "foreign": Foreign}[kind](dense)
    weight = weights(12)
    real = np.concatenate([dense.real, dense.imag])
    assert_same_operator(as_base(jacobian).stacked_real(), real)
    parts = centred(dense, weight)
    matrix = np.concatenate([parts.real, parts.imag])
    found = CenteredJacobian(as_base(jacobian).stacked_real(), weight, parts=2)
    assert_same_operator(found, matrix)
    np.testing.assert_allclose(found.covariance(), matrix.T @ matrix, atol=1e-13)


def test_centring_keeps_what_a_large_mean_hides() -> None:
    """With |<O>| a thousand times the spread, six of sixteen digits may go and no more."""
    rng = np.random.default_rng(3)
    dense = 1e3 + rng.normal(size=(20, 30))
    weight = np.full(20, 0.05)
    matrix = centred(dense, weight)
    found = CenteredJacobian(DenseJacobian(dense), weight)
    np.testing.assert_allclose(found.gram(), matrix @ matrix.T, atol=1e-8)
    np.testing.assert_allclose(found.covariance(), matrix.T @ matrix, atol=1e-12)


def test_foreign_jacobians_are_served() -> None:
    dense = numbers(np.random.default_rng(4), (10, 6), np.complex128)
    weight = weights(10)
    matrix = centred(dense, weight)
    found = CenteredJacobian(as_base(Foreign(dense)), weight)
    np.testing.assert_allclose(found.covariance(), matrix.conj().T @ matrix, atol=1e-13)
    both = concatenate([Foreign(dense), DenseJacobian(dense)])
    np.testing.assert_array_equal(both.dense(), np.concatenate([dense, dense]))


@pytest.mark.parametrize("space", SPACES)
def test_concatenate(space: str) -> None:
    whole = random_slices(10, (2, 3), 3, np.complex128, xp=SPACES[space])
    parts = [whole.rows(0, 4), whole.rows(4, 5), whole.rows(5, 10)]
    joined = concatenate([*parts])
    assert isinstance(joined, SliceJacobian)
    assert joined.local_dim == 3
    np.testing.assert_array_equal(to_host(joined.dense()), to_host(whole.dense()))
    dense = concatenate([DenseJacobian(part.dense()) for part in parts])
    np.testing.assert_array_equal(to_host(dense.dense()), to_host(whole.dense()))
    mixed = concatenate([parts[0], DenseJacobian(whole.rows(4, 10).dense())])
    np.testing.assert_array_equal(to_host(mixed.dense()), to_host(whole.dense()))
    alone = concatenate([whole])
    assert all(a is b for a, b in zip(alone.slices, whole.slices, strict=True))


def test_no_zero_block_is_stored() -> None:
    """Neither gram nor adjoint may allocate what a dense (M, P) matrix takes."""
    import tracemalloc

    jacobian = random_slices(64, (256,) * 32)
    dense_bytes = 8 * 64 * jacobian.shape[1]
    u = np.ones(64)
    jacobian.gram()  # compiles
    tracemalloc.start()
    jacobian.gram()
    jacobian.adjoint(u)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < dense_bytes / 4


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_gram_of_several_blocks_is_hermitian_in_every_bit(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One triangle is computed, in tiles; the other one is its conjugate."""
    monkeypatch.setattr("tnvmc.jacobian.dense.BLOCK_WIDTH", 7)
    dense = numbers(np.random.default_rng(5), (150, 30), dtype)
    gram = DenseJacobian(dense).gram()
    np.testing.assert_array_equal(gram, gram.conj().T)
    np.testing.assert_allclose(
        gram, dense @ dense.conj().T, atol=1e-4 if dtype == "float32" else 1e-12
    )
