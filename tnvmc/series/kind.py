"""What several runs of one file have in common; a kind of them is one file with a `SeriesKind`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from tnvmc._version import __version__
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.limits import Json
from tnvmc.operators.properties import fingerprint
from tnvmc.operators.term import Operator
from tnvmc.settings.config import Settings
from tnvmc.settings.load import read_toml
from tnvmc.settings.problems import ConfigError
from tnvmc.shown import Shown, Table, with_error
from tnvmc.storage.identity import differences
from tnvmc.storage.run_files import Run, asks_the_same, is_current, relevant
from tnvmc.storage.run_folder import CONFIG
from tnvmc.trust.finished_run import diagnostics_of
from tnvmc.trust.reference import Reference

MEASURED = ("energy", "energy_error", "variance", "v_score")
"""Numbers of result.json without which a run has no row."""

LeftOut = tuple[tuple[str, Diagnostic], ...]
"""Names of the runs that have no row, and why."""


@dataclass(frozen=True)
class Series:
    """Several runs of one file, which can all be built."""

    kind: "SeriesKind"
    data: Json  #: of the file, with what was set on the command line
    out: Path  #: the folder, which holds one folder for each run
    runs: Mapping[str, Settings]  #: completed, by name, in the order in which they are made
    operator: Operator  #: of the first run
    details: Any = None  #: what the kind needs besides
    observables: tuple[str, ...] = ()  #: measured of every run, by name


@dataclass(frozen=True, kw_only=True)
class Row:
    """The measured energy of one run; energies are totals, None stands for no number."""

    name: str
    energy: float
    energy_error: float
    variance: float
    v_score: float
    steps: int
    n_samples: int
    n_sites: int
    units: str
    diagnostics: tuple[Diagnostic, ...] = ()  #: what makes the energy less trustworthy

    @property
    def per_site(self) -> tuple[float, float]:
        """Energy per site and its error."""
        return self.energy / self.n_sites, self.energy_error / self.n_sites

    def as_dict(self) -> dict[str, Any]:
        """Give the content of a table's file, without what all rows share."""
        values = asdict(self) | {"diagnostics": [each.as_dict() for each in self.diagnostics]}
        del values["n_sites"], values["units"]
        return values


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    title: str
    text: Callable[[Any], str]  #: of a row
    optional: bool = False  #: left out where no row has anything in it


@dataclass(frozen=True, repr=False)
class SeriesTable(Shown):
    """Rows, and the runs that have none, with the reason; ``table["triplet"]`` is one row."""

    kind: "SeriesKind"
    rows: tuple[Any, ...]
    left_out: LeftOut
    about: Json  #: what all rows share, as Hamiltonian, lattice and units
    diagnostics: tuple[Diagnostic, ...] = ()  #: of all rows together

    def __getitem__(self, name: str) -> Any:
        return {row.name: row for row in self.every_row}[name]

    @property
    def every_row(self) -> tuple[Any, ...]:
        """The rows that are shown."""
        return self.rows

    def cells(self) -> list[tuple[str, ...]]:
        """Give the titles and the texts of all rows."""
        kept = [
            (column.title, *map(column.text, self.every_row))
            for column in self.kind.columns(self)
            if not column.optional or {"-"} != {column.text(row) for row in self.every_row}
        ]
        return list(zip(*kept, strict=True))

    def as_dict(self) -> dict[str, Any]:
        """Give the content of the table's file."""
        return {
            **self.about,
            self.kind.rows: [row.as_dict() for row in self.rows],
            "left_out": [{"name": name, **reason.as_dict()} for name, reason in self.left_out],
        }

    def __repr__(self) -> str:
        rows = [f"{row.name} {with_error(row.energy, row.energy_error)}" for row in self.every_row]
        missing = [f"{name}: {reason.code}" for name, reason in self.left_out]
        return f"<{self.kind.name} ({self.about['units']} units): {'; '.join([*rows, *missing])}>"

    def _table(self) -> Table:
        head, *rows = self.cells()
        notes = [*self.diagnostics, *(note for _, note in self.kind.notes(self))]
        notes += [reason for _, reason in self.left_out]
        return Table(f"{self.kind.name}, {self.about['units']} units", head, rows, notes)


