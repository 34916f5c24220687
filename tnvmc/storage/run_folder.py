"""The folder of a run: config.toml, history.jsonl, result.json, checkpoint.h5, energy.png.

With stages, stage-1.h5 and so on hold the measured state of each; without them measured.h5 does
where that is not the one of the checkpoint.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

from tnvmc.storage.files import clear_leftovers, read_plain, write_atomically
from tnvmc.storage.hdf5 import read_provenance
from tnvmc.storage.seals import (
    CHECK,
    PROVENANCE,
    RUN_ID,
    Lines,
    Provenance,
    SealBroken,
    check_toml,
    in_toml,
    mismatch,
    new_run,
    next_check,
    read_lines,
    sealed_json,
    sealed_toml,
    unsealed_json,
)

CONFIG, HISTORY, RESULT = "config.toml", "history.jsonl", "result.json"
CHECKPOINT, PICTURE = "checkpoint.h5", "energy.png"
MEASURED = "measured.h5"
"""The parameters of result.json, where they are not the last ones, which the checkpoint holds."""

SERIES = {
    "comparison.toml": "a comparison",
    "sectors.toml": "several sectors",
    "starts.toml": "several starts",
    "scan.toml": "a scan",
    "average.toml": "an average",
}
"""Settings files of several runs, and what the folder of each holds."""

_FILES = (CONFIG, HISTORY, RESULT, CHECKPOINT, MEASURED)


def stage_file(number: int | str) -> str:
    """Give the name of the file that keeps the parameters of the end of a stage."""
    return f"stage-{number}.h5"


class FolderError(ValueError):
    """A folder that cannot hold this run."""


class FolderInUse(FolderError):
    """A folder that another process is writing."""


class DiskError(Exception):
    """The disk refused a write: it is full, or not ours."""

    exit_status = 2


@contextmanager
def disk_errors(
    path: Path, kind: type[Exception] = FolderError, done: str = "written"
) -> Iterator[None]:
    """Say of an error of the disk which folder or file it was."""
    try:
        yield
    except OSError as error:
        raise kind(f"{path}: cannot be {done} ({error.strerror or error})") from None


class Interrupted(Exception):
    """Runs that were stopped, with a checkpoint written; `because` is empty for Ctrl-C."""

    def __init__(self, where: str, command: str, exit_status: int, because: str = "") -> None:
        reason = f"{because}; " if because else ""
        super().__init__(f"{reason}stopped {where}; continue with: {command}")
        self.exit_status, self.because = exit_status, because


class RunFolder:
    """Holds one run, in a ``with`` statement; made by `create` or, for one that goes on, `reopen`.

    history.jsonl is locked while it is open, so that two processes never write one run.
    """

    def __init__(self, path: Path, history: IO[bytes], provenance: Provenance) -> None:
        self.path, self._history = path, history
        self.labels: dict[str, Any] = {}  #: of every line of history.jsonl from now on
        self.provenance = provenance  #: of what is written now

    @classmethod
    def create(cls, path: Path, settings: Mapping[str, Any]) -> "RunFolder":
        """Make the folder and write config.toml; raises as `refuse_occupied`, or OSError."""
        refuse_occupied(path)
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path, _locked(path), new_run())
        try:
            refuse_occupied(path)  # another process may have been faster
            folder.write_settings(settings)
        except BaseException as error:
            folder.close()
            if not isinstance(error, FolderError):
                (path / HISTORY).unlink()
            raise
        return folder

    @classmethod
    def reopen(
        cls, path: Path, next_step: int | None = None, checkpoint: Provenance | None = None,
        own_settings: bool = True,
    ) -> "RunFolder":  # fmt: skip
        """Open the folder of a run that goes on with `next_step`; later history is cut off.

        Without `next_step` the whole history stays.  `checkpoint` is what the checkpoint that was
        read says of itself; with `own_settings` config.toml must belong to it.

        Raises:
            FolderError: no run there, another process is writing it or has gone on with it, a line
                before `next_step` is missing or changed, or a file is of another run.
            OSError: no permission.
        """
        require_settings(path)
        if next_step != 0 and not (path / HISTORY).exists():
            raise FolderError(f"{path}: {HISTORY} is missing; put it back. {_NEW_RUN}")
        history = _locked(path)
        try:
            history.seek(0)
            lines = read_lines(history.read())
            if checkpoint is not None and read_provenance(path / CHECKPOINT) != checkpoint:
                raise FolderInUse(f"{path}: another process has continued this run; start again")
            run_id = _tied(path, lines, checkpoint, own_settings)
            step = _step_of(lines, path / HISTORY, next_step)
            history.truncate(lines.ends[step - 1] if step else 0)
            check = lines.checks[step - 1] if step else ""
            clear_leftovers(path)
        except BaseException:
            history.close()
            raise
        return cls(path, history, Provenance(run_id, step, check))

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Write config.toml: everything that ran, defaults filled in."""
        import tomli_w

        self.check_in_place()
        text = tomli_w.dumps(settings) + self.provenance.as_comment()
        write_atomically(self.path / CONFIG, sealed_toml(text))

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one line, strict JSON, to history.jsonl; the system has it on return."""
        self.check_in_place()
        here = self.provenance
        first = {} if here.step else {RUN_ID: here.run_id}
        written = json.loads(json.dumps({**record, **self.labels, **first}, allow_nan=False))
        check = next_check(here.check, written)
        line = (json.dumps({**written, CHECK: check}) + "\n").encode()
        while line:  # a disk that is nearly full takes a part, and refuses the rest
            line = line[self._history.write(line) :]
        self.provenance = Provenance(here.run_id, here.step + 1, check)

    def sync(self) -> None:
        """Wait until history.jsonl is on the disk."""
        self.check_in_place()
        os.fsync(self._history.fileno())

    def history(self) -> list[dict[str, Any]]:
        """Read all lines of history.jsonl."""
        self.check_in_place()
        return list(read_lines((self.path / HISTORY).read_bytes()).records)

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write result.json, strict JSON."""
        self.check_in_place()
        content = {**result, PROVENANCE: self.provenance.as_dict()}
        write_atomically(self.path / RESULT, sealed_json(content, indent=2))

    def read_result(self) -> dict[str, Any] | None:
        """Read result.json; None where there is none of the last step, or none to be trusted."""
        with contextlib.suppress(OSError, ValueError):
            result = unsealed_json(read_plain(self.path / RESULT).decode())
            if Provenance.of(result.pop(PROVENANCE, None)) == self.provenance:
                return result
        return None

    def check_in_place(self) -> None:
        """Raise `FolderError` where the folder was removed, or another one stands in its place."""
        try:
            there = os.stat(self.path / HISTORY)
        except OSError:
            there = None
        if there is not None and os.path.samestat(there, os.fstat(self._history.fileno())):
            return
        what = "the folder is gone"
        if self.path.exists():
            what = f"{HISTORY} is gone" if there is None else "another folder has taken its place"
        raise FolderError(f"{self.path}: {what}, and the run with it; start again")

    def close(self) -> None:
        """Close history.jsonl and let go of its lock."""
        self._history.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_run_folder(path: Path) -> None:
    """Raise `FolderError` where a path is no folder of a run, with its settings unchanged."""
    require_folder(path)
    require_settings(path, "")
    check_settings(path / CONFIG)


