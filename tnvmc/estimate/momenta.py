"""Momenta at which S(q) is given: of chains, Brillouin zones of grids and hexagons, a plane."""

import math
from typing import Literal

import numpy as np

from tnvmc.lattice.lattice import Lattice, nearest_images

Zone = Literal["chain", "square", "hexagon", "plane"]
"""Where S(q) is given: along a chain; at 2 pi k / L of the Brillouin zone of a grid; over the
extended zone of a triangular, honeycomb or kagome lattice; over the plane."""

_REACH = 2 * np.pi
"""Over the shortest distance of two sites: the largest qx and qy of a plane.  Peaks of honeycomb
and kagome patches lie at 4 pi / 3 of it."""

_MOST = 16  # points of a plane on each side of 0


def zone_of(lattice: Lattice) -> Zone:
    """Tell where S(q) of a lattice with coordinates is given."""
    if 1 in momentum_shape(lattice):
        return "chain"
    if lattice.on_grid:
        return "square"
    return "hexagon" if _has_hexagon(lattice) else "plane"


def momenta(lattice: Lattice) -> np.ndarray:
    """All q at which S(q) is given: (n_q, 2), qx along x; qy runs slowly.

    Of a square grid q = 2 pi (kx / n_cols, ky / n_rows) with -pi < q <= pi, so that S(q) of these
    reshapes to (n_rows, n_cols).  Of a lattice with a `period` those of its extended zone, its rim
    included (`symmetric_points`).  Sites elsewhere: q up to 2 pi over the shortest distance, along
    a periodic direction those that fit the ring, else a grid that is fine enough for a patch of
    that extent.

    Raises:
        ValueError: a list of bonds without coordinates.
    """
    if lattice.on_grid:
        qy, qx = (2 * np.pi * np.arange(-((n - 1) // 2), n // 2 + 1) / n for n in lattice.shape)
        return _mesh(qx, qy)
    if _has_hexagon(lattice):
        return _in_hexagon(lattice)
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


_FLAT = 1e-9  # of the shortest distance, of a zone: what is rounding


def symmetric_points(lattice: Lattice) -> dict[str, np.ndarray]:
    """Give the points of high symmetry of a lattice with a `period` by name, with their q (n, 2).

    "Gamma", "M" (middles of the edges) and "K" (corners) of the first Brillouin zone.  Sites of
    honeycomb and kagome, with the centres of their hexagons, form a triangular lattice of spacing
    1, so S(q) repeats with the zone of that one only: "extended M" and "extended K" are its points.
    """
    if zone_of(lattice) != "hexagon":
        return {}
    primitive = _primitive(lattice)[0]
    found = {"Gamma": np.zeros((1, 2)), **_of_zone(primitive)}
    if np.hypot(*primitive) > 1 + _FLAT:
        found |= {f"extended {name}": q for name, q in _of_zone(_bond(lattice)).items()}
    return found


def _has_hexagon(lattice: Lattice) -> bool:
    return lattice.period is not None and min(lattice.shape) > 1


def _of_zone(vector: np.ndarray) -> dict[str, np.ndarray]:
    """M and K, six each, of the triangular lattice of a vector (x, y) turned by 60 degrees."""
    spacing, turned = np.hypot(*vector), math.atan2(vector[1], vector[0])
    sixths = turned + np.pi / 3 * np.arange(6)
    corners = np.stack([np.cos(sixths), np.sin(sixths)], axis=1)
    edges = np.stack([np.cos(sixths + np.pi / 6), np.sin(sixths + np.pi / 6)], axis=1)
    return {"M": 2 * np.pi / math.sqrt(3) / spacing * edges, "K": 4 * np.pi / 3 / spacing * corners}


def _bond(lattice: Lattice) -> np.ndarray:
    """(x, y) from a site to one of its nearest neighbours."""
    start, end = lattice.positions()[list(lattice.bonds["nearest"][0])]
    return np.asarray(nearest_images((end - start)[::-1], lattice)[::-1])


def _primitive(lattice: Lattice) -> np.ndarray:
    """The two shortest translations of the pattern, (x, y) each: (2, 2)."""
    return np.asarray(np.array(lattice.period) @ np.array(lattice.cell)[:, ::-1])


def _in_hexagon(lattice: Lattice) -> np.ndarray:
    """All q of the extended zone that fit the rings, and a grid along the open directions."""
    primitive = _primitive(lattice)
    rings = np.array(lattice.shape)[:, None] * np.array(lattice.cell)[:, ::-1]
    length = min(_FINER * np.hypot(*rings.T).max(), _LONGEST)
    n_cells = _SIXTHS * max(1, round(length / np.hypot(*primitive[0]) / _SIXTHS))
    closed = np.array(lattice.periodic)[:, None]
    turns = np.where(closed, rings, n_cells * primitive)
    edges = _of_zone(_bond(lattice))["M"]
    # q . turn <= 4 pi / 3 |turn|
    reach = [math.floor(2 / 3 * np.hypot(*turn) + _FLAT) for turn in turns]
    k = np.stack(np.meshgrid(*(np.arange(-most, most + 1) for most in reach)), axis=-1)
    q = 2 * np.pi * k.reshape(-1, 2) @ np.linalg.inv(turns).T
    edge = float(edges[0] @ edges[0])
    q = q[(q @ edges.T <= edge * (1 + _FLAT)).all(axis=1)]
    return np.asarray(q[np.lexsort(q.round(9).T)] + 0.0)  # no -0


_SIXTHS = 6  # M lies at halves, K at thirds of the vectors of the reciprocal lattice
_FINER, _LONGEST = 4.0, 24.0
"""Length of the rings of an open patch's momenta: over its own, and in distances at most."""


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
