"""Sites, coordinates and bonds."""

import itertools
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tnvmc.backend.arguments import is_whole, refuse, unmasked, whole
from tnvmc.shown import Table

Patch = tuple[int, ...]
"""Sites that a term, a replacement or a move acts on, in increasing order of site index."""

Boundary = Literal["open", "cylinder", "periodic"]

_UNIT_CELL = ((1.0, 0.0), (0.0, 1.0))

LISTED = ("custom", "graph")
"""Kinds of lattices that were made from a list of bonds, with a grid and without."""


SAME = 1e-6  # a difference of distances that is rounding
_NEAR = 2  # a chain with next-nearest neighbours, or a ladder counted rung by rung


@dataclass(frozen=True, eq=False)
class Lattice:
    """N sites on an n_rows x n_cols grid, which is that of a PEPS, and bonds by kind.

    Sites are numbered row by row; a `vacant` place of the grid has no site and is not counted.  A
    pair of sites carries at most one bond of a kind.  Two lattices are equal when their grid,
    boundary, coordinates and bonds are.
    """

    kind: str
    shape: tuple[int, int]  #: (n_rows, n_cols)
    boundary: Boundary  #: "cylinder": the rows are rings, the columns are open
    coordinates: np.ndarray | None = field(repr=False)
    """(N, 2), (y, x) in lattice constants; None for a list of bonds without."""
    bonds: Mapping[str, tuple[Patch, ...]] = field(repr=False)  #: {"nearest": ((0, 1), ...), ...}
    directions: Mapping[str, tuple[Patch, ...]] | None = field(default=None, repr=False)
    """Of a list of bonds: each bond as it was given, in the order of `bonds`."""
    vacant: tuple[int, ...] = ()  #: places row * n_cols + column of the grid without a site
    cell: tuple[tuple[float, float], tuple[float, float]] = field(default=_UNIT_CELL, repr=False)
    """(y, x) that one row, and one column, lead further: what periodic boundaries repeat."""
    period: tuple[tuple[int, int], tuple[int, int]] | None = field(default=None, repr=False)
    """(rows, columns) of the two shortest translations, of a lattice with hexagonal zones."""

    @property
    def n_rows(self) -> int:
        """Number of rows of the grid."""
        return self.shape[0]

    @property
    def n_cols(self) -> int:
        """Number of columns of the grid."""
        return self.shape[1]

    @cached_property
    def n_sites(self) -> int:
        """Number of sites N."""
        return self.shape[0] * self.shape[1] - len(self.vacant)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Place row * n_cols + column of each site on the grid, in increasing order."""
        empty = frozenset(self.vacant)
        return tuple(p for p in range(self.shape[0] * self.shape[1]) if p not in empty)

    @property
    def grid(self) -> tuple[tuple[int, int], tuple[int, ...]]:
        """Shape and vacant places, which say how sites are numbered."""
        return self.shape, self.vacant

    @property
    def size(self) -> str:
        """The grid in words: "4 x 4", "4 x 4 less 4"."""
        empty = f" less {len(self.vacant)}" if self.vacant else ""
        return f"{self.n_rows} x {self.n_cols}{empty}"

    @property
    def periodic(self) -> tuple[bool, bool]:
        """Whether the columns, and the rows, are rings."""
        return self.boundary == "periodic", self.boundary != "open"

    @property
    def on_grid(self) -> bool:
        """Whether the sites lie at the points of the grid."""
        return self.coordinates is not None and np.array_equal(
            self.coordinates, grid_coordinates(self.shape)
        )

    def directed(self, kind: str) -> tuple[Patch, ...] | None:
        """Give the bonds of a kind as (from, to), None where their directions are not known.

        Those of a list lead as they were given; those of a grid down, or to the right within a row,
        and over the boundary where they close a ring.
        """
        if self.directions is not None:
            return self.directions[kind]
        if self.kind in LISTED:
            return None
        turns, shortest = self._ways_round(kind)
        bonds = np.reshape(self.bonds[kind], (-1, 2)).astype(int)
        ends = np.stack(np.divmod(np.array(self.places)[bonds], self.n_cols), axis=-1)
        steps = ends[:, 1] - ends[:, 0] + turns[shortest.argmax(axis=0)] * self.shape
        signs = [1 if step > [0, 0] else -1 for step in steps.tolist()]
        return tuple(bond[::sign] for bond, sign in zip(self.bonds[kind], signs, strict=True))

    def joined_twice(self, kind: str) -> tuple[Patch, ...]:
        """Give the bonds of a kind whose sites are as near the other way round a short ring."""
        if self.coordinates is None or self.boundary == "open" or not self.bonds[kind]:
            return ()
        both = self._ways_round(kind)[1].sum(axis=0) > 1
        return tuple(itertools.compress(self.bonds[kind], both))

    def _ways_round(self, kind: str) -> tuple[np.ndarray, np.ndarray]:
        """Turns round the rings (T, 2), none first, and whether each bond is shortest so (T, B)."""
        ends = np.asarray(self.coordinates)[np.reshape(self.bonds[kind], (-1, 2)).astype(int)]
        ways = ([0, 1, -1] if ring else [0] for ring in self.periodic)
        turns = np.array([*itertools.product(*ways)])
        apart = ends[:, 1] - ends[:, 0] + (turns * self.shape @ self.cell)[:, None]
        lengths = np.linalg.norm(apart, axis=-1)
        return turns, lengths < lengths.min(axis=0) + SAME

    def positions(self) -> np.ndarray:
        """Give (x, y) of every site, (N, 2); ValueError for a list of bonds without coordinates."""
        if self.coordinates is None:
            raise ValueError(
                "lattice: distances are asked for, and this list of bonds has no coordinates; give "
                "from_bonds(..., coordinates=[(x, y), ...]), in a file lattice.coordinates"
            )
        return self.coordinates[:, ::-1]

    def distances(self) -> np.ndarray:
        """Give all distances between sites, (N, N), the shorter way round a periodic direction."""
        points = self.positions()[:, ::-1]
        return separations(points[:, None, :] - points[None, :, :], self)

    def _repr_html_(self) -> str:
        rows = [("sites", f"{self.size} = {self.n_sites}")]
        rows += [(f"{kind} bonds", str(len(bonds))) for kind, bonds in self.bonds.items()]
        return Table(f"{self.kind} lattice, {self.boundary}", ("", ""), rows).html()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lattice):
            return NotImplemented
        return (
            self.shape == other.shape
            and self.boundary == other.boundary
            and (self.vacant, self.cell) == (other.vacant, other.cell)
            and dict(self.bonds) == dict(other.bonds)
            and np.array_equal(np.asarray(self.coordinates), np.asarray(other.coordinates))
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.boundary))


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
    empty = check_vacant(vacant, grid)
    n_sites = grid[0] * grid[1] - len(empty)
    kinds = bonds if isinstance(bonds, Mapping) else {"nearest": bonds}
    if "all" in kinds:
        why = "lattice: a kind of bonds is called 'all', which means all sites; rename it"
        raise ValueError(why)
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


def check_vacant(vacant: Iterable[int], shape: tuple[int, int]) -> tuple[int, ...]:
    """Give the places in increasing order; ValueError for one off the grid, or for all of them."""
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
            raise ValueError(f"lattice: bond {pair!r} of kind {kind!r} is not a pair of sites")
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
        positions = unmasked("lattice: coordinates", coordinates).astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError("lattice: coordinates are not one (x, y) per site, or masked") from None
    expected = (n_sites, 2)
    if positions.shape != expected or not np.isfinite(positions).all():
        raise ValueError(
            f"lattice: coordinates of shape {positions.shape}; they must be finite numbers of "
            f"shape {expected}, one (x, y) per site"
        )
    return np.ascontiguousarray(positions[:, ::-1])


def separations(offsets: np.ndarray, lattice: Lattice) -> np.ndarray:
    """Give the lengths (...) of offsets (..., 2), see `nearest_images`."""
    return np.asarray(np.linalg.norm(nearest_images(offsets, lattice), axis=-1))


def nearest_images(offsets: np.ndarray, lattice: Lattice) -> np.ndarray:
    """Give offsets (..., 2) in (y, x) the shortest way round a periodic boundary: (..., 2)."""
    down, right = (
        np.multiply(step, length) for step, length in zip(lattice.cell, lattice.shape, strict=True)
    )
    turns = np.zeros(1)
    if lattice.periodic[0]:
        # a row of images further away than the ring is long cannot hold the nearest one
        most = 1 + math.ceil(right[1] / (2 * down[0]))
        turns = np.arange(-most, most + 1.0)
    images = offsets[..., None, :] + turns[:, None] * down
    if lattice.periodic[1]:
        images[..., 1] -= right[1] * np.round(images[..., 1] / right[1])
    nearest = (images**2).sum(axis=-1).argmin(axis=-1)
    return np.take_along_axis(images, nearest[..., None, None], axis=-2)[..., 0, :]


def grid_coordinates(shape: tuple[int, int]) -> np.ndarray:
    """Give (row, column) of every site of a grid as floats: (N, 2)."""
    rows, cols = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    return np.stack([rows, cols], axis=1).astype(np.float64)


def spanning_tree(start: int, bonds: Iterable[Patch]) -> dict[int, int]:
    """Give all that bonds join with a site or place, breadth first, each with the one before it.

    The first is `start` itself.
    """
    neighbours: dict[int, list[int]] = defaultdict(list)
    for i, j in bonds:
        neighbours[i].append(j)
        neighbours[j].append(i)
    before, waiting = {start: start}, deque([start])
    while waiting:
        here = waiting.popleft()
        new = [other for other in neighbours[here] if other not in before]
        before.update(dict.fromkeys(new, here))
        waiting += new
    return before


def require_lattice(where: str, value: Any) -> None:
    """Raise TypeError, with what to write, for what is no lattice."""
    hint = ""
    match value:
        case Lattice():
            return
        case _ if is_whole(value):
            hint = f"write chain({value})"
        case [rows, columns] if is_whole(rows) and is_whole(columns):
            hint = f"write square({rows}, {columns})"
        case object(lattice=Lattice()):
            hint = "its .lattice is one"
        case _ if callable(value):
            hint = f"call it with its sizes, as {getattr(value, '__name__', 'square')}(4, 4)"
    raise refuse(where, "lattice", value, "a Lattice, as square(4, 4) or chain(10)", hint)


def require_full_grid(where: str, lattice: Lattice) -> None:
    """Raise ValueError for a lattice with vacant places, of what needs a spin at every place."""
    if lattice.vacant:
        raise ValueError(
            f"{where}: the {lattice.kind} lattice leaves {len(lattice.vacant)} places of its grid "
            f"of {lattice.n_rows} x {lattice.n_cols} without a spin, and this wave function reads "
            "the whole grid; take PEPS, or a network without one: RBM, RNN with order = "
            "'snake'"
        )


def check_boundary(value: str, allowed: tuple[Boundary, ...]) -> Boundary:
    """Give back the name of a boundary condition; ValueError unless it is one of `allowed`."""
    for name in allowed:
        if value == name:
            return name
    meant = {"pbc": "periodic", "torus": "periodic", "ring": "periodic", "obc": "open"}
    word = meant.get(str(value).lower(), "")
    hint = f"; did you mean {word!r}?" if word in allowed else ""
    raise ValueError(f"lattice: boundary is {value!r}; must be one of {', '.join(allowed)}{hint}")
