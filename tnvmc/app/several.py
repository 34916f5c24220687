"""Several runs in one folder, one after another: what comparisons and sectors share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from tnvmc.analysis.reference import Reference
from tnvmc.app.run import DiskError, Interrupted, continued_run, new_run
from tnvmc.limits import Json
from tnvmc.settings.config import Settings
from tnvmc.storage.files import write_atomically
from tnvmc.storage.run_files import is_running, read_run
from tnvmc.storage.run_folder import CONFIG, FolderInUse
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


def stopped_text(where: str, command: str, because: str) -> str:
    """Say where runs were stopped, and how they go on."""
    return f"{because and because + '; '}stopped in {where}; continue with: {command}"


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
    stopped: Callable[[str, int, str], Interrupted],
) -> dict[str, str]:
    """Make every run in turn, and give by their names why some of them failed.

    Args:
        several: the runs.
        make: makes the run of a name.
        stopped: the error of what was stopped from outside, by the name of the run, the exit status and
            the reason.
    """
    failed: dict[str, str] = {}
    for number, name in enumerate(several.runs, 1):
        print(f"[{number}/{len(several.runs)}] {name}", flush=True)
        try:
            make(name)
        except KeyboardInterrupt as stop:  # before its first step
            raise stopped(name, getattr(stop, "exit_status", 130), "") from None
        except Interrupted as stop:
            raise stopped(name, stop.exit_status, stop.because) from None
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


def make_run(settings: Settings, reference: Reference) -> None:
    """Make a run, or go on with it where it was begun."""
    begun = (Path(settings.run.out or "") / CONFIG).is_file()
    (continued_run if begun else new_run)(settings, reference)


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
