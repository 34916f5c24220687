"""Level 1: operators, which are sums of local terms; models, symmetries, known energies."""

from tnvmc.operators.basis import Basis, smallest_magnetisation
from tnvmc.operators.models import heisenberg, j1j2, rydberg, shastry_sutherland, tfim, xxz
from tnvmc.operators.reference import known_energy
from tnvmc.operators.spin import exchange_matrix, kron, spin_matrices
from tnvmc.operators.term import Operator, Term

__all__ = [
    "Basis", "Operator", "Term", "exchange_matrix", "heisenberg", "j1j2", "known_energy", "kron",
    "rydberg", "shastry_sutherland", "smallest_magnetisation", "spin_matrices", "tfim", "xxz",
]  # fmt: skip
