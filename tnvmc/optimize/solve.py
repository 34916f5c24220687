"""The problem every rule starts from, A d = e in the sense of least squares, and its solvers.

A = sqrt(W) (O - <O>) and e = sqrt(W) (E - <E>).  Its gradient at d = 0 is minus the force
A^dagger e, and its normal matrix A^dagger A the covariance of stochastic reconfiguration.  A solver
of (A + shift) x = b, with A Hermitian and not negative, returns (x, info).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tnvmc.backend.arguments import real
from tnvmc.backend.linalg import diagonal
from tnvmc.backend.namespace import (
    array_namespace,
    dagger,
    double_of,
    imaginary_part,
    is_complex,
    real_part,
)
from tnvmc.jacobian.base import Jacobian
from tnvmc.jacobian.centered import CenteredJacobian
from tnvmc.jacobian.cholesky import lower_factor
from tnvmc.jacobian.covariance import Covariance
from tnvmc.jacobian.dense import as_base
from tnvmc.jacobian.repeated import RepeatedJacobian
from tnvmc.optimize.rule import NonFiniteError, SolveInfo, require_finite

Array = Any


@dataclass(frozen=True)
class LeastSquares:
    """A d = e for a direction d; rows are doubled (real, imaginary) for real theta, complex psi."""

    matrix: CenteredJacobian  #: A: (rows, P)
    target: Array  #: e: (rows,)

    def force(self) -> Array:
        """F = A^dagger e = O^dagger W (E - <E>): (P,); the real part for real theta."""
        return self.matrix.adjoint(self.target)


def least_squares(
    theta: Array, jacobian: Jacobian, local_energy: Array, weight: Array | None = None
) -> LeastSquares:
    """Set up A d = e; see `Rule.direction` for the arguments.

    For real theta everything is real: a complex Jacobian becomes its real part above its imaginary
    part, so that A^dagger A and A^dagger e are the real parts of their complex counterparts.

    Raises:
        NonFiniteError: theta, local energies, weights or log-derivatives with NaN or infinities.
        ValueError: shapes that do not belong together, weights that sum to nothing.
    """
    xp = array_namespace(local_energy)
    if isinstance(jacobian, RepeatedJacobian):
        local_energy, weight = jacobian.merged(local_energy, weight)
        jacobian = jacobian.rows
    own = as_base(jacobian)
    complex_psi = _check(theta, own, local_energy, weight)
    if weight is None:
        n_samples = local_energy.shape[0]
        weight = xp.full((n_samples,), 1.0 / n_samples, dtype=xp.float64)
    else:
        weight = xp.astype(weight, xp.float64)
        weight = weight / float(xp.sum(weight))
    energy = xp.astype(local_energy, double_of(xp, local_energy))
    # Relative to a typical sample, so that equal energies give a force of 0 and not of rounding.
    energy = energy - energy[int(xp.argmax(weight))]
    target = xp.sqrt(weight) * (energy - xp.sum(weight * energy))
    if is_complex(theta):
        return LeastSquares(CenteredJacobian(own, weight), target)
    real = real_part(target)
    if not complex_psi:
        return LeastSquares(CenteredJacobian(own, weight), real)
    stacked = CenteredJacobian(own.stacked_real(), weight, parts=2)
    return LeastSquares(stacked, xp.concat([real, imaginary_part(target)]))


def _check(theta: Array, jacobian: Jacobian, local_energy: Array, weight: Array | None) -> bool:
    """Raise for input that cannot be used; tell whether the log-derivatives are complex."""
    n_samples, n_params = jacobian.shape
    for name, array, expected in (
        ("theta", theta, (n_params,)),
        ("local_energy", local_energy, (n_samples,)),
        ("weight", weight, (n_samples,)),
    ):
        if array is not None and tuple(array.shape) != expected:
            raise ValueError(
                f"optimize: {name} has shape {tuple(array.shape)}, but the Jacobian holds "
                f"{n_samples} samples of {n_params} parameters, so it must be {expected}"
            )
    require_finite("theta", theta, "the last update went wrong: go back before it")
    require_finite(
        "local energies of the samples",
        local_energy,
        "psi nearly vanishes there, or theta is too large: go back, or use smaller steps",
    )
    if weight is not None:
        require_finite("weights of the samples", weight, "check ln|psi| of the enumeration")
    xp = array_namespace(theta)
    # Row s of O times a vector of ones is finite exactly where row s is.
    with np.errstate(invalid="ignore", over="ignore"):
        sums = jacobian.apply(xp.ones_like(theta))
    bad = int(xp.sum(xp.astype(~xp.isfinite(sums), xp.int64)))
    if bad:
        raise NonFiniteError(
            f"log-derivatives: {bad} of {jacobian.shape[0]} samples have some that are not finite; "
            "a closure vanished there: raise chi, or go back and use smaller steps"
        )
    return is_complex(sums)


class Solver(Protocol):
    """Solves (A + shift) x = b: matrix (n, n), rhs (n,); neither is changed.

    The matrix may be of single precision where rhs is of double, as x is to be.
    """

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
        if not 0 <= real("Eigen", "cutoff", self.cutoff) < 1:
            raise ValueError(f"Eigen: cutoff = {self.cutoff} must lie in 0 <= cutoff < 1")

    def __call__(self, matrix: Array, rhs: Array, shift: float = 0.0) -> tuple[Array, SolveInfo]:
        """Give x = sum_k v_k (v_k^dagger b) / (lambda_k + shift) over the eigenvalues kept."""
        xp = array_namespace(matrix, rhs)
        matrix = _as_precise(matrix, rhs)
        values, vectors = xp.linalg.eigh(matrix)
        cutoff = max(self.cutoff, matrix.shape[0] * float(xp.finfo(values.dtype).eps))
        largest = float(values[-1])
        kept = values > cutoff * max(largest, 0.0)
        shifted = xp.where(kept, values + shift, xp.ones_like(values))
        inverse = xp.where(kept, 1.0 / shifted, xp.zeros_like(values))
        x = vectors @ (inverse * (dagger(vectors) @ rhs))
        rank = int(xp.sum(xp.astype(kept, xp.int64)))
        return x, SolveInfo("eigh", shift, rank)


@dataclass(frozen=True)
class Cholesky:
    """Factorises A + shift; where that fails (A is singular, shift too small), `fallback` solves.

    Also takes a `Covariance`, which is factorised where it is.  One of single precision, for an rhs
    of double, is factorised so, and x refined with residuals in double; where that does not
    converge, it is factorised in double.  Cost: n^3 / 3, in double twice as long.
    """

    fallback: Eigen = Eigen()

    def __call__(
        self, matrix: Array | Covariance, rhs: Array, shift: float
    ) -> tuple[Array, SolveInfo]:
        """Give x = (A + shift)^-1 b."""
        if isinstance(matrix, Covariance):
            if not _is_coarser(np, matrix.dtype, rhs.dtype):
                return self._of_factor(_of_triangle(matrix, shift), matrix, rhs, shift)
            if (found := _refined(matrix, rhs, shift)) is not None:
                return found
            matrix = matrix.dense()
        matrix = _as_precise(matrix, rhs)
        return self._of_factor(factorised(matrix, shift), matrix, rhs, shift)

    def _of_factor(
        self, factor: "Factorised", matrix: Array | Covariance, rhs: Array, shift: float
    ) -> tuple[Array, SolveInfo]:
        xp = array_namespace(rhs)
        pivots, solve = factor
        if pivots is not None:
            x = solve(rhs)
            # Pivots this small are rounding, and so is x; some libraries do not even raise.
            if not _are_rounding(pivots) and bool(xp.all(xp.isfinite(x))):
                return x, SolveInfo("cholesky", shift, rhs.shape[0])
        if isinstance(matrix, Covariance):
            matrix = matrix.dense()
        x, info = self.fallback(matrix, rhs, shift)
        return x, SolveInfo("cholesky failed, eigh", shift, info.rank)


def _is_coarser(xp: Any, a: Any, b: Any) -> bool:
    """Whether a type has less precision than another."""
    return bool(xp.finfo(a).eps > xp.finfo(b).eps)


Factorised = tuple[Array | None, Callable[[Array], Array]]
"""Pivots of the Cholesky factor of A + shift, None where there is none, and a way to solve."""


def _as_precise(matrix: Array, rhs: Array) -> Array:
    """The matrix, in double precision where it has less than rhs: its small eigenvalues count."""
    xp = array_namespace(matrix, rhs)
    if not _is_coarser(xp, matrix.dtype, rhs.dtype):
        return matrix
    return xp.astype(matrix, double_of(xp, matrix))


def factorised(matrix: Array, shift: float) -> Factorised:
    """Factorise A + shift."""
    xp = array_namespace(matrix)
    try:
        if xp is np:
            return _factorised_by_tiles(matrix, shift)
        n = matrix.shape[0]
        flat = xp.asarray(xp.reshape(matrix, (-1,)), copy=True)
        flat[:: n + 1] += shift
        shifted = xp.reshape(flat, (n, n))
        pivots = xp.abs(diagonal(xp.linalg.cholesky(shifted)))
        return pivots, lambda b: xp.linalg.solve(shifted, b[:, None])[:, 0]
    except np.linalg.LinAlgError:
        return None, lambda b: b


def _factorised_by_tiles(matrix: np.ndarray, shift: float) -> Factorised:
    from scipy.linalg import cho_solve

    # The transpose of C order is LAPACK's order, and it is the complex conjugate.
    factor = lower_factor(matrix, shift).T, False
    return np.abs(np.diagonal(factor[0])), lambda b: cho_solve(
        factor, b.conj(), check_finite=False
    ).conj()


def _of_triangle(matrix: Covariance, shift: float) -> Factorised:
    factor = matrix.factor(shift)
    return (None, np.asarray) if factor is None else (factor.pivots(), factor.solve)


def _refined(matrix: Covariance, rhs: np.ndarray, shift: float) -> tuple[Array, SolveInfo] | None:
    """Solve by a factor in single precision; None where the residual does not become small."""
    if (factor := matrix.factor(shift)) is None:
        return None
    x, residual = np.zeros_like(rhs), rhs
    goal = before = float(np.linalg.norm(rhs))
    for _ in range(_MOST_REFINEMENTS):
        with np.errstate(over="ignore", invalid="ignore"):  # then x is not taken
            x = x + factor.solve(residual.astype(matrix.dtype))
            residual = rhs - matrix.times(x) - shift * x
        length = float(np.linalg.norm(residual))
        if length <= _REFINED * goal:
            return x, SolveInfo("cholesky", shift, len(x))
        if not length <= before / 2:
            return None
        before = length
    return None


_REFINED = 1e-8  # of the length of b; the rounding of single precision is 6e-8
_MOST_REFINEMENTS = 8


def _are_rounding(pivots: Array) -> bool:
    xp = array_namespace(pivots)
    floor = pivots.shape[0] * float(xp.finfo(pivots.dtype).eps) * float(xp.max(pivots)) ** 2
    return not float(xp.min(pivots)) ** 2 > floor
