"""What is made of two-point functions: correlation matrices, structure factors, order parameters."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from tnvmc.lattice.colouring import colouring
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


Zone = Literal["chain", "square", "plane"]
"""Where S(q) is given: along a chain; at 2 pi k / L of the Brillouin zone of a grid; over the plane."""

_REACH = 2 * np.pi
"""Over the shortest distance of two sites: the largest qx and qy of a plane.  Peaks of honeycomb and kagome
patches lie at 4 pi / 3 of it."""

_MOST = 16  # points of a plane on each side of 0


def zone_of(lattice: Lattice) -> Zone:
    """Tell where S(q) of a lattice with coordinates is given."""
    if 1 in momentum_shape(lattice):
        return "chain"
    return "square" if lattice.on_grid else "plane"


def momenta(lattice: Lattice) -> np.ndarray:
    """All q at which S(q) is given: (n_q, 2), qx along x; qy runs slowly.

    Of a square grid q = 2 pi (kx / n_cols, ky / n_rows) with -pi < q <= pi, so that S(q) of these reshapes
    to (n_rows, n_cols).  Sites elsewhere: q up to 2 pi over the shortest distance.  Along a periodic
    direction those that fit the ring, which are the only ones that S(q) has a meaning at; elsewhere a grid
    that is fine enough for a patch of that extent.

    Raises:
        ValueError: a list of bonds without coordinates.
    """
    if lattice.on_grid:
        qy, qx = (2 * np.pi * np.arange(-((n - 1) // 2), n // 2 + 1) / n for n in lattice.shape)
        return _mesh(qx, qy)
    places, distances = lattice.positions(), lattice.distances()
    shortest = float(np.min(distances[distances > 0], initial=np.inf))
    if not np.isfinite(shortest):  # all at one place
        return np.zeros((1, 2))
    across, down = np.ptp(places, axis=0)
    ring_down, ring_right = (
        n * np.array(step) for n, step in zip(lattice.shape, lattice.cell, strict=True)
    )
    qx, qy = _open_axis(across, shortest), _open_axis(down, shortest)
    if lattice.periodic[1]:
        qx = _ring_axis(ring_right[1], 0.0, shortest)
    if not lattice.periodic[0]:
        return _mesh(qx, qy)
    # q . (once down) must be a multiple of 2 pi, which a shift of the rows makes depend on qx
    points = [(x, y) for x in qx for y in _ring_axis(ring_down[0], x * ring_down[1], shortest)]
    return np.array(sorted(points, key=lambda point: (round(point[1], 9), point[0])))


def momentum_shape(lattice: Lattice) -> tuple[int, int]:
    """Numbers of different qy and qx of `momenta`."""
    q = momenta(lattice).round(9)
    return len(np.unique(q[:, 1])), len(np.unique(q[:, 0]))


def _mesh(qx: np.ndarray, qy: np.ndarray) -> np.ndarray:
    down, across = np.meshgrid(qy, qx, indexing="ij")
    return np.stack([across.ravel(), down.ravel()], axis=1)


def _open_axis(extent: float, shortest: float) -> np.ndarray:
    if extent < _FLAT * shortest:
        return np.zeros(1)
    half = min(_MOST, math.ceil(_REACH / np.pi * (extent + shortest) / shortest))
    return _REACH / shortest * np.arange(-half, half + 1) / half


def _ring_axis(length: float, phase: float, shortest: float) -> np.ndarray:
    """All q within reach with q length + phase a multiple of 2 pi."""
    most = _REACH / shortest * (1 + _FLAT)
    low, high = (-most * length + phase) / (2 * np.pi), (most * length + phase) / (2 * np.pi)
    return (2 * np.pi * np.arange(math.ceil(low), math.floor(high) + 1) - phase) / length


_FLAT = 1e-9  # of the shortest distance: an extent that is rounding


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
