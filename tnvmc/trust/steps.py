"""What the steps of an optimisation tell: extrapolated energies, instability."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tnvmc.estimate.diagnostic import Diagnostic, Status
from tnvmc.estimate.line_fit import FEWEST_FOR_AN_ERROR, Line, converging_tail, fit_line

Json = Mapping[str, Any]

SIGNIFICANT = 3.0
"""Own errors that a change must have to count as seen."""

FEWEST_STEPS, UNSTABLE = 8, 0.25
"""Steps, and the part of them that the guard may hold back."""

_BENT = 5.0
"""chi^2 per degree of freedom from which points do not lie on a line, whatever the error says."""


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
    """Warn where too many steps of the last stage were held back, not first by a small theta."""
    own = of_last_stage(history)
    held = sum(
        bool(line.get("undone"))
        or any(
            told["code"] == "step_shortened"
            and (2 * k >= len(own) or told["values"].get("limit") != "size of theta")
            for told in line.get("diagnostics") or ()
        )
        for k, line in enumerate(own)
    )
    if len(own) >= FEWEST_STEPS and held > UNSTABLE * len(own):
        of_sr = any("shift" in (line.get("optimizer") or {}) for line in own)
        keys = ["sampler.n_samples", *(["optimizer.diag_shift"] if of_sr else [])]
        values = {"held_back": held, "steps": len(own), "raise": keys}
        yield Diagnostic("optimisation_unstable", "warning", values)


def off_in_time(step: Json) -> Iterator[Diagnostic]:
    """Tell which means of a time evolution may be farther off than twice their errors.

    Without means how far the state may be off.  It is a warning from where the bound of the
    distance between normalised states says nothing.
    """
    if "error_bound" not in step:
        return
    status: Status = "warning" if step["error_bound"] >= 1.0 else "open"
    names = [key[:-6] for key in step if key.endswith("_bound") and key != "error_bound"]
    if not names:
        values = {"name": None, "time": step["time"], "error": 0.0, "bound": step["error_bound"]}
        yield Diagnostic("time_bound", status, values)
    for name in names:
        values = {"name": name, "time": step["time"], "error": step[f"{name}_error"] or 0.0}
        if (bound := step[f"{name}_bound"]) > 2 * values["error"]:
            yield Diagnostic("time_bound", status, {**values, "bound": bound})


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


def zero_variance(history: Sequence[Json]) -> Line | None:
    """Fit E = E0 + a variance (totals) through the steps; None where that means nothing.

    E0 is an estimate of the energy of the ground state and no bound: energies may come to rest
    above it.  There is no line through too few steps, where the variance falls by too little in the
    last ones, where the energy does not fall with it beyond the noise, and where the points are
    bent.
    """
    points = points_of_steps(history)
    if len({point["variance"] for point in points}) < FEWEST_FOR_AN_ERROR:
        return None
    line = fit_line(*([each[k] for each in points] for k in ("variance", "energy", "energy_error")))
    seen = line.slope > SIGNIFICANT * line.slope_error
    return line if seen and line.chi2_per_dof <= _BENT else None
