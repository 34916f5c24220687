"""Symmetries and their groups, those that keep the bonds of a lattice, and its sublattices."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tnvmc.lattice.lattice import Lattice, Patch, spanning_tree

IDENTITY = "identity"

Key = tuple[tuple[int, ...], bool]
"""What an element does: `Symmetry.key`."""


class NotSymmetric(ValueError):
    """The Hamiltonian does not have a symmetry, or a state no definite character under it."""


@dataclass(frozen=True)
class Symmetry:
    """An element g of a group: (g s)_i = s_sites[i], then local states a -> d-1-a if it inverts."""

    name: str
    sites: tuple[int, ...]
    inverts: bool = False
    character: int = 1  #: psi(g s) = character * psi(s), +1 or -1

    @property
    def key(self) -> Key:
        """What it does, without what it is called."""
        return self.sites, self.inverts

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Where the contents of each site are in g s: the inverse of `sites`."""
        return tuple(int(i) for i in np.argsort(self.sites))

    def after(self, first: "Symmetry") -> Key:
        """Key of the product: `first`, then this one."""
        return tuple(first.sites[i] for i in self.sites), self.inverts != first.inverts


@dataclass(frozen=True)
class SymmetryGroup:
    """A finite group of symmetries with a one-dimensional real representation chi(g) = +-1.

    Raises:
        ValueError: products or the identity are missing, an element is there twice.
        NotSymmetric: chi(g) chi(h) is not chi(g h) everywhere.
    """

    elements: tuple[Symmetry, ...]
    asked: tuple[str, ...] = field(default=(), compare=False)  #: names that `symmetry_group` got

    def __post_init__(self) -> None:
        n_different = len({element.key for element in self.elements})
        if n_different < len(self.elements) or not self.elements:
            raise ValueError(f"SymmetryGroup: {len(self.elements)} elements, some twice or none")
        for g, h, product in self._products():
            if product is None:
                raise ValueError(
                    f"SymmetryGroup: {h.name!r}, then {g.name!r} is not among the "
                    f"{len(self.elements)} elements; a group holds all products of its elements"
                )
            if g.character * h.character != product.character:
                raise NotSymmetric(
                    f"characters {g.character:+d} of {g.name!r} and {h.character:+d} of "
                    f"{h.name!r} contradict that of their product, {product.character:+d}: no "
                    "one-dimensional representation has them. Check the signs given, or leave one "
                    "of the symmetries out"
                )

    def _products(self) -> Iterator[tuple[Symmetry, Symmetry, Symmetry | None]]:
        """Yield g, h and what `h`, then `g` is, None where it is not here; |G|^2 of them."""
        # Bytes as keys are ten times faster than tuples.
        sites = np.array([element.sites for element in self.elements])
        known = {(r.tobytes(), g.inverts): g for r, g in zip(sites, self.elements, strict=True)}
        for g in self.elements:
            moved = np.ascontiguousarray(sites[:, g.sites])
            for h, row in zip(self.elements, moved, strict=True):
                yield g, h, known.get((row.tobytes(), g.inverts != h.inverts))

    def __len__(self) -> int:
        return len(self.elements)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the elements are called."""
        return tuple(element.name for element in self.elements)

    def with_characters(self, characters: Sequence[int]) -> "SymmetryGroup":
        """Give the same group in another representation, one character per element."""
        pairs = zip(self.elements, characters, strict=True)
        elements = tuple(replace(g, character=int(chi)) for g, chi in pairs)
        return SymmetryGroup(elements, self.asked)


def point_group(lattice: Lattice) -> tuple[Symmetry, ...]:
    """Give the reflections and rotations of the grid that map the bonds of each kind on themselves.

    The grid of a square has eight (C4v), of a rectangle four (C2v), of a chain two; what bonds or
    vacant places break is left out.  Rotations by 60 degrees are not among them.  The identity
    comes first.  Couplings are not looked at: see `tnvmc.operators.symmetry`.
    """
    return _kept(lattice, _grid_symmetries(lattice))


def translations(lattice: Lattice) -> tuple[Symmetry, ...]:
    """Give the translations along periodic directions that keep the bonds of each kind.

    All N of a torus, n_cols of a cylinder or ring, the identity alone of an open lattice.
    """
    return _kept(lattice, _shifts(lattice))


def space_group(lattice: Lattice) -> tuple[Symmetry, ...]:
    """Give all products of a reflection or rotation and a translation that keep the bonds.

    Also those of which neither factor keeps them.  The identity comes first.
    """
    shifts = tuple(_shifts(lattice))
    return _kept(lattice, (_after(shift, g) for shift in shifts for g in _grid_symmetries(lattice)))


def _kept(lattice: Lattice, candidates: Iterable[Symmetry]) -> tuple[Symmetry, ...]:
    """Those that keep the bonds, each rearrangement once, under its first name."""
    found: dict[tuple[int, ...], Symmetry] = {}
    for permutation in candidates:
        if permutation.sites not in found and keeps_bonds(lattice, permutation):
            found[permutation.sites] = permutation
    return tuple(found.values())


def keeps_bonds(lattice: Lattice, permutation: Symmetry) -> bool:
    """Tell whether the bonds of each kind are the same bonds after the rearrangement."""
    place = np.argsort(permutation.sites)
    return all(
        {tuple(sorted((int(place[i]), int(place[j])))) for i, j in bonds} == set(bonds)
        for bonds in lattice.bonds.values()
    )


def moves_of_grid(lattice: Lattice) -> Iterator[Symmetry]:
    """Yield reflections and rotations of the grid and its shifts by one place, kept or not."""
    yield from _grid_symmetries(lattice)
    for axis in np.flatnonzero(lattice.periodic):
        yield from _of_picture("", np.roll(_numbered(lattice), 1, axis), lattice)


def _shifts(lattice: Lattice) -> Iterator[Symmetry]:
    """All translations of the grid that its periodic directions allow."""
    grid = _numbered(lattice)
    lengths = [n if wraps else 1 for n, wraps in zip(lattice.shape, lattice.periodic, strict=True)]
    for down, right in itertools.product(*map(range, lengths)):
        name = f"translation by ({down}, {right})" if down or right else IDENTITY
        yield from _of_picture(name, np.roll(grid, (down, right), axis=(0, 1)), lattice)


def _after(second: Symmetry, first: Symmetry) -> Symmetry:
    parts = [g.name for g in (first, second) if g.name != IDENTITY]
    return Symmetry(", then ".join(parts) or IDENTITY, *second.after(first))


def _numbered(lattice: Lattice) -> np.ndarray:
    """The grid with the index of the site at each place, -1 where there is none."""
    grid = np.full(lattice.shape[0] * lattice.shape[1], -1)
    grid[list(lattice.places)] = np.arange(lattice.n_sites)
    return grid.reshape(lattice.shape)


def _of_picture(name: str, picture: np.ndarray, lattice: Lattice) -> Iterator[Symmetry]:
    """The rearrangement that a moved grid shows, if no site has moved to a vacant place."""
    sites = picture.ravel()[list(lattice.places)]
    if (sites >= 0).all():
        yield Symmetry(name, tuple(int(site) for site in sites))


def _grid_symmetries(lattice: Lattice) -> Iterator[Symmetry]:
    """All that a grid may have; the names say what happens to a picture of the configuration."""
    grid, shape = _numbered(lattice), lattice.shape
    moved = {
        IDENTITY: grid,
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
    colour: dict[int, int] = {}
    n_parts = 0
    for start in range(lattice.n_sites):
        if start in colour:
            continue
        n_parts += 1
        tree = spanning_tree(start, bonds)
        for site, before in tree.items():
            colour[site] = 0 if site == start else 1 - colour[before]
        clashes = [(i, j) for i, j in bonds if i in tree and colour[i] == colour[j]]
        if clashes:
            return Colouring(None, min((_ring(bond, tree) for bond in clashes), key=len))
    board = np.array([colour[site] for site in range(lattice.n_sites)])
    return Colouring(board if n_parts == 1 else None, (), n_parts)


def _ring(bond: Patch, tree: Mapping[int, int]) -> tuple[int, ...]:
    """The ring that a bond closes: the paths of its two sites back to where they meet."""
    paths = []
    for site in bond:
        path = [site]
        while tree[path[-1]] != path[-1]:
            path.append(tree[path[-1]])
        paths.append(path)
    meet = next(site for site in paths[0] if site in paths[1])
    left, right = (path[: path.index(meet)] for path in paths)
    return (*left, meet, *reversed(right))
