"""A lattice from an explicit list of bonds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tnvmc.lattice.lattice import Lattice, Patch, check_length, grid_coordinates


def from_bonds(
    shape: int | tuple[int, int],
    bonds: Iterable[tuple[int, int]] | Mapping[str, Iterable[tuple[int, int]]],
    coordinates: Any = None,
) -> Lattice:
    """Build a lattice from pairs of sites.

    `shape` is (n_rows, n_cols), or a number of sites N: one row of N, a graph without a grid, which
    a PEPS takes only where its bonds follow the row (`follows_row`).  `bonds`
    is a list of pairs (of kind "nearest" then) or a mapping from kind to pairs; the order of
    bonds is kept, the two sites of a bond are sorted.  `coordinates` (N, 2) are positions
    (row, column) in lattice constants, by default those of the grid; only distances (Rydberg)
    use them.  The boundary is called "open", whatever the bonds join.

    Raises:
        ValueError: a site that is not on the lattice, a bond from a site to itself, a bond
            given twice, coordinates of another shape or not finite.
    """
    grid = _check_shape(shape)
    kinds = bonds if isinstance(bonds, Mapping) else {"nearest": bonds}
    return Lattice(
        kind="graph" if isinstance(shape, int | np.integer) else "custom",
        shape=grid,
        boundary="open",
        coordinates=_check_coordinates(coordinates, grid),
        bonds={kind: _check_bonds(kind, pairs, grid) for kind, pairs in kinds.items()},
    )


def follows_row(lattice: Lattice) -> bool:
    """Tell whether bonds join sites that are at most two apart on one row, or close it to a ring."""
    n = lattice.n_sites
    gaps = [b - a for bonds in lattice.bonds.values() for a, b in bonds]
    return lattice.n_rows == 1 and all(gap <= _NEAR or gap >= n - _NEAR for gap in gaps)


_NEAR = 2  # a chain with next-nearest neighbours, or a ladder counted rung by rung


def _check_shape(shape: int | tuple[int, int]) -> tuple[int, int]:
    if isinstance(shape, int | np.integer):
        return 1, check_length("n_sites", shape)
    if not isinstance(shape, tuple | list) or len(shape) != 2:
        raise ValueError(f"lattice: shape is {shape!r}; give a number of sites or (n_rows, n_cols)")
    return check_length("n_rows", shape[0]), check_length("n_cols", shape[1])


def _check_bonds(
    kind: str, pairs: Iterable[tuple[int, int]], shape: tuple[int, int]
) -> tuple[Patch, ...]:
    n_sites = shape[0] * shape[1]
    bonds: dict[Patch, None] = {}
    for pair in pairs:
        sites = _check_pair(kind, pair)
        if sites[0] == sites[1] or min(sites) < 0 or max(sites) >= n_sites:
            raise ValueError(
                f"lattice: bond {sites} of kind {kind!r} must join two different sites "
                f"out of 0..{n_sites - 1}"
            )
        bond = (min(sites), max(sites))
        if bond in bonds:
            raise ValueError(
                f"lattice: bond {bond} of kind {kind!r} is given twice; a pair carries one bond "
                "of a kind, so give it once, with twice the coupling if that is meant"
            )
        bonds[bond] = None
    return tuple(bonds)


def _check_pair(kind: str, pair: Iterable[int]) -> tuple[int, int]:
    sites = tuple(pair)
    numbers = all(
        isinstance(site, int | np.integer) and not isinstance(site, bool) for site in sites
    )
    if len(sites) != 2 or not numbers:
        raise ValueError(f"lattice: bond {pair!r} of kind {kind!r} is not a pair of site indices")
    return int(sites[0]), int(sites[1])


def _check_coordinates(coordinates: Any, shape: tuple[int, int]) -> np.ndarray:
    if coordinates is None:
        return grid_coordinates(shape)
    positions = np.array(coordinates, dtype=np.float64)
    expected = (shape[0] * shape[1], 2)
    if positions.shape != expected or not np.isfinite(positions).all():
        raise ValueError(
            f"lattice: coordinates of shape {positions.shape}; they must be finite numbers of "
            f"shape {expected}, one (row, column) per site"
        )
    return positions
