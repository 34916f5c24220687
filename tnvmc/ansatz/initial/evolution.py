"""Tensors of a PEPS evolved in imaginary time, with noise where the evolution left zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from tnvmc.ansatz.initial.simple_update import ImaginaryTime, SimpleUpdateInfo, simple_update
from tnvmc.lattice.embedding import Bonds
from tnvmc.operators.term import Operator

Array = Any

NOISE = 0.02
"""Of the largest entry of a tensor: enough to open bonds that a start leaves unused."""


def evolved_from_product(
    operator: Operator, D: int, seed: int = 0, max_steps: int = 200, bonds: Bonds = "open"
) -> tuple[list[Array], SimpleUpdateInfo]:
    """Give tensors after at most `max_steps` of each time step of simple update, and how it went."""
    time = ImaginaryTime(max_steps=max_steps)
    tensors, info = simple_update(operator, D, time=time, seed=seed, bonds=bonds)
    rng = np.random.Generator(np.random.PCG64(seed))
    return [noisy(tensor, rng) for tensor in tensors], info


def noisy(tensor: Array, rng: np.random.Generator, noise: float = NOISE) -> Array:
    """Put noise on the entries that are exactly zero, relative to the largest entry."""
    deviates = noise * np.abs(tensor).max() * rng.normal(size=tensor.shape)
    return np.where(tensor == 0, deviates, tensor)
