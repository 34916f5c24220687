"""Models that no function of the package builds: without conserved Sz, or complex."""

from __future__ import annotations

from tnvmc.lattice import Lattice
from tnvmc.operators.spin import kron, spin_matrices
from tnvmc.operators.term import Operator


def xyz(lattice: Lattice) -> Operator:
    """Sx Sx + 0.9 Sy Sy + Sz Sz over nearest neighbours."""
    x, y, z = spin_matrices()
    bond = (kron(x, x) + 0.9 * kron(y, y) + kron(z, z)).real
    return Operator.from_terms(lattice, [(b, bond) for b in lattice.bonds["nearest"]], name="xyz")


def dzyaloshinskii_moriya(lattice: Lattice) -> Operator:
    """S.S + (S x S)_z over nearest neighbours."""
    x, y, z = spin_matrices()
    bond = kron(x, x) + kron(y, y) + kron(z, z) + kron(x, y) - kron(y, x)
    return Operator.from_terms(lattice, [(b, bond) for b in lattice.bonds["nearest"]], name="dm")
