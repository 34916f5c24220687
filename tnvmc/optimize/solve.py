"""Solvers of (A + shift) x = b with A Hermitian and not negative; each returns (x, info)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tnvmc.backend.linalg import diagonal
from tnvmc.backend.namespace import array_namespace, is_numpy

Array = Any


@dataclass(frozen=True)
class SolveInfo:
    """How a linear system was solved."""

    method: str  #: "cholesky", "eigh", or "cholesky failed, eigh"
    shift: float  #: what was added to the diagonal
    rank: int  #: directions kept
    condition: float  #: of the shifted matrix on them; a lower bound for Cholesky


class Solver(Protocol):
    """Solves (A + shift) x = b: matrix (n, n), rhs (n,); neither is changed."""

    def __call__(self, matrix: Array, rhs: Array, shift: float) -> tuple[Array, SolveInfo]:
        """Give x (n,) and how it was found."""


@dataclass(frozen=True)
class Eigen:
    """Diagonalises A and leaves out eigenvalues below `cutoff` times the largest one.

    With shift = 0 this is the pseudo-inverse.  The cutoff is at least n eps, the rounding of the
    eigenvalues.  Cost: about 10 n^3, twenty times Cholesky.

    Raises ValueError for a cutoff outside 0 <= cutoff < 1.
    """

    cutoff: float = 1e-12

    def __post_init__(self) -> None:
        if not 0 <= self.cutoff < 1:
            raise ValueError(f"Eigen: cutoff = {self.cutoff} must lie in 0 <= cutoff < 1")

    def __call__(self, matrix: Array, rhs: Array, shift: float = 0.0) -> tuple[Array, SolveInfo]:
        """Give x = sum_k v_k (v_k^dagger b) / (lambda_k + shift) over the eigenvalues kept."""
        xp = array_namespace(matrix, rhs)
        values, vectors = xp.linalg.eigh(matrix)
        cutoff = max(self.cutoff, matrix.shape[0] * float(xp.finfo(values.dtype).eps))
        largest = float(values[-1])
        kept = values > cutoff * max(largest, 0.0)
        shifted = xp.where(kept, values + shift, xp.ones_like(values))
        inverse = xp.where(kept, 1.0 / shifted, xp.zeros_like(values))
        x = vectors @ (inverse * (_dagger(vectors) @ rhs))
        rank = int(xp.sum(xp.astype(kept, xp.int64)))
        condition = (largest + shift) / float(shifted[-rank]) if rank else 1.0
        return x, SolveInfo("eigh", shift, rank, condition)


@dataclass(frozen=True)
class Cholesky:
    """Factorises A + shift; where that fails (A is singular, shift too small), `fallback` solves.

    Cost: n^3 / 3 on NumPy.
    """

    fallback: Eigen = Eigen()

    def __call__(self, matrix: Array, rhs: Array, shift: float) -> tuple[Array, SolveInfo]:
        """Give x = (A + shift)^-1 b."""
        xp = array_namespace(matrix, rhs)
        n = matrix.shape[0]
        flat = xp.asarray(xp.reshape(matrix, (-1,)), copy=True)
        flat[:: n + 1] += shift
        shifted = xp.reshape(flat, (n, n))
        try:
            factor = xp.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            return self._fall_back(matrix, rhs, shift)
        pivots = xp.abs(diagonal(factor))
        x = _solve_with(factor, shifted, rhs)
        smallest = float(xp.min(pivots))
        # Pivots this small are rounding, and so is x; some libraries do not even raise.
        floor = n * float(xp.finfo(pivots.dtype).eps) * float(xp.max(pivots)) ** 2
        if not smallest**2 > floor or not bool(xp.all(xp.isfinite(x))):
            return self._fall_back(matrix, rhs, shift)
        condition = (float(xp.max(pivots)) / smallest) ** 2
        return x, SolveInfo("cholesky", shift, n, condition)

    def _fall_back(self, matrix: Array, rhs: Array, shift: float) -> tuple[Array, SolveInfo]:
        x, info = self.fallback(matrix, rhs, shift)
        return x, SolveInfo("cholesky failed, eigh", shift, info.rank, info.condition)


def _solve_with(factor: Array, matrix: Array, rhs: Array) -> Array:
    """Solve with a lower Cholesky factor, where triangular solves exist; else with LU."""
    xp = array_namespace(factor)
    if not is_numpy(xp):
        return xp.linalg.solve(matrix, rhs[:, None])[:, 0]
    from scipy.linalg import cho_solve

    return cho_solve((factor, True), rhs, check_finite=False)


def _dagger(matrix: Array) -> Array:
    xp = array_namespace(matrix)
    return xp.matrix_transpose(xp.conj(matrix) if "complex" in str(matrix.dtype) else matrix)
