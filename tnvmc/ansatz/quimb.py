"""States and Hamiltonians of quimb, taken as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.operators.quimb import hamiltonian_of, is_hamiltonian
from tnvmc.operators.term import NonHermitian, Operator


def from_quimb(
    value: Any, lattice: Any = None
) -> tuple[PEPS | PeriodicMPS, np.ndarray] | Operator | NonHermitian:
    """Take a state or a Hamiltonian of quimb.

    >>> peps, theta = from_quimb(qtn.PEPS.rand(4, 4, bond_dim=2))  # doctest: +SKIP

    Args:
        value: a PEPS or MatrixProductState (periodic ones too); a Hamiltonian, see
            `operators.quimb.hamiltonian_of`.
        lattice: of a Hamiltonian.

    Returns:
        A state and its theta (P,): a `PEPS`, of one row for an open MPS, or a `PeriodicMPS`; of a
        Hamiltonian an `Operator` or a `NonHermitian`.

    Raises:
        TypeError, ValueError: what is not served; see `peps.quimb.from_quimb`.
    """
    if is_hamiltonian(value):
        return hamiltonian_of(value, lattice)
    if getattr(value, "cyclic", False) and hasattr(value, "L"):
        return PeriodicMPS.from_quimb(value)
    return PEPS.from_quimb(value)
