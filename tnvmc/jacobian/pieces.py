"""Slices of sites in pieces of columns, which threads and ranks take as units of work.

A Gram matrix takes several pieces together, a group: the wider a product, the faster.  Pieces
follow from the widths of the slices alone, so products have the same shapes, and their results the
same bits, however pieces are dealt out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from tnvmc.backend import host
from tnvmc.backend.namespace import array_namespace, conj, dagger, double_of, to_namespace
from tnvmc.backend.process import one_blas_thread, shares, side_by_side
from tnvmc.jacobian import exact_sums
from tnvmc.jacobian.base import UnitProducts
from tnvmc.jacobian.gram import adder, gram_of_slices

Array = Any

WIDTH = 512
"""Columns of a piece at most: wide pieces of a slice are read faster."""

NARROW = 128
"""The same for large states: 2,340 pieces at D = 8 on 10x10, about equally many for each rank."""

LARGE = 2**17
"""Entries of the slices of a sample from which a state is large."""

_GROUP_WIDTH = 512
"""Columns of each site in a group at most: enough for the rate of a matrix product."""

_TOGETHER = 2
"""Sites of a group."""

FORMED = 2**12 - 1
"""Samples up to which `optimize.sr` forms the Gram matrix by default; above, it applies it."""

_GROUPS = 8
"""Groups for each rank from which they are shared about evenly as a whole."""

_THREADED_ENTRIES = 2**23
"""Entries of slices from which products with a vector are worth threads."""


class Piece(NamedTuple):
    """Some columns of the slice of one site."""

    site: int
    begin: int
    end: int


@dataclass(frozen=True)
class Pieces:
    """All pieces of slices of such widths, in the order in which they are dealt out."""

    widths: tuple[int, ...]
    local_dim: int
    width: int | None = WIDTH  #: None: whole slices

    @cached_property
    def groups(self) -> list[tuple[Piece, ...]]:
        """Pieces that a Gram matrix takes together: of two sites."""
        found = []
        for first in range(0, len(self.widths), _TOGETHER):
            sites = range(first, min(first + _TOGETHER, len(self.widths)))
            n = _parts(max(self.widths[i] for i in sites), _GROUP_WIDTH if self.width else None)
            for k in range(n):
                parts = [Piece(i, *_part(0, self.widths[i], k, n)) for i in sites]
                found.append(tuple(piece for part in parts for piece in self._cut(part)))
        return found

    def _cut(self, part: Piece) -> list[Piece]:
        """A part of a slice, in pieces."""
        site, begin, end = part
        n = _parts(end - begin, self.width)
        cut = [Piece(site, *_part(begin, end, k, n)) for k in range(n)]
        return [piece for piece in cut if piece.begin < piece.end]

    @cached_property
    def all(self) -> list[Piece]:
        """Pieces, group by group."""
        return [piece for group in self.groups for piece in group]

    def dealt(self, n_ranks: int, n_samples: int) -> list[range]:
        """Deal out the places among `all`, about as many columns to each rank.

        Groups stay whole where they are many, or a Gram matrix will be formed.
        """
        if n_samples > FORMED and len(self.groups) < _GROUPS * n_ranks:
            return shares([piece.end - piece.begin for piece in self.all], n_ranks)
        return self.dealt_by_groups(n_ranks)

    def dealt_by_groups(self, n_ranks: int) -> list[range]:
        """Deal out whole groups to each rank."""
        sizes = [sum(piece.end - piece.begin for piece in group) for group in self.groups]
        ends = [*accumulate(map(len, self.groups), initial=0)]
        return [range(ends[each.start], ends[each.stop]) for each in shares(sizes, n_ranks)]

    def cut(self, slices: Sequence[Array]) -> list[Array]:
        """Give the pieces (M, w) of slices, as views."""
        whole = len(self.all) == len(slices) and all(p.site == i for i, p in enumerate(self.all))
        return [*slices] if whole else [slices[p.site][:, p.begin : p.end] for p in self.all]

    def joined(self, parts: Sequence[Array]) -> list[Array]:
        """Put pieces (m, w) of all sites side by side, site by site: the inverse of `cut`."""
        by_site: list[list[Array]] = [[] for _ in self.widths]
        for piece, part in zip(self.all, parts, strict=True):
            by_site[piece.site].append(part)
        xp = array_namespace(*parts)
        return [of[0] if len(of) == 1 else xp.concat(of, axis=1) for of in by_site if of]

    def block(self, v: Array, piece: Piece) -> Array:
        """Give the part of a vector v (P,) that belongs to a piece: (local_dim, w)."""
        start = self.local_dim * self._starts[piece.site]
        stop = start + self.local_dim * self.widths[piece.site]
        block = array_namespace(v).reshape(v[start:stop], (self.local_dim, -1))
        return block[:, piece.begin : piece.end]

    def vector(self, blocks: Sequence[Array]) -> Array:
        """Make a vector (P,) from the blocks of all pieces: the inverse of `block`."""
        xp = array_namespace(*blocks)
        return xp.concat([xp.reshape(each, (-1,)) for each in self.joined(blocks)])

    @cached_property
    def _starts(self) -> list[int]:
        return [*accumulate(self.widths, initial=0)]


def _parts(size: int, most: int | None) -> int:
    """In how many parts to cut so many columns."""
    return -(-size // most) if most else 1


def _part(begin: int, end: int, k: int, n: int) -> tuple[int, int]:
    """Begin and end of one of n equal parts."""
    return begin + k * (end - begin) // n, begin + (k + 1) * (end - begin) // n


@lru_cache(maxsize=64)
def pieces_of(widths: tuple[int, ...], local_dim: int, on_host: bool = True) -> Pieces:
    """Give the pieces of slices of such widths; whole slices on a GPU."""
    width = NARROW if sum(widths) >= LARGE else WIDTH
    return Pieces(widths, local_dim, width if on_host else None)


def selected_spins(spins: Array, site: int, local_dim: int) -> Array:
    """Tell which block of a site the spins of the samples select: bools (M, local_dim)."""
    states = array_namespace(spins).arange(local_dim, dtype=spins.dtype)
    return spins[:, site, None] == states[None, :]


@dataclass(frozen=True)
class SliceProducts(UnitProducts):
    """Products with some pieces of the slices of all sites; see `UnitProducts`."""

    pieces: Pieces
    places: range  #: of the units, among all pieces
    units: Sequence[Array]
    spins: Array  #: (M, N)
    _spins_by_site: dict[int, np.ndarray] = field(default_factory=dict, init=False)

    def terms(self, v: Array) -> list[Array]:
        return self._each(lambda piece, own: self._term(piece, own, self.pieces.block(v, piece)))

    def adjoint(self, u: Array) -> list[Array]:
        return self._each(lambda piece, own: self._block(piece, own, u))

    def gram_terms(self, u: Array) -> list[Array]:
        """Compute what each piece adds to O O^dagger u; a piece is read from memory once."""
        return self._each(lambda piece, own: self._term(piece, own, self._block(piece, own, u)))

    def squared_norms(self) -> list[Array]:
        return self._each(lambda piece, own: exact_sums.square_sums(own))

    def gram(self, scales: np.ndarray | None = None) -> Array:
        """Compute what the pieces add to O O^dagger: (M, M), in double precision.

        Cost: M^2 P / (2 d^2) multiplications on NumPy (see `gram_of_slices`), M^2 P / d elsewhere.
        Memory: the result and a copy of two slices; on other array libraries three such matrices.
        """
        xp = array_namespace(self.spins)
        if xp is not np:
            of_rows = None if scales is None else to_namespace(scales, xp)
            return exact_sums.sum_on_device(map(self._square, self._own, self.units), of_rows)
        groups, place = [], 0
        for group in self.pieces.groups:
            if place in self.places:
                groups.append(len(group))
            place += len(group)
        assert sum(groups) == len(self.places), "groups that are not whole"
        sites = [piece.site for piece in self._own]
        return gram_of_slices(self.units, self.spins[:, sites], groups, scales)

    def gram_block(self, rows: slice, chosen: np.ndarray, scales: np.ndarray) -> np.ndarray:
        shape, dtypes = (len(scales[rows]), len(chosen)), [each.dtype for each in self.units[:1]]
        total = np.zeros(shape, np.result_type(*dtypes, np.float64))
        add_at, rounding = adder(total), (scales[rows], scales[chosen])
        for piece, columns in zip(self._own, self.units, strict=True):
            spins = self.spins[:, piece.site]
            for state in range(self.pieces.local_dim):
                left = np.flatnonzero(spins[rows] == state)
                right = np.flatnonzero(spins[chosen] == state)
                product = columns[rows][left] @ dagger(columns[chosen[right]])
                add_at(total, left, right, product, rounding)
        return total

    def dense_columns(self, rows: slice) -> list[np.ndarray]:
        """Give some rows of each piece, for one spin after another, with zeros for other spins."""
        found = []
        for piece, columns in zip(self._own, self.units, strict=True):
            values, zero = columns[rows], np.zeros((), columns.dtype)
            for state in range(self.pieces.local_dim):
                selected = self.spins[rows, piece.site] == state
                found.append(np.where(selected[:, None], values, zero))
        return found

    def _square(self, piece: Piece, columns: Array) -> Array:
        """What a piece adds to O O^dagger: products of samples of equal spin; not on NumPy."""
        xp, spins = array_namespace(columns), self.spins[:, piece.site]
        product = xp.astype(columns @ dagger(columns), double_of(xp, columns))
        return xp.where(
            spins[:, None] == spins[None, :], product, xp.zeros((), dtype=product.dtype)
        )

    def _for_kernels(
        self, piece: Piece, columns: Array, vector: Array
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Columns, whose rows may be apart, and spins (M,), as kernels take them.

        None where they do not serve: other libraries than NumPy, a vector of lower precision.
        """
        if not isinstance(vector, np.ndarray) or not host.available():
            return None
        if np.result_type(self.units[0], np.float64) != vector.dtype:
            return None
        spins = self._spins_by_site.get(piece.site)
        if spins is None:
            spins = np.ascontiguousarray(self.spins[:, piece.site], dtype=np.int64)
            if spins.size and not 0 <= spins.min() <= spins.max() < self.pieces.local_dim:
                raise IndexError(f"spins are no local states 0 to {self.pieces.local_dim - 1}")
            self._spins_by_site[piece.site] = spins
        step, size = columns.strides[0], columns.nbytes // max(len(columns), 1)
        alike = columns.strides[1] == columns.itemsize and step >= size
        return columns if alike else np.ascontiguousarray(columns), spins

    def _term(self, piece: Piece, columns: Array, block: Array) -> Array:
        """A piece of O times the block (d, w) of a vector that belongs to it: (M,)."""
        if (given := self._for_kernels(piece, columns, block)) is not None:
            from tnvmc.backend.host.slices import dots

            out = np.zeros(len(columns), block.dtype)
            dots(*given, np.ascontiguousarray(block), out)
            return out
        xp = array_namespace(block)
        products = columns @ xp.matrix_transpose(block)
        zero = xp.zeros((), dtype=products.dtype)
        return xp.sum(xp.where(self._selected(piece), products, zero), axis=1)

    def _block(self, piece: Piece, columns: Array, u: Array) -> Array:
        """The block (d, w) of O^dagger u that belongs to a piece."""
        if (given := self._for_kernels(piece, columns, u)) is not None:
            from tnvmc.backend.host.slices import add_rows

            out = np.zeros((self.pieces.local_dim, columns.shape[1]), u.dtype)
            add_rows(*given, u, out)
            return out
        xp = array_namespace(u)
        by_spin = xp.where(self._selected(piece), conj(u)[:, None], xp.zeros((), dtype=u.dtype))
        return conj(xp.matrix_transpose(by_spin) @ columns)

    @property
    def _own(self) -> list[Piece]:
        return self.pieces.all[self.places.start : self.places.stop]

    def _selected(self, piece: Piece) -> Array:
        return selected_spins(self.spins, piece.site, self.pieces.local_dim)

    def _each(self, task: Callable[[Piece, Array], Array]) -> list[Array]:
        """Results of a task for every piece; many samples on the host in threads."""
        work = [*zip(self._own, self.units, strict=True)]
        n_entries = self.spins.shape[0] * sum(columns.shape[1] for columns in self.units)
        if n_entries < _THREADED_ENTRIES or array_namespace(self.spins) is not np:
            return [task(*each) for each in work]
        with one_blas_thread():
            return side_by_side(lambda each: task(*each), work)
