"""Level 1: operators, which are sums of local terms; models, symmetries, known energies."""

from tnvmc.operators.basis import Basis, basis, smallest_magnetisation
from tnvmc.operators.models import heisenberg, j1j2, rydberg, shastry_sutherland, tfim, xxz
from tnvmc.operators.reference import KnownEnergy, known_energy
from tnvmc.operators.spin import exchange_matrix, kron, spin_matrices
from tnvmc.operators.term import NonHermitian, Operator, Replacement, Term

__all__ = [
    "Basis",
    "KnownEnergy",
    "NonHermitian",
    "Operator",
    "Replacement",
    "Term",
    "basis",
    "exchange_matrix",
    "heisenberg",
    "j1j2",
    "known_energy",
    "kron",
    "rydberg",
    "shastry_sutherland",
    "smallest_magnetisation",
    "spin_matrices",
    "tfim",
    "xxz",
]
