"""Batched decompositions and contractions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnvmc.backend.linalg import contract, leading_basis, normalise, orthonormal_basis
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace

ROUNDING = 1e-12  # entries of order 1, sizes below 20


def _random(shape: tuple[int, ...], seed: int, is_complex: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) + (1j * rng.normal(size=shape) if is_complex else 0)


@given(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_basis_spans_the_columns(batch: int, m: int, k: int, is_complex: bool) -> None:
    z = _random((batch, m, k), m + 10 * k, is_complex)
    q = orthonormal_basis(z)
    assert q.shape == (batch, m, min(m, k))
    assert np.allclose(q.conj().mT @ q, np.eye(min(m, k)), atol=ROUNDING)
    assert np.allclose(q @ (q.conj().mT @ z), z, atol=ROUNDING)


def test_basis_of_a_zero_matrix_is_still_orthonormal() -> None:
    q = orthonormal_basis(np.zeros((2, 5, 3)))
    assert np.allclose(q.mT @ q, np.eye(3), atol=ROUNDING)


@pytest.mark.parametrize("is_complex", [False, True])
def test_leading_basis_is_the_best_one(is_complex: bool, xp: Any) -> None:
    z = _random((3, 8, 6), 0, is_complex)
    q = to_host(leading_basis(xp.asarray(z), 4))
    values = np.linalg.svd(z)[1]
    residual = np.linalg.norm(z - q @ (q.conj().mT @ z), axis=(1, 2)) ** 2
    assert np.allclose(residual, np.sum(values[:, 4:] ** 2, axis=1), rtol=1e-10)
    assert leading_basis(xp.asarray(z), 9).shape == (3, 8, 6)  # a rank above the size cuts nothing


def test_normalise_books_the_scale() -> None:
    arrays = np.stack([np.zeros((2, 3)), np.full((2, 3), -4.0), np.eye(2, 3) * 1e-200])
    scaled, log = normalise(arrays)
    assert np.allclose(np.max(np.abs(scaled), axis=(1, 2)), [0, 1, 1])
    assert np.allclose(scaled * np.exp(log)[:, None, None], arrays, rtol=ROUNDING)


def test_namespaces_do_not_mix() -> None:
    strict = pytest.importorskip("array_api_strict")
    assert array_namespace(np.ones(2), np.float64(1)) is np
    assert array_namespace(strict.ones(2)) is not np
    with pytest.raises(TypeError, match="one device"):
        array_namespace(np.ones(2), strict.ones(2))
    assert isinstance(to_host(to_namespace(np.arange(3), strict)), np.ndarray)


@pytest.mark.parametrize("equation", ["ij,jk,kl->il", "abc,dbe,cef->adf", "xi,xj->xij", "ij->ji"])
@pytest.mark.parametrize("is_complex", [False, True])
def test_contractions_agree_with_einsum(equation: str, is_complex: bool) -> None:
    rng = np.random.default_rng(0)
    groups = equation.partition("->")[0].split(",")
    for size in (2, 3):  # a plan per shape
        tensors = [rng.normal(size=[size] * len(group)) for group in groups]
        if is_complex:
            tensors = [tensor + 1j * rng.normal(size=tensor.shape) for tensor in tensors]
        expected = np.einsum(equation, *tensors)
        assert np.allclose(contract(equation, *tensors), expected, atol=ROUNDING)


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ValueError):
        contract("ij,jk->ik", np.ones((2, 3)), np.ones((4, 2)))
