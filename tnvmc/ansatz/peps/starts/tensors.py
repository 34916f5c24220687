"""Tensors to start a PEPS from without a Hamiltonian: random, grown from others, with noise.

All functions give a list of arrays (d, up, left, down, right), one per site, with legs of size 1 at
the rim and where the lattice joins no neighbours, and D elsewhere.  Simple update, which does need
the Hamiltonian, has its own file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tnvmc.lattice.embedding import DOWN, LEFT, RIGHT, UP, Bonds, Embedding, embedding
from tnvmc.lattice.lattice import Lattice

Array = Any

NOISE = 0.02
"""Of the largest entry of a tensor: enough to open bonds that a start leaves unused."""


def bond_sizes(found: Embedding, D: int) -> list[tuple[int, int, int, int]]:
    """Give the sizes (up, left, down, right) of each site's bonds.

    D along the bonds of the embedding; 1 at the rim and along all others.
    """
    if D < 1:
        raise ValueError(f"starts: bond dimension D must be at least 1, got {D}")

    def size(place: int, leg: int) -> int:
        return D if found.joins(place, leg) else 1

    return [
        (size(place, UP), size(place, LEFT), size(place, DOWN), size(place, RIGHT))
        for place in found.places
    ]


def random_positive(
    lattice: Lattice,
    D: int,
    dtype: Any = "float64",
    seed: int = 0,
    local_dim: int = 2,
    bonds: Bonds = "open",
) -> list[Array]:
    """Give tensors with entries uniform in [0, 1), scaled to norm 1; all amplitudes are positive.

    A complex dtype gets random phases of up to +-pi/4 as well, which keep amplitudes from
    vanishing by accident on small lattices, but no longer positive.

    Raises:
        ValueError: D below 1.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    tensors = []
    for sizes in bond_sizes(embedding(lattice, bonds), D):
        tensor = rng.uniform(size=(local_dim, *sizes))
        if np.issubdtype(np.dtype(dtype), np.complexfloating):
            tensor = tensor * np.exp(0.25j * np.pi * rng.uniform(-1, 1, size=tensor.shape))
        tensors.append((tensor / np.linalg.norm(tensor)).astype(dtype))
    return tensors


def grow(
    tensors: Sequence[Array],
    found: Embedding,
    D: int,
    noise: float = 1e-2,
    seed: int = 0,
    *,
    per_entry: bool = False,
) -> list[Array]:
    """Give the same state with bonds of size D: old entries kept, new ones small and random.

    `noise` is the norm of a tensor's new entries relative to that of the tensor, so amplitudes
    change by about that; with none they stay as they are, but then the new entries have no
    gradient either and stay zero.  With `per_entry` it is the deviation of one new entry relative
    to the tensor's largest, however many there are.

    Raises:
        ValueError: a bond is larger than D already; tensors that do not fit the lattice.
    """
    sizes_by_site = bond_sizes(found, D)
    if len(tensors) != len(sizes_by_site):
        raise ValueError(f"starts: {len(tensors)} tensors for {len(found.places)} sites")
    rng = np.random.Generator(np.random.PCG64(seed))
    grown = []
    for site, (tensor, sizes) in enumerate(zip(tensors, sizes_by_site, strict=True)):
        old = np.asarray(tensor)
        if any(have > room for have, room in zip(old.shape[1:], sizes, strict=True)):
            raise ValueError(
                f"starts: site {site} has bonds (up, left, down, right) of {old.shape[1:]}, but "
                f"D = {D} leaves room for {sizes}; a state that grows is not cut"
            )
        inside = tuple(slice(0, size) for size in old.shape)
        new = np.zeros((old.shape[0], *sizes), old.dtype)
        if old.shape != new.shape and noise:
            new += _deviates(rng, new)
            new[inside] = 0
            added = np.linalg.norm(new)
            if per_entry:
                size = np.abs(old).max() * np.sqrt(new.size - old.size)
            else:
                size = np.linalg.norm(old)
            new *= noise * size / added
        new[inside] = old
        grown.append(new)
    return grown


def _deviates(rng: np.random.Generator, like: Array) -> Array:
    """Normal deviates in the shape and dtype of `like`, of norm 1."""
    x = rng.standard_normal(like.shape)
    if np.iscomplexobj(like):
        x = x + 1j * rng.standard_normal(like.shape)
    return (x / np.linalg.norm(x)).astype(like.dtype)


def noisy(tensor: Array, rng: np.random.Generator, noise: float = NOISE) -> Array:
    """Put noise on the entries that are exactly zero, relative to the largest entry."""
    deviates = noise * np.abs(tensor).max() * rng.normal(size=tensor.shape)
    return np.where(tensor == 0, deviates, tensor)
