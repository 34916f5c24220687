"""Symmetries of a lattice, which rearrange its sites and keep every bond, and its sublattices."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tnvmc.lattice.lattice import Lattice, Patch

_IDENTITY = "identity"


@dataclass(frozen=True)
class Permutation:
    """A rearrangement g of sites: (g s)_i = s_sites[i] for a configuration s."""

    name: str
    sites: tuple[int, ...]


def point_group(lattice: Lattice) -> tuple[Permutation, ...]:
    """Give the reflections and rotations of the grid that map the bonds of each kind on themselves.

    The grid of a square has eight (C4v), of a rectangle four (C2v), of a chain two; what bonds or
    vacant places break is left out.  Rotations by 60 degrees are not among them.  The identity
    comes first.  Couplings are not looked at: see `tnvmc.operators.symmetry`.
    """
    return _kept(lattice, _grid_symmetries(lattice))


def translations(lattice: Lattice) -> tuple[Permutation, ...]:
    """Give the translations along periodic directions that keep the bonds of each kind.

    All N of a torus, n_cols of a cylinder or ring, the identity alone of an open lattice.
    """
    return _kept(lattice, _shifts(lattice))


def space_group(lattice: Lattice) -> tuple[Permutation, ...]:
    """Give all products of a reflection or rotation and a translation that keep the bonds.

    Also those of which neither factor keeps them.  The identity comes first.
    """
    shifts = tuple(_shifts(lattice))
    return _kept(lattice, (_after(shift, g) for shift in shifts for g in _grid_symmetries(lattice)))


def _kept(lattice: Lattice, candidates: Iterable[Permutation]) -> tuple[Permutation, ...]:
    """Those that keep the bonds, each rearrangement once, under its first name."""
    found: dict[tuple[int, ...], Permutation] = {}
    for permutation in candidates:
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


def _shifts(lattice: Lattice) -> Iterator[Permutation]:
    """All translations of the grid that its periodic directions allow."""
    grid = _numbered(lattice)
    lengths = [n if wraps else 1 for n, wraps in zip(lattice.shape, lattice.periodic, strict=True)]
    for down, right in itertools.product(*map(range, lengths)):
        name = f"translation by ({down}, {right})" if down or right else _IDENTITY
        yield from _of_picture(name, np.roll(grid, (down, right), axis=(0, 1)), lattice)


def _after(second: Permutation, first: Permutation) -> Permutation:
    """The product: `first`, then `second`."""
    parts = [g.name for g in (first, second) if g.name != _IDENTITY]
    name = ", then ".join(parts) or _IDENTITY
    return Permutation(name, tuple(first.sites[i] for i in second.sites))


def _numbered(lattice: Lattice) -> np.ndarray:
    """The grid with the index of the site at each place, -1 where there is none."""
    grid = np.full(lattice.shape[0] * lattice.shape[1], -1)
    grid[list(lattice.places)] = np.arange(lattice.n_sites)
    return grid.reshape(lattice.shape)


def _of_picture(name: str, picture: np.ndarray, lattice: Lattice) -> Iterator[Permutation]:
    """The rearrangement that a moved grid shows, if no site has moved to a vacant place."""
    sites = picture.ravel()[list(lattice.places)]
    if (sites >= 0).all():
        yield Permutation(name, tuple(int(site) for site in sites))


def _grid_symmetries(lattice: Lattice) -> Iterator[Permutation]:
    """All that a grid may have; the names say what happens to a picture of the configuration."""
    grid, shape = _numbered(lattice), lattice.shape
    moved = {
        _IDENTITY: grid,
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
        yield from _of_picture(name, picture, lattice)


# --- sublattices


def checkerboard(lattice: Lattice) -> np.ndarray:
    """Give 0 or 1 for every site, (row + column) modulo 2: the sublattices of the grid, (N,).

    ValueError where a bond of kind "nearest" joins two sites of one sublattice.
    """
    rows, columns = np.divmod(np.array(lattice.places), lattice.n_cols)
    board = (rows + columns) % 2
    for i, j in lattice.bonds.get("nearest", ()):
        if board[i] == board[j]:
            raise ValueError(
                f"sites {i} and {j} of the {lattice.kind} lattice are neighbours on one sublattice "
                "of the checkerboard; it needs rings of even length and bonds between unlike sites"
            )
    return board


@dataclass(frozen=True, eq=False)
class Colouring:
    """Two sublattices, such that every bond joins unlike sites, or why there are none."""

    sublattice: np.ndarray | None  #: 0 or 1 for every site, (N,); site 0 has 0
    odd_ring: tuple[int, ...] = ()  #: sites of a closed path of odd length, if there is one
    n_parts: int = 1  #: parts that no bond joins: their colours are not related


def colouring(lattice: Lattice) -> Colouring:
    """Colour the sites by the bonds of kind "nearest", or by all bonds where there are none of it.

    An odd ring has none, and parts that no bond joins could be coloured in several ways.
    """
    bonds = lattice.bonds.get("nearest") or [b for kind in lattice.bonds.values() for b in kind]
    neighbours: dict[int, list[int]] = {site: [] for site in range(lattice.n_sites)}
    for i, j in bonds:
        neighbours[i].append(j)
        neighbours[j].append(i)
    colour, parent, n_parts = np.full(lattice.n_sites, -1), dict[int, int](), 0
    for start in range(lattice.n_sites):
        if colour[start] >= 0:
            continue
        n_parts += 1
        if clash := _spread(start, neighbours, colour, parent):
            return Colouring(None, _ring(clash, parent))
    return Colouring(colour if n_parts == 1 else None, (), n_parts)


def _spread(
    start: int, neighbours: Mapping[int, list[int]], colour: np.ndarray, parent: dict[int, int]
) -> Patch | None:
    """Colour all that hangs together with a site, breadth first; give a bond within one colour."""
    colour[start] = 0
    waiting = deque([start])
    while waiting:
        site = waiting.popleft()
        for other in neighbours[site]:
            if colour[other] < 0:
                colour[other], parent[other] = 1 - colour[site], site
                waiting.append(other)
            elif colour[other] == colour[site]:
                return site, other
    return None


def _ring(clash: Patch, parent: Mapping[int, int]) -> tuple[int, ...]:
    """The ring that a bond closes: the paths of its two sites back to where they meet."""
    paths = []
    for site in clash:
        path = [site]
        while path[-1] in parent:
            path.append(parent[path[-1]])
        paths.append(path)
    meet = next(site for site in paths[0] if site in paths[1])
    left, right = (path[: path.index(meet)] for path in paths)
    return (*left, meet, *reversed(right))
