"""Log-derivatives in single precision: what is rounded, the bound on it, products in double."""

from __future__ import annotations

import tracemalloc

import array_api_strict as strict
import numpy as np
import pytest

from tests.jacobian.test_jacobian import random_slices
from tnvmc.backend.process import using_threads
from tnvmc.jacobian import piece_products as module
from tnvmc.jacobian.centred import CenteredJacobian
from tnvmc.jacobian.jacobian import DenseJacobian, SliceJacobian, joined
from tnvmc.jacobian.rounding import UNIT_ROUNDOFF, in_single, is_rounded, rounding_of

WIDTHS = (5, 20, 7)
DOUBLE = 1e-13  # products of rounded slices are those of double precision


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_entries_are_rounded_and_nothing_else(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slices = random_slices(300, WIDTHS, 2, dtype)
    single = in_single(slices)
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
    assert is_rounded(single, v) and not is_rounded(slices, v)
    assert not is_rounded(single, v.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("scale", [1.0, 2.0**20])
def test_the_bound_holds(dtype: str, scale: float) -> None:
    slices = random_slices(50, WIDTHS, 2, dtype)
    slices = SliceJacobian([scale * x for x in slices.slices], slices.spins)
    single, weight = in_single(slices), np.random.default_rng(1).random(50)
    weight /= weight.sum()
    a = np.sqrt(weight)[:, None] * (slices.dense() - weight @ slices.dense())
    rounded = single.dense().astype(dtype)
    b = np.sqrt(weight)[:, None] * (rounded - weight @ rounded)
    bound = rounding_of(CenteredJacobian(single, weight))
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
    assert in_single(slices) is slices


def test_what_is_joined_with_rounded_numbers_counts_as_rounded() -> None:
    slices, theta = random_slices(20, WIDTHS), np.ones(64)
    whole = joined([slices, in_single(random_slices(10, WIDTHS, seed=2))])
    assert is_rounded(whole, theta)
    assert not is_rounded(joined([slices, random_slices(10, WIDTHS, seed=2)]), theta)
    assert not is_rounded(DenseJacobian(slices.dense().astype(np.float32)), theta)


def test_zeros_are_in_range_and_other_jacobians_stay() -> None:
    slices = random_slices(20, WIDTHS)
    slices.slices[0][:] = 0.0
    assert in_single(slices).dtype == np.float32  # type: ignore[attr-defined]
    dense = DenseJacobian(slices.dense())
    assert in_single(dense) is dense
    foreign = SliceJacobian(
        [strict.asarray(x) for x in slices.slices], strict.asarray(slices.spins)
    )
    assert in_single(foreign) is foreign
    assert in_single(in_single(slices)).dtype == np.float32  # type: ignore[attr-defined]


def test_products_make_no_copy_of_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_THREADED_ENTRIES", 0)
    single = in_single(random_slices(4000, (200,) * 4))
    u, v = np.ones(4000), np.ones(single.shape[1])
    with using_threads(1):
        for product in (lambda: single.apply(v), lambda: single.adjoint(u)):
            product()
            tracemalloc.start()
            product()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 0.5 * 8 * single.slices[0].size
