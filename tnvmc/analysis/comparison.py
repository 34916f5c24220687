"""The table of a comparison: what each run has reached, and which runs are not to be compared.

Everything is read from the folders of the runs, as any other reader would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tnvmc._version import __version__
from tnvmc.operators.fingerprint import fingerprint
from tnvmc.report.numbers import scientific, with_error
from tnvmc.settings.build import build_operator
from tnvmc.settings.comparison import Comparison, samples_per_step
from tnvmc.settings.config import Settings
from tnvmc.settings.load import validate
from tnvmc.storage import run_files as reading
from tnvmc.storage.run_files import Run, read_run
from tnvmc.storage.run_folder import FolderError

Json = Mapping[str, Any]

INDEPENDENT = 0.5
"""Autocorrelation time of independent draws, and so the smallest there is."""


@dataclass(frozen=True)
class Row:
    """One line of the table; energies are totals, None stands where a number does not exist."""

    name: str
    kind: str
    sampler: str
    parameters: int
    steps: int
    undone: int  #: of the steps
    first_energy: float | None  #: before the first step
    energy: float
    energy_error: float
    energy_per_site: float
    energy_per_site_error: float
    relative_error: float | None  #: negative below the reference
    relative_error_error: float | None
    variance: float
    v_score: float
    seconds_per_step: float | None  #: median
    compile_seconds: float | None  #: of the first step beyond the median
    seconds_per_effective_sample: float | None  #: median, of the optimisation
    seconds: float  #: of the optimisation
    samples: int  #: of the optimisation
    note: str | None


@dataclass(frozen=True)
class Table:
    """Rows by rising energy, and what is left out of them: (name, reason)."""

    rows: tuple[Row, ...]
    left_out: tuple[tuple[str, str], ...]
    about: Json  #: what all rows share: Hamiltonian, budget, measurement, reference

    def as_dict(self) -> dict[str, Any]:
        """Give the content of comparison.json."""
        return {
            **self.about,
            "rows": [asdict(row) for row in self.rows],
            "left_out": [{"name": name, "reason": reason} for name, reason in self.left_out],
        }


def tabulate(comparison: Comparison, reference: Json, failed: Mapping[str, str]) -> Table:
    """Read the runs of a comparison; `failed` says of those that gave up why.

    `reference` holds energy, source and method of what the energies are compared with.
    """
    rows, left_out = [], []
    for name in comparison.runs:
        if name in failed:
            left_out.append((name, f"failed: {failed[name]}"))
            continue
        try:
            run = read_run(comparison.out / name)
        except FolderError as error:
            left_out.append((name, str(error)))
            continue
        reason = difference(run, comparison)
        if reason is None:
            rows.append(_row(name, run, validate(run.config)))
        else:
            left_out.append((name, reason))
    rows.sort(key=lambda row: row.energy)
    return Table(tuple(rows), tuple(left_out), _about(comparison, reference))


def difference(run: Run, comparison: Comparison) -> str | None:
    """Say why a run cannot stand beside the others; None where it can."""
    result = run.result
    if result is None or not reading.is_finished(run):
        return "not measured after its last step; go on with tnvmc compare --resume"
    measured_numbers = ("energy", "energy_error", "variance", "v_score")
    if not all(_is_number(result.get(key)) for key in measured_numbers):
        return "its energy, error or variance is not finite"
    try:
        measured = validate(result.get("config", {}))
        operator = build_operator(measured)
    except ValueError as error:
        return f"the settings it was measured with cannot be read ({error})"
    if fingerprint(operator) != fingerprint(comparison.operator):
        return "measured with another Hamiltonian"
    sector = measured.sampler.magnetisation
    if operator.conserves_magnetisation and sector != comparison.magnetisation:
        return f"in the sector 2 Sz = {sector}, the others are in {comparison.magnetisation}"
    if result["n_samples"] != comparison.n_samples:
        how = "enumerated: " if measured.sampler.kind == "enumerate" else "measured with "
        return f"{how}{result['n_samples']} samples, the others with {comparison.n_samples}"
    if measured.measure.symmetrise != comparison.symmetrise:
        ours, theirs = map(_listed, (measured.measure.symmetrise, comparison.symmetrise))
        return f"measured with symmetries {ours}, the others with {theirs}"
    if result.get("version") != __version__:
        return f"measured by tnvmc {result.get('version')}, the others by {__version__}"
    return None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _row(name: str, run: Run, settings: Settings) -> Row:
    result = run.result
    assert result is not None
    seconds = reading.as_array([line.get("seconds") for line in run.history])
    first = run.history[0] if run.history and run.history[0]["step"] == 0 else {}
    typical, begun = _median(seconds), first.get("seconds")
    return Row(
        name=name,
        kind=settings.ansatz.kind,
        sampler=str(settings.sampler.kind),
        parameters=result["n_parameters"],
        steps=result["steps"],
        undone=sum(bool(line.get("undone")) for line in run.history),
        first_energy=first.get("energy"),
        **{
            key: result[key]
            for key in ("energy", "energy_error", "energy_per_site", "energy_per_site_error")
        },
        relative_error=result["signed_error"],
        relative_error_error=result["relative_error_error"],
        variance=result["variance"],
        v_score=result["v_score"],
        seconds_per_step=typical,
        compile_seconds=None if begun is None or typical is None else begun - typical,
        seconds_per_effective_sample=seconds_per_effective_sample(run, settings),
        seconds=float(np.nansum(seconds)),
        samples=len(run.history) * samples_per_step(settings.sampler),
        note=_note(result),
    )


def _note(result: Json) -> str | None:
    told = [result["note"]] if result.get("note") else []
    if result.get("stopped") == "plateau":
        told.append(f"stopped on its plateau after {result['steps']} steps")
    told += (result.get("convergence") or {}).get("warnings", [])
    return "; ".join(told) or None


def seconds_per_effective_sample(run: Run, settings: Settings) -> float | None:
    """Median over the steps of what a sample costs that is worth an independent one.

    A step of M samples has M / (2 tau) of them.  tau is the larger of the step's own, which cannot
    exceed half its draws per walker, and that of the final measurement, which has more of them; at
    least 1/2.  The bias of chains that have not come to equilibrium is not in it.  Samples with
    weights are worth less by their share of effective ones: that of the step, and for direct draws
    that of the final measurement.  None under enumeration, or where no tau is known.
    """
    n = samples_per_step(settings.sampler)
    if not n or run.result is None:
        return None
    seconds = reading.as_array([line.get("seconds") for line in run.history])
    if settings.sampler.kind == "direct":
        effective, measured = run.result.get("effective_samples"), run.result["n_samples"]
        return _median(seconds / (n * (effective or measured) / measured))
    own = reading.as_array([line.get("tau") for line in run.history])
    tau = np.fmax(np.maximum(own, INDEPENDENT), _measured_tau(run.result, settings))
    effective = reading.as_array([line.get("effective_samples") for line in run.history])
    return _median(seconds * 2 * tau / np.where(np.isnan(effective), n, effective))


def _measured_tau(result: Json, settings: Settings) -> float:
    """Autocorrelation time of the final measurement in draws of a step; NaN where it has none.

    Correlations are taken to fall as rho^t, so that tau = (1 + rho) / (2 (1 - rho)).
    """
    tau = result.get("tau")
    if tau is None:
        return math.nan
    rho = max(0.0, (tau - INDEPENDENT) / (tau + INDEPENDENT))
    rho **= settings.sampler.n_thin / (settings.measure.n_thin or settings.sampler.n_thin)
    return (1 + rho) / (2 * (1 - rho))


def _median(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else None


def _about(comparison: Comparison, reference: Json) -> dict[str, Any]:
    operator = comparison.operator
    settings = next(iter(comparison.runs.values()))
    described = Run(comparison.out, settings.as_dict())
    return {
        "hamiltonian": reading.model_text(described),
        "lattice": reading.lattice_text(described),
        "fingerprint": fingerprint(operator),
        "n_sites": operator.n_sites,
        "units": operator.units,
        "budget": comparison.budget.model_dump(exclude_none=True),
        "measured_samples": comparison.n_samples,
        "symmetrise": list(comparison.symmetrise),
        "reference": dict(reference),
        "version": __version__,
    }


_HEAD = (
    "ansatz", "energy per site", "", "var / N", "V-score", "parameters", "steps",
    "s / step", "s / eff. sample", "sampler",
)  # fmt: skip


def _head(table: Table) -> tuple[str, ...]:
    method = table.about["reference"]["method"]
    third = "relative error" if method in (None, "exact") else f"distance to {method}"
    return tuple(title or third for title in _HEAD)


def headline(table: Table) -> str:
    """Say in a line what was compared, and how it was measured."""
    about = table.about
    ((unit, amount),) = about["budget"].items()
    known = about["reference"]["energy"]
    reference = "no reference energy is known"
    if known is not None:
        method, source = about["reference"]["method"], about["reference"]["source"]
        reference = f"{method} energy per site {known / about['n_sites']:.10f} ({source})"
    symmetries = f", symmetries {_listed(about['symmetrise'])}" if about["symmetrise"] else ""
    return (
        f"{about['hamiltonian']}; {about['lattice']}; {amount:g} {unit} for each ansatz; measured "
        f"with {about['measured_samples']} samples{symmetries}; {reference}"
    )


def text(table: Table) -> str:
    """Write the table in columns, with what is left out and what is to be noted below it."""
    cells = [_head(table), *(_cells(row, table.about["n_sites"]) for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = (0, len(_HEAD) - 1)
    lines = [
        "  ".join(
            f"{cell:<{width}}" if place in left else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join([*lines, *_below(table)])


def markdown(table: Table) -> str:
    """Write the content of comparison.md."""
    rows = [_cells(row, table.about["n_sites"]) for row in table.rows]
    lines = [_head(table), (":--", *["--:"] * (len(_HEAD) - 2), ":--"), *rows]
    grid = ["| " + " | ".join(line) + " |" for line in lines]
    below = [f"- {line}" for line in _below(table)]
    return "\n".join([headline(table), "", *grid, "", *below]).rstrip() + "\n"


def _below(table: Table) -> list[str]:
    told = [f"not in the table: {name}: {reason}" for name, reason in table.left_out]
    return told + [f"{row.name}: {row.note}" for row in table.rows if row.note]


def _cells(row: Row, n_sites: int) -> tuple[str, ...]:
    return (
        row.name,
        with_error(row.energy_per_site, row.energy_per_site_error),
        scientific(row.relative_error, row.relative_error_error),
        f"{row.variance / n_sites:.2e}",
        f"{row.v_score:.2e}",
        str(row.parameters),
        str(row.steps),
        _short(row.seconds_per_step),
        _short(row.seconds_per_effective_sample),
        row.sampler,
    )


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}" if value < 100 else f"{value:.0f}"
