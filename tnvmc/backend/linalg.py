"""Batched decompositions, in one place so that a device may do them its own way."""

from __future__ import annotations

from typing import Any

from tnvmc.backend.namespace import array_namespace

Array = Any


def orthonormal_basis(matrices: Array) -> Array:
    """Give Q with orthonormal columns that span those of each matrix: (B, m, k) -> (B, m, min(m, k)).

    Householder QR, so a rank-deficient or zero matrix still yields orthonormal columns.
    Cost: B m k^2.
    """
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


def normalise(arrays: Array) -> tuple[Array, Array]:
    """Scale each array of a batch to largest modulus 1; give it with the log of its scale (B,).

    An array of zeros stays as it is, with log scale 0.
    """
    xp = array_namespace(arrays)
    size = xp.max(xp.abs(xp.reshape(arrays, (arrays.shape[0], -1))), axis=1)
    size = xp.where(size > 0, size, xp.ones_like(size))
    shape = (-1,) + (1,) * (arrays.ndim - 1)
    return arrays * xp.reshape(1 / size, shape), xp.log(size)
