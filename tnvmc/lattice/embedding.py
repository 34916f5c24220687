"""How a lattice lies on the grid of a PEPS: places of its sites, and the bonds of the network."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tnvmc.backend.namespace import array_namespace
from tnvmc.lattice.lattice import LISTED, Lattice, Patch, spanning_tree

Array = Any

UP, LEFT, DOWN, RIGHT = range(4)  # a leg's opposite is (leg + 2) % 4


@dataclass(frozen=True)
class Embedding:
    """Places of the sites on the grid, and the bonds of the network, between neighbouring places.

    All other bonds of the grid have dimension 1, and a vacant place holds no parameters.
    """

    shape: tuple[int, int]
    places: tuple[int, ...]  #: of each site, increasing
    bonds: frozenset[Patch]  #: pairs of places, (smaller, larger)
    rings: bool = False  #: whether bonds lead from the last column to the first

    @cached_property
    def n_vacant(self) -> int:
        """Places without a site."""
        return self.shape[0] * self.shape[1] - len(self.places)

    @property
    def complete(self) -> bool:
        """Whether every two neighbouring places are joined."""
        n_rows, n_cols = self.shape
        closing = n_rows if self.rings else 0
        return len(self.bonds) == 2 * n_rows * n_cols - n_rows - n_cols + closing

    @cached_property
    def by_rows(self) -> bool:
        """Whether rows alone are contracted: of rings, and where one bond at most joins two rows,
        so that nothing is truncated between them.
        """
        between = Counter(a // self.shape[1] for a, b in self.bonds if b - a == self.shape[1])
        return self.rings or all(n < 2 for n in between.values())

    def joins(self, place: int, leg: int) -> bool:
        """Whether a bond leads from a place along a leg (up, left, down, right)."""
        other = self.beyond(place, leg)
        return other is not None and (min(place, other), max(place, other)) in self.bonds

    def beyond(self, place: int, leg: int) -> int | None:
        """The place along a leg, around the ring where rows are rings; None beyond the rim."""
        n_rows, n_cols = self.shape
        row, column = divmod(place, n_cols)
        row += {UP: -1, DOWN: 1}.get(leg, 0)
        column += {LEFT: -1, RIGHT: 1}.get(leg, 0)
        if self.rings:
            column %= n_cols
        inside = 0 <= row < n_rows and 0 <= column < n_cols
        return row * n_cols + column if inside else None

    @cached_property
    def site_at(self) -> tuple[int, ...]:
        """The site of each place, N where there is none."""
        sites = {place: site for site, place in enumerate(self.places)}
        return tuple(sites.get(p, len(self.places)) for p in range(self.shape[0] * self.shape[1]))

    def filled(self, tensors: Sequence[Array]) -> list[Array]:
        """Tensors of all places from those (d, up, left, down, right) of the sites.

        A vacant place holds the local state 0 for certain, in bonds of size 1.
        """
        if not self.n_vacant:
            return list(tensors)
        xp = array_namespace(tensors[0])
        empty = xp.zeros((tensors[0].shape[0], 1, 1, 1, 1), dtype=tensors[0].dtype)
        empty[0, ...] = 1
        return [tensors[site] if site < len(tensors) else empty for site in self.site_at]

    @cached_property
    def orders(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The site of each place row by row, and column by column; N where there is none."""
        n_rows, n_cols = self.shape
        by_columns = (row * n_cols + c for c in range(n_cols) for row in range(n_rows))
        return self.site_at, tuple(self.site_at[place] for place in by_columns)

    def on_grid(self, configs: Array, by_columns: bool = False) -> Array:
        """Configurations (B, places), by rows or by columns, from those (B, N) of the sites."""
        if by_columns or self.n_vacant:
            xp = array_namespace(configs)
            if self.n_vacant:
                nothing = xp.zeros((configs.shape[0], 1), dtype=configs.dtype)
                configs = xp.concat([configs, nothing], axis=1)
            configs = xp.take(configs, xp.asarray(self.orders[by_columns]), axis=1)
        return configs

    def off_grid(self, configs: Array, by_columns: bool = False) -> Array:
        """The inverse of `on_grid`."""
        if by_columns or self.n_vacant:
            xp, order = array_namespace(configs), self.orders[by_columns]
            places = [order.index(site) for site in range(len(self.places))]
            configs = xp.take(configs, xp.asarray(places), axis=1)
        return configs

    def placed(self, patch: Patch) -> Patch:
        """The places of sites."""
        return tuple(self.places[site] for site in patch)

    def served(self, patches: Iterable[Patch]) -> tuple[int, int, int]:
        """Count patches of several sites: on bonds of the network, in two rows, farther ones."""
        counts = [0, 0, 0]
        for patch in map(self.placed, patches):
            rows = [place // self.shape[1] for place in patch]
            if len(patch) > 1:
                counts[0 if patch in self.bonds else 1 if max(rows) - min(rows) < 2 else 2] += 1
        return counts[0], counts[1], counts[2]


Bonds = Literal["open", "periodic", "snake", "path"]
"""Of a network: "periodic", rows are rings; "snake", a matrix product state along the rows and
back; "path", the same in one row, where no place has four legs."""


def embedding(lattice: Lattice, bonds: Bonds = "open") -> Embedding:
    """Lay a lattice on its grid, with bonds that end at the rim, or close the rows of a cylinder.

    A bond of the grid is used where the lattice joins its sites: by a bond of kind "nearest", in a
    list by one of any kind.  If these alone would leave the network in parts, all bonds between
    neighbouring sites are used.
    """
    if bonds in ("snake", "path"):
        path, shape, places = snake(lattice.shape), lattice.shape, lattice.places
        if bonds == "path":
            path, shape, places = sorted(path), (1, len(path)), tuple(map(path.index, places))
        along = frozenset((min(pair), max(pair)) for pair in itertools.pairwise(path))
        return Embedding(shape, places, along)
    rings = bonds == "periodic"
    near = _grid_bonds(lattice) | (_closing_bonds(lattice) if rings else set())
    every = [bond for of_kind in lattice.bonds.values() for bond in of_kind]
    wanted = every if lattice.kind in LISTED else lattice.bonds["nearest"]
    used = near & {(lattice.places[i], lattice.places[j]) for i, j in wanted}
    connected = len(spanning_tree(lattice.places[0], used)) == len(lattice.places)
    chosen = used if connected else near
    return Embedding(lattice.shape, lattice.places, frozenset(chosen), rings)


def snake(shape: tuple[int, int]) -> list[int]:
    """Give the places of a grid along the first row, back along the second, and so on."""
    rows = np.arange(shape[0] * shape[1]).reshape(shape)
    rows[1::2] = rows[1::2, ::-1].copy()
    return [int(place) for place in rows.ravel()]


def sides(found: Embedding) -> dict[Patch, int]:
    """Give the number of sites on the smaller side of each bond that alone joins two parts.

    Such a bond cannot be filled beyond d to that power.  Cost N for each bond.
    """
    if found.complete and (1 not in found.shape or found.rings):
        return {}  # no bond of such a grid stands alone
    apart: dict[Patch, int] = {}
    for bond in found.bonds:
        reached = len(spanning_tree(bond[0], found.bonds - {bond}))
        if reached < len(found.places):
            apart[bond] = min(reached, len(found.places) - reached)
    return apart


def _grid_bonds(lattice: Lattice) -> set[Patch]:
    """Pairs of neighbouring places that both have a site."""
    n_cols, taken = lattice.n_cols, set(lattice.places)
    right = {(p, p + 1) for p in taken if (p + 1) % n_cols and p + 1 in taken}
    return right | {(p, p + n_cols) for p in taken if p + n_cols in taken}


def _closing_bonds(lattice: Lattice) -> set[Patch]:
    """First and last place of every row, where both have a site."""
    n_cols, taken = lattice.n_cols, set(lattice.places)
    ends = {(row * n_cols, (row + 1) * n_cols - 1) for row in range(lattice.n_rows)}
    return {(first, last) for first, last in ends if first in taken and last in taken}
