"""Log-derivatives in single precision: what is rounded, the bound on it, products in double."""

from __future__ import annotations

import tracemalloc

import array_api_strict as strict
import numpy as np
import pytest

from tests.jacobian.test_jacobian import random_slices
from tnvmc.backend.process import using_threads
from tnvmc.jacobian import pieces as module
from tnvmc.jacobian.base import UNIT_ROUNDOFF
from tnvmc.jacobian.centered import CenteredJacobian, rounding_bound
from tnvmc.jacobian.dense import DenseJacobian
from tnvmc.jacobian.hstack import concatenate
from tnvmc.jacobian.slices import SliceJacobian

WIDTHS = (5, 20, 7)
DOUBLE = 1e-13  # products of rounded slices are those of double precision


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_entries_are_rounded_and_nothing_else(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slices = random_slices(300, WIDTHS, 2, dtype)
    single = slices.in_single()
    assert (
        isinstance(single, SliceJacobian)
        and single.slices[0].itemsize == slices.slices[0].itemsize / 2
    )
    u, v = np.linspace(-1, 1, 300), np.linspace(1, 2, slices.shape[1])
    dense = single.dense().astype(dtype)
    monkeypatch.setattr(module, "_THREADED_ENTRIES", 0)
    for threads in (1, 3):
        with using_threads(threads):
            np.testing.assert_allclose(single.apply(v), dense @ v, rtol=DOUBLE, atol=DOUBLE)
            np.testing.assert_allclose(
                single.adjoint(u), dense.conj().T @ u, rtol=DOUBLE, atol=300 * DOUBLE
            )
    assert single.about().is_rounded(v) and not slices.about().is_rounded(v)
    assert not single.about().is_rounded(v.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("scale", [1.0, 2.0**20])
def test_the_bound_holds(dtype: str, scale: float) -> None:
    slices = random_slices(50, WIDTHS, 2, dtype)
    slices = SliceJacobian([scale * x for x in slices.slices], slices.spins)
    single, weight = slices.in_single(), np.random.default_rng(1).random(50)
    weight /= weight.sum()
    a = np.sqrt(weight)[:, None] * (slices.dense() - weight @ slices.dense())
    rounded = single.dense().astype(dtype)
    b = np.sqrt(weight)[:, None] * (rounded - weight @ rounded)
    bound = rounding_bound(CenteredJacobian(single, weight))
    assert 0 < np.linalg.norm(a - b, 2) <= np.linalg.norm(a - b) <= bound
    assert bound <= 1.01 * UNIT_ROUNDOFF * np.sqrt(
        weight @ np.sum(abs(slices.dense()) ** 2, axis=1)
    )


@pytest.mark.parametrize("size", [2.0**60, 2.0**-60, np.nan, np.inf])
def test_numbers_out_of_the_range_stay_in_double(size: float) -> None:
    slices = random_slices(20, WIDTHS)
    slices.slices[1][3, 4] = size
    if size < 1:
        slices.slices[1][:] = size
    assert slices.in_single() is slices


def test_what_is_joined_with_rounded_numbers_counts_as_rounded() -> None:
    slices, theta = random_slices(20, WIDTHS), np.ones(64)
    whole = concatenate([slices, random_slices(10, WIDTHS, seed=2).in_single()])
    assert whole.about().is_rounded(theta)
    assert not concatenate([slices, random_slices(10, WIDTHS, seed=2)]).about().is_rounded(theta)
    assert not DenseJacobian(slices.dense().astype(np.float32)).about().is_rounded(theta)


def test_zeros_are_in_range_and_other_jacobians_stay() -> None:
    slices = random_slices(20, WIDTHS)
    slices.slices[0][:] = 0.0
    assert slices.in_single().dtype == np.float32
    dense = DenseJacobian(slices.dense())
    assert dense.in_single() is dense
    foreign = SliceJacobian(
        [strict.asarray(x) for x in slices.slices], strict.asarray(slices.spins)
    )
    assert foreign.in_single() is foreign
    assert slices.in_single().in_single().dtype == np.float32


def test_products_make_no_copy_of_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_THREADED_ENTRIES", 0)
    single = random_slices(4000, (200,) * 4).in_single()
    u, v = np.ones(4000), np.ones(single.shape[1])
    with using_threads(1):
        for product in (lambda: single.apply(v), lambda: single.adjoint(u)):
            product()
            tracemalloc.start()
            product()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 0.5 * 8 * single.slices[0].size
