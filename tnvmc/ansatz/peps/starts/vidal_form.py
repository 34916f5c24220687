"""A PEPS in Vidal's form, gates on pairs of its sites, and the cut of its bonds.

Tensors stand on sites and weights on bonds (Vidal, PRL 91, 147902 (2003)).

All places of the grid have one padded shape: legs without a bond, as those of the rim, are padded
to D with weight zero, so that a whole batch of disjoint bonds is updated by one stacked QR and one
stacked SVD.  A vacant place has a state that nothing acts on.

Gates: Jiang, Weng and Xiang, Phys. Rev. Lett. 101, 090603 (2008); with a QR of both tensors first,
as in Corboz, Orus, Bauer and Vidal, Phys. Rev. B 81, 165104 (2010).  Gates of one, repeated on all
bonds, bring a PEPS into the form that imaginary time in small steps would keep: Ran, Li, Yan and
Su, Phys. Rev. B 86, 134429 (2012).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tnvmc.ansatz.peps.starts.gates import Batch, idle_gates
from tnvmc.lattice.embedding import DOWN, LEFT, RIGHT, Embedding
from tnvmc.operators.term import Operator

Array = Any

ABSENT = 1e-10  # weight, relative to the largest of the bond, below which a state is dropped

_TURNED, _LARGEST_TURN = 1e-6, 5.0  # 2 Sz of a site that is left; exponent of a half spin's factor

_SWEEPS = 200  # at most; optimised states of 4x4 to 12x12 sites, D = 4 and 5, take 16 to 42
_CONVERGED = 1e-8  # change of a weight in one sweep


@dataclass
class VidalPEPS:
    """Tensors of all places and weights of all bonds, changed in place.

    Legs are up, left, down, right; the state is the product of tensors and weights.
    """

    found: Embedding
    tensors: (
        Array  # (n_places, d, D, D, D, D); vertical legs have size 1 in one row, or the reverse
    )
    weights: Array  # (n_bonds + 1, D), norm 1 each; the last one stands for all legs without a bond
    bond_at: Array  # (n_places, 4) index into weights

    @cached_property
    def _states(self) -> Array:
        """1 where a bond has a state, 0 of padding: as weights."""
        states = np.ones_like(self.weights)
        states[-1, 1:] = 0.0
        return states

    @classmethod
    def product(cls, found: Embedding, vectors: Array, D: int, is_complex: bool) -> "VidalPEPS":
        """Make the product of one vector (d,) per site; of bonds of size D one state is used."""
        n_rows, n_cols = found.shape
        n_places, d = n_rows * n_cols, vectors.shape[1]
        bond_at = np.full((n_places, 4), -1)
        for index, (i, j) in enumerate(sorted(found.bonds, key=lambda b: (b[1] - b[0] > 1, b))):
            leg = next(leg for leg in (RIGHT, DOWN, LEFT) if found.beyond(i, leg) == j)
            bond_at[i, leg] = bond_at[j, (leg + 2) % 4] = index
        weights = np.zeros((len(found.bonds) + 1, D))
        weights[:, 0] = 1.0
        vertical, horizontal = D if n_rows > 1 else 1, D if n_cols > 1 else 1
        sizes = (n_places, d, vertical, horizontal, vertical, horizontal)
        tensors = np.zeros(sizes, complex if is_complex else float)
        tensors[:, 0, 0, 0, 0, 0] = 1.0
        tensors[list(found.places), :, 0, 0, 0, 0] = vectors
        return cls(found, tensors, weights, bond_at)

    @classmethod
    def from_peps(
        cls, tensors: Sequence[Array], found: Embedding, D: int, is_complex: bool
    ) -> "VidalPEPS":
        """Pad tensors (d, up, left, down, right) of the sites, with even weights on the bonds.

        Raises:
            ValueError: a bond is larger than D already; tensors that do not fit the grid, are zero
                or not finite.
        """
        for site, tensor in enumerate(tensors):
            if not np.isfinite(tensor).all() or not np.any(tensor):
                raise ValueError(f"simple update: the tensor of site {site} is zero or not finite")
        largest = max(max(tensor.shape[1:]) for tensor in tensors)
        if len(tensors) != len(found.places) or largest > D:
            raise ValueError(
                f"simple update: {len(tensors)} tensors with bonds up to {largest} for "
                f"{len(found.places)} sites and D = {D}; it takes one for each site, of bonds up "
                "to D"
            )
        is_complex = is_complex or any(np.iscomplexobj(tensor) for tensor in tensors)
        state = cls.product(found, np.zeros((len(tensors), tensors[0].shape[0])), D, is_complex)
        for place, tensor in zip(found.places, tensors, strict=True):
            inside = tuple(slice(0, size) for size in tensor.shape)
            state.tensors[(place, *inside)] = tensor / np.abs(tensor).max()
            for bond, size in zip(state.bond_at[place], tensor.shape[1:], strict=True):
                state.weights[bond, :size] = 1 / np.sqrt(size)
        return state

    def surroundings(self, sites: Array, legs: Sequence[int], weights: Any = None) -> Array:
        """Give products of weights, by default its own, on the other legs: (K, D^m)."""
        product, weights = np.ones((len(sites), 1)), self.weights if weights is None else weights
        for leg in _others(legs):
            weight = weights[self.bond_at[sites, leg], : self.tensors.shape[leg + 2]]
            product = (product[:, :, None] * weight[:, None, :]).reshape(len(sites), -1)
        return product

    def split(self, sites: Array, legs: tuple[int, ...]) -> tuple[Array, Array]:
        """QR of the weighted tensors: Q (K, D^m, q) without the weights, R (K, q, d, D, ...).

        Rows of padding are left out where they would make q larger, as at corners.
        """
        x = self.tensors[sites].transpose(order_of_axes(legs))
        kept = x.shape[5 - len(legs) :]
        around = self.surroundings(sites, legs)
        x = x.reshape(*around.shape, -1) * around[:, :, None]
        rows = self.surroundings(sites, legs, self._states)
        n_rows = int(rows.sum(axis=1).max())
        if n_rows < min(x.shape[1:]):
            order = np.argsort(-rows, axis=1, kind="stable")[:, :n_rows, None]
            few, r = np.linalg.qr(np.take_along_axis(x, order, axis=1))
            q = np.zeros((*x.shape[:2], n_rows), x.dtype)
            np.put_along_axis(q, order, few, axis=1)
        else:
            q, r = np.linalg.qr(x)
        inverse = np.divide(1.0, around, out=np.zeros_like(around), where=around > 0)
        return q * inverse[:, :, None], r.reshape(*r.shape[:2], *kept)

    def join(self, sites: Array, legs: tuple[int, ...], q: Array, r: Array) -> None:
        """Put Q R back, scaled to largest entry 1."""
        sizes = [self.tensors.shape[leg + 2] for leg in _others(legs)]
        x = (q @ r.reshape(*r.shape[:2], -1)).reshape(-1, *sizes, *r.shape[2:])
        x = x.transpose(np.argsort(order_of_axes(legs)))
        self.tensors[sites] = x / np.abs(x).max(axis=(1, 2, 3, 4, 5), keepdims=True)

    def update(self, batch: Batch, gates: Array) -> None:
        """Apply gates (K, d^2, d^2) in place."""
        (update_neighbours if len(batch.legs) == 1 else update_path)(self, batch, gates)

    def densities(self) -> Array:
        """Give one-site density matrices (n_places, d, d) with the weights for an environment."""
        sites = np.arange(len(self.tensors))
        x = self.tensors.reshape(*self.tensors.shape[:2], -1)
        x = x * self.surroundings(sites, ())[:, None, :]
        density = x @ x.conj().swapaxes(1, 2)
        return density / np.trace(density, axis1=1, axis2=2)[:, None, None]

    def turn_to_sector(self, operator: Operator, magnetisation: int) -> None:
        """Multiply all sites by exp(c Sz), for the mean 2 Sz of `densities` to be as given."""
        sites = list(self.found.places)
        shares = np.diagonal(self.densities()[sites], axis1=1, axis2=2).real
        lowered = np.arange(shares.shape[1])  # 2 Sz is d - 1 less twice this

        def excess(c: float) -> float:
            weights = shares * np.exp(-2 * c * lowered)
            means = 1 - 2 * (weights @ lowered) / weights.sum(axis=1) / lowered[-1]
            return float(means.sum() * lowered[-1] - magnetisation)

        if abs(excess(0.0)) < _TURNED * len(sites):
            return
        ends = excess(-_LARGEST_TURN), excess(_LARGEST_TURN)
        if ends[0] < 0 < ends[1]:  # not for a sector of one configuration
            from scipy.optimize import brentq

            c = brentq(excess, -_LARGEST_TURN, _LARGEST_TURN)
            factors = np.exp(-c * (lowered - lowered[-1] / 2))
            self.tensors[sites] *= factors[None, :, None, None, None, None]

    def to_peps(self) -> list[Array]:
        """Share the weights evenly between both ends of a bond; cut the padding.

        Gives tensors (d, up, left, down, right), one per site, each of norm 1.
        """
        tensors = []
        for place in self.found.places:
            tensor = self.tensors[place]
            for leg in range(4):
                bond = self.bond_at[place, leg]
                root = np.sqrt(self.weights[bond, : tensor.shape[leg + 1]])
                tensor = np.moveaxis(np.moveaxis(tensor, leg + 1, -1) * root, -1, leg + 1)
                if not self.found.joins(place, leg):  # one state is used
                    tensor = tensor.take([np.argmax(self.weights[bond])], axis=leg + 1)
            tensors.append(tensor / np.linalg.norm(tensor))
        return tensors


def _others(legs: Sequence[int]) -> list[int]:
    return [leg for leg in range(4) if leg not in legs]


def order_of_axes(legs: Sequence[int]) -> list[int]:
    """Order of the axes of stacked tensors: other legs, spin, `legs`."""
    return [0, *(leg + 2 for leg in _others(legs)), 1, *(leg + 2 for leg in legs)]


def update_neighbours(state: VidalPEPS, batch: Batch, gates: Array) -> None:
    """Apply gates (K, d^2, d^2) to neighbours, in place."""
    a, b = batch.sites.T
    legs_a, legs_b = (batch.legs[0],), ((batch.legs[0] + 2) % 4,)
    bond = state.bond_at[a, legs_a[0]]
    q_a, r_a = state.split(a, legs_a)
    q_b, r_b = state.split(b, legs_b)
    pair = np.einsum(
        "kasi,kbti->kabst", r_a * _on_last_axis(state.weights[bond], 4), r_b, optimize=True
    )
    pair = gated(pair, gates)  # k a b s t
    left, weights, right = _cut_svd(pair.transpose(0, 1, 3, 2, 4), 2, state.weights.shape[1])
    state.join(a, legs_a, q_a, left)
    state.join(b, legs_b, q_b, np.moveaxis(right, 1, -1))
    state.weights[bond] = weights


def update_path(state: VidalPEPS, batch: Batch, gates: Array) -> None:
    """Gate on the ends of a path of two bonds, with the site between them carried along."""
    a, m, b = batch.sites.T
    first, second = batch.legs
    legs_a, legs_m, legs_b = (first,), ((first + 2) % 4, second), ((second + 2) % 4,)
    bond_am, bond_mb = state.bond_at[a, first], state.bond_at[m, second]
    D = state.weights.shape[1]
    q_a, r_a = state.split(a, legs_a)
    q_m, r_m = state.split(m, legs_m)  # k c u i j
    q_b, r_b = state.split(b, legs_b)
    r_a = r_a * _on_last_axis(state.weights[bond_am], 4)
    r_b = r_b * _on_last_axis(state.weights[bond_mb], 4)
    three = np.einsum("kasi,kcuij,kbtj->kacubst", r_a, r_m, r_b, optimize=True)
    three = gated(three, gates).transpose(0, 1, 5, 2, 3, 4, 6)  # k a s c u b t
    left, weights_am, rest = _cut_svd(three, 2, D)
    rest = rest * weights_am.reshape(-1, D, 1, 1, 1, 1)  # k i c u b t
    middle, weights_mb, right = _cut_svd(rest, 3, D)  # k i c u j
    inverse = np.divide(1.0, weights_am, out=np.zeros_like(weights_am), where=weights_am > 0)
    middle = middle * inverse.reshape(-1, D, 1, 1, 1)
    state.join(a, legs_a, q_a, left)
    state.join(m, legs_m, q_m, middle.transpose(0, 2, 3, 1, 4))
    state.join(b, legs_b, q_b, np.moveaxis(right, 1, -1))
    state.weights[bond_am], state.weights[bond_mb] = weights_am, weights_mb


def _on_last_axis(weights: Array, ndim: int) -> Array:
    """Weights (K, D) shaped to multiply the last axis."""
    return weights.reshape(len(weights), *[1] * (ndim - 2), -1)


def gated(x: Array, gates: Array) -> Array:
    """Apply gates (K, d^2, d^2) to the last two axes."""
    flat = x.reshape(len(x), -1, gates.shape[1])
    return (flat @ gates.swapaxes(1, 2)).reshape(x.shape)


def _cut_svd(x: Array, n_left: int, D: int) -> tuple[Array, Array, Array]:
    """SVD between the first `n_left` axes (after the batch) and the rest, cut or padded to D.

    Gives left (K, ..., D), weights (K, D) of norm 1 and right (K, D, ...).
    """
    n_batch, rows, columns = len(x), x.shape[1 : 1 + n_left], x.shape[1 + n_left :]
    u, s, v = np.linalg.svd(x.reshape(n_batch, int(np.prod(rows)), -1), full_matrices=False)
    kept = np.where(s[:, :D] > ABSENT * s[:, :1], s[:, :D], 0.0)
    k, present = kept.shape[1], kept > 0
    left = np.zeros((*u.shape[:2], D), u.dtype)
    right = np.zeros((n_batch, D, v.shape[2]), v.dtype)
    weights = np.zeros((n_batch, D))
    left[:, :, :k] = u[:, :, :k] * present[:, None, :]
    right[:, :k] = v[:, :k] * present[:, :, None]
    weights[:, :k] = kept / np.sqrt((kept**2).sum(axis=1))[:, None]
    return left.reshape(n_batch, *rows, D), weights, right.reshape(n_batch, D, *columns)


def equilibrate(state: VidalPEPS) -> None:
    """Bring a state, in place, into the form that gates of one leave as it is; its amplitudes stay.

    Cost per bond and sweep: d D^5 and an SVD of (d^2 D) x (d^2 D); at most 200 sweeps.
    """
    batches = idle_gates(state.found, state.tensors.shape[1])
    for _ in range(_SWEEPS):
        before = state.weights.copy()
        for batch in batches:
            state.update(batch, batch.matrices)
        if np.abs(state.weights - before).max() < _CONVERGED:
            break


def cut(state: VidalPEPS, D: int) -> tuple[list[Array], float]:
    """Keep the D states of largest weight on every bond of a state, in place, in any gauge.

    Exact where a bond needs no more of them, as on a tree for a bond of rank D. With loops it is an
    approximation (docs/decisions/036-cut-states.md).

    Gives tensors of norm 1, with the bonds in use of size D; and the largest weight that a bond
    lost, as a share of the sum of squares of its weights.  It is no error of the energy.

    Raises:
        ValueError: a state that vanishes.
    """
    try:
        with np.errstate(divide="ignore", invalid="ignore"):
            equilibrate(state)
    except np.linalg.LinAlgError:  # weights of a state that vanishes are not finite
        raise ValueError("cut: the state vanishes, or its numbers are out of range") from None
    inside = tuple(slice(min(size, D)) for size in state.tensors.shape[2:])
    lost = float((state.weights[:, D:] ** 2).sum(axis=1).max())
    state.tensors = np.ascontiguousarray(state.tensors[(..., *inside)])
    state.weights = state.weights[:, :D]
    return state.to_peps(), lost
