"""The Gram matrix O O^dagger of samples of which each site holds one slice, on the processor.

Two samples meet at a site only where their spins there are equal.  So the samples are sorted by the
spins of two sites at a time, the products of contiguous groups are taken, and added where the
samples stand: half of the halved multiplications of a symmetric product.  Tasks are of the same
shape for any number of threads, no two of them write to one place, and sums are exact
(`jacobian.exact_sums`), so the result is the same in any bit, also where sites are dealt out to
ranks, two by two.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tnvmc.backend import host
from tnvmc.backend.namespace import dagger
from tnvmc.backend.process import one_blas_thread, side_by_side
from tnvmc.jacobian import exact_sums

TILE = 512
"""Rows of a product: few enough that threads end together, many enough for the rate of BLAS."""

_GATHERED = 256  # rows: what is sorted in one go stays in the cache


class _Product(NamedTuple):
    """The sorted slices of some samples times those of others, over some of their columns."""

    others: slice
    columns: slice


class _Panel(NamedTuple):
    """All products of some rows: what is added to a row of the result in one go."""

    rows: slice
    products: list[_Product]


def gram_of_slices(
    slices: Sequence[np.ndarray], spins: np.ndarray, groups: Sequence[int],
    scales: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Compute O O^dagger: (M, M), a new array, Hermitian in every bit, in double precision.

    Args:
        slices: per site (M, n_i), the derivatives that the spin of the sample selects.
        spins: (M, N).
        groups: how many slices that lie side by side are taken together, one or two, in order.
        scales: (M,) those of `exact_sums`, where these sites are a part of all; found when absent.

    Cost: M^2 sum_i n_i / (2 d) multiplications, on `tnvmc.backend.process.threads_in_use` threads.
    Memory: the result, and a copy of two slices.
    """
    n_samples = len(spins)
    if scales is None:
        scales = exact_sums.scales(exact_sums.summed([exact_sums.square_sums(x) for x in slices]))
    gram = np.zeros((n_samples, n_samples), dtype=np.result_type(slices[0], np.float64))
    pairs = [range(end - n, end) for n, end in zip(groups, np.cumsum(groups).tolist(), strict=True)]
    widest = max(sum(slices[i].shape[1] for i in pair) for pair in pairs)
    room = np.empty(n_samples * widest, dtype=slices[0].dtype)
    with one_blas_thread():
        for pair in pairs:
            digits = spins[:, pair.start : pair.stop]
            order = np.lexsort(digits.T)
            edges = np.cumsum([0, *(slices[i].shape[1] for i in pair)])
            chosen = room[: n_samples * edges[-1]].reshape(n_samples, -1)
            side_by_side(
                _gather([slices[i] for i in pair], order, chosen),
                _tiles(slice(0, n_samples), _GATHERED),
            )
            side_by_side(_multiply(chosen, order, gram, scales), _panels(digits[order], edges))
        tiles = _tiles(slice(0, n_samples), TILE)
        side_by_side(_mirror(gram), [(a, b) for i, a in enumerate(tiles) for b in tiles[: i + 1]])
    return gram


def _gather(
    pair: Sequence[np.ndarray], order: np.ndarray, out: np.ndarray
) -> Callable[[slice], None]:
    """Put rows of the slices of a pair of sites, sorted, side by side."""

    def gather(rows: slice) -> None:
        begin = 0
        for slice_ in pair:
            end = begin + slice_.shape[1]
            out[rows, begin:end] = slice_[order[rows]]
            begin = end

    return gather


def _multiply(
    chosen: np.ndarray, order: np.ndarray, gram: np.ndarray, scales: np.ndarray
) -> Callable[[_Panel], None]:
    """Add products to one triangle of the result, and half of those on its diagonal."""
    add_at = adder(gram)

    def multiply(panel: _Panel) -> None:
        rows, products = panel
        others = np.concatenate([order[each.others] for each in products])
        block = np.empty((rows.stop - rows.start, len(others)), dtype=chosen.dtype)
        end = 0
        for each in products:
            begin, end = end, end + each.others.stop - each.others.start
            part, left = block[:, begin:end], chosen[rows, each.columns]
            # Of the same rows BLAS is asked for a symmetric product.
            np.matmul(left, dagger(chosen[each.others, each.columns]), out=part)
            if each.others == rows:
                part *= 0.5
        # A row of the result comes from memory once for all of them.
        add_at(gram, order[rows], others, block, (scales, scales))

    return multiply


def _mirror(gram: np.ndarray) -> Callable[[tuple[slice, slice]], None]:
    """Add the other triangle's conjugate to each, without a copy of the matrix."""

    def mirror(tile: tuple[slice, slice]) -> None:
        a, b = tile
        both = gram[a, b] + dagger(gram[b, a])
        gram[a, b] = both
        gram[b, a] = dagger(both)

    return mirror


def _panels(digits: np.ndarray, edges: np.ndarray) -> list[_Panel]:
    """Give the products of the groups of a pair of sites, each once."""
    changes = np.flatnonzero((digits[1:] != digits[:-1]).any(axis=1)) + 1
    groups = [slice(a, b) for a, b in pairwise([0, *changes.tolist(), len(digits)])]
    panels = []
    for i, a in enumerate(groups):
        far = []
        for b in groups[i + 1 :]:
            equal = np.flatnonzero(digits[a.start] == digits[b.start])
            if equal.size:
                far.append(_Product(b, slice(int(edges[equal[0]]), int(edges[equal[-1] + 1]))))
        columns = slice(0, int(edges[-1]))
        for rows in _tiles(a, TILE):
            near = [_Product(rows, columns)]
            if rows.start > a.start:
                near.append(_Product(slice(a.start, rows.start), columns))
            panels.append(_Panel(rows, near + far))
    return panels


def _tiles(whole: slice, size: int) -> list[slice]:
    return [slice(i, min(i + size, whole.stop)) for i in range(whole.start, whole.stop, size)]


def adder(gram: np.ndarray) -> Callable[..., Any]:
    """Give a function that adds a block of rounded terms to some rows and columns of a matrix."""
    if host.available():
        from tnvmc.backend.host.slices import add_at, add_complex_at

        return add_complex_at if gram.dtype.kind == "c" else add_at
    return _add_at


def _add_at(
    total: np.ndarray, rows: np.ndarray, columns: np.ndarray, block: np.ndarray,
    scales: tuple[np.ndarray, np.ndarray],
) -> None:  # fmt: skip
    """What the kernel does, without Numba: a tenth of its speed."""
    of_rows, of_columns = scales
    total[np.ix_(rows, columns)] += exact_sums.rounded(block, of_rows[rows], of_columns[columns])
