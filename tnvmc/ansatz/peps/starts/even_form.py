"""A PEPS of fermions in Vidal's form: gates that keep even and odd states of bonds apart.

The states of a bond are even and odd by turns, and a tensor is even; that of the first site has
the parity of the number of particles, by one odd state of its left leg (or upper one), which ends
there.  A gate on neighbours meets signs at one place alone: the second site's tensor is multiplied
by -1 where its spin and its lower leg (of neighbours in a row; of those in a column the right one)
are odd, before the gate and after it.  That moves the line of its spin to the other side of this
leg, beside that of the first site (`peps.fermions`); the gate has the order of modes of its own
two sites.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.ansatz.peps.starts.gates import Batch
from tnvmc.ansatz.peps.starts.vidal_form import ABSENT, VidalPEPS, gated, order_of_axes
from tnvmc.lattice.embedding import DOWN, LEFT, RIGHT, UP, Embedding
from tnvmc.operators.term import Operator

Array = Any

_NOISE = 0.1
"""Of the product state, on bonds of two states: without it every tensor conserves the number of
particles, of which a small bond carries few."""


@dataclass
class EvenVidalPEPS(VidalPEPS):
    """`VidalPEPS` with even tensors; `odd` are the parities of the local states."""

    odd: tuple[int, ...] = ()

    @classmethod
    def product_with_noise(
        cls, operator: Operator, found: Embedding, D: int, seed: int
    ) -> "EvenVidalPEPS":
        """A product of `occupied` sites, with noise."""
        assert operator.fermions is not None
        odd, vectors = np.array(operator.fermions.odd), occupied(operator)
        own_parity = odd[np.argmax(np.abs(vectors), axis=1)]
        bonds = _parities_of_bonds(found, own_parity)
        rng, tensors = np.random.Generator(np.random.PCG64(seed)), []
        for site, place in enumerate(found.places):
            sizes = tuple(2 if found.joins(place, leg) else 1 for leg in range(4))
            tensors.append(_NOISE * rng.normal(size=(len(odd), *sizes)))
            own = [bonds.get(_bond(found, place, leg), 0) for leg in range(4)]
            there = vectors[site] != 0
            tensors[site][(there, *own)] = vectors[site][there]
        about = found, D, operator.is_complex
        return cls.from_even(tensors, *about, operator.fermions.odd, int(own_parity.sum()) % 2)

    @classmethod
    def from_even(
        cls, tensors: Sequence[Array], found: Embedding, D: int, is_complex: bool,
        odd: tuple[int, ...], charge: int | None = None,
    ) -> "EvenVidalPEPS":  # fmt: skip
        """`from_peps` of the even entries; `charge` is the parity of the number of particles.

        Without it, the one of which the first tensor has more.
        """
        parities = [_parity(np.array(odd), tensor.shape[1:]) for tensor in tensors]
        if charge is None:
            shares = [np.sum(np.abs(tensors[0][parities[0] == p]) ** 2) for p in (0, 1)]
            charge = int(np.argmax(shares))
        wanted = [charge] + [0] * (len(tensors) - 1)
        even = [
            np.where(parity == p, tensor, 0)
            for parity, p, tensor in zip(parities, wanted, tensors, strict=True)
        ]
        plain = VidalPEPS.from_peps(even, found, D, is_complex)
        state = cls(found, plain.tensors, plain.weights, plain.bond_at, odd)
        if charge:
            state._end_with_odd_state(LEFT if found.shape[1] > 1 else UP)
        return state

    def _end_with_odd_state(self, leg: int) -> None:
        """Move the first site's tensor to the odd state of a leg without a bond."""
        place = self.found.places[0]
        self.tensors[place] = np.roll(self.tensors[place], 1, axis=leg + 1)
        self.weights = np.insert(self.weights, -1, np.eye(self.weights.shape[1])[1], axis=0)
        self.bond_at[place, leg] = len(self.weights) - 2

    def update(self, batch: Batch, gates: Array) -> None:
        """Apply gates (K, d^2, d^2) to neighbours, in place."""
        a, b = batch.sites.T
        leg_a, leg_b = batch.legs[0], (batch.legs[0] + 2) % 4
        bond, D = self.bond_at[a, leg_a], self.weights.shape[1]
        turned = self._turned(DOWN if leg_a == RIGHT else RIGHT)
        self.tensors[b] *= turned
        q_a, r_a, odd_a = self._split_by_parity(a, leg_a)
        q_b, r_b, odd_b = self._split_by_parity(b, leg_b)
        weighted = r_a * self.weights[bond][:, None, None, :]
        pair = gated(np.einsum("kasi,kbti->kabst", weighted, r_b, optimize=True), gates)
        pair = pair.transpose(0, 1, 3, 2, 4).reshape(len(a), odd_a.size * len(self.odd), -1)
        left, weights, right = _cut_by_parity(pair, _with_spin(odd_a, self.odd),
                                                    _with_spin(odd_b, self.odd), D)  # fmt: skip
        d = len(self.odd)
        self.join(a, (leg_a,), q_a, left.reshape(len(a), -1, d, D))
        self.join(b, (leg_b,), q_b, np.moveaxis(right.reshape(len(b), D, -1, d), 1, -1))
        self.tensors[b] *= turned
        self.weights[bond] = weights

    def _turned(self, leg: int) -> Array:
        """-1 where the spin and a leg are odd, for tensors (K, d, up, left, down, right)."""
        shape = [1, len(self.odd), 1, 1, 1, 1]
        along = np.arange(self.tensors.shape[leg + 2]) % 2
        legs = along.reshape([-1 if axis == leg + 2 else 1 for axis in range(6)])
        return 1.0 - 2 * np.array(self.odd).reshape(shape) * legs

    def _split_by_parity(self, sites: Array, leg: int) -> tuple[Array, Array, np.ndarray]:
        """QR as of `split`, of even and odd rows apart; with the parities of the new states."""
        x = self.tensors[sites].transpose(order_of_axes((leg,)))
        d, D, sizes = x.shape[4], x.shape[5], x.shape[1:4]
        around = self.surroundings(sites, (leg,))
        x = x.reshape(*around.shape, d * D) * around[:, :, None]
        rows = _parity(np.zeros(1, int), (*sizes, 1)).ravel()
        columns = _with_spin(np.arange(D) % 2, self.odd, spin_first=True)
        parts, odd = [], []
        for p in (0, 1):
            own, theirs = np.flatnonzero(rows == p), np.flatnonzero(columns == p)
            q, r = np.linalg.qr(x[:, own[:, None], theirs])
            parts.append((own, theirs, q, r))
            odd += [p] * q.shape[2]
        q_all = np.zeros((len(x), rows.size, len(odd)), x.dtype)
        r_all, begin = np.zeros((len(x), len(odd), columns.size), x.dtype), 0
        for own, theirs, q, r in parts:
            new = np.arange(begin, begin + q.shape[2])
            q_all[:, own[:, None], new], r_all[:, new[:, None], theirs] = q, r
            begin += q.shape[2]
        inverse = np.divide(1.0, around, out=np.zeros_like(around), where=around > 0)
        return q_all * inverse[:, :, None], r_all.reshape(len(x), -1, d, D), np.array(odd)

    def turn_to_sector(self, operator: Operator, magnetisation: int) -> None:
        """Multiply all sites by exp(sum_k c_k n_k), for the mean numbers of particles as given."""
        strings, sites = operator.strings, list(self.found.places)
        assert strings is not None
        counts = np.array(strings.fermions.numbers, float)
        for k, n in enumerate(strings.particles(magnetisation)):
            shares = np.diagonal(self.densities()[sites], axis1=1, axis2=2).real

            def excess(c: float, k: int = k, n: int = n, shares: Array = shares) -> float:
                weights = shares * np.exp(2 * c * counts[k])
                return float(((weights @ counts[k]) / weights.sum(axis=1)).sum() - n)

            if excess(-5.0) < 0 < excess(5.0):  # not where none or all of the places are filled
                from scipy.optimize import brentq

                factors = np.exp(brentq(excess, -5.0, 5.0) * counts[k])
                self.tensors[sites] *= factors[None, :, None, None, None, None]


