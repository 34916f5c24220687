"""Batched decompositions, in one place so that a device may do them its own way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tnvmc.backend import kernels
from tnvmc.backend.namespace import array_namespace, is_cupy

Array = Any


def orthonormal_basis(matrices: Array) -> Array:
    """Give Q with orthonormal columns that span those of each matrix.

    Householder QR, so a rank-deficient or zero matrix still yields orthonormal columns.  On a GPU
    by a kernel of our own: CuPy's stacked QR forms Q matrix by matrix.

    Args:
        matrices: (B, m, k).

    Returns:
        Orthonormal columns (B, m, min(m, k)).

    Cost: B m k^2.
    """
    if is_cupy(matrices):
        basis = kernels.orthonormal_basis(matrices)
        if basis is not None:
            return basis
    return array_namespace(matrices).linalg.qr(matrices, mode="reduced")[0]


def leading_basis(matrices: Array, rank: int) -> Array:
    """Give the `rank` leading left singular vectors of each matrix.

    Args:
        matrices: (B, m, k).
        rank: how many; all of them where it exceeds min(m, k).

    Returns:
        Orthonormal columns (B, m, rank).

    Cost: a stacked SVD, about five times `orthonormal_basis`.
    """
    left = array_namespace(matrices).linalg.svd(matrices, full_matrices=False)[0]
    return left[:, :, : min(rank, left.shape[2])]


def diagonal(matrix: Array) -> Array:
    """Give the diagonal (n,) of a matrix (n, n), as a view where the namespace has views."""
    n = matrix.shape[0]
    return array_namespace(matrix).reshape(matrix, (n * n,))[:: n + 1]


def absorbed_column(
    env: Array, top: Array | None, sites: Sequence[Array], bottom: Array | None
) -> Array | None:
    """Absorb a column into environments by one kernel of our own, on a GPU.

    Args:
        env: (B, top, row_1, ..., row_k, bottom).
        top: (B, out, vertical, in) or None.
        sites: k arrays (B, out, down, up, in).
        bottom: (B or 1, vertical, in, out), or None to leave the lower legs open.

    Returns:
        The new environment, flat (B, ...); None where there is no GPU, for more than two rows, and
        where the column is too large for the kernel (see `tnvmc.backend.kernels.transfer`).
    """
    if not is_cupy(env) or len(sites) > 2:
        return None
    return kernels.transfer(env, top, sites, bottom)


def normalise(arrays: Array) -> tuple[Array, Array]:
    """Scale each array of a batch to largest modulus 1.

    Args:
        arrays: (B, ...); an array of zeros stays as it is.

    Returns:
        The scaled arrays and the logs of their scales (B,), 0 for an array of zeros.
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
    """Write value * exp(log_scale) as (phase, log modulus), elementwise and without warnings.

    Args:
        value: (B,), real or complex.
        log_scale: (B,), real.

    Returns:
        Phases (B,), 0 where the value vanishes, and log moduli (B,), -inf there; NaN of NaN.
    """
    if is_cupy(value):
        return kernels.split_scale(value, log_scale)
    xp = array_namespace(value)
    size = xp.abs(value)
    alive = size != 0
    safe = xp.where(alive, size, xp.ones_like(size))
    log_abs = xp.where(alive, xp.log(safe) + log_scale, xp.full_like(log_scale, -xp.inf))
    return value / xp.astype(safe, value.dtype), log_abs
