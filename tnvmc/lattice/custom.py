"""Lattices from lists of bonds, and from graphs of NetKet (SciPost Phys. Codebases 7, 2022).

NetKet is imported only when one of its objects is handed over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from tnvmc.backend.arguments import is_whole, whole
from tnvmc.lattice.grids import chain, square
from tnvmc.lattice.lattice import Lattice, Patch

Bond = tuple[int, int]
Kinds = dict[str, tuple[Bond, ...]]

_BY_DISTANCE = ("nearest", "diagonal")  # kinds of the shortest bonds and of the next ones
_SAME = 1e-9  # lattice constants: rounding of positions that NetKet computes
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
    if not isinstance(shape, tuple | list) or len(shape) != 2:
        raise ValueError(f"lattice: shape is {shape!r}; give a number of sites or (n_rows, n_cols)")
    return whole("lattice", "n_rows", shape[0]), whole("lattice", "n_cols", shape[1])


def _check_vacant(vacant: Iterable[int], shape: tuple[int, int]) -> tuple[int, ...]:
    n_places = shape[0] * shape[1]
    given = list(vacant) if isinstance(vacant, Iterable) else [vacant]
    for place in given:
        if not is_whole(place):
            raise ValueError(f"lattice: vacant place {place!r} is no place row * n_cols + column")
        if not 0 <= place < n_places:
            raise ValueError(
                f"lattice: vacant place {place} is not on the grid of {shape[0]} x {shape[1]}, "
                f"whose places are 0..{n_places - 1}"
            )
    found = tuple(sorted({int(place) for place in given}))
    if len(found) != len(given) or len(found) == n_places:
        raise ValueError(
            f"lattice: {len(given)} vacant places of {n_places}; give each once, and leave a site"
        )
    return found


def _check_bonds(kind: str, pairs: Iterable[tuple[int, int]], n_sites: int) -> tuple[Patch, ...]:
    bonds: dict[Patch, Patch] = {}
    if not isinstance(pairs, Iterable):
        raise ValueError(  # noqa: TRY004
            f"lattice: bonds of kind {kind!r} are a list of pairs, got {pairs!r}"
        )
    for pair in pairs:
        sites: tuple[Any, ...] = tuple(pair) if isinstance(pair, Iterable) else ()
        if len(sites) != 2 or not all(map(is_whole, sites)):
            raise ValueError(
                f"lattice: bond {pair!r} of kind {kind!r} is not a pair of site indices"
            )
        sites = int(sites[0]), int(sites[1])
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


# --- graphs of NetKet


def made_by(package: str, value: object) -> bool:
    """Tell whether an object's class, or one that it is derived from, is of a package."""
    return any(kind.__module__.split(".")[0] == package for kind in type(value).__mro__)


def as_lattice(value: Any) -> Any:
    """Give the lattice of a NetKet graph; anything else comes back as it is."""
    return from_graph(value) if made_by("netket", value) else value


def from_graph(graph: Any) -> Lattice:
    """Give the lattice of a NetKet graph: the same sites, numbered alike, and the same bonds.

    Bonds of one colour are of kind "nearest".  Of several, "nearest" and "diagonal" are those of
    the two shortest distances, where each colour has a distance of its own (`max_neighbor_order`);
    others are called "color 0", "color 1", ...

    Chains and square grids become `chain` and `square`, with their boundary and diagonals.  Another
    lattice of one or two dimensions lies on a grid, a row for each step along its first basis
    vector, and has coordinates if its boundaries are open.  Any other graph is a list of bonds.

    Raises:
        TypeError: no graph.
        ValueError: a graph without sites, a bond from a site to itself or given twice.
    """
    import netket

    if not isinstance(graph, netket.graph.AbstractGraph):
        raise TypeError(
            f"a lattice is expected, {type(graph).__name__} of NetKet is no graph; give "
            "hamiltonian.lattice, a Lattice, or a netket.graph"
        )
    bonds = _bonds(graph)
    shape = _shape(graph)
    if shape is None:
        return from_bonds(int(graph.n_nodes), bonds)
    regular = _regular(graph, bonds)
    if regular is not None:
        return regular
    positions = np.asarray(graph.positions, dtype=np.float64)
    if positions.shape[1] == 1:
        positions = np.stack([positions[:, 0], np.zeros(len(positions))], axis=1)
    return from_bonds(shape, bonds, None if any(graph.pbc) else positions)


