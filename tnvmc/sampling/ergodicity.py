"""Whether moves reach all configurations that a Hamiltonian mixes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tnvmc.ansatz.protocol import Targets
from tnvmc.lattice.lattice import Patch
from tnvmc.operators.term import Operator

_PRIME = 2_147_483_629
"""Ranks are those modulo it: the numbers are small, and a wrong one is as likely as 1e-9."""


def check_reach(operator: Operator, moves: Targets) -> None:
    """Refuse moves that leave the sector of a conserved magnetisation, or do not reach all of it.

    What moves keep is looked for among sums over sites of a number for each local state, and such
    sums modulo 2.  What it does not do: find products and other nonlinear quantities that moves
    keep, or configurations where psi vanishes that a walker cannot cross.

    Cost: (number of moves) * (N d)^2, some seconds at most for a thousand sites.

    Raises:
        ValueError: with the reason.
    """
    d, n_sites = operator.local_dim, operator.n_sites
    vectors = _changes(moves, d, n_sites)
    states = np.tile(np.arange(d), n_sites)
    kept = not (vectors @ states).any()
    conserved = operator.conserves_magnetisation
    if conserved and not kept:
        raise ValueError(
            f"moves: some change the magnetisation, which {operator.name} conserves, so that "
            "walkers would leave the sector that is sampled; take 'exchanges'"
        )
    if kept and not conserved:
        raise ValueError(
            f"moves: all of them keep the magnetisation, which {operator.name} does not conserve, "
            "so that walkers would stay in the sector they start in; add 'flips'"
        )
    needed = n_sites * (d - 1) - conserved
    missing = needed - _rank(vectors, _PRIME)
    if missing > 0:
        raise ValueError(
            f"moves: not ergodic, they keep {missing} linear quantities that {operator.name} need "
            "not conserve (sites that nothing joins, for instance); add moves between the parts"
        )
    if _rank(vectors, 2) < needed:
        raise ValueError(
            f"moves: not ergodic, they keep a parity (a number modulo 2), so that walkers would "
            f"stay in the half of the configurations of {operator.name} where they start; add "
            f"'{'exchanges' if conserved else 'flips'}'"
        )


def connected(n_sites: int, bonds: Iterable[Patch]) -> bool:
    """Tell whether the bonds join all sites into one component (union-find)."""
    parent = list(range(n_sites))

    def root(site: int) -> int:
        while parent[site] != site:
            parent[site] = site = parent[parent[site]]
        return site

    for a, b in bonds:
        parent[root(a)] = root(b)
    return len({root(site) for site in range(n_sites)}) == 1


def _changes(moves: Targets, d: int, n_sites: int) -> np.ndarray:
    """What moves change of the occupations of the local states of all sites, (n, N d), each once."""

    def rows() -> Iterator[np.ndarray]:
        for patch, table in moves.items():
            k = len(patch)
            digits = np.indices((d,) * k).reshape(k, -1)
            occupied = (digits[:, :, None] == np.arange(d)).transpose(1, 0, 2).reshape(d**k, -1)
            state, column = np.nonzero(np.asarray(table) >= 0)
            target = np.asarray(table)[state, column]
            up = state < target  # the way back changes the same, with the other sign
            local = occupied[target[up]].astype(np.int64) - occupied[state[up]]
            places = (np.asarray(patch)[:, None] * d + np.arange(d)).ravel()
            for row in np.unique(local, axis=0):
                full = np.zeros(n_sites * d, dtype=np.int64)
                full[places] = row
                yield full

    found = list(rows())
    return np.array(found).reshape(len(found), n_sites * d)


def _rank(vectors: np.ndarray, prime: int) -> int:
    """Rank modulo a prime, by elimination."""
    rest, rank = vectors % prime, 0
    for column in range(rest.shape[1]):
        pivots = np.flatnonzero(rest[rank:, column])
        if not len(pivots):
            continue
        pivot = rank + int(pivots[0])
        rest[[rank, pivot]] = rest[[pivot, rank]]
        rest[rank] = rest[rank] * pow(int(rest[rank, column]), -1, prime) % prime
        below = rank + 1 + np.flatnonzero(rest[rank + 1 :, column])
        rest[below] = (rest[below] - rest[below, column][:, None] * rest[rank]) % prime
        rank += 1
        if rank == len(rest):
            break
    return rank
