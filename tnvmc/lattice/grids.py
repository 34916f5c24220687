"""Lattices on a grid: chain, square, triangular, honeycomb, kagome and others.

Nearest neighbours are at distance 1.  `boundary` is "open"; "cylinder", where every row is a ring
(column n_cols - 1 is joined to column 0), so that the circumference is n_cols; or "periodic" in
both directions, without a twist.  Along a periodic direction of length L the bond from the last
site back to the first exists for L > 2 only: for L = 2 it would join neighbours a second time.
`vacant` are places row * n_cols + column without a site; the others are numbered row by row.  All
raise ValueError for a side below 1, an unknown boundary, and a periodic direction that the pattern
does not fit.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from tnvmc.backend.arguments import whole
from tnvmc.lattice.lattice import (
    SAME,
    Boundary,
    Lattice,
    Patch,
    check_boundary,
    check_vacant,
    grid_coordinates,
    separations,
)

Shape = tuple[int, int]
Places = Iterable[int]
Bonds = Mapping[str, tuple[Patch, ...]]
Steps = tuple[tuple[int, int], ...]

_SIDES = ((0, 1), (1, 0))  # steps (rows, columns) to the nearest neighbours on a grid

_FURTHER = {"nearest": 1.0, "next_nearest": math.sqrt(3), "third": 2.0}
"""Kinds of bonds by distance: the same three on triangular, honeycomb and kagome lattices."""

_TILTED = ((math.sqrt(3) / 2, 0.5), (0.0, 1.0))  # (y, x) of one row, and of one column
_BRICK = ((1.5, 0.0), (0.0, math.sqrt(3) / 2))
_PERIODS = {
    "triangular": ((1, 0), (0, 1)),
    "honeycomb": ((1, 1), (0, 2)),
    "kagome": ((2, 0), (0, 2)),
}


def chain(length: int, boundary: str = "open") -> Lattice:
    """Build a chain: a grid of one row, "open" or "periodic".

    Bonds: "nearest" (i, i+1), and "diagonal", which on a chain means next-nearest (i, i+2).
    On a periodic chain a pair that is joined both ways round is listed once, and as "nearest"
    where it is that as well (length 3).
    """
    shape = 1, whole("lattice", "length", length)
    ends = check_boundary(boundary, ("open", "periodic"))
    nearest = _grid_bonds(shape, ends, ((0, 1),))
    farther = _grid_bonds(shape, ends, ((0, 2),))
    bonds = {"nearest": nearest, "diagonal": _without(farther, nearest)}
    return Lattice("chain", shape, ends, grid_coordinates(shape), bonds)


def square(n_rows: int, n_cols: int, boundary: str = "open", vacant: Places = ()) -> Lattice:
    """Build a square lattice of n_rows x n_cols sites.

    Bonds: "nearest", "diagonal" (both diagonals of every plaquette), and "third" (two steps along a
    row or a column, J3 of J1-J2-J3 models; not on rings of 3, where these end at neighbours).
    """
    shape, edges = _check_grid(n_rows, n_cols, boundary)
    nearest = _grid_bonds(shape, edges, _SIDES)
    bonds = {
        "nearest": nearest,
        "diagonal": _grid_bonds(shape, edges, ((1, 1), (1, -1))),
        "third": _without(_grid_bonds(shape, edges, ((0, 2), (2, 0))), nearest),
    }
    return _on_grid("square", shape, edges, bonds, vacant)


def shastry_sutherland(
    n_rows: int, n_cols: int, boundary: str = "open", vacant: Places = ()
) -> Lattice:
    """Build a square lattice with one diagonal ("dimer") in every other plaquette.

    With (r, c) the upper left corner of a plaquette, the dimers are (r, c)-(r+1, c+1) for r and
    c both even and (r, c+1)-(r+1, c) for r and c both odd; plaquettes with r + c odd are empty.
    Bonds: "nearest" and "dimer".

    Source: B. S. Shastry, B. Sutherland, Physica B+C 108, 1069 (1981).
    """
    shape, edges = _check_grid(n_rows, n_cols, boundary, "Shastry-Sutherland")
    falling = _grid_bonds(shape, edges, ((1, 1),), parity=0)
    rising = _grid_bonds(shape, edges, ((1, -1),), parity=1)
    bonds = {"nearest": _grid_bonds(shape, edges, _SIDES), "dimer": tuple(sorted(falling + rising))}
    return _on_grid("shastry_sutherland", shape, edges, bonds, vacant)


def triangular(n_rows: int, n_cols: int, boundary: str = "open", vacant: Places = ()) -> Lattice:
    """Build a triangular lattice: a square grid with one diagonal in every plaquette.

    The diagonal rises, from (r + 1, c) to (r, c + 1); in the plane each row is shifted by half a
    site to the right of the one above.  Bonds: "nearest" (the grid and the diagonals, 6 for a site
    inside), "next_nearest" at distance sqrt(3), "third" at 2.
    """
    shape, edges = _check_grid(n_rows, n_cols, boundary)
    points = grid_coordinates(shape) @ _TILTED
    return _by_distance("triangular", shape, edges, points, _TILTED, vacant)


def honeycomb(n_rows: int, n_cols: int, boundary: str = "open", vacant: Places = ()) -> Lattice:
    """Build a honeycomb lattice as a brick wall: zigzag rows, joined at every second site.

    (r, c) and (r + 1, c) are joined where r + c is even; two sites of a unit cell lie side by side
    in a row.  Bonds: "nearest", "next_nearest" at distance sqrt(3), "third" at 2 (across a
    hexagon).  In a PEPS the vertical bonds that are missing have dimension 1.
    """
    shape, edges = _check_grid(n_rows, n_cols, boundary, "honeycomb")
    places = grid_coordinates(shape)
    below = np.where(places.sum(axis=1) % 2 == 0, 0.25, -0.25)
    points = places @ _BRICK + np.stack([below, np.zeros_like(below)], axis=1)
    return _by_distance("honeycomb", shape, edges, points, _BRICK, vacant)


def kagome(n_rows: int, n_cols: int, boundary: str = "open", vacant: Places = ()) -> Lattice:
    """Build a kagome lattice: a triangular one without the sites of odd row and odd column.

    A unit cell is a block of 2 x 2 of the grid, so 4 x 4 are four cells and 12 sites; odd sides end
    in half a cell, as 5 x 5 with 21 sites, where every triangle at the rim is whole.  Bonds:
    "nearest", "next_nearest" at distance sqrt(3), "third" at 2 (along a line and across a hexagon).
    In a PEPS the vacant places have bonds of dimension 1.
    """
    shape, edges = _check_grid(n_rows, n_cols, boundary, "kagome")
    places = grid_coordinates(shape)
    empty = {*np.flatnonzero((places % 2).all(axis=1)).tolist(), *vacant}
    return _by_distance("kagome", shape, edges, places @ _TILTED, _TILTED, empty)


def checkerboard_lattice(
    n_rows: int, n_cols: int, boundary: str = "open", vacant: Places = ()
) -> Lattice:
    """Build a checkerboard lattice: a square one with both diagonals in every second plaquette.

    The plaquettes are those whose upper left corner has r + c even.  Bonds: "nearest", the sides of
    the plaquettes, and "diagonal"; a Heisenberg model on all of them is `j1j2` with J2 = J1.
    """
    shape, edges = _check_grid(n_rows, n_cols, boundary, "checkerboard")
    diagonals = {
        bond
        for parity in (0, 1)
        for step in ((1, 1), (1, -1))
        for bond in _grid_bonds(shape, edges, (step,), parity)
    }
    nearest = _grid_bonds(shape, edges, _SIDES)
    bonds = {"nearest": nearest, "diagonal": tuple(sorted(diagonals))}
    return _on_grid("checkerboard", shape, edges, bonds, vacant)


GRIDS: Mapping[str, Callable[..., Lattice]] = {
    "square": square,
    "triangular": triangular,
    "honeycomb": honeycomb,
    "kagome": kagome,
    "checkerboard": checkerboard_lattice,
    "shastry_sutherland": shastry_sutherland,
}
"""By the names that files have for them.  Each takes (n_rows, n_cols, boundary, vacant)."""


def _on_grid(kind: str, shape: Shape, edges: Boundary, bonds: Bonds, vacant: Places) -> Lattice:
    return _emptied(Lattice(kind, shape, edges, grid_coordinates(shape), bonds), vacant)


def _emptied(lattice: Lattice, vacant: Places) -> Lattice:
    """The lattice, which is full, without the sites at some places of its grid."""
    if not (empty := check_vacant(vacant, lattice.shape)):
        return lattice
    sites = [place for place in lattice.places if place not in empty]
    new = {place: site for site, place in enumerate(sites)}
    bonds = {
        kind: tuple((new[i], new[j]) for i, j in pairs if i in new and j in new)
        for kind, pairs in lattice.bonds.items()
    }
    points = np.asarray(lattice.coordinates)[sites]
    return replace(lattice, vacant=empty, bonds=bonds, coordinates=points)


def _check_grid(
    n_rows: int, n_cols: int, boundary: str, pattern: str = ""
) -> tuple[Shape, Boundary]:
    """Check what a lattice is made of; its rings must fit a `pattern` of 2 x 2 places, if any."""
    shape = whole("lattice", "n_rows", n_rows), whole("lattice", "n_cols", n_cols)
    edges = check_boundary(boundary, ("open", "cylinder", "periodic"))
    wraps = edges == "periodic", edges != "open"
    for name, length, closed in zip(("n_rows", "n_cols"), shape, wraps, strict=True):
        if pattern and closed and (length % 2 or length < 4):
            raise ValueError(
                f"{pattern} lattice: {name} is {length} along a periodic direction; the pattern "
                "repeats after 2 places of the grid and needs an even length of at least 4. "
                "Change the length, or take boundary = 'open'"
            )
    return shape, edges


def _without(bonds: tuple[Patch, ...], nearest: tuple[Patch, ...]) -> tuple[Patch, ...]:
    """Bonds that are not nearest ones, as two steps round a ring of three are."""
    return tuple(sorted(set(bonds) - set(nearest)))


def _grid_bonds(
    shape: Shape, edges: Boundary, steps: Steps, parity: int | None = None
) -> tuple[Patch, ...]:
    """Bonds that the given (row, column) steps reach from every site, each pair once.

    With a `parity` only from plaquettes whose upper left corner has both row and column of it:
    a falling step starts at that corner, a rising one a column to the right.
    """
    n_rows, n_cols = shape
    bonds = set()
    for row, col in itertools.product(range(n_rows), range(n_cols)):
        for down, right in steps:
            corner = (row, min(col, col + right))
            if parity is not None and (corner[0] % 2 != parity or corner[1] % 2 != parity):
                continue
            to_row = _neighbour(row + down, n_rows, edges == "periodic")
            to_col = _neighbour(col + right, n_cols, edges != "open")
            if to_row is not None and to_col is not None:
                site, other = row * n_cols + col, to_row * n_cols + to_col
                bonds.add((min(site, other), max(site, other)))
    return tuple(sorted(bonds))


def _neighbour(position: int, length: int, wraps: bool) -> int | None:
    if 0 <= position < length:
        return position
    return position % length if wraps and length > 2 else None


def _by_distance(
    kind: str, shape: Shape, edges: Boundary, points: np.ndarray,
    cell: tuple[tuple[float, float], tuple[float, float]], vacant: Places,
) -> Lattice:  # fmt: skip
    """A lattice whose bonds join all sites at one of the three distances."""
    bare = Lattice(kind, shape, edges, points, {}, cell=cell)
    apart = separations(points[:, None, :] - points[None, :, :], bare)
    bonds = {}
    for name, length in _FURTHER.items():
        ends = np.nonzero(np.triu(np.abs(apart - length) < SAME, k=1))
        bonds[name] = tuple(zip(*map(np.ndarray.tolist, ends), strict=True))
    return _emptied(replace(bare, bonds=bonds, period=_PERIODS[kind]), vacant)
