"""result.json["convergence"]: extrapolations of the energy, and what they and the rest tell."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tnvmc.estimate.line_fit import Line, fit_line
from tnvmc.trust.finished_run import diagnose
from tnvmc.trust.steps import off_in_time, points_of_steps, zero_variance
from tnvmc.vmc.results import finite_or_none

Json = Mapping[str, Any]

FEWEST_FOR_A_LINE = 2
"""Points at different places."""


def convergence(
    result: Json,
    history: Sequence[Json],
    chi: Sequence[Json] = (),
    double_layer: Json | None = None,
) -> dict[str, Any]:
    """Put together result.json["convergence"], for strict JSON.

    "variance" extrapolates the energy to zero variance, E = E0 + a Var, through the ends of the
    stages (two at least), else through the tail of the optimisation where it is a line
    (`steps.zero_variance`).  It is an estimate and no bound; its error is that without the point
    farthest from the end, and what that point moves. "bond_dimension" goes linearly to 1/D = 0
    through the last stage of each D. Energies at several `chi` come smallest first; `double_layer`
    is as of `DoubleLayerScan.as_dict`.
    """
    off = off_in_time(history[-1].get("optimizer", {})) if history else ()
    if _in_real_time(result["config"]):
        history = ()  # whose energies need not fall
    found: dict[str, Any] = finite_or_none(
        {
            "chi": list(chi),
            "double_layer": double_layer,
            "variance": _variance(result, history),
            "bond_dimension": _bond_dimension(result),
        }
    )
    diagnostics = [*diagnose(result, history, found), *off]
    return finite_or_none({**found, "diagnostics": [each.as_dict() for each in diagnostics]})


def _in_real_time(config: Json) -> bool:
    optimizer = config.get("optimizer", {})
    return optimizer.get("kind") == "time" and not optimizer["imaginary"]


def _variance(result: Json, history: Sequence[Json]) -> dict[str, Any] | None:
    """Extrapolate to zero variance."""
    points = []
    for stage in _known_stages(result):
        if stage.get("variance") is not None:
            label = f"stage {stage['stage']}" + (f", D = {stage['D']}" if stage["D"] else "")
            points.append({"label": label, **_point(stage, "variance")})
    if len({point["variance"] for point in points}) < FEWEST_FOR_A_LINE:
        if zero_variance(history) is None:
            return None
        points = points_of_steps(history)
    return _extrapolated(points, [point["variance"] for point in points])


def _bond_dimension(result: Json) -> dict[str, Any] | None:
    """Extrapolate to 1/D = 0 through the last stage of each D."""
    last = {stage["D"]: _point(stage, "D") for stage in _known_stages(result) if stage["D"]}
    points = [last[D] for D in sorted(last)]
    return _extrapolated(points, [1 / point["D"] for point in points])


def _known_stages(result: Json) -> Iterator[Json]:
    """Stages with an energy and its error."""
    for stage in result.get("stages") or ():
        if None not in (stage.get("energy"), stage.get("energy_error")):
            yield stage


def _point(stage: Json, against: str) -> dict[str, Any]:
    return {key: stage[key] for key in (against, "energy", "energy_error")}


def _extrapolated(points: list[dict[str, Any]], x: list[float]) -> dict[str, Any] | None:
    """Fit a line; its error is that without the point farthest from the end, and what that moves.

    Energies are a line near the ground state only, and a state of small D may lie far outside.
    """
    if len(set(x)) < FEWEST_FOR_A_LINE:
        return None
    line, error = _line(points, x), None
    farthest = max(range(len(x)), key=lambda place: x[place])
    near = [place for place in range(len(x)) if place != farthest]
    if len({x[place] for place in near}) >= FEWEST_FOR_A_LINE:
        without = _end([points[place] for place in near], [x[place] for place in near])
        error = math.hypot(max(line.intercept_error, without[1]), without[0] - line.intercept)
    return {
        "points": points, "energy": line.intercept, "energy_error": error, "slope": line.slope,
        "chi2_per_dof": line.chi2_per_dof,
    }  # fmt: skip


def _end(points: Sequence[Json], x: Sequence[float]) -> tuple[float, float]:
    """Energy at zero and its error; that of two points is what their own errors make of it."""
    line = _line(points, x)
    if len(points) > FEWEST_FOR_A_LINE:
        return line.intercept, line.intercept_error
    errors = [point["energy_error"] or 0.0 for point in points]
    return line.intercept, math.hypot(errors[0] * x[1], errors[1] * x[0]) / abs(x[1] - x[0])


def _line(points: Sequence[Json], x: Sequence[float]) -> Line:
    return fit_line(x, [p["energy"] for p in points], [p["energy_error"] for p in points])
