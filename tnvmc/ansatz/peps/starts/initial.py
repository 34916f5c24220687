"""Parameters that a PEPS starts from, by kind: simple update, a product state, random tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tnvmc.ansatz.peps.layout import TensorLayout
from tnvmc.ansatz.peps.sharing import SharedTensors
from tnvmc.ansatz.peps.starts.simple_update import ImaginaryTime, SimpleUpdateInfo, simple_update
from tnvmc.ansatz.peps.starts.tensors import noisy, random_positive, start_vectors
from tnvmc.ansatz.protocol import real_state
from tnvmc.operators.term import Operator

Array = Any

KINDS = ("simple_update", "random", "product")
"""What a PEPS can start from: evolved in imaginary time, positive random tensors, a product
state."""

KINDS_OF_SHARED = ("product", "random")
"""The same if tensors are shared.  Simple update turns the bases of bonds as it likes, and tensors
that were equal are so no longer."""

SHARED_NOISE = 0.1
"""Of the largest entry: five times that of a PEPS that shares nothing, whose start is evolved."""


def initial(layout: TensorLayout, operator: Operator, seed: int, kind: str) -> Array:
    """Make theta (P,) of a PEPS for an operator.

    Args:
        layout: of theta.
        operator: the Hamiltonian.
        seed: of random numbers.
        kind: one of `KINDS`, or of `KINDS_OF_SHARED`.

    Raises:
        ValueError: a real state for a complex operator.
    """
    if layout.shared:
        here = _placed(layout, operator)
        return _shared_initial(layout.shared, here, seed, kind).astype(layout.dtype)
    if kind != "random":
        return from_simple_update(layout, operator, seed, 0 if kind == "product" else 200)[0]
    _check_real(layout, operator)
    return layout.flatten(
        random_positive(
            layout.lattice, layout.D, layout.dtype, seed, layout.local_dim, layout.bonds
        )
    )


def from_simple_update(
    layout: TensorLayout, operator: Operator, seed: int = 0, max_steps: int = 200
) -> tuple[Array, SimpleUpdateInfo]:
    """Give theta (P,) after at most `max_steps` of each time step, and how it went.

    Entries that are zero get a little noise, which opens bonds that the evolution leaves unused.
    """
    here, time = _placed(layout, operator), ImaginaryTime(max_steps=max_steps)
    tensors, info = simple_update(here, layout.D, time=time, seed=seed, bonds=layout.bonds)
    rng = np.random.Generator(np.random.PCG64(seed))
    return layout.flatten([noisy(tensor, rng) for tensor in tensors]), info


def _placed(layout: TensorLayout, operator: Operator) -> Operator:
    """The operator on the lattice of the tensors, whose embedding is theirs."""
    _check_real(layout, operator)
    return replace(operator, lattice=layout.lattice)


def _check_real(layout: TensorLayout, operator: Operator) -> None:
    if operator.is_complex and layout.dtype.kind != "c":
        raise real_state(operator, f"dtype = '{layout.dtype.name}'")


def _shared_initial(shared: SharedTensors, operator: Operator, seed: int, kind: str) -> np.ndarray:
    """Make theta (P,), real, of tensors that are shared.

    Args:
        shared: where theta stands.
        operator: the Hamiltonian.
        seed: of random numbers.
        kind: "product" for the ordered product state that simple update begins with, and noise on
            all entries that it leaves at zero; "random" for tensors of norm 1 with entries uniform
            in [0, 1).
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
    return with_noise(shared, np.concatenate(parts), SHARED_NOISE, seed)


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