def _bonds(graph: Any) -> Kinds:
    """Bonds by kind; a pair that is listed twice, `from_bonds` refuses."""
    by_color: dict[int, list[Bond]] = {}
    for i, j, color in graph.edges(return_color=True):
        by_color.setdefault(int(color), []).append((min(i, j), max(i, j)))
    colors = sorted(by_color)
    names = [f"color {color}" for color in colors]
    if len(colors) < 2:
        names = ["nearest"]
    elif _ordered_by_distance(graph, [by_color[color] for color in colors]):
        names = [*_BY_DISTANCE, *(f"distance {n}" for n in range(3, len(colors) + 1))]
    found = {name: tuple(sorted(by_color[c])) for name, c in zip(names, colors, strict=False)}
    return found or {"nearest": ()}


def _ordered_by_distance(graph: Any, bonds: list[list[Bond]]) -> bool:
    """Whether the bonds of each colour have one length, and later colours longer ones."""
    if not hasattr(graph, "positions"):
        return False
    lengths = [_length(graph, pairs) for pairs in bonds]
    return all(b - a > _SAME for a, b in pairwise(lengths))


def _length(graph: Any, pairs: list[Bond]) -> float:
    """The length of bonds, the shorter way round; NaN if they have several."""
    positions = np.asarray(graph.positions)
    steps = np.array([positions[j] - positions[i] for i, j in pairs])
    shortest = np.linalg.norm(steps, axis=1)
    periods = np.asarray(graph.basis_vectors) * np.asarray(graph.extent)[:, None]
    wraps = [(-1, 0, 1) if periodic else (0,) for periodic in graph.pbc]
    for times in np.stack(np.meshgrid(*wraps, indexing="ij"), axis=-1).reshape(-1, len(wraps)):
        shortest = np.minimum(shortest, np.linalg.norm(steps + times @ periods, axis=1))
    return float(shortest[0]) if np.ptp(shortest) < _SAME else math.nan


def _shape(graph: Any) -> tuple[int, int] | None:
    """Rows and columns of a lattice whose sites are numbered row by row."""
    if not hasattr(graph, "basis_coords") or graph.ndim > 2:
        return None
    cells = np.asarray(graph.basis_coords)
    if not np.array_equal(cells, cells[np.lexsort(cells.T[::-1])]):
        return None
    n_sites, rows = int(graph.n_nodes), int(graph.extent[0]) if graph.ndim > 1 else 1
    return rows, n_sites // rows


def _regular(graph: Any, bonds: Kinds) -> Lattice | None:
    """The `chain` or `square` that the graph is, if it is one."""
    directions = np.asarray(graph.basis_vectors)
    if len(graph.site_offsets) != 1 or not np.allclose(directions, np.eye(graph.ndim)):
        return None
    pbc = [bool(wraps) and n > 2 for wraps, n in zip(graph.pbc, graph.extent, strict=True)]
    rows, cols = _shape(graph) or (0, 0)
    if len(pbc) == 1:
        found = chain(cols, "periodic" if pbc[0] else "open")
    elif pbc == [True, False]:
        return None  # rings along the columns: a cylinder here has them along the rows
    else:
        found = square(rows, cols, "periodic" if pbc[0] else "cylinder" if pbc[1] else "open")
    alike = all(set(pairs) == set(found.bonds.get(kind, ())) for kind, pairs in bonds.items())
    return found if alike else None
