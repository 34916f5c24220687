"""Making several runs one after another, going on with them, and the table of what they hold."""

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.limits import Json
from tnvmc.series.average import AverageKind
from tnvmc.series.comparison import ComparisonKind
from tnvmc.series.kind import LeftOut, Series, SeriesKind, SeriesTable, asks_no_more
from tnvmc.series.scan import ScanKind, observed_value
from tnvmc.series.several_starts import StartsKind
from tnvmc.series.spin_sectors import SectorsKind
from tnvmc.settings.config import Settings
from tnvmc.settings.load import read_toml, with_out, with_overrides
from tnvmc.settings.problems import ConfigError
from tnvmc.storage.files import read_plain, write_atomically
from tnvmc.storage.run_files import is_current, is_outdated, is_running, read_run, steps_done
from tnvmc.storage.run_folder import (
    CONFIG,
    RESULT,
    DiskError,
    FolderError,
    FolderInUse,
    Interrupted,
    check_settings,
    disk_errors,
    refuse_occupied,
)
from tnvmc.storage.seals import sealed_toml
from tnvmc.trust.reference import Reference


class Maker(Protocol):
    """What makes one run; the commands of the program are it."""

    def make(self, settings: Settings, reference: Reference | None) -> None:
        """Make a run, or go on with it where it was begun."""

    def measure(self, folder: Path, observables: Sequence[str]) -> None:
        """Measure observables of the state in a folder, into observables.json."""


def kind_of_file(path: Path, overrides: Sequence[str] = ()) -> SeriesKind | None:
    """Give what a settings file asks for; None for one run, and for what cannot be read."""
    data: Json = {}
    with contextlib.suppress(ConfigError):  # who reads the file again tells what is wrong
        data = read_toml(path)
        data = with_overrides(data, overrides)
    return next((kind for kind in KINDS if kind.requested(data)), None)


def kind_of_folder(folder: str | Path) -> SeriesKind | None:
    """Give what a folder holds; None where that is one run, or nothing."""
    return next((kind for kind in KINDS if (Path(folder) / f"{kind.name}.toml").is_file()), None)


def new_series(
    kind: SeriesKind, path: Path, out: str | Path | None, overrides: Sequence[str], maker: Maker
) -> tuple[Series, SeriesTable]:
    """Make the runs of a settings file, and give the table of them.

    Raises:
        ConfigError: settings that cannot run, of any run; nothing has been started.
        FolderError: `out` holds a run or several already.
        DiskError, Interrupted: as a single run.
    """
    series = kind.expand(with_overrides(read_toml(path), with_out(overrides, out)), path.stem)
    if kind_of_folder(series.out) is kind:
        raise FolderError(
            f"{series.out}: holds {kind.title} already; continue with {_resume(series)}, or choose "
            "another --out"
        )
    after = sorted(series.out.glob(kind.names_after)) if kind.names_after else ()
    for place in (series.out, *(series.out / name for name in series.runs), *after):
        refuse_occupied(place)
    if (table := series.out / f"{kind.name}.md").exists():
        raise FolderError(f"{table}: exists, and would be written; choose another --out")
    return _make(series, maker)


def resumed_series(
    kind: SeriesKind, folder: Path, overrides: Sequence[str], file: str | Path | None, maker: Maker
) -> tuple[Series, SeriesTable]:
    """Go on with the runs in a folder, by their own settings or those of another file.

    Raises:
        FolderError: no such runs there, or another process is at them.
        ConfigError: also settings by which a run that was begun cannot go on.
        DiskError, Interrupted: as `new_series`.
    """
    before = _settings_in(kind, folder)
    data = before if file is None else read_toml(Path(file))
    series = kind.expand(with_overrides(data, with_out(overrides, folder)), kind.name)
    kind.refuse_changes(series, before)
    return _make(series, maker)


def held_series(kind: SeriesKind, folder: Path) -> tuple[Series, SeriesTable]:
    """Give the series in a folder, and the table of what its runs hold now.

    What the last table says of references and of runs that failed is kept.
    """
    data = with_overrides(_settings_in(kind, folder), with_out((), folder))
    series = kind.expand(data, kind.name)
    before = _table_before(series)
    failed = {
        each["name"]: each["values"]["reason"]
        for each in before.get("left_out", ())
        if each["code"] == "run_failed" and not (folder / each["name"] / RESULT).is_file()
    }
    return series, tabulated(series, kind.references(series, before), failed)


