"""Conjugate gradients for stochastic reconfiguration: the matrix is applied, never formed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tnvmc.backend.arguments import positive, set_whole
from tnvmc.backend.namespace import array_namespace, conj, real_part
from tnvmc.jacobian.centered import CenteredJacobian, SampleSpace, in_sample_space
from tnvmc.jacobian.gram_operator import GramOperator
from tnvmc.optimize.rule import NonFiniteError, SolveInfo

Array = Any


@dataclass(frozen=True)
class ConjugateGradients:
    """Solves (A + shift) x = b by products with A alone (Hestenes and Stiefel 1952).

    No matrix is formed, and all ranks share the products.  In the space of samples, on NumPy, some
    columns of the matrix make a preconditioner (decision 22).  The error of x is at most
    `tolerance` |b| / shift, below the noise of samples.  A step reports `residual`, relative to
    |b|, and `iterations`.

    Args:
        tolerance: relative residual |b - (A + shift) x| / |b| at which it ends.
        most: iterations after which it ends in any case; the x of least residual is given.

    Raises:
        ValueError: a tolerance outside 0 < tolerance < 1, or less than one iteration.

    Cost: two products with the log-derivatives for each iteration.
    """

    tolerance: float = 5e-2
    most: int = 1000

    def __post_init__(self) -> None:
        if not positive("ConjugateGradients", "tolerance", self.tolerance) < 1:
            raise ValueError(
                f"ConjugateGradients: tolerance = {self.tolerance} must lie in 0 < tolerance < 1"
            )
        set_whole(self, {"most": 1})

    def in_samples(
        self, a: CenteredJacobian, rhs: Array, shift: float, trace: float
    ) -> tuple[Array, SolveInfo]:
        """Solve (A A^dagger + shift) x = b, preconditioned if it can be; `trace` of A A^dagger."""

        def solved(space: SampleSpace) -> tuple[Array, SolveInfo]:
            return self.solve(space.times, rhs, shift, preconditioner(space, shift, trace))

        return in_sample_space(a, solved)

    def __call__(self, matrix: Array, rhs: Array, shift: float) -> tuple[Array, SolveInfo]:
        """Solve with a matrix that is there already; see `Solver`."""
        return self.solve(lambda x: matrix @ x, rhs, shift)

    def solve(
        self,
        times: Callable[[Array], Array],
        rhs: Array,
        shift: float,
        inverse: Callable[[Array], Array] | None = None,
    ) -> tuple[Array, SolveInfo]:
        """Solve (A + shift) x = b for b (n,); x (n,), and how it was found.

        `times` is x -> A x, with A Hermitian and not negative, as `shift` is; `inverse` a multiple
        of an approximate inverse of A + shift, Hermitian and positive.
        """
        xp = array_namespace(rhs)
        scale = float(xp.max(xp.abs(rhs))) if rhs.shape[0] else 0.0
        if not math.isfinite(scale):
            raise NonFiniteError("right-hand side of SR: not finite; the last update went wrong")
        residual = rhs / scale if scale > 0 else rhs
        x = best = xp.zeros_like(rhs)
        direction = nearer = residual if inverse is None else inverse(residual)
        square, product_of = _real_dot(residual, residual), _real_dot(residual, nearer)
        norm = least = square
        target = self.tolerance**2 * square
        iterations = 0
        while square > target and iterations < self.most:
            product = times(direction) + shift * direction
            curvature = _real_dot(direction, product)
            if (
                not curvature > 0
            ):  # a singular matrix, rounding, or not finite: the best so far stays
                break
            length = product_of / curvature
            x = x + length * direction
            residual = residual - length * product
            square = _real_dot(residual, residual)
            if not square >= least:
                best, least = x, square
            nearer = residual if inverse is None else inverse(residual)
            before, product_of = product_of, _real_dot(residual, nearer)
            iterations += 1
            direction = nearer + (product_of / before) * direction
        left = math.sqrt(least / norm) if norm > 0 else 0.0
        return scale * best, SolveInfo(
            "conjugate gradients", shift, rhs.shape[0], residual=left, iterations=iterations
        )


def _real_dot(u: Array, v: Array) -> float:
    return float(array_namespace(u, v).sum(real_part(conj(u) * v)))


MOST_COLUMNS = 1536
_SHARE = 8  # rows of the matrix for each of the columns
_FEWEST = 16  # columns that are worth it
_CORE = 0.1
"""Of W: nu is this times the shift, on the scale of W.  It stands above the rounding of entries,
and changes eigenvalues that matter by a tenth of the shift.
"""


def preconditioner(
    space: SampleSpace, shift: float, trace: float
) -> Callable[[Array], Array] | None:
    """Give a positive multiple of an approximate inverse of A A^dagger + shift: (n,) -> (n,).

    None where there are no columns to be had, few samples, or rounding leaves nothing of W. `trace`
    is that of A A^dagger.

    Cost: n l entries of the matrix, n l^2 for B and its square, shared by all ranks; 2 l^3 / 3 on
    rank 0.
    """
    n, call = space.a.shape[0], space.call
    n_columns = min(MOST_COLUMNS, n // _SHARE)
    if call is None or n_columns < _FEWEST or not shift > 0:
        return None
    core = space.choose(np.arange(n_columns) * n // n_columns)
    if not np.isfinite(core).all():
        return None
    one = np.eye(n_columns)
    try:
        divide = partial(call, GramOperator.divide)
        divide(np.linalg.cholesky(core + _CORE * shift * n_columns / n * one))
        square = call(GramOperator.square)
        rest = max(trace - float(np.trace(square).real), 0.0) / (n - n_columns)
        divide(np.linalg.cholesky(square + (shift + rest) * one))
    except np.linalg.LinAlgError:
        return None
    times, adjoint = GramOperator.columns_times, GramOperator.columns_adjoint
    return lambda r: r - call(times, call(adjoint, r))
