"""Tables of moves."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc.lattice import chain, from_bonds, shastry_sutherland, square
from tnvmc.operators import models
from tnvmc.operators.spin import SIGMA_X, SIGMA_Z, kron
from tnvmc.operators.term import Operator
from tnvmc.sampling.moves import exchanges, flips, moves_for


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
