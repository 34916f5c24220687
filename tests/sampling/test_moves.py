"""Tables of moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.magnets import xyz
from tnvmc.lattice import chain, from_bonds, shastry_sutherland, square
from tnvmc.operators import models
from tnvmc.operators.spin import SIGMA_X, SIGMA_Z, exchange_matrix, kron
from tnvmc.operators.term import Operator
from tnvmc.sampling.moves import exchanges, flips, moves_for, pair_flips


def proposals(table: np.ndarray) -> np.ndarray:
    """How often each local state is proposed from each."""
    counts = np.zeros((len(table), len(table)))
    for state, row in enumerate(table):
        np.add.at(counts[state], row[row >= 0], 1)
    return counts


@pytest.mark.parametrize("local_dim", [2, 3, 4])
def test_moves_are_symmetric_and_complete(local_dim: int) -> None:
    exchange = proposals(exchanges(chain(2), [(0, 1)], local_dim)[(0, 1)])
    sums = np.add.outer(np.arange(local_dim), np.arange(local_dim)).ravel()
    same = (sums[:, None] == sums) & ~np.eye(local_dim**2, dtype=bool)
    np.testing.assert_array_equal(exchange, same)
    turn = proposals(pair_flips(chain(2), [(0, 1)], local_dim)[(0, 1)])
    first, second = np.divmod(np.arange(local_dim**2), local_dim)
    both = (first[:, None] != first) & (second[:, None] != second)
    np.testing.assert_array_equal(exchange + turn, both)
    flip = proposals(flips(chain(1), local_dim)[(0,)])
    np.testing.assert_array_equal(flip, 1 - np.eye(local_dim))


def test_exchange_of_spins_one_half() -> None:
    table = exchanges(square(2, 2), [(3, 1)])[(1, 3)]
    np.testing.assert_array_equal(table, [[-1], [2], [1], [-1]])


def test_moves_fit_the_hamiltonian() -> None:
    lattice = square(3, 3)
    nearest, diagonal = (set(lattice.bonds[kind]) for kind in ("nearest", "diagonal"))
    assert set(moves_for(models.heisenberg(lattice))) == nearest
    assert set(moves_for(models.j1j2(lattice))) == nearest | diagonal
    sites = {(site,) for site in range(9)}
    assert set(moves_for(models.tfim(lattice, h=1.0))) == sites
    assert set(moves_for(models.rydberg(lattice))) == sites


def test_bonds_that_leave_the_lattice_in_parts_are_joined() -> None:
    lattice = shastry_sutherland(4, 4)
    dimers_only = models.shastry_sutherland(lattice, J=0.0, J_dimer=1.0)
    assert set(lattice.bonds["nearest"]) <= set(moves_for(dimers_only))
    classical = Operator.from_terms(lattice, [((0, 1), kron(SIGMA_Z, SIGMA_Z))])
    assert set(moves_for(classical)) == set(lattice.bonds["nearest"])


def test_what_cannot_be_reached_is_refused() -> None:
    lattice = from_bonds(4, [(0, 1), (2, 3)])
    with pytest.raises(ValueError, match="not ergodic"):
        moves_for(models.heisenberg(lattice))
    flip = Operator.from_terms(lattice, [((0,), SIGMA_X)])
    assert len(moves_for(flip)) == 4
    for bond in [(0, 4), (1, 1), (-1, 0), (0, 1, 2)]:
        with pytest.raises(ValueError, match="two different sites"):
            exchanges(lattice, [bond])


def test_anisotropic_magnets_get_flips_exchanges_and_pair_flips() -> None:
    lattice = square(2, 3)
    moves = moves_for(xyz(lattice))
    assert set(moves) == {(site,) for site in range(6)} | set(lattice.bonds["nearest"])
    np.testing.assert_array_equal(moves[(0, 1)], [[3], [2], [1], [0]])


def test_terms_on_several_sites_are_moves() -> None:
    lattice = square(2, 2)
    ring = np.zeros((16, 16))
    ring[0b0101, 0b1010] = ring[0b1010, 0b0101] = 1.0
    moves = moves_for(Operator.from_terms(lattice, [((0, 1, 2, 3), ring)]))
    assert set(moves) == {*lattice.bonds["nearest"], (0, 1, 2, 3)}
    np.testing.assert_array_equal(proposals(moves[(0, 1, 2, 3)]), ring)
    assert set(moves_for(models.tfim(lattice), ["terms", "exchanges"])) >= {(0,), (0, 1)}


def test_chosen_moves_replace_those_that_fit() -> None:
    lattice = square(2, 3)
    chosen = moves_for(xyz(lattice), ["pair_flips", "flips"])
    np.testing.assert_array_equal(chosen[(0, 1)], [[3], [-1], [-1], [0]])
    assert len(moves_for(xyz(lattice), ["flips"])) == 6
    own = {(site,): [[1], [0]] for site in range(6)}
    assert set(moves_for(xyz(lattice), own)) == set(own)


@pytest.mark.parametrize(
    ("model", "chosen", "reason"),
    [
        (xyz, ["exchanges"], "does not conserve"),
        (xyz, ["exchanges", "pair_flips"], "parity"),
        (xyz, ["terms"], "parity"),
        (xyz, ["hops"], "not known"),
        (xyz, "flips", "a list"),
        (xyz, {(0,): [[1], [0]]}, "linear quantities"),
        (xyz, {(0,): [[1], [-1]]}, "1 times and 0 from 1 0 times"),
        (xyz, {(0, 9): [[1], [0]]}, "different sites"),
        (xyz, {(0,): [[2], [0]]}, "local states are 0..1"),
        (xyz, {(0,): [[0.5], [0]]}, "whole numbers"),
        (models.heisenberg, ["flips"], "leave the sector"),
        (models.heisenberg, ["pair_flips", "exchanges"], "leave the sector"),
        (models.heisenberg, {(0, 1): [[-1], [2], [1], [-1]]}, "linear quantities"),
    ],
)
def test_moves_that_do_not_suit_are_refused(model: Any, chosen: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        moves_for(model(square(2, 3)), chosen)


def test_spin_one_by_exchange_alone_is_refused() -> None:
    """It would keep the number of sites in each local state."""
    lattice = chain(4)
    operator = Operator.from_terms(
        lattice, [(b, exchange_matrix(3)) for b in lattice.bonds["nearest"]], local_dim=3
    )
    swap = [[b * 3 + a if a != b else -1] for a in range(3) for b in range(3)]
    with pytest.raises(ValueError, match="1 linear quantities"):
        moves_for(operator, {bond: swap for bond in lattice.bonds["nearest"]})
    assert len(moves_for(operator, ["exchanges"])) == 3
