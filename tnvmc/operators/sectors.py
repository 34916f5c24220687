"""Sectors of the total Sz: which exist, and in which one the ground state may lie."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tnvmc.operators.spin import kron, spin_matrices
from tnvmc.operators.term import Operator

_ROUNDING = 1e-12  # relative to the largest element of a term


def check_magnetisation(n_sites: int, local_dim: int, magnetisation: int) -> None:
    """Raise ValueError when N sites cannot have this (doubled) total Sz."""
    largest = n_sites * (local_dim - 1)
    if abs(magnetisation) > largest or (largest - magnetisation) % 2:
        parity = "even" if largest % 2 == 0 else "odd"
        # With an odd number of sites the sectors that are even are those of other lattices.
        sites = ", or use an even number of sites" if largest % 2 and magnetisation % 2 == 0 else ""
        raise ValueError(
            f"no configuration of {n_sites} sites with local dimension {local_dim} has 2 Sz = "
            f"{magnetisation}: |2 Sz| is {parity} here and at most {largest}. Take such a "
            f"magnetisation{sites}."
        )


def rotation_invariant(operator: Operator) -> bool:
    """Tell whether every patch commutes with the total spin: each multiplet reaches the smallest Sz.

    The ground state of such an operator lies in the smallest sector, among others.
    """
    x, y, _ = spin_matrices(operator.local_dim)
    raising = x + 1j * y
    totals = {
        n: _summed(raising, n, operator.local_dim)
        for n in {len(patch) for patch in operator.matrices}
    }
    for patch, matrix in operator.matrices.items():
        total = totals[len(patch)]
        if np.abs(matrix @ total - total @ matrix).max() > _ROUNDING * np.abs(matrix).max(
            initial=0
        ):
            return False
    return True


def flip_invariant(operator: Operator) -> bool:
    """Tell whether turning all spins over leaves every patch as it is: sectors M and -M are alike."""
    return all(
        np.abs(matrix - matrix[::-1, ::-1]).max() <= _ROUNDING * np.abs(matrix).max()
        for matrix in operator.matrices.values()
    )


def net_field(operator: Operator) -> float:
    """Give the sum of the fields along z: N h of -h sum_i Sz_i, 0 of a staggered field."""
    d, total = operator.local_dim, 0.0
    sz = spin_matrices(d)[2]
    square = float(np.trace(sz @ sz)) / d
    for patch, matrix in operator.matrices.items():
        on_patch = np.diag(_summed(sz, len(patch), d)).real
        total -= float(on_patch @ np.diag(matrix).real) / len(matrix) / square
    size = sum(float(np.abs(matrix).max()) for matrix in operator.matrices.values())
    return total if abs(total) > _ROUNDING * size else 0.0


def polarised(operator: Operator) -> Iterator[tuple[int, float]]:
    """Yield the two largest sectors (twice the total Sz) and their energies, of one state each."""
    largest = operator.n_sites * (operator.local_dim - 1)
    configs = np.zeros((2, operator.n_sites), dtype=np.int8)
    configs[1] = operator.local_dim - 1
    for sector, energy in zip((largest, -largest), operator.diagonal(configs), strict=True):
        yield sector, float(energy)


def _summed(matrix: np.ndarray, n_sites: int, local_dim: int) -> np.ndarray:
    """Sum of a matrix (d, d) over the sites of a patch: (d^k, d^k)."""
    one = np.eye(local_dim)
    terms = [
        kron(*(matrix if site == here else one for site in range(n_sites)))
        for here in range(n_sites)
    ]
    return np.asarray(np.sum(terms, axis=0))
