"""Log-derivatives in one dense matrix (M, P), in blocks of columns of a fixed width.

Ranks that hold some blocks each do what one process does with all of them, so the result is the
same in any bit.  BLAS is given each block as an array by itself: it rounds parts of wider ones
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs

from tnvmc.backend.namespace import (
    array_namespace,
    conj,
    dagger,
    double_of,
    imaginary_part,
    real_part,
    to_host,
    to_namespace,
)
from tnvmc.backend.process import shares
from tnvmc.jacobian import exact_sums
from tnvmc.jacobian.base import Jacobian, JacobianBase, LocalJacobian, UnitLayout, UnitProducts

Array = Any

BLOCK_WIDTH = 1024
"""Columns of a block: enough for the rate of a matrix product, few enough to be dealt out."""

_ROUNDED_ROWS = 64  # that are rounded at a time: they stay in the cache


def block_widths(n_columns: int) -> list[int]:
    """Give the columns of each block, in order; one block of none for no columns."""
    starts = range(0, n_columns, BLOCK_WIDTH)
    return [min(BLOCK_WIDTH, n_columns - i) for i in starts] or [0]


def in_blocks(matrix: Array) -> list[Array]:
    """Give the blocks of a matrix (M, P), as views."""
    ends = [*accumulate(block_widths(matrix.shape[1]), initial=0)]
    return [matrix[:, begin:end] for begin, end in pairwise(ends)]


@dataclass(frozen=True)
class DenseJacobian(LocalJacobian):
    """All of O in one (M, P) array: for states whose every parameter acts in every sample."""

    matrix: Array  #: (M, P)

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def dtype(self) -> Any:
        return self.matrix.dtype

    def adjoint(self, u: Array) -> Array:
        """Compute O^dagger u: (M,) -> (P,).  Cost M P, no copy of O."""
        return array_namespace(u).concat(self.products.adjoint(u))

    def dense(self) -> Array:
        return self.matrix

    def rows(self, start: int, stop: int) -> DenseJacobian:
        return DenseJacobian(self.matrix[start:stop, :])

    def mapped(self, function: Callable[[Array], Array]) -> DenseJacobian:
        return DenseJacobian(function(self.matrix))

    @classmethod
    def joined(cls, parts: list[Any]) -> DenseJacobian:
        return parts.pop() if len(parts) == 1 else concatenated_dense(parts)

    def stacked_real(self) -> DenseJacobian:
        return concatenated_dense([self.mapped(real_part), self.mapped(imaginary_part)])

    def about(self) -> DenseLayout:
        dtype = to_host(self.matrix[:0, :]).dtype
        return DenseLayout(self.shape, dtype, array_namespace(self.matrix))

    @property
    def products(self) -> DenseProducts:
        on_host = array_namespace(self.matrix) is np
        return DenseProducts(in_blocks(self.matrix) if on_host else [self.matrix])


@dataclass(frozen=True)
class DenseLayout(UnitLayout):
    """A dense matrix in blocks of columns; see `UnitLayout`."""

    @property
    def unit_widths(self) -> Sequence[int]:
        return block_widths(self.shape[1])

    def dealt(self, n_ranks: int) -> list[range]:
        """Deal out about as many columns to each rank."""
        return shares([*self.unit_widths], n_ranks)

    def cut(self, jacobian: JacobianBase) -> list[Array]:
        return in_blocks(jacobian.dense())

    def products(self, places: range, units: Sequence[Array]) -> DenseProducts:
        return DenseProducts(units, sum(self.unit_widths[: places.start]))

    def vector(self, blocks: Sequence[Array]) -> Array:
        return self.xp.concat(blocks)

    def parameters(self, places: range) -> list[slice]:
        bounds = [*pairwise(accumulate(self.unit_widths, initial=0))]
        return [slice(*bounds[k]) for k in places]

    def assembled(self, units: Sequence[Array], rows: slice) -> DenseJacobian:
        return DenseJacobian(self.xp.concat(units, axis=1))


@dataclass(frozen=True)
class DenseProducts(UnitProducts):
    """Products with some blocks of columns that lie side by side; see `UnitProducts`."""

    units: Sequence[Array]
    start: int = 0  #: the first of their columns, among all

    def terms(self, v: Array) -> list[Array]:
        found, begin = [], self.start
        for block in self.units:
            end = begin + block.shape[1]
            found.append(_contiguous(block) @ v[begin:end])
            begin = end
        return found

    def adjoint(self, u: Array) -> list[Array]:
        transpose, conjugate = array_namespace(u).matrix_transpose, conj(u)
        return [conj(transpose(_contiguous(block)) @ conjugate) for block in self.units]

    def gram_terms(self, u: np.ndarray) -> list[np.ndarray]:
        """Compute what each block adds to O O^dagger u; a block is made contiguous once."""
        own = [np.ascontiguousarray(block) for block in self.units]
        return [block @ DenseProducts([block]).adjoint(u)[0] for block in own]

    def squared_norms(self) -> list[Array]:
        return [*map(exact_sums.square_sums, self.units)]

    def gram(self, scales: np.ndarray | None = None) -> Array:
        """Compute the sum of B B^dagger over the blocks.  Cost: M^2 w for each."""
        xp = array_namespace(self.units[0])
        if scales is None:
            if len(self.units) == 1:
                return _square(self.units[0])
            scales = exact_sums.scales(exact_sums.summed(self.squared_norms()))
        if xp is not np:
            of_rows = to_namespace(scales, xp)
            return exact_sums.sum_on_device(map(_square_in_double, self.units), of_rows)
        n = self.units[0].shape[0]
        total = np.zeros((n, n), dtype=np.result_type(self.units[0], np.float64))
        product = None
        for block in self.units:
            product = _half_square(block, product)
            for i in range(0, n, _ROUNDED_ROWS):
                rows, left = slice(i, i + _ROUNDED_ROWS), slice(0, i + _ROUNDED_ROWS)
                terms = product[rows, left]
                total[rows, left] += exact_sums.rounded(terms, scales[rows], scales[left])
        for i in range(0, n, _ROUNDED_ROWS):
            rows = slice(i, i + _ROUNDED_ROWS)
            corner = np.tril(total[rows, rows])
            total[:i, rows] = dagger(total[rows, :i])
            total[rows, rows] = corner + dagger(np.tril(corner, -1))
        return total

    def gram_block(self, rows: slice, chosen: np.ndarray, scales: np.ndarray) -> np.ndarray:
        shape = (len(scales[rows]), len(chosen))
        total = np.zeros(shape, np.result_type(*self.units, np.float64))
        for block in self.units:
            product = np.ascontiguousarray(block[rows]) @ dagger(block[chosen])
            total += exact_sums.rounded(product, scales[rows], scales[chosen])
        return total

    def dense_columns(self, rows: slice) -> list[np.ndarray]:
        return [block[rows] for block in self.units]


def concatenated_dense(jacobians: Sequence[Jacobian]) -> DenseJacobian:
    """Put the samples of Jacobians of any kind one after another."""
    matrices = [jacobian.dense() for jacobian in jacobians]
    return DenseJacobian(array_namespace(*matrices).concat(matrices, axis=0))


def concatenate(jacobians: list[Any]) -> JacobianBase:
    """Put the samples of several Jacobians of one state one after another, and empty the list.

    Slices stay slices, parts side by side stay so; anything else becomes dense.  Slices are let go
    of as soon as they are joined; what the caller has kept stays.
    """
    parts = [as_base(jacobian) for jacobian in jacobians]
    jacobians.clear()
    kinds = {type(part) for part in parts}
    return kinds.pop().joined(parts) if len(kinds) == 1 else concatenated_dense(parts)


def as_base(jacobian: Jacobian) -> JacobianBase:
    """Give a Jacobian with all that those of this package offer; a user's own becomes dense."""
    return jacobian if isinstance(jacobian, JacobianBase) else DenseJacobian(jacobian.dense())


def _contiguous(block: Array) -> Array:
    return np.ascontiguousarray(block) if isinstance(block, np.ndarray) else block


def _square(block: Array) -> Array:
    """B B^dagger."""
    own = _contiguous(block)
    return own @ dagger(own)


def _half_square(block: np.ndarray, before: np.ndarray | None) -> np.ndarray:
    """B B^dagger on and below the diagonal, in the place of another one: half of the work."""
    own = _contiguous(block)
    name, transposed = ("herk", 2) if own.dtype.kind == "c" else ("syrk", 1)
    (rank_k,) = get_blas_funcs((name,), (own,))
    # C order is the transpose of the order of BLAS, and has the conjugate of the product there.
    place = None if before is None else before.T
    return np.asarray(rank_k(1.0, own.T, trans=transposed, c=place, overwrite_c=True).T)


def _square_in_double(block: Array) -> Array:
    """The same in double precision, whatever the block has."""
    xp = array_namespace(block)
    return xp.astype(_square(block), double_of(xp, block))
