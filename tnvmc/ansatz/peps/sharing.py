"""Tensors that a symmetry of the lattice takes to each other are one tensor.

Where the Hamiltonian commutes with rearrangements g of the sites, psi(g s) = psi(s) holds for any
parameters of a network whose tensors obey T_gi = T_i, with the legs of T_i led to the neighbours of
g i (decision 31; on infinite lattices: Hasik, Poilblanc and Becca, SciPost Phys. 10, 012 (2021)).

- Sites of one of two sublattices ("colour" 1) get (-1)^s, Marshall's signs, so that an element that
  exchanges the sublattices maps the network on itself times a constant.
- A bond that an element reverses carries signs, sum_k sign_k A_k B_k: without them psi, as a matrix
  over what lies on its two sides, is a Gram matrix.  `bond_signs` tells how many of each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from typing import Any, Self

import numpy as np

from tnvmc.ansatz.peps.orbits import Member, check_reflections, neighbour, orbits_of, with_bulk
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend.namespace import array_namespace
from tnvmc.lattice.embedding import DOWN, RIGHT, Embedding
from tnvmc.lattice.lattice import Patch

Array = Any


@dataclass(frozen=True)
class Sharing:
    """A group of rearrangements of the sites, and the signs that go with them.

    Made for a Hamiltonian by `tnvmc.sharing`.  It does not say that the ground state has these
    symmetries: `ansatz.peps.symmetries.is_proven` does, where that is known.
    """

    elements: tuple[Patch, ...]  #: the site that each site is moved to, for each element
    colours: tuple[int, ...]  #: 0 or 1 for each site: (-1)^(colour * s)
    signs: tuple[tuple[Patch, tuple[int, ...]], ...] = ()
    """Of the two-site ground state on each bond that is reversed, by size, +1 or -1; see
    `bond_signs`."""
    edge: int | None = None
    """Rows and columns at each end whose tensors are their own; those of all others, the bulk, are
    as in the first row or column beyond.  None: all are their own."""
    period: int = 1
    """Rows and columns after which tensors of the bulk repeat."""

    def __post_init__(self) -> None:
        unit, known = tuple(range(len(self.colours))), set(self.elements)
        moved = {tuple(g[i] for i in h) for g in self.elements for h in self.elements}
        if unit not in known or moved != known:
            raise ValueError(
                f"Sharing: {len(self.elements)} elements that are no group of {len(unit)} sites; "
                "take tnvmc.sharing(hamiltonian)"
            )
        if self.edge is None and self.period == 1:
            return
        if not all(type(n) is int and n >= 1 for n in (self.edge, self.period)):
            raise ValueError(
                f"Sharing: edge = {self.edge!r} and period = {self.period!r}, but at least one row "
                "at each end has tensors of its own, and the bulk repeats after one row or more"
            )

    def __len__(self) -> int:
        return len(self.elements)

    def goes_on_as(self, other: "Sharing") -> bool:
        """Tell whether states with this are starts of the other: the same, or with an edge."""
        if self.edge is None:
            return self == other
        signs = [{values for _, values in each.signs} for each in (self, other)]
        return signs[0] == signs[1]

    def told(self) -> dict[str, Any]:
        """Plain values that `of` makes this of again."""
        return {
            "elements": [list(element) for element in self.elements],
            "colours": list(self.colours),
            "signs": [[list(bond), list(signs)] for bond, signs in self.signs],
            **({} if self.edge is None else {"edge": self.edge, "period": self.period}),
        }

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """Make one of what `told` has given."""
        signs = tuple((tuple(bond), tuple(values)) for bond, values in told["signs"])
        elements = tuple(map(tuple, told["elements"]))
        return cls(elements, tuple(told["colours"]), signs, told.get("edge"), told.get("period", 1))


def sharing_in(identity: Mapping[str, Any]) -> Sharing | None:
    """Read from what a file says of a state how its tensors are shared; None if they are not."""
    told = identity.get("sharing")
    return None if told is None else Sharing.of(told)


def shared_counts(ansatz: Ansatz) -> dict[str, int] | None:
    """Count symmetries by which tensors are shared, and parameters without sharing, for JSON."""
    sharing = ansatz.sharing
    if sharing is None or ansatz.n_unshared is None:
        return None
    bulk = {} if sharing.edge is None else {"edge": sharing.edge, "period": sharing.period}
    return {"symmetries": len(sharing), "n_unshared": ansatz.n_unshared, **bulk}


def bond_signs(of_pair: Sequence[int], D: int) -> np.ndarray:
    """Give the signs (D,) of a reversed bond, as of copies of the two-site ground state.

    (+, -) becomes (+, -, -, +, ...), and a larger D goes on where a smaller one ends.
    """
    signs = np.ones(1, dtype=np.int64)
    while signs.size < D:
        signs = np.kron(signs, of_pair)
    return signs[:D]


class SharedTensors:
    """theta (P,), the free entries orbit by orbit, and the tensors of all sites.

    `shapes` are (d, up, left, down, right) of each site's tensor.

    Raises:
        ValueError: an element leads a bond of the network to where there is none; a bulk without
            reflections, or with bonds at other places.
    """

    def __init__(
        self, sharing: Sharing, found: Embedding, shapes: Sequence[tuple[int, ...]]
    ) -> None:
        self.sharing, self.found, self.shapes = sharing, found, list(shapes)
        orbits = orbits_of(sharing.elements, found, self.shapes)
        if sharing.edge is not None:
            check_reflections(sharing.elements, found)
            orbits = with_bulk(orbits, found, sharing.edge, sharing.period)
        self.orbits = tuple(orbits)
        self._bond_factors = _bond_factors(sharing, found, self.shapes)

    @property
    def n_params(self) -> int:
        """Free entries."""
        return sum(orbit.n_free for orbit in self.orbits)

    @property
    def n_gauge(self) -> int:
        """Count directions of theta that change psi by a factor, on bonds that can be filled.

        A scale for each orbit of sites, and X with its inverse, without scale, on bonds that go
        together: D^2 - 1; where both ends must turn by the same X, D (D - 1) / 2.
        """
        return len(self.orbits) + sum(
            D * (D - 1) // 2 if is_reversed else D**2 - 1 for D, is_reversed in self._gauges()
        )

    def parts(self, theta: Array) -> list[Array]:
        """Free entries of each orbit out of theta (P,)."""
        ends = accumulate((orbit.n_free for orbit in self.orbits), initial=0)
        return [theta[begin:end] for begin, end in pairwise(ends)]

    def tensors(self, theta: Array, with_signs: bool = True) -> list[Array]:
        """One tensor per site out of theta (P,), with the signs of its place."""
        xp = array_namespace(theta)
        found: list[Array] = [None] * len(self.shapes)
        for orbit, part in zip(self.orbits, self.parts(theta), strict=True):
            tensor = xp.reshape(xp.take(part, xp.asarray(orbit.entry)), orbit.shape)
            for site, legs in orbit.members:
                moved = xp.permute_dims(tensor, (0, *(1 + leg for leg in legs)))
                found[site] = moved * self._factor(site, xp, theta.dtype) if with_signs else moved
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
                    f"PEPS.flatten: the tensors of sites {[m.site for m in orbit.members]} are not "
                    f"those of one tensor, off by {off:.1e}; make the PEPS without sharing"
                )
            parts.append(free)
        return xp.concat(parts)

    def derivatives(self, slices: Sequence[Array], configs: Array) -> Array:
        """Give log-derivatives (B, P) by theta from those by the entries that configs (B, N) pick.

        `slices` are (B, up * left * down * right) of each site.
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

    @property
    def in_bulk(self) -> frozenset[int]:
        """Sites whose tensor is one with that of sites at another distance from the ends."""

        if self.sharing.edge is None:
            return frozenset()
        at = np.array(np.divmod(self.found.places, self.found.shape[1])).T
        apart = np.sort(np.minimum(at, np.array(self.found.shape) - 1 - at), axis=1)
        orbits = [[member.site for member in orbit.members] for orbit in self.orbits]
        return frozenset(i for sites in orbits if np.ptp(apart[sites], axis=0).any() for i in sites)

    def _gauges(self) -> list[tuple[int, bool]]:
        """Give dimensions of bonds that turn together, and whether both ends turn by one X.

        Legs that are one by sharing turn by the same X, the legs at both ends of a bond by X and
        its inverse: corners and edges of a graph, of whose connected parts each has one X. With a
        cycle of odd length X is also its own inverse transpose; other parts are found twice.
        """
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        leg_at = {m.site: (o, m.legs) for o, orbit in enumerate(self.orbits) for m in orbit.members}

        def corner(site: int, leg: int) -> int:
            orbit, legs = leg_at[site]
            return 4 * orbit + min(fixed[legs[leg]] for fixed in self.orbits[orbit].fixed)

        ends: set[Patch] = set()
        for site, leg in product(leg_at, (DOWN, RIGHT)):
            near = neighbour(self.found, site, leg)
            if near is not None:
                ends.add((corner(site, leg), corner(near, (leg + 2) % 4)))
        n = 4 * len(self.orbits)
        one, two = np.array(sorted(ends)).T if ends else np.empty((2, 0), dtype=np.int64)
        edges = np.concatenate([one, one + n]), np.concatenate([two + n, two])
        joined = coo_array((np.ones(edges[0].size), edges), shape=(2 * n, 2 * n))
        part = connected_components(joined, directed=False)[1]
        found = {}
        for corner_ in np.unique(np.concatenate([one, two])):
            orbit, leg = divmod(int(corner_), 4)
            pair = frozenset((int(part[corner_]), int(part[corner_ + n])))
            found[pair] = self.orbits[orbit].shape[1 + leg], len(pair) == 1
        return list(found.values())


def _alternating(d: int, xp: Any, dtype: Any) -> Array:
    return xp.asarray([(-1.0) ** s for s in range(d)], dtype=dtype)


def _bond_factors(
    sharing: Sharing, found: Embedding, shapes: Sequence[tuple[int, ...]]
) -> dict[int, list[tuple[int, np.ndarray]]]:
    """For each site the legs that carry signs: one end of each reversed bond does."""
    factors: dict[int, list[tuple[int, np.ndarray]]] = {}
    for (one, other), of_pair in sharing.signs:
        for leg in range(4):
            signs = bond_signs(of_pair, shapes[one][1 + leg])
            if neighbour(found, one, leg) == other and (signs < 0).any():
                factors.setdefault(one, []).append((leg, signs))
    return factors
