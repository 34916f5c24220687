"""A lattice from an explicit list of bonds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tnvmc.backend.calls import spelt
from tnvmc.lattice.lattice import Lattice, Patch, check_length


@spelt()
def from_bonds(
    shape: int | tuple[int, int],
    bonds: Iterable[tuple[int, int]] | Mapping[str, Iterable[tuple[int, int]]],
    coordinates: Any = None,
    vacant: Iterable[int] = (),
) -> Lattice:
    """Build a lattice from pairs of sites.

    A honeycomb of one hexagon, as two rows of three sites (the grid is that of a PEPS)::

        from_bonds(
            (2, 3),
            [(0, 1), (1, 2), (2, 5), (5, 4), (4, 3), (3, 0)],
            coordinates=[(-0.87, 0.5), (0, 1), (0.87, 0.5), (-0.87, -0.5), (0, -1), (0.87, -0.5)],
        )

    Args:
        shape: (n_rows, n_cols), or a number of sites N: one row of N, a graph without a grid, which
            a PEPS takes only where its bonds follow the row (`follows_row`).
        bonds: a list of pairs (of kind "nearest" then) or a mapping from kind to pairs.  The order of
            bonds is kept, and so is the direction of each for products that have one ("Sx Sy - Sy Sx").
        coordinates: positions (x, y) of the sites, (N, 2), in lattice constants.  Distances, S(q) and
            pictures are made of them, and left out without them.
        vacant: places row * n_cols + column of the grid that have no site; the sites are the others, numbered
            row by row.  So a lattice whose bonds leave holes lies on the grid of a PEPS.

    The boundary is called "open", whatever the bonds join: distances are those of the coordinates.

    Raises:
        ValueError: a site that is not on the lattice, a bond from a site to itself, a bond
            given twice, coordinates of another shape or not finite, a kind called "all", a
            vacant place off the grid or given twice, none left.
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
        kind="graph" if isinstance(shape, int | np.integer) else "custom",
        shape=grid,
        boundary="open",
        coordinates=_check_coordinates(coordinates, n_sites),
        bonds={
            kind: tuple((min(pair), max(pair)) for pair in pairs) for kind, pairs in given.items()
        },
        directions=given,
        vacant=empty,
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


def _check_vacant(vacant: Iterable[int], shape: tuple[int, int]) -> tuple[int, ...]:
    n_places = shape[0] * shape[1]
    given = list(vacant) if isinstance(vacant, Iterable) else [vacant]
    for place in given:
        if isinstance(place, bool) or not isinstance(place, int | np.integer):
            raise ValueError(f"lattice: vacant place {place!r} is no place row * n_cols + column")  # noqa: TRY004
        if not 0 <= place < n_places:
            raise ValueError(
                f"lattice: vacant place {place} is not on the grid of {shape[0]} x {shape[1]}, whose places are "
                f"0..{n_places - 1}"
            )
    found = tuple(sorted({int(place) for place in given}))
    if len(found) != len(given) or len(found) == n_places:
        raise ValueError(
            f"lattice: {len(given)} vacant places of {n_places}; give each once, and leave a site"
        )
    return found


def _check_bonds(kind: str, pairs: Iterable[tuple[int, int]], n_sites: int) -> tuple[Patch, ...]:
    bonds: list[Patch] = []
    seen: set[Patch] = set()
    if not isinstance(pairs, Iterable):
        raise ValueError(f"lattice: bonds of kind {kind!r} are a list of pairs, got {pairs!r}")  # noqa: TRY004
    for pair in pairs:
        sites = _check_pair(kind, pair)
        if sites[0] == sites[1] or min(sites) < 0 or max(sites) >= n_sites:
            raise ValueError(
                f"lattice: bond {sites} of kind {kind!r} must join two different sites "
                f"out of 0..{n_sites - 1}"
            )
        bond = (min(sites), max(sites))
        if bond in seen:
            raise ValueError(
                f"lattice: bond {bond} of kind {kind!r} is given twice; a pair carries one bond "
                "of a kind, so give it once, with twice the coupling if that is meant"
            )
        seen.add(bond)
        bonds.append(sites)
    return tuple(bonds)


def _check_pair(kind: str, pair: Iterable[int]) -> tuple[int, int]:
    sites: tuple[Any, ...] = tuple(pair) if isinstance(pair, Iterable) else ()
    numbers = all(
        isinstance(site, int | np.integer) and not isinstance(site, bool) for site in sites
    )
    if len(sites) != 2 or not numbers:
        raise ValueError(f"lattice: bond {pair!r} of kind {kind!r} is not a pair of site indices")
    return int(sites[0]), int(sites[1])


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
