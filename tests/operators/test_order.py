"""Order parameters by name, against matrices written out with kron, and on ordered states."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.oracles import dense_hamiltonian, embed
from tnvmc import lattice as lattices
from tnvmc import order_parameter
from tnvmc.lattice import Lattice, chain, honeycomb, kagome, square, triangular
from tnvmc.operators.fermions import HUBBARD, SPINLESS
from tnvmc.operators.order import OF_PAIRS, ORDERS, order_parts
from tnvmc.operators.spin import spin_matrices

ROUNDING = 1e-12
LADDER = square(2, 4)
SPINS = [[embed(s, (i,), 8) for s in spin_matrices()] for i in range(8)]


def dot(i: int, j: int) -> Any:
    return sum(SPINS[i][a] @ SPINS[j][a] for a in range(3))


def once_around(*sites: int) -> np.ndarray:
    """The permutation that moves the spins of four sites one on."""
    states = np.indices((2,) * 8).reshape(8, -1)
    moved = states.copy()
    for here, there in zip(sites, (*sites[1:], sites[0]), strict=True):
        moved[there] = states[here]
    matrix = np.zeros((256, 256))
    matrix[2 ** np.arange(8)[::-1] @ moved, np.arange(256)] = 1
    return matrix


def written(name: str) -> np.ndarray:
    """M^2 / N^2 on two rows of four."""
    row, column = np.divmod(np.arange(8), 4)
    along_x = [(r, c, 4 * r + c, 4 * r + c + 1) for r in range(2) for c in range(3)]
    along_y = [(0, c, c, c + 4) for c in range(4)]
    squares = [(c, c + 1, c + 5, c + 4) for c in range(3)]

    def of_spins(sign: np.ndarray) -> list[Any]:
        return [sum(sign[i] * SPINS[i][a] for i in range(8)) for a in range(3)]

    if name == "neel":
        parts = of_spins((-1.0) ** (row + column))
    elif name == "stripe":
        parts = of_spins((-1.0) ** row) + of_spins((-1.0) ** column)
    elif name == "neel_z":
        parts = of_spins((-1.0) ** (row + column))[2:]
    elif name == "ferromagnetic_z":
        parts = of_spins(np.ones(8))[2:]
    elif name == "dimer_columnar":
        parts = [sum((-1.0) ** c * dot(i, j) for _, c, i, j in along_x)]
        parts += [sum((-1.0) ** r * dot(i, j) for r, _, i, j in along_y)]
    elif name == "dimer_staggered":
        parts = [sum((-1.0) ** (r + c) * dot(i, j) for r, c, i, j in b) for b in (along_x, along_y)]
    elif name == "plaquette":
        moves = [once_around(*sites) for sites in squares]
        parts = [sum((-1.0) ** c * (p + p.T) / 2 for c, p in enumerate(moves))]
    else:
        corners = [(*sites, *sites) for sites in squares]
        triples = [sites[k : k + 3] for sites in corners for k in range(4)]
        parts = [sum(chirality(*triple) for triple in triples)]
    return sum(part @ part for part in parts) / 64


def chirality(i: int, j: int, k: int) -> Any:
    even = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    return sum(
        SPINS[i][a] @ (SPINS[j][b] @ SPINS[k][c] - SPINS[j][c] @ SPINS[k][b]) for a, b, c in even
    )


@pytest.mark.parametrize(
    "name",
    ["neel", "stripe", "neel_z", "ferromagnetic_z", "dimer_columnar", "dimer_staggered",
     "plaquette", "chirality"],
)  # fmt: skip
def test_squares_are_those_written_out(name: str) -> None:
    made = dense_hamiltonian(order_parameter(name, LADDER))
    assert np.allclose(made, written(name), atol=ROUNDING)


def of_config(name: str, lattice: Lattice, config: Any) -> float:
    return float(order_parameter(name, lattice).diagonal(np.array([config], dtype=np.int8))[0])


def test_ordered_configurations_have_their_full_order() -> None:
    row, column = np.divmod(np.arange(16), 4)
    for edge in ("open", "periodic"):
        lattice = square(4, 4, edge)
        assert of_config("neel_z", lattice, (row + column) % 2) == pytest.approx(1 / 4)
        assert of_config("stripe_z", lattice, row % 2) == pytest.approx(1 / 4)
        assert of_config("stripe_z", lattice, column % 2) == pytest.approx(1 / 4)
        assert of_config("ferromagnetic_z", lattice, 0 * row) == pytest.approx(1 / 4)
        assert of_config("density_checkerboard", lattice, (row + column) % 2) == pytest.approx(
            1 / 4
        )
        assert of_config("density_stripe", lattice, (row + column) % 2) == pytest.approx(0)
    assert of_config("density_checkerboard", square(3, 3), [1] * 9) == pytest.approx(0)
    row, column = np.divmod(np.arange(36), 6)
    third = (column - row) % 3 == 0
    lattice = triangular(6, 6, "periodic")
    assert of_config("density_three_sublattice", lattice, third) == pytest.approx(2 / 9)
    zigzag = honeycomb(4, 4, "periodic")
    ends = np.array(zigzag.bonds["nearest"])
    board = np.divmod(np.arange(16), 4)[0] + np.divmod(np.arange(16), 4)[1]
    assert (board[ends].sum(axis=1) % 2 == 1).all()
    assert of_config("neel_z", zigzag, board % 2) == pytest.approx(1 / 4)


def test_spins_at_120_degrees_give_the_square_of_their_length() -> None:
    angles = 2 * np.pi / 3 * ((np.arange(36) % 6 - np.arange(36) // 6) % 3)
    spins = np.stack([np.cos(angles), np.sin(angles)], axis=1) / 2
    made = order_parameter("three_sublattice", triangular(6, 6, "periodic"))
    total = sum(
        4 * matrix[0, 0] * (spins[sites[0]] @ spins[sites[1]]) for sites, matrix in
        made.matrices.items() if len(sites) == 2
    )  # fmt: skip
    total += sum(
        matrix[0, 0] * 4 / 3 / 4 for sites, matrix in made.matrices.items() if len(sites) == 1
    )
    assert total == pytest.approx(1 / 4)


def test_each_triangle_counts_once_and_one_way_round() -> None:
    """On three sites M^2 is the square of one triple product."""
    counts = {
        "triangular": (triangular(3, 3), 8),
        "kagome": (kagome(4, 4), 5),
        "square": (square(3, 3), 16),
        "ring": (square(3, 3, "periodic"), 36),
    }
    for name, (lattice, n_triangles) in counts.items():
        (part,) = order_parts("chirality", lattice)
        assert len(part.terms) == n_triangles, name
        if lattice.kind != "square":
            points = lattice.positions()
            for term in part.terms:
                assert len({*term.sites}) == 3
                edges = [np.linalg.norm(points[i] - points[j])
                         for i, j in itertools.combinations(term.sites, 2)]  # fmt: skip
                assert edges == pytest.approx([1, 1, 1])


def test_squares_without_diagonals_alternate() -> None:
    for lattice in (lattices.shastry_sutherland(4, 4), lattices.checkerboard_lattice(4, 4)):
        (part,) = order_parts("plaquette", lattice)
        joined = lattice.bonds.get("dimer", ()) + lattice.bonds.get("diagonal", ())
        assert len(part.terms) == 4
        assert not any({*bond} <= {*term.sites} for bond in joined for term in part.terms)


@pytest.mark.parametrize(
    ("name", "lattice"),
    [
        ("neal", LADDER),
        ("neel", triangular(3, 3)),
        ("neel", square(3, 3, "periodic")),
        ("stripe", square(4, 3, "cylinder")),
        ("stripe", chain(8)),
        ("three_sublattice", triangular(4, 4, "periodic")),
        ("three_sublattice", LADDER),
        ("dimer_columnar", honeycomb(4, 4)),
        ("dimer_staggered", chain(8)),
        ("plaquette", triangular(3, 3)),
        ("plaquette", chain(8)),
        ("chirality", honeycomb(4, 4)),
        ("chirality", lattices.from_bonds(3, [(0, 1), (1, 2), (0, 2)])),
    ],
)
def test_what_has_no_meaning_is_refused(name: str, lattice: Lattice) -> None:
    with pytest.raises(ValueError, match=name):
        order_parameter(name, lattice)


def test_particles_have_the_orders_that_their_operators_make() -> None:
    def served(**kind: Any) -> set[str]:
        found = set()
        for name in ORDERS:
            try:
                found.add(order_parameter(name, LADDER, **kind).name)
            except ValueError:
                continue
        return found

    dense = {"density_checkerboard", "density_stripe"}
    spins = OF_PAIRS - {"three_sublattice"} | {"neel_z", "stripe_z", "ferromagnetic_z"}
    dimers = {"dimer_columnar", "dimer_staggered"}
    assert served(fermions=SPINLESS) == dense
    assert served(fermions=HUBBARD) == dense | spins | dimers
    assert served() == dense | spins | dimers | {"plaquette", "chirality"}
    assert len(order_parts("chirality", LADDER, 4, HUBBARD)) == 1  # its square is on six sites
    with pytest.raises(ValueError, match="plaquette"):
        order_parts("plaquette", LADDER, 4, HUBBARD)


def test_larger_spins() -> None:
    lattice = square(2, 2)
    whole = order_parameter("plaquette", lattice, local_dim=3)
    legs = np.indices((3,) * 4).reshape(4, -1)
    alike = np.flatnonzero((legs == legs[0]).all(axis=0))
    assert dense_hamiltonian(whole)[alike, alike] == pytest.approx([1 / 16] * 3)  # P = 1 there
    assert order_parameter("neel", lattice, local_dim=3).local_dim == 3
