"""Tiles of large Hermitian matrices: which rank has which, and what is done with one row of them.

A row of tiles is (rows, columns up to the diagonal tile's last); other files go round the rows, in
threads and on ranks (`cholesky`).
"""

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from tnvmc.backend.namespace import dagger

_IN_CACHE = 64
"""Rows that are made double at a time, so that they stay in the cache."""

TILE = 256
"""Rows of a tile: the fewest with which products reach the rate of BLAS."""


def tiles_of(n: int) -> list[slice]:
    """Rows of each tile of a matrix (n, n)."""
    return [slice(a, b) for a, b in pairwise([*range(0, n, TILE), n])]


def owner(row: int, n_ranks: int) -> int:
    """Give the rank that has a row of tiles: to and fro, since rows become longer."""
    lap, place = divmod(row, n_ranks)
    return n_ranks - 1 - place if lap % 2 else place


def rows_of(n: int, rank: int = 0, n_ranks: int = 1) -> list[int]:
    """Give the places of the rows of tiles that a rank has."""
    return [i for i in range(len(tiles_of(n))) if owner(i, n_ranks) == rank]


def n_stored(n: int, rank: int = 0, n_ranks: int = 1) -> int:
    """Count the numbers that a rank stores of a matrix (n, n): about half of them in all."""
    tiles = tiles_of(n)
    own = [tiles[i] for i in rows_of(n, rank, n_ranks)]
    return sum((tile.stop - tile.start) * tile.stop for tile in own)


def add_square(rows: Mapping[int, np.ndarray], a: np.ndarray, i: int) -> None:
    """Add those rows of a^dagger a, for a (m, n), to row i."""
    height, width = rows[i].shape
    rows[i][...] += dagger(a[:, width - height : width]) @ a[:, :width]


def terms(
    rows: Mapping[int, np.ndarray], x: np.ndarray, i: int
) -> tuple[int, np.ndarray, np.ndarray]:
    """What row i adds to A x, and what the columns add that are its adjoint."""
    row, start = rows[i], rows[i].shape[1] - rows[i].shape[0]
    across, down = [], np.zeros(start, x.dtype)
    for begin in range(0, len(row), _IN_CACHE):
        part = row[begin : begin + _IN_CACHE].astype(x.dtype)
        across.append(part @ x[: row.shape[1]])
        own = x[start + begin :][: len(part)]
        down += own @ part[:, :start].conj()
    return i, np.concatenate(across), down


def subtract(
    matrix: Mapping[int, np.ndarray], factor: Mapping[int, np.ndarray], pivot_row: np.ndarray,
    i: int,
) -> np.ndarray:  # fmt: skip
    """Subtract from a tile of A the product of all columns of L to the left of it; into L."""
    height, width = pivot_row.shape
    before, columns = slice(0, width - height), slice(width - height, width)
    product = factor[i][:, before] @ dagger(pivot_row[:, before])
    tile = factor[i][:, columns]
    np.subtract(matrix[i][:, columns], product, out=tile)
    return tile


def divide(
    matrix: Mapping[int, np.ndarray], factor: Mapping[int, np.ndarray], pivot_row: np.ndarray,
    solve: Callable[[np.ndarray], np.ndarray], i: int,
) -> None:  # fmt: skip
    """A tile of L below the diagonal one, from that of A."""
    tile = subtract(matrix, factor, pivot_row, i)
    tile[:] = solve(tile.T).T
