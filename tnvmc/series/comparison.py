"""Comparisons: several ``[[ansatz]]`` of one Hamiltonian, each with the budget of ``[compare]``."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tnvmc._version import __version__
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.mixing import error_of_mean
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

SECONDS = ("seconds_per_step", "seconds_per_effective_sample")


@dataclass(frozen=True)
class Compared:
    """What all states of a comparison share."""

    budget: Budget
    states: Mapping[str, Mapping[str, int]]  #: the runs of each state, with their seeds
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
    scatter_per_site: float | None = None  #: standard deviation of the energies of several seeds


@dataclass(frozen=True, repr=False)
class ComparisonTable(base.SeriesTable):
    """Runs by rising energy; `states` are their means over the seeds where there are several."""

    states: tuple[ComparedRun, ...] = ()

    @property
    def every_row(self) -> tuple[Any, ...]:
        """The states where they have several runs, else the runs."""
        return self.states or self.rows

    def as_dict(self) -> dict[str, Any]:
        """Give the content of comparison.json."""
        states = {"states": [row.as_dict() for row in self.states]} if self.states else {}
        return super().as_dict() | states


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
        blocks = expansion.ansatz_blocks(data.get("ansatz"))
        budget = expansion.budget_of(data.get("compare"))
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
        states = expansion.by_seed(blocks, common, budget.seeds or 1)
        compared = Compared(budget, states, n_samples, tuple(common.measure.symmetrise), sector)
        measured = {"n_samples": n_samples, "n_thin": common.measure.n_thin}
        of_run = {run: (blocks[name], each[run]) for name, each in states.items() for run in each}

        def make(name: str) -> Settings:
            block, seed = of_run[name]
            sections = expansion.sections_of(shared, block, measured)
            sections.setdefault("run", {}).update(out=str(out / name), seed=seed)
            run = complete(expansion.within(validate(sections), budget))
            expansion.check_alike(run, operator, n_samples, sector)
            return run

        return base.Series(
            self, data, out, expansion.completed(self, of_run, make), operator, compared
        )

    def refuse_changes(self, series: base.Series, before: Json) -> None:
        """Refuse limits that runs may have passed: they would stand among the others unmarked."""
        begun, budget = expansion.budget_of(before.get("compare")), series.details.budget
        ((unit, now),) = budget.limits.items()
        used, fewer = getattr(begun, unit), (budget.seeds or 1) < (begun.seeds or 1)
        if used is None or now < used or fewer:
            asked = f"seeds = {budget.seeds or 1}" if fewer else f"{unit} = {now:g}"
            raise ConfigError(
                f"compare.{asked}: the comparison in {series.out} was begun with {begun} for each "
                f"ansatz and seeds = {begun.seeds or 1}, which can be raised only; choose another "
                "--out"
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
        conserved = operator.conserves_magnetisation and operator.fermions is None
        shared, rules = series.details, (measured.optimizer, series.runs[run.path.name].optimizer)
        own, wanted = measured.sampler.magnetisation, shared.magnetisation or 0
        alike = {
            **{key: tuple(getattr(each, key) for each in rules) for key in ("steps", "seconds")},
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
            "budget": shared.budget.limits,
            "measured_samples": shared.n_samples,
            "symmetrise": list(shared.symmetrise),
            "reference": asdict(next(iter(known.values()))),
        }
        rows = sorted(rows, key=lambda row: row.energy)
        means: list[ComparedRun] = []
        if (shared.budget.seeds or 1) > 1:
            content["seeds"] = shared.budget.seeds
            of_state = {n: [r for r in rows if r.name in runs] for n, runs in shared.states.items()}
            means = [
                _mean(name, each, next(iter(known.values())))
                for name, each in of_state.items()
                if each
            ]
            means.sort(key=lambda row: row.energy)
        return ComparisonTable(self, tuple(rows), left_out, content, (), tuple(means))

    def columns(self, table: base.SeriesTable) -> tuple[base.Column, ...]:
        method = table.about["reference"]["method"]
        distance = "relative error" if method in (None, "exact") else f"distance to {method}"
        return (
            base.Column("ansatz", lambda row: row.name),
            base.Column("energy per site", lambda row: with_error(*row.per_site)),
            base.Column("scatter of seeds", lambda r: _short(r.scatter_per_site), optional=True),
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
            + (f"means over {about['seeds']} seeds; " if "seeds" in about else "")
            + f"measured with {about['measured_samples']} samples"
            + (f", symmetries {', '.join(about['symmetrise'])}" if about["symmetrise"] else "")
            + f"; {reference}"
        )

    def notes(self, table: base.SeriesTable) -> Iterator[tuple[str, str | Diagnostic]]:
        """Yield them with the seed where a state, a mean, has the name of its first run."""
        means = {row.name for row in getattr(table, "states", ())}
        yield from ((f"{n}, first seed" if n in means else n, x) for n, x in super().notes(table))

    def picture(self, series: base.Series, table: base.SeriesTable) -> base.Histories:
        """Draw each state; of several seeds the run whose energy is the median, or just above."""
        rows = {row.name: row for row in table.rows}  # by rising energy
        known = [[name for name in rows if name in runs] for runs in series.details.states.values()]
        names = [names[len(names) // 2] for names in known if names]
        return base.Histories([series.out / name for name in names], final=True)


def _mean(name: str, rows: Sequence[ComparedRun], known: Reference) -> ComparedRun:
    """Average the runs of a state; the error is the larger one of that by samples and by seeds.

    Steps, variances, V-scores and seconds are medians.
    """
    n, energies = rows[0].n_sites, np.array([row.energy for row in rows])
    energy, several = float(energies.mean()), len(rows) > 1
    scatter = float(energies.std(ddof=1)) / n if several else None
    by_seeds = float(error_of_mean(energies - energy)) if several else 0.0
    error = max(math.hypot(*(row.energy_error for row in rows)) / len(rows), by_seeds)
    values: dict[str, Any] = {
        key: expansion.median(as_array([getattr(row, key) for row in rows]))
        for key in ("variance", "v_score", "steps", "seconds", *SECONDS)
    }
    values |= {"energy_per_site": energy / n, "energy_per_site_error": error / n}
    values["scatter_per_site"] = scatter
    if known.energy is not None:
        values["relative_error"] = (energy - known.energy) / abs(known.energy)
        values["relative_error_error"] = math.hypot(error, known.error or 0.0) / abs(known.energy)
    values["steps"] = round(values["steps"])
    return replace(rows[0], name=name, energy=energy, energy_error=error, diagnostics=(), **values)


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}" if value < 100 else f"{value:.0f}"
