"""Which start a run goes on from: a few steps from each one, and the lowest energy after them."""

import math
from collections.abc import Iterable, Mapping, Sequence
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

STEPS, STAGE = 9, 2
"""Steps for each start, made in stages; a start at rest leaves its own to those that still fall."""

LEAST_STEPS = 40
"""Of a run whose start is chosen so: the steps of all starts take about the time of ten of it."""

SHARE = 4
"""The samples of these steps are the part 1 / SHARE of those of a step, whole draws."""

SIGNIFICANT, FALLS = 3.0, (2.0, 1.0)
"""Errors by which another start must be lower than the first one to be taken; by which an energy
falls from one stage to the next where it is not at rest: that of the lowest start, and of one that
lies higher, whose errors are larger."""


@dataclass(frozen=True)
class _Trial:
    """One start, and the mean energy of its last stage, of two where it rests; infinite: failed."""

    name: str
    theta: Array
    state: State
    energy: float = math.inf
    error: float = 0.0
    variance: float | None = None
    fall: float = math.inf  #: from the stage before
    in_errors: float = math.inf  #: the same


def best_start(
    method: Method, state: State, thetas: Mapping[str, Array]
) -> tuple[Array, Diagnostic]:
    """Make a few steps from each of several starts, and say which one is to be gone on from.

    A start makes no more steps once its energy rests, or lies higher by three errors than another
    that falls as fast.  Another start than the first one is taken where its energy is lower by
    three errors, or lower at all once it has fallen past that of the first one at rest; and the one
    with noise where that one is stuck in exchange parities that H does not conserve
    (`fixed_exchanges`).  `thetas` are parameters (P,) by name, the default first.

    Returns:
        The parameters to begin with, and starts_tried with `start` (the name), `steps` (the most of
        one), and `tried`: name, energy, error and variance per site of each in its last steps; good
        where all energies agree within errors, otherwise open.

    Cost: at most `STEPS` steps of 1 / `SHARE` of the samples for each, a third as many of all
    samples where there cannot be fewer; and a draw of all samples.
    """
    quick = replace(method, sampler=_fewer(method.sampler))
    stage, left = STAGE, STEPS * len(thetas)
    if quick.sampler is method.sampler:
        stage, left = 1, left // 3
    kept = tuple(each for each in state.controllers if type(each) is GrowingChi)
    found = {}
    for name, theta in thetas.items():
        here = Iterate(theta, state.here.configs, method.rule.init(theta))
        found[name] = _Trial(name, theta, replace(state, here=here, controllers=kept))
    going = list(found)
    while going and left >= stage:
        for name in going[: left // stage]:
            found[name] = _advanced(quick, found[name], stage)
            left -= stage
        going = [name for name in going if _may_win(found[name], found.values())]
    ended = list(found.values())
    best, n_sites = _best(ended), method.problem.operator.n_sites
    if WITH_NOISE in found and _is_stuck(method, best):
        best = found[WITH_NOISE]
    agree = max(_distance(a, b) for a in ended for b in ended) <= SIGNIFICANT
    values = {
        "start": best.name, "steps": max(each.state.step for each in ended),
        "tried": [_told(each, n_sites) for each in ended],
    }  # fmt: skip
    return best.theta, Diagnostic("starts_tried", "good" if agree else "open", values)


def _may_win(trial: _Trial, ended: Iterable[_Trial]) -> bool:
    """Whether a start is worth more steps."""
    ahead = [each for each in ended if _distance(trial, each) > SIGNIFICANT]
    return trial.in_errors > FALLS[bool(ahead)] and all(trial.fall >= each.fall for each in ahead)


def _best(ended: Sequence[_Trial]) -> _Trial:
    first, lowest = ended[0], min(ended, key=lambda each: each.energy)
    passed = first.in_errors <= FALLS[0] and lowest.state.step > first.state.step
    return lowest if passed or _distance(first, lowest) > SIGNIFICANT else first


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


def _advanced(method: Method, trial: _Trial, n_steps: int) -> _Trial:
    """Make the steps of a stage; its energy is the mean of those before each update."""
    state, seen = trial.state, []
    try:
        for _ in range(n_steps):
            state, record = advance(method, state)
            if not math.isfinite(record.energy + record.variance):
                raise OptimisationFailed
            error, spread = record.energy_error, math.sqrt(record.variance)
            seen.append((record.energy, error if math.isfinite(error) else spread))
    except (OptimisationFailed, ValueError):  # or psi vanishes
        return replace(trial, energy=math.inf, in_errors=0.0)
    energy, error = _mean(seen)
    fall = trial.energy - energy  # infinite after the first stage
    both = math.hypot(trial.error, error)
    in_errors = fall / both if both else math.inf if fall > 0 else 0.0
    if in_errors <= FALLS[0]:
        energy, error = _mean([(trial.energy, trial.error), (energy, error)])
    return replace(
        trial, state=state, energy=energy, error=error, variance=record.variance,
        fall=fall, in_errors=in_errors,
    )  # fmt: skip


def _mean(energies: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Average energies with errors; the last one where they have none."""
    if not all(error for _, error in energies):
        return energies[-1]
    weights = [error**-2 for _, error in energies]
    mean = sum(w * energy for w, (energy, _) in zip(weights, energies, strict=True)) / sum(weights)
    return mean, sum(weights) ** -0.5


def _is_stuck(method: Method, trial: _Trial) -> bool:
    """Whether all samples of a start have exchange parities that H does not conserve."""
    try:
        seen, _ = draw_and_judge(controlled(method, trial.state), trial.state, jacobian=False)
    except ValueError:
        return False
    return seen is not None and bool(fixed_exchanges(seen.problem.operator, seen.snapshot))


def _fewer(sampler: Samples) -> Samples:
    """The same walkers with fewer draws; a sampler without chains as it is."""
    if sampler.n_samples is None or sampler.n_samples <= sampler.n_walkers:
        return sampler
    chains: Any = sampler
    n_samples = max(sampler.n_walkers, sampler.n_samples // SHARE)
    return cast(Samples, replace(chains, n_samples=n_samples, n_burn=0))
