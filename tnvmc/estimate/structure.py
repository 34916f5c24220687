"""What is made of two-point functions: correlation matrices, structure factors, order parameters."""

from __future__ import annotations

import numpy as np

from tnvmc.lattice.lattice import Lattice


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


def momenta(lattice: Lattice) -> np.ndarray:
    """All q = 2 pi (kx / n_cols, ky / n_rows) with -pi < q <= pi, x along a row: (N, 2).

    qy runs slowly, so that S(q) of these reshapes to (n_rows, n_cols).
    """

    def zone(n: int) -> np.ndarray:
        return 2 * np.pi * np.arange(-((n - 1) // 2), n // 2 + 1) / n

    n_rows, n_cols = lattice.shape
    qy, qx = np.meshgrid(zone(n_rows), zone(n_cols), indexing="ij")
    return np.stack([qx.ravel(), qy.ravel()], axis=1)


def structure_factor(lattice: Lattice, correlations: np.ndarray) -> np.ndarray:
    """S(q) = 1/N sum_ij exp(i q (r_i - r_j)) <A_i A_j> at all `momenta`: (N,).

    `correlations` is the full matrix (N, N), its diagonal included.  Cost N^3.
    """
    waves = np.exp(1j * momenta(lattice) @ lattice.coordinates[:, ::-1].T)
    factor = np.einsum("qi,qi->q", waves @ correlations, waves.conj()).real
    return np.asarray(factor / lattice.n_sites)


def staggered_square(lattice: Lattice, correlations: np.ndarray) -> float:
    """1/N^2 sum_ij (-1)^(i - j) <A_i A_j>, + for sites of the same sublattice of the grid."""
    sign = staggering(lattice)
    return float(sign @ correlations @ sign) / lattice.n_sites**2


def staggering(lattice: Lattice) -> np.ndarray:
    """(-1)^(row + column) of every site: (N,)."""
    rows, columns = np.divmod(np.arange(lattice.n_sites), lattice.n_cols)
    return (-1.0) ** (rows + columns)
