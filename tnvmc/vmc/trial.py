"""Which start a run goes on from: a few steps from each one, and the lowest energy after them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from tnvmc.ansatz.initial import WITH_NOISE
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.exchange import fixed_exchanges
from tnvmc.sampling.problem import Samples
from tnvmc.vmc.controllers import GrowingChi
from tnvmc.vmc.core import Iterate, Method, State, controlled
from tnvmc.vmc.step import OptimisationFailed, advance, draw_and_judge

Array = Any

STEPS, STAGE = 6, 2
"""Steps from each start; after every `STAGE` the highest is left out while there are three."""

LEAST_STEPS = 40
"""Of a run whose start is chosen so: the steps of all starts take about the time of ten of it."""

SHARE = 4
"""The samples of these steps are the part 1 / SHARE of those of a step, whole draws."""

SIGNIFICANT = 3.0
"""Errors by which another start must be lower than the first one to be taken."""


@dataclass(frozen=True)
class _Trial:
    """One start, where its steps have led, and the energy there; infinite where they failed."""

    name: str
    theta: Array
    state: State
    energy: float = math.inf
    error: float = 0.0
    variance: float | None = None
    stuck: bool = False  #: whether it holds exchange parities that H does not conserve


def best_start(
    method: Method, state: State, thetas: Mapping[str, Array]
) -> tuple[Array, Diagnostic]:
    """Make a few steps from each of several starts, and say which one is to be gone on from.

    Another start than the first one is taken where its energy is lower by three errors; and the one
    with noise where the lowest one is stuck in exchange parities that H does not conserve
    (`fixed_exchanges`).  The steps leave no trace: a run from the start that is named here is the
    same.

    Args:
        method: that of the first step.
        state: before the first step.
        thetas: parameters (P,) by name, the default first.

    Returns:
        The parameters to begin with, and starts_tried with `start` (the name), `steps`, and
        `tried`: name, energy, error and variance per site of each, in units of H, after its steps;
        good where all energies agree within errors, otherwise open.

    Cost: `STEPS` steps of 1 / `SHARE` of the samples for each that is not left out, and a draw of
    all samples.
    """
    quick = replace(method, sampler=_fewer(method.sampler))
    kept = tuple(each for each in state.controllers if type(each) is GrowingChi)

    def at_the_start(name: str, theta: Array) -> _Trial:
        here = Iterate(theta, state.here.configs, method.rule.init(theta))
        return _Trial(name, theta, replace(state, here=here, controllers=kept))

    going, left_out = [at_the_start(*each) for each in thetas.items()], []
    for _ in range(STEPS // STAGE):
        going = sorted((_advanced(quick, each) for each in going), key=lambda each: each.energy)
        left_out += going[2:][-1:]
        going = [each for each in going if each not in left_out]
    ended = [_looked_at(method, each) for each in going]
    best = _best(ended, next(iter(thetas)))
    n_sites, by_name = method.problem.operator.n_sites, {x.name: x for x in (*left_out, *ended)}
    agree = not left_out and max(_distance(a, b) for a in ended for b in ended) <= SIGNIFICANT
    values = {
        "start": best.name, "steps": STEPS,
        "tried": [_told(by_name[name], n_sites) for name in thetas],
    }  # fmt: skip
    return best.theta, Diagnostic("starts_tried", "good" if agree else "open", values)


def _best(ended: list[_Trial], first: str) -> _Trial:
    by_name = {each.name: each for each in ended}
    lowest = min(ended, key=lambda each: each.energy)
    default, noisy = by_name.get(first, lowest), by_name.get(WITH_NOISE)
    if _distance(default, lowest) <= SIGNIFICANT:
        lowest = default
    return noisy if lowest.stuck and noisy is not None else lowest


def _distance(one: _Trial, other: _Trial) -> float:
    """By how many errors of both one energy lies above another."""
    if one.energy == other.energy:
        return 0.0
    both = math.hypot(one.error, other.error)
    return (one.energy - other.energy) / both if both else math.inf


def _told(trial: _Trial, n_sites: int) -> dict[str, Any]:
    known = math.isfinite(trial.energy)
    return {
        "start": trial.name,
        "energy_per_site": trial.energy / n_sites if known else None,
        "error_per_site": trial.error / n_sites if known else None,
        "variance_per_site": trial.variance / n_sites if known and trial.variance else None,
        "steps": trial.state.step,
    }


def _advanced(method: Method, trial: _Trial) -> _Trial:
    """Make the steps of a stage; the energy is that before the last update."""
    state = trial.state
    try:
        for _ in range(STAGE):
            state, record = advance(method, state)
    except (OptimisationFailed, ValueError):  # psi vanishes, or energies that are not finite
        return replace(trial, energy=math.inf)
    seen = record.energy, record.energy_error, record.variance
    return _with_energy(replace(trial, state=state), *seen)


def _looked_at(method: Method, trial: _Trial) -> _Trial:
    """Draw all samples where the steps have led."""
    if not math.isfinite(trial.energy):
        return trial
    try:
        seen, _ = draw_and_judge(controlled(method, trial.state), trial.state, jacobian=False)
    except ValueError:
        return replace(trial, energy=math.inf)
    if seen is None:
        return replace(trial, energy=math.inf)
    stuck = bool(fixed_exchanges(seen.problem.operator, seen.snapshot))
    cost = seen.energy
    return replace(_with_energy(trial, cost.mean, cost.error, cost.variance), stuck=stuck)


def _with_energy(trial: _Trial, energy: float, error: float, variance: float) -> _Trial:
    if not math.isfinite(energy + variance):
        return replace(trial, energy=math.inf)
    error = error if math.isfinite(error) else math.sqrt(variance)
    return replace(trial, energy=energy, error=error, variance=variance)


def _fewer(sampler: Samples) -> Samples:
    """The same walkers with fewer draws; a sampler without chains as it is."""
    if sampler.n_samples is None or sampler.n_samples <= sampler.n_walkers:
        return sampler
    chains: Any = sampler
    n_samples = max(sampler.n_walkers, sampler.n_samples // SHARE)
    return cast(Samples, replace(chains, n_samples=n_samples, n_burn=0))
