"""Starts: one state from several seeds (`run.starts`), and the lowest of them measured again.

The lowest of several energies with errors is lower than its state on average, so its state is
measured with new samples, which no choice has gone into.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.statistics import of_many
from tnvmc.limits import MOST_STARTS, Json
from tnvmc.series import kind as base
from tnvmc.series.expansion import check_parts, later_seed, out_of
from tnvmc.settings.config import Settings, build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate
from tnvmc.settings.problems import ConfigError, conflict
from tnvmc.shown import with_error
from tnvmc.storage.hdf5 import StateFileError
from tnvmc.storage.run_files import Run, measured_file, measured_hash, relevant
from tnvmc.storage.run_folder import CONFIG
from tnvmc.trust.gaps import SIGNIFICANT, smallest_gap
from tnvmc.trust.reference import Reference

WRONG = frozenset({"below_reference", "below_level", "not_orthogonal"})
"""Codes of energies that are too low, or of another level: they would be the lowest first."""


@dataclass(frozen=True, kw_only=True)
class StartRow(base.Row):
    """The energy that one start ended with."""

    seed: int
    above: float | None = None  #: energy less the lowest, in errors of both; None of that itself

    @property
    def wrong(self) -> tuple[Diagnostic, ...]:
        """What says that its energy is too low, or not that of this level."""
        return tuple(
            found
            for found in self.diagnostics
            if found.code in WRONG or found.values.get("measurement")
        )


@dataclass(frozen=True, repr=False)
class StartTable(base.SeriesTable):
    """Starts in the order of their seeds, and the lowest, measured again."""

    lowest: str | None = None  #: name of the start of lowest energy
    measured: StartRow | None = None  #: its state, measured again; None before

    @property
    def every_row(self) -> tuple[Any, ...]:
        """The starts, and the measurement to quote."""
        return (*self.rows, *([self.measured] if self.measured else []))

    def as_dict(self) -> dict[str, Any]:
        """Give the content of starts.json."""
        return super().as_dict() | {
            "lowest": self.lowest,
            "measured": None if self.measured is None else self.measured.as_dict(),
            "diagnostics": [found.as_dict() for found in self.diagnostics],
        }


class StartsKind(base.SeriesKind):
    """The same run from several seeds."""

    name, title, run, rows = "starts", "several starts", "start", "starts"
    unfinished = Diagnostic("start_unfinished", "error")
    not_begun = Diagnostic("start_not_begun", "error")
    names_after = "again-*"

    def requested(self, data: Json) -> bool:
        run = data.get("run")
        asked = run.get("starts") if isinstance(run, Mapping) else None
        return isinstance(asked, int) and asked > 1

    def expand(self, data: Json, default_name: str) -> base.Series:
        """The runs have the seeds `run.seed`, `run.seed` + 1 and so on."""
        shared = validate(data)
        if (number := shared.run.starts or 1) == 1:
            raise ConfigError(conflict("run.starts", "must be 2 or more for several starts"))
        out, operator = out_of(shared, default_name), build_operator(shared)
        runs = {}
        for k in range(number):
            name = f"start-{k + 1}"
            own = {"starts": None, "out": str(out / name), "seed": later_seed(shared, k)}
            runs[name] = complete(shared.changed({"run": own}))
        check_parts(runs["start-1"], operator)
        return base.Series(self, data, out, runs, operator)

    def _fixed(self, run: Json) -> dict[str, Any]:
        """Give all that has an influence on the result: starts are compared."""
        return relevant(run)

    def refuse_changes(self, series: base.Series, before: Json) -> None:
        """Refuse also to leave one out."""
        begun = {file.parent.name for file in series.out.glob(f"start-*/{CONFIG}")}
        if left := sorted(begun - set(series.runs)):
            raise ConfigError(
                f"run.starts = {len(series.runs)}: {series.out} holds {left[-1]} already; ask for "
                "as many at least, or choose another --out"
            )
        super().refuse_changes(series, before)

    def reason_against(self, series: base.Series, run: Run) -> Diagnostic | None:
        """Give why an energy is not of a start of this file, or not of the state of the lowest."""
        name = run.path.name
        if run.damage:
            damaged = ", ".join(sorted({each.file for each in run.damage}))
            return Diagnostic("run_unreadable", "error", {"reason": f"{damaged} is damaged"})
        if name not in series.runs:
            wanted = _again(series, name.replace("again", "start"))
            if (reason := _other_state(series, run, wanted.as_dict())) is not None:
                return reason
        elif apart := base.unlike(run.config, series.runs[name].as_dict()):
            return Diagnostic("start_unlike", "error", {"settings": apart})
        return super().reason_against(series, run)

    def row(self, series: base.Series, run: Run, reference: Reference) -> StartRow:
        values = base.row_values(run, StartRow)
        return StartRow(**values | {"seed": run.config["run"]["seed"]})

    def table(self, series: base.Series, rows: Any, left_out: Any, references: Any) -> StartTable:
        starts, lowest = above_lowest([row for row in rows if row.name in series.runs])
        again = next((row for row in rows if row.name not in series.runs), None)
        agreement = tuple(agreement_of(starts))
        return StartTable(
            self, tuple(starts), left_out, base.about(series), agreement, lowest, again
        )

    def runs_after(self, series: base.Series, table: Any) -> Mapping[str, Settings]:
        """Measure the state of the lowest with new samples, in a folder of its own."""
        if table.lowest is None:
            return {}
        return {table.lowest.replace("start", "again"): _again(series, table.lowest)}

    def columns(self, table: base.SeriesTable) -> tuple[base.Column, ...]:
        return (
            base.Column("start", lambda row: row.name),
            base.Column("seed", lambda row: str(row.seed)),
            base.Column("energy", lambda row: with_error(row.energy, row.energy_error)),
            base.Column("per site", lambda row: with_error(*row.per_site)),
            base.Column("variance per site", lambda row: f"{row.variance / row.n_sites:.2e}"),
            base.Column("errors above", lambda row: base.or_dash(row.above, "{:+.1f}".format)),
        )

    def notes(self, table: Any) -> Iterator[tuple[str, str | Diagnostic]]:
        """Yield which energy to quote, its doubts, and what is wrong with the others."""
        quoted, lowest = table.measured, table.lowest
        if quoted is not None:
            per_site = f"{with_error(*quoted.per_site)} per site ({quoted.name}): the one to quote"
            yield "", f"measured again, the state of {lowest} has the energy {per_site}"
        elif lowest is not None:
            text = "is the lowest of several, so it is too low on average; measure its state again"
            yield "", f"the energy of {lowest} {text}"
        for row in table.every_row:
            alone = row is quoted or (quoted is None and row.name == lowest)
            yield from ((row.name, each) for each in (row.diagnostics if alone else row.wrong))

    def picture(self, series: base.Series, table: base.SeriesTable) -> base.Histories:
        return base.Histories([series.out / row.name for row in table.rows])


def _again(series: base.Series, name: str) -> Settings:
    """Give settings that measure the state of a start with samples of a seed of their own."""
    run, again = series.runs[name], series.out / name.replace("start", "again")
    state = measured_file(series.out / name) or series.out / name
    changes: dict[str, dict[str, Any]] = {
        "run": {"out": str(again), "seed": later_seed(run, MOST_STARTS)},
        "optimizer": {"steps": 0, "plateau": None, "seconds": None},
        "ansatz": {"init": str(state), "init_noise": None},
    }
    return run.model_copy(update={"stage": None}).changed(changes)


def _other_state(series: base.Series, run: Run, wanted: Json) -> Diagnostic | None:
    """Give why a second measurement is of another state than the start has, or made otherwise.

    It may have been measured with more samples, and the file of its start may lie elsewhere now.
    """
    name = run.path.name.replace("again", "start")
    here = {**run.config, "measure": wanted["measure"]}
    here["ansatz"] = {**run.config.get("ansatz", {}), "init": wanted["ansatz"]["init"]}
    try:
        hashed = measured_hash(run.path)
        same = hashed is not None and hashed == measured_hash(series.out / name)
    except StateFileError as error:
        return Diagnostic("run_unreadable", "error", {"reason": str(error)})
    if same and not base.unlike(here, wanted):
        return None
    return Diagnostic("start_changed", "error", {"name": name, "again": run.path.name})


def above_lowest(rows: Sequence[StartRow]) -> tuple[list[StartRow], str | None]:
    """Give the starts with their distances from the lowest that no check calls wrong, its name."""
    candidates = [row for row in rows if not row.wrong] or rows
    if not candidates:
        return [], None
    low = min(candidates, key=lambda row: row.energy)
    off = [None if r is low else (r.energy - low.energy) / smallest_gap(r, low) for r in rows]
    return [replace(row, above=above) for row, above in zip(rows, off, strict=True)], low.name


def agreement_of(rows: Sequence[StartRow]) -> Iterator[Diagnostic]:
    """Yield how many starts end at the lowest energy, of those that no check calls wrong."""
    rows = [row for row in rows if not row.wrong]
    if len(rows) < 2:
        return
    energies = [row.energy for row in rows]
    if len(set(energies)) == 1:
        yield Diagnostic("starts_identical", "warning", {"n_starts": len(rows)})
        return
    within = of_many(SIGNIFICANT, len(rows) - 1)
    near = sum(1 for row in rows if abs(row.above or 0.0) <= within)
    values = {
        "n_starts": len(rows), "near": near, "within": within,
        "spread_per_site": (max(energies) - min(energies)) / rows[0].n_sites,
    }  # fmt: skip
    if near == len(rows):
        yield Diagnostic("starts_agree", "good", values)
    elif near == 1:
        yield Diagnostic("lowest_alone", "warning", values)
    else:
        yield Diagnostic("starts_differ", "warning", values)
