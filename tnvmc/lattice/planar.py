"""Lattices beyond the square one, each on a grid: triangular, honeycomb, kagome, checkerboard.

All are drawn with nearest neighbours at distance 1.  `boundary` is "open"; "cylinder", where every
row of the grid is a ring; or "periodic" in both directions, which joins the last row to the first
without a twist.  A pair that is joined both ways round a short ring is listed once.
"""

from __future__ import annotations

import math

import numpy as np

from tnvmc.backend.calls import spelt
from tnvmc.lattice.grids import check_grid, grid_bonds, square
from tnvmc.lattice.lattice import Boundary, Lattice, Patch, grid_coordinates, separations

_FURTHER = {"nearest": 1.0, "next_nearest": math.sqrt(3), "third": 2.0}
"""Kinds of bonds by distance: the same three on triangular, honeycomb and kagome lattices."""

_SAME = 1e-6  # a difference of distances that is rounding

_TILTED = ((math.sqrt(3) / 2, 0.5), (0.0, 1.0))  # (y, x) of one row, and of one column
_BRICK = ((1.5, 0.0), (0.0, math.sqrt(3) / 2))
_PERIODS = {
    "triangular": ((1, 0), (0, 1)),
    "honeycomb": ((1, 1), (0, 2)),
    "kagome": ((2, 0), (0, 2)),
}


@spelt(pbc="boundary = 'periodic'", periodic="boundary = 'periodic'")
def triangular(n_rows: int, n_cols: int, boundary: str = "open") -> Lattice:
    """Build a triangular lattice: a square grid with one diagonal in every plaquette.

    The diagonal rises, from (r + 1, c) to (r, c + 1); in the plane each row is shifted by half a site
    to the right of the one above.  Bonds: "nearest" (the grid and the diagonals, 6 for a site inside),
    "next_nearest" at distance sqrt(3), "third" at 2.

    On the grid of a PEPS every bond is used, and the diagonals are served by windows of 2 x 2.

    Raises:
        ValueError: a side below 1; an unknown boundary.
    """
    shape, edges = check_grid(n_rows, n_cols, boundary)
    return _by_distance("triangular", shape, edges, grid_coordinates(shape) @ _TILTED, _TILTED)


@spelt(pbc="boundary = 'periodic'", periodic="boundary = 'periodic'")
def honeycomb(n_rows: int, n_cols: int, boundary: str = "open") -> Lattice:
    """Build a honeycomb lattice as a brick wall: rows are zigzag lines, joined at every second site.

    (r, c) and (r + 1, c) are joined where r + c is even; two sites of a unit cell lie side by side in a
    row.  Bonds: "nearest", "next_nearest" at distance sqrt(3), "third" at 2 (across a hexagon).

    On the grid of a PEPS the vertical bonds that are missing have dimension 1.

    Raises:
        ValueError: a side below 1; an unknown boundary; a periodic direction whose length is odd or
            below 4.
    """
    shape, edges = check_grid(n_rows, n_cols, boundary)
    _check_period("honeycomb", shape, edges)
    places = grid_coordinates(shape)
    below = np.where(places.sum(axis=1) % 2 == 0, 0.25, -0.25)
    points = places @ _BRICK + np.stack([below, np.zeros_like(below)], axis=1)
    return _by_distance("honeycomb", shape, edges, points, _BRICK)


@spelt(pbc="boundary = 'periodic'", periodic="boundary = 'periodic'")
def kagome(n_rows: int, n_cols: int, boundary: str = "open") -> Lattice:
    """Build a kagome lattice: a triangular one without the sites of odd row and odd column.

    A unit cell is a block of 2 x 2 of the grid, so 4 x 4 are four cells and 12 sites; odd sides end
    in half a cell, as 5 x 5 with 21 sites, where every triangle at the rim is whole.  Bonds: "nearest",
    "next_nearest" at distance sqrt(3), "third" at 2 (along a line and across a hexagon).

    On the grid of a PEPS the vacant places have no spin and bonds of dimension 1; of the three bonds of
    a triangle two are bonds of the network, and the third is served by a window of 2 x 2.

    Raises:
        ValueError: a side below 1; an unknown boundary; a periodic direction whose length is odd or
            below 4.
    """
    shape, edges = check_grid(n_rows, n_cols, boundary)
    _check_period("kagome", shape, edges)
    places = grid_coordinates(shape)
    empty = (places % 2).all(axis=1)
    vacant = tuple(int(place) for place in np.flatnonzero(empty))
    return _by_distance("kagome", shape, edges, places[~empty] @ _TILTED, _TILTED, vacant)


@spelt(pbc="boundary = 'periodic'", periodic="boundary = 'periodic'")
def checkerboard_lattice(n_rows: int, n_cols: int, boundary: str = "open") -> Lattice:
    """Build a checkerboard lattice: a square one with both diagonals in every second plaquette.

    The plaquettes are those whose upper left corner has r + c even.  Bonds: "nearest", the sides of
    the plaquettes, and "diagonal"; a Heisenberg model on all of them is `j1j2` with J2 = J1.  (The
    sublattices of a lattice, as in Marshall's rule, are those of `checkerboard`.)

    Raises:
        ValueError: a side below 1; an unknown boundary; a periodic direction whose length is odd or
            below 4.
    """
    shape, edges = check_grid(n_rows, n_cols, boundary)
    _check_period("checkerboard", shape, edges)
    plain = square(*shape, edges)
    diagonals = [
        bond
        for parity in (0, 1)
        for step in ((1, 1), (1, -1))
        for bond in grid_bonds(shape, edges, (step,), parity)
    ]
    bonds = {"nearest": plain.bonds["nearest"], "diagonal": tuple(sorted(set(diagonals)))}
    return Lattice("checkerboard", shape, edges, plain.coordinates, bonds)


def _by_distance(
    kind: str,
    shape: tuple[int, int],
    edges: Boundary,
    points: np.ndarray,
    cell: tuple[tuple[float, float], tuple[float, float]],
    vacant: tuple[int, ...] = (),
) -> Lattice:
    """A lattice whose bonds join all sites at one of the three distances."""
    bare = Lattice(kind, shape, edges, points, {}, vacant=vacant, cell=cell)
    apart = separations(points[:, None, :] - points[None, :, :], bare)
    bonds = {name: _pairs(apart, length) for name, length in _FURTHER.items()}
    period = _PERIODS[kind]
    return Lattice(kind, shape, edges, points, bonds, vacant=vacant, cell=cell, period=period)


def _pairs(apart: np.ndarray, length: float) -> tuple[Patch, ...]:
    first, second = np.nonzero(np.triu(np.abs(apart - length) < _SAME, k=1))
    return tuple(zip(first.tolist(), second.tolist(), strict=True))


def _check_period(kind: str, shape: tuple[int, int], edges: Boundary) -> None:
    """Raise ValueError for a ring that the pattern of 2 x 2 places does not fit."""
    wraps = edges == "periodic", edges != "open"
    for name, length, closed in zip(("n_rows", "n_cols"), shape, wraps, strict=True):
        if closed and (length % 2 or length < 4):
            raise ValueError(
                f"{kind} lattice: {name} is {length} along a periodic direction; the pattern repeats "
                "after 2 places of the grid and needs an even length of at least 4. Change the length, "
                "or take boundary = 'open'"
            )
