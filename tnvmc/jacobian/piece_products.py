"""Products with pieces of slices: with all of them in one process, with some on each of several ranks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tnvmc.backend import host
from tnvmc.backend.namespace import array_namespace, is_numpy
from tnvmc.backend.process import one_blas_thread, side_by_side
from tnvmc.jacobian import exact_sums
from tnvmc.jacobian.gram import adder, dagger, gram_of_slices
from tnvmc.jacobian.pieces import Piece, Pieces
from tnvmc.jacobian.slice_products import times, times_slice

Array = Any

_THREADED_ENTRIES = 2**23
"""Entries of slices from which products with a vector are worth threads."""


@dataclass(frozen=True)
class PieceProducts:
    """Some pieces of the slices of all sites, with all samples.

    Results are lists with one array for each piece, in order.
    """

    pieces: Pieces
    part: range  #: places among all pieces
    columns: Sequence[Array]  #: (M, w) of each
    spins: Array  #: (M, N)

    def terms(self, v: Array) -> list[Array]:
        """What they add to O v, for the whole v (P,): (M,).  All spins are multiplied, the present one is picked."""
        return self._each(lambda piece, own: self._term(piece, own, self.pieces.block(v, piece)))

    def adjoint(self, u: Array) -> list[Array]:
        """The blocks (d, w) of O^dagger u for u (M,)."""
        return self._each(lambda piece, own: self._block(piece, own, u))

    def gram_terms(self, u: Array) -> list[Array]:
        """What they add to O O^dagger u for u (M,): (M,).  Of few samples a piece is read from memory once."""
        return self._each(lambda piece, own: self._term(piece, own, self._block(piece, own, u)))

    def cross(self, rows: slice, chosen: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """What they add to some rows and columns of O O^dagger: (m, n), rounded for the `exact_sums.scales` of all; NumPy."""
        shape, dtypes = (len(scales[rows]), len(chosen)), [each.dtype for each in self.columns[:1]]
        total = np.zeros(shape, np.result_type(*dtypes, np.float64))
        add_at, rounding = adder(total), (scales[rows], scales[chosen])
        for piece, columns in zip(self._own, self.columns, strict=True):
            spins = self.spins[:, piece.site]
            for state in range(self.pieces.local_dim):
                left = np.flatnonzero(spins[rows] == state)
                right = np.flatnonzero(spins[chosen] == state)
                product = columns[rows][left] @ dagger(columns[chosen[right]])
                add_at(total, left, right, product, rounding)
        return total

    def norms(self) -> list[Array]:
        """Squared norms (M,) of their rows, in double precision."""
        if is_numpy(array_namespace(self.spins)):
            return self._each(lambda piece, columns: exact_sums.norms(columns))
        xp = array_namespace(self.spins)
        return self._each(
            lambda piece, columns: xp.sum(xp.abs(columns) ** 2, axis=1, dtype=xp.float64)
        )

    def gram(self, scales: Array | None = None) -> Array:
        """What they add to O O^dagger: (M, M), with the `exact_sums.scales` of all pieces; NumPy."""
        groups, place = [], 0
        for group in self.pieces.groups:
            if place in self.part:
                groups.append(len(group))
            place += len(group)
        assert sum(groups) == len(self.part), "groups that are not whole"
        sites = [piece.site for piece in self._own]
        return gram_of_slices(self.columns, self.spins[:, sites], groups, scales)

    def _compiles(self, vector: Array) -> bool:
        """Whether kernels of the processor do it: for NumPy, and a vector that is as exact as double numbers."""
        if not isinstance(vector, np.ndarray) or not self.columns or not host.available():
            return False
        return bool(np.result_type(self.columns[0], np.float64) == vector.dtype)

    def _term(self, piece: Piece, columns: Array, block: Array) -> Array:
        """A piece of O times the block (d, w) of a vector that belongs to it: (M,)."""
        if self._compiles(block):
            from tnvmc.backend.host.slices import dots

            out = np.zeros(len(columns), block.dtype)
            dots(_by_rows(columns), self._spins_of(piece), np.ascontiguousarray(block), out)
            return out
        xp = array_namespace(block)
        multiply = times if self._in_rows(block) else operator.matmul
        products = multiply(columns, xp.matrix_transpose(block))
        zero = xp.zeros((), dtype=products.dtype)
        return xp.sum(xp.where(self._selected(piece), products, zero), axis=1)

    def _block(self, piece: Piece, columns: Array, u: Array) -> Array:
        """The block (d, w) of O^dagger u that belongs to a piece."""
        if self._compiles(u):
            from tnvmc.backend.host.slices import add_rows

            out = np.zeros((self.pieces.local_dim, columns.shape[1]), u.dtype)
            add_rows(_by_rows(columns), self._spins_of(piece), u, out)
            return out
        xp = array_namespace(u)
        multiply = times_slice if self._in_rows(u) else operator.matmul
        spread = xp.where(self._selected(piece), _conj(u)[:, None], xp.zeros((), dtype=u.dtype))
        return _conj(multiply(xp.matrix_transpose(spread), columns))

    def _spins_of(self, piece: Piece) -> np.ndarray:
        """Spins (M,) as kernels take them; they do not look whether these are local states."""
        found = self._seen.get(piece.site)
        if found is None:
            found = np.ascontiguousarray(self.spins[:, piece.site], dtype=np.int64)
            if found.size and not 0 <= found.min() <= found.max() < self.pieces.local_dim:
                raise IndexError(f"spins are no local states 0 to {self.pieces.local_dim - 1}")
            self._seen[piece.site] = found
        return found

    @cached_property
    def _seen(self) -> dict[int, np.ndarray]:
        return {}

    @property
    def _own(self) -> list[Piece]:
        return self.pieces.all[self.part.start : self.part.stop]

    def _selected(self, piece: Piece) -> Array:
        """Which block of a site the spins of the samples select: bools (M, local_dim)."""
        states = array_namespace(self.spins).arange(self.pieces.local_dim, dtype=self.spins.dtype)
        return self.spins[:, piece.site, None] == states[None, :]

    def _each(self, task: Callable[[Piece, Array], Array]) -> list[Array]:
        """Results of a task for every piece; many samples on the host in threads."""
        work = [*zip(self._own, self.columns, strict=True)]
        n_entries = self.spins.shape[0] * sum(columns.shape[1] for columns in self.columns)
        if n_entries < _THREADED_ENTRIES or not is_numpy(array_namespace(self.spins)):
            return [task(*each) for each in work]
        with one_blas_thread():
            return side_by_side(lambda each: task(*each), work)

    def _in_rows(self, vector: Array) -> bool:
        """Whether slices have less precision than what they are multiplied with: then some rows at a time."""
        xp = array_namespace(vector)
        return is_numpy(xp) and any(
            bool(xp.finfo(columns.dtype).eps > xp.finfo(vector.dtype).eps)
            for columns in self.columns[:1]
        )


def _by_rows(columns: np.ndarray) -> np.ndarray:
    """The same with contiguous rows, which may be apart, as kernels read them."""
    alike = columns.strides[1] == columns.itemsize and columns.strides[0] >= columns.nbytes // max(
        len(columns), 1
    )
    return columns if alike else np.ascontiguousarray(columns)


def _conj(array: Array) -> Array:
    return array_namespace(array).conj(array) if "complex" in str(array.dtype) else array
