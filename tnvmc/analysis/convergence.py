"""result.json["convergence"]: extrapolations of the energy, and what they and the rest tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tnvmc.analysis.diagnostics import diagnose
from tnvmc.analysis.steps import points_of_steps
from tnvmc.estimate.line_fit import fit_line
from tnvmc.vmc.state import finite_or_none

Json = Mapping[str, Any]


def convergence(
    result: Json,
    history: Sequence[Json],
    chi: Sequence[Json] = (),
    double_layer: Json | None = None,
) -> dict[str, Any]:
    """Put together result.json["convergence"], for strict JSON.

    "variance" extrapolates the energy to zero variance, E = E0 + a Var, through the ends of the
    stages (those with a chi and D of their own, two at least), else through the tail of the
    optimisation (`converging_tail`).  It is an estimate and no bound.  "bond_dimension" goes
    linearly to 1/D = 0 through the last stage of each D.

    Args:
        result: the rest of result.json.
        history: the lines of history.jsonl.
        chi: energies at several chi, smallest first, as they stand in a result.json.
        double_layer: energies of the double layer, as `DoubleLayerScan.as_dict` gives them.
    """
    found: dict[str, Any] = finite_or_none(
        {
            "chi": list(chi),
            "double_layer": double_layer,
            "variance": _variance(result, history),
            "bond_dimension": _bond_dimension(result),
        }
    )
    diagnostics = [each.as_dict() for each in diagnose(result, history, found)]
    return finite_or_none({**found, "diagnostics": diagnostics})


def _variance(result: Json, history: Sequence[Json]) -> dict[str, Any] | None:
    """Extrapolate to zero variance."""
    points = [
        {"label": _label(stage), **_energies(stage)}
        for stage in _optimised(result)
        if stage.get("variance") is not None
    ]
    if len({point["variance"] for point in points}) < 2:
        points = points_of_steps(history)
    return _extrapolated(points, [point["variance"] for point in points])


def _label(stage: Json) -> str:
    return f"stage {stage['stage']}" + (f", D = {stage['D']}" if stage["D"] else "")


def _bond_dimension(result: Json) -> dict[str, Any] | None:
    """Extrapolate to 1/D = 0 through the last stage of each D."""
    last = {stage["D"]: stage for stage in _optimised(result) if stage["D"]}
    points = [
        {"D": D, "energy": last[D]["energy"], "energy_error": last[D]["energy_error"]}
        for D in sorted(last)
    ]
    return _extrapolated(points, [1 / point["D"] for point in points])


def _extrapolated(points: list[dict[str, Any]], x: list[float]) -> dict[str, Any] | None:
    if len(set(x)) < 2:
        return None
    line = fit_line(x, [p["energy"] for p in points], [p["energy_error"] for p in points])
    return {
        "points": points,
        "energy": line.intercept,
        "energy_error": line.intercept_error,
        "slope": line.slope,
        "chi2_per_dof": line.chi2_per_dof,
    }


def _optimised(result: Json) -> list[Json]:
    """Stages whose end is a minimum, not those of simple update, with an energy and its error."""
    return [
        stage
        for stage in result.get("stages") or ()
        if stage["kind"] == "optimise"
        and stage.get("energy") is not None
        and stage.get("energy_error") is not None
    ]


def _energies(values: Json) -> dict[str, Any]:
    return {key: values[key] for key in ("variance", "energy", "energy_error")}