def require_folder(path: Path) -> None:
    """Raise `FolderError` where a path is no folder."""
    if not path.is_dir():
        what = "is a file, not the folder of a run" if path.exists() else "no such folder"
        raise FolderError(f"{path}: {what}")


def refuse_series(path: Path) -> None:
    """Raise `FolderError`, with the runs that are in it, where a folder holds several runs."""
    held = [what for name, what in SERIES.items() if (path / name).is_file()]
    if held:
        runs = sorted(str(file.parent) for file in path.glob(f"*/{CONFIG}"))
        tried = "; try " * bool(runs) + " or ".join(repr(r) if " " in r else r for r in runs)
        raise FolderError(f"{path}: holds {held[0]}{tried}")


def check_settings(path: Path) -> None:
    """Raise `FolderError` where a file of settings is not as a run wrote it."""
    with disk_errors(path, done="read"):
        content = read_plain(path)
    try:
        check_toml(content)
    except SealBroken as error:
        raise FolderError(
            f"{path}: {error}. Put it back; to change settings use --set, or name a file of your "
            "own to go on by"
        ) from None


def require_settings(path: Path, wanted: str = " to resume") -> None:
    """Raise `FolderError` where a folder holds no settings, which are `wanted`."""
    refuse_series(path)
    if (path / CONFIG).is_file():
        return
    hint = f"; name the folder of the run, as {path.parent}" if path.is_file() else ""
    if (path / HISTORY).is_file() and not run_files_in(path):
        hint = "; it was stopped before it began: start it again, with tnvmc run FILE.toml"
    raise FolderError(f"{path}: holds no run{wanted} ({CONFIG} is missing){hint}")


def run_files_in(path: Path) -> list[str]:
    """Give the files of a run in a folder; an empty history alone is none."""
    held = [name for name in _FILES if os.path.lexists(path / name)]
    held += sorted(file.name for file in path.glob(stage_file("*")))
    begun = held != [HISTORY] or (path / HISTORY).stat().st_size > 0
    return held if begun else []


