"""Tensors that a symmetry of the lattice takes to each other are one tensor.

Where the Hamiltonian commutes with rearrangements g of the sites, psi(g s) = psi(s) holds for any parameters of
a network whose tensors obey T_gi = T_i, with the legs of T_i led to the neighbours of g i.  On an open square that
leaves an eighth of the parameters, each with the derivatives of eight tensors: what SR lacks with few samples.
Uniform networks with tensors of the point group C4v are usual on infinite lattices (Hasik, Poilblanc and
Becca, SciPost Phys. 10, 012 (2021)); here sites have tensors of their own, up to symmetry.

Two signs make this good for antiferromagnets and for lattices with an even number of rows:

- Sites of one of two sublattices ("colour" 1) get (-1)^s, Marshall's signs, so that an element that exchanges the
  sublattices maps the network on itself times a constant.
- A bond that an element reverses would make psi, as a matrix over what lies on its two sides, a Gram matrix: neighbours
  that repel each other cannot be had so.  Such a bond carries signs, sum_k sign_k A_k B_k, which any
  symmetric matrix can be brought to; `bond_signs` tells how many of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np

from tnvmc.backend.namespace import array_namespace
from tnvmc.lattice.embedding import Embedding
from tnvmc.lattice.lattice import Patch

Array = Any


@dataclass(frozen=True)
class Sharing:
    """A group of rearrangements of the sites, and the signs that go with them.

    Made for a Hamiltonian by `tnvmc.sharing`.  It does not say that the ground state has these
    symmetries: `ansatz.peps.symmetries.is_proven` does, where that is known.
    """

    elements: tuple[
        Patch, ...
    ]  #: the site that each site is moved to, for each element of the group
    colours: tuple[int, ...]  #: 0 or 1 for each site: (-1)^(colour * s)
    signs: tuple[tuple[Patch, tuple[int, ...]], ...] = ()
    """Of the two-site ground state on each bond that is reversed, by size, +1 or -1; see `bond_signs`."""

    def __post_init__(self) -> None:
        unit, known = tuple(range(len(self.colours))), set(self.elements)
        moved = {tuple(g[i] for i in h) for g in self.elements for h in self.elements}
        if unit not in known or moved != known:
            raise ValueError(
                f"Sharing: {len(self.elements)} elements that are no group of {len(unit)} sites; take "
                "tnvmc.sharing(hamiltonian)"
            )

    def __len__(self) -> int:
        return len(self.elements)

    def told(self) -> dict[str, Any]:
        """Plain values that `of` makes this of again."""
        return {
            "elements": [list(element) for element in self.elements],
            "colours": list(self.colours),
            "signs": [[list(bond), list(signs)] for bond, signs in self.signs],
        }

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """Make one of what `told` has given."""
        signs = tuple((tuple(bond), tuple(values)) for bond, values in told["signs"])
        return cls(tuple(map(tuple, told["elements"])), tuple(told["colours"]), signs)


def bond_signs(of_pair: Sequence[int], D: int) -> np.ndarray:
    """Give the signs (D,) of a reversed bond: as if it carried several copies of the two-site ground state.

    Eigenvalues of a product of copies are products of eigenvalues: (+, -) becomes (+, -, -, +, ...), and a larger D
    goes on where a smaller one ends.
    """
    signs = np.ones(1, dtype=np.int64)
    while signs.size < D:
        signs = np.kron(signs, of_pair)
    return signs[:D]


class Member(NamedTuple):
    """A site whose tensor is that of the first site of its orbit."""

    site: int
    legs: tuple[int, ...]  #: leg l of the site is leg legs[l] of the first site


@dataclass(frozen=True)
class Orbit:
    """Sites that are taken to each other, and the entries of their tensor that are free."""

    members: tuple[Member, ...]  #: the first site first
    fixed: tuple[tuple[int, ...], ...]  #: legs of what leaves the first site where it is
    shape: tuple[int, ...]  #: of its tensor (d, up, left, down, right)

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


class SharedTensors:
    """theta (P,), the free entries orbit by orbit, and the tensors of all sites.

    Args:
        sharing: the group and the signs.
        found: how the lattice lies on the grid.
        shapes: (d, up, left, down, right) of each site's tensor.

    Raises:
        ValueError: an element leads a bond of the network to where there is none.
    """

    def __init__(
        self, sharing: Sharing, found: Embedding, shapes: Sequence[tuple[int, ...]]
    ) -> None:
        self.sharing, self.found, self.shapes = sharing, found, list(shapes)
        self.orbits = tuple(_orbits(sharing, found, self.shapes))
        self._bond_factors = _bond_factors(sharing, found, self.shapes)

    @property
    def n_params(self) -> int:
        """Free entries."""
        return sum(orbit.n_free for orbit in self.orbits)

    @property
    def n_gauge(self) -> int:
        """Directions of theta along which psi changes by a factor at most, on bonds that can be filled.

        A scale for each orbit of sites, and for each orbit of bonds X with its inverse, without scale: D^2 - 1; where a
        bond is reversed X must keep its signs, which D (D - 1) / 2 directions do.
        """
        return len(self.orbits) + sum(
            D * (D - 1) // 2 if is_reversed else D**2 - 1 for D, is_reversed in self._bond_orbits()
        )

    def tensors(self, theta: Array) -> list[Array]:
        """One tensor per site out of theta (P,)."""
        xp = array_namespace(theta)
        found: list[Array] = [None] * len(self.shapes)
        begin = 0
        for orbit in self.orbits:
            end = begin + orbit.n_free
            tensor = xp.reshape(xp.take(theta[begin:end], xp.asarray(orbit.entry)), orbit.shape)
            for site, legs in orbit.members:
                moved = xp.permute_dims(tensor, (0, *(1 + leg for leg in legs)))
                found[site] = moved * self._factor(site, xp, theta.dtype)
            begin = end
        return found

    def free_entries(self, tensors: Sequence[Array], tolerance: float = 1e-9) -> Array:
        """theta (P,) of tensors that share their entries already.

        Raises:
            ValueError: they do not, by more than `tolerance` of a tensor's largest entry.
        """
        xp = array_namespace(*tensors)
        parts = []
        for orbit in self.orbits:
            first = self._led_back(tensors, orbit.members[0], xp)
            flat = xp.reshape(first, (-1,))
            free = xp.take(flat, xp.asarray(orbit.free))
            alike = xp.reshape(xp.take(free, xp.asarray(orbit.entry)), orbit.shape)
            off = max(
                float(xp.max(xp.abs(self._led_back(tensors, member, xp) - alike)))
                for member in orbit.members
            )
            if off > tolerance * float(xp.max(xp.abs(first))):
                raise ValueError(
                    f"PEPS.flatten: the tensors of sites {[m.site for m in orbit.members]} are not those of "
                    f"one tensor, off by {off:.1e}; make the PEPS without sharing"
                )
            parts.append(free)
        return xp.concat(parts)

    def derivatives(self, slices: Sequence[Array], configs: Array) -> Array:
        """Log-derivatives (B, P) by theta from those by the entries of the tensors that configs (B, N) pick.

        Args:
            slices: (B, up * left * down * right) of each site.
            configs: (B, N).
        """
        xp = array_namespace(configs)
        n = configs.shape[0]
        parts = []
        for orbit in self.orbits:
            d, *legs = orbit.shape
            states = xp.arange(d, dtype=configs.dtype)
            total: Array = 0
            for site, moved in orbit.members:
                own = xp.reshape(slices[site], (n, *self.shapes[site][1:]))
                own = own * self._factor(site, xp, own.dtype, bonds_only=True)[0, ...]
                back = (0, *(1 + moved.index(leg) for leg in range(4)))
                own = xp.reshape(xp.permute_dims(own, back), (n, 1, -1))
                picked = xp.astype(configs[:, site, None] == states[None, :], own.dtype)
                if self.sharing.colours[site]:
                    picked = picked * _alternating(d, xp, own.dtype)[None, :]
                total = total + picked[:, :, None] * own
            total = xp.reshape(total, (n, d, *legs))
            every: Array = 0
            for fixed in orbit.fixed:
                every = every + xp.permute_dims(total, (0, 1, *(2 + leg for leg in fixed)))
            # Every entry is met |fixed| / |class| times.
            weight = np.bincount(orbit.entry) / len(orbit.fixed)
            free = xp.take(xp.reshape(every, (n, -1)), xp.asarray(orbit.free), axis=1)
            parts.append(free * xp.asarray(weight, dtype=free.dtype)[None, :])
        return xp.concat(parts, axis=1)

    def _factor(self, site: int, xp: Any, dtype: Any, bonds_only: bool = False) -> Array:
        """Signs of a site's tensor, to be multiplied with (d, up, left, down, right)."""
        d = self.shapes[site][0]
        factor = xp.ones((d, 1, 1, 1, 1), dtype=dtype)
        if self.sharing.colours[site] and not bonds_only:
            factor = factor * xp.reshape(_alternating(d, xp, dtype), (d, 1, 1, 1, 1))
        for leg, signs in self._bond_factors.get(site, ()):
            along = [signs.size if axis == leg else 1 for axis in range(4)]
            factor = factor * xp.reshape(xp.asarray(signs, dtype=dtype), (1, *along))
        return factor

    def _led_back(self, tensors: Sequence[Array], member: Member, xp: Any) -> Array:
        """What the tensor of a site says of the first one of its orbit."""
        tensor = tensors[member.site]
        tensor = tensor * self._factor(member.site, xp, tensor.dtype)
        return xp.permute_dims(tensor, (0, *(1 + member.legs.index(leg) for leg in range(4))))

    def _bond_orbits(self) -> list[tuple[int, bool]]:
        """Dimension of each orbit of bonds, and whether an element reverses them."""
        site_at = {place: site for site, place in enumerate(self.found.places)}
        met: set[Patch] = set()
        orbits = []
        for place, beyond in sorted(self.found.bonds):
            one, other = site_at[place], site_at[beyond]
            if (one, other) in met or (other, one) in met:
                continue
            moved = {(element[one], element[other]) for element in self.sharing.elements}
            met |= moved
            legs = (x for x in range(4) if self.found.joins(place, x))
            leg = next(x for x in legs if _beyond(self.found, place, x) == beyond)
            orbits.append((self.shapes[one][1 + leg], (other, one) in moved))
        return orbits


