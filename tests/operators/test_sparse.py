"""Sparse matrices against dense blocks, and their size beforehand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracles import dense_hamiltonian, dense_sector
from tnvmc.lattice import chain, square
from tnvmc.operators import (
    Basis,
    Operator,
    exchange_matrix,
    heisenberg,
    j1j2,
    kron,
    rydberg,
    tfim,
    xxz,
)
from tnvmc.operators import sparse as sparse_module
from tnvmc.operators.sparse import count_elements
from tnvmc.operators.spin import SIGMA_X, SIGMA_Y

ROUNDING = 1e-12

TWIST = kron(SIGMA_X, SIGMA_Y) - kron(SIGMA_Y, SIGMA_X)  # Dzyaloshinskii-Moriya: complex
LATTICE = square(2, 4)
SPIN_ONE = Operator.from_terms(
    chain(5), [((i, i + 1), exchange_matrix(3)) for i in range(4)], local_dim=3
)
RING = Operator.from_terms(
    LATTICE, [((0, 1, 4, 5), kron(exchange_matrix(), exchange_matrix())), ((0, 1), TWIST)]
)
CONSERVING = {
    "heisenberg": heisenberg(LATTICE),
    "xxz": xxz(LATTICE, J=0.3, Jz=-1.2),
    "j1j2": j1j2(LATTICE),
    "spin one": SPIN_ONE,
    "complex, four sites": RING,
    "sum": heisenberg(LATTICE) + 0.7 * RING,
}


@pytest.mark.parametrize("name", CONSERVING)
def test_sector_blocks_equal_the_dense_ones(name: str) -> None:
    operator = CONSERVING[name]
    highest = operator.n_sites * (operator.local_dim - 1)
    for magnetisation in range(-highest, highest + 1, 2):
        block = operator.sparse(magnetisation)
        expected = dense_sector(operator, magnetisation)
        assert block.format == "csr"
        assert np.allclose(block.toarray(), expected, atol=ROUNDING)


@pytest.mark.parametrize("operator", [tfim(LATTICE, h=0.7), rydberg(LATTICE), RING, SPIN_ONE])
def test_full_space_equals_the_dense_matrix(operator: Operator) -> None:
    assert np.allclose(operator.sparse().toarray(), dense_hamiltonian(operator), atol=ROUNDING)


@pytest.mark.parametrize("name", CONSERVING)
@pytest.mark.parametrize("magnetisation", [None, 0, 4])
def test_elements_are_counted_beforehand(name: str, magnetisation: int | None) -> None:
    operator = CONSERVING[name]
    states = Basis(operator.n_sites, operator.local_dim, magnetisation)
    stored = operator.sparse(magnetisation).nnz
    counted = count_elements(operator, states)
    if name in ("complex, four sites", "sum"):  # two patches connect the same states
        assert stored <= counted <= 2 * stored
    else:
        assert stored == counted


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = j1j2(LATTICE)
    whole = operator.sparse(0)
    monkeypatch.setattr(sparse_module, "CHUNK_ENTRIES", 50)
    pieces = operator.sparse(0)
    assert (whole != pieces).nnz == 0
    assert np.array_equal(whole.indices, pieces.indices)


def test_a_sector_of_an_operator_that_leaves_it_is_refused() -> None:
    with pytest.raises(ValueError, match="tfim: it does not conserve the magnetisation"):
        tfim(LATTICE).sparse(0)
    with pytest.raises(ValueError, match="an even number of sites"):
        heisenberg(square(3, 3)).sparse(0)
