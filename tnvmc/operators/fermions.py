"""Fermions: what local states hold, the order of the modes, and the signs of Jordan-Wigner strings.

An amplitude psi(s) is the coefficient of the product of creation operators in the order of the
modes: by columns, within a column from the bottom row to the top, and up before down on a site.  A
matrix on some sites has the signs of these sites alone; those of the sites between come from
`Strings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from tnvmc.backend.arguments import whole
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.operators.spin import digits_of

if TYPE_CHECKING:
    from tnvmc.lattice.lattice import Lattice, Patch

Array = Any


@dataclass(frozen=True)
class Fermions:
    """What the local states of a site hold."""

    odd: tuple[int, ...]  #: of each local state: 1 where its number of fermions is odd
    numbers: tuple[tuple[int, ...], ...]  #: by species: the particles in each local state

    def named_matrices(self) -> dict[str, np.ndarray]:
        """Give the matrices (d, d) of one site that have a name in products.

        c and c^ (cup, c^up, cdn, c^dn with spin), n (nup, ndn), I; with spin Sx Sy Sz S+ S-, and
        nupdn where a site can hold both.
        """
        d = len(self.odd)
        found: dict[str, np.ndarray] = {"I": np.eye(d)}
        for k, name in enumerate(("up", "dn") if len(self.numbers) > 1 else ("",)):
            lower, before = np.zeros((d, d)), np.sum(self.numbers[:k], axis=0) * np.ones(d)
            states = [tuple(column) for column in zip(*self.numbers, strict=True)]
            for state, column in enumerate(states):
                less = (*column[:k], column[k] - 1, *column[k + 1 :])
                if less in states:
                    lower[states.index(less), state] = 1 - 2 * (before[state] % 2)
            found |= {f"c{name}": lower, f"c^{name}": lower.T, f"n{name}": lower.T @ lower}
        if len(self.numbers) > 1:
            up, down = found["nup"], found["ndn"]
            raising = found["c^up"] @ found["cdn"]
            found |= {"n": up + down, "Sz": (up - down) / 2, "S+": raising, "S-": raising.T}
            found |= {"Sx": (raising + raising.T) / 2, "Sy": (raising - raising.T) / 2j}
            if np.any(up @ down):
                found["nupdn"] = up @ down
        return found

    def keep_parity(self, matrix: np.ndarray) -> bool:
        """Tell whether a matrix (d^k, d^k) keeps the parity of the number of fermions."""
        n_sites = round(np.log(len(matrix)) / np.log(len(self.odd)))
        odd = np.array(self.odd)[digits_of(n_sites, len(self.odd))].sum(axis=1) % 2
        return not np.any(matrix[np.not_equal.outer(odd, odd)])

    def product(self, factors: Sequence[np.ndarray], order: Sequence[int]) -> np.ndarray:
        """Multiply matrices (d, d), one on each site; `order` are the sites as their modes come.

        The result (d^k, d^k) has the strings within these sites, and legs as the factors come.
        """
        one, parity = np.eye(len(self.odd)), np.diag(1.0 - 2 * np.array(self.odd))
        rank, total = np.argsort(order), np.eye(len(self.odd) ** len(factors))
        for site, factor in enumerate(factors):
            string = parity if np.any(factor[np.not_equal.outer(self.odd, self.odd)]) else one
            places = [string if rank[k] < rank[site] else one for k in range(len(factors))]
            total = total @ reduce(np.kron, [*places[:site], factor, *places[site + 1 :]])
        return total


SPINLESS = Fermions((0, 1), ((0, 1),))
T_J = Fermions((0, 1, 1), ((0, 1, 0), (0, 0, 1)))
HUBBARD = Fermions((0, 1, 1, 0), ((0, 1, 0, 1), (0, 0, 1, 1)))
BY_NAME = {"spinless": SPINLESS, "tj": T_J, "hubbard": HUBBARD}


def mode_order(lattice: Lattice) -> tuple[int, ...]:
    """Give the sites as their modes come: by columns, from the bottom row to the top."""
    rows, columns = np.divmod(lattice.places, lattice.n_cols)
    return tuple(map(int, np.lexsort((-rows, columns))))


NO_PARTICLES = "it conserves the number of particles; give it, as particles = 4 or [5, 5]"


def sector_text(sector: int | None, particles: Any = None) -> str:
    """Say which sector it is: "2 Sz = 0", "6 particles", "5 up, 5 down"; "" for all of them."""
    if particles is None:
        return "" if sector is None else f"2 Sz = {sector}"
    given = np.ravel(particles).tolist()
    return f"{given[0]} up, {given[1]} down" if len(given) > 1 else f"{given[0]} particles"


@dataclass(frozen=True)
class Strings:
    """Fermions on the sites of a lattice: the sectors there are, and signs of matrix elements.

    The particle numbers of all species make one integer, N_1 + (n_sites + 1) N_2, which stands
    where spins have twice the total Sz.
    """

    fermions: Fermions
    order: tuple[int, ...]  #: see `mode_order`

    @property
    def weights(self) -> tuple[int, ...]:
        """What each local state adds to the number of a sector."""
        holds = zip(*self.fermions.numbers, strict=True)
        return tuple(sum(n * (len(self.order) + 1) ** k for k, n in enumerate(s)) for s in holds)

    def sector(self, particles: Any) -> int:
        """Give the number of a sector from one number of particles for each species.

        Raises:
            ValueError: another number of numbers; more particles than fit.
        """
        given, held, n_sites = np.ravel(particles).tolist(), self.fermions.numbers, len(self.order)
        if particles is None or len(given) != len(held):
            form = "[up, down], as [5, 5]" if len(held) > 1 else "one number, as 6"
            raise ValueError(f"particles: give {form}")
        numbers = [whole("particles", "a number of particles", n, 0) for n in given]
        most = max(map(sum, zip(*held, strict=True)))
        if max(numbers) > n_sites or sum(numbers) > most * n_sites:
            raise ValueError(f"particles = {particles}: more than fit {n_sites} sites")
        return sum(n * (n_sites + 1) ** k for k, n in enumerate(numbers))

    def particles(self, sector: int) -> tuple[int, ...]:
        """Give the number of particles of each species."""
        base = len(self.order) + 1
        return tuple(sector // base**k % base for k in range(len(self.fermions.numbers)))

    def changes(self, sites: Patch, targets: np.ndarray) -> np.ndarray:
        """Give (d^k, R, k): 1 where the parity up to a mode of the patch, itself too, changes."""
        odd = np.array(self.fermions.odd)
        order = sorted(range(len(sites)), key=lambda k: self.order.index(sites[k]))
        parity = odd[digits_of(len(sites), len(odd))][:, order]
        change = parity[np.maximum(targets, 0)] - parity[:, None, :]
        return np.asarray(np.cumsum(change, axis=2) % 2, dtype=np.float64)

    def signs(self, configs: Array, states: Array, sites: Patch, targets: np.ndarray) -> Array:
        """Give +-1 (B, R) for each replacement of a patch in each configuration (B, N).

        `states` are local states of the patch (B,), `targets` its replacements (d^k, R), padded
        with -1.
        """
        xp = array_namespace(configs)
        changes = self.changes(sites, targets)[:, :, :-1]
        ranks = sorted(self.order.index(site) for site in sites)
        between = np.zeros((len(self.order), len(sites) - 1))
        for j in range(len(sites) - 1):
            between[list(self.order[ranks[j] + 1 : ranks[j + 1]]), j] = 1
        if not (changes.any(axis=(0, 1)) & between.any(axis=0)).any():
            return xp.ones((configs.shape[0], targets.shape[1]), dtype=xp.float64)
        counts = self._odd(configs) @ to_namespace(between, xp)
        chosen = xp.take(to_namespace(changes, xp), states, axis=0)
        return 1.0 - 2.0 * (xp.sum(chosen * counts[:, None, :], axis=2) % 2.0)

    def of_image(self, configs: Array, places: Sequence[int]) -> Array:
        """Give +-1 (B,), by which fermions of (B, N) that move to `places` come in another order.

        With (g s) the configuration where they are then, U_g: psi(s) -> sign(s) psi(g s) is the
        rearrangement c_i -> c_places[i], and keeps what H is made of.
        """
        odd = self._odd(configs)
        crossed = to_namespace(self._crossed(places), array_namespace(configs))
        return 1.0 - 2.0 * (array_namespace(odd).sum((odd @ crossed) * odd, axis=1) % 2.0)

    def changes_of_image(
        self, configs: Array, states: Array, places: Sequence[int], sites: Patch, targets: Array
    ) -> Array:
        """Give what `of_image` is multiplied by for each replacement of a patch, +-1 (B, R).

        `states` are local states of the patch (B,), `targets` its replacements (d^k, R).
        """
        xp, crossed = array_namespace(configs), self._crossed(places)
        digits = np.array(self.fermions.odd)[digits_of(len(sites), len(self.fermions.odd))]
        change = digits[np.maximum(to_host(targets), 0)] - digits[:, None, :]
        within = crossed[np.ix_(sites, sites)]
        own = np.einsum("srk,kl,srl->sr", change, within, change)
        around = to_namespace((crossed + crossed.T)[:, list(sites)], xp)
        met = (self._odd(configs) @ around)[:, None, :]
        change, own = (to_namespace(each.astype(float), xp) for each in (change, own))
        total = xp.sum(xp.take(change, states, axis=0) * met, axis=2) + xp.take(own, states, axis=0)
        return 1.0 - 2.0 * (total % 2.0)

    def _odd(self, configs: Array) -> Array:
        """Parities (B, N) of the particles on each site, as floats."""
        xp = array_namespace(configs)
        odd = to_namespace(np.array(self.fermions.odd, dtype=np.float64), xp)
        flat = xp.astype(xp.reshape(configs, (-1,)), xp.int64)
        return xp.reshape(xp.take(odd, flat), configs.shape)

    def _crossed(self, places: Sequence[int]) -> np.ndarray:
        """1 for sites i, j (N, N) where i comes before j among the modes, and after it there."""
        rank = np.argsort(self.order)
        there = rank[list(places)]
        return (np.less.outer(rank, rank) & np.greater.outer(there, there)).astype(np.float64)

    def moved(self, sites: Patch, matrix: np.ndarray, places: Sequence[int]) -> np.ndarray:
        """Give the matrix (d^k, d^k) of a term of some sites where these are at `places`."""
        odd = np.array(self.fermions.odd)[digits_of(len(sites), len(self.fermions.odd))]
        within = self._crossed(places)[np.ix_(sites, sites)]
        signs = 1 - 2 * (np.einsum("sk,kl,sl->s", odd, within, odd) % 2)
        return np.asarray(signs[:, None] * matrix * signs)

    def within(self, sites: Patch, matrix: np.ndarray, patch: Patch) -> np.ndarray:
        """Give a matrix of `sites`, widened to a patch (d^k, d^k), the strings between them."""
        d = len(self.fermions.odd)
        digits = digits_of(len(patch), d)
        configs = np.zeros((len(digits), len(self.order)), dtype=np.int64)  # 0 is empty
        configs[:, list(patch)] = digits
        local = configs[:, list(sites)] @ d ** np.arange(len(sites) - 1, -1, -1)
        every = np.tile(np.arange(d ** len(sites)), (d ** len(sites), 1))
        return np.asarray(matrix * self.signs(configs, local, sites, every)[:, local])
