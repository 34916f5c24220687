"""Model Hamiltonians, one function each.

Couplings are numbers, or one number per bond or site: a
mapping (i, j) -> number (site -> number for fields), or an array in the order of
`lattice.bonds[kind]` (of the sites).  All raise ValueError for a lattice without the bonds, and for
couplings that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tnvmc.lattice.lattice import Lattice, require_lattice
from tnvmc.operators.products import Coupling, bonds_of_kind, per_bond, per_site, plain_couplings
from tnvmc.operators.spin import NUMBER, SIGMA_X, SIGMA_Z, exchange_matrix, kron
from tnvmc.operators.term import ROUNDING, Operator, Term


def heisenberg(lattice: Lattice, J: Coupling = 1.0) -> Operator:
    """Build H = sum_<ij> J_ij S_i . S_j over nearest neighbours.

    S = sigma / 2 ("S.S" units); J > 0 is antiferromagnetic.  Divide energies published for
    sum sigma . sigma by 4 to compare.
    """
    return _exchange_model("heisenberg", lattice, {"nearest": ("J", J)})


def xxz(lattice: Lattice, J: Coupling = 1.0, Jz: Coupling = 1.0) -> Operator:
    """Build H = sum_<ij> J_ij (Sx_i Sx_j + Sy_i Sy_j) + Jz_ij Sz_i Sz_j over nearest neighbours.

    S = sigma / 2 ("S.S" units); J = Jz is the Heisenberg model, Jz = 0 the XY model.
    """
    along_z = kron(SIGMA_Z, SIGMA_Z) / 4
    in_plane = exchange_matrix() - along_z
    bonds = bonds_of_kind(lattice, "nearest", "xxz")
    of_bonds = zip(bonds, per_bond("J", J, bonds), per_bond("Jz", Jz, bonds), strict=True)
    terms: list[Term] = []
    for bond, j, jz in of_bonds:
        parts = [j * in_plane, jz * along_z]
        # Beside a much larger one in the same matrix the smaller would pass for rounding.
        apart = 0 < min(abs(j), abs(jz)) < 10 * ROUNDING * max(abs(j), abs(jz))
        terms += [Term(bond, part) for part in (parts if apart else [parts[0] + parts[1]])]
    couplings = plain_couplings(lattice, J=(J, "nearest"), Jz=(Jz, "nearest"))
    return Operator(lattice, tuple(terms), 2, "S.S", "xxz", couplings)


def j1j2(lattice: Lattice, J1: Coupling = 1.0, J2: Coupling = 0.5) -> Operator:
    """Build H = J1 sum_<ij> S_i . S_j + J2 sum_<<ij>> S_i . S_j.

    The second sum runs over the bonds of kind "diagonal": both diagonals of every plaquette, or
    next-nearest neighbours of a chain (at J2 = J1 / 2 the Majumdar-Ghosh point).  S = sigma / 2
    ("S.S" units), J > 0 antiferromagnetic.
    """
    return _exchange_model("j1j2", lattice, {"nearest": ("J1", J1), "diagonal": ("J2", J2)})


def tfim(lattice: Lattice, J: Coupling = 1.0, h: Coupling = 1.0) -> Operator:
    """Build the transverse-field Ising model H = -sum_<ij> J_ij Z_i Z_j - sum_i h_i X_i.

    Pauli matrices with eigenvalues +-1 ("Pauli" units); J > 0 is ferromagnetic.  The square
    lattice is critical at h/J = 3.044, the chain at h/J = 1.
    """
    terms = [
        *_bond_terms(lattice, "nearest", "tfim", "J", J, -kron(SIGMA_Z, SIGMA_Z)),
        *_site_terms(lattice, "h", h, -SIGMA_X),
    ]
    couplings = plain_couplings(lattice, J=(J, "nearest"), h=(h, "site"))
    return Operator(lattice, tuple(terms), 2, "Pauli", "tfim", couplings)


def rydberg(
    lattice: Lattice, V: float = 7.0, delta: Coupling = 1.0, Omega: Coupling = 1.0
) -> Operator:
    """Build H = sum_{i<j} V / r_ij^6 n_i n_j - sum_i delta_i n_i - sum_i Omega_i / 2 X_i.

    Local state 1 is the excited atom, n = |1><1| ("n" units).  All pairs interact, at distances
    in lattice constants (the shorter way round where the lattice is periodic).  V is the
    interaction of neighbours at distance 1.  The sign of the drive makes all off-diagonal
    elements non-positive; the other sign has the same spectrum.  Tr H is not zero.

    Raises:
        ValueError: V is not one real number; two sites at the same position.

    Source: K. Sprague, S. Czischek, Commun. Phys. 7, 90 (2024).
    """
    require_lattice("rydberg", lattice)
    strength = float(per_site("V", V, 1)[0])
    r = lattice.distances()
    i, j = np.triu_indices(lattice.n_sites, k=1)
    if np.any(r[i, j] == 0):
        where = int(np.argmin(r[i, j]))
        raise ValueError(
            f"rydberg: sites {i[where]} and {j[where]} are at the same position, so V / r^6 is "
            "infinite; give the lattice coordinates that differ"
        )
    both = kron(NUMBER, NUMBER)
    pairs = zip(i.tolist(), j.tolist(), (strength / r[i, j] ** 6).tolist(), strict=True)
    terms = [
        *(Term((first, second), v * both) for first, second, v in pairs),
        *_site_terms(lattice, "delta", delta, -NUMBER),
        *_site_terms(lattice, "Omega", Omega, -SIGMA_X / 2),
    ]
    fields = plain_couplings(lattice, delta=(delta, "site"), Omega=(Omega, "site"))
    couplings = {"V": strength, **fields}
    return Operator(lattice, tuple(terms), 2, "n", "rydberg", couplings)


def shastry_sutherland(lattice: Lattice, J: Coupling = 0.5, J_dimer: Coupling = 1.0) -> Operator:
    """Build H = J sum_<ij> S_i . S_j + J_dimer sum over dimers of S_i . S_j.

    J_dimer is J' in part of the literature.  S = sigma / 2 ("S.S" units).  On a periodic lattice
    the product of dimer singlets is the ground state for J / J_dimer below about 0.675, with
    energy -3/8 J_dimer per site.

    Source: B. S. Shastry, B. Sutherland, Physica B+C 108, 1069 (1981); the bound on J:
    P. Corboz, F. Mila, Phys. Rev. B 87, 115144 (2013).
    """
    couplings = {"nearest": ("J", J), "dimer": ("J_dimer", J_dimer)}
    return _exchange_model("shastry_sutherland", lattice, couplings)


def _exchange_model(
    model: str, lattice: Lattice, couplings: Mapping[str, tuple[str, Coupling]]
) -> Operator:
    """S . S on bonds of some kinds, each with the name and the value of its coupling."""
    terms = [
        term
        for kind, (name, value) in couplings.items()
        for term in _bond_terms(lattice, kind, model, name, value, exchange_matrix())
    ]
    values = {name: (value, kind) for kind, (name, value) in couplings.items()}
    return Operator(lattice, tuple(terms), 2, "S.S", model, plain_couplings(lattice, **values))


def _bond_terms(
    lattice: Lattice, kind: str, model: str, name: str, value: Coupling, matrix: np.ndarray
) -> Iterator[Term]:
    bonds = bonds_of_kind(lattice, kind, model)
    for bond, coupling in zip(bonds, per_bond(name, value, bonds), strict=True):
        yield Term(bond, coupling * matrix)


def _site_terms(lattice: Lattice, name: str, value: Coupling, matrix: np.ndarray) -> Iterator[Term]:
    for site, coupling in enumerate(per_site(name, value, lattice.n_sites)):
        yield Term((site,), coupling * matrix)
