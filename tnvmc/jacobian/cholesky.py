"""Cholesky factor of a large matrix on processors, by rows of tiles that threads and ranks take.

LAPACK's own threads would give other bits for each number of them; here tiles and the order of their sums are the
same for any number of threads or ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from tnvmc.backend.process import one_blas_thread, side_by_side
from tnvmc.backend.ranks import ALONE, Ranks

TILE = 256
"""Rows of a tile: the least of which products reach the rate of BLAS, so that threads end together."""


def tiles_of(n: int) -> list[slice]:
    """Rows of each tile of a matrix (n, n)."""
    return [slice(a, b) for a, b in pairwise([*range(0, n, TILE), n])]


def owner(row: int, n_ranks: int) -> int:
    """Give the rank that has a row of tiles: to and fro, since rows become longer."""
    lap, place = divmod(row, n_ranks)
    return n_ranks - 1 - place if lap % 2 else place


def lower_factor(matrix: np.ndarray, shift: float, *, overwrite: bool = False) -> np.ndarray:
    """Factorise A + shift = L L^dagger in one process.

    Args:
        matrix: A (n, n), Hermitian; only its lower triangle is read.
        shift: real, what is added to the diagonal.
        overwrite: whether the factor takes the place of the matrix.

    Returns:
        An array (n, n) in C order whose lower triangle is L.  The rest of it has no meaning.

    Cost: n^3 / 3 multiplications and additions of half as many, on `tnvmc.backend.process.threads_in_use`
    threads: 1.9 times faster on two (13,110 rows of float32: 5.8 s for 10 s).  Memory: the factor.

    Raises LinAlgError where a pivot is not positive.
    """
    factor = matrix if overwrite else np.empty_like(matrix, order="C")
    tiles = tiles_of(len(matrix))
    rows, into = (
        {i: whole[tile, : tile.stop] for i, tile in enumerate(tiles)} for whole in (matrix, factor)
    )
    if (failed := factorise(rows, into, len(matrix), shift)) is not None:
        raise np.linalg.LinAlgError(f"pivot {failed} is not positive")
    return factor


def factorise(
    matrix: Mapping[int, np.ndarray],
    factor: dict[int, np.ndarray],
    n: int,
    shift: float,
    ranks: Ranks = ALONE,
) -> int | None:
    """Fill in the lower triangle of L with A + shift = L L^dagger; all ranks call it.

    Args:
        matrix: of A (n, n) the own rows of tiles, (rows, columns up to the diagonal tile's last).
        factor: the same of L, which may lie in the same place.  On rank 0 those of others are put in too;
            of the diagonal tiles the upper triangles are zero.
        n: rows of A.
        shift: real.
        ranks: `owner` tells which has what.

    Returns:
        None; or the pivot that is not positive, and then the factor has no meaning.

    Traffic: n^2 / 2 numbers to each rank.  Memory beside the factor: one row of tiles.
    """
    from scipy.linalg import get_blas_funcs, get_lapack_funcs

    tiles = tiles_of(n)
    like = next(iter(matrix.values()), None)
    dtype = ranks.told(None if like is None else like.dtype)  # rank 0 has the first row
    some = np.empty(0, dtype)
    (potrf,), (trsm,) = get_lapack_funcs(("potrf",), (some,)), get_blas_funcs(("trsm",), (some,))

    def subtract(i: int, columns: slice, pivot_row: np.ndarray) -> np.ndarray:
        """Of a tile of A, what the columns to the left of it account for: all of it in one product."""
        before = slice(0, columns.start)
        product = factor[i][:, before] @ pivot_row[:, before].conj().T
        tile = factor[i][:, columns]
        np.subtract(matrix[i][:, columns], product, out=tile)
        return tile

    def complete(k: int, columns: slice) -> None:
        """The diagonal tile of a row; a pivot that is not positive becomes NaN."""
        corner = subtract(k, columns, factor[k])
        np.einsum("ii->i", corner)[:] += shift
        # The transpose of C order is the order of LAPACK: it has the conjugate of the factor there.
        upper, failed = potrf(corner.T, lower=False, clean=True)
        corner[:] = upper.T
        if failed:
            corner[failed - 1, failed - 1] = np.nan

    with one_blas_thread():
        for k, columns in enumerate(tiles):
            root = owner(k, ranks.size)
            if root == ranks.rank:
                complete(k, columns)
                row = factor[k]
            else:
                row = np.empty((columns.stop - columns.start, columns.stop), dtype)
            if (failed := _passed_on(row, columns.start, root, ranks)) is not None:
                return failed
            if ranks.rank == 0:
                factor[k] = row
            upper = np.asarray(row[:, columns].T, order="F")

            def divide(
                i: int,
                columns: slice = columns,
                row: np.ndarray = row,
                upper: np.ndarray = upper,
            ) -> None:
                tile = subtract(i, columns, row)
                tile[:] = trsm(1.0, upper, tile.T, trans_a=2).T

            side_by_side(divide, [i for i in matrix if i > k])
    return None


def _passed_on(row: np.ndarray, start: int, root: int, ranks: Ranks) -> int | None:
    """Fill in a completed row of the factor from the rank that has it; gives a pivot that is NaN there."""
    ranks.broadcast(row, root)
    bad = np.isnan(np.einsum("ii->i", row[:, start:]))
    return start + int(np.argmax(bad)) if bad.any() else None
