"""Large Hermitian matrices in rows of tiles, on processors, and their Cholesky factors.

Only the lower triangle is stored.  LAPACK's own threads would give other bits for each number of
them; here tiles and the order of their sums are the same for any number of threads or ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from tnvmc.backend.namespace import dagger
from tnvmc.backend.process import ALONE, Ranks, Resident, one_blas_thread, side_by_side
from tnvmc.jacobian.tiles import add_square, divide, owner, subtract, terms, tiles_of


@dataclass(frozen=True, eq=False)
class Triangle(Resident):
    """Rows of tiles of a Hermitian matrix, each (rows, columns up to the diagonal tile's last).

    One process has all rows.  Of ranks each has some: all of them call the methods that take
    `ranks`, and the results are on rank 0.  ``np.asarray`` gives the numbers, as in a file.
    """

    n: int
    places: list[int]  #: of the rows among all
    numbers: np.ndarray  #: of the rows, one after another, in C order

    @property
    def dtype(self) -> Any:
        """Type of the entries."""
        return self.numbers.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the numbers that are stored."""
        return self.numbers.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        numbers = np.asarray(self.numbers, dtype)
        return numbers.copy() if copy else numbers

    def __reduce__(self) -> tuple[Any, ...]:
        return Triangle, (self.n, self.places, self.numbers)  # without views

    def __deepcopy__(self, memo: Any) -> Triangle:
        return self  # nothing changes it

    @cached_property
    def rows(self) -> dict[int, np.ndarray]:
        """The rows by place, as views."""
        tiles, begin, found = tiles_of(self.n), 0, {}
        for i in self.places:
            end = begin + (tiles[i].stop - tiles[i].start) * tiles[i].stop
            found[i] = self.numbers[begin:end].reshape(-1, tiles[i].stop)
            begin = end
        return found

    def plus(self, rows: Iterable[np.ndarray], factor: float = 1.0) -> Triangle:
        """Give factor * S + a^dagger a for rows a of a matrix, some (m, n) at a time.

        Cost: m n^2 / 2 for each, shared by threads and ranks.
        """
        total = self._changed(lambda i, row, out: np.multiply(row, factor, out=out))
        for part in rows:
            a = part.astype(self.dtype, copy=False)
            with one_blas_thread():
                side_by_side(partial(add_square, total.rows, a), self.places)
        return total

    def in_units(self, units: np.ndarray) -> Triangle:
        """Give D S D for a diagonal D (n,)."""
        tiles = tiles_of(self.n)

        def scale(i: int, row: np.ndarray, out: np.ndarray) -> None:
            np.multiply(units[tiles[i], None] * row, units[: row.shape[1]], out=out)

        return self._changed(scale)

    def diagonal(self, ranks: Ranks = ALONE) -> np.ndarray:
        """The diagonal (n,), real."""
        tiles = tiles_of(self.n)
        own = [(i, np.diagonal(row[:, tiles[i]]).real) for i, row in self.rows.items()]
        parts = _in_order(own, ranks)
        return np.concatenate([part for _, part in parts]) if parts else np.empty(0)

    def times(self, x: np.ndarray, ranks: Ranks = ALONE) -> np.ndarray:
        """A x for x (n,), in its precision.  Traffic: n^2 / 512 numbers to rank 0."""
        tiles = tiles_of(self.n)
        with one_blas_thread():
            own = side_by_side(partial(terms, self.rows, x), self.places)
        found = np.zeros_like(x)
        for i, across, down in _in_order(own, ranks):
            found[tiles[i]] += across
            found[: tiles[i].start] += down
        return found

    def factor(self, shift: float, ranks: Ranks = ALONE) -> Factor | None:
        """Compute L with A + shift = L L^dagger, on rank 0; None where a pivot is not positive."""
        made = Triangle(self.n, self.places, np.empty_like(self.numbers))
        failed = factorise(self.rows, rows := dict(made.rows), self.n, shift, self.dtype, ranks)
        return None if failed is not None else Factor(self.n, rows)

    def dense(self) -> np.ndarray:
        """The whole matrix (n, n), where these are all rows of it."""
        found = np.empty((self.n, self.n), self.numbers.dtype)
        for i, tile in enumerate(tiles_of(self.n)):
            found[: tile.start, tile] = dagger(self.rows[i][:, : tile.start])
            found[tile, : tile.stop] = self.rows[i]
        return found

    def _changed(self, change: Callable[[int, np.ndarray, np.ndarray], Any]) -> Triangle:
        """Make another one, each row of which a function fills in from the own one, in threads."""
        made = Triangle(self.n, self.places, np.empty_like(self.numbers))
        # In threads since most of the time goes into memory that is new to the process.
        rows, into = self.rows, made.rows
        side_by_side(lambda i: change(i, rows[i], into[i]), self.places)
        return made


@dataclass(frozen=True)
class Factor:
    """All rows of tiles of a Cholesky factor L (n, n)."""

    n: int
    rows: dict[int, np.ndarray]

    def pivots(self) -> np.ndarray:
        """The diagonal of L (n,)."""
        tiles = tiles_of(self.n)
        parts = [np.diagonal(self.rows[i][:, tile]).real for i, tile in enumerate(tiles)]
        return np.concatenate(parts) if parts else np.empty(0)

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Give x with L L^dagger x = b, in their precision: 2 n^2 operations on one thread."""
        tiles = tiles_of(self.n)
        divided = partial(solve_triangular, lower=True, check_finite=False)
        x = b.astype(np.result_type(b, *(row.dtype for row in self.rows.values())))
        with one_blas_thread():
            for i, tile in enumerate(tiles):
                rest = x[tile] - self.rows[i][:, : tile.start] @ x[: tile.start]
                x[tile] = divided(self.rows[i][:, tile], rest)
            for i, tile in reversed([*enumerate(tiles)]):
                x[tile] = divided(self.rows[i][:, tile], x[tile], trans="C")
                x[: tile.start] -= x[tile] @ self.rows[i][:, : tile.start].conj()
        return x


def _in_order(own: list[Any], ranks: Ranks) -> list[Any]:
    """What ranks have of each row, row by row, on rank 0."""
    gathered = [each for of_rank in ranks.collected(own) for each in of_rank]
    return sorted(gathered, key=lambda each: int(each[0]))


def lower_factor(matrix: np.ndarray, shift: float) -> np.ndarray:
    """Factorise A + shift = L L^dagger in one process.

    The result (n, n), in C order, has L in its lower triangle.  Only the lower triangle of A (n,
    n), Hermitian, is read; the rest of either has no meaning.

    Cost: n^3 / 3 multiplications and additions of half as many, on
    `tnvmc.backend.process.threads_in_use` threads.  Memory: the factor.

    Raises LinAlgError where a pivot is not positive.
    """
    factor = np.empty_like(matrix, order="C")
    tiles = tiles_of(len(matrix))
    rows, into = (
        {i: whole[tile, : tile.stop] for i, tile in enumerate(tiles)} for whole in (matrix, factor)
    )
    if (failed := factorise(rows, into, len(matrix), shift, matrix.dtype)) is not None:
        raise np.linalg.LinAlgError(f"pivot {failed} is not positive")
    return factor


def factorise(
    matrix: Mapping[int, np.ndarray], factor: dict[int, np.ndarray], n: int, shift: float,
    dtype: Any, ranks: Ranks = ALONE,
) -> int | None:  # fmt: skip
    """Fill in the lower triangle of L with A + shift = L L^dagger; all ranks call it.

    Args:
        matrix: of A (n, n) the own rows of tiles, (rows, columns up to the diagonal tile's last).
        factor: the same of L, which may lie in the same place.  On rank 0 those of others are put
            in too; of the diagonal tiles the upper triangles are zero.
        n: rows of A.
        shift: real.
        dtype: of A.
        ranks: `owner` tells which has what.

    Gives None; or the pivot that is not positive, and then the factor has no meaning.  Traffic: n^2
    / 2 numbers to each rank.  Memory beside the factor: one row of tiles.
    """
    from scipy.linalg import get_blas_funcs, get_lapack_funcs

    tiles = tiles_of(n)
    some = np.empty(0, dtype)
    (potrf,), (trsm,) = get_lapack_funcs(("potrf",), (some,)), get_blas_funcs(("trsm",), (some,))

    with one_blas_thread():
        for k, columns in enumerate(tiles):
            root = owner(k, ranks.size)
            if root == ranks.rank:
                row = factor[k]
                corner = subtract(matrix, factor, row, k)
                np.einsum("ii->i", corner)[:] += shift
                # C order transposed is the order of LAPACK: it has the conjugate of L there.
                upper, failed = potrf(corner.T, lower=False, clean=True)
                corner[:] = upper.T
                if failed:  # others see it as NaN
                    corner[failed - 1, failed - 1] = np.nan
            else:
                row = np.empty((columns.stop - columns.start, columns.stop), dtype)
            ranks.combine(row, "copy", root)
            bad = np.isnan(np.einsum("ii->i", row[:, columns]))
            if bad.any():
                return columns.start + int(np.argmax(bad))
            if ranks.rank == 0:
                factor[k] = row
            upper = np.asarray(row[:, columns].T, order="F")
            solve = partial(trsm, 1.0, upper, trans_a=2)
            below = [i for i in matrix if i > k]
            side_by_side(partial(divide, matrix, factor, row, solve), below)
    return None
