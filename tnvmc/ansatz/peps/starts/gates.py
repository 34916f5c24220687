"""A Hamiltonian sorted into the gates of an imaginary-time evolution."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tnvmc.lattice.embedding import DOWN, LEFT, RIGHT, Bonds, Embedding, embedding
from tnvmc.lattice.lattice import Patch
from tnvmc.operators.term import Operator, Term

Array = Any


@dataclass(frozen=True)
class Batch:
    """Pair terms on disjoint sites, all in the same position: neighbours or ends of a path."""

    sites: Array  # (K, 2) neighbours, or (K, 3) in the order of the path
    legs: tuple[int, ...]  # along which the path goes: one or two
    matrices: Array  # (K, d^2, d^2)


@dataclass(frozen=True)
class GatePlan:
    """All terms of a Hamiltonian, each in one of three parts; sites are places of the grid."""

    fields: Array  # (n_places, d, d) one-site terms
    pairs: tuple[Batch, ...]
    far: tuple[Term, ...]  # treated in mean field
    scale: float  # largest spread of eigenvalues of a term

    @property
    def neighbours_only(self) -> bool:
        """Tell whether every term is on one site or on two neighbours of the grid."""
        return not self.far and all(len(batch.legs) == 1 for batch in self.pairs)

    def with_coupling_of(self, component: Array, factor: float) -> "GatePlan":
        """Multiply the part of each pair term along a product of one Hermitian matrix (d, d)."""
        both = np.kron(component, component)
        pairs = []
        for batch in self.pairs:
            strength = np.einsum("kij,ij->k", batch.matrices, both) / np.sum(both**2)
            changed = batch.matrices + (factor - 1) * strength[:, None, None] * both
            pairs.append(replace(batch, matrices=changed))
        return replace(self, pairs=tuple(pairs))


def plan_gates(operator: Operator, bonds: Bonds = "open") -> GatePlan:
    """Sort the terms of a Hamiltonian: fields, pairs at most two bonds apart, longer ones.

    The lattice of the operator, and `bonds`, say which bonds of the grid are in use.
    """
    found = embedding(operator.lattice, bonds)
    d, n_places = operator.local_dim, found.shape[0] * found.shape[1]
    fields = np.zeros((n_places, d, d), complex if operator.is_complex else float)
    placed: dict[Patch, list[tuple[Patch, Array]]] = defaultdict(list)
    far: list[Term] = []
    spread = 0.0
    for term in operator.terms:
        matrix = term.matrix if operator.is_complex else term.matrix.real
        levels = np.linalg.eigvalsh(matrix)
        spread = max(spread, float(levels[-1] - levels[0]))
        own = found.placed(term.sites)
        path = _path(own, found)
        if len(own) == 1:
            fields[own[0]] += matrix
        elif path is None or (operator.fermions and len(path[0]) > 1):
            far.append(replace(term, sites=own))
        else:
            legs, sites = path
            placed[legs].append((sites, matrix))
    pairs = tuple(b for legs, terms in sorted(placed.items()) for b in _batches(legs, terms))
    return GatePlan(fields, pairs, tuple(far), spread or 1.0)


def idle_gates(found: Embedding, d: int) -> tuple[Batch, ...]:
    """Gates of one on all bonds of a network, d states per site."""
    n_places, one = found.shape[0] * found.shape[1], np.eye(d * d)
    batches: list[Batch] = []
    for leg in (RIGHT, DOWN):
        ends = [(place, found.beyond(place, leg)) for place in range(n_places)]
        pairs = [(a, b) for a, b in ends if b is not None and found.joins(a, leg)]
        batches += _batches((leg,), [(pair, one) for pair in pairs])
    return tuple(batches)


def _path(places: Patch, found: Embedding) -> tuple[Patch, Patch] | None:
    """Legs followed and places visited from one of two places to the other, by two bonds at most.

    Between the ends of a diagonal only one of the two corners is used: with half a gate through
    each of them, dimers on diagonals never form.  The second corner is for grids that lack bonds at
    the first.  Around a ring the shorter way is taken, of two equal ones that to the right.
    """
    n_cols = found.shape[1]
    (r0, c0), (r1, c1) = divmod(places[0], n_cols), divmod(places[-1], n_cols)
    down, right = r1 - r0, c1 - c0
    if found.rings:
        back = (n_cols - 1) // 2
        right = (right + back) % n_cols - back
    if len(places) != 2 or down + abs(right) > 2:
        return None
    legs = sorted([DOWN] * down + [RIGHT if right > 0 else LEFT] * abs(right))
    for order in (legs, legs[::-1]):
        path = [places[0]]
        for leg in order:
            beyond = found.beyond(path[-1], leg) if found.joins(path[-1], leg) else None
            if beyond is None:
                break
            path.append(beyond)
        else:
            return tuple(order), tuple(path)
    return None


def _batches(legs: Patch, terms: list[tuple[Patch, Array]]) -> Iterable[Batch]:
    """Distribute terms over batches in which no site occurs twice."""
    batches: list[list[tuple[Patch, Array]]] = []
    for sites, matrix in terms:
        apart = (b for b in batches if not any(set(sites) & set(other) for other, _ in b))
        batch = next(apart, None)
        if batch is None:
            batches.append(batch := [])
        batch.append((sites, matrix))
    for batch in batches:
        yield Batch(np.array([s for s, _ in batch]), legs, np.array([m for _, m in batch]))


def exponential(matrices: Array, time: float) -> Array:
    """Give exp(-time h) of stacked Hermitian matrices (K, n, n), up to a positive factor each."""
    levels, states = np.linalg.eigh(matrices)
    levels = levels - levels[:, :1]  # a factor that drops out, and cannot overflow
    return (states * np.exp(-time * levels)[:, None, :]) @ states.conj().swapaxes(1, 2)


def mean_fields(terms: Iterable[Term], densities: Array) -> Array:
    """Give each site (N, d, d) the far terms with their other sites averaged over `densities`."""
    fields = np.zeros_like(densities)
    d = densities.shape[1]
    for term in terms:
        k = len(term.sites)
        for own in range(k):
            legs = term.matrix.reshape((d,) * (2 * k))
            operands: list[Any] = [legs, list(range(2 * k))]
            for other in set(range(k)) - {own}:
                operands += [densities[term.sites[other]], [k + other, other]]
            field = np.einsum(*operands, [own, k + own])
            fields[term.sites[own]] += field if np.iscomplexobj(fields) else field.real
    return fields
