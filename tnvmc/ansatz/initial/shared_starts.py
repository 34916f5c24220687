"""Starts of a PEPS whose tensors are shared: numbers for the free entries of one tensor of each orbit."""

from __future__ import annotations

from typing import Any

import numpy as np

from tnvmc.ansatz.initial.product_starts import start_vectors
from tnvmc.ansatz.peps.sharing import SharedTensors
from tnvmc.operators.term import Operator

Array = Any

STARTS = ("product", "random")
"""What such a PEPS can start from.  Simple update is not among them: it turns the bases of bonds as it
likes, and tensors that were equal are so no longer."""

NOISE = 0.1
"""Of the largest entry: five times that of a PEPS that shares nothing, whose start is evolved."""


def shared_start(shared: SharedTensors, operator: Operator, seed: int, kind: str) -> np.ndarray:
    """Make theta (P,), real.

    Args:
        shared: where theta stands.
        operator: the Hamiltonian.
        seed: of random numbers.
        kind: "product" for the ordered product state that simple update begins with, and noise on all entries
            that it leaves at zero; "random" for tensors of norm 1 with entries uniform in [0, 1).
    """
    if kind == "random":
        rng = np.random.Generator(np.random.PCG64(seed))
        return np.concatenate([_random(orbit.n_free, rng) for orbit in shared.orbits])
    if operator.conserves_magnetisation:
        vectors, _ = start_vectors(operator, "auto", seed)
    else:
        vectors = np.ones((operator.n_sites, operator.local_dim))
    parts = []
    for orbit in shared.orbits:
        site = orbit.members[0].site
        tensor = np.zeros(orbit.shape)
        tensor[:, 0, 0, 0, 0] = vectors[site]
        if shared.sharing.colours[site]:
            tensor[1::2] *= -1
        parts.append(tensor.ravel()[orbit.free])
    return with_noise(shared, np.concatenate(parts), NOISE, seed)


def with_noise(shared: SharedTensors, theta: Array, noise: float, seed: int) -> np.ndarray:
    """Put noise on entries of theta (P,) that are zero, relative to the largest of their tensor."""
    rng = np.random.Generator(np.random.PCG64(seed))
    parts, begin = [], 0
    for orbit in shared.orbits:
        part = np.asarray(theta)[begin : begin + orbit.n_free]
        deviates = noise * np.abs(part).max() * rng.standard_normal(part.size)
        parts.append(np.where(part == 0, deviates, part))
        begin += orbit.n_free
    return np.concatenate(parts)


def _random(n: int, rng: np.random.Generator) -> np.ndarray:
    entries = rng.uniform(size=n)
    normed: np.ndarray = entries / np.linalg.norm(entries)
    return normed