def refuse_occupied(path: Path, other: str = "") -> None:
    """Raise `FolderError` where a folder holds a run or its picture, or the path is no folder.

    `other` says what to do instead of going on with that run.
    """
    another = other or "choose another --out"
    if os.path.lexists(path) and not path.is_dir():
        raise FolderError(f"{path}: is a file or a dead link; {another}")
    refuse_series(path)
    if held := run_files_in(path):
        or_on = other or f"continue it with --resume {path} or {another}"
        raise FolderError(f"{path}: holds a run already ({', '.join(held)}); {or_on}")
    if os.path.lexists(path / PICTURE):
        raise FolderError(f"{path}: holds another {PICTURE}, which a run writes; {another}")


def _locked(path: Path) -> IO[bytes]:
    place = path / HISTORY
    if os.path.lexists(place):
        with disk_errors(place, done="read"):
            read_plain(place)
    # Unbuffered: a line that a full disk refused must not come back when the file is closed.
    history = open(place, "ab+", buffering=0)  # noqa: SIM115
    try:
        import fcntl

        fcntl.flock(history, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # no locks on this system
        pass
    except OSError:
        history.close()
        raise FolderInUse(f"{path}: another process is writing this run") from None
    return history


def _step_of(lines: Lines, path: Path, next_step: int | None) -> int:
    """Count the lines of history.jsonl before `next_step`, none of which may be missing."""
    n_steps = len(lines.records)
    told = ""
    if next_step is not None and n_steps < next_step:
        told = f"tells of {n_steps} steps, the checkpoint of {next_step}; restore missing lines"
    if lines.bad is not None and not lines.torn and (told or next_step is None):
        told = f"line {lines.bad} is damaged ({lines.why}); put the file back"
    if told:
        raise FolderError(f"{path}: {told}. {_NEW_RUN}")
    return n_steps if next_step is None else next_step


def check_tied(path: Path) -> Provenance:
    """Give what the checkpoint of a run says of itself.

    Raises:
        FolderError: it, the settings, the history or the result are not of one run.
        StateFileError: a damaged checkpoint.
    """
    checkpoint = require_provenance(path)
    # After the checkpoint: a run that is under way only adds lines.
    _tied(path, _readable_history(path), checkpoint, own_settings=True)
    return checkpoint


def _readable_history(path: Path) -> Lines:
    try:
        return read_lines(read_plain(path / HISTORY))
    except OSError:
        return read_lines(b"{}\n")  # whose first line is bad


def require_provenance(path: Path) -> Provenance:
    """Give what the checkpoint of a run says of itself; `FolderError` where it is of no run."""
    checkpoint = read_provenance(path / CHECKPOINT)
    if checkpoint is None:
        why = f"{CHECKPOINT} is of no run, or of an earlier version; put the right one back"
        raise FolderError(f"{path}: {why}, or start from it by ansatz.init")
    return checkpoint


def _tied(path: Path, lines: Lines, checkpoint: Provenance | None, own_settings: bool) -> str:
    """Give the id of the run in a folder; `FolderError` where a file is of another one."""
    settings = found = None
    with contextlib.suppress(OSError, ValueError):
        settings = in_toml(read_plain(path / CONFIG).decode())
    first = settings if checkpoint is None else checkpoint
    run_id = new_run().run_id if first is None else first.run_id
    if checkpoint is not None and mismatch(checkpoint, run_id, lines) == "other_steps":
        raise FolderError(
            f"{path}: {CHECKPOINT} was not written after step {checkpoint.step} of {HISTORY}, but "
            f"of the history of a copy, or of an earlier attempt; {_RIGHT_ONE}"
        )
    other = [HISTORY] if lines.records and lines.run_id != run_id else []
    if own_settings and mismatch(settings, run_id, lines) in ("other_run", "other_steps"):
        other.append(CONFIG)
    with contextlib.suppress(OSError, ValueError):  # a damaged one is measured anew
        result = unsealed_json(read_plain(path / RESULT).decode())
        found = mismatch(Provenance.of(result.get(PROVENANCE)), run_id, None)
    other += [RESULT] if found is not None else []
    if other:
        than = CONFIG if checkpoint is None else CHECKPOINT
        raise FolderError(f"{path}: {other[0]} is of another run than {than}; {_RIGHT_ONE}")
    return run_id


_RIGHT_ONE = "put the right one back (nothing has been changed)"
_NEW_RUN = (
    "Without them a new run can start from the state, with ansatz.init = the checkpoint "
    "(nothing has been changed)"
)
