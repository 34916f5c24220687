"""Comparisons: several ``[[ansatz]]`` of one Hamiltonian, each with the budget of ``[compare]``."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tnvmc._version import __version__
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.limits import Json
from tnvmc.operators.properties import fingerprint
from tnvmc.series import expansion
from tnvmc.series import kind as base
from tnvmc.settings.config import Budget, Settings, build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.help import heading
from tnvmc.settings.load import validate
from tnvmc.settings.problems import ConfigError, conflict
from tnvmc.shown import fixed, scientific, with_error
from tnvmc.storage.run_files import Run, as_array, is_finished
from tnvmc.trust.reference import Reference, find_reference


@dataclass(frozen=True)
class Compared:
    """What all states of a comparison share."""

    budget: Budget
    n_samples: int  #: every state is measured with so many
    symmetrise: tuple[str, ...]
    magnetisation: int | None  #: twice the total Sz; None where it is not conserved


@dataclass(frozen=True, kw_only=True)
class ComparedRun(base.Row):
    """What one state has reached, and what that cost."""

    sampler: str
    parameters: int
    energy_per_site: float
    energy_per_site_error: float
    relative_error: float | None  #: negative below the reference
    relative_error_error: float | None
    seconds_per_step: float | None  #: median
    seconds_per_effective_sample: float | None  #: median, of the optimisation
    seconds: float  #: of the optimisation


class ComparisonKind(base.SeriesKind):
    """Several states of one Hamiltonian, by rising energy."""

    name, title, command, run = "comparison", "a comparison", "compare", "ansatz"
    own_keys = {"ansatz.": "", "contraction.": ""}  # noqa: RUF012
    is_done = staticmethod(is_finished)

    def requested(self, data: Json) -> bool:
        return isinstance(data.get("ansatz"), list)

    def expand(self, data: Json, default_name: str) -> base.Series:
        for section in ("stage", "sector", "scan", "average"):
            if section in data:
                why = "does not go with a comparison, whose states share all but [[ansatz]]"
                raise ConfigError(conflict(heading(section), why))
        blocks, budget = (
            expansion.ansatz_blocks(data.get("ansatz")),
            expansion.budget_of(data.get("compare")),
        )
        shared = {key: part for key, part in data.items() if key not in ("ansatz", "compare")}
        common = validate({**shared, "ansatz": {"kind": "peps", "D": 1}})
        if (common.run.starts or 1) > 1:
            why = "does not go with a comparison, which has one run of each state"
            raise ConfigError(conflict("run.starts", why, common.run.starts))
        expansion.check_threads(common.run.threads, budget, blocks)
        out, operator = expansion.out_of(common, default_name), build_operator(common)
        common = complete(common)
        spins = operator.conserves_magnetisation and operator.fermions is None
        sector = (common.sampler.magnetisation or 0) if spins else None
        n_samples = expansion.measured_samples(common, operator)
        compared = Compared(budget, n_samples, tuple(common.measure.symmetrise), sector)
        measured = {"n_samples": n_samples, "n_thin": common.measure.n_thin}

        def make(name: str) -> Settings:
            sections = expansion.sections_of(shared, blocks[name], measured)
            sections.setdefault("run", {})["out"] = str(out / name)
            run = complete(expansion.within(validate(sections), budget))
            expansion.check_alike(run, operator, n_samples, sector)
            return run

        return base.Series(
            self, data, out, expansion.completed(self, blocks, make), operator, compared
        )

    def refuse_changes(self, series: base.Series, before: Json) -> None:
        """Refuse limits that runs may have passed: they would stand among the others unmarked."""
        begun, budget = expansion.budget_of(before.get("compare")), series.details.budget
        ((unit, now),) = budget.model_dump(exclude_none=True).items()
        used = getattr(begun, unit)
        if used is None or now < used:
            raise ConfigError(
                f"compare.{unit} = {now:g}: the comparison in {series.out} was begun with {begun} "
                "for each ansatz, which can be raised only; choose another --out"
            )
        super().refuse_changes(series, before)

    def references(self, series: base.Series, before: Json) -> Mapping[str, Reference]:
        """Find one energy for all, as the last table has it; none for excited states."""
        if (held := before.get("reference")) is not None:
            found = Reference(**held)
        elif any(settings.orthogonal for settings in series.runs.values()):
            found = Reference()
        else:
            found = find_reference(series.operator, series.details.magnetisation)
        return dict.fromkeys(series.runs, found)

    def reason_against(self, series: base.Series, run: Run) -> Diagnostic | None:
        """Give why a state cannot be compared with the others."""
        if (reason := super().reason_against(series, run)) is not None:
            return reason
        result = run.result or {}
        try:
            measured = validate(result.get("config", {}))
            operator = build_operator(measured)
        except ValueError as error:
            return Diagnostic("settings_unreadable", "error", {"reason": str(error)})
        shared, conserved = series.details, operator.conserves_magnetisation
        conserved = conserved and operator.fermions is None
        own, wanted = measured.sampler.magnetisation, shared.magnetisation or 0
        alike = {
            "hamiltonian": (fingerprint(operator), fingerprint(series.operator)),
            "magnetisation": (own if conserved else None, wanted if conserved else None),
            "particles": (operator.magnetisation, series.operator.magnetisation),
            "n_samples": (result["n_samples"], shared.n_samples),
            "symmetrise": (list(measured.measure.symmetrise), list(shared.symmetrise)),
            "version": (result.get("version"), __version__),
        }
        for key, (this, others) in alike.items():
            if this != others:
                values = {"key": key, "this": this, "others": others}
                return Diagnostic("measured_differently", "error", values)
        return None

    def row(self, series: base.Series, run: Run, reference: Reference) -> ComparedRun:
        settings, result = validate(run.config), run.result
        assert result is not None
        seconds = as_array([line.get("seconds") for line in run.history])
        values = base.row_values(run, ComparedRun)
        if result.get("stopped") == "plateau":
            ended = Diagnostic("stopped_on_plateau", "good", {"steps": result["steps"]})
            values["diagnostics"] = (ended, *values["diagnostics"])
        return ComparedRun(**values | {
            "sampler": str(settings.sampler.kind),
            "parameters": result["n_parameters"],
            "relative_error": result["signed_error"],
            "seconds_per_step": expansion.median(seconds),
            "seconds_per_effective_sample": expansion.seconds_per_effective_sample(run, settings),
            "seconds": float(np.nansum(seconds)),
        })  # fmt: skip

    def table(self, series: base.Series, rows: Any, left_out: Any, known: Any) -> base.SeriesTable:
        shared = series.details
        content = base.about(series) | {
            "magnetisation": shared.magnetisation,
            "budget": shared.budget.model_dump(exclude_none=True),
            "measured_samples": shared.n_samples,
            "symmetrise": list(shared.symmetrise),
            "reference": asdict(next(iter(known.values()))),
        }
        by_energy = tuple(sorted(rows, key=lambda row: row.energy))
        return base.SeriesTable(self, by_energy, left_out, content)

    def columns(self, table: base.SeriesTable) -> tuple[base.Column, ...]:
        method = table.about["reference"]["method"]
        distance = "relative error" if method in (None, "exact") else f"distance to {method}"
        return (
            base.Column("ansatz", lambda row: row.name),
            base.Column("energy per site", lambda row: with_error(*row.per_site)),
            base.Column(distance, lambda r: scientific(r.relative_error, r.relative_error_error)),
            base.Column("var / N", lambda row: f"{row.variance / row.n_sites:.2e}"),
            base.Column("V-score", lambda row: f"{row.v_score:.2e}"),
            base.Column("parameters", lambda row: str(row.parameters)),
            base.Column("steps", lambda row: str(row.steps)),
            base.Column("s / step", lambda row: _short(row.seconds_per_step)),
            base.Column("s / eff. sample", lambda row: _short(row.seconds_per_effective_sample)),
            base.Column("sampler", lambda row: row.sampler),
        )

    def headline(self, table: base.SeriesTable) -> str:
        about, known = table.about, Reference(**table.about["reference"])
        ((unit, amount),) = about["budget"].items()
        reference = "no reference energy is known"
        if known.energy is not None:
            n = about["n_sites"]
            error, per_site = (known.error or 0.0) / n, known.energy / n
            digits = with_error(per_site, error) if error else fixed(per_site, 10)
            reference = f"{known.method} energy per site {digits} ({known.source})"
        sector = about["magnetisation"]
        return (
            ("" if sector is None else f"2 Sz = {sector}; ")
            + f"{amount:g} {unit} for each ansatz; "
            + f"measured with {about['measured_samples']} samples"
            + (f", symmetries {', '.join(about['symmetrise'])}" if about["symmetrise"] else "")
            + f"; {reference}"
        )

    def picture(self, series: base.Series, table: base.SeriesTable) -> base.Histories:
        names = {row.name for row in table.rows}
        return base.Histories(
            [series.out / name for name in series.runs if name in names], final=True
        )


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}" if value < 100 else f"{value:.0f}"
