"""Two sublattices by the bonds: which lattices have them, and why others have not."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc.lattice import Lattice, chain, from_bonds, shastry_sutherland, square
from tnvmc.lattice.colouring import colouring

HEXAGON = [(0, 1), (1, 2), (2, 5), (5, 4), (4, 3), (3, 0)]
TRIANGLES = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (2, 4)]


@pytest.mark.parametrize(
    "lattice",
    [
        square(3, 4),
        square(4, 4, "periodic"),
        square(3, 4, "cylinder"),
        chain(5),
        shastry_sutherland(4, 4),  # whose nearest bonds count, not the dimers
    ],
)
def test_of_a_grid_it_is_the_checkerboard(lattice: Lattice) -> None:
    rows, columns = np.divmod(np.arange(lattice.n_sites), lattice.n_cols)
    assert np.array_equal(colouring(lattice).sublattice, (rows + columns) % 2)


def test_a_hexagon_has_two_colours_wherever_its_sites_stand_in_the_grid() -> None:
    for order in (range(6), (3, 0, 5, 1, 4, 2)):
        bonds = [(order[i], order[j]) for i, j in HEXAGON]
        found = colouring(from_bonds((2, 3), bonds)).sublattice
        assert found is not None and found.sum() == 3
        assert all(found[i] != found[j] for i, j in bonds)


def test_bonds_of_kinds_without_a_nearest_one_count_together() -> None:
    kinds = {"x": HEXAGON[::3], "y": HEXAGON[1::3], "z": HEXAGON[2::3]}
    found = colouring(from_bonds((2, 3), kinds)).sublattice
    assert found is not None and found.tolist() == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("lattice", "length"),
    [
        (from_bonds(5, TRIANGLES), 3),
        (chain(5, "periodic"), 5),
        (square(3, 4, "periodic"), 3),
        (from_bonds(7, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 2)]), 5),
    ],
)
def test_an_odd_ring_is_named(lattice: Lattice, length: int) -> None:
    found = colouring(lattice)
    assert found.sublattice is None
    ring, bonds = found.odd_ring, set(lattice.bonds["nearest"])
    assert len(ring) == len(set(ring)) and len(ring) % 2 == 1 and len(ring) <= length
    for i, j in zip(ring, (*ring[1:], ring[0]), strict=True):
        assert (min(i, j), max(i, j)) in bonds


def test_parts_are_not_related() -> None:
    found = colouring(from_bonds(5, [(0, 1), (2, 3)]))
    assert (found.sublattice, found.n_parts, found.odd_ring) == (None, 3, ())
