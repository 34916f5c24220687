"""What the steps of an optimisation tell: extrapolated energies, noise, instability."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.line_fit import (
    FEWEST_FOR_AN_ERROR,
    STEPS_PER_BIN,
    Line,
    converging_tail,
    fit_line,
)

Json = Mapping[str, Any]

SIGNIFICANT = 3.0
"""Own errors that a change must have to count as seen."""

FEWEST_STEPS, UNSTABLE = 8, 0.25
"""Steps, and the part of them that the guard may hold back."""

_BENT = 5.0
"""chi^2 per degree of freedom from which points do not lie on a line, whatever the error says."""

_FEWEST_UPDATES = 5
_ENOUGH, _VAGUE = 0.15, 0.5
"""Errors of a share of noise: where no more steps are taken for it, and that it has at most."""


def of_last_stage(history: Sequence[Json]) -> list[Json]:
    """Give the lines of the last stage that made steps; all of them in a run without stages."""
    last = history[-1].get("stage") if history else None
    return [line for line in history if line.get("stage") == last]


def good_lines(history: Sequence[Json]) -> list[Json]:
    """Give the steps of the last stage that were not undone and whose energy is finite."""
    known = ("energy", "energy_error", "variance")
    return [
        line
        for line in of_last_stage(history)
        if not line["undone"] and all(line.get(key) is not None for key in known)
    ]


def unstable(history: Sequence[Json]) -> Iterator[Diagnostic]:
    """Warn where the guard held back too many steps of the last stage."""
    own = of_last_stage(history)
    held = sum(
        bool(line.get("undone"))
        or any(told["code"] == "step_shortened" for told in line.get("diagnostics") or ())
        for line in own
    )
    if len(own) >= FEWEST_STEPS and held > UNSTABLE * len(own):
        of_sr = any("shift" in (line.get("optimizer") or {}) for line in own)
        keys = ["sampler.n_samples", *(["optimizer.diag_shift"] if of_sr else [])]
        values = {"held_back": held, "steps": len(own), "raise": keys}
        yield Diagnostic("optimisation_unstable", "warning", values)


def points_of_steps(history: Sequence[Json]) -> list[dict[str, Any]]:
    """Give the points of the line to zero variance: the tail of the last stage, averaged in bins.

    Empty where there is no such tail (`converging_tail`).
    """
    lines = good_lines(history)
    series = [[line[key] for line in lines] for key in ("energy", "energy_error", "variance")]
    keys = ("variance", "energy", "energy_error")
    return [
        {"label": f"steps {lines[each.first]['step'] + 1} to {lines[each.last]['step'] + 1}"}
        | {key: asdict(each)[key] for key in keys}
        for each in converging_tail(*series)
    ]


def zero_variance(history: Sequence[Json]) -> tuple[Line | None, tuple[Diagnostic, ...]]:
    """Fit E = E0 + a variance (totals) through the steps, or tell why that is not to be shown.

    E0 is an estimate of the energy of the ground state and no bound.  Energies that come to rest
    above it are held there by D, by the noise of the steps, or by a minimum of their own.

    Returns:
        The line, whose intercept is E0; or None, and variance_line_not_shown with a `reason`:
        "steps" (too few), "tail" (the variance does not fall by enough in the last steps), "slope"
        (the energy does not fall with it, within the noise), "bend" (the points are no line).
    """
    steps, needed = len(good_lines(history)), FEWEST_FOR_AN_ERROR * STEPS_PER_BIN
    if steps < needed:
        return _not_shown("steps", steps=steps, needed=needed)
    points = points_of_steps(history)
    if len({point["variance"] for point in points}) < FEWEST_FOR_AN_ERROR:
        return _not_shown("tail")
    line = fit_line(
        *([point[k] for point in points] for k in ("variance", "energy", "energy_error"))
    )
    if not line.slope > SIGNIFICANT * line.slope_error:
        return _not_shown("slope", slope=line.slope, slope_error=line.slope_error)
    if line.chi2_per_dof > _BENT:
        return _not_shown("bend", chi2_per_dof=line.chi2_per_dof)
    return line, ()


def _not_shown(reason: str, **values: float) -> tuple[None, tuple[Diagnostic, ...]]:
    return None, (Diagnostic("variance_line_not_shown", "open", {"reason": reason, **values}),)


@dataclass(frozen=True)
class NoiseShare:
    """How much of what some steps expected was noise, and its error."""

    first: int  #: place of the first step in the history
    last: int  #: of the one that its last update has led to
    share: float
    error: float


def noise_shares(history: Sequence[Json]) -> list[NoiseShare]:
    """Give the part of the slopes that steps expected which is not in the energy.

    A step expects the energy to fall by 2 x per unit of learning rate, with x the slope that its
    own samples, which have chosen the direction, give to it (`optimize.pace.Paced`); s is the slope
    that it has, so that 1 - s / x is noise.  New samples give the slope y at the end of the step,
    of length eta, where curvature has made it smaller: with that, and the energies of both ends, E
    - E' = eta (s + y) to third order in eta.  So -(E + sum eta y) against sum eta x over steps is a
    line of slope s / x, which needs no sample that has chosen a direction.  (y / x alone says
    little: a rate that follows it makes it 0 whatever the noise.)

    Each share is of five steps or of as many as bring its error down to 0.15; those that end with
    more than 0.5 are left out.  The error is that of the energies, or of the scatter about the
    line, and of y.  Steps can be too long for third order, at the beginning from a random state: a
    share is then too small.  It is left out where it is 2 errors below 0, which no share is.

    Args:
        history: lines of history.jsonl.

    Returns:
        Shares in the order of the steps; none of rules without `Paced`.  None spans an undone step
        or two stages.
    """
    found: list[NoiseShare] = []
    for places in _chains(history):
        expected, left, variance = _summed(history, places)
        errors = [history[place]["energy_error"] for place in places]
        begin, last = 0, len(places) - 1
        for end in range(_FEWEST_UPDATES, len(places)):
            if end - begin < _FEWEST_UPDATES:
                continue
            own = slice(begin, end + 1)
            line = fit_line(expected[own], left[own], errors[own])
            of_slopes = math.sqrt(variance[end] - variance[begin])
            error = math.hypot(line.slope_error, of_slopes / (expected[end] - expected[begin]))
            if error <= _ENOUGH or end == last and error <= _VAGUE:
                found.append(NoiseShare(places[begin], places[end], 1 - line.slope, error))
                begin = end
    return [each for each in found if each.share > -2 * each.error]


def _chains(history: Sequence[Json]) -> list[list[int]]:
    """Places of steps each of which has confirmed the update of the one before."""
    chains: list[list[int]] = []
    before: Json | None = None
    for place, line in enumerate(history):
        known = not line.get("undone") and line.get("energy_error") is not None
        told = line.get("optimizer") or {}
        slopes = told.get("expected_slope") and told.get("confirmed_slope") is not None
        goes_on = known and slopes and before is not None
        if goes_on and before is not None and before.get("stage") == line.get("stage"):
            chains[-1].append(place)
        elif known:
            chains.append([place])
        before = line if known else None
    return chains


def _summed(
    history: Sequence[Json], places: Sequence[int]
) -> tuple[list[float], list[float], list[float]]:
    """Sums of eta x up to each step of a chain, -(E + sum of eta y), and its variance."""
    expected, confirmed, variance = [0.0], [0.0], [0.0]
    for before, place in pairwise(places):
        length, told = _length(history[before]), history[place]["optimizer"]
        expected.append(expected[-1] + length * told["expected_slope"])
        confirmed.append(confirmed[-1] + length * told["confirmed_slope"])
        error = told.get("confirmed_slope_error") or 0.0
        variance.append(variance[-1] + (length * error) ** 2)
    energies = [history[place]["energy"] for place in places]
    return expected, [-(e + c) for e, c in zip(energies, confirmed, strict=True)], variance


def _length(line: Json) -> float:
    """By what the direction of a step was multiplied."""
    shortened = (d["values"] for d in line["diagnostics"] if d["code"] == "step_shortened")
    return float(line["learning_rate"]) * float(next(shortened, {"factor": 1.0})["factor"])
