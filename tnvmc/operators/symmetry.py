"""Symmetries of a Hamiltonian: rearranged sites, inverted spins, and the groups they form."""

from __future__ import annotations

import difflib
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tnvmc.lattice.lattice import Lattice
from tnvmc.lattice.permutations import Permutation, point_group, space_group, translations
from tnvmc.operators.term import Operator, Term

Array = Any

COMMUTATOR_TOLERANCE = 1e-10
"""Largest change of a coefficient of the Hamiltonian allowed, relative to the largest one:
above the rounding of distances and couplings, far below any coupling that is meant."""

NAMES = ("spin", "point", "translation")
"""Symmetries that can be asked for by name."""


class NotSymmetric(ValueError):
    """The Hamiltonian does not have a symmetry, or a state no definite character under it."""


@dataclass(frozen=True)
class Symmetry:
    """An element g of a group: (g s)_i = s_sites[i], then local states a -> d-1-a if it inverts.

    Inverting exchanges up and down for spins; for Rydberg atoms it would exchange ground and
    excited states.
    """

    name: str
    sites: tuple[int, ...]
    inverts: bool = False
    character: int = 1  #: psi(g s) = character * psi(s), +1 or -1

    @property
    def key(self) -> tuple[tuple[int, ...], bool]:
        """What it does, without what it is called."""
        return self.sites, self.inverts

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Where the contents of each site are in g s: the inverse of `sites`."""
        return tuple(int(i) for i in np.argsort(self.sites))

    def after(self, first: Symmetry) -> tuple[tuple[int, ...], bool]:
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
        if (
            len({element.key for element in self.elements}) < len(self.elements)
            or not self.elements
        ):
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
        # Bytes as keys: the space group of 36 spins takes 0.5 s so, and 5 s by tuples.
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

    def with_characters(self, characters: Sequence[int]) -> SymmetryGroup:
        """Give the same group in another representation, one character per element."""
        pairs = zip(self.elements, characters, strict=True)
        elements = tuple(replace(g, character=int(chi)) for g, chi in pairs)
        return SymmetryGroup(elements, self.asked)


def symmetry_group(
    operator: Operator, names: str | Iterable[str], characters: Mapping[str, int] | None = None
) -> SymmetryGroup:
    """Make the group of the symmetries asked for.

    "spin" is the inversion of all spins, "point" the point group of the lattice, "translation"
    those along its periodic directions; "point" and "translation" together make its space group.
    `characters` gives -1 or +1 for some elements by their names; those of products and conjugates follow,
    and what is then free is +1, in the order of the elements.

    Raises:
        ValueError: an unknown name or character.
        NotSymmetric: the Hamiltonian does not commute with an element; contradicting characters.
    """
    asked = (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
    unknown = [name for name in asked if name not in NAMES]
    if unknown or not asked:
        raise ValueError(f"symmetries {', '.join(asked) or '(none)'}: known are {', '.join(NAMES)}")
    lattice = operator.lattice
    elements = _elements(lattice, asked)
    broken = [
        g.name
        for g, kept in zip(elements, which_commute(operator, elements), strict=True)
        if not kept
    ]
    if broken:
        lost = [
            name for name in asked if not all(which_commute(operator, _elements(lattice, (name,))))
        ]
        raise NotSymmetric(
            f"{operator.name} changes under {_listed(broken)}, so {' and '.join(lost)} cannot be "
            f"{'a symmetry' if len(lost) == 1 else 'symmetries'} of its ground state. Leave out "
            "what it breaks"
        )
    return SymmetryGroup(_signed(elements, characters or {}), asked)


def commutes(operator: Operator, symmetry: Symmetry) -> bool:
    """Tell whether [H, g] = 0, to `COMMUTATOR_TOLERANCE`; however H is cut into terms."""
    return next(iter(which_commute(operator, (symmetry,))))


@lru_cache(maxsize=16)
def is_symmetric(operator: Operator, group: SymmetryGroup) -> bool:
    """Tell whether the operator commutes with every element; remembered."""
    return all(which_commute(operator, group.elements))


def which_commute(operator: Operator, elements: Sequence[Symmetry]) -> list[bool]:
    """Tell for each element whether [H, g] = 0, <g s| H |g s'> = <s| H |s'>; see `commutes`."""
    plain = _coefficients(operator.terms)
    inverted = plain
    if any(element.inverts for element in elements):
        inverted = _coefficients(Term(t.sites, t.matrix[::-1, ::-1]) for t in operator.terms)
    scale = max((abs(value) for value in plain.values()), default=0.0)
    kept = []
    for element in elements:
        moved: dict[_String, complex] = {}
        for string, value in (inverted if element.inverts else plain).items():
            there = tuple(sorted((element.sites[site], which) for site, which in string))
            moved[there] = value
        change = max(
            (abs(moved.get(key, 0) - plain.get(key, 0)) for key in {*plain, *moved}), default=0
        )
        kept.append(bool(change <= COMMUTATOR_TOLERANCE * scale))
    return kept


_String = tuple[tuple[int, int], ...]
"""A product of traceless one-site operators: (site, which one) in increasing order of sites."""


def _coefficients(terms: Iterable[Term]) -> dict[_String, complex]:
    """H as a sum of products of one-site operators, which tells operators apart, not their terms."""
    total: dict[_String, complex] = defaultdict(complex)
    for term in terms:
        k, d = len(term.sites), term.local_dim
        legs = term.matrix.reshape((d,) * (2 * k))
        pairs = legs.transpose([axis for j in range(k) for axis in (j, k + j)])
        table = pairs.reshape((d * d,) * k).astype(complex)
        to_basis = _operator_basis(d)
        for _ in range(k):  # each site in turn becomes the last axis
            table = np.tensordot(table, to_basis, axes=(0, 1))
        for index in np.argwhere(np.abs(table) > 0):
            string = tuple(
                (site, int(which)) for site, which in zip(term.sites, index, strict=True) if which
            )
            total[string] += table[tuple(index)]
    return total


def _operator_basis(d: int) -> np.ndarray:
    """Real rows, inverse-transposed: coefficients on the identity (row 0) and on the others.

    The basis is the identity, E_ab for a != b and E_aa for a > 0: not orthogonal, but a
    coefficient does not depend on how an operator is cut into terms.
    """
    matrices = [np.eye(d).ravel()]
    for a, b in itertools.product(range(d), repeat=2):
        if (a, b) != (0, 0):
            matrices.append(np.eye(d * d)[a * d + b])
    return np.linalg.inv(np.array(matrices)).T


def _permutations(lattice: Lattice, asked: Sequence[str]) -> tuple[Permutation, ...]:
    if "point" in asked:
        return space_group(lattice) if "translation" in asked else point_group(lattice)
    if "translation" in asked:
        return translations(lattice)
    return (Permutation("identity", tuple(range(lattice.n_sites))),)


def _elements(lattice: Lattice, asked: Sequence[str]) -> tuple[Symmetry, ...]:
    plain = [Symmetry(p.name, p.sites) for p in _permutations(lattice, asked)]
    inverted = [
        replace(
            g,
            inverts=True,
            name=_INVERSION if g.name == "identity" else f"{g.name} with {_INVERSION}",
        )
        for g in plain
        if "spin" in asked
    ]
    return (*plain, *inverted)


_INVERSION = "spin inversion"


def _signed(elements: tuple[Symmetry, ...], characters: Mapping[str, int]) -> tuple[Symmetry, ...]:
    """Spread the characters given over what follows from them, and +1 over what does not.

    A square has +1 in every real representation of one dimension.  The quotient by all squares is a product of
    groups of two elements, where any sign goes with what is independent of it.
    """
    if not characters:  # +1 everywhere goes with any group
        return elements
    by_name = {element.name: element for element in elements}
    for name, value in characters.items():
        if name not in by_name:
            close = difflib.get_close_matches(name, by_name, 1)
            meant = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(by_name)}"
            raise ValueError(f"character of {name!r}: no such element; {meant}")
        if value not in (-1, 1):
            raise ValueError(f"character {value} of {name!r}: it must be -1 or +1")
    unit = tuple(range(len(elements[0].sites)))
    known = {(unit, False): 1}
    for g in elements:
        _extend(known, g.after(g), 1)
    squares = set(known)
    order = [by_name[name] for name in characters] + [
        g for g in elements if g.name not in characters
    ]
    for g in order:
        if g.key in known:
            if characters.get(g.name, known[g.key]) != known[g.key]:
                others = "the group: it is a product of squares, which have +1"
                raise NotSymmetric(
                    f"character {characters[g.name]:+d} of {g.name!r} contradicts "
                    f"{others if g.key in squares else 'the others given'}"
                )
            continue
        _extend(known, g.key, characters.get(g.name, 1))
    return tuple(replace(g, character=known[g.key]) for g in elements)


_Key = tuple[tuple[int, ...], bool]
"""What an element does: `Symmetry.key`."""


def _extend(known: dict[_Key, int], key: _Key, character: int) -> None:
    """Add an element to a subgroup with its characters, and all products that follow; nothing if it is there."""
    if key in known:
        return
    known[key] = character
    frontier = [key]
    while frontier:
        new = frontier.pop()
        for other, chi in list(known.items()):
            for a, b in ((new, other), (other, new)):
                product = Symmetry("", *a).after(Symmetry("", *b))
                if product not in known:
                    known[product] = known[new] * chi
                    frontier.append(product)


def _listed(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
