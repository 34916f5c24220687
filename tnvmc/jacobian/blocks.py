"""Products with a dense matrix of log-derivatives in blocks of columns, whose width is always the same.

So ranks that hold some blocks each do what one process does with all of them, and the result is the same
in any bit.  BLAS is given each block as an array by itself: it rounds parts of wider ones in other ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from tnvmc.backend.namespace import array_namespace
from tnvmc.jacobian import exact_sums
from tnvmc.jacobian.gram import dagger, sum_of_norms

Array = Any

WIDTH = 1024
"""Columns of a block: many enough for the rate of a matrix product, few enough to be dealt out."""

_ROWS = 256  # that are rounded at a time


def block_widths(n_columns: int) -> list[int]:
    """Columns of each block, in order; one block of none for no columns."""
    return [min(WIDTH, n_columns - i) for i in range(0, n_columns, WIDTH)] or [0]


def in_blocks(matrix: Array) -> list[Array]:
    """The blocks of a matrix (M, P), as views."""
    ends = [*accumulate(block_widths(matrix.shape[1]), initial=0)]
    return [matrix[:, begin:end] for begin, end in pairwise(ends)]


def terms(blocks: Sequence[Array], v: Array) -> list[Array]:
    """What each block adds to O v: (M,), for the part of v (P,) that belongs to them."""
    found, begin = [], 0
    for block in blocks:
        end = begin + block.shape[1]
        found.append(_by_rows(block) @ v[begin:end])
        begin = end
    return found


def adjoint(blocks: Sequence[Array], u: Array) -> Array:
    """The part of O^dagger u that belongs to the blocks."""
    xp = array_namespace(u)
    conjugate = _conj(u)
    return _conj(xp.concat([xp.matrix_transpose(_by_rows(block)) @ conjugate for block in blocks]))


def gram_terms(blocks: Sequence[np.ndarray], u: np.ndarray) -> list[np.ndarray]:
    """What each block adds to O O^dagger u: (M,)."""
    own = [np.ascontiguousarray(block) for block in blocks]
    return [block @ adjoint([block], u) for block in own]


def cross(
    blocks: Sequence[np.ndarray], rows: slice, chosen: np.ndarray, scales: np.ndarray
) -> np.ndarray:
    """What the blocks add to some rows and columns of O O^dagger: (m, n), rounded for the `scales` of all."""
    shape = (len(scales[rows]), len(chosen))
    total = np.zeros(shape, np.result_type(*blocks, np.float64))
    for block in blocks:
        product = np.ascontiguousarray(block[rows]) @ dagger(block[chosen])
        total += exact_sums.rounded(product, scales[rows], scales[chosen])
    return total


@dataclass(frozen=True)
class BlockProducts:
    """Some blocks, as `tnvmc.jacobian.joint.Units`."""

    blocks: Sequence[np.ndarray]

    def gram_terms(self, u: np.ndarray) -> list[np.ndarray]:
        """See `gram_terms`."""
        return gram_terms(self.blocks, u)

    def cross(self, rows: slice, chosen: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """See `cross`."""
        return cross(self.blocks, rows, chosen, scales)

    def norms(self) -> list[np.ndarray]:
        """Squared norms (M,) of the rows of each."""
        return [exact_sums.norms(block) for block in self.blocks]


def gram(blocks: Sequence[np.ndarray], scales: np.ndarray | None = None) -> np.ndarray:
    """Sum over blocks of B B^dagger: (M, M).

    With the `exact_sums.scales` of all blocks, where these are a part of several; alone they find them.
    """
    if scales is None:
        if len(blocks) == 1:
            return _square(blocks[0])
        scales = exact_sums.scales(sum_of_norms([exact_sums.norms(block) for block in blocks]))
    n = blocks[0].shape[0]
    total = np.zeros((n, n), dtype=np.result_type(blocks[0], np.float64))
    for block in blocks:
        product = _square(block)
        for i in range(0, n, _ROWS):
            rows = slice(i, i + _ROWS)
            total[rows] += exact_sums.rounded(product[rows], scales[rows], scales)
    return total


def _by_rows(block: Array) -> Array:
    return np.ascontiguousarray(block) if isinstance(block, np.ndarray) else block


def _conj(array: Array) -> Array:
    return array_namespace(array).conj(array) if "complex" in str(array.dtype) else array


def _square(block: np.ndarray) -> np.ndarray:
    own = np.ascontiguousarray(block)
    return np.asarray(own @ dagger(own))
