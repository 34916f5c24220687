"""Batched decompositions and contractions, which a device may do in its own way."""

from functools import cache
from typing import Any

import opt_einsum

from tnvmc.backend import kernels
from tnvmc.backend.namespace import array_namespace, is_cupy

Array = Any


def orthonormal_basis(matrices: Array) -> Array:
    """Give Q with orthonormal columns that span those of each matrix.

    Householder QR of (B, m, k): columns (B, m, min(m, k)), orthonormal for a rank-deficient or zero
    matrix too.  On a GPU by a kernel of our own, as CuPy forms Q matrix by matrix.  Cost: B m k^2.
    """
    if is_cupy(matrices):
        basis = kernels.orthonormal_basis(matrices)
        if basis is not None:
            return basis
    return array_namespace(matrices).linalg.qr(matrices, mode="reduced")[0]


def leading_basis(matrices: Array, rank: int) -> Array:
    """Give the `rank` leading left singular vectors of (B, m, k), at most min(m, k): (B, m, rank).

    Cost: a stacked SVD, about five times `orthonormal_basis`.
    """
    left = array_namespace(matrices).linalg.svd(matrices, full_matrices=False)[0]
    return left[:, :, : min(rank, left.shape[2])]


def diagonal(matrix: Array) -> Array:
    """Give the diagonal (n,) of a matrix (n, n), as a view where the namespace has views."""
    n = matrix.shape[0]
    return array_namespace(matrix).reshape(matrix, (n * n,))[:: n + 1]


def normalise(arrays: Array) -> tuple[Array, Array]:
    """Scale each array of a batch (B, ...) to largest modulus 1; zeros stay.

    Gives the scaled arrays and the logs of their scales (B,), 0 for zeros.
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
    """Write value * exp(log_scale), (B,) each, as phases (0 of 0) and log moduli (-inf of 0)."""
    if is_cupy(value):
        return kernels.split_scale(value, log_scale)
    xp = array_namespace(value)
    size = xp.abs(value)
    alive = size != 0
    safe = xp.where(alive, size, xp.ones_like(size))
    log_abs = xp.where(alive, xp.log(safe) + log_scale, xp.full_like(log_scale, -xp.inf))
    return value / xp.astype(safe, value.dtype), log_abs


def contract(equation: str, *tensors: Array) -> Array:
    """Contract tensors, all NumPy or all CuPy, by Einstein's summation ("ij,jk->ik").

    Pair by pair by matrix products, in an order that opt_einsum (Smith and Gray, JOSS 3(26), 753
    (2018)) finds once for an equation and the shapes, the best one for up to four tensors.  Not for
    batches: an index that stays and stands in two tensors makes a loop without BLAS.

    Raises:
        ValueError: shapes that do not fit the equation.
    """
    return _planned(equation, *(tensor.shape for tensor in tensors))(*tensors)


@cache
def _planned(equation: str, *shapes: tuple[int, ...]) -> Any:
    return opt_einsum.contract_expression(equation, *shapes, optimize="auto")
