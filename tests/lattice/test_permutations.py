"""Rearrangements of a lattice that keep its bonds, and its sublattices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tnvmc.lattice import Lattice, chain, from_bonds, shastry_sutherland, square
from tnvmc.lattice.permutations import (
    Symmetry,
    checkerboard,
    colouring,
    keeps_bonds,
    point_group,
    space_group,
    translations,
)

GRID_22, GRID_23 = square(2, 2).positions(), square(2, 3).positions()
LATTICES: dict[str, tuple[Lattice, int]] = {
    "square": (square(4, 4), 8),
    "odd square": (square(3, 3), 8),
    "torus": (square(4, 4, "periodic"), 8),
    "rectangle": (square(3, 4), 4),
    "cylinder": (square(4, 4, "cylinder"), 4),
    "chain": (chain(5), 2),
    "ring": (chain(6, "periodic"), 2),
    "site": (chain(1), 1),
    "dimers": (shastry_sutherland(4, 4), 4),
    "odd dimers": (shastry_sutherland(5, 5), 2),
    "ladder with one bond cut": (
        from_bonds((2, 3), [(0, 1), (1, 2), (0, 3), (1, 4), (2, 5)], GRID_23),
        2,
    ),
    "one bond": (from_bonds((2, 2), [(0, 1)], GRID_22), 2),
    "spiral": (from_bonds((2, 3), [(0, 1), (1, 2), (2, 5), (4, 5)], GRID_23), 1),
}


@pytest.mark.parametrize("name", LATTICES)
def test_order_and_axioms(name: str) -> None:
    lattice, order = LATTICES[name]
    group = point_group(lattice)
    sites = {g.sites for g in group}
    assert len(group) == len(sites) == order
    assert group[0] == Symmetry("identity", tuple(range(lattice.n_sites)))
    for g, h in itertools.product(group, repeat=2):
        assert tuple(h.sites[i] for i in g.sites) in sites
    assert all(tuple(int(i) for i in np.argsort(g.sites)) in sites for g in group)


@pytest.mark.parametrize("name", LATTICES)
def test_bonds_and_distances_stay(name: str) -> None:
    """Looked at through the adjacency matrix of each kind, not through sets of pairs."""
    lattice, _ = LATTICES[name]
    for g in point_group(lattice):
        for bonds in lattice.bonds.values():
            joined = np.zeros((lattice.n_sites, lattice.n_sites), dtype=bool)
            for i, j in bonds:
                joined[i, j] = joined[j, i] = True
            assert np.array_equal(joined, joined[np.ix_(g.sites, g.sites)])
        distances = lattice.distances()
        assert np.allclose(distances, distances[np.ix_(g.sites, g.sites)])


def test_names_say_what_happens() -> None:
    picture = np.arange(9)
    moved = {
        g.name: picture[list(g.sites)].reshape(3, 3).tolist() for g in point_group(square(3, 3))
    }
    assert moved["left-right reflection"] == [[2, 1, 0], [5, 4, 3], [8, 7, 6]]
    assert moved["up-down reflection"] == [[6, 7, 8], [3, 4, 5], [0, 1, 2]]
    assert moved["half turn"] == [[8, 7, 6], [5, 4, 3], [2, 1, 0]]
    assert moved["diagonal reflection"] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    assert moved["antidiagonal reflection"] == [[8, 5, 2], [7, 4, 1], [6, 3, 0]]
    assert moved["left quarter turn"] == [[2, 5, 8], [1, 4, 7], [0, 3, 6]]
    assert moved["right quarter turn"] == [[6, 3, 0], [7, 4, 1], [8, 5, 2]]


def test_a_broken_bond_is_seen() -> None:
    shift = Symmetry("shift", (1, 2, 3, 0))
    assert keeps_bonds(chain(4, "periodic"), shift)
    assert not keeps_bonds(chain(4), shift)


PERIODIC: dict[str, tuple[Lattice, int, int]] = {
    "torus": (square(4, 4, "periodic"), 16, 128),
    "odd torus": (square(3, 3, "periodic"), 9, 72),
    "wide torus": (square(3, 4, "periodic"), 12, 48),
    "cylinder": (square(3, 4, "cylinder"), 4, 16),
    "ring": (chain(6, "periodic"), 6, 12),
    "open": (square(3, 3), 1, 8),
    "dimers": (shastry_sutherland(4, 4, "periodic"), 4, 32),
    "bonds": (from_bonds((2, 2), [(0, 1)]), 1, 2),
}


@pytest.mark.parametrize("name", PERIODIC)
def test_translations_and_space_group(name: str) -> None:
    """The orders are N of a torus and 8 N with its point group, p4g for the dimers."""
    lattice, n_translations, n_all = PERIODIC[name]
    shifts, everything = translations(lattice), space_group(lattice)
    assert (len(shifts), len(everything)) == (n_translations, n_all)
    assert {*shifts, *point_group(lattice)} <= set(everything)
    for group in (shifts, everything):
        sites = {g.sites for g in group}
        assert len(sites) == len({g.name for g in group}) == len(group)
        assert group[0] == Symmetry("identity", tuple(range(lattice.n_sites)))
        assert all(keeps_bonds(lattice, g) for g in group)
        for g, h in itertools.product(group, repeat=2):
            assert tuple(h.sites[i] for i in g.sites) in sites


def test_translations_move_the_picture() -> None:
    moved = {
        g.name: np.reshape(g.sites, (2, 3)).tolist() for g in translations(square(2, 3, "cylinder"))
    }
    assert moved["translation by (0, 1)"] == [[2, 0, 1], [5, 3, 4]]
    assert list(moved) == ["identity", "translation by (0, 1)", "translation by (0, 2)"]


def test_checkerboard() -> None:
    assert checkerboard(square(2, 3)).tolist() == [0, 1, 0, 1, 0, 1]
    assert checkerboard(chain(4, "periodic")).tolist() == [0, 1, 0, 1]
    lattice = square(4, 4, "periodic")
    board = checkerboard(lattice)
    assert all(board[i] != board[j] for i, j in lattice.bonds["nearest"])
    for odd in (chain(5, "periodic"), square(3, 4, "periodic"), from_bonds((2, 2), [(0, 3)])):
        with pytest.raises(ValueError, match="neighbours on one sublattice"):
            checkerboard(odd)


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
