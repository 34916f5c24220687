"""Where an operator is needed: what another object in its place is told."""

from __future__ import annotations

from typing import Any

from tnvmc.backend.calls import refuse
from tnvmc.lattice.lattice import Lattice
from tnvmc.operators.term import NO_HAMILTONIAN, NonHermitian, Operator, Term

_EXAMPLE = "an Operator, as heisenberg(square(4, 4))"


def require_operator(where: str, name: str, value: Any) -> None:
    """Raise TypeError, with what to write, for what is no Hermitian operator."""
    if isinstance(value, Operator):
        return
    if isinstance(value, NonHermitian):
        raise TypeError(NO_HAMILTONIAN.format(value.name))
    hint = ""
    if isinstance(value, Lattice):
        hint = "a model makes one of a lattice: heisenberg(lattice)"
    elif isinstance(value, Term | list | tuple):
        hint = "write Operator.from_terms(lattice, [...])"
    elif isinstance(value, str):
        hint = "names are for files; call the model, as heisenberg(lattice)"
    elif callable(value) and not isinstance(value, type) and hasattr(value, "__name__"):
        hint = f"call it: {value.__name__}(lattice)"
    elif hasattr(value, "shape"):
        hint = "a matrix on some sites is Operator.from_terms(lattice, [(sites, matrix)])"
    raise refuse(where, name, value, _EXAMPLE, hint)
