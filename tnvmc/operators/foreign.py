"""Operators of other libraries, where one of ours is expected."""

from __future__ import annotations

from typing import Any

from tnvmc.lattice.netket import PACKAGE, made_by
from tnvmc.operators.netket import operator_of
from tnvmc.operators.quimb import hamiltonian_of, is_hamiltonian


def as_operator(value: Any, lattice: Any = None) -> Any:
    """Give the operator that an object of NetKet or quimb is; anything else comes back as it is.

    Args:
        value: anything.
        lattice: where it lives; see `from_netket`, `quimb.hamiltonian_of`.

    Raises:
        TypeError, ValueError: as they.
    """
    if made_by(PACKAGE, value) and hasattr(value, "hilbert"):
        return operator_of(value, lattice)
    if is_hamiltonian(value):
        return hamiltonian_of(value, lattice)
    return value
