"""Bond counts and degrees of every lattice, and what bad input is told."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tnvmc.lattice import (
    GRIDS,
    Lattice,
    chain,
    checkerboard_lattice,
    from_bonds,
    honeycomb,
    kagome,
    shastry_sutherland,
    square,
    triangular,
)
from tnvmc.operators.models import rydberg

LENGTHS = st.integers(1, 7)
BOUNDARIES = st.sampled_from(["open", "cylinder", "periodic"])


def degrees(lattice: Lattice, kind: str) -> Counter[int]:
    """How many sites have how many bonds of a kind."""
    ends = Counter(site for bond in lattice.bonds[kind] for site in bond)
    return Counter(ends[site] for site in range(lattice.n_sites))


# lattice, kind of bond, number of bonds, {degree: number of sites}
TABLE = [
    (chain(1), "nearest", 0, {0: 1}),
    (chain(6), "nearest", 5, {1: 2, 2: 4}),
    (chain(6), "diagonal", 4, {1: 4, 2: 2}),
    (chain(6, "periodic"), "nearest", 6, {2: 6}),
    (chain(6, "periodic"), "diagonal", 6, {2: 6}),
    (chain(4, "periodic"), "diagonal", 2, {1: 4}),
    (chain(3, "periodic"), "nearest", 3, {2: 3}),
    (chain(3, "periodic"), "diagonal", 0, {0: 3}),
    (chain(2, "periodic"), "nearest", 1, {1: 2}),
    (chain(1, "periodic"), "nearest", 0, {0: 1}),
    (square(4, 4), "nearest", 24, {2: 4, 3: 8, 4: 4}),
    (square(4, 4), "diagonal", 18, {1: 4, 2: 8, 4: 4}),
    (square(3, 5), "nearest", 22, {2: 4, 3: 8, 4: 3}),
    (square(1, 5), "nearest", 4, {1: 2, 2: 3}),
    (square(4, 4, "cylinder"), "nearest", 28, {3: 8, 4: 8}),
    (square(4, 4, "cylinder"), "diagonal", 24, {2: 8, 4: 8}),
    (square(2, 5, "cylinder"), "nearest", 15, {3: 10}),
    (square(5, 2, "cylinder"), "nearest", 13, {2: 4, 3: 6}),
    (square(4, 4, "periodic"), "nearest", 32, {4: 16}),
    (square(4, 4, "periodic"), "diagonal", 32, {4: 16}),
    (square(3, 3, "periodic"), "diagonal", 18, {4: 9}),
    (square(2, 2, "periodic"), "nearest", 4, {2: 4}),
    (square(2, 2, "periodic"), "diagonal", 2, {1: 4}),
    (square(2, 4, "periodic"), "nearest", 12, {3: 8}),
    (shastry_sutherland(4, 4), "dimer", 5, {0: 6, 1: 10}),
    (shastry_sutherland(4, 4, "periodic"), "dimer", 8, {1: 16}),
    (shastry_sutherland(4, 6, "periodic"), "dimer", 12, {1: 24}),
    (shastry_sutherland(4, 6, "periodic"), "nearest", 48, {4: 24}),
    (shastry_sutherland(3, 4, "cylinder"), "dimer", 4, {0: 4, 1: 8}),
    (from_bonds(3, [(2, 0)]), "nearest", 1, {0: 1, 1: 2}),
    (square(4, 4), "third", 16, {2: 16}),
    (square(4, 5), "third", 22, {2: 16, 3: 4}),
    (square(5, 5, "periodic"), "third", 50, {4: 25}),
    (square(4, 4, "periodic"), "third", 16, {2: 16}),
    (square(3, 3, "periodic"), "third", 0, {0: 9}),
    (triangular(3, 4), "nearest", 23, {2: 2, 3: 2, 4: 6, 6: 2}),
    (triangular(4, 4), "nearest", 33, {2: 2, 3: 2, 4: 8, 6: 4}),
    (triangular(4, 6, "cylinder"), "nearest", 60, {4: 12, 6: 12}),
    (triangular(4, 6, "periodic"), "nearest", 72, {6: 24}),
    (triangular(6, 6, "periodic"), "next_nearest", 108, {6: 36}),
    (triangular(6, 6, "periodic"), "third", 108, {6: 36}),
    (honeycomb(3, 4), "nearest", 13, {1: 2, 2: 6, 3: 4}),
    (honeycomb(4, 6), "nearest", 29, {1: 2, 2: 10, 3: 12}),
    (honeycomb(4, 6, "cylinder"), "nearest", 33, {2: 6, 3: 18}),
    (honeycomb(4, 6, "periodic"), "nearest", 36, {3: 24}),
    (honeycomb(6, 6, "periodic"), "next_nearest", 108, {6: 36}),
    (honeycomb(6, 6, "periodic"), "third", 54, {3: 36}),
    (kagome(4, 4), "nearest", 17, {2: 5, 3: 4, 4: 3}),
    (kagome(5, 5), "nearest", 32, {2: 4, 3: 12, 4: 5}),
    (kagome(4, 6, "cylinder"), "nearest", 30, {2: 3, 3: 6, 4: 9}),
    (kagome(8, 8, "periodic"), "nearest", 96, {4: 48}),
    (kagome(8, 8, "periodic"), "next_nearest", 96, {4: 48}),
    (checkerboard_lattice(4, 4), "diagonal", 10, {1: 12, 2: 4}),
    (checkerboard_lattice(4, 6, "periodic"), "diagonal", 24, {2: 24}),
]


@pytest.mark.parametrize(
    ("lattice", "kind", "n_bonds", "expected"),
    TABLE,
    ids=[f"{t[0].kind}-{t[0].shape}-{t[0].boundary}-{t[1]}" for t in TABLE],
)
def test_bond_counts_and_degrees(
    lattice: Lattice, kind: str, n_bonds: int, expected: dict[int, int]
) -> None:
    assert len(lattice.bonds[kind]) == n_bonds
    assert degrees(lattice, kind) == expected


@settings(deadline=None)
@given(LENGTHS, LENGTHS, BOUNDARIES)
def test_square_bonds_join_sites_at_their_distance(n_rows: int, n_cols: int, boundary: str) -> None:
    lattice = square(n_rows, n_cols, boundary)
    distance = lattice.distances()
    for kind, length in (("nearest", 1.0), ("diagonal", np.sqrt(2)), ("third", 2.0)):
        bonds = lattice.bonds[kind]
        assert list(bonds) == sorted(set(bonds))
        assert all(0 <= i < j < lattice.n_sites for i, j in bonds)
        pairs = {tuple(pair) for pair in np.argwhere(np.isclose(distance, length)).tolist()}
        assert set(bonds) == {(i, j) for i, j in pairs if i < j}


@settings(deadline=None)
@given(LENGTHS, st.sampled_from(["open", "periodic"]))
def test_chain_is_a_square_of_one_row(length: int, boundary: str) -> None:
    line = chain(length, boundary)
    assert line.shape == (1, length)
    assert line.bonds["nearest"] == square(1, length, boundary).bonds["nearest"]


@settings(deadline=None)
@given(st.integers(2, 4), st.integers(2, 4))
def test_every_site_of_a_periodic_shastry_sutherland_lattice_has_one_dimer(a: int, b: int) -> None:
    lattice = shastry_sutherland(2 * a, 2 * b, "periodic")
    assert degrees(lattice, "dimer") == {1: lattice.n_sites}
    assert set(lattice.bonds["dimer"]) <= set(square(2 * a, 2 * b, "periodic").bonds["diagonal"])


@settings(deadline=None)
@given(LENGTHS, LENGTHS)
def test_open_dimers_fill_every_other_plaquette(n_rows: int, n_cols: int) -> None:
    lattice = shastry_sutherland(n_rows, n_cols)
    corners = []
    for i, j in lattice.bonds["dimer"]:
        (row, left), (_, right) = divmod(i, n_cols), divmod(j, n_cols)
        corners.append((row, min(left, right)))
        assert (right > left) == (row % 2 == 0)
    wanted = [(r, c) for r in range(n_rows - 1) for c in range(n_cols - 1) if r % 2 == c % 2]
    assert sorted(corners) == wanted


def test_every_bond_of_a_periodic_shastry_sutherland_lattice_leans_on_one_dimer() -> None:
    """Each J bond closes a triangle over one dimer, which makes the singlet product exact."""
    lattice = shastry_sutherland(4, 4, "periodic")
    near = {frozenset(bond) for bond in lattice.bonds["nearest"]}
    partner = dict(lattice.bonds["dimer"]) | {j: i for i, j in lattice.bonds["dimer"]}
    for i, k in lattice.bonds["nearest"]:
        over_i = frozenset((k, partner[i])) in near
        over_k = frozenset((i, partner[k])) in near
        assert over_i != over_k


STEPS = {  # of nearest neighbours in rows and columns of the grid
    "triangular": ((0, 1), (1, 0), (1, -1)),
    "kagome": ((0, 1), (1, 0), (1, -1)),
    "honeycomb": ((0, 1), (1, 0)),
}


@pytest.mark.parametrize("boundary", ["open", "cylinder", "periodic"])
@pytest.mark.parametrize("kind", STEPS)
def test_neighbours_in_the_plane_are_neighbours_on_the_grid(kind: str, boundary: str) -> None:
    """Bonds come from distances; here from steps on the grid."""
    n_rows, n_cols = 4, 6
    lattice = GRIDS[kind](n_rows, n_cols, boundary)
    site_at, found = {place: site for site, place in enumerate(lattice.places)}, set()
    for place in lattice.places:
        row, column = divmod(place, n_cols)
        for down, right in STEPS[kind]:
            if kind == "honeycomb" and down and (row + column) % 2:
                continue
            to_row, to_column = row + down, column + right
            if boundary == "periodic":
                to_row %= n_rows
            if boundary != "open":
                to_column %= n_cols
            other = site_at.get(to_row * n_cols + to_column)
            if to_row < n_rows and 0 <= to_column < n_cols and other is not None:
                found.add(tuple(sorted((site_at[place], other))))
    assert lattice.bonds["nearest"] == tuple(sorted(found))


def test_sites_of_a_kagome_lattice_leave_out_odd_rows_and_columns() -> None:
    lattice = kagome(3, 4)
    assert (lattice.n_sites, lattice.vacant) == (10, (5, 7))
    assert lattice.places == (0, 1, 2, 3, 4, 6, 8, 9, 10, 11)
    assert lattice.coordinates.shape == (10, 2) and not lattice.on_grid
    assert lattice == from_same(lattice) and lattice != triangular(3, 4)
    assert lattice.directed("nearest") == lattice.bonds["nearest"]


def from_same(lattice: Lattice) -> Lattice:
    return GRIDS[lattice.kind](*lattice.shape, lattice.boundary)


@pytest.mark.parametrize("shape", [(4, 6), (8, 4), (4, 10)])
@pytest.mark.parametrize("kind", ["triangular", "honeycomb", "kagome"])
def test_distances_on_a_torus_are_those_of_the_nearest_image(kind: str, shape: tuple) -> None:
    lattice = GRIDS[kind](*shape, "periodic")
    points, (down, right) = lattice.coordinates, np.array(lattice.cell)
    offsets = points[:, None] - points[None, :]
    images = [
        np.linalg.norm(offsets + a * shape[0] * down + b * shape[1] * right, axis=2)
        for a in range(-4, 5)
        for b in range(-8, 9)
    ]
    assert np.allclose(lattice.distances(), np.min(images, axis=0))


def test_coordinates_and_site_index() -> None:
    lattice = square(3, 4)
    assert (lattice.n_rows, lattice.n_cols, lattice.n_sites) == (3, 4, 12)
    assert lattice.coordinates[2 * 4 + 1].tolist() == [2.0, 1.0]


def test_periodic_distances_take_the_shorter_way() -> None:
    assert chain(6, "periodic").distances()[0].tolist() == [0, 1, 2, 3, 2, 1]
    assert chain(6).distances()[0, 5] == 5
    cylinder = square(4, 4, "cylinder").distances()
    assert cylinder[0, 3] == 1  # along the ring
    assert cylinder[0, 12] == 3  # along the axis


def test_from_bonds_keeps_kinds_order_and_coordinates() -> None:
    bonds = {"nearest": [(1, 0), (3, 2)], "dimer": [(0, 3)]}
    places = [[0, 0], [3, 0], [0, 2], [3, 2]]  # (x, y)
    lattice = from_bonds((2, 2), bonds, coordinates=places)
    assert lattice.bonds == {"nearest": ((0, 1), (2, 3)), "dimer": ((0, 3),)}
    assert lattice.directed("nearest") == ((1, 0), (3, 2))
    assert lattice.positions().tolist() == places
    assert lattice.coordinates.tolist() == [[y, x] for x, y in places]
    assert lattice.distances()[0].tolist() == [0, 3, 2, np.hypot(3, 2)]
    assert not lattice.on_grid and square(2, 3).on_grid
    assert from_bonds((1, 2), [(0, 1)], [[0, 0], [1, 0]]).on_grid
    assert from_bonds(4, []).shape == (1, 4)


def test_without_coordinates_there_are_no_distances() -> None:
    lattice = from_bonds((2, 2), [(0, 1)])
    assert lattice.coordinates is None and not lattice.on_grid
    for ask in (lattice.distances, lattice.positions, lambda: rydberg(lattice)):
        with pytest.raises(ValueError, match="no coordinates"):
            ask()


def test_bonds_of_a_ring_lead_over_the_boundary() -> None:
    assert chain(4, "periodic").directed("nearest") == ((0, 1), (3, 0), (1, 2), (2, 3))
    assert square(2, 2).directed("nearest") == square(2, 2).bonds["nearest"]


def test_equality_looks_at_bonds_and_coordinates() -> None:
    assert square(2, 3) == square(2, 3)
    assert hash(square(2, 3)) == hash(square(2, 3))
    assert square(2, 3) != square(3, 2)
    assert square(3, 3) != square(3, 3, "cylinder")
    assert from_bonds(3, [(0, 1)]) != from_bonds(3, [(0, 2)])
    assert from_bonds(2, [(0, 1)]) != from_bonds(2, [(0, 1)], [[0, 0], [0, 3]])
    assert square(2, 2) != "square"
    assert "nearest" not in repr(square(2, 2))


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: chain(0), "length must be at least 1, got 0"),
        (lambda: chain(2.5), "length must be a whole number, got 2.5"),  # type: ignore[arg-type]
        (lambda: chain(True), "length must be a whole number, got True"),
        (lambda: chain(4, "cylinder"), "open, periodic"),
        (lambda: square(-1, 2), "n_rows must be at least 1, got -1"),
        (lambda: square(2, 2, "torus"), "open, cylinder, periodic"),
        (lambda: shastry_sutherland(4, 5, "cylinder"), "n_cols is 5"),
        (lambda: shastry_sutherland(5, 4, "periodic"), "n_rows is 5"),
        (lambda: shastry_sutherland(2, 4, "periodic"), "at least 4"),
        (lambda: honeycomb(4, 5, "cylinder"), "n_cols is 5"),
        (lambda: kagome(5, 4, "periodic"), "n_rows is 5"),
        (lambda: checkerboard_lattice(4, 2, "cylinder"), "at least 4"),
        (lambda: from_bonds((2, 2), [], vacant=[4]), "0..3"),
        (lambda: from_bonds((2, 2), [], vacant=[1, 1]), "each once"),
        (lambda: from_bonds((1, 2), [], vacant=[0, 1]), "leave a site"),
        (lambda: from_bonds((2, 2), [(0, 3)], vacant=[1]), "out of 0..2"),
        (lambda: from_bonds(3, [(0, 3)]), "out of 0..2"),
        (lambda: from_bonds(3, [(-1, 2)]), "out of 0..2"),
        (lambda: from_bonds(3, [(1, 1)]), "two different sites"),
        (lambda: from_bonds(3, [(0, 1), (1, 0)]), "given twice"),
        (lambda: from_bonds(3, [(0, 1, 2)]), "not a pair"),  # type: ignore[list-item]
        (lambda: from_bonds(3, [(0, 1.5)]), "not a pair"),  # type: ignore[list-item]
        (lambda: from_bonds((2,), []), "(n_rows, n_cols)"),  # type: ignore[arg-type]
        (lambda: from_bonds(2, [], [[0, 0]]), "of shape (1, 2)"),
        (lambda: from_bonds(1, [], [[0, np.nan]]), "finite"),
        (lambda: from_bonds(2, [], [[0, 1], [2]]), "one (x, y) per site"),
        (lambda: from_bonds(2, {"all": [(0, 1)]}), "means all sites"),
    ],
)
def test_bad_input_is_told_what_is_wrong(build, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        build()
    assert said in str(caught.value)


@pytest.mark.parametrize("boundary", ["open", "periodic"])
def test_odd_shastry_sutherland_is_fine_where_it_is_open(boundary: str) -> None:
    if boundary == "open":
        assert shastry_sutherland(3, 5).n_sites == 15
    else:
        assert shastry_sutherland(3, 4, "cylinder").n_sites == 12


@pytest.mark.parametrize(
    ("lattice", "kind", "twice"),
    [
        (chain(4, "periodic"), "diagonal", ((0, 2), (1, 3))),
        (chain(5, "periodic"), "diagonal", ()),
        (chain(4), "diagonal", ()),
        (square(4, 2, "cylinder"), "nearest", ((0, 1), (2, 3), (4, 5), (6, 7))),
        (square(4, 4, "periodic"), "nearest", ()),
        (square(4, 4, "periodic"), "diagonal", ()),
        (square(4, 4, "periodic"), "third", square(4, 4, "periodic").bonds["third"]),
        (square(4, 4, "cylinder"), "third", tuple((i, i + 2) for i in (0, 1, 4, 5, 8, 9, 12, 13))),
        (triangular(4, 4, "periodic"), "next_nearest", ()),
        (triangular(4, 4, "periodic"), "third", triangular(4, 4, "periodic").bonds["third"]),
        (from_bonds(2, [(0, 1)]), "nearest", ()),
    ],
)
def test_pairs_that_are_joined_both_ways_round(
    lattice: Lattice, kind: str, twice: tuple[tuple[int, int], ...]
) -> None:
    assert lattice.joined_twice(kind) == twice


@pytest.mark.parametrize("make", [square, triangular, honeycomb, kagome])
def test_vacant_places_take_their_bonds_along(make: Any) -> None:
    whole, less = make(4, 4, "periodic"), make(4, 4, "periodic", vacant=[4, 10])
    assert less.vacant == tuple(sorted({4, 10, *whole.vacant}))
    for kind, bonds in whole.bonds.items():
        placed = {tuple(whole.places[k] for k in bond) for bond in bonds}
        left = {bond for bond in placed if not {4, 10} & {*bond}}
        assert {tuple(less.places[k] for k in bond) for bond in less.bonds[kind]} == left
    inside = [k for k, place in enumerate(whole.places) if place not in (4, 10)]
    assert np.array_equal(less.coordinates, whole.coordinates[inside])
    assert less.directed("nearest") is not None
    assert less != whole


@pytest.mark.parametrize("vacant", [[16], [-1], range(16)])
def test_vacant_places_that_cannot_be(vacant: Any) -> None:
    with pytest.raises(ValueError, match="vacant"):
        square(4, 4, vacant=vacant)
