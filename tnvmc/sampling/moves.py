"""Moves: which local states a walker may change into, patch by patch.

A table of moves is symmetric (b is proposed from a as often as a from b), so that acceptance by
|psi'/psi|^2 alone leaves |psi|^2 unchanged.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import MOVE_KINDS, Targets
from tnvmc.lattice.lattice import Lattice, Patch, spanning_tree
from tnvmc.operators.term import Operator

Moves = dict[Patch, np.ndarray]


def flips(lattice: Lattice, local_dim: int = 2) -> Moves:
    """Moves of one site into any other of its d local states (R = d - 1)."""
    table = _table(~np.eye(local_dim, dtype=bool))
    return {(site,): table for site in range(lattice.n_sites)}


def exchanges(lattice: Lattice, bonds: Iterable[Patch], local_dim: int = 2) -> Moves:
    """Moves that keep the sum of the two local states of a bond, and so the magnetisation.

    For d = 2 the exchange of two unequal spins (R = 1).  For d > 2 any other pair (a', b') with
    a' + b' = a + b (R = d - 1), which includes the exchange: exchanging alone would keep the
    number of sites in each local state, and not reach (1, 1) from (0, 2).
    Raises ValueError for a bond that is not a pair of sites of the lattice.
    """
    return _of_pairs(lattice, bonds, range(local_dim), same_sum=True)


def pair_flips(lattice: Lattice, bonds: Iterable[Patch], local_dim: int = 2) -> Moves:
    """Moves that change both local states of a bond, and their sum.

    For d = 2 two equal spins turn over together (R = 1).
    Raises ValueError for a bond that is not a pair of sites of the lattice.
    """
    return _of_pairs(lattice, bonds, range(local_dim), same_sum=False)


def _of_pairs(
    lattice: Lattice, bonds: Iterable[Patch], weights: Sequence[int], same_sum: bool
) -> Moves:
    """Moves that change both local states of a bond, and keep the sum of weights or change it."""
    first, second = np.divmod(np.arange(len(weights) ** 2), len(weights))
    both_change = (first[:, None] != first) & (second[:, None] != second)
    sums = np.add.outer(weights, weights).ravel()
    table = _table(both_change & ((sums[:, None] == sums) == same_sum))
    moves = {}
    for bond in bonds:
        sites = tuple(sorted(int(site) for site in bond))
        if len(set(sites)) != 2 or len(bond) != 2 or sites[0] < 0 or sites[1] >= lattice.n_sites:
            raise ValueError(
                f"exchanges: a bond joins two different sites of 0..{lattice.n_sites - 1}, got "
                f"{bond}"
            )
        moves[sites] = table
    return moves


def joined(sets: Iterable[Targets], local_dim: int) -> Moves:
    """All moves of several sets, each once; on one patch their replacements side by side."""
    found: dict[Patch, np.ndarray] = {}
    for moves in sets:
        for patch, table in moves.items():
            n_states = local_dim ** len(patch)
            allowed = found.setdefault(patch, np.zeros((n_states, n_states), dtype=bool))
            rows, columns = np.nonzero(np.asarray(table) >= 0)
            allowed[rows, np.asarray(table)[rows, columns]] = True
    return {patch: _table(allowed) for patch, allowed in found.items()}


def moves_for(operator: Operator, chosen: Sequence[str] | Targets | None = None) -> Moves:
    """Moves for a Hamiltonian: those that fit it, or those asked for.

    By default, where it conserves the magnetisation, exchanges over its two-site patches that have
    off-diagonal elements.  Else flips of all sites and, on such patches, exchanges and pair flips.
    In both cases its own moves on three and four sites.  Where the pairs do not connect the
    lattice, the nearest bonds are added (decision 15).

    Args:
        operator: the Hamiltonian.
        chosen: names out of `MOVE_KINDS` ("terms": along the off-diagonal elements), or a table
            (d^k, R) by patch.

    Raises:
        ValueError: an unknown name; a table that is not symmetric; moves that leave the sector of a
            conserved magnetisation, or do not reach all of it (see `ergodicity.check_reach`).
    """
    if chosen is None:
        return _fitting(operator)
    match chosen:
        case str():
            raise ValueError(f"moves: give a list of names, [{chosen!r}]")
        case Mapping():
            moves = _checked_tables(operator, chosen)
        case _:
            moves = joined([_named(operator, name) for name in chosen], operator.local_dim)
    check_reach(operator, moves)
    return moves


def _fitting(operator: Operator) -> Moves:
    lattice, d = operator.lattice, operator.local_dim
    bonds = _pairs(operator)
    wide = {patch: table for patch, table in operator.targets.items() if len(patch) > 2}
    if not operator.conserves_magnetisation:
        pairs = bonds if any(len(patch) == 2 for patch in operator.replacements) else []
        sets = [flips(lattice, d), exchanges(lattice, pairs, d), pair_flips(lattice, pairs, d)]
        return joined([*sets, wide], d)
    if len(spanning_tree(0, bonds)) < lattice.n_sites:
        raise ValueError(
            f"moves_for: the {len(bonds)} bonds of the operator and the lattice do not connect "
            f"its {lattice.n_sites} sites, so exchanges along them are not ergodic. Give your own "
            "moves, exchanges(lattice, bonds), with bonds between the separate parts."
        )
    return joined([_of_pairs(lattice, bonds, operator.weights, True), wide], d)


def _named(operator: Operator, name: str) -> Moves:
    lattice, d = operator.lattice, operator.local_dim
    if name not in MOVE_KINDS:
        raise ValueError(f"moves: {name!r} is not known; choose from {', '.join(MOVE_KINDS)}")
    if name == "terms":
        found = joined([operator.targets], d)
    elif name == "flips":
        found = flips(lattice, d)
    else:
        found = _of_pairs(lattice, _pairs(operator), operator.weights, name == "exchanges")
    if not found:
        raise ValueError(
            f"moves: there are no {name!r} here; {operator.name} has "
            f"{'no off-diagonal elements' if name == 'terms' else 'no pairs of sites'}"
        )
    return found


def _pairs(operator: Operator) -> list[Patch]:
    """Pairs with off-diagonal elements, and the nearest bonds where these do not connect."""
    lattice = operator.lattice
    bonds: list[Patch] = [patch for patch in operator.replacements if len(patch) == 2]
    if len(spanning_tree(0, bonds)) < lattice.n_sites:
        known = set(bonds)
        bonds += [bond for bond in lattice.bonds.get("nearest", ()) if bond not in known]
    return bonds


def _checked_tables(operator: Operator, given: Mapping[Any, Any]) -> Moves:
    """Own tables, as arrays."""
    moves = {}
    for patch, values in given.items():
        sites, table = tuple(int(site) for site in patch), np.asarray(values)
        n_states = operator.local_dim ** len(sites)
        if len(set(sites)) < len(sites) or not all(0 <= s < operator.n_sites for s in sites):
            raise ValueError(
                f"moves: patch {patch} must hold different sites of 0..{operator.n_sites - 1}"
            )
        if table.ndim != 2 or table.shape[0] != n_states or table.dtype.kind not in "iu":
            raise ValueError(
                f"moves: the table of patch {patch} has shape {table.shape} and type "
                f"{table.dtype}; it must be whole numbers ({n_states}, R), a row for each of its "
                "local states"
            )
        if table.size and not (-1 <= table.min() and table.max() < n_states):
            raise ValueError(
                f"moves: the table of patch {patch} leads to {table.min()}..{table.max()}; local "
                f"states are 0..{n_states - 1}, and -1 stands for no move"
            )
        counts = np.zeros((n_states, n_states), dtype=int)
        rows, columns = np.nonzero(table >= 0)
        np.add.at(counts, (rows, table[rows, columns]), 1)
        if (counts != counts.T).any():
            a, b = (int(place) for place in np.argwhere(counts != counts.T)[0])
            raise ValueError(
                f"moves: the table of patch {patch} proposes {b} from {a} {counts[a, b]} times and "
                f"{a} from {b} {counts[b, a]} times; acceptance by |psi'/psi|^2 keeps |psi|^2 only "
                "where both are equal"
            )
        moves[sites] = table.astype(np.int64)
    return moves


def _table(allowed: np.ndarray) -> np.ndarray:
    """Table (n, R) of the places where each row of a matrix (n, n) is true, padded with -1."""
    table = np.full((len(allowed), int(allowed.sum(axis=1).max(initial=0))), -1, dtype=np.int64)
    for state, row in enumerate(allowed):
        places = np.flatnonzero(row)
        table[state, : len(places)] = places
    return table


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
    states = np.tile(operator.weights, n_sites)
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
    n_species = 1 if operator.fermions is None else len(operator.fermions.numbers)
    needed = n_sites * (d - 1) - conserved * n_species
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


def _changes(moves: Targets, d: int, n_sites: int) -> np.ndarray:
    """What moves change of the occupations of all local states, (n, N d), each once."""
    found = []
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
            found.append(full)
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
