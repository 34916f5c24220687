"""Several runs in one folder, one after another: what comparisons and sectors share."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tnvmc.analysis.reference import Reference
from tnvmc.app.run import DiskError, Interrupted, continued_run, new_run
from tnvmc.limits import Json
from tnvmc.report.figures import style
from tnvmc.report.plots import check_ours
from tnvmc.settings.config import Settings
from tnvmc.storage.files import read_plain, write_atomically
from tnvmc.storage.run_files import is_running, read_run
from tnvmc.storage.run_folder import CONFIG, RESULT, FolderError, FolderInUse, refuse_occupied
from tnvmc.storage.seals import sealed_toml
from tnvmc.vmc.step import OptimisationFailed


class SeveralRuns(Protocol):
    """Runs whose folders lie in one folder."""

    @property
    def data(self) -> Json:
        """Of the file, with what was set on the command line."""

    @property
    def out(self) -> Path:
        """The folder."""

    @property
    def runs(self) -> Mapping[str, Settings]:
        """Completed settings by the name of their folder, in the order in which they are made."""


class SeveralInterrupted(Interrupted):
    """Runs that were stopped from outside in one of them; what they have done is kept."""

    def __init__(self, where: str, command: str, exit_status: int, because: str = "") -> None:
        told = f"{because and because + '; '}stopped in {where}; continue with: {command}"
        Exception.__init__(self, told)
        self.exit_status, self.because = exit_status, because


def refuse_held(several: SeveralRuns, settings: str, what: str, command: str) -> None:
    """Raise `FolderError` where the folder holds such runs already, or one of the places a run."""
    if (several.out / settings).exists():
        raise FolderError(
            f"{several.out}: holds {what} already; continue with {command} {several.out}, or choose another --out"
        )
    for place in (several.out, *(several.out / name for name in several.runs)):
        refuse_occupied(place)


def write_settings(several: SeveralRuns, name: str) -> None:
    """Make the folder and write the settings of all runs into a file of this name.

    Raises:
        DiskError: the folder cannot be written.
    """
    import tomli_w

    try:
        several.out.mkdir(parents=True, exist_ok=True)
        write_atomically(several.out / name, sealed_toml(tomli_w.dumps(several.data)))
    except OSError as error:
        raise DiskError(f"{several.out}: cannot be written ({error.strerror})") from None


def make_runs(
    several: SeveralRuns,
    make: Callable[[str], object],
    kind: str,
    command: str,
) -> dict[str, str]:
    """Make every run in turn, and give by their names why some of them failed.

    Args:
        several: the runs.
        make: makes the run of a name.
        kind: what each is called, as "sector".
        command: by which they go on after they were stopped.

    Raises:
        SeveralInterrupted: stopped from outside.
        FolderInUse: another process is at one of them.
    """
    failed: dict[str, str] = {}
    for number, name in enumerate(several.runs, 1):
        print(f"[{number}/{len(several.runs)}] {name}", flush=True)
        try:
            make(name)
        except KeyboardInterrupt as stop:  # before its first step
            status = getattr(stop, "exit_status", 130)
            raise SeveralInterrupted(f"{kind} '{name}'", command, status) from None
        except Interrupted as stop:
            because = stop.exit_status, stop.because
            raise SeveralInterrupted(f"{kind} '{name}'", command, *because) from None
        except FolderInUse:  # two processes would share out the runs, and neither have a table
            raise
        # JAX's own errors are RuntimeErrors.
        except (OptimisationFailed, ValueError, MemoryError, RuntimeError) as error:
            failed[name] = " ".join(str(error).split()) or type(error).__name__
            print(f"failed: {failed[name]}", flush=True)
    return failed


def refuse_in_use(several: SeveralRuns) -> None:
    """Raise `FolderInUse` where another process is at one of the runs."""
    for name in several.runs:
        folder = several.out / name
        if (folder / CONFIG).is_file() and is_running(read_run(folder)):
            raise FolderInUse(f"{folder}: another process is writing this run")


def make_run(settings: Settings, reference: Reference | None = None) -> None:
    """Make a run, or go on with it where it was begun."""
    begun = (Path(settings.run.out or "") / CONFIG).is_file()
    (continued_run if begun else new_run)(settings, reference)


def table_before(folder: Path, name: str) -> tuple[Json, dict[str, str]]:
    """Give the content of the last table, empty without one, and why runs failed that have no result since."""
    before: Json = {}
    if (folder / name).is_file():
        with contextlib.suppress(ValueError):  # damaged: what it said is lost, and made again
            before = json.loads(read_plain(folder / name))
    failed = {
        each["name"]: each["values"]["reason"]
        for each in before.get("left_out", ())
        if each["code"] == "run_failed" and not (folder / each["name"] / RESULT).is_file()
    }
    return before, failed


def encoded(figures: Mapping[str, Any], folder: Path, formats: Sequence[str]) -> dict[Path, bytes]:
    """Give the files of figures by name, each in these formats.

    Raises:
        PictureError: a file in the way that was not made here.
    """
    places = {
        folder / f"{name}.{ending}": style.encode(figure, ending)
        for name, figure in figures.items()
        for ending in formats
    }
    check_ours(folder, tuple(places), style.MADE_BY)
    return places


def keep(files: Mapping[Path, bytes]) -> None:
    """Write files.

    Raises:
        DiskError: no space, or no permission.
    """
    for path, content in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)
        except OSError as error:
            raise DiskError(f"{path}: cannot be written ({error.strerror})") from None