def occupied(operator: Operator) -> np.ndarray:
    """Vectors (N, d) of a product state with the mean particle numbers of the sector.

    One species fills one sublattice first, another one the other.  Sites that hold one particle of
    two species then have both spins, up +- down by sublattices: an order in the plane, of which the
    numbers of the sector restore what it breaks, as they do for magnets (`simple_update`).
    """
    strings, lattice = operator.strings, operator.lattice
    assert strings is not None
    numbers, n_sites = strings.fermions.numbers, lattice.n_sites
    rows, columns = np.divmod(np.array(lattice.places), lattice.n_cols)
    board = (rows + columns) % 2
    order = np.lexsort((np.arange(n_sites), board))
    filled = np.zeros((len(numbers), n_sites), int)
    for k, n in enumerate(strings.particles(operator.magnetisation or 0)):
        filled[k, order[:: 1 - 2 * k][:n]] = 1
    holding = {held: s for s, held in enumerate(zip(*numbers, strict=True))}
    vectors = np.zeros((n_sites, len(holding)))
    vectors[np.arange(n_sites), [holding[tuple(held)] for held in filled.T]] = 1.0
    if len(numbers) > 1:
        up, down = holding[1, 0], holding[0, 1]
        single = np.flatnonzero(filled.sum(axis=0) == 1)
        share = filled[0, single].mean() if single.size else 0.0
        vectors[single, up] = np.sqrt(share)
        vectors[single, down] = np.sqrt(1 - share) * (1 - 2 * board[single])
    return vectors


