"""What can be said of an operator at once: a hash, bounds, its sectors of the total Sz."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from tnvmc.operators.basis import count_states
from tnvmc.operators.spin import digits_of, kron, spin_matrices
from tnvmc.operators.term import Operator

_ROUNDING = 1e-12  # relative to the largest element of a term

SMALL = 1e-6
"""Largest element below which 12 decimals tell too little."""


def fingerprint(operator: Operator) -> str:
    """Hash the terms of an operator: equal for equal Hamiltonians, to 12 decimals.

    Of an operator without an element of `SMALL` they are decimals of the largest one.
    """
    digest = hashlib.sha256()
    largest = max((float(np.abs(term.matrix).max()) for term in operator.terms), default=1.0)
    unit = largest if 0 < largest < SMALL else 1.0
    if operator.fermions is not None:
        digest.update(repr(operator.fermions).encode())
    if unit < 1:
        digest.update(f"{unit:.12e}".encode())
    for term in sorted(operator.terms, key=lambda term: term.sites):
        matrix = np.asarray(term.matrix, dtype=complex)
        # Adding zero turns -0.0, which has other bytes, into 0.0.
        digest.update(repr(tuple(map(int, term.sites))).encode())
        digest.update((np.round(matrix / unit, 12) + 0.0).tobytes())
    return digest.hexdigest()[:16]


def infinite_temperature_energy(operator: Operator, sector: int | None) -> float:
    """Give the mean energy of a random state, the E_inf of the V-score: tr H / dim in the sector.

    A chemical potential or a field then shifts it as it does the energy.  Of spins with |2 Sz| < 2
    it is that of all sectors, as public tables take it.
    """
    if sector is None or (operator.strings is None and abs(sector) < 2):
        return operator.infinite_temperature_energy
    n_sites, weights = operator.n_sites, operator.weights
    if operator.strings is None:  # to the sum of the local states
        sector = (n_sites * (operator.local_dim - 1) - sector) // 2
    n_states, total = count_states(n_sites, weights, sector), 0.0
    for patch, matrix in operator.matrices.items():
        sums = np.array(weights)[digits_of(len(patch), operator.local_dim)].sum(axis=1).tolist()
        rest = n_sites - len(patch)
        shares = {w: count_states(rest, weights, sector - w) / n_states for w in set(sums)}
        total += float(np.diag(matrix).real @ [shares[w] for w in sums])
    return total


def energy_bound(operator: Operator) -> float:
    """Give a size that no energy exceeds: the sum of the spectral norms of all terms.

    Cost: one SVD of each term.
    """
    return _norms([np.asarray(term.matrix) for term in operator.terms])


def off_diagonal_bound(operator: Operator) -> float:
    """The same for what is not on the diagonal: the size of what moves configurations."""
    matrices = [np.asarray(term.matrix) for term in operator.terms]
    return _norms([matrix - np.diag(np.diag(matrix)) for matrix in matrices])


def _norms(matrices: list[np.ndarray]) -> float:
    """Sum of the spectral norms."""
    alike: dict[tuple[int, ...], list[np.ndarray]] = defaultdict(list)
    for matrix in matrices:
        alike[matrix.shape].append(matrix)
    norms = (np.linalg.norm(np.array(found), 2, axis=(1, 2)) for found in alike.values())
    return float(sum(found.sum() for found in norms))


def particles_of(operator: Operator, sector: int | None) -> tuple[int, ...] | None:
    """Give the particles of each species in a sector; None of spins, and of all sectors."""
    strings = operator.strings
    return None if strings is None or sector is None else strings.particles(sector)


def rotation_invariant(operator: Operator) -> bool:
    """Tell whether every patch commutes with the total spin.

    Each multiplet reaches the smallest Sz, that of the ground state too.  False for fermions.
    """
    if operator.fermions is not None:
        return False
    x, y, _ = spin_matrices(operator.local_dim)
    raising = x + 1j * y
    widths = {len(patch) for patch in operator.matrices}
    totals = {n: _summed(raising, n, operator.local_dim) for n in widths}
    for patch, matrix in operator.matrices.items():
        total = totals[len(patch)]
        change = np.abs(matrix @ total - total @ matrix).max()
        if change > _ROUNDING * np.abs(matrix).max(initial=0):
            return False
    return True


def flip_invariant(operator: Operator) -> bool:
    """Tell whether turning all spins over keeps every patch: sectors M and -M are alike."""
    return operator.fermions is None and all(
        np.abs(matrix - matrix[::-1, ::-1]).max() <= _ROUNDING * np.abs(matrix).max()
        for matrix in operator.matrices.values()
    )


def polarised(operator: Operator) -> Iterator[tuple[int, float]]:
    """Yield the two largest sectors (twice the total Sz) and their energies, of one state each."""
    largest = operator.n_sites * (operator.local_dim - 1)
    configs = np.zeros((2, operator.n_sites), dtype=np.int8)
    configs[1] = operator.local_dim - 1
    for sector, energy in zip((largest, -largest), operator.diagonal(configs), strict=True):
        yield sector, float(energy)


def _summed(matrix: np.ndarray, n_sites: int, local_dim: int) -> np.ndarray:
    """Sum of a matrix (d, d) over the sites of a patch: (d^k, d^k)."""
    one, places = np.eye(local_dim), range(n_sites)
    terms = [kron(*(matrix if site == here else one for site in places)) for here in places]
    return np.asarray(np.sum(terms, axis=0))
