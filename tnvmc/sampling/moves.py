"""Moves: which local states a walker may change into, patch by patch.

A table of moves is symmetric (a is proposed from b as often as b from a), so that Metropolis
acceptance with |psi'/psi|^2 alone leaves |psi|^2 unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tnvmc.ansatz.protocol import Targets
from tnvmc.lattice.lattice import Lattice, Patch
from tnvmc.operators.term import Operator


def exchanges(
    lattice: Lattice, bonds: Iterable[Patch], local_dim: int = 2
) -> dict[Patch, np.ndarray]:
    """Moves that keep the sum of the two local states of a bond, and so the magnetisation.

    For d = 2 the exchange of two unequal spins (R = 1).  For d > 2 any other pair (a', b') with
    a' + b' = a + b (R = d - 1), which includes the exchange: exchanging alone would keep the
    number of sites in each local state, and not reach (1, 1) from (0, 2).
    Raises ValueError for a bond that is not a pair of sites of the lattice.
    """
    table = np.full((local_dim**2, local_dim - 1), -1, dtype=np.int64)
    for state in range(local_dim**2):
        total = sum(divmod(state, local_dim))
        others = [
            a * local_dim + total - a
            for a in range(local_dim)
            if 0 <= total - a < local_dim and a != state // local_dim
        ]
        table[state, : len(others)] = others
    return {_checked_bond(lattice, bond): table for bond in bonds}


def flips(lattice: Lattice, local_dim: int = 2) -> dict[Patch, np.ndarray]:
    """Moves of one site into any other of its d local states (R = d - 1)."""
    table = np.array(
        [[b for b in range(local_dim) if b != a] for a in range(local_dim)], dtype=np.int64
    )
    return {(site,): table for site in range(lattice.n_sites)}


def moves_for(operator: Operator) -> Targets:
    """Moves that fit a Hamiltonian: exchanges if it conserves the magnetisation, else flips.

    Exchanges go over the two-site patches that have off-diagonal elements (for J1-J2 the
    diagonals too: their ratios are needed for the energy anyway, and they shorten the
    autocorrelation); where these do not connect the lattice, over its nearest bonds as well.

    Raises:
        ValueError: neither set of bonds connects all sites, so that part of the sector would
            never be reached.
    """
    lattice = operator.lattice
    if not operator.conserves_magnetisation:
        return flips(lattice, operator.local_dim)
    bonds: list[Patch] = [patch for patch in operator.replacements if len(patch) == 2]
    if not _connected(lattice.n_sites, bonds):
        known = set(bonds)
        bonds += [bond for bond in lattice.bonds.get("nearest", ()) if bond not in known]
    if not _connected(lattice.n_sites, bonds):
        raise ValueError(
            f"moves_for: the {len(bonds)} bonds of the operator and the lattice do not connect "
            f"its {lattice.n_sites} sites, so exchanges along them are not ergodic. Give your own "
            "moves, exchanges(lattice, bonds), with bonds between the separate parts."
        )
    return exchanges(lattice, bonds, operator.local_dim)


def _checked_bond(lattice: Lattice, bond: Patch) -> Patch:
    sites = tuple(sorted(int(site) for site in bond))
    if len(set(sites)) != 2 or len(bond) != 2 or sites[0] < 0 or sites[1] >= lattice.n_sites:
        raise ValueError(
            f"exchanges: a bond joins two different sites of 0..{lattice.n_sites - 1}, got {bond}"
        )
    return sites


def _connected(n_sites: int, bonds: Iterable[Patch]) -> bool:
    """Tell whether the bonds join all sites into one component (union-find)."""
    parent = list(range(n_sites))

    def root(site: int) -> int:
        while parent[site] != site:
            parent[site] = site = parent[parent[site]]
        return site

    for a, b in bonds:
        parent[root(a)] = root(b)
    return len({root(site) for site in range(n_sites)}) == 1
