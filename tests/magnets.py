"""Models that no function of the package builds: without conserved Sz, complex, or lowest in another sector."""

from __future__ import annotations

import numpy as np

from tnvmc.lattice import Lattice, chain
from tnvmc.operators.models import heisenberg
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


def along_z(lattice: Lattice, strength: float, staggered: bool = False) -> Operator:
    """A Heisenberg magnet in a field; a staggered one has the signs of a grid of 6 columns."""
    operator, sz = heisenberg(lattice), spin_matrices()[2]
    signs = [(-1) ** (staggered * (site + site // 6)) for site in range(operator.n_sites)]
    terms = [((site,), -strength * sign * sz) for site, sign in enumerate(signs)]
    return operator + Operator.from_terms(operator.lattice, terms)


def correlated_hopping(n_sites: int) -> Operator:
    """-0.5 (S+ S- + h.c.), and -(S+ n S- + h.c.) over a site: no field, and M and -M differ."""
    triples = [(i, i + 1, i + 2) for i in range(n_sites - 2)]
    products = [("S+ S- + S- S+", "nearest", -0.5), ("S+ n S- + S- n S+", triples, -1.0)]
    return Operator.from_products(chain(n_sites), products, name="correlated")


def bosons(n_sites: int) -> Operator:
    """Bosons that hop along a chain, at most three on a site."""
    lower = np.diag(np.sqrt(np.arange(1.0, 4.0)), 1)
    hop = np.kron(lower.T, lower)
    terms = [((i, i + 1), -hop - hop.T) for i in range(n_sites - 1)]
    return Operator.from_terms(chain(n_sites), terms, local_dim=4, name="bosons")


def folded_xxz(n_sites: int) -> Operator:
    """Hopping, stronger between like neighbours: lowest at M = +-N / 4.

    Sectors M and -M are alike, and that beside M = 0 is higher.
    """
    fours = [(i - 1, i, i + 1, i + 2) for i in range(1, n_sites - 2)]
    products = [("Sz S+ S- Sz + Sz S- S+ Sz", fours, -1.0)]
    products += [("S+ S- + S- S+", [four[1:3] for four in fours], -0.1)]
    return Operator.from_products(chain(n_sites), products, name="folded")
