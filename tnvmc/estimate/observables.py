"""Observables: lists of local terms, each with a local value per sample.

Several are measured together: `merged_targets` collects what they ask of the ansatz, and each reads
its values from the same snapshot.  `estimate.blocks.Blocks` accumulates means and errors of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from tnvmc.ansatz.metropolis import local_states, replaced
from tnvmc.ansatz.protocol import Snapshot, Targets
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.lattice.lattice import Patch
from tnvmc.operators.fermions import Strings
from tnvmc.operators.local_term import replacement_of
from tnvmc.operators.spin import digits_of, exchange_matrix, kron
from tnvmc.operators.term import Operator, Term

Array = Any


class Observable(Protocol):
    """Terms that are measured together."""

    @property
    def targets(self) -> Targets:
        """The replacements whose ratios its values need."""

    def values(self, snapshot: Snapshot, targets: Targets) -> Array:
        """Local values (M, T) from a snapshot that was measured with `targets`."""


@dataclass(frozen=True, eq=False)
class LocalTerms:
    """Hermitian terms on one to four sites; the mean of value t is the expectation of term t.

    Cost of `values`: a look-up for each sample, term and replacement, those of equal matrices
    together; no loop over samples.  Memory: M T R numbers.
    """

    terms: tuple[Term, ...]
    strings: Strings | None = None  #: signs of fermions
    strict: bool = False  #: NaN where it leads to psi = 0 exactly, of which no sample tells

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(term.sorted() for term in self.terms))

    @cached_property
    def targets(self) -> dict[Patch, np.ndarray]:
        """The replacements whose ratios `values` needs, for each patch that has any."""
        tables = ((term.sites, replacement_of(term.matrix)) for term in self.terms)
        return _merged({sites: table.targets} for sites, table in tables if table is not None)

    def values(self, snapshot: Snapshot, targets: Targets) -> Array:
        """Local values <s|h|psi> / <s|psi> of every term, (M, T); of `merged_targets`."""
        xp = array_namespace(snapshot.configs)
        if not self.terms:  # a lattice without bonds
            return xp.zeros((snapshot.configs.shape[0], 0), dtype=xp.float64)
        groups: dict[tuple[bytes, bytes], list[int]] = {}
        for index, term in enumerate(self.terms):
            table = np.asarray(targets.get(term.sites, _NO_TABLE))
            groups.setdefault((term.matrix.tobytes(), table.tobytes()), []).append(index)
        columns: list[Array] = [None] * len(self.terms)
        for indices in groups.values():
            values = self._group_values([self.terms[k] for k in indices], snapshot, targets)
            for place, index in enumerate(indices):
                columns[index] = values[:, place]
        return xp.stack(columns, axis=1)

    def _group_values(self, terms: Sequence[Term], snapshot: Snapshot, targets: Targets) -> Array:
        """Values (M, terms) of terms with the same matrix and the same table."""
        xp, matrix, d = array_namespace(snapshot.configs), terms[0].matrix, terms[0].local_dim
        states = xp.zeros((snapshot.configs.shape[0], len(terms)), dtype=xp.int64)
        for sites in zip(*(term.sites for term in terms), strict=True):
            spins = xp.take(snapshot.configs, xp.asarray(sites), axis=1)
            states = states * d + xp.astype(spins, xp.int64)
        flat = xp.reshape(states, (-1,))
        diagonal = to_namespace(np.diag(matrix).real.copy(), xp)
        values = xp.reshape(xp.take(diagonal, flat), states.shape)
        if not (matrix - np.diag(np.diag(matrix))).any():
            return values
        table = np.asarray(targets.get(terms[0].sites, _NO_TABLE))
        elements = to_namespace(_elements(terms[0], table), xp)
        elements = xp.reshape(xp.take(elements, flat, axis=0), (*states.shape, table.shape[1]))
        if self.strings is not None:
            each = [(states[:, k], term.sites, table) for k, term in enumerate(terms)]
            signs = [self.strings.signs(snapshot.configs, *of_term) for of_term in each]
            elements = elements * xp.stack(signs, axis=1)
        ratios = xp.stack([snapshot.ratios[term.sites] for term in terms], axis=1)
        products = elements * ratios
        if self.strict:
            products = xp.where((elements != 0) & (ratios == 0), xp.nan, products)
        return values + xp.sum(products, axis=2)


@dataclass(frozen=True)
class Squares:
    """The sum over M of |<s|M|psi> / <s|psi>|^2 / N^2, whose mean is that of M^dagger M / N^2.

    One value, from ratios of the terms of M alone: no products of distant terms.  It is NaN where M
    leads to psi = 0 exactly: what M psi is at such configurations, which are not drawn, is missing.
    """

    name: str
    parts: tuple[Operator, ...]

    @cached_property
    def _terms(self) -> list[LocalTerms]:
        return [replace(energy_terms(part), strict=True) for part in self.parts]

    @property
    def targets(self) -> Targets:
        """Those of the terms of each M."""
        return merged_targets(self._terms)

    def values(self, snapshot: Snapshot, targets: Targets) -> Array:
        """Local values (M, 1)."""
        xp = array_namespace(snapshot.configs)
        sums = [xp.sum(terms.values(snapshot, targets), axis=1) for terms in self._terms]
        return xp.stack([sum(abs(each) ** 2 for each in sums)], axis=1) / self.parts[0].n_sites ** 2


@dataclass(frozen=True)
class Dimers:
    """Products of Sz Sz on bonds with Sz Sz on a reference bond, and Sz Sz of every bond.

    2 B values: first D_ref D_b for all bonds, then D_b; `connected` makes the correlation of their
    means.  Bonds may share sites with the reference.  What it does not do: the other components;
    off-diagonal products of two distant bonds need full contractions.
    """

    reference: Patch
    bonds: tuple[Patch, ...]
    local_dim: int = 2

    @property
    def targets(self) -> Targets:
        """Nothing: Sz is diagonal."""
        return {}

    def values(self, snapshot: Snapshot, targets: Targets) -> Array:
        """Local values (M, 2 B)."""
        xp = array_namespace(snapshot.configs)
        sz = (self.local_dim - 1) / 2 - xp.astype(snapshot.configs, xp.float64)

        def dimers(bonds: Sequence[Patch]) -> Array:
            first, second = (xp.asarray(sites) for sites in zip(*bonds, strict=True))
            return xp.take(sz, first, axis=1) * xp.take(sz, second, axis=1)

        every = dimers(self.bonds)
        return xp.concat([dimers([self.reference]) * every, every], axis=1)

    def connected(self, means: np.ndarray) -> np.ndarray:
        """<D_ref D_b> - <D_ref> <D_b> from the 2 B means: (B,)."""
        products, alone = np.split(means, 2)
        return np.asarray(products - alone[self.bonds.index(self.reference)] * alone)


def merged_targets(observables: Iterable[Observable]) -> dict[Patch, np.ndarray]:
    """One table per patch with the replacements that any of the observables asks for.

    Equal tables are one array, so that an ansatz can tell.
    """
    return _merged(observable.targets for observable in observables)


def _merged(sets: Iterable[Targets]) -> dict[Patch, np.ndarray]:
    asked: dict[Patch, list[np.ndarray]] = {}
    for targets in sets:
        for patch, table in targets.items():
            asked.setdefault(patch, []).append(np.asarray(table))
    known: dict[bytes, np.ndarray] = {}
    merged = {}
    for patch, tables in sorted(asked.items()):
        table = _union(tables)
        merged[patch] = known.setdefault(table.tobytes() + bytes(str(table.shape), "ascii"), table)
    return merged


def energy_terms(operator: Operator) -> LocalTerms:
    """The terms of an operator, those of the same sites summed, in the order of their sites."""
    sums: dict[Patch, np.ndarray] = {}
    for term in operator.terms:
        sums[term.sites] = sums.get(term.sites, 0) + term.matrix
    terms = tuple(Term(sites, matrix) for sites, matrix in sorted(sums.items()))
    return LocalTerms(terms, operator.strings)


def site_terms(n_sites: int, matrix: np.ndarray) -> LocalTerms:
    """The same matrix (d, d) on every site."""
    return LocalTerms(tuple(Term((site,), matrix) for site in range(n_sites)))


def two_point(n_sites: int, pair: np.ndarray, square: np.ndarray) -> LocalTerms:
    """A_i A_j of all pairs i < j, in the order of `combinations`, and then A_i A_i of all sites.

    `pair` is (d^2, d^2), `square` (d, d).  `estimate.momenta.correlation_matrix` puts the means
    into a matrix.
    """
    pairs = (Term(sites, pair) for sites in combinations(range(n_sites), 2))
    return LocalTerms((*pairs, *site_terms(n_sites, square).terms))


def scalar_products(n_sites: int, local_dim: int = 2) -> LocalTerms:
    """S_i . S_j of all pairs and sites; see `two_point`."""
    spin = (local_dim - 1) / 2
    return two_point(n_sites, exchange_matrix(local_dim), spin * (spin + 1) * np.eye(local_dim))


def products(n_sites: int, matrix: np.ndarray) -> LocalTerms:
    """A_i A_j of all pairs and sites for a matrix A (d, d), as Sz or n; see `two_point`."""
    return two_point(n_sites, kron(matrix, matrix), matrix @ matrix)


def at_fixed_magnetisation(terms: LocalTerms, operator: Operator) -> LocalTerms:
    """The same terms without the elements that change what `operator` conserves.

    In a state of fixed magnetisation, which a sampler with exchanges draws from whatever the
    ansatz, only these elements have an expectation value: that of Sx is 0.
    """

    def kept(term: Term) -> Term:
        sums = np.take(operator.weights, digits_of(len(term.sites), term.local_dim)).sum(axis=1)
        return Term(term.sites, np.where(sums[:, None] == sums[None, :], term.matrix, 0))

    return LocalTerms(tuple(map(kept, terms.terms)), terms.strings)


def alike(terms: LocalTerms, moves: Sequence[Patch]) -> np.ndarray:
    """Label (T,) the terms on one or two sites that rearrangements of the sites take to each other.

    Of more than `_MOVES` some are looked at, which nearly always make all.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    places: dict[tuple[Patch, bytes], int] = {}
    keys = [(term.sites, term.matrix.tobytes()) for term in terms.terms]
    for index, term in enumerate(terms.terms):
        places[keys[index]] = index
        if len(term.sites) == 2:  # the same, its sites in the other order
            d = term.local_dim
            turned = term.matrix.reshape(d, d, d, d).transpose(1, 0, 3, 2)
            places[term.sites[::-1], turned.tobytes()] = index
    if len(moves) > _MOVES:
        chosen = np.random.default_rng(0).choice(len(moves), _MOVES, replace=False)
        moves = [moves[k] for k in chosen]
    ends = [
        (index, there)
        for index, (sites, matrix) in enumerate(keys)
        for g in moves
        if (there := places.get((tuple(g[i] for i in sites), matrix))) is not None
    ]
    one, other = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    joined = coo_array((np.ones(one.size), (one, other)), shape=2 * (len(keys),))
    return np.asarray(connected_components(joined, directed=False)[1])


