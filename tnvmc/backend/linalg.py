"""Batched decompositions, in one place so that a device may do them its own way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tnvmc.backend import kernels
from tnvmc.backend.namespace import array_namespace, is_cupy

Array = Any


def orthonormal_basis(matrices: Array) -> Array:
    """Give Q with orthonormal columns that span those of each matrix: (B, m, k) -> (B, m, min(m, k)).

    Householder QR, so a rank-deficient or zero matrix still yields orthonormal columns.  On a GPU
    by a kernel of our own: CuPy's stacked QR forms Q matrix by matrix.  Cost: B m k^2.
    """
    if is_cupy(matrices):
        basis = kernels.orthonormal_basis(matrices)
        if basis is not None:
            return basis
    return array_namespace(matrices).linalg.qr(matrices, mode="reduced")[0]


def leading_basis(matrices: Array, rank: int) -> tuple[Array, Array]:
    """Give the `rank` leading left singular vectors of each matrix, and the weight that is cut.

    Returns (B, m, rank) and (B,): the cut share of the squared singular values, 0 when nothing
    is cut.  Cost: a stacked SVD, about five times `orthonormal_basis`.
    """
    xp = array_namespace(matrices)
    left, values, _ = xp.linalg.svd(matrices, full_matrices=False)
    rank = min(rank, values.shape[-1])
    power = values * values
    total = xp.sum(power, axis=-1)
    cut = xp.sum(power[:, rank:], axis=-1)
    return left[:, :, :rank], cut / xp.where(total > 0, total, xp.ones_like(total))


def diagonal(matrix: Array) -> Array:
    """Give the diagonal (n,) of a matrix (n, n)."""
    n = matrix.shape[0]
    return array_namespace(matrix).reshape(matrix, (n * n,))[:: n + 1]


def absorbed_column(
    env: Array, top: Array | None, sites: Sequence[Array], bottom: Array | None
) -> Array | None:
    """Absorb a column by one kernel of our own on a GPU, flat (B, ...); None elsewhere.

    See `tnvmc.backend.kernels.transfer`.  None too where the column is too large for it.
    """
    if not is_cupy(env) or len(sites) > 2:
        return None
    return kernels.transfer(env, top, sites, bottom)


def normalise(arrays: Array) -> tuple[Array, Array]:
    """Scale each array of a batch to largest modulus 1; give it with the log of its scale (B,).

    An array of zeros stays as it is, with log scale 0.
    """
    xp = array_namespace(arrays)
    rows = xp.reshape(arrays, (arrays.shape[0], -1))
    if is_cupy(arrays):
        size = kernels.largest(rows)
    else:
        size = xp.max(xp.abs(rows), axis=1)
        size = xp.where(size > 0, size, xp.ones_like(size))
    shape = (-1,) + (1,) * (arrays.ndim - 1)
    return arrays * xp.reshape(1 / size, shape), xp.log(size)


def split_scale(value: Array, log_scale: Array) -> tuple[Array, Array]:
    """Write value * exp(log_scale) as (phase, log modulus), elementwise and without warnings."""
    if is_cupy(value):
        return kernels.split_scale(value, log_scale)
    xp = array_namespace(value)
    size = xp.abs(value)
    alive = size > 0
    safe = xp.where(alive, size, xp.ones_like(size))
    log_abs = xp.where(alive, xp.log(safe) + log_scale, xp.full_like(log_scale, -xp.inf))
    return value / xp.astype(safe, value.dtype), log_abs
