"""Sites of a PEPS that have one tensor: those that symmetries take to each other, and those of the
bulk."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from tnvmc.lattice.embedding import Embedding
from tnvmc.lattice.lattice import Patch

Legs = tuple[int, ...]


class Member(NamedTuple):
    """A site whose tensor is that of the first site of its orbit."""

    site: int
    legs: Legs  #: leg l of the site is leg legs[l] of the first site


@dataclass(frozen=True)
class Orbit:
    """Sites that have one tensor, and the entries of it that are free."""

    members: tuple[Member, ...]  #: the first site first
    fixed: tuple[Legs, ...]  #: a group: rearrangements of its legs that leave the tensor as it is
    shape: tuple[int, ...]  #: of the tensor (d, up, left, down, right)

    @cached_property
    def n_free(self) -> int:
        """Number of free entries, by Burnside's lemma: known before there is room for them."""
        kept = (prod(self.shape[1 + min(cycle)] for cycle in _cycles(legs)) for legs in self.fixed)
        return self.shape[0] * sum(kept) // len(self.fixed)

    @cached_property
    def _classes(self) -> tuple[np.ndarray, np.ndarray]:
        places = np.arange(prod(self.shape)).reshape(self.shape)
        turned = [places.transpose(0, *(1 + leg for leg in legs)) for legs in self.fixed]
        return np.unique(np.minimum.reduce(turned).ravel(), return_inverse=True)

    @property
    def free(self) -> np.ndarray:
        """Places of the free entries."""
        return self._classes[0]

    @property
    def entry(self) -> np.ndarray:
        """Which free entry stands at each place."""
        return self._classes[1]


def orbits_of(
    elements: Sequence[Patch], found: Embedding, shapes: Sequence[tuple[int, ...]]
) -> list[Orbit]:
    """Give the orbits of all sites under a group, by their first sites.

    Raises:
        ValueError: an element leads a bond of the network to where there is none.
    """
    if not all(keeps_network(found, element) for element in elements):
        raise ValueError(
            "sharing: an element takes bonds of the network to where there are none; make it for "
            "the same lattice and bonds, sharing(hamiltonian, bonds=...)"
        )
    orbits: list[Orbit] = []
    met: set[int] = set()
    for first in range(len(shapes)):
        if first in met:
            continue
        members, fixed = {first: tuple(range(4))}, []
        for element in elements:
            legs = _led(element, first, found)
            members.setdefault(element[first], legs)
            if element[first] == first and legs not in fixed:
                fixed.append(legs)
        met |= members.keys()
        each = tuple(Member(site, legs) for site, legs in members.items())
        orbits.append(Orbit(each, tuple(fixed), tuple(shapes[first])))
    return orbits


def with_bulk(orbits: Sequence[Orbit], found: Embedding, edge: int, period: int) -> list[Orbit]:
    """Join orbits whose first sites differ only by their depth in the bulk; see `Sharing.edge`.

    The group has the reflections of rows and of columns, so that first sites lie in one quarter.

    Raises:
        ValueError: sites of the bulk that have bonds at other places.
    """
    joined = {orbit.members[0].site: orbit for orbit in orbits}
    member_at = {m.site: (orbit.members[0].site, m.legs) for orbit in orbits for m in orbit.members}
    for first in sorted(joined):
        place = found.places[first]
        target = _in_bulk(place, found.shape, edge, period)
        if target == place:
            continue
        there = found.site_at[target]
        if there not in member_at or any(
            found.joins(place, x) != found.joins(target, x) for x in range(4)
        ):
            raise ValueError(
                f"sharing: edge = {edge}, but site {first} of the bulk has bonds at other places "
                "than the one whose tensor it should have; leave edge out"
            )
        onto, led = member_at[there]
        back = [led.index(leg) for leg in range(4)]
        lost, kept = joined.pop(first), joined[onto]
        members = tuple(Member(m.site, tuple(led[leg] for leg in m.legs)) for m in lost.members)
        fixed = tuple(tuple(led[legs[back[leg]]] for leg in range(4)) for legs in lost.fixed)
        joined[onto] = replace(
            kept, members=kept.members + members, fixed=_generated(kept.fixed + fixed)
        )
    return [joined[first] for first in sorted(joined)]


def check_reflections(elements: Sequence[Patch], found: Embedding) -> None:
    """Raise ValueError where a group lacks the reflection of the rows or that of the columns."""
    rows, columns = np.divmod(np.array(found.places), found.shape[1])
    n_rows, n_columns = found.shape
    wanted = ((n_rows - 1 - rows, columns), (rows, n_columns - 1 - columns))
    moved = {tuple(np.array(found.places)[list(element)].tolist()) for element in elements}
    if any(tuple((r * n_columns + c).tolist()) not in moved for r, c in wanted):
        raise ValueError(
            "sharing: edge is for states that share tensors by the reflections of rows and of "
            "columns, and here one of these is missing; leave edge out"
        )


def _in_bulk(place: int, shape: tuple[int, int], edge: int, period: int) -> int:
    """The place of the upper left quarter whose tensor a place of it has."""
    at = divmod(place, shape[1])
    # A row in the middle lies on the mirror, and its tensors are symmetric, which others are not.
    row, column = (
        x if 2 * x + 1 == length else nearest_alike(x, edge, period)
        for x, length in zip(at, shape, strict=True)
    )
    return row * shape[1] + column


def nearest_alike(x: int, edge: int, period: int) -> int:
    """The row or column nearest to the end whose tensors one of the first half has."""
    return x if x < edge else edge + (x - edge) % period


def _generated(legs: Sequence[Legs]) -> tuple[Legs, ...]:
    """The group of rearrangements that some generate."""
    known = list(dict.fromkeys(legs))
    for one in known:  # grows on the way
        for other in legs:
            product = tuple(one[leg] for leg in other)
            if product not in known:
                known.append(product)
    return tuple(known)


def _led(element: Patch, site: int, found: Embedding) -> Legs:
    """For each leg of the site that `site` is moved to: the leg of `site` that is led there."""
    there = element[site]
    led: dict[int, int] = {}
    for leg in range(4):
        near = neighbour(found, site, leg)
        if near is None:
            continue
        led[next(x for x in range(4) if neighbour(found, there, x) == element[near])] = leg
    # Legs of size 1 go where room is left.
    rest = iter([leg for leg in range(4) if leg not in led.values()])
    return tuple(led[other] if other in led else next(rest) for other in range(4))


def keeps_network(found: Embedding, element: Patch) -> bool:
    """Whether bonds of the network are taken to bonds of it."""
    to = {place: found.places[element[i]] for i, place in enumerate(found.places)}
    return {tuple(sorted((to[a], to[b]))) for a, b in found.bonds} == found.bonds


def neighbour(found: Embedding, site: int, leg: int) -> int | None:
    """The site at the other end of a bond of the network; None where there is none along a leg."""
    place = found.places[site]
    beyond = found.beyond(place, leg)
    return None if beyond is None or not found.joins(place, leg) else found.site_at[beyond]


def _cycles(legs: Legs) -> set[frozenset[int]]:
    """Legs that a rearrangement leads to each other."""
    cycles = set()
    for leg in range(4):
        cycle, here = {leg}, legs[leg]
        while here != leg:
            cycle.add(here)
            here = legs[here]
        cycles.add(frozenset(cycle))
    return cycles
