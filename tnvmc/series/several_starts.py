"""Starts: one state from several seeds (`run.starts`), and the lowest of them measured again.

The lowest of several energies with errors is lower than its state on average, so its state is measured
with new samples, which no choice has gone into.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tnvmc.analysis.gaps import SIGNIFICANT, smallest_gap
from tnvmc.analysis.reference import Reference
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.limits import MOST_STARTS, Json
from tnvmc.series import kind as series_kind
from tnvmc.series.changes import unlike
from tnvmc.series.expansion import check_parts, later_seed, out_of
from tnvmc.series.kind import Column, Found, Row, Series, SeriesKind, SeriesTable
from tnvmc.series.pictures import Histories
from tnvmc.settings.build import build_operator
from tnvmc.settings.config import Settings
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import read_toml, validate
from tnvmc.settings.problems import NOTHING, ConfigError, conflict
from tnvmc.shown import with_error
from tnvmc.storage.hdf5 import StateFileError
from tnvmc.storage.kept_files import measured_file, measured_hash
from tnvmc.storage.run_files import Run
from tnvmc.storage.run_folder import CONFIG

WRONG = frozenset({"below_reference", "below_level", "not_orthogonal"})
"""Codes of energies that are too low, or of another level: they would be the lowest first."""


@dataclass(frozen=True, kw_only=True)
class StartRow(Row):
    """The energy that one start ended with."""

    seed: int
    above: float | None = None  #: energy less the lowest, in errors of both; None of that itself

    @property
    def wrong(self) -> tuple[Diagnostic, ...]:
        """What says that its energy is too low, beyond what a state can have, or of another level."""
        return tuple(
            found
            for found in self.diagnostics
            if found.code in WRONG or found.values.get("measurement")
        )


@dataclass(frozen=True, repr=False)
class StartTable(SeriesTable):
    """Starts in the order of their seeds, and the lowest energy, measured again."""

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


class StartsKind(SeriesKind):
    """The same run from several seeds."""

    name, title, run, rows = "starts", "several starts", "start", "starts"
    unfinished = Diagnostic("start_unfinished", "error")
    not_begun = Diagnostic("start_not_begun", "error")
    names_after = "again-*"

    def requested(self, data: Json) -> bool:
        run = data.get("run")
        asked = run.get("starts") if isinstance(run, Mapping) else None
        return isinstance(asked, int) and asked > 1

    def expand(self, data: Json, default_name: str) -> Series:
        """The runs have the seeds `run.seed`, `run.seed` + 1 and so on."""
        shared = validate(data)
        number = shared.run.starts
        if number in (None, 1):
            value = NOTHING if number is None else number
            raise ConfigError(conflict("run.starts", "must be 2 or more for several starts", value))
        out, operator = out_of(shared, default_name), build_operator(shared)
        names = [f"start-{k}" for k in range(1, number + 1)]
        runs = {name: _as_run(shared, k, out / name) for k, name in enumerate(names)}
        try:
            check_parts(runs[names[0]], operator)
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return Series(self, data, out, runs, operator)

    def refuse_changes(self, series: Series, before: Json) -> None:
        """Refuse what would make starts unlike each other, or leave one out: they are compared."""
        begun = {file.parent.name for file in series.out.glob(f"start-*/{CONFIG}")}
        if left := sorted(begun - set(series.runs)):
            raise ConfigError(
                f"run.starts = {len(series.runs)}: {series.out} holds {left[-1]} already; ask for as "
                "many at least, or choose another --out"
            )
        for name in sorted(begun):
            config = read_toml(series.out / name / CONFIG)
            if apart := unlike(config, series.runs[name].as_dict()):
                raise ConfigError(
                    f"{series.out / name} was begun with other settings ({', '.join(apart)}), and "
                    "starts are compared; choose another --out, or go on with one of them by itself"
                )

    def reason_against(self, series: Series, run: Run) -> Diagnostic | None:
        """Give why an energy is not of a start of this file, or not of the state of the lowest."""
        name = run.path.name
        if run.damage:
            damaged = ", ".join(sorted({each.file for each in run.damage}))
            return Diagnostic("run_unreadable", "error", {"reason": f"{damaged} is damaged"})
        if name not in series.runs:
            wanted = _again(series, name.replace("again", "start"))
            if (reason := _other_state(series, run, wanted.as_dict())) is not None:
                return reason
        elif apart := unlike(run.config, series.runs[name].as_dict()):
            return Diagnostic("start_unlike", "error", {"settings": apart})
        return super().reason_against(series, run)

    def row(self, series: Series, run: Run, reference: Reference) -> StartRow:
        values = series_kind.row_values(run, StartRow)
        return StartRow(**values | {"seed": run.config["run"]["seed"]})

    def table(self, series: Series, found: Found, references: Any) -> StartTable:
        rows, left_out = series_kind.separated(found)
        starts = [row for row in rows if row.name in series.runs]
        again = next((row for row in rows if row.name not in series.runs), None)
        lowest = lowest_of(starts)
        if lowest is not None:
            starts = [row if row is lowest else _above(row, lowest) for row in starts]
        about, agreement = series_kind.about(series), tuple(agreement_of(starts))
        name = None if lowest is None else lowest.name
        return StartTable(self, tuple(starts), left_out, about, agreement, name, again)

    def runs_after(self, series: Series, table: SeriesTable) -> Mapping[str, Settings]:
        """Measure the state of the lowest with new samples, in a folder of its own."""
        assert isinstance(table, StartTable)
        if table.lowest is None:
            return {}
        return {table.lowest.replace("start", "again"): _again(series, table.lowest)}

    def columns(self, table: SeriesTable) -> tuple[Column, ...]:
        return (
            Column("start", lambda row: row.name),
            Column("seed", lambda row: str(row.seed)),
            Column("energy", lambda row: with_error(row.energy, row.energy_error)),
            Column("per site", lambda row: with_error(*row.per_site)),
            Column("variance per site", lambda row: f"{row.variance / row.n_sites:.2e}"),
            Column("errors above", lambda r: "-" if r.above is None else f"{r.above:+.1f}"),
        )

    def notes(self, table: SeriesTable) -> Iterator[tuple[str, str | Diagnostic]]:
        """Yield which energy to quote, its doubts, and what is wrong with the others."""
        assert isinstance(table, StartTable)
        if (found := table.measured) is not None:
            yield (
                "",
                (
                    f"measured again, the state of {table.lowest} has the energy "
                    f"{with_error(*found.per_site)} per site ({found.name}): the one to quote"
                ),
            )
        elif table.lowest is not None:
            yield (
                "",
                (
                    f"the energy of {table.lowest} is the lowest of several, so it is too low on average; "
                    "measure its state again"
                ),
            )
        for row in table.every_row:
            quoted = row is found or (found is None and row.name == table.lowest)
            yield from ((row.name, each) for each in (row.diagnostics if quoted else row.wrong))

    def picture(self, series: Series, table: SeriesTable) -> Histories:
        return Histories([series.out / row.name for row in table.rows])


def _as_run(shared: Settings, number: int, out: Path) -> Settings:
    """Give the completed settings of one start."""
    own = {"starts": None, "out": str(out), "seed": later_seed(shared, number)}
    return complete(shared.changed({"run": own}))


def _again(series: Series, name: str) -> Settings:
    """Give settings that measure the state of a start with samples of a seed of their own."""
    run, again = series.runs[name], series.out / name.replace("start", "again")
    state = measured_file(series.out / name) or series.out / name
    changes: dict[str, dict[str, Any]] = {
        "run": {"out": str(again), "seed": later_seed(run, MOST_STARTS)},
        "optimizer": {"steps": 0, "plateau": None, "seconds": None},
        "ansatz": {"init": str(state), "init_noise": None},
    }
    return run.model_copy(update={"stage": None}).changed(changes)


def _other_state(series: Series, run: Run, wanted: Json) -> Diagnostic | None:
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
    if same and not unlike(here, wanted):
        return None
    return Diagnostic("start_changed", "error", {"name": name, "again": run.path.name})


def lowest_of(rows: Sequence[StartRow]) -> StartRow | None:
    """Give the start of lowest energy, among those that no check calls wrong if there are any."""
    candidates = [row for row in rows if not row.wrong] or rows
    return min(candidates, key=lambda row: row.energy, default=None)


def _above(row: StartRow, lowest: StartRow) -> StartRow:
    """Give a start with its distance from the lowest, in errors of both."""
    return replace(row, above=(row.energy - lowest.energy) / smallest_gap(row, lowest))


def agreement_of(rows: Sequence[StartRow]) -> Iterator[Diagnostic]:
    """Yield how many starts end at the lowest energy, of those that no check calls wrong."""
    rows = [row for row in rows if not row.wrong]
    if len(rows) < 2:
        return
    energies = [row.energy for row in rows]
    if len(set(energies)) == 1:
        yield Diagnostic("starts_identical", "warning", {"n_starts": len(rows)})
        return
    near = sum(1 for row in rows if abs(row.above or 0.0) <= SIGNIFICANT)
    values = {
        "n_starts": len(rows), "near": near, "within": SIGNIFICANT,
        "spread_per_site": (max(energies) - min(energies)) / rows[0].n_sites,
    }  # fmt: skip
    if near == len(rows):
        yield Diagnostic("starts_agree", "good", values)
    elif near == 1:
        yield Diagnostic("lowest_alone", "warning", values)
    else:
        yield Diagnostic("starts_differ", "warning", values)