def _alternating(d: int, xp: Any, dtype: Any) -> Array:
    return xp.asarray([(-1.0) ** s for s in range(d)], dtype=dtype)


def _orbits(sharing: Sharing, found: Embedding, shapes: Sequence[tuple[int, ...]]) -> list[Orbit]:
    orbits: list[Orbit] = []
    met: set[int] = set()
    for first in range(len(shapes)):
        if first in met:
            continue
        members, fixed = {first: tuple(range(4))}, []
        for element in sharing.elements:
            legs = _led(element, first, found)
            members.setdefault(element[first], legs)
            if element[first] == first and legs not in fixed:
                fixed.append(legs)
        met |= members.keys()
        each = tuple(Member(site, legs) for site, legs in members.items())
        orbits.append(Orbit(each, tuple(fixed), tuple(shapes[first])))
    return orbits


def _led(element: Patch, site: int, found: Embedding) -> tuple[int, ...]:
    """For each leg of the site that `site` is moved to: the leg of `site` that is led there."""
    there, site_at = element[site], {place: i for i, place in enumerate(found.places)}
    here_place, there_place = found.places[site], found.places[there]
    led: dict[int, int] = {}
    for leg in range(4):
        if found.joins(here_place, leg):
            neighbour = element[site_at[_beyond(found, here_place, leg)]]
            onto = [
                other
                for other in range(4)
                if found.joins(there_place, other)
                and site_at[_beyond(found, there_place, other)] == neighbour
            ]
            if len(onto) != 1:
                raise ValueError(
                    f"sharing: sites {site} and {there} are taken to each other, but bonds of the network "
                    "there are not; leave that symmetry out"
                )
            led[onto[0]] = leg
    # Legs of size 1 go where room is left.
    rest = iter([leg for leg in range(4) if leg not in led.values()])
    return tuple(led[other] if other in led else next(rest) for other in range(4))


def _beyond(found: Embedding, place: int, leg: int) -> int:
    other = found.beyond(place, leg)
    assert other is not None
    return other


def _cycles(legs: tuple[int, ...]) -> set[frozenset[int]]:
    """Legs that a rearrangement leads to each other."""
    cycles = set()
    for leg in range(4):
        cycle, here = {leg}, legs[leg]
        while here != leg:
            cycle.add(here)
            here = legs[here]
        cycles.add(frozenset(cycle))
    return cycles


def _bond_factors(
    sharing: Sharing, found: Embedding, shapes: Sequence[tuple[int, ...]]
) -> dict[int, list[tuple[int, np.ndarray]]]:
    """For each site the legs that carry signs: one end of each reversed bond does."""
    site_at = {place: site for site, place in enumerate(found.places)}
    factors: dict[int, list[tuple[int, np.ndarray]]] = {}
    for (one, other), of_pair in sharing.signs:
        for leg in range(4):
            place = found.places[one]
            if found.joins(place, leg) and site_at[_beyond(found, place, leg)] == other:
                signs = bond_signs(of_pair, shapes[one][1 + leg])
                if (signs < 0).any():
                    factors.setdefault(one, []).append((leg, signs))
    return factors
