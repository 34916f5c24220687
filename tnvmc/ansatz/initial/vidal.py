"""A PEPS in Vidal's form: tensors on sites and weights on bonds (Vidal, PRL 91, 147902 (2003)).

All places of the grid share one padded shape: legs without a bond, as those of the rim, are padded to D
with weight zero, so that a whole batch of disjoint bonds is updated by one stacked QR and one stacked
SVD.  A vacant place holds a state that nothing acts on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.lattice.embedding import DOWN, LEFT, RIGHT, Embedding

Array = Any


@dataclass
class VidalPEPS:
    """Tensors of all places and weights of all bonds, changed in place.

    Legs are up, left, down, right; the state is the product of tensors and weights.
    """

    found: Embedding
    tensors: (
        Array  # (n_places, d, D, D, D, D); no vertical legs (size 1) in one row, or the reverse
    )
    weights: Array  # (n_bonds + 1, D), norm 1 each; the last one stands for all legs without a bond
    bond_at: Array  # (n_places, 4) index into weights

    @classmethod
    def product(cls, found: Embedding, vectors: Array, D: int, is_complex: bool) -> VidalPEPS:
        """Make the product of one vector (d,) per site, in bonds of size D of which one state is used."""
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
    ) -> VidalPEPS:
        """Put tensors (d, up, left, down, right) of the sites into padded ones with even weights on the bonds.

        Raises:
            ValueError: a bond is larger than D already; tensors that do not fit the grid.
        """
        largest = max(max(tensor.shape[1:]) for tensor in tensors)
        if len(tensors) != len(found.places) or largest > D:
            raise ValueError(
                f"simple update: {len(tensors)} tensors with bonds up to {largest} for "
                f"{len(found.places)} sites and D = {D}; it takes one for each site, of bonds up to D"
            )
        is_complex = is_complex or any(np.iscomplexobj(tensor) for tensor in tensors)
        state = cls.product(found, np.zeros((len(tensors), tensors[0].shape[0])), D, is_complex)
        for place, tensor in zip(found.places, tensors, strict=True):
            inside = tuple(slice(0, size) for size in tensor.shape)
            state.tensors[(place, *inside)] = tensor / np.abs(tensor).max()
            for bond, size in zip(state.bond_at[place], tensor.shape[1:], strict=True):
                state.weights[bond, :size] = 1 / np.sqrt(size)
        return state

    def surroundings(self, sites: Array, legs: Sequence[int]) -> Array:
        """Give products of the weights on the other legs: (K, D^m)."""
        product = np.ones((len(sites), 1))
        for leg in _others(legs):
            weight = self.weights[self.bond_at[sites, leg], : self.tensors.shape[leg + 2]]
            product = (product[:, :, None] * weight[:, None, :]).reshape(len(sites), -1)
        return product

    def split(self, sites: Array, legs: tuple[int, ...]) -> tuple[Array, Array]:
        """QR of the weighted tensors: Q (K, D^m, q) without the weights, R (K, q, d, D, ...)."""
        x = self.tensors[sites].transpose(_axes(legs))
        kept = x.shape[5 - len(legs) :]
        around = self.surroundings(sites, legs)
        q, r = np.linalg.qr(x.reshape(*around.shape, -1) * around[:, :, None])
        inverse = np.divide(1.0, around, out=np.zeros_like(around), where=around > 0)
        return q * inverse[:, :, None], r.reshape(*r.shape[:2], *kept)

    def join(self, sites: Array, legs: tuple[int, ...], q: Array, r: Array) -> None:
        """Put Q R back, scaled to largest entry 1."""
        sizes = [self.tensors.shape[leg + 2] for leg in _others(legs)]
        x = (q @ r.reshape(*r.shape[:2], -1)).reshape(-1, *sizes, *r.shape[2:])
        x = x.transpose(np.argsort(_axes(legs)))
        self.tensors[sites] = x / np.abs(x).max(axis=(1, 2, 3, 4, 5), keepdims=True)

    def densities(self) -> Array:
        """Give one-site density matrices (n_places, d, d) with the weights for an environment."""
        sites = np.arange(len(self.tensors))
        x = self.tensors.reshape(*self.tensors.shape[:2], -1)
        x = x * self.surroundings(sites, ())[:, None, :]
        density = x @ x.conj().swapaxes(1, 2)
        return density / np.trace(density, axis1=1, axis2=2)[:, None, None]

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
                if bond == -1:
                    tensor = tensor.take([0], axis=leg + 1)
            tensors.append(tensor / np.linalg.norm(tensor))
        return tensors


def _others(legs: Sequence[int]) -> list[int]:
    return [leg for leg in range(4) if leg not in legs]


def _axes(legs: Sequence[int]) -> list[int]:
    """Order of the axes of stacked tensors: other legs, spin, `legs`."""
    return [0, *(leg + 2 for leg in _others(legs)), 1, *(leg + 2 for leg in legs)]
