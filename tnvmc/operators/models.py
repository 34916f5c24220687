"""Model Hamiltonians, one function each.

Couplings are numbers, or one number per bond or site: a mapping (i, j) -> number (site -> number
for fields), or an array in the order of `lattice.bonds[kind]` (of the sites).  All raise ValueError
for a lattice without the bonds, and for couplings that do not fit.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tnvmc.backend.arguments import real
from tnvmc.lattice.lattice import Lattice
from tnvmc.operators.fermions import HUBBARD, SPINLESS, T_J, Fermions, Strings, mode_order
from tnvmc.operators.products import EVERY_SITE, Coupling, couplings, place
from tnvmc.operators.spin import NUMBER, SIGMA_X, SIGMA_Z, exchange_matrix, kron
from tnvmc.operators.term import ROUNDING, Operator, Term


def heisenberg(lattice: Lattice, J: Coupling = 1.0) -> Operator:
    """Build H = sum_<ij> J_ij S_i . S_j over nearest neighbours.

    S = sigma / 2 ("S.S" units); J > 0 is antiferromagnetic.  Divide energies published for
    sum sigma . sigma by 4 to compare.
    """
    return _model("heisenberg", "S.S", lattice, J=("nearest", J, exchange_matrix()))


def xxz(lattice: Lattice, J: Coupling = 1.0, Jz: Coupling = 1.0) -> Operator:
    """Build H = sum_<ij> J_ij (Sx_i Sx_j + Sy_i Sy_j) + Jz_ij Sz_i Sz_j over nearest neighbours.

    S = sigma / 2 ("S.S" units); J = Jz is the Heisenberg model, Jz = 0 the XY model.
    """
    along_z = kron(SIGMA_Z, SIGMA_Z) / 4
    in_plane = exchange_matrix() - along_z
    bonds, in_planes, one = couplings(lattice, "xxz", "nearest", "J", J)
    _, along, other = couplings(lattice, "xxz", "nearest", "Jz", Jz)
    terms: list[Term] = []
    for bond, j, jz in zip(bonds, in_planes, along, strict=True):
        parts = [j * in_plane, jz * along_z]
        # Beside a much larger one in the same matrix the smaller would pass for rounding.
        apart = 0 < min(abs(j), abs(jz)) < 10 * ROUNDING * max(abs(j), abs(jz))
        terms += [Term(bond, part) for part in (parts if apart else [parts[0] + parts[1]])]
    return Operator(lattice, tuple(terms), 2, "S.S", "xxz", {"J": one, "Jz": other})


def j1j2(lattice: Lattice, J1: Coupling = 1.0, J2: Coupling = 0.5) -> Operator:
    """Build H = J1 sum_<ij> S_i . S_j + J2 sum_<<ij>> S_i . S_j.

    The second sum runs over the bonds of kind "diagonal": both diagonals of every plaquette, or
    next-nearest neighbours of a chain (at J2 = J1 / 2 the Majumdar-Ghosh point).  S = sigma / 2
    ("S.S" units), J > 0 antiferromagnetic.
    """
    exchange = exchange_matrix()
    return _model(
        "j1j2", "S.S", lattice, J1=("nearest", J1, exchange), J2=("diagonal", J2, exchange)
    )


def tfim(lattice: Lattice, J: Coupling = 1.0, h: Coupling = 1.0) -> Operator:
    """Build the transverse-field Ising model H = -sum_<ij> J_ij Z_i Z_j - sum_i h_i X_i.

    Pauli matrices with eigenvalues +-1 ("Pauli" units); J > 0 is ferromagnetic.  The square
    lattice is critical at h/J = 3.044, the chain at h/J = 1.
    """
    ising = -kron(SIGMA_Z, SIGMA_Z)
    return _model("tfim", "Pauli", lattice, J=("nearest", J, ising), h=(EVERY_SITE, h, -SIGMA_X))


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
    fields = _model(
        "rydberg", "n", lattice,
        delta=(EVERY_SITE, delta, -NUMBER), Omega=(EVERY_SITE, Omega, -SIGMA_X / 2),
    )  # fmt: skip
    strength = real("rydberg", "coupling V", V)
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
    terms = tuple(Term((first, second), v * both) for first, second, v in pairs)
    return replace(
        fields, terms=terms + fields.terms, couplings={"V": strength, **(fields.couplings or {})}
    )


def shastry_sutherland(lattice: Lattice, J: Coupling = 0.5, J_dimer: Coupling = 1.0) -> Operator:
    """Build H = J sum_<ij> S_i . S_j + J_dimer sum over dimers of S_i . S_j.

    J_dimer is J' in part of the literature.  S = sigma / 2 ("S.S" units).  On a periodic lattice
    the product of dimer singlets is the ground state for J / J_dimer below about 0.675, with
    energy -3/8 J_dimer per site.

    Source: B. S. Shastry, B. Sutherland, Physica B+C 108, 1069 (1981); the bound on J:
    P. Corboz, F. Mila, Phys. Rev. B 87, 115144 (2013).
    """
    exchange = exchange_matrix()
    return _model(
        "shastry_sutherland", "S.S", lattice,
        J=("nearest", J, exchange), J_dimer=("dimer", J_dimer, exchange),
    )  # fmt: skip


Particles = int | Sequence[int] | None
"""A number of particles of each species; None where it is given later."""

_HOP = "cup c^up - c^up cup + cdn c^dn - c^dn cdn"  # -t (c^_i c_j + h.c.)


def tv(
    lattice: Lattice, t: Coupling = 1.0, V: Coupling = 1.0, *, particles: Particles = None
) -> Operator:
    """Build H = -sum_<ij> t_ij (c+_i c_j + h.c.) + sum_<ij> V_ij n_i n_j, spinless fermions.

    Nearest neighbours; local states 0 empty, 1 occupied ("n" units).
    """
    parts = {"t": ("nearest", t, "c c^ - c^ c"), "V": ("nearest", V, "n n")}
    return _model("tv", "n", lattice, SPINLESS, particles, **parts)


def hubbard(
    lattice: Lattice, t: Coupling = 1.0, U: Coupling = 8.0, t2: Coupling = 0.0, mu: Coupling = 0.0,
    *, particles: Particles = None,
) -> Operator:  # fmt: skip
    """Build H = -t sum_<ij> hops - t2 sum_<<ij>> hops + U sum n_up n_down - mu sum n.

    A hop is c+_i c_j + h.c. of both spins, t2 is along the bonds of kind "diagonal".  Local states
    0 empty, 1 up, 2 down, 3 both, c+_up c+_down |0> ("n" units).
    """
    farther = ("diagonal", t2, _HOP) if np.any(t2) else (EVERY_SITE, 0.0, "I")
    parts = {"t": ("nearest", t, _HOP), "U": (EVERY_SITE, U, "nupdn"), "t2": farther}
    return _model("hubbard", "n", lattice, HUBBARD, particles, **parts, mu=(EVERY_SITE, mu, "-n"))


def tj(
    lattice: Lattice, t: Coupling = 1.0, J: Coupling = 0.4, *, particles: Particles = None
) -> Operator:
    """Build H = -t sum_<ij> hops + J sum_<ij> (S_i . S_j - n_i n_j / 4), no site doubly occupied.

    Hops as in `hubbard`.  Local states 0 empty, 1 up, 2 down ("S.S" units).
    """
    exchange = "0.5 S+ S- + 0.5 S- S+ + Sz Sz - 0.25 n n"
    parts = {"t": ("nearest", t, _HOP), "J": ("nearest", J, exchange)}
    return _model("tj", "S.S", lattice, T_J, particles, **parts)


def _model(
    name: str, units: str, lattice: Lattice, fermions: Fermions | None = None,
    particles: Particles = None, **parts: tuple[str, Coupling, Any],
) -> Operator:  # fmt: skip
    """A sum over couplings by name: each with a kind of places, its values, and a matrix there, or
    of fermions a product as text.
    """
    terms: list[Term] = []
    plain: dict[str, float | list[float]] = {}
    for coupling, (kind, value, what) in parts.items():
        places, numbers, plain[coupling] = couplings(lattice, name, kind, coupling, value)
        if fermions is None:
            terms += [Term(sites, x * what) for sites, x in zip(places, numbers, strict=True)]
        elif places:
            placed = place(lattice, what, places, numbers, kind=fermions)
            terms += [Term(*each) for each in placed]
    d, sector = len(fermions.odd) if fermions else 2, None
    if fermions and particles is not None:
        sector = Strings(fermions, mode_order(lattice)).sector(particles)
    return Operator(lattice, tuple(terms), d, units, name, plain, sector, fermions)
