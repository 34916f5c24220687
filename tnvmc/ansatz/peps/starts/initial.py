"""Parameters that a PEPS starts from, by kind: simple update, a product state, random tensors."""

from dataclasses import replace
from typing import Any

import numpy as np

from tnvmc.ansatz.peps.layout import TensorLayout
from tnvmc.ansatz.peps.sharing import SharedTensors
from tnvmc.ansatz.peps.starts.simple_update import simple_update
from tnvmc.ansatz.peps.starts.tensors import noisy, pattern_vectors, random_positive
from tnvmc.ansatz.protocol import real_state
from tnvmc.lattice.embedding import DOWN, UP, Bonds, Embedding, snake
from tnvmc.operators.term import Operator

Array = Any

KINDS = ("simple_update", "short_update", "random", "product")
"""What a PEPS can start from: evolved in imaginary time, the same stopped early, positive random
tensors, a product state."""

_MOST_STEPS = {"simple_update": 200, "short_update": 3, "product": 0}
"""Of each time step.  Early on the state is not yet in the basin where mean fields lead: of a few
flipped spins and of couplings of both signs that is often another one than the lowest."""

KINDS_OF_SHARED = ("product", "random")
"""The same if tensors are shared.  Simple update turns the bases of bonds as it likes, and tensors
that were equal are so no longer."""

AUTO = "auto"
"""The best of the starts of a PEPS after a few steps from each (`tnvmc.vmc.trial`), else the first
one."""

SHARED_NOISE = 0.1
"""Of the largest entry: five times that of a PEPS that shares nothing, whose start is evolved."""


def initial(layout: TensorLayout, operator: Operator, seed: int, kind: str) -> Array:
    """Make theta (P,) of a PEPS for an operator, of one of `KINDS` or of `KINDS_OF_SHARED`.

    Raises:
        ValueError: a real state for a complex operator.
    """
    if operator.is_complex and layout.dtype.kind != "c":
        raise real_state(operator, f"dtype = '{layout.dtype.name}'")
    here = replace(operator, lattice=layout.lattice)
    if layout.shared:
        return _shared_initial(layout.shared, here, seed, kind).astype(layout.dtype)
    if kind == "random":
        dtype, d = layout.dtype, layout.local_dim
        positive = random_positive(layout.lattice, layout.D, dtype, seed, d, layout.bonds)
        return layout.flatten(layout.even_part(positive))
    # Along a path fermions would have other signs.
    straight = layout.bonds == "snake" and not layout.fermions
    bonds: Bonds = "path" if straight else layout.bonds
    tensors = simple_update(here, layout.D, max_steps=_MOST_STEPS[kind], seed=seed, bonds=bonds)
    if bonds == "path":
        tensors = _laid_along(layout.embedding, tensors)
    rng = np.random.Generator(np.random.PCG64(seed))
    # Zeros get a little noise, which opens bonds that the evolution leaves unused.
    return layout.flatten(layout.even_part([noisy(tensor, rng) for tensor in tensors]))


def _laid_along(found: Embedding, tensors: list[Array]) -> list[Array]:
    """Give tensors of a snake from those of one row, (d, 1, left, 1, right)."""
    path: Any = snake(found.shape)
    laid = []
    for place, tensor in zip(found.places, tensors, strict=True):
        along = {path.index(found.beyond(place, x)): x for x in range(4) if found.joins(place, x)}
        legs = [along[k] for k in sorted(along)]
        legs = {path[0]: [UP, *legs], path[-1]: [*legs, DOWN]}.get(place, legs)  # of size 1
        laid.append(np.moveaxis(tensor[:, 0, :, 0, :, None, None], (1, 2), [1 + x for x in legs]))
    return laid


def _shared_initial(shared: SharedTensors, operator: Operator, seed: int, kind: str) -> np.ndarray:
    """Make theta (P,), real, of tensors that are shared: a start of `KINDS_OF_SHARED`.

    "product" is the ordered product state that simple update begins with, and noise on all entries
    that it leaves at zero; "random" are tensors of norm 1 with entries uniform in [0, 1).
    """
    if kind == "random":
        rng = np.random.Generator(np.random.PCG64(seed))
        parts = [rng.uniform(size=orbit.n_free) for orbit in shared.orbits]
        return np.concatenate([part / np.linalg.norm(part) for part in parts])
    vectors = np.ones((operator.n_sites, operator.local_dim))
    if operator.conserves_magnetisation:
        vectors, _ = pattern_vectors(operator)
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
    return np.concatenate([noisy(part, rng, noise) for part in shared.parts(np.asarray(theta))])


OPENING, SHARED_OPENING = 0.3, 0.02
"""Of a product state: in the tensors of one sublattice; in all where they are shared."""


def product_parameters(ansatz: Any, vector: Any, seed: int = 0) -> np.ndarray:
    """Make theta (P,) of a PEPS or RBM that is the product state of one vector (d,) on all sites.

    Random numbers in the tensors of one sublattice (`OPENING`) open the bonds: zeros of the other
    keep them out of psi, but not out of its derivatives, so that time evolution can leave at once.
    Shared tensors have small ones everywhere (`SHARED_OPENING`), and psi an infidelity of about
    0.02^4 (D - 1)^2 a bond.

    Raises ValueError for others, and for a vector with zeros: no sample shows what H makes there.
    """
    size = np.abs(np.asarray(vector))
    if np.any(np.imag(vector)) and np.dtype(ansatz.dtype or "float64").kind != "c":
        raise ValueError("product_parameters: a complex vector takes a state of dtype complex128")
    if size.min() <= 1e-9 * size.max():
        raise ValueError(
            f"product_parameters: the vector {np.asarray(vector).tolist()} makes psi = 0 for most "
            "configurations, which samples never show; take another axis, or 1e-2 in place of 0"
        )
    rbm: Any = getattr(getattr(ansatz, "functional", None), "made", None)
    along_x = np.abs(np.asarray(vector) - vector[0]).max() < 1e-9 * size.max()
    if hasattr(rbm, "product") and along_x and ansatz.averaging.signs is None:
        return np.asarray(rbm.product(ansatz.random(seed)))
    if not hasattr(ansatz, "shapes") or ansatz.fermions:
        kind = "a PEPS of spins, along x an RBM without Marshall's signs"
        raise ValueError(f"product_parameters: makes {kind}, got {ansatz!r}")
    rng, lattice = np.random.Generator(np.random.PCG64(seed)), ansatz.lattice
    tensors, shared = [], ansatz.shared is not None
    for place, shape in zip(lattice.places, ansatz.shapes, strict=True):
        row, col = divmod(place, lattice.n_cols)
        closing = ansatz.rings and lattice.n_cols % 2 and col == lattice.n_cols - 1
        opened = not (shared or closing or (row + col) % 2)  # none beside another
        tensors.append(OPENING * opened * rng.normal(size=shape).astype(ansatz.dtype))
        tensors[-1][:, 0, 0, 0, 0] = np.asarray(vector) / np.linalg.norm(vector)
    theta = np.asarray(ansatz.flatten(tensors))
    return with_noise(ansatz.shared, theta, SHARED_OPENING, seed) if shared else theta
