"""One step: draw, estimate, judge the last update, solve, move."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, cast

import numpy as np

from tnvmc.ansatz.protocol import chi_of
from tnvmc.backend import progress
from tnvmc.backend.device import DeviceError
from tnvmc.backend.namespace import array_namespace
from tnvmc.backend.process import one_blas_thread, using_threads
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.optimize.rule import NonFiniteError
from tnvmc.vmc.core import Iterate, Method, State, controlled
from tnvmc.vmc.guard import PATIENCE
from tnvmc.vmc.observation import NOTHING_SEEN, Observation, observe
from tnvmc.vmc.results import StepRecord

Array = Any


class OptimisationFailed(ArithmeticError):
    """The energy stayed infinite or undefined, whatever was tried."""

    exit_status = 1  # of the command


@dataclass(frozen=True)
class _Update:
    """Where a step leads, and what it reports."""

    state: State
    step_norm: float = 0.0
    diagnostics: tuple[Diagnostic, ...] = ()
    info: Mapping[str, Any] | None = None  #: of the rule; None where theta has not moved


def advance(base: Method, state: State) -> tuple[State, StepRecord]:
    """Make one step: a function of the state, and of the clock where the schedule reads it.

    `base` is the method before the settings that follow the steps (`State.controllers`).

    Raises:
        OptimisationFailed: more than `PATIENCE` steps in a row were undone.
        DeviceError, ValueError: as `draw_and_judge`.
    """
    started, compiled = perf_counter(), progress.compiled
    method = controlled(base, state)
    learning_rate = method.schedule(state.step) * state.guard.scale
    seen, objection = draw_and_judge(method, state)
    if objection is not None and _can_undo(state, seen):
        update = _undone(state, state.before_update or state.here, objection)
    else:
        assert seen is not None
        update = _moved(method, state, seen, learning_rate)
    controllers = tuple(each.after(seen, update.info) for each in state.controllers)
    changes = [
        found
        for before, after in zip(state.controllers, controllers, strict=True)
        for found in after.diagnostics(before)
    ]
    info = update.info or {}
    took = perf_counter() - started
    compiled = min(progress.compiled - compiled, took)
    record = StepRecord(
        **(NOTHING_SEEN if seen is None else seen.statistics()),
        step=state.step,
        learning_rate=learning_rate * info.get("paced_rate", 1.0),
        step_norm=update.step_norm,
        undone=update.state.before_update is None,
        diagnostics=(*update.diagnostics, *changes),
        optimizer=info,
        seconds=took - compiled,
        power=None if seen is None else seen.info.power,
        n_samples=None if seen is None else seen.energy.n_samples,
        chi=chi_of(method.problem.ansatz),
        compile_seconds=compiled,
    )
    return replace(update.state, controllers=controllers), record


def draw_and_judge(
    method: Method, state: State, jacobian: bool = True
) -> tuple[Observation | None, Diagnostic | None]:
    """Draw at the present point, and ask the guard; nothing is seen where sampling failed.

    Raises:
        DeviceError: no smaller step makes room.
        ValueError: sampling failed, and there is no point to go back to.
    """
    here, stream = state.here, state.step
    try:
        seen = observe(method.problem, method.sampler, here, stream, jacobian, method.orthogonal_to)
    except DeviceError:
        raise
    except ValueError as error:  # psi vanishes, or a decomposition failed
        if state.before_update is None:
            raise
        return None, Diagnostic("sampling_failed", "warning", {"reason": str(error)})
    cost, n_sites = seen.cost, method.problem.operator.n_sites
    return seen, state.guard.objection(cost.mean, cost.variance, n_sites)


def _can_undo(state: State, seen: Observation | None) -> bool:
    """Tell whether a retry can differ: elsewhere, or with other samples of what failed here."""
    if seen is None or state.before_update is not None:
        return True
    return not math.isfinite(seen.cost.mean + seen.cost.variance)


def _moved(method: Method, state: State, seen: Observation, learning_rate: float) -> _Update:
    """Solve for a direction and change theta along it, or undo the step where neither is finite."""
    here, cost = cast(Iterate, seen.point), seen.cost
    not_finite = Diagnostic("direction_not_finite", "warning")
    assert seen.snapshot.jacobian is not None
    try:
        # BLAS at one thread: the same bits for any number of workers, and on a shared machine
        # BLAS threads that wait for each other took 20 times as long.
        with one_blas_thread(), using_threads(method.sampler.threads):
            direction, optimizer, info = method.rule.direction(
                here.theta, seen.snapshot.jacobian, seen.local_cost, seen.snapshot.weight,
                here.optimizer,
            )  # fmt: skip
    except NonFiniteError:
        return _undone(state, here, not_finite)
    length = norm(direction)
    if not math.isfinite(length):
        return _undone(state, here, not_finite)
    factor = state.guard.shortened(length, learning_rate, norm(here.theta))
    if factor < 1:
        optimizer = method.rule.shortened(optimizer, factor)
    xp = array_namespace(here.theta)
    with np.errstate(over="ignore", invalid="ignore"):
        theta = here.theta - (learning_rate * factor) * direction
    if not bool(xp.all(xp.isfinite(theta))):  # beyond the largest number of its type
        return _undone(state, here, not_finite)
    guard = state.guard.accepted(
        cost.mean, cost.error, cost.variance, length * factor,
        retried=state.before_update is None and state.guard.rollbacks > 0,
    )  # fmt: skip
    by_size = factor < state.guard.shortened(length, learning_rate, math.inf)
    short = {"factor": factor, "limit": "size of theta" if by_size else "recent steps"}
    found = [Diagnostic("step_shortened", "open", short)] if factor < 1 else []
    if (residual := method.rule.unsolved(info)) is not None:
        found.append(Diagnostic("system_not_solved", "open", {"residual": residual}))
    moved = replace(here, theta=theta, optimizer=optimizer)
    after = replace(state, step=state.step + 1, here=moved, before_update=here, guard=guard)
    return _Update(after, learning_rate * factor * length, tuple(found), info)


def _undone(state: State, back: Iterate, objection: Diagnostic) -> _Update:
    """Go back (or stay) and let the next steps be shorter."""
    guard = state.guard.rejected()
    if guard.rollbacks > PATIENCE:
        raise OptimisationFailed(
            f"step {state.step}: {objection.code.replace('_', ' ')}; so it went {guard.rollbacks} "
            "times in a row, with ever smaller steps. Start from other parameters, raise "
            "optimizer.diag_shift, or contraction.chi where the state has one"
        )
    after = replace(state, step=state.step + 1, here=back, before_update=None, guard=guard)
    return _Update(after, diagnostics=(objection,))


def norm(v: Array) -> float:
    """Euclidean norm of an array."""
    xp = array_namespace(v)
    return math.sqrt(float(xp.sum(xp.abs(v) ** 2)))
