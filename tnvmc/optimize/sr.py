"""Stochastic reconfiguration, solved in the smaller of parameter space and sample space.

With A = sqrt(W) (O - <O>) and e = sqrt(W) (E - <E>) (`least_squares`), the natural gradient is

    d = (A^dagger A + shift)^-1 A^dagger e          P x P    Sorella, PRL 80, 4558 (1998)
      = A^dagger (A A^dagger + shift)^-1 e          M x M    Chen and Heyl, Nat. Phys. 20, 1476
                                                    (2024); Rende et al., Commun. Phys. 7, 260
                                                    (2024)

The two are equal for every shift.  SPRING (Goldshlager, Abrahamsen, Lin, J. Comput. Phys. 516,
113351 (2024)) minimises |A d - e|^2 + shift |d - momentum * d_previous|^2 instead, so that the
directions which few samples do not see keep the value they had.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tnvmc.backend.arguments import one_of, optional_positive, real, whole
from tnvmc.backend.linalg import diagonal
from tnvmc.backend.namespace import array_namespace
from tnvmc.jacobian.base import Jacobian
from tnvmc.jacobian.centered import CenteredJacobian, in_own_units
from tnvmc.jacobian.covariance import MOST_PARAMETERS, Covariance, of_samples
from tnvmc.optimize import average
from tnvmc.optimize.conjugate_gradients import ConjugateGradients
from tnvmc.optimize.rule import Info, Rule, RuleState, SolveInfo, require_finite
from tnvmc.optimize.solve import Cholesky, Solver, least_squares

Array = Any
Space = Literal["auto", "parameters", "samples"]

LARGEST_MATRIX = 2**14
"""Rows up to which the matrix is formed and factorised (2 GiB of float64) without a solver."""


APPLIED_FROM = 2**12
"""Samples from which, of a network of tensors on NumPy, conjugate gradients with a preconditioner
are the default: from there on they are faster, in one process and on many ranks.  Ranks hand out
pieces of slices to suit (`jacobian.pieces`).
"""

LEAST_APPLIED = 1e-2
"""Relative shift from which they are: with less they take longer than the matrix."""


@dataclass(frozen=True)
class SR(Rule):
    """The rule theta -= learning_rate * d with d the (regularised) natural gradient.

    Raises ValueError for settings out of range; see also `Rule.direction`.
    """

    diag_shift: float | Literal["auto"] = 1e-2
    """Shift in units of a mean diagonal: tr S / P with an averaged S; else that of the smaller
    matrix, tr(A A^dagger) / min(M, P), so that a number means the same in both spaces (M counts
    twice for real theta with complex psi)."""
    momentum: float = 0.0
    """SPRING's decay mu, 0 <= mu < 1; 0 is plain SR, 0.9 and more is usual with few samples."""
    solver: Solver | None = None
    """How the system is solved.  By default `Cholesky`; `ConjugateGradients` above `LARGEST_MATRIX`
    rows, and from `APPLIED_FROM` samples of slices where the shift is `LEAST_APPLIED` or more."""
    space: Space = "auto"
    memory: float = 0.0
    """Decay of the average of S over steps, 0 <= memory < 1; 0 takes the S of the present samples
    alone.  Memory has no effect with a `diag_shift` below `average.LEAST_SHIFT`: the average is
    kept in single precision; nor with `ConjugateGradients`, which forms no matrix; nor above
    `averaged_up_to` parameters.  There, in a `VMC`, a PEPS with shared tensors has it as its
    `momentum` where that is 0.
    """
    averaged_up_to: int = MOST_PARAMETERS
    """Parameters P up to which there is an average.  It costs M P^2 / 2 + P^3 / 3 in single
    precision at each step, and triangles of 2 P^2 bytes on processors: two in a checkpoint, and one
    more while it is solved.  For 13,110 parameters and 2,048 samples a direction takes eight times
    as long as with momentum, after which steps end no higher (decision 16).
    """
    reach: float | None = None
    """Distance |A (theta - theta')| between two states at which the S of one counts 1/e for the
    other, beside what `memory` takes; None: steps alone count.  A random network gains by 0.2, a
    PEPS from a product state loses.
    """

    def __post_init__(self) -> None:
        if self.diag_shift != "auto":
            real("SR", "diag_shift", self.diag_shift, 0.0)
        real("SR", "memory", self.memory)
        real("SR", "momentum", self.momentum)
        optional_positive("SR", "reach", self.reach)
        whole("SR", "averaged_up_to", self.averaged_up_to, 0)
        if self.solver is not None and not callable(self.solver):
            raise TypeError(f"SR: solver must be a solver, as Cholesky(), got {self.solver!r}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"SR: momentum = {self.momentum} must lie in 0 <= momentum < 1")
        if not 0 <= self.memory < 1:
            raise ValueError(f"SR: memory = {self.memory} must lie in 0 <= memory < 1")
        one_of("SR", "space", self.space, ("auto", "parameters", "samples"))

    def init(self, theta: Array) -> RuleState:
        """The previous direction where there is momentum, the averaged S where there is memory."""
        state = {"previous": array_namespace(theta).zeros_like(theta)} if self.momentum else {}
        return {**state, **average.empty(theta)} if self._averages(theta) else state

    def _averages(self, theta: Array) -> bool:
        above_rounding = self.diag_shift == "auto" or self.diag_shift >= average.LEAST_SHIFT
        few = theta.shape[0] <= self.averaged_up_to
        matrix_free = isinstance(self.solver, ConjugateGradients)
        return bool(self.memory) and few and above_rounding and not matrix_free

    def for_shared_tensors(self, n_params: int) -> "SR":
        """With momentum in place of an average of S that would be too large; see `Rule`."""
        if self.momentum or n_params <= self.averaged_up_to:
            return self
        return replace(self, momentum=self.memory)

    def unsolved(self, info: Info) -> float | None:
        """Residual of iterations that ended above their tolerance."""
        if (residual := info.get("residual")) is None:
            return None
        solver = self.solver
        if not isinstance(solver, ConjugateGradients):
            solver = ConjugateGradients()
        return float(residual) if float(residual) > solver.tolerance else None

    @np.errstate(over="ignore", invalid="ignore")  # found out, and said, by NonFiniteError
    def direction(
        self, theta: Array, jacobian: Jacobian, local_energy: Array, weight: Array | None,
        state: RuleState,
    ) -> tuple[Array, RuleState, Info]:  # fmt: skip
        """Natural gradient (P,); see `Rule.direction`.

        Reports the space, how the system was solved, and two numbers per learning rate:
        `metric_norm` sqrt(d^dagger S d), the distance between the states before and after, and
        `slope` Re(F^dagger d), half of the fall of the energy.

        Cost: M^2 P / 2 (gram) + M^3 / 3, or M P^2 + P^3 / 3; with `ConjugateGradients` 2 M P for
        each iteration.
        """
        xp = array_namespace(theta)
        problem = least_squares(theta, jacobian, local_energy, weight)
        a, residual = problem.matrix, problem.target
        if self.momentum:
            before = self.momentum * state["previous"]
            residual = residual - a.apply(before)
        scaled, units = in_own_units(a)
        if "covariance" in state:
            step, space, solved, kept = self._averaged(theta, a, residual, units, state)
        else:
            (step, space, solved), kept = self._solve(scaled, residual), {}
        step = step if units is None else units * step
        direction = xp.astype(step + before if self.momentum else step, theta.dtype)
        require_finite("direction of SR", direction, "raise diag_shift")
        moved = a.apply(direction)
        info: Info = {
            "space": space,
            **{name: value for name, value in vars(solved).items() if value is not None},
            "metric_norm": float(xp.sqrt(xp.sum(xp.abs(moved) ** 2))),
            "slope": float(xp.sum(xp.real(xp.conj(problem.target) * moved))),
        }
        carried = {"previous": direction} if self.momentum else {}
        return direction, {**carried, **kept}, info

    def _averaged(
        self, theta: Array, a: CenteredJacobian, residual: Array, units: Array | None,
        state: RuleState,
    ) -> tuple[Array, str, SolveInfo, RuleState]:  # fmt: skip
        """Solve (S + shift) x = A^dagger residual with the S of all steps so far, in `units`."""
        xp = array_namespace(theta)
        factor = self.memory
        if self.reach is not None:
            moved = float(xp.linalg.vector_norm(a.apply(theta - state["at"])))
            factor = average.remembered(self.memory, moved / self.reach)
        kept = average.add(state, a, factor, theta)
        total, force, norm = kept["covariance"], a.adjoint(residual), kept["counted"]
        whole = not isinstance(total, Covariance)
        if units is not None:
            single, force = xp.astype(units, xp.float32), units * force
            total = single[:, None] * total * single if whole else total.in_units(single)
        entries = diagonal(total) if whole else total.diagonal()
        require_finite("diagonal of the matrix of SR", entries, "log-derivatives are too large")
        n = a.shape[1]
        steps = float(norm) ** 2 / float(kept["squares"])  # as so many equal ones (Kish)
        share = self._relative_shift(a, steps)
        trace = max(float(xp.real(xp.sum(entries))), 0.0) / norm
        if trace < average.LEAST_TRACE:
            return (*self._solve(in_own_units(a)[0], residual), average.empty(theta))
        # The sum takes the place of the average: no copy of it is made.
        solver = self.solver or Cholesky()
        if not whole and not isinstance(solver, Cholesky):
            total = total.dense()
        x, solved = solver(total, norm * force, norm * share * trace / n)
        solved = replace(solved, shift=solved.shift / norm)
        return x, "parameters", solved, kept

    def _relative_shift(self, a: CenteredJacobian, steps: float = 1.0) -> float:
        """In units of the mean diagonal, for the rows of so many steps."""
        if self.diag_shift != "auto":
            return float(self.diag_shift)
        xp = array_namespace(a.weight)
        rows = a.parts / float(xp.sum(a.weight**2))  # as so many of equal weight (Kish)
        return automatic_shift(a.shape[1] / (steps * rows))

    def _solve(self, a: CenteredJacobian, residual: Array) -> tuple[Array, str, SolveInfo]:
        """Minimise |A x - residual|^2 + shift |x|^2 over x (P,), in one of the two spaces."""
        n_rows, n_params = a.shape
        space = self.space
        if space == "auto":
            space = "parameters" if n_params <= n_rows else "samples"
        rhs = a.adjoint(residual) if space == "parameters" else residual
        n = min(n_rows, n_params)
        share = self._relative_shift(a)
        solver = self.solver or _default_solver(a, space, share)
        if isinstance(solver, ConjugateGradients):
            trace = max(a.trace(), 0.0)
            if space == "parameters":
                x, solved = solver.solve(lambda v: a.adjoint(a.apply(v)), rhs, share * trace / n)
            else:
                x, solved = solver.in_samples(a, rhs, share * trace / n, trace)
        else:
            matrix, entries = _matrix(a, space, solver)
            xp = array_namespace(entries)
            require_finite("diagonal of the matrix of SR", entries, "log-derivatives are too large")
            shift = share * max(float(xp.real(xp.sum(entries))), 0.0) / n
            x, solved = solver(matrix, rhs, shift)
        return x if space == "parameters" else a.adjoint(x), space, solved


def _default_solver(a: CenteredJacobian, space: str, share: float) -> Cholesky | ConjugateGradients:
    """The solver that is fastest for so many rows, the same on any number of ranks."""
    n_rows, n_params = a.shape
    if (n_params if space == "parameters" else n_rows) > LARGEST_MATRIX:
        return ConjugateGradients()
    sliced = a.jacobian.about().is_sliced and array_namespace(a.weight) is np
    applied = space == "samples" and n_rows >= APPLIED_FROM and share >= LEAST_APPLIED
    return ConjugateGradients() if sliced and applied else Cholesky()


def _matrix(a: CenteredJacobian, space: str, solver: Solver) -> tuple[Array | Covariance, Array]:
    """S or the Gram matrix, and its diagonal."""
    if space == "samples":
        return (gram := a.gram()), diagonal(gram)
    if array_namespace(a.weight) is np and isinstance(solver, Cholesky):
        return (covariance := of_samples(a)), covariance.diagonal()
    return (whole := a.covariance()), diagonal(whole)


def automatic_shift(per_row: float) -> float:
    """Give the shift, in units of the mean diagonal, for so many parameters per row.

    Largest (0.1) where there are as many parameters as rows; falling with the square of the
    distance from there, to 1e-3 where rows outnumber parameters, to 1e-2 where parameters do.
    """
    return max(1e-3 if per_row < 1 else 1e-2, 0.1 * min(per_row, 1 / per_row) ** 2)