_DRAWN = ("kind", "n_walkers", "magnetisation", "particles")
_MAY_CHANGE = ("init", "init_noise", "freeze", "sharing")
"""Of [ansatz] where a run goes on; of sharing its checkpoint decides, as older files lack it."""


class SeriesKind:
    """One kind of several runs: how a file becomes runs, what a row is, and how it is judged."""

    name: ClassVar[str]  #: of its files: NAME.toml, NAME.json, NAME.md
    title: ClassVar[str]  #: as in "the folder holds several sectors"
    command: ClassVar[str] = "run"  #: of the command line, that makes it
    run: ClassVar[str] = "run"  #: what each of the runs is called
    rows: ClassVar[str] = "rows"  #: key of the rows in NAME.json
    unfinished: ClassVar[Diagnostic] = Diagnostic("run_unfinished", "error")
    not_begun: ClassVar[Diagnostic] = Diagnostic("run_not_begun", "error")
    chained: ClassVar[bool] = False  #: a run needs the one before: after a failure none is made
    names_after: ClassVar[str] = ""  #: pattern of the names that `runs_after` gives
    own_keys: ClassVar[Mapping[str, str]] = {}
    """Keys of a run, or beginnings of keys, as the file of the series has them."""
    is_done = staticmethod(is_current)

    def requested(self, data: Json) -> bool:
        """Tell whether the content of a settings file asks for runs of this kind."""
        raise NotImplementedError

    def expand(self, data: Json, default_name: str) -> Series:
        """Check a file and complete the settings of its runs; `ConfigError` tells every problem."""
        raise NotImplementedError

    def _fixed(self, run: Json) -> dict[str, Any]:
        """Give the settings that a run keeps once it is begun: with others it is another state."""
        rate = "auto" if run["optimizer"].get("learning_rate") == "auto" else "a number"
        rule = {**run["optimizer"], "learning_rate": rate}
        sections = {
            **{name: run[name] for name in ("lattice", "hamiltonian")},
            "ansatz": {k: v for k, v in run["ansatz"].items() if k not in _MAY_CHANGE},
            "sampler": {key: run["sampler"].get(key) for key in _DRAWN},
            "optimizer": {key: rule.get(key) for key in ("kind", "momentum", "learning_rate")},
            "run": relevant(run)["run"],
        }
        return {f"{name}.{key}": part[key] for name, part in sections.items() for key in part}

    def refuse_changes(self, series: Series, before: Json) -> None:
        """Raise `ConfigError` for settings by which the runs in the folder cannot go on.

        `before` is the content of the file by which they were begun.
        """
        for name, begun in begun_runs(series).items():
            now = series.runs[name].as_dict()
            if apart := differences(self._fixed(begun), self._fixed(now)):
                raise ConfigError(
                    f"{self.run} '{name}': the run in {series.out / name} was begun with other "
                    f"settings: {', '.join(apart)}; choose another --out"
                )

    def references(self, series: Series, before: Json) -> Mapping[str, Reference]:
        """Find what the energy of each run is compared with; without one each run finds its own.

        `before` is the content of the last table.
        """
        return {}

    def reason_against(self, series: Series, run: Run) -> Diagnostic | None:
        """Give why a run that can be read has no row."""
        if run.result is None or not self.is_done(run):
            return self.unfinished
        if None in [run.result.get(key) for key in MEASURED]:
            return Diagnostic("numbers_not_finite", "error")
        return None

    def row(self, series: Series, run: Run, reference: Reference) -> Any:
        """Give the row of a finished run."""
        raise NotImplementedError

    def table(self, series: Series, rows: Any, left_out: LeftOut, known: Any) -> SeriesTable:
        """Put the rows together and judge them by each other."""
        return SeriesTable(self, rows, left_out, about(series))

    def runs_after(self, series: Series, table: SeriesTable) -> Mapping[str, Settings]:
        """Give runs that are made once all others are, by the name of their folder."""
        return {}

    def columns(self, table: SeriesTable) -> tuple[Column, ...]:
        """Give the columns of a table."""
        raise NotImplementedError

    def headline(self, table: SeriesTable) -> str:
        """Write what the table is of, after Hamiltonian and lattice."""
        return f"energies in {table.about['units']} units"

    def notes(self, table: SeriesTable) -> Iterator[tuple[str, str | Diagnostic]]:
        """Yield the name of a row and what is to be said of it below the table."""
        yield from ((row.name, each) for row in table.rows for each in row.diagnostics)

    def picture(self, series: Series, table: SeriesTable) -> "Picture":
        """Say what is drawn of a table that has rows."""
        raise NotImplementedError


