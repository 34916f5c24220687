"""Point groups: sizes by lattice, the group axioms, and bonds that stay bonds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tnvmc.lattice import Lattice, chain, from_bonds, shastry_sutherland, square
from tnvmc.lattice.symmetry import Permutation, keeps_bonds, point_group

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
    "ladder with one bond cut": (from_bonds((2, 3), [(0, 1), (1, 2), (0, 3), (1, 4), (2, 5)]), 2),
    "one bond": (from_bonds((2, 2), [(0, 1)]), 2),
    "spiral": (from_bonds((2, 3), [(0, 1), (1, 2), (2, 5), (4, 5)]), 1),
}


@pytest.mark.parametrize("name", LATTICES)
def test_order_and_axioms(name: str) -> None:
    lattice, order = LATTICES[name]
    group = point_group(lattice)
    sites = {g.sites for g in group}
    assert len(group) == len(sites) == order
    assert group[0] == Permutation("identity", tuple(range(lattice.n_sites)))
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
    shift = Permutation("shift", (1, 2, 3, 0))
    assert keeps_bonds(chain(4, "periodic"), shift)
    assert not keeps_bonds(chain(4), shift)
