"""Which point of an optimisation is measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tnvmc.backend import progress
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.statistics import Estimate
from tnvmc.sampling import streams
from tnvmc.vmc.controllers import MeanOfIterates
from tnvmc.vmc.core import Iterate, Method, State, controlled
from tnvmc.vmc.observation import observe
from tnvmc.vmc.step import draw_and_judge

Array = Any
Diagnostics = tuple[Diagnostic, ...]

CODES = ("measured_before_last_update", "measured_mean", "measured_first")
"""Codes of why other parameters than the last ones are measured."""

FEWEST = 8
"""Iterates below which their mean is not looked at."""

BURN = 10
"""Sweeps before the first draw of a measurement, by walkers that have moved with the steps."""

TIMES = 4
"""Samples of each energy that is compared, over those of a step, up to `ENOUGH`: mean and last
differ by little, the first by much, so that it gets as many only where those of a step do not
settle it."""

ENOUGH = 4096
"""Samples by which variances, which decide where energies agree, are known to some per cent.  Four
times those of a step took longer than the measurement itself at D = 5 and 6."""

AT_LEAST = 1024
"""Samples of each energy that is compared, however few a step has: four times eight would take any
of the three for any other.
"""

SCATTER = 2.0
"""Largest variance of the mean of the iterates, over that of the last ones: above it an energy that
seems lower is noise.
"""

FIRST_BY = 2.0
"""Errors by which the first parameters have to be lower than what the steps made: one is chance in
one run of six, and would throw the steps away."""


def measured_iterate(method: Method, state: State) -> tuple[Iterate, Diagnostics]:
    """Give the point whose parameters are to be measured, and why it is not the last one.

    The last update is judged as the next step would judge it: by the same draw and the same guard.
    Where that step would undo it, the point before it is taken (measured_before_last_update). With
    a learning rate that follows the steps its energy is then compared with that of the mean of the
    iterates, which is taken where it is better (measured_mean; see `_is_better`), and with that of
    the first parameters, which are taken where theirs is more than two errors lower
    (measured_first: the steps have led nowhere).  Cost: draws without log-derivatives, two of the
    samples of a step and two of `TIMES` as many (of `AT_LEAST`, or of the multiple that is not
    above `ENOUGH`), and one more of these where the first parameters are not two errors higher;
    only the first one before `FEWEST` steps.
    """
    method = controlled(method, state)
    point, reasons = _before_a_bad_update(method, state)
    mean = state.controller(MeanOfIterates)
    if mean is None or mean.count < FEWEST:
        return point, reasons
    return _best(method, mean, point, reasons)


def _before_a_bad_update(method: Method, state: State) -> tuple[Iterate, Diagnostics]:
    if state.before_update is None:
        return state.here, ()
    progress.begin("last_update")
    _, objection = draw_and_judge(method, state, jacobian=False)
    if objection is None:
        return state.here, ()
    because = {"because": objection.code, **objection.values}
    return state.before_update, (Diagnostic("measured_before_last_update", "warning", because),)


def _best(
    method: Method, iterates: MeanOfIterates, last: Iterate, reasons: Diagnostics
) -> tuple[Iterate, Diagnostics]:
    points = [last, replace(last, theta=iterates.mean), replace(last, theta=iterates.first)]
    of_last, of_mean = (_energy(method, points[i], i, thorough=True) for i in range(2))
    of_first = _energy(method, points[2], 2, thorough=False)
    best, found = (points[1], of_mean) if _is_better(of_mean, of_last) else (last, of_last)
    if not _lower(found, of_first, FIRST_BY):
        of_first = _energy(method, points[2], 3, thorough=True)
    if _lower(of_first, found, FIRST_BY):
        return points[2], (Diagnostic("measured_first", "warning", _compared(of_first, found)),)
    if best is last:
        return last, reasons
    return best, (Diagnostic("measured_mean", "good", _compared(of_mean, of_last)),)


def samples_of_comparison(n_samples: int) -> int:
    """The samples of each energy that is compared, where a step has so many: a multiple of them, as
    walkers need it.
    """
    return n_samples * max(1, min(TIMES, ENOUGH // n_samples), -(-AT_LEAST // n_samples))


def _energy(method: Method, point: Iterate, number: int, thorough: bool) -> Estimate | None:
    """The energy of a point, by the samples of a step or of a comparison; None where psi fails
    there.
    """
    n_samples = getattr(method.sampler, "n_samples", None)  # an enumeration has none
    if n_samples is not None and thorough:
        n_samples = samples_of_comparison(n_samples)
    progress.begin("iterates")
    sampler = method.sampler.for_measurement(n_samples, BURN)
    try:
        seen = observe(
            method.problem, sampler, point, streams.CHOICE + number, False, method.orthogonal_to
        )
    except ValueError:  # psi vanishes, or a decomposition failed
        return None
    return seen.cost if math.isfinite(seen.cost.mean) else None


def _is_better(mean: Estimate | None, last: Estimate | None) -> bool:
    """Whether the mean of the iterates is to be taken: of the lower energy, or of the lower
    variance where energies agree.

    Their energies differ by less than the noise of as many samples as are worth it, while near an
    eigenstate E - E_0 and the variance fall together, and the variance is known to some per cent
    (docs/decisions/034-mean-or-last.md).
    """
    if mean is None or last is None:
        return mean is not None
    if abs(mean.mean - last.mean) <= math.hypot(mean.error, last.error):
        return bool(mean.variance <= last.variance)
    return bool(mean.mean < last.mean and mean.variance <= SCATTER * last.variance)


def _lower(one: Estimate | None, other: Estimate | None, by: float) -> bool:
    """Whether one energy lies more than so many errors of the two below another."""
    if one is None or other is None:
        return one is not None
    error = math.hypot(one.error, other.error)
    return bool(other.mean - one.mean > by * error)


def _compared(taken: Estimate | None, left: Estimate | None) -> Mapping[str, Any]:
    values = {}
    for name, found in (("taken", taken), ("left", left)):
        values[name] = None if found is None else float(found.mean)
        values[f"{name}_error"] = None if found is None else float(found.error)
    return values