def or_dash(value: Any, text: Callable[[Any], str]) -> str:
    """Write a value, or "-" where there is none."""
    return "-" if value is None else text(value)


def row_values(run: Run, row: type[Row] = Row) -> dict[str, Any]:
    """Give the fields of a row that result.json holds, and its warnings."""
    result = run.result
    assert result is not None
    known = {field.name for field in fields(row)} & set(result)
    doubts = [each for each in diagnostics_of(result) if each.status in ("warning", "error")]
    return {key: result[key] for key in known} | {
        "name": run.path.name, "diagnostics": tuple(doubts)
    }  # fmt: skip


def about(series: Series) -> dict[str, Any]:
    """Say what all runs share."""
    settings = next(iter(series.runs.values())).as_dict()
    return {
        "hamiltonian": settings["hamiltonian"],
        "lattice": settings["lattice"],
        "fingerprint": fingerprint(series.operator),
        "n_sites": series.operator.n_sites,
        "units": series.operator.units,
        "version": __version__,
    }


@dataclass(frozen=True)
class Histories:
    """The steps of several runs on the same axes."""

    folders: Sequence[Path]
    final: bool = False  #: with what was measured at the end, variances and V-scores


@dataclass(frozen=True)
class Curve:
    """Measured points with errors, and the exact values where they are known."""

    axis: str  #: label of the values
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float]
    exact: Sequence[float | None] = ()


@dataclass(frozen=True)
class Curves:
    """Curves below each other over the same axis, or one of levels that have labels."""

    curves: Sequence[Curve]
    axis: str
    name: str  #: of the file
    labels: Sequence[Sequence[str]] = ()  #: lines of text below each level
    exact: str = "exact"  #: label of the exact values


Picture = Histories | Curves


def begun_runs(series: Series) -> dict[str, Json]:
    """Give the settings of the runs that were begun, by their names."""
    files = {name: series.out / name / CONFIG for name in series.runs}
    return {name: read_toml(file) for name, file in files.items() if file.is_file()}


def asks_no_more(before: Json, now: Json) -> bool:
    """Tell whether a run with the settings `before` has done what is asked `now`, or more."""
    made, asked = before["optimizer"]["steps"], now["optimizer"]["steps"]
    steps = {**now["optimizer"], "steps": made}
    after = {**now, "optimizer": steps, "ansatz": _with_start_moved(before, now)}
    return bool(asked <= made) and asks_the_same(before, after)


def unlike(one: Json, other: Json) -> list[str]:
    """Give the settings in which two runs differ that have an influence on the result."""
    return differences(relevant(one), relevant(other))


def _with_start_moved(before: Json, now: Json) -> Json:
    """Give [ansatz] with the path of its start as it was, where all runs were moved together."""
    old, new = (Path(str(each["ansatz"].get("init"))) for each in (before, now))
    if (new.parent, new.name) != (Path(str(now["run"].get("out"))).parent, old.name):
        return now["ansatz"]  # type: ignore[no-any-return]
    return {**now["ansatz"], "init": str(old)}
