"""One step: draw, estimate, judge the last update, update."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import Any, cast

import numpy as np

from tnvmc.ansatz.protocol import Snapshot, chi_of
from tnvmc.backend.device import DeviceError
from tnvmc.backend.namespace import array_namespace
from tnvmc.backend.process import one_blas_thread, using_threads
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.local import local_energy, off_diagonal_energy
from tnvmc.estimate.reliability import closure_threshold
from tnvmc.estimate.statistics import Estimate, effective_samples, estimate, estimate_samples
from tnvmc.optimize.rounded import TOLERANCE, PrecisionError
from tnvmc.optimize.rule import Follows, NonFiniteError, Rounds, Rule
from tnvmc.optimize.sr import unsolved
from tnvmc.sampling.problem import Point, Problem, SampleInfo, Samples, Wanted
from tnvmc.vmc.growing_chi import chi_after, chi_grown
from tnvmc.vmc.growth import Growth
from tnvmc.vmc.guard import Guard, Recent
from tnvmc.vmc.kept import Kept, Overlap, Seen, penalties
from tnvmc.vmc.state import Iterate, State, StepRecord

Array = Any


class OptimisationFailed(ArithmeticError):
    """The energy stayed infinite or undefined, whatever was tried."""


@dataclass(frozen=True)
class Method:
    """How steps are made; a step is a function of this and of the state."""

    problem: Problem
    sampler: Samples
    rule: Rule
    schedule: Callable[[int], float]
    guard: Guard
    kept: tuple[Kept, ...] = ()  #: states that psi is kept orthogonal to
    largest_chi: int | None = None  #: limit of a chi that grows


@dataclass(frozen=True)
class Observation:
    """What one draw at a point shows."""

    point: Point  #: with the walkers where they are now
    snapshot: Snapshot
    local: Array  #: (M,) local energies
    energy: Estimate
    info: SampleInfo
    penalty: Array | None = None  #: (M,) what kept states add to `local` in the optimisation
    overlaps: tuple[Overlap, ...] = ()  #: with kept states

    @property
    def lowered(self) -> Array:
        """(M,) what a step lowers the mean of: local energies, with penalties where there are any."""
        return self.local if self.penalty is None else self.local + self.penalty

    @cached_property
    def cost(self) -> Estimate:
        """The mean of `lowered`: the energy, and the penalties."""
        if self.penalty is None:
            return self.energy
        return estimate_samples(self.lowered, self.snapshot.weight, self.info)

    def statistics(self) -> dict[str, Any]:
        """Give the part that records of steps and measurements share."""
        exact, weight = self.info.exact, self.snapshot.weight
        weighted = weight is not None and not exact
        return {
            "energy": float(self.energy.mean),
            "energy_error": float(self.energy.error),
            "variance": float(self.energy.variance),
            "tau": None if exact else float(self.energy.tau),
            "r_hat": None if exact else float(self.energy.r_hat),
            "acceptance": self.info.acceptance,
            "acceptance_by_move": self.info.acceptance_by_move,
            "closure_spread": _mean_spread(self.snapshot),
            "effective_samples": effective_samples(weight) if weighted else None,
            "overlaps": self.overlaps,
        }

    @property
    def precision_shift(self) -> float | None:
        """By how much the weights for single precision move the energy; None without them."""
        if not self.info.single_precision or self.snapshot.weight is None:
            return None
        return self.energy.mean - estimate(self.local, self.info.n_walkers).mean


def observe(
    problem: Problem,
    sampler: Samples,
    point: Point,
    stream: int,
    jacobian: Wanted = True,
    kept: Sequence[Kept] = (),
) -> Observation:
    """Draw samples at a point and estimate the energy there, with penalties for overlaps with kept states."""
    snapshot, point, info = sampler.draw(problem, point, stream, jacobian)
    local = local_energy(problem.operator, snapshot)
    energy = estimate_samples(local, snapshot.weight, info)
    seen = Seen(problem.ansatz, point.theta, snapshot, info, sampler.threads)
    return Observation(point, snapshot, local, energy, info, *penalties(kept, seen, stream))


def advance(method: Method, state: State) -> tuple[State, StepRecord]:
    """Make one step: a function of the state, and of the clock where the schedule reads it."""
    started = perf_counter()
    learning_rate = method.schedule(state.step) * state.recent.scale
    seen, objection = judged(method, state, _wanted(method, state))
    if seen is None or objection is not None and _can_undo(state, seen.cost):
        assert objection is not None
        outcome = _undone(method, state, state.good or state.here, objection)
    else:
        moved, coarse = _moved_in_single(method, state, seen, learning_rate)
        if moved is None:
            seen = None  # or log-derivatives would be there twice
            state = _in_double(method, state)
            seen = observe(method.problem, method.sampler, state.here, state.step, kept=method.kept)
            moved = _moved(method, state, seen, learning_rate)
        outcome = replace(moved, diagnostics=(*coarse, *moved.diagnostics))
    outcome = _closer(method, _grown(outcome, state.growth), state.chi, seen)
    record = StepRecord(
        **(_NOTHING_SEEN if seen is None else seen.statistics()),
        step=state.step,
        learning_rate=learning_rate * outcome.info.get("paced_rate", 1.0),
        step_norm=outcome.step_norm,
        undone=outcome.state.good is None,
        diagnostics=outcome.diagnostics,
        optimizer=outcome.info,
        seconds=perf_counter() - started,
        power=None if seen is None else seen.info.power,
        n_samples=None if seen is None else int(seen.local.shape[0]),
        chi=chi_of(method.problem.ansatz),
    )
    return outcome.state, record


def _wanted(method: Method, state: State) -> Wanted:
    """In which precision the rule can take the log-derivatives of this step."""
    rule, n_samples = method.rule, method.sampler.n_samples
    if n_samples is None or not isinstance(rule, Rounds):
        return True
    here = state.here
    return "single" if rule.takes_single(here.theta, n_samples, here.optimizer) else True


def _in_double(method: Method, state: State) -> State:
    """The state of a run whose log-derivatives are in double precision from now on."""
    assert isinstance(method.rule, Rounds)
    optimizer = method.rule.in_double(state.here.optimizer)
    return replace(state, here=replace(state.here, optimizer=optimizer))


@dataclass(frozen=True)
class _Outcome:
    """Where a step leads, and what is told of it."""

    state: State
    step_norm: float = 0.0
    diagnostics: tuple[Diagnostic, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)


def _grown(outcome: _Outcome, growth: Growth | None) -> _Outcome:
    """Let the number of samples follow what the rule has found of the last direction."""
    if growth is None:
        return outcome
    grown = growth.after(outcome.info.get("correlation"))
    state = replace(outcome.state, growth=grown)
    return replace(outcome, state=state, diagnostics=(*outcome.diagnostics, *grown.told(growth)))


def _closer(
    method: Method, outcome: _Outcome, chi: int | None, seen: Observation | None
) -> _Outcome:
    """Let chi follow what truncation does to the amplitudes of a step."""
    if chi is None:
        return outcome
    assert method.largest_chi is not None
    spread, threshold = None, math.nan
    if seen is not None:
        part = off_diagonal_energy(method.problem.operator, seen.snapshot, seen.local)
        spread = _mean_spread(seen.snapshot)
        threshold = closure_threshold(part, seen.energy.error)
    after = chi_after(chi, method.largest_chi, spread, threshold)
    state = replace(outcome.state, chi=after)
    return replace(outcome, state=state, diagnostics=(*outcome.diagnostics, *chi_grown(chi, after)))


_NOTHING_SEEN: dict[str, Any] = {
    **dict.fromkeys(("energy", "energy_error", "variance"), math.nan),
    **dict.fromkeys(("tau", "r_hat", "acceptance", "closure_spread", "effective_samples")),
    "overlaps": (),
}


def judged(
    method: Method, state: State, jacobian: Wanted = True
) -> tuple[Observation | None, Diagnostic | None]:
    """What is seen at the present point, and what the guard objects to; nothing seen where that failed.

    Raises:
        DeviceError: no smaller step makes room.
        ValueError: sampling failed, and there is no point to go back to.
    """
    try:
        seen = observe(
            method.problem, method.sampler, state.here, state.step, jacobian, method.kept
        )
    except DeviceError:
        raise
    except ValueError as error:  # psi vanishes, or a decomposition failed
        if state.good is None:
            raise
        return None, Diagnostic("sampling_failed", "warning", {"reason": str(error)})
    cost, n_sites = seen.cost, method.problem.operator.n_sites
    return seen, method.guard.objection(state.recent, cost.mean, cost.variance, n_sites)


def _can_undo(state: State, cost: Estimate) -> bool:
    """Tell whether a retry can differ: elsewhere, or with other samples of what failed here."""
    return state.good is not None or not math.isfinite(cost.mean + cost.variance)


def _moved_in_single(
    method: Method, state: State, seen: Observation, learning_rate: float
) -> tuple[_Outcome | None, tuple[Diagnostic, ...]]:
    """Change theta, or tell why log-derivatives in single precision do not do."""
    try:
        return _moved(method, state, seen, learning_rate), ()
    except PrecisionError as error:
        change = error.change if math.isfinite(error.change) else None
        values = {"rounding": change, "limit": TOLERANCE}
        return None, (Diagnostic("log_derivatives_in_double", "open", values),)


def _moved(method: Method, state: State, seen: Observation, learning_rate: float) -> _Outcome:
    """Change theta."""
    here, cost, guard = cast(Iterate, seen.point), seen.cost, method.guard
    assert seen.snapshot.jacobian is not None
    try:
        # BLAS at one thread: the same bits for any number of workers, and on a shared machine
        # BLAS threads that wait for each other took 20 times as long.
        with one_blas_thread(), using_threads(method.sampler.threads):
            direction, optimizer, info = method.rule.direction(
                here.theta, seen.snapshot.jacobian, seen.lowered, seen.snapshot.weight,
                here.optimizer, (method.problem.seed, state.step),
            )  # fmt: skip
    except NonFiniteError:
        return _undone(method, state, here, Diagnostic("direction_not_finite", "warning"))
    length = norm(direction)
    if not math.isfinite(length):
        return _undone(method, state, here, Diagnostic("direction_not_finite", "warning"))
    factor = guard.shortened(state.recent, length, learning_rate, norm(here.theta))
    if factor < 1 and isinstance(method.rule, Follows):
        optimizer = method.rule.shortened(optimizer, factor)
    with np.errstate(over="ignore", invalid="ignore"):
        theta = here.theta - (learning_rate * factor) * direction
    if not all_finite(theta):  # beyond the largest number of its type
        return _undone(method, state, here, Diagnostic("direction_not_finite", "warning"))
    recent = guard.accepted(
        state.recent, cost.mean, cost.error, cost.variance, length * factor,
        retried=state.good is None and state.recent.rollbacks > 0,
    )  # fmt: skip
    trail = None if state.trail is None else state.trail.after(here.theta)
    told = [Diagnostic("step_shortened", "open", {"factor": factor})] if factor < 1 else []
    if (residual := unsolved(info, method.rule)) is not None:
        told.append(Diagnostic("system_not_solved", "open", {"residual": residual}))
    return _Outcome(
        State(state.step + 1, replace(here, theta=theta, optimizer=optimizer), here, recent, trail),
        learning_rate * factor * length,
        tuple(told),
        info,
    )


def _undone(method: Method, state: State, back: Iterate, objection: Diagnostic) -> _Outcome:
    """Go back (or stay) and let the next steps be shorter."""
    recent: Recent = method.guard.rejected(state.recent)
    if recent.rollbacks > method.guard.patience:
        raise OptimisationFailed(
            f"step {state.step}: {objection.code.replace('_', ' ')}; so it went {recent.rollbacks} "
            "times in a row, with ever smaller steps. Start from other parameters, raise "
            "optimizer.diag_shift, or contraction.chi where the state has one"
        )
    return _Outcome(
        State(state.step + 1, back, None, recent, state.trail), diagnostics=(objection,)
    )


def all_finite(v: Array) -> bool:
    """Tell whether no entry of an array is NaN or infinite."""
    xp = array_namespace(v)
    return bool(xp.all(xp.isfinite(v)))


def norm(v: Array) -> float:
    """Euclidean norm of an array."""
    xp = array_namespace(v)
    return math.sqrt(float(xp.sum(xp.abs(v) ** 2)))


def _mean_spread(snapshot: Snapshot) -> float | None:
    if snapshot.closure_spread is None:
        return None
    xp = array_namespace(snapshot.closure_spread)
    if snapshot.weight is not None:
        return float(xp.sum(snapshot.closure_spread * snapshot.weight))
    return float(xp.mean(snapshot.closure_spread))