def tabulated(
    series: Series, references: Mapping[str, Reference], failed: Mapping[str, str]
) -> SeriesTable:
    """Read all runs of a series; `failed` tells by their names why some gave up."""
    kind, read = series.kind, partial(_read, series, references, failed)
    table = kind.table(series, *read(series.runs), references)
    after = kind.runs_after(series, table)
    begun = [name for name in after if name in failed or (series.out / name).is_dir()]
    if not begun:
        return table
    return kind.table(series, *read([*series.runs, *begun]), references)


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write files, and the folders that they are in."""
    for path, content in files.items():
        with disk_errors(path, DiskError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)


def _read(
    series: Series,
    references: Mapping[str, Reference],
    failed: Mapping[str, str],
    names: Iterable[str],
) -> tuple[tuple[Any, ...], LeftOut]:
    """Give the rows of runs, and why others have none."""
    rows: list[Any] = []
    left_out: list[tuple[str, Diagnostic]] = []
    for name in names:
        reason: Diagnostic | None = series.kind.not_begun
        if name in failed:
            reason = Diagnostic("run_failed", "error", {"reason": failed[name]})
        elif (series.out / name).exists():
            try:
                run = read_run(series.out / name)
                reason = series.kind.reason_against(series, run)
            except FolderError as error:
                reason = Diagnostic("run_unreadable", "error", {"reason": str(error)})
        if reason is None:
            rows.append(series.kind.row(series, run, references.get(name, Reference())))
        else:
            left_out.append((name, reason))
    return tuple(rows), tuple(left_out)


def _settings_in(kind: SeriesKind, folder: Path) -> Json:
    """Give the content of the file by which the runs in a folder were begun."""
    file = folder / f"{kind.name}.toml"
    if not file.is_file():
        raise FolderError(f"{folder}: holds no {kind.name} to resume ({file.name} is missing)")
    check_settings(file)
    return read_toml(file)


def _table_before(series: Series) -> Json:
    """Give the content of the last table; empty without one, and where it is damaged."""
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(read_plain(series.out / f"{series.kind.name}.json")))
    return {}


def _resume(series: Series) -> str:
    return f"tnvmc {series.kind.command} --resume {series.out}"


def _make(series: Series, maker: Maker) -> tuple[Series, SeriesTable]:
    """Make every run, and those that follow from the table of them."""
    import tomli_w

    for folder in (series.out / name for name in series.runs):
        if (folder / CONFIG).is_file() and is_running(read_run(folder)):
            raise FolderInUse(f"{folder}: another process is writing this run")
    references = series.kind.references(series, {})
    settings = series.out / f"{series.kind.name}.toml"
    write_files({settings: sealed_toml(tomli_w.dumps(series.data))})
    failed = _make_runs(series, series.runs, references, maker)
    table = tabulated(series, references, failed)
    after = series.kind.runs_after(series, table)
    if after and not all(name in (row.name for row in table.every_row) for name in after):
        failed |= _make_runs(series, after, references, maker)
        table = tabulated(series, references, failed)
    return series, table


def _make_runs(
    series: Series, runs: Mapping[str, Settings], references: Mapping[str, Reference], maker: Maker
) -> dict[str, str]:
    """Make every run in turn, and give by their names why some of them failed."""
    kind, failed = series.kind, {}
    for number, (name, settings) in enumerate(runs.items(), 1):
        print(f"[{number}/{len(runs)}] {name}", flush=True)
        try:
            _make_or_keep(settings, references.get(name), maker)
            if series.observables:
                _measure(series, name, maker)
        except (KeyboardInterrupt, Interrupted) as stop:  # the first before its first step
            where, status = f"in {kind.run} '{name}'", getattr(stop, "exit_status", 130)
            because = getattr(stop, "because", "")
            raise Interrupted(where, _resume(series), status, because) from None
        # Of two processes that share out the runs neither would have a table.
        except (FolderInUse, DiskError):
            raise
        except Exception as error:  # noqa: BLE001  # as a class of the user's own may raise
            text = " ".join(str(error).split())  # a KeyError says no more than the key
            failed[name] = text if " " in text else f"{type(error).__name__} {text}".rstrip()
            print(f"failed: {failed[name]}", flush=True)
            if kind.chained:
                break
    return failed


def _make_or_keep(settings: Settings, reference: Reference | None, maker: Maker) -> None:
    """Make a run or go on with it; one that has made more steps by itself stays as it is."""
    folder = Path(settings.run.out or "")
    if (folder / CONFIG).is_file():
        run = read_run(folder)
        if is_current(run) and not run.damage and asks_no_more(run.config, settings.as_dict()):
            print(f"finished after {steps_done(run)} steps; kept", flush=True)
            return
    maker.make(settings, reference)


def _measure(series: Series, name: str, maker: Maker) -> None:
    """Measure the observables that the series asks for and its run has not of its last step."""
    run = read_run(series.out / name)
    held = {} if is_outdated(run) else run.observables or {}
    if any(observed_value(held, each) is None for each in series.observables):
        print("measuring observables", flush=True)
        maker.measure(run.path, series.observables)


COMPARISON, SECTORS, STARTS = ComparisonKind(), SectorsKind(), StartsKind()
SCAN, AVERAGE = ScanKind(), AverageKind()

KINDS: tuple[SeriesKind, ...] = (COMPARISON, AVERAGE, SCAN, SECTORS, STARTS)
"""In the order in which a file is asked whether it is of a kind."""
