"""Tables of a report: energies, stages, convergence, observables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tnvmc.report.description import duration, stages
from tnvmc.report.figures.course import reference
from tnvmc.report.figures.momentum import maximum, place, preferred
from tnvmc.report.numbers import short, ten_digits, with_error
from tnvmc.report.page_parts import folded, paragraph, table
from tnvmc.storage.run_files import Json, Run, as_array, outdated


def energy_per_site(run: Run) -> tuple[float, float, str] | None:
    """Energy per site, its error and where it comes from: the measurement, else the last step."""
    if run.result is not None and run.result["energy_per_site"] is not None:
        error = float(run.result["energy_per_site_error"] or 0.0)
        return float(run.result["energy_per_site"]), error, "measured at the end"
    lines = [line for line in run.history if line.get("energy") is not None]
    if not lines or run.n_sites is None:
        return None
    last = lines[-1]
    error = float(last.get("energy_error") or 0.0)
    return last["energy"] / run.n_sites, error / run.n_sites, f"at step {last['step'] + 1}"


def comparison(run: Run) -> str:
    """Energies per site: this run, its extrapolations, the known one."""
    found, (exact, method) = energy_per_site(run), reference(run)
    if found is None:
        return ""
    result: Json = run.result or {}
    convergence = result.get("convergence") or {}
    rows: list[list[str | None]] = [["this run", found[2], *_beside(found[0], found[1], exact)]]
    for key, label in (("variance", "zero variance"), ("bond_dimension", "infinite D")):
        fit = convergence.get(key)
        if fit and fit.get("energy") is not None:
            n = result["n_sites"]
            error = None if fit.get("energy_error") is None else fit["energy_error"] / n
            beside = _beside(fit["energy"] / n, error, exact)
            rows.append(["this run", f"extrapolated to {label}", *beside])
    if exact:
        source = result.get("exact_source") or "published"
        rows.append([method, str(source), minus(ten_digits(exact)), "–", "–"])
    total = ""
    if result.get("energy") is not None:
        energy = minus(with_error(result["energy"], result["energy_error"] or 0.0))
        total = paragraph(f"Total energy {energy} in {run.units} units.", "soft")
    head = ("energy", "from", f"per site ({run.units} units)", "relative difference", "error bars")
    return table(head, rows, words=2, own=0) + total


def _beside(energy: float, error: float | None, exact: float | None) -> list[str | None]:
    shown = number(energy, error)
    if not exact:
        return [shown, None, None]
    off = energy - exact
    relative = minus(with_power(off / abs(exact), (error or 0.0) / abs(exact)))
    return [shown, relative, minus(f"{off / error:+.1f}") if error else None]


def stage_table(run: Run) -> str:
    """What each stage did and where it ended."""
    n = run.n_sites
    rows: list[list[str | None]] = []
    for stage in stages(run):
        energy, variance = stage.get("energy"), stage.get("variance")
        error = stage.get("energy_error") or 0.0
        rows.append(
            [
                f"{stage.get('stage')}",
                str(stage.get("kind", "")).replace("_", " "),
                str(stage.get("stopped") or "–"),
                *(_integer(stage, key) for key in ("D", "chi", "n_samples", "steps")),
                minus(with_error(energy / n, error / n)) if n and energy is not None else None,
                minus(short(variance / n)) if n and variance is not None else None,
                duration(stage["seconds"]) if stage.get("seconds") is not None else None,
            ]
        )
    head = ("", "stage", "stopped by", "D", "χ", "samples", "steps", "energy per site",
            "variance per site", "time")  # fmt: skip
    return table(head, rows, words=3)


def _integer(source: Mapping[str, Any], key: str) -> str | None:
    return None if source.get(key) is None else str(source[key])


def ladder(run: Run) -> str:
    """Energies at several chi on the same configurations."""
    result: Json = run.result or {}
    rungs = (result.get("convergence") or {}).get("chi") or []
    rows: list[list[str | None]] = []
    for rung in rungs:
        n = result["n_sites"]
        off, error = rung.get("difference"), rung.get("difference_error") or 0.0
        moved = off is not None and error > 0
        spread = rung.get("closure_spread")
        rows.append(
            [
                str(rung["chi"]),
                minus(with_error(rung["energy"] / n, (rung.get("energy_error") or 0.0) / n)),
                minus(with_power(off / n, error / n)) if moved else None,
                minus(f"{off / error:+.1f}") if moved else None,
                None if spread is None else minus(short(spread)),
            ]
        )
    head = ("χ", "energy per site", "difference to largest χ", "in its error bars",
            "closure spread")  # fmt: skip
    title = "<h3>Energy against χ, on the same configurations</h3>"
    return title + table(head, rows) if rows else ""


def extrapolations(run: Run) -> str:
    """Points and ends of the lines to zero variance and infinite D."""
    result: Json = run.result or {}
    convergence = result.get("convergence") or {}
    rows: list[list[str | None]] = []
    for key, label in (("variance", "zero variance"), ("bond_dimension", "infinite D (1/D)")):
        fit = convergence.get(key)
        if not fit:
            continue
        n = result["n_sites"]
        for point in fit["points"]:
            at = f"D = {point['D']}" if key == "bond_dimension" else str(point.get("label", ""))
            x = "" if key == "bond_dimension" else minus(short(point["variance"] / n))
            energy = with_error(point["energy"] / n, (point["energy_error"] or 0.0) / n)
            rows.append([label, at, x or None, minus(energy)])
        if fit.get("energy") is not None:
            error = None if fit.get("energy_error") is None else fit["energy_error"] / n
            rows.append([label, "extrapolated", None, number(fit["energy"] / n, error)])
    head = ("towards", "point", "variance per site", "energy per site")
    return "<h3>Extrapolations</h3>" + table(head, rows, words=2) if rows else ""


def observables(run: Run) -> str:
    """What was measured beside the energy, one line each."""
    held = run.observables
    if held is None:
        return paragraph(f"None are measured; do so with: tnvmc measure {run.path}", "soft")
    rows: list[list[str | None]] = []
    squared = held.get("staggered_magnetisation_squared")
    if squared and squared.get("mean") is not None:
        shown = with_error(squared["mean"], squared.get("error") or 0.0)
        rows.append(["staggered magnetisation squared", "M² (S·S units)", shown])
    if found := preferred(held):
        top = maximum(found[1])
        if top is not None:
            where, mean, error = top
            shown = with_error(mean, error)
            rows.append([f"largest S(q) of {found[0]}", f"at q = {place(where)}", shown])
    rows += _bond_rows(held)
    for name, measured in (held.get("operators") or {}).items():
        if measured.get("mean") is not None:
            shown = with_error(measured["mean"], measured.get("error") or 0.0)
            rows.append([str(name), "operator", minus(shown)])
    drawn = {"chains": "Markov chains", "direct": "direct sampling", "enumerate": "enumeration"}
    source = drawn.get(str(held.get("drawn")), "samples")
    parts = [f"From {held.get('n_samples')} configurations"]
    if held.get("pair_samples"):
        parts.append(f", S·S of all pairs from {held['pair_samples']}")
    parts.append(f" ({source}")
    if held.get("effective_samples"):
        parts.append(f", {held['effective_samples']:.0f} effective")
    parts.append(")")
    if held.get("chi"):
        parts.append(f", χ = {held['chi']}")
    if held.get("symmetry"):
        parts.append(f", symmetrised over {', '.join(held['symmetry'])}")
    note = paragraph("".join(parts) + ".", "soft")
    if stale := outdated(run):
        note += paragraph(stale, "soft")
    return table(("observable", "", "value"), rows, words=2) + note


def _bond_rows(held: Json) -> list[list[str | None]]:
    """Mean, lowest and highest bond energy of every kind of bond."""
    kinds: dict[str, list[Json]] = {}
    for bond in held.get("bonds") or []:
        if bond["mean"] is not None:
            kinds.setdefault(str(bond.get("kind", "")), []).append(bond)
    rows: list[list[str | None]] = []
    for kind, bonds in kinds.items():
        means = as_array([bond["mean"] for bond in bonds])
        rows.append(
            [
                f"energy of {kind} bonds",
                f"mean of {len(bonds)} (lowest, highest)",
                minus(f"{means.mean():.5f} ({means.min():.5f}, {means.max():.5f})"),
            ]
        )
    return rows


def bond_list(run: Run) -> str:
    """All bond energies, folded away."""
    bonds = (run.observables or {}).get("bonds") or []
    rows = [
        [f"{bond['sites'][0]}–{bond['sites'][-1]}", str(bond.get("kind", "")),
         minus(with_error(bond["mean"], bond.get("error") or 0.0))]
        for bond in bonds
        if bond["mean"] is not None
    ]  # fmt: skip
    return folded(
        f"All {len(rows)} bond energies", table(("sites", "kind", "energy"), rows, words=2)
    )


def number(value: float, error: float | None) -> str:
    """Write a number with its error in brackets; six places where no error is known."""
    return minus(f"{value:.6f}" if error is None else with_error(value, error))


def minus(text: str) -> str:
    """Write minus signs as such, not as hyphens."""
    return text.replace("-", "−")


def with_power(value: float, error: float) -> str:
    """Write a small number with its error as +1.6(5)e-4."""
    power = int(np.floor(np.log10(max(abs(value), error)))) if value or error else 0
    scale = 10.0**power
    digits = with_error(value / scale, error / scale) if error else f"{value / scale:.2f}"
    return f"{'+' if value >= 0 else ''}{digits}" + (f"e{power}" if power else "")
