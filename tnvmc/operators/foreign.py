"""Operators of other libraries, where one of ours is expected."""

from __future__ import annotations

import warnings
from typing import Any

from tnvmc.backend.calls import level_of_caller
from tnvmc.lattice.netket import PACKAGE, made_by
from tnvmc.operators.netket import operator_of
from tnvmc.operators.quimb import hamiltonian_of, is_hamiltonian
from tnvmc.operators.term import NonHermitian, Operator


def as_operator(value: Any, lattice: Any = None) -> Any:
    """Give the operator that an object of NetKet or quimb is; anything else comes back as it is.

    Args:
        value: anything.
        lattice: where it lives; see `from_netket`, `quimb.hamiltonian_of`.

    Raises:
        TypeError, ValueError: as they.

    Warns:
        UserWarning: pairs of the operator are no bonds of the lattice, and bonds of that have no term.
    """
    if made_by(PACKAGE, value) and hasattr(value, "hilbert"):
        found = operator_of(value, lattice)
    elif is_hamiltonian(value):
        found = hamiltonian_of(value, lattice)
    else:
        return value
    if lattice is not None:
        _tell_pairs(found)
    return found


def _tell_pairs(operator: Operator | NonHermitian) -> None:
    """Warn of a lattice that is none of the operator: of nearest bonds without a term, and pairs beside bonds.

    Energies do not depend on it.  Terms of all pairs, as those of Rydberg atoms, leave no bond out.
    """
    parts = (
        (operator.real, operator.imaginary) if isinstance(operator, NonHermitian) else (operator,)
    )
    terms = [term.sites for part in parts for term in part.terms]
    pairs = {tuple(sorted(sites)) for sites in terms if len(sites) == 2}
    bonds = {kind: {tuple(sorted(b)) for b in of} for kind, of in operator.lattice.bonds.items()}
    beside = sorted(pairs.difference(*bonds.values()))
    left_out = sorted(bonds.get("nearest", set()) - pairs)
    if beside and left_out:
        shape = " x ".join(map(str, operator.lattice.shape))
        warnings.warn(
            f"{operator.name}: terms on {beside[0]} and other pairs that are no bonds of the lattice of the "
            f"wave function ({shape}), and none on its bond {left_out[0]}: two different lattices. Energies "
            "are right; kinds of bonds, distances, S(q) and the staggered M^2 are those of the lattice of the "
            "wave function. Make both from one graph",
            UserWarning,
            stacklevel=level_of_caller(),
        )
