"""Which point of an optimisation is measured."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tnvmc.backend import progress
from tnvmc.backend.namespace import to_host
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.statistics import effective_samples, estimate, pull
from tnvmc.sampling import FEWEST_WALKERS, streams
from tnvmc.sampling.problem import Drawing
from tnvmc.vmc.controllers import MeanOfIterates
from tnvmc.vmc.core import Iterate, Method, State, controlled
from tnvmc.vmc.observation import Observation, Reweighted, observe
from tnvmc.vmc.step import draw_and_judge

Array = Any
Diagnostics = tuple[Diagnostic, ...]

CODES = ("measured_before_last_update", "measured_mean", "measured_first")
"""Codes of why other parameters than the last ones are measured."""

FEWEST = 8
"""Iterates below which their mean is not looked at."""

BURN = 10
"""Sweeps before the first draw of a measurement, by walkers that have moved with the steps."""

ENOUGH = 512
"""Samples by which the last parameters are compared with others, at least: those of a step where it
has as many."""

WORTH = 0.25
"""Part of the effective samples that is left of them with the weights of the mean, at least; below
it the mean has samples of its own."""

FEW = 4
"""The first parameters are looked at by a part of the walkers, 1 / FEW, which nearly always shows
that they are far above."""

BY = 2.0
"""Errors of the difference by which the mean or the first parameters have to be lower: one is
chance in one run of six, and after some tens of steps the mean is mostly the worse one."""


def measured_iterate(method: Method, state: State) -> tuple[Iterate, Diagnostics]:
    """Give the point whose parameters are to be measured, and why it is not the last one.

    The last update is judged as the next step would judge it, by the same draw and the same guard;
    where that step would undo it, the point before it is taken (measured_before_last_update).  With
    a learning rate that follows the steps the mean of the iterates, by the same samples with other
    weights, is taken where it is lower by two errors of the difference (measured_mean,
    docs/decisions/034-mean-or-last.md), and so are the first parameters (measured_first).  None of
    these samples is measured afterwards.

    Cost: a draw of a step without log-derivatives, and from `FEWEST` steps on a measurement of its
    samples and sweeps of a part of the walkers: the time of two steps.  A draw more for each energy
    that this does not settle.
    """
    method = controlled(method, state)
    point, seen, reasons = _judged(method, state)
    iterates = state.controller(MeanOfIterates)
    if iterates is None or iterates.count < FEWEST:
        return point, reasons
    progress.begin("iterates")
    if seen is None or (method.sampler.n_samples or ENOUGH) < ENOUGH:
        seen = _looked_at(method, point, 0)  # by walkers that the steps have left here
    return _best(method, iterates, point, seen, reasons)


def steps_of_choice(n_walkers: int, n_samples: int) -> float:
    """The time of `measured_iterate`, in steps of so many samples, where no energy is in doubt."""
    draws = -(-n_samples // n_walkers)
    more = -(-ENOUGH // n_samples) if n_samples < ENOUGH else 0
    return 1.5 + more * 1.5 + (BURN + draws) / FEW / (1 + draws)


def _judged(method: Method, state: State) -> tuple[Iterate, Observation | None, Diagnostics]:
    """The point that the next step would go on from, and its samples where there are any."""
    if state.before_update is None:
        return state.here, None, ()
    progress.begin("last_update")
    seen, objection = draw_and_judge(method, state, jacobian=False)
    if objection is None:
        return state.here, seen, ()
    because = {"because": objection.code, **objection.values}
    told = Diagnostic("measured_before_last_update", "warning", because)
    return state.before_update, None, (told,)


def _best(
    method: Method, iterates: MeanOfIterates, last: Iterate, of_last: Observation | None,
    reasons: Diagnostics,
) -> tuple[Iterate, Diagnostics]:  # fmt: skip
    mean, first = (replace(last, theta=each) for each in (iterates.mean, iterates.first))
    of_mean = _of_mean(method, mean, of_last)
    best, found, left = last, of_last, of_mean
    if _lower(of_mean, of_last):
        best, found, left = mean, of_mean, of_last
    of_first = _looked_at(method, first, 2, few=True)
    if not _lower(found, of_first):
        of_first = _looked_at(method, first, 3)
    if _lower(of_first, found):
        return first, (Diagnostic("measured_first", "warning", _compared(of_first, found)),)
    if best is last:
        return last, reasons
    return best, (Diagnostic("measured_mean", "good", _compared(found, left)),)


def _of_mean(method: Method, mean: Iterate, of_last: Observation | None) -> Observation | None:
    """The mean by the samples of the last parameters, or by its own where it is too far off."""
    if of_last is not None and not of_last.info.exact:
        own = of_last.snapshot.weight
        again = Reweighted(of_last.snapshot, of_last.info, method.sampler.threads)
        seen = _observed(method, again, mean, 1)
        worth = len(of_last.local) if own is None else effective_samples(own)
        if seen is not None and effective_samples(seen.snapshot.weight) >= WORTH * worth:
            return seen
    return _looked_at(method, mean, 1)


def _looked_at(
    method: Method, point: Iterate, number: int, few: bool = False
) -> Observation | None:
    """Samples of a step at a point, `ENOUGH` at least, or a few; None where psi fails there."""
    sampler, n_walkers = method.sampler, method.sampler.n_walkers
    n = min(n_walkers, max(FEWEST_WALKERS, n_walkers // FEW)) if few else n_walkers
    n_samples = sampler.n_samples  # an enumeration has none
    if n_samples is not None:
        n_samples = n_samples * n // n_walkers if few else n_samples * -(-ENOUGH // n_samples)
    sampler = sampler.for_measurement(n_samples, BURN if number else None, n_walkers=n)
    point = replace(point, configs=point.configs[:n, :])
    return _observed(method, sampler, point, number)


def _observed(method: Method, sampler: Drawing, point: Iterate, number: int) -> Observation | None:
    number += streams.CHOICE
    try:
        seen = observe(method.problem, sampler, point, number, False, method.orthogonal_to)
    except ValueError:  # psi vanishes, or a decomposition failed
        return None
    return seen if math.isfinite(seen.cost.mean) else None


def _lower(one: Observation | None, other: Observation | None) -> bool:
    """Whether one energy lies more than `BY` errors of the difference below another."""
    if one is None or other is None:
        return one is not None
    return bool(other.cost.mean - one.cost.mean > BY * _error_between(one, other))


def _error_between(one: Observation, other: Observation) -> float:
    """The error of the difference of two energies, in which cancels what shared samples have in
    common.
    """
    configs, others = (to_host(each.snapshot.configs) for each in (one, other))
    if not np.array_equal(configs, others):
        return math.hypot(one.cost.error, other.cost.error)
    pulls = [pull(each.local_cost, each.snapshot.weight) for each in (one, other)]
    return 0.0 if one.info.exact else estimate(pulls[0] - pulls[1], one.info.n_walkers).error


def _compared(taken: Observation | None, left: Observation | None) -> Mapping[str, Any]:
    values = {}
    for name, found in (("taken", taken), ("left", left)):
        values[name] = None if found is None else float(found.cost.mean)
        values[f"{name}_error"] = None if found is None else float(found.cost.error)
    return values
