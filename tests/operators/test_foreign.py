"""Local operators of NetKet are lists of sites and matrices as they are here; its dense matrix is the oracle."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.oracles import dense_hamiltonian
from tnvmc import NonHermitian, Operator, square

nk = pytest.importorskip("netket")
S, O = nk.operator.spin, nk.operator

ROUNDING = 1e-13  # of elements of order 1; NetKet sums its terms in another order
GRID = nk.graph.Grid((2, 3), pbc=False)
SPINS = nk.hilbert.Spin(0.5, 6)
ODD = np.random.default_rng(0).normal(size=(8, 8))


def everything() -> Any:
    """One operator that an error in any of its parts would change: a compilation instead of many."""
    parts = [
        *(S.sigmaz(SPINS, i) @ S.sigmaz(SPINS, j) for i, j in GRID.edges()),
        *(0.7 * S.sigmax(SPINS, i) @ S.sigmay(SPINS, j) for i, j in GRID.edges()),
        0.3 * S.sigmap(SPINS, 2) @ S.sigmaz(SPINS, 0),
        O.LocalOperator(SPINS, [ODD], [[4, 0, 3]]),
    ]
    return sum(parts[1:], parts[0])


def ours(theirs: Any, kind: Any = Operator) -> Any:
    """As in docs/own_hamiltonian.md."""
    parts = zip(theirs.acting_on, theirs.operators)
    terms = [(sites, h @ np.eye(h.shape[0])) for sites, h in parts]
    return kind.from_terms(square(2, 3), terms)


@pytest.mark.whole
def test_an_operator_has_the_matrix_that_netket_gives() -> None:
    theirs = everything()
    found = ours(theirs, NonHermitian)
    dense = dense_hamiltonian(found.real) + 1j * dense_hamiltonian(found.imaginary)
    assert np.abs(dense - np.asarray(theirs.to_dense())).max() < ROUNDING


@pytest.mark.whole
def test_netket_is_not_imported_by_tnvmc() -> None:
    code = (
        "import sys, tnvmc; tnvmc.VMC(tnvmc.heisenberg(tnvmc.chain(4)), tnvmc.PEPS(tnvmc.chain(4), 2)); "
        "sys.exit('netket' in sys.modules or 'jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
