"""Regular lattices: chain, square, Shastry-Sutherland.

Along a periodic direction of length L the bond from the last site back to the first exists for
L > 2 only: for L = 2 it would join two sites that are neighbours already (some papers count such
a bond twice; give them the double coupling explicitly), for L = 1 a site to itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from tnvmc.backend.calls import spelt
from tnvmc.lattice.lattice import (
    Boundary,
    Lattice,
    Patch,
    check_boundary,
    check_length,
    grid_coordinates,
)


@spelt(pbc="boundary = 'periodic'", periodic="boundary = 'periodic'")
def chain(length: int, boundary: str = "open") -> Lattice:
    """Build a chain: a grid of one row.

    Bonds: "nearest" (i, i+1), and "diagonal", which on a chain means next-nearest (i, i+2).
    On a periodic chain a pair that is joined both ways round is listed once, and as "nearest"
    where it is that as well (length 3).

    Raises:
        ValueError: length below 1; boundary neither "open" nor "periodic".
    """
    length = check_length("length", length)
    ends = check_boundary(boundary, ("open", "periodic"))
    nearest = _chain_bonds(length, 1, ends)
    farther = tuple(bond for bond in _chain_bonds(length, 2, ends) if bond not in nearest)
    return Lattice(
        kind="chain",
        shape=(1, length),
        boundary=ends,
        coordinates=grid_coordinates((1, length)),
        bonds={"nearest": nearest, "diagonal": farther},
    )


@spelt(pbc="boundary = 'periodic'", periodic="boundary = 'periodic'")
def square(n_rows: int, n_cols: int, boundary: str = "open") -> Lattice:
    """Build a square lattice of n_rows x n_cols sites.

    `boundary`: "open"; "cylinder", where every row is a ring (column n_cols - 1 is joined to
    column 0) and the columns are open, so the circumference is n_cols; "periodic" in both
    directions.  Bonds: "nearest", "diagonal" (both diagonals of every plaquette, distance
    sqrt(2)), and "third" (two steps along a row or a column, J3 of J1-J2-J3 models).

    Raises:
        ValueError: a side below 1; an unknown boundary.
    """
    shape, edges = check_grid(n_rows, n_cols, boundary)
    return Lattice(
        kind="square",
        shape=shape,
        boundary=edges,
        coordinates=grid_coordinates(shape),
        bonds={
            "nearest": grid_bonds(shape, edges, ((0, 1), (1, 0))),
            "diagonal": grid_bonds(shape, edges, ((1, 1), (1, -1))),
            "third": _two_steps(shape, edges),
        },
    )


@spelt(pbc="boundary = 'periodic'", periodic="boundary = 'periodic'")
def shastry_sutherland(n_rows: int, n_cols: int, boundary: str = "open") -> Lattice:
    """Build a square lattice with one diagonal ("dimer") in every other plaquette.

    With (r, c) the upper left corner of a plaquette, the dimers are (r, c)-(r+1, c+1) for r and
    c both even and (r, c+1)-(r+1, c) for r and c both odd; plaquettes with r + c odd are empty.
    Every site then belongs to one dimer, except at open edges, where it may belong to none.
    Bonds: "nearest" and "dimer".

    Raises:
        ValueError: a side below 1; an unknown boundary; a periodic direction whose length is
            odd or below 4, which the pattern does not fit.

    Source: B. S. Shastry, B. Sutherland, Physica B+C 108, 1069 (1981).
    """
    shape, edges = check_grid(n_rows, n_cols, boundary)
    lattice = square(n_rows, n_cols, edges)
    for name, length, wraps in zip(("n_rows", "n_cols"), shape, lattice.periodic, strict=True):
        if wraps and (length % 2 or length < 4):
            raise ValueError(
                f"Shastry-Sutherland lattice: {name} is {length} along a periodic direction; the "
                "pattern of dimers repeats after 2 sites and needs an even length of at least 4. "
                "Change the length, or take boundary = 'open'"
            )
    falling = grid_bonds(shape, edges, ((1, 1),), parity=0)
    rising = grid_bonds(shape, edges, ((1, -1),), parity=1)
    return Lattice(
        kind="shastry_sutherland",
        shape=shape,
        boundary=edges,
        coordinates=lattice.coordinates,
        bonds={
            "nearest": lattice.bonds["nearest"],
            "dimer": tuple(sorted(falling + rising)),
        },
    )


def check_grid(n_rows: int, n_cols: int, boundary: str) -> tuple[tuple[int, int], Boundary]:
    """Give (n_rows, n_cols) and the boundary of a lattice of two dimensions.

    Raises:
        ValueError: a side below 1; an unknown boundary.
    """
    shape = (check_length("n_rows", n_rows), check_length("n_cols", n_cols))
    return shape, check_boundary(boundary, ("open", "cylinder", "periodic"))


def _chain_bonds(length: int, distance: int, ends: Boundary) -> tuple[Patch, ...]:
    first_sites = length if ends == "periodic" else length - distance
    pairs = {_pair(i, (i + distance) % length) for i in range(first_sites)}
    return tuple(sorted(pair for pair in pairs if pair[0] != pair[1]))


def grid_bonds(
    shape: tuple[int, int],
    edges: Boundary,
    steps: tuple[tuple[int, int], ...],
    parity: int | None = None,
) -> tuple[Patch, ...]:
    """Bonds that the given (row, column) steps reach from every site, each pair once.

    With a `parity` only from plaquettes whose upper left corner has both row and column of it:
    a falling step starts at that corner, a rising one a column to the right.
    """
    return tuple(sorted(set(_walk(shape, edges, steps, parity))))


def _two_steps(shape: tuple[int, int], edges: Boundary) -> tuple[Patch, ...]:
    """Pairs two steps apart in a row or a column; on a ring of 3 they are neighbours, and left out."""
    n_rows, n_cols = shape
    rows = _chain_bonds(n_cols, 2, "open" if edges == "open" or n_cols < 4 else "periodic")
    columns = _chain_bonds(n_rows, 2, "periodic" if edges == "periodic" and n_rows > 3 else "open")
    near = set(grid_bonds(shape, edges, ((0, 1), (1, 0))))
    pairs = [(r * n_cols + i, r * n_cols + j) for r in range(n_rows) for i, j in rows]
    pairs += [(i * n_cols + c, j * n_cols + c) for c in range(n_cols) for i, j in columns]
    return tuple(sorted(set(pairs) - near))


def _walk(
    shape: tuple[int, int],
    edges: Boundary,
    steps: tuple[tuple[int, int], ...],
    parity: int | None,
) -> Iterator[Patch]:
    n_rows, n_cols = shape
    for row in range(n_rows):
        for col in range(n_cols):
            for down, right in steps:
                corner = (row, min(col, col + right))
                if parity is not None and (corner[0] % 2 != parity or corner[1] % 2 != parity):
                    continue
                to_row = _neighbour(row + down, n_rows, edges == "periodic")
                to_col = _neighbour(col + right, n_cols, edges != "open")
                if to_row is not None and to_col is not None:
                    yield _pair(row * n_cols + col, to_row * n_cols + to_col)


def _neighbour(position: int, length: int, wraps: bool) -> int | None:
    if 0 <= position < length:
        return position
    return position % length if wraps and length > 2 else None


def _pair(i: int, j: int) -> Patch:
    return (i, j) if i < j else (j, i)
