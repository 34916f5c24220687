"""Level 2: the lowest levels with given characters, by diagonalisation in the basis of symmetric states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tnvmc.exact import DENSE_DIMENSION
from tnvmc.operators.basis import Basis
from tnvmc.operators.symmetry import SymmetryGroup
from tnvmc.operators.term import Operator

MOST_IMAGES = 20_000_000
"""Configurations times elements of the group up to which `symmetric_levels` takes a few seconds."""


def symmetric_levels(
    operator: Operator, group: SymmetryGroup, magnetisation: int | None, n_levels: int = 1
) -> np.ndarray:
    """Give the lowest energies of states with psi(g s) = chi(g) psi(s), increasing, at most `n_levels`.

    Args:
        operator: the Hamiltonian, which commutes with the group.
        group: symmetries with their characters; they keep the sector.
        magnetisation: twice the total Sz; None for all of the space.
        n_levels: how many; fewer where the subspace is smaller.

    Cost: |G| images of every configuration and the matrix of the sector; it looks at no memory, so that
    `MOST_IMAGES` is for the caller to ask.

    Raises:
        ValueError: no state of the sector has these characters.
    """
    from scipy.sparse.linalg import eigsh

    states = Basis(operator.n_sites, operator.local_dim, magnetisation)
    symmetric = _symmetric_states(states, group)
    if not symmetric.shape[1]:
        where = "the full space" if magnetisation is None else f"2 Sz = {magnetisation}"
        raise ValueError(f"symmetric_levels: no state of {where} has these characters")
    matrix = symmetric.T @ operator.sparse(magnetisation) @ symmetric
    if matrix.shape[0] <= max(DENSE_DIMENSION, n_levels + 1):
        return np.asarray(np.linalg.eigvalsh(matrix.toarray())[:n_levels])
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    return np.sort(eigsh(matrix, k=n_levels, which="SA", v0=start, return_eigenvectors=False))


def _symmetric_states(states: Basis, group: SymmetryGroup) -> Any:
    """Orthonormal states sum_g chi(g) |g s>, one for each orbit that has any: sparse (n, K)."""
    from scipy.sparse import coo_matrix, diags

    configs = states.configs(states.codes)
    first = np.arange(states.dimension)
    for places in _images(states, configs, group):
        first = np.minimum(first, places)
    members = np.flatnonzero(first == np.arange(states.dimension))
    rows = np.concatenate(list(_images(states, configs[members], group)))
    columns = np.tile(np.arange(len(members)), len(group))
    signs = np.repeat([float(g.character) for g in group.elements], len(members))
    sums = coo_matrix((signs, (rows, columns)), (states.dimension, len(members))).tocsc()
    lengths = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=0)).ravel())
    alive = np.flatnonzero(
        lengths > 0.5
    )  # whole numbers: those that characters cancel are exactly 0
    return sums[:, alive] @ diags(1 / lengths[alive])


def _images(states: Basis, configs: np.ndarray, group: SymmetryGroup) -> Iterator[np.ndarray]:
    """Yield where g s stands in the basis, for every element and configurations (n, N)."""
    powers = states.local_dim ** np.arange(states.n_sites - 1, -1, -1, dtype=np.int64)
    for g in group.elements:
        image = configs[:, list(g.sites)].astype(np.int64)
        yield states.positions((states.local_dim - 1 - image if g.inverts else image) @ powers)