_MOVES = 24  # so many random elements of a group are all but certain to generate it

_NO_TABLE = np.full((1, 0), -1, dtype=np.int64)


def _union(tables: Sequence[np.ndarray]) -> np.ndarray:
    """A table whose rows hold the replacements of all, in increasing order."""
    if len(tables) == 1:
        return tables[0]
    rows = [np.unique(np.concatenate(rows)) for rows in zip(*tables, strict=True)]
    rows = [row[row >= 0] for row in rows]
    union = np.full((len(rows), max(map(len, rows))), -1, dtype=np.int64)
    for state, row in enumerate(rows):
        union[state, : len(row)] = row
    return union


def _elements(term: Term, table: np.ndarray) -> np.ndarray:
    """<a|h|table[a, r]> (d^k, R), 0 where there is no replacement."""
    exists = table >= 0
    rows = np.arange(len(term.matrix))[:, None]
    return np.where(exists, term.matrix[rows, np.maximum(table, 0)], 0)


def local_energy(operator: Operator, snapshot: Snapshot) -> Array:
    """E_loc(s) = <s|H|psi>/<s|psi> = diagonal(s) + sum_{s'} <s|H|s'> psi(s')/psi(s), (M,).

    Works for any operator, not only the Hamiltonian.  Complex when the operator or the wave
    function is.  Cost: one look-up and product per patch and sample; the ansatz is not touched.

    Raises:
        ValueError: the snapshot lacks the ratios of a patch; measure it with
            `operator.targets`.
    """
    xp = array_namespace(snapshot.configs)
    energy = operator.diagonal(snapshot.configs)
    for patch, replacement in operator.replacements.items():
        if patch not in snapshot.ratios:
            raise ValueError(
                f"local_energy: the snapshot holds no ratios for patch {patch} of "
                f"{operator.name}, only {len(snapshot.ratios)} other patches. Measure with "
                "replacements=operator.targets."
            )
        states = local_states(snapshot.configs, patch, operator.local_dim)
        elements = xp.take(to_namespace(replacement.elements, xp), states, axis=0)
        if operator.strings is not None:
            targets = replacement.targets
            elements = elements * operator.strings.signs(snapshot.configs, states, patch, targets)
        energy = energy + xp.sum(elements * snapshot.ratios[patch], axis=1)
    return energy


