"""Which bonds of its grid a lattice uses, and what joins its parts."""

from __future__ import annotations

import pytest

from tnvmc.lattice import (
    Lattice,
    chain,
    checkerboard_lattice,
    embedding,
    from_bonds,
    honeycomb,
    kagome,
    shastry_sutherland,
    square,
    triangular,
)
from tnvmc.lattice.embedding import LEFT, RIGHT, UP, sides


@pytest.mark.parametrize(
    "lattice",
    [square(3, 4), square(4, 4, "periodic"), triangular(3, 4), checkerboard_lattice(4, 4),
     shastry_sutherland(4, 4), chain(5), from_bonds((2, 2), []), from_bonds((2, 2), [(0, 3), (1, 2)])],
    ids=repr,
)  # fmt: skip
def test_all_of_the_grid(lattice: Lattice) -> None:
    found = embedding(lattice)
    n_rows, n_cols = lattice.shape
    assert found.complete and found.n_vacant == 0
    assert len(found.bonds) == n_rows * (n_cols - 1) + n_cols * (n_rows - 1)


@pytest.mark.parametrize("n_rows", [1, 3])
def test_rings_close_every_row(n_rows: int) -> None:
    lattice = square(n_rows, 4, "cylinder")
    found = embedding(lattice, "periodic")
    closing = {(4 * row, 4 * row + 3) for row in range(n_rows)}
    assert found.complete and found.bonds == embedding(lattice).bonds | closing
    assert found.beyond(0, LEFT) == 3 and found.beyond(3, RIGHT) == 0
    assert found.beyond(0, UP) is None
    assert found.joins(0, LEFT) and not embedding(lattice).joins(0, LEFT)
    assert sides(found) == {}  # no bond alone joins two parts


def test_honeycomb_uses_every_second_vertical_bond() -> None:
    found = embedding(honeycomb(3, 4))
    vertical = {bond for bond in found.bonds if bond[1] - bond[0] == 4}
    assert vertical == {(0, 4), (2, 6), (5, 9), (7, 11)}
    assert len(found.bonds) == 9 + 4
    assert found.joins(0, 2) and not found.joins(1, 2) and not found.joins(3, 3)


def test_kagome_uses_the_sides_of_its_triangles_on_the_grid() -> None:
    lattice = kagome(4, 4)
    found = embedding(lattice)
    assert found.n_vacant == 4 and len(found.bonds) == 12
    assert all(place not in bond for bond in found.bonds for place in lattice.vacant)
    assert found.served(lattice.bonds["nearest"]) == (12, 5, 0)
    assert found.served([(0,), *lattice.bonds["third"]])[2] > 0


def test_a_list_of_bonds_uses_what_it_joins_unless_parts_would_be_left() -> None:
    hexagon = [(0, 1), (1, 2), (2, 5), (5, 4), (4, 3), (3, 0)]
    assert len(embedding(from_bonds((2, 3), hexagon)).bonds) == 6
    kinds = {"x": hexagon[:3], "y": hexagon[3:]}
    assert len(embedding(from_bonds((2, 3), kinds)).bonds) == 6
    assert len(embedding(from_bonds((2, 3), hexagon[:3])).bonds) == 7
    ring = [(0, 1), (1, 2), (0, 3), (2, 4), (3, 5), (5, 6), (6, 7), (4, 7)]
    found = embedding(from_bonds((3, 3), ring, vacant=[4]))
    assert found.places == (0, 1, 2, 3, 5, 6, 7, 8) and len(found.bonds) == 8


def test_sides_of_bonds_that_alone_join_two_parts() -> None:
    assert sides(embedding(chain(5))) == {(0, 1): 1, (1, 2): 2, (2, 3): 2, (3, 4): 1}
    assert sides(embedding(square(3, 3))) == {}
    assert sides(embedding(honeycomb(3, 4))) == {(2, 3): 1, (8, 9): 1}
