"""Whether an energy is converged in chi, steps, samples and D: the numbers, and where they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tnvmc.analysis.alarms import of_last_stage
from tnvmc.analysis.verdicts import verdicts, warnings
from tnvmc.estimate.line_fit import Line, converging_tail, fit_line
from tnvmc.vmc.state import finite_or_none


def convergence(
    result: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]],
    chi: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Put together result.json["convergence"]: numbers, verdicts and warnings, for strict JSON.

    Args:
        result: the rest of result.json.
        history: the lines of history.jsonl.
        chi: energies at several chi, see `tnvmc.vmc.chi_scan.ChiScan.as_dicts`.

    "variance" extrapolates the energy to zero variance, E = E0 + a Var, through the ends of the
    stages (those with a chi and D of their own, two at least), else through the tail of the
    optimisation (`converging_tail`).  It is an estimate and no bound.  "bond_dimension" goes
    linearly to 1/D = 0 through the last stage of each D.
    """
    found: dict[str, Any] = {
        "chi": list(chi),
        "variance": _variance(result, history),
        "bond_dimension": _bond_dimension(result),
    }
    found = finite_or_none(found)
    return {
        **found,
        "verdicts": verdicts(result, good_lines(history), found),
        "warnings": warnings(result, found, history),
    }


def _variance(
    result: Mapping[str, Any], history: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Extrapolate to zero variance."""
    points = [
        {"label": _label(stage), **_energies(stage)}
        for stage in _optimised(result)
        if _known(stage, "energy", "energy_error", "variance")
    ]
    if len({point["variance"] for point in points}) < 2:
        lines = good_lines(history)
        series = [[line[key] for line in lines] for key in ("energy", "energy_error", "variance")]
        points = [
            {"label": f"steps {lines[b.first]['step'] + 1} to {lines[b.last]['step'] + 1}",
             **_energies(asdict(b))}
            for b in converging_tail(*series)
        ]  # fmt: skip
    return _extrapolated(points, [point["variance"] for point in points])


def _label(stage: Mapping[str, Any]) -> str:
    return f"stage {stage['stage']}" + (f", D = {stage['D']}" if stage["D"] else "")


def _bond_dimension(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """Extrapolate to 1/D = 0 through the last stage of each D."""
    last = {
        stage["D"]: stage
        for stage in _optimised(result)
        if stage["D"] and _known(stage, "energy", "energy_error")
    }
    points = [
        {"D": D, "energy": last[D]["energy"], "energy_error": last[D]["energy_error"]}
        for D in sorted(last)
    ]
    return _extrapolated(points, [1 / point["D"] for point in points])


def _extrapolated(points: list[dict[str, Any]], x: list[float]) -> dict[str, Any] | None:
    if len(set(x)) < 2:
        return None
    line: Line = fit_line(x, [p["energy"] for p in points], [p["energy_error"] for p in points])
    return {
        "points": points,
        "energy": line.intercept,
        "energy_error": line.intercept_error,
        "slope": line.slope,
        "chi2_per_dof": line.chi2_per_dof,
    }


def _optimised(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Stages whose end is a minimum: not those of simple update."""
    return [stage for stage in result.get("stages") or () if stage["kind"] == "optimise"]


def good_lines(history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Steps of the last stage that were not undone and whose energy is finite."""
    return [
        line
        for line in of_last_stage(history)
        if not line["undone"] and _known(line, "energy", "energy_error", "variance")
    ]


def _known(values: Mapping[str, Any], *keys: str) -> bool:
    return all(values.get(key) is not None for key in keys)


def _energies(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in ("variance", "energy", "energy_error")}
