"""Symmetries of a lattice: rearrangements of its sites that keep every bond."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tnvmc.lattice.lattice import Lattice


@dataclass(frozen=True)
class Permutation:
    """A rearrangement g of sites: (g s)_i = s_sites[i] for a configuration s."""

    name: str
    sites: tuple[int, ...]


def point_group(lattice: Lattice) -> tuple[Permutation, ...]:
    """Give the reflections and rotations of the grid that map the bonds of each kind on themselves.

    The grid of a square has eight (C4v), of a rectangle four (C2v), of a chain two; what the
    bonds break is left out (Shastry-Sutherland dimers leave two of eight), and what moves
    nothing is given once (a chain has no rows to reflect).  The identity comes first.  Periodic
    lattices have translations beside these; they are not given.  Couplings are those of a
    Hamiltonian: see `tnvmc.operators.symmetry`.
    """
    found: dict[tuple[int, ...], Permutation] = {}
    for permutation in _grid_symmetries(lattice.shape):
        if permutation.sites not in found and keeps_bonds(lattice, permutation):
            found[permutation.sites] = permutation
    return tuple(found.values())


def keeps_bonds(lattice: Lattice, permutation: Permutation) -> bool:
    """Tell whether the bonds of each kind are the same bonds after the rearrangement."""
    place = np.argsort(permutation.sites)
    return all(
        {tuple(sorted((int(place[i]), int(place[j])))) for i, j in bonds} == set(bonds)
        for bonds in lattice.bonds.values()
    )


def _grid_symmetries(shape: tuple[int, int]) -> Iterator[Permutation]:
    """All that a grid may have; the names say what happens to a picture of the configuration."""
    grid = np.arange(shape[0] * shape[1]).reshape(shape)
    moved = {
        "identity": grid,
        "left-right reflection": grid[:, ::-1],
        "up-down reflection": grid[::-1],
        "half turn": grid[::-1, ::-1],
    }
    if shape[0] == shape[1]:
        moved |= {
            "diagonal reflection": grid.T,
            "antidiagonal reflection": grid[::-1, ::-1].T,
            "left quarter turn": np.rot90(grid),
            "right quarter turn": np.rot90(grid, -1),
        }
    for name, picture in moved.items():
        yield Permutation(name, tuple(int(site) for site in picture.ravel()))