def _bond(found: Embedding, place: int, leg: int) -> tuple[int, int] | None:
    other = found.beyond(place, leg) if found.joins(place, leg) else None
    return None if other is None else (min(place, other), max(place, other))


def _parities_of_bonds(found: Embedding, odd: np.ndarray) -> dict[Any, int]:
    """Parities of bonds, of a tree of them, with which every tensor but the first is even."""
    first, parent, order = found.places[0], {}, [found.places[0]]
    for place in order:  # grows
        for leg in range(4):
            bond = _bond(found, place, leg)
            other = None if bond is None else sum(bond) - place
            if other is not None and other != first and other not in parent:
                parent[other] = place
                order.append(other)
    total = dict(zip(found.places, map(int, odd), strict=True))
    bonds: dict[Any, int] = {}
    for place in order[:0:-1]:
        bonds[min(place, parent[place]), max(place, parent[place])] = total[place] % 2
        total[parent[place]] += total[place]
    return bonds


def _parity(odd: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Parities of the entries of a tensor (d, *sizes) of four legs."""
    legs = np.meshgrid(*(np.arange(size) % 2 for size in sizes), indexing="ij")
    return (np.asarray(odd).reshape(-1, 1, 1, 1, 1) + sum(legs)) % 2


def _with_spin(odd: np.ndarray, spins: Sequence[int], spin_first: bool = False) -> np.ndarray:
    """Parities of products of states with a spin, which is the second index, or the first."""
    total = np.add.outer(np.array(spins), odd) if spin_first else np.add.outer(odd, spins)
    return np.asarray(total % 2).ravel()


def _cut_by_parity(
    x: Array, rows: np.ndarray, columns: np.ndarray, D: int
) -> tuple[Array, Array, Array]:
    """SVD of (K, n, m) whose even and odd parts do not mix, cut or padded to D states by turns.

    Gives left (K, n, D), weights (K, D) of norm 1 and right (K, D, m).
    """
    left = np.zeros((*x.shape[:2], D), x.dtype)
    right, weights = np.zeros((len(x), D, x.shape[2]), x.dtype), np.zeros((len(x), D))
    for p in (0, 1):
        own, theirs = np.flatnonzero(rows == p), np.flatnonzero(columns == p)
        u, s, v = np.linalg.svd(x[:, own[:, None], theirs], full_matrices=False)
        slots = np.arange(p, D, 2)[: s.shape[1]]
        weights[:, slots] = s[:, : slots.size]
        left[:, own[:, None], slots] = u[:, :, : slots.size]
        right[:, slots[:, None], theirs] = v[:, : slots.size]
    weights[weights <= ABSENT * weights.max(axis=1, keepdims=True)] = 0.0
    left, right = left * (weights > 0)[:, None, :], right * (weights > 0)[:, :, None]
    return left, weights / np.linalg.norm(weights, axis=1, keepdims=True), right
