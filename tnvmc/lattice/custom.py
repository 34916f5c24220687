"""Lattices from lists of bonds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tnvmc.backend.arguments import is_whole, whole
from tnvmc.lattice.lattice import Lattice, Patch

_NEAR = 2  # a chain with next-nearest neighbours, or a ladder counted rung by rung


def from_bonds(
    shape: int | tuple[int, int],
    bonds: Iterable[tuple[int, int]] | Mapping[str, Iterable[tuple[int, int]]],
    coordinates: Any = None,
    vacant: Iterable[int] = (),
) -> Lattice:
    """Build a lattice from pairs of sites.

    A hexagon, as two rows of three sites (the grid is that of a PEPS)::

        from_bonds(
            (2, 3),
            [(0, 1), (1, 2), (2, 5), (5, 4), (4, 3), (3, 0)],
            coordinates=[(-0.87, 0.5), (0, 1), (0.87, 0.5), (-0.87, -0.5), (0, -1), (0.87, -0.5)],
        )

    Args:
        shape: (n_rows, n_cols), or a number of sites N: one row of N, a graph without a grid, which
            a PEPS takes only where its bonds follow the row (`follows_row`).
        bonds: a list of pairs (of kind "nearest" then) or a mapping from kind to pairs.  The order
            of bonds is kept, and the direction of each, for products that have one.
        coordinates: positions (x, y) of the sites, (N, 2), in lattice constants, of which
            distances, S(q) and pictures are made.
        vacant: places row * n_cols + column of the grid that have no site; the sites are the
            others, numbered row by row.

    The boundary is called "open", whatever the bonds join.

    Raises:
        ValueError: a bond off the lattice, from a site to itself or given twice; coordinates of
            another shape or not finite; a kind called "all"; a vacant place off the grid or given
            twice, none left.
    """
    grid = _check_shape(shape)
    empty = _check_vacant(vacant, grid)
    n_sites = grid[0] * grid[1] - len(empty)
    kinds = bonds if isinstance(bonds, Mapping) else {"nearest": bonds}
    if "all" in kinds:
        raise ValueError(
            "lattice: a kind of bonds is called 'all', which means all sites; rename it"
        )
    given = {kind: _check_bonds(kind, pairs, n_sites) for kind, pairs in kinds.items()}
    return Lattice(
        kind="graph" if is_whole(shape) else "custom",
        shape=grid,
        boundary="open",
        coordinates=_check_coordinates(coordinates, n_sites),
        bonds={kind: tuple((min(p), max(p)) for p in pairs) for kind, pairs in given.items()},
        directions=given,
        vacant=empty,
    )


def follows_row(lattice: Lattice) -> bool:
    """Tell whether bonds join sites at most two apart on one row, or close it to a ring."""
    n = lattice.n_sites
    gaps = [b - a for bonds in lattice.bonds.values() for a, b in bonds]
    return lattice.n_rows == 1 and all(gap <= _NEAR or gap >= n - _NEAR for gap in gaps)


def _check_shape(shape: Any) -> tuple[int, int]:
    if is_whole(shape):
        return 1, whole("lattice", "n_sites", shape)
    try:
        n_rows, n_cols = shape
    except (TypeError, ValueError):
        raise ValueError(
            f"lattice: shape is {shape!r}; give a number of sites or (n_rows, n_cols)"
        ) from None
    return whole("lattice", "n_rows", n_rows), whole("lattice", "n_cols", n_cols)


def _check_vacant(vacant: Iterable[int], shape: tuple[int, int]) -> tuple[int, ...]:
    n_places = shape[0] * shape[1]
    given = [whole("lattice", "a vacant place row * n_cols + column", p, 0) for p in vacant]
    if max(given, default=0) >= n_places:
        raise ValueError(
            f"lattice: vacant place {max(given)} is not on the grid of {shape[0]} x {shape[1]}, "
            f"whose places are 0..{n_places - 1}"
        )
    found = tuple(sorted(set(given)))
    if len(found) != len(given) or len(found) == n_places:
        raise ValueError(
            f"lattice: {len(given)} vacant places of {n_places}; give each once, and leave a site"
        )
    return found


def _check_bonds(kind: str, pairs: Iterable[tuple[int, int]], n_sites: int) -> tuple[Patch, ...]:
    bonds: dict[Patch, Patch] = {}
    try:
        given = [tuple(pair) for pair in pairs]
    except TypeError:
        raise ValueError(
            f"lattice: bonds of kind {kind!r} are a list of pairs, got {pairs!r}"
        ) from None
    for pair in given:
        if len(pair) != 2 or not all(map(is_whole, pair)):
            raise ValueError(
                f"lattice: bond {pair!r} of kind {kind!r} is not a pair of site indices"
            )
        sites = int(pair[0]), int(pair[1])
        bond = (min(sites), max(sites))
        if bond[0] == bond[1] or bond[0] < 0 or bond[1] >= n_sites:
            raise ValueError(
                f"lattice: bond {sites} of kind {kind!r} must join two different sites "
                f"out of 0..{n_sites - 1}"
            )
        if bond in bonds:
            raise ValueError(
                f"lattice: bond {bond} of kind {kind!r} is given twice; a pair carries one bond "
                "of a kind, so give it once, with twice the coupling if that is meant"
            )
        bonds[bond] = sites
    return tuple(bonds.values())


def _check_coordinates(coordinates: Any, n_sites: int) -> np.ndarray | None:
    """Give (y, x) of positions (x, y)."""
    if coordinates is None:
        return None
    try:
        positions = np.array(coordinates, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("lattice: coordinates are not one (x, y) per site") from None
    expected = (n_sites, 2)
    if positions.shape != expected or not np.isfinite(positions).all():
        raise ValueError(
            f"lattice: coordinates of shape {positions.shape}; they must be finite numbers of "
            f"shape {expected}, one (x, y) per site"
        )
    return np.ascontiguousarray(positions[:, ::-1])
