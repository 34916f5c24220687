"""Graphs of NetKet (Vicentini et al., SciPost Phys. Codebases 7, 2022) as lattices.

NetKet is imported only when one of its objects is handed over.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from tnvmc.lattice.custom import from_bonds
from tnvmc.lattice.grids import chain, square
from tnvmc.lattice.lattice import Lattice

PACKAGE = "netket"

Bond = tuple[int, int]
Kinds = dict[str, tuple[Bond, ...]]

_BY_DISTANCE = ("nearest", "diagonal")  # kinds of the shortest bonds and of the next ones
_SAME = 1e-9  # lattice constants: rounding of positions that NetKet computes


def made_by(package: str, value: object) -> bool:
    """Tell whether an object's class, or one that it is derived from, is of a package."""
    return any(kind.__module__.split(".")[0] == package for kind in type(value).__mro__)


def as_lattice(value: Any) -> Any:
    """Give the lattice of a NetKet graph; anything else comes back as it is."""
    return from_graph(value) if made_by(PACKAGE, value) else value


def from_graph(graph: Any) -> Lattice:
    """Give the lattice of a NetKet graph: the same sites, numbered alike, and the same bonds.

    Bonds of one colour are of kind "nearest".  Of several, "nearest" and "diagonal" are those of the two
    shortest distances, where each colour has a distance of its own (`max_neighbor_order`); colours that
    mean something else are called "color 0", "color 1", ...

    Chains and square grids become `chain` and `square`, with their boundary and diagonals.  Another lattice of
    one or two dimensions lies on a grid, a row for each step along its first basis vector, and has its
    positions as coordinates if its boundaries are open: distances over a boundary are not known.  Any
    other graph is a list of bonds, which a PEPS takes only where they follow the numbering.

    Args:
        graph: `netket.graph.Lattice` (Grid, Square, Chain, Honeycomb, Kagome, ...) or `Graph`.

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
    """Bonds by kind; a pair that NetKet lists twice it also counts twice, and `from_bonds` refuses it."""
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
    """Rows and columns of a lattice of one or two dimensions whose sites are numbered row by row."""
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
