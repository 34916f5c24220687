"""Conjugate gradients for stochastic reconfiguration: the matrix is applied, never formed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.backend.arguments import positive, set_whole
from tnvmc.backend.namespace import array_namespace
from tnvmc.optimize.rule import NonFiniteError
from tnvmc.optimize.solve import SolveInfo

Array = Any


@dataclass(frozen=True)
class ConjugateGradients:
    """Solves (A + shift) x = b by products with A alone (Hestenes and Stiefel 1952).

    For so many samples and parameters that the smaller matrix does not fit into memory; with a thousand
    samples Cholesky is ten times faster.  Heisenberg 8x8, D = 4, 1,024 samples: 113 iterations with a
    relative shift of 1e-2, 198 with 1e-3, and the direction is off by as much as the residual.  The
    error of x is at most `tolerance` |b| / shift.  What a step was solved to stands in its
    report: `residual`, relative to |b|, and `iterations`.

    Args:
        tolerance: relative residual |b - (A + shift) x| / |b| at which it ends.
        most: iterations after which it ends in any case.

    Residuals do not fall steadily; the x with the least one is given.

    Raises:
        ValueError: a tolerance outside 0 < tolerance < 1, or less than one iteration.

    Cost: two products with the log-derivatives for each iteration.
    """

    tolerance: float = 1e-3
    most: int = 1000

    def __post_init__(self) -> None:
        if not positive("ConjugateGradients", "tolerance", self.tolerance) < 1:
            raise ValueError(
                f"ConjugateGradients: tolerance = {self.tolerance} must lie in 0 < tolerance < 1"
            )
        set_whole(self, {"most": 1})

    def __call__(self, matrix: Array, rhs: Array, shift: float) -> tuple[Array, SolveInfo]:
        """Solve with a matrix that is there already; see `Solver`."""
        return self.solve(lambda x: matrix @ x, rhs, shift)

    def solve(
        self, times: Callable[[Array], Array], rhs: Array, shift: float
    ) -> tuple[Array, SolveInfo]:
        """Solve (A + shift) x = b.

        Args:
            times: x (n,) -> A x, with A Hermitian and not negative.
            rhs: b (n,).
            shift: what is added to the diagonal, not negative.

        Returns:
            x (n,), and how it was found; `condition` is that of the subspace that was searched.
        """
        xp = array_namespace(rhs)
        scale = float(xp.max(xp.abs(rhs))) if rhs.shape[0] else 0.0
        if not math.isfinite(scale):
            raise NonFiniteError("right-hand side of SR: not finite; the last update went wrong")
        residual = rhs / scale if scale > 0 else rhs
        x = best = xp.zeros_like(rhs)
        direction, square = residual, _square(residual)
        norm = least = square
        target = self.tolerance**2 * square
        lengths: list[float] = []
        ratios: list[float] = []
        while square > target and len(lengths) < self.most:
            product = times(direction) + shift * direction
            curvature = _real_dot(direction, product)
            if (
                not curvature > 0
            ):  # a singular matrix, rounding, or not finite: the best so far stays
                break
            length = square / curvature
            x = x + length * direction
            residual = residual - length * product
            before, square = square, _square(residual)
            if not square >= least:
                best, least = x, square
            lengths.append(length)
            ratios.append(square / before)
            direction = residual + (square / before) * direction
        return scale * best, SolveInfo(
            "conjugate gradients", shift, rhs.shape[0], _condition(lengths, ratios),
            residual=math.sqrt(least / norm) if norm > 0 else 0.0, iterations=len(lengths),
        )  # fmt: skip


def _condition(lengths: list[float], ratios: list[float]) -> float:
    """Largest by smallest eigenvalue of A on the subspace: those of Lanczos' tridiagonal matrix.

    Its entries follow from the coefficients of the iterations (Golub and Van Loan, Matrix
    Computations, section 10.2).
    """
    if not lengths:
        return 1.0
    from scipy.linalg import eigh_tridiagonal

    inverse, ratio = 1 / np.array(lengths), np.array(ratios[:-1])
    diagonal = inverse + np.concatenate([[0.0], ratio * inverse[:-1]])
    values = eigh_tridiagonal(diagonal, np.sqrt(ratio) * inverse[:-1], eigvals_only=True)
    return float(values[-1] / values[0]) if values[0] > 0 else math.inf


def _square(v: Array) -> float:
    return _real_dot(v, v)


def _real_dot(u: Array, v: Array) -> float:
    xp = array_namespace(u, v)
    return float(xp.sum(xp.real(xp.conj(u) * v) if "complex" in str(u.dtype) else u * v))
