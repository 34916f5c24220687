"""Slices in pieces of columns: what is cut is put together again, and products do not depend on the dealing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnvmc.jacobian.pieces import FORMED, Pieces, SliceProducts
from tnvmc.jacobian.slices import SliceJacobian

WIDTHS = st.lists(st.integers(1, 30), min_size=1, max_size=7).map(tuple)


@given(WIDTHS, st.integers(1, 12), st.integers(1, 9))
def test_every_column_is_in_one_piece_and_every_piece_on_one_rank(
    widths: tuple[int, ...], width: int, n_ranks: int
) -> None:
    pieces = Pieces(widths, 2, width)
    seen = [[0] * n for n in widths]
    for piece in pieces.all:
        assert 0 < piece.end - piece.begin <= width
        for column in range(piece.begin, piece.end):
            seen[piece.site][column] += 1
    assert all(count == 1 for of_site in seen for count in of_site)
    for n_samples in (1, FORMED + 1):
        dealt = pieces.dealt(n_ranks, n_samples)
        assert [place for part in dealt for place in part] == list(range(len(pieces.all)))
    dealt = pieces.dealt(n_ranks, FORMED)
    group_of = [k for k, group in enumerate(pieces.groups) for _ in group]
    of_ranks = [{group_of[place] for place in part} for part in dealt]
    assert sum(map(len, of_ranks)) == len(pieces.groups)  # no group is on two


@given(WIDTHS, st.integers(1, 12), st.integers(1, 3))
def test_what_is_cut_is_joined_again(widths: tuple[int, ...], width: int, d: int) -> None:
    rng = np.random.default_rng(0)
    pieces = Pieces(widths, d, width)
    slices = [rng.normal(size=(4, n)) for n in widths]
    for given_, found in zip(slices, pieces.joined(pieces.cut(slices)), strict=True):
        np.testing.assert_array_equal(found, given_)
    v = rng.normal(size=d * sum(widths))
    np.testing.assert_array_equal(pieces.vector([pieces.block(v, p) for p in pieces.all]), v)


@pytest.mark.whole
@pytest.mark.parametrize("width", [3, 5, 100])
@pytest.mark.parametrize("n_ranks", [1, 2, 3, 20])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_parts_add_up_to_dense_products(width: int, n_ranks: int, dtype: type) -> None:
    rng = np.random.default_rng(1)
    widths, n = (4, 9, 1, 16, 5), 11

    def numbers(*shape: int) -> np.ndarray:
        found = rng.normal(size=shape)
        return found + 1j * rng.normal(size=shape) if dtype is np.complex128 else found

    slices, spins = [numbers(n, w) for w in widths], rng.integers(2, size=(n, 5)).astype(np.int8)
    dense = SliceJacobian(slices, spins).dense()
    pieces = Pieces(widths, 2, width)
    columns = pieces.cut(slices)
    parts = [
        SliceProducts(pieces, part, columns[part.start : part.stop], spins)
        for part in pieces.dealt(n_ranks, 1)
        if len(part)
    ]
    v, u = numbers(dense.shape[1]), numbers(n)
    # sums of at most 70 terms of order 1
    close = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(sum(t for p in parts for t in p.terms(v)), dense @ v, **close)
    found = pieces.vector([block for part in parts for block in part.adjoint(u)])
    np.testing.assert_allclose(found, dense.conj().T @ u, **close)
    norms = sum(each for part in parts for each in part.squared_norms())
    np.testing.assert_allclose(norms, (abs(dense) ** 2).sum(axis=1), **close)
    scales = 2.0 ** np.ceil(np.log2(2 * np.sqrt(norms)))
    grams = [part.gram(scales) for part in parts]
    # each of 20 pieces is rounded to 2^-49 of the product of two scales, at most 2 * 10 each
    close["atol"] = 20 * 400 * 2.0**-49
    np.testing.assert_allclose(sum(grams), dense @ dense.conj().T, **close)
    forward, backward = sum(grams), sum(reversed(grams))
    np.testing.assert_array_equal(forward, backward)  # exact sums


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_order_of_slices_in_memory_does_not_matter(dtype: type) -> None:
    rng = np.random.default_rng(2)
    slices = [rng.normal(size=(7, 4)).astype(dtype), rng.normal(size=(7, 1)).astype(dtype)]
    spins = rng.integers(2, size=(7, 2)).astype(np.int8)
    plain = SliceJacobian(slices, spins)
    turned = SliceJacobian([np.asfortranarray(x) for x in slices], spins)
    reversed_ = SliceJacobian([x[:, ::-1] for x in slices], spins)
    v, u = rng.normal(size=10), rng.normal(size=7)
    np.testing.assert_array_equal(turned.apply(v), plain.apply(v))
    np.testing.assert_array_equal(turned.adjoint(u), plain.adjoint(u))
    close = {"rtol": 1e-12, "atol": 1e-12}
    dense = reversed_.dense().astype(np.float64)
    np.testing.assert_allclose(reversed_.apply(v), dense @ v, **close)
    np.testing.assert_allclose(reversed_.adjoint(u), dense.T @ u, **close)
