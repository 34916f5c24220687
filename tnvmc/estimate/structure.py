"""What is made of two-point functions: correlation matrices, structure factors, order parameters."""

from __future__ import annotations

import numpy as np

from tnvmc.estimate.momenta import momenta
from tnvmc.lattice.lattice import Lattice
from tnvmc.lattice.permutations import colouring


def correlation_matrix(values: np.ndarray) -> np.ndarray:
    """The symmetric (N, N) matrix of values of pairs i < j and then of sites, (N (N + 1) / 2,).

    The order is that of `estimate.observables.two_point`.
    """
    n_sites = round((np.sqrt(1 + 8 * len(values)) - 1) / 2)
    matrix = np.zeros((n_sites, n_sites))
    matrix[np.triu_indices(n_sites, k=1)] = values[: len(values) - n_sites]
    matrix += matrix.T
    matrix[np.diag_indices(n_sites)] = values[len(values) - n_sites :]
    return matrix


def structure_factor(lattice: Lattice, correlations: np.ndarray) -> np.ndarray:
    """S(q) = 1/N sum_ij exp(i q (r_i - r_j)) <A_i A_j> at all `momenta`: (n_q,).

    `correlations` is the full matrix (N, N), its diagonal included.  Cost n_q N^2.
    """
    waves = np.exp(1j * momenta(lattice) @ lattice.positions().T)
    factor = np.einsum("qi,qi->q", waves @ correlations, waves.conj()).real
    return np.asarray(factor / lattice.n_sites)


def staggered_square(lattice: Lattice, correlations: np.ndarray) -> float:
    """1/N^2 sum_ij +-<A_i A_j>, + for sites of the same sublattice, - for the others."""
    sign = staggering(lattice)
    return float(sign @ correlations @ sign) / lattice.n_sites**2


def staggering(lattice: Lattice) -> np.ndarray:
    """+1 or -1 for every site, by sublattices: (N,); (-1)^(row + column) on grids.

    Raises:
        ValueError: there are no two sublattices; `lattice.colouring.colouring` tells why.
    """
    found = colouring(lattice)
    if found.sublattice is None:
        why = f"the ring of sites {found.odd_ring} is odd" if found.odd_ring else "it has parts"
        raise ValueError(f"lattice: its bonds leave no two sublattices: {why}")
    return 1.0 - 2.0 * found.sublattice
