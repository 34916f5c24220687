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
from tnvmc.vmc.observation import Observation
from tnvmc.vmc.step import OptimisationFailed, advance, draw_and_judge

Array = Any

STEPS = 8
"""Steps from each start; after half of them the highest of three or more is left out."""

LEAST_STEPS = 40
"""Of a run whose start is chosen so: the steps of all starts take about the time of ten of it."""

SHARE = 4
"""The samples of these steps are the part 1 / SHARE of those of a step, whole draws."""

SIGNIFICANT = 3.0
"""Errors by which another start must be lower than the first one to be taken."""


@dataclass
class _Trial:
    """One start, and where its steps have led."""

    name: str
    theta: Array
    state: State
    seen: Observation | None = None

    @property
    def energy(self) -> tuple[float, float]:
        """Energy and error; infinite where the steps failed."""
        if self.seen is None or not math.isfinite(self.seen.energy.mean):
            return math.inf, 0.0
        return self.seen.energy.mean, self.seen.energy.error


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

    Cost: `STEPS` steps of 1 / `SHARE` of the samples for each, and one draw of all samples.
    """
    quick = replace(method, sampler=_fewer(method.sampler))
    kept = tuple(each for each in state.controllers if type(each) is GrowingChi)
    trials = [
        _Trial(name, theta, replace(
            state, here=Iterate(theta, state.here.configs, method.rule.init(theta)),
            controllers=kept,
        ))
        for name, theta in thetas.items()
    ]  # fmt: skip
    after_half = [_advanced(quick, quick, each, STEPS // 2) for each in trials]
    going = sorted(after_half, key=lambda each: each.energy[0])[: max(2, len(trials) - 1)]
    ended = {each.name: _advanced(quick, method, each, STEPS - STEPS // 2) for each in going}
    best = _best(list(ended.values()), trials[0].name)
    n_sites = method.problem.operator.n_sites
    apart = [_distance(one, other) for one in ended.values() for other in ended.values()]
    agree = len(ended) == len(trials) and max(apart) <= SIGNIFICANT
    values = {
        "start": best.name, "steps": STEPS,
        "tried": [_told(ended.get(each.name, each), n_sites) for each in after_half],
    }  # fmt: skip
    return best.theta, Diagnostic("starts_tried", "good" if agree else "open", values)


def _best(ended: list[_Trial], first: str) -> _Trial:
    lowest = min(ended, key=lambda each: each.energy[0])
    by_name = {each.name: each for each in ended}
    default, noise = by_name.get(first), by_name.get(WITH_NOISE)
    if default is not None and _distance(default, lowest) <= SIGNIFICANT:
        lowest = default
    stuck = lowest.seen is not None and fixed_exchanges(
        lowest.seen.problem.operator, lowest.seen.snapshot
    )
    return noise if stuck and noise is not None else lowest


def _distance(one: _Trial, other: _Trial) -> float:
    """By how many errors of both one energy lies above another."""
    (a, error), (b, other_error) = one.energy, other.energy
    both = math.hypot(error, other_error)
    if not math.isfinite(a - b):
        return math.inf if one is not other else 0.0
    return (a - b) / both if both else math.copysign(math.inf, a - b) if a != b else 0.0


def _told(trial: _Trial, n_sites: int) -> dict[str, Any]:
    energy, error = trial.energy
    known, seen = math.isfinite(energy), trial.seen
    return {
        "start": trial.name,
        "energy_per_site": energy / n_sites if known else None,
        "error_per_site": error / n_sites if known and math.isfinite(error) else None,
        "variance_per_site": seen.energy.variance / n_sites if known and seen else None,
        "steps": trial.state.step,
    }


def _advanced(quick: Method, last: Method, trial: _Trial, n_steps: int) -> _Trial:
    """Make steps and look at where they lead by the sampler of `last`; nothing where they fail."""
    state = trial.state
    try:
        for _ in range(n_steps):
            state, _record = advance(quick, state)
        seen, _objection = draw_and_judge(controlled(last, state), state, jacobian=False)
    except (OptimisationFailed, ValueError):  # psi vanishes, or energies that are not finite
        return replace(trial, seen=None)
    return replace(trial, state=state, seen=seen)


def _fewer(sampler: Samples) -> Samples:
    """The same walkers with fewer draws; a sampler without chains as it is."""
    if sampler.n_samples is None or sampler.n_samples <= sampler.n_walkers:
        return sampler
    fewer: Any = sampler
    n_samples = max(sampler.n_walkers, sampler.n_samples // SHARE)
    return cast(Samples, replace(fewer, n_samples=n_samples))