def connected(operator: Operator, snapshot: Snapshot) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield by patch what an operator connects with samples s: numbers of the s (K,), s' (K, N),
    psi(s') / psi(s) (K,), which may be 0, and <s|H|s'> (K,); on the host.
    """
    samples = np.asarray(to_host(snapshot.configs))
    for patch, replacement in operator.replacements.items():
        states = local_states(samples, patch, operator.local_dim)
        targets, elements = replacement.targets[states], replacement.elements[states]
        if operator.strings is not None:
            signs = operator.strings.signs(samples, states, patch, replacement.targets)
            elements = elements * signs
        rows, columns = np.nonzero(targets >= 0)
        there = replaced(samples[rows], patch, targets[rows, columns], operator.local_dim)
        ratios = np.asarray(to_host(snapshot.ratios[patch]))[rows, columns]
        yield rows, there, ratios, elements[rows, columns]


def off_diagonal_values(operator: Operator, snapshot: Snapshot, local: Array) -> Array:
    """Give E_loc(s) - <s|H|s>, (M,) real: what elements of H between two configurations make.

    That is exchange, flips in a transverse field, drives of atoms.  A constant in H is no part of
    it, and what psi = 0 leaves is 0.  `local` (M,) are the local energies of the snapshot.
    """
    xp = array_namespace(snapshot.configs)
    part = xp.real(local) - operator.diagonal(snapshot.configs)
    return part if snapshot.weight is None else xp.where(snapshot.weight > 0, part, 0.0)
