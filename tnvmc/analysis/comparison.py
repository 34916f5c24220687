"""A comparison as data: what each run has reached, and which runs are not to be compared.

Everything is read from the folders of the runs, as any other reader would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tnvmc._version import __version__
from tnvmc.analysis.diagnostics import diagnostics_of
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.operators.fingerprint import fingerprint
from tnvmc.settings.build import build_operator
from tnvmc.settings.comparison import Comparison, samples_per_step
from tnvmc.settings.config import Settings
from tnvmc.settings.load import validate
from tnvmc.storage.run_files import Run, as_array, is_finished, read_run
from tnvmc.storage.run_folder import FolderError

Json = Mapping[str, Any]

INDEPENDENT = 0.5
"""Autocorrelation time of independent draws, and so the smallest there is."""


@dataclass(frozen=True)
class ComparedRun:
    """What one run has reached; energies are totals, None stands where a number does not exist."""

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
    diagnostics: tuple[Diagnostic, ...]  #: what makes it less trustworthy, or ended it early


@dataclass(frozen=True)
class ComparisonTable:
    """Runs by rising energy, and those that are left out, with the reason."""

    rows: tuple[ComparedRun, ...]
    left_out: tuple[tuple[str, Diagnostic], ...]
    about: Json  #: what all rows share: Hamiltonian, budget, measurement, reference

    def as_dict(self) -> dict[str, Any]:
        """Give the content of comparison.json."""
        return {
            **self.about,
            "rows": [asdict(row) for row in self.rows],
            "left_out": [{"name": name, **reason.as_dict()} for name, reason in self.left_out],
        }


def tabulate(comparison: Comparison, reference: Json, failed: Mapping[str, str]) -> ComparisonTable:
    """Read the runs of a comparison.

    Args:
        comparison: its runs are read from their folders.
        reference: energy, source and method of what the energies are compared with.
        failed: why runs gave up, by their names.
    """
    found = {name: _row_or_reason(name, comparison, failed) for name in comparison.runs}
    rows = [each for each in found.values() if isinstance(each, ComparedRun)]
    return ComparisonTable(
        tuple(sorted(rows, key=lambda row: row.energy)),
        tuple((name, each) for name, each in found.items() if isinstance(each, Diagnostic)),
        _about(comparison, reference),
    )


def _row_or_reason(
    name: str, comparison: Comparison, failed: Mapping[str, str]
) -> ComparedRun | Diagnostic:
    if name in failed:
        return Diagnostic("run_failed", "error", {"reason": failed[name]})
    try:
        run = read_run(comparison.out / name)
    except FolderError as error:
        return Diagnostic("run_unreadable", "error", {"reason": str(error)})
    return reason_against(run, comparison) or _row(name, run, validate(run.config))


def reason_against(run: Run, comparison: Comparison) -> Diagnostic | None:
    """Give why a run cannot stand beside the others; None where it can."""
    result = run.result
    if result is None or not is_finished(run):
        return Diagnostic("run_unfinished", "error")
    measured_numbers = ("energy", "energy_error", "variance", "v_score")
    if not all(is_number(result.get(key)) for key in measured_numbers):
        return Diagnostic("numbers_not_finite", "error")
    try:
        measured = validate(result.get("config", {}))
        operator = build_operator(measured)
    except ValueError as error:
        return Diagnostic("settings_unreadable", "error", {"reason": str(error)})
    sector = measured.sampler.magnetisation if operator.conserves_magnetisation else None
    alike = {
        "hamiltonian": (fingerprint(operator), fingerprint(comparison.operator)),
        "magnetisation": (sector, comparison.magnetisation if sector is not None else None),
        "n_samples": (result["n_samples"], comparison.n_samples),
        "symmetrise": (list(measured.measure.symmetrise), list(comparison.symmetrise)),
        "version": (result.get("version"), __version__),
    }
    for key, (this, others) in alike.items():
        if this != others:
            values = {"key": key, "this": this, "others": others}
            return Diagnostic("measured_differently", "error", values)
    return None


def is_number(value: Any) -> bool:
    """Tell whether a value of a file is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def _row(name: str, run: Run, settings: Settings) -> ComparedRun:
    result = run.result
    assert result is not None
    seconds = as_array([line.get("seconds") for line in run.history])
    first = run.history[0] if run.history and run.history[0]["step"] == 0 else {}
    typical, begun = _median(seconds), first.get("seconds")
    return ComparedRun(
        name=name,
        kind=settings.ansatz.kind,
        sampler=str(settings.sampler.kind),
        parameters=result["n_parameters"],
        undone=sum(bool(line.get("undone")) for line in run.history),
        first_energy=first.get("energy"),
        relative_error=result["signed_error"],
        seconds_per_step=typical,
        compile_seconds=None if begun is None or typical is None else begun - typical,
        seconds_per_effective_sample=seconds_per_effective_sample(run, settings),
        seconds=float(np.nansum(seconds)),
        samples=len(run.history) * samples_per_step(settings.sampler),
        diagnostics=_diagnostics(result),
        **{key: result[key] for key in _AS_MEASURED},
    )


_AS_MEASURED = (
    "steps", "energy", "energy_error", "energy_per_site", "energy_per_site_error",
    "relative_error_error", "variance", "v_score",
)  # fmt: skip
"""What a row takes from result.json as it is."""


def _diagnostics(result: Json) -> tuple[Diagnostic, ...]:
    found = [each for each in diagnostics_of(result) if each.status in ("warning", "error")]
    if result.get("stopped") == "plateau":
        found.insert(0, Diagnostic("stopped_on_plateau", "good", {"steps": result["steps"]}))
    return tuple(found)


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
    seconds = as_array([line.get("seconds") for line in run.history])
    if settings.sampler.kind == "direct":
        effective, measured = run.result.get("effective_samples"), run.result["n_samples"]
        return _median(seconds / (n * (effective or measured) / measured))
    own = as_array([line.get("tau") for line in run.history])
    tau = np.fmax(np.maximum(own, INDEPENDENT), _measured_tau(run.result, settings))
    effective = as_array([line.get("effective_samples") for line in run.history])
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
    settings = next(iter(comparison.runs.values())).as_dict()
    return {
        "hamiltonian": settings["hamiltonian"],
        "lattice": settings["lattice"],
        "fingerprint": fingerprint(operator),
        "n_sites": operator.n_sites,
        "units": operator.units,
        "magnetisation": comparison.magnetisation if operator.conserves_magnetisation else None,
        "budget": comparison.budget.model_dump(exclude_none=True),
        "measured_samples": comparison.n_samples,
        "symmetrise": list(comparison.symmetrise),
        "reference": dict(reference),
        "version": __version__,
    }
