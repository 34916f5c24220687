"""Several levels of a sector against dense matrices: a degenerate one as often as it is there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.oracles import dense_hamiltonian, dense_sector
from tests.test_exact import twisted
from tnvmc import exact
from tnvmc.exact import exact_levels, symmetric_levels
from tnvmc.lattice import Lattice, chain, kagome, square, triangular
from tnvmc.lattice.permutations import Symmetry, SymmetryGroup
from tnvmc.operators import Operator, exchange_matrix, heisenberg, j1j2, tfim, xxz

ROUNDING = 1e-9  # of energies of order 10
N_LEVELS = (2, 3, 4, 6, 8, 10)
LEAST = 32  # states that are left to Lanczos, at least


def spin_one(lattice: Lattice) -> Operator:
    terms = [(bond, exchange_matrix(3)) for bond in lattice.bonds["nearest"]]
    return Operator.from_terms(lattice, terms, local_dim=3)


JZ = (-1.5, -1.0, -0.5, 0.0, 0.3, 0.8, 2.0)

FEW = [spin_one(square(2, 3)), heisenberg(square(2, 4, "cylinder")), twisted(square(2, 4))]
MANY = [
    *FEW,
    *(spin_one(lattice) for lattice in (square(2, 2), chain(4, "periodic"), chain(5, "periodic"))),
    *(heisenberg(lattice) for lattice in (square(3, 3), square(2, 5), kagome(4, 4))),
    *(heisenberg(chain(n, "periodic")) for n in (8, 9, 10)),
    *(j1j2(chain(n, "periodic")) for n in (8, 9, 10)),
    heisenberg(square(3, 3, "periodic"), J=-1.0),
    heisenberg(triangular(3, 3, "periodic")),
    xxz(square(3, 3, "periodic"), 1.0, 0.5),
    xxz(square(2, 4), 1.0, 1.5),
    xxz(square(2, 5), 0.5, -1.0),
    twisted(square(2, 5)),
    *(xxz(chain(10, ends), 1.0, Jz) for Jz in JZ for ends in ("open", "periodic")),
    *(xxz(square(2, 5, "cylinder"), 1.0, Jz) for Jz in JZ),
    *(tfim(lattice) for lattice in (square(3, 3), chain(9, "periodic"), square(3, 3, "periodic"))),
]


def wrong(operators: list[Operator], monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[object]]:
    """How many sectors were diagonalised, and those whose levels are not those of the matrix."""
    monkeypatch.setattr(exact, "DENSE_DIMENSION", LEAST - 1)
    n_sectors, found = 0, list[object]()
    for operator in operators:
        for sector, dense in sectors(operator):
            n_sectors += 1
            for n in N_LEVELS:
                levels = exact_levels(operator, n, "full" if sector is None else sector)
                if len(levels) != n or np.abs(levels - dense[:n]).max() > ROUNDING:
                    found.append((operator.name, operator.lattice.shape, sector, n))
    return n_sectors, found


def sectors(operator: Operator) -> Iterator[tuple[int | None, np.ndarray]]:
    """Twice the total Sz and all levels, of the full space too."""
    if operator.local_dim**operator.n_sites < 1100:
        yield None, np.linalg.eigvalsh(dense_hamiltonian(operator))
    largest = operator.n_sites * (operator.local_dim - 1)
    for sector in range(-largest, largest + 1, 2) if operator.conserves_magnetisation else ():
        matrix = dense_sector(operator, sector)
        if len(matrix) >= LEAST:
            yield sector, np.linalg.eigvalsh(matrix)


@pytest.mark.whole
def test_levels_of_some_sectors(monkeypatch: pytest.MonkeyPatch) -> None:
    n_sectors, found = wrong(FEW, monkeypatch)
    assert n_sectors > 15 and not found


@pytest.mark.slow
def test_levels_of_many_sectors(monkeypatch: pytest.MonkeyPatch) -> None:
    n_sectors, found = wrong(MANY, monkeypatch)
    assert n_sectors > 290 and not found


def test_a_level_of_three_copies_is_found_three_times() -> None:
    """The third was lost: after two, Lanczos began with a sum of the copies that it had."""
    levels = exact_levels(spin_one(square(2, 3)), 6, "full")
    assert levels[3:] == pytest.approx([-8.926384765, -7.402752701, -7.402752701], abs=1e-8)


def test_states_of_given_characters_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "DENSE_DIMENSION", 10)
    operator = spin_one(square(2, 3))
    unit = SymmetryGroup((Symmetry("identity", tuple(range(operator.n_sites))),))
    dense = np.linalg.eigvalsh(dense_hamiltonian(operator))
    for n in N_LEVELS:
        assert np.abs(symmetric_levels(operator, unit, None, n) - dense[:n]).max() < ROUNDING


def test_as_many_levels_as_a_block_has_states() -> None:
    """Two blocks of 256 states: nearly as many were asked for as one of them has, and more."""
    operator = heisenberg(chain(9))
    dense = np.linalg.eigvalsh(dense_hamiltonian(operator))
    for n in (140, 300):
        assert np.abs(exact_levels(operator, n, "full") - dense[:n]).max() < ROUNDING
