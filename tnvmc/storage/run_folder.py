"""The folder of a run: config.toml, history.jsonl, result.json, checkpoint.h5, energy.png.

With stages, stage-1.h5 and so on hold the state at the end of each.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

from tnvmc.storage.files import write_atomically

CONFIG, HISTORY, RESULT = "config.toml", "history.jsonl", "result.json"
CHECKPOINT, PICTURE = "checkpoint.h5", "energy.png"
_FILES = (CONFIG, HISTORY, RESULT, CHECKPOINT)


def stage_file(number: int | str) -> str:
    """Give the name of the file that keeps the parameters of the end of a stage."""
    return f"stage-{number}.h5"


class FolderError(ValueError):
    """A folder that cannot hold this run."""


class RunFolder:
    """Holds one run; made by `create` or, for a run that goes on, `reopen`.

    history.jsonl is locked while the object lives, so that two processes never write one run.
    Close it, or use it in a ``with`` statement.
    """

    def __init__(self, path: Path, history: IO[bytes]) -> None:
        self.path = path
        self.labels: dict[str, Any] = {}  #: of every line of history.jsonl from now on
        self._history = history

    @classmethod
    def create(cls, path: Path, settings: Mapping[str, Any]) -> RunFolder:
        """Make the folder and write config.toml.

        Raises:
            FolderError: the folder holds a run already, or is no folder.
            OSError: no space or no permission.
        """
        refuse_occupied(path)
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path, _locked(path))
        try:
            folder.write_settings(settings)
        except BaseException:
            folder.close()
            (path / HISTORY).unlink()
            raise
        return folder

    @classmethod
    def reopen(cls, path: Path, next_step: int) -> RunFolder:
        """Open the folder of a run that goes on with `next_step`; later history is cut off.

        Raises:
            FolderError: the folder holds no run, or another process is writing it.
        """
        if not (path / CONFIG).is_file():
            raise FolderError(f"{path}: holds no run to resume ({CONFIG} is missing)")
        history = _locked(path)
        _cut(history, next_step)
        return cls(path, history)

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Write config.toml: everything that ran, defaults filled in."""
        import tomli_w

        write_atomically(self.path / CONFIG, tomli_w.dumps(settings).encode())

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one line, strict JSON, to history.jsonl; it is in the hands of the system on return."""
        written = {**record, **self.labels}
        line = (json.dumps(written, allow_nan=False) + "\n").encode()
        while line:  # a disk that is nearly full takes a part, and refuses the rest
            line = line[self._history.write(line) :]

    def sync(self) -> None:
        """Wait until history.jsonl is on the disk."""
        os.fsync(self._history.fileno())

    def history(self) -> list[dict[str, Any]]:
        """Read all lines of history.jsonl."""
        return [line for line, _ in _lines((self.path / HISTORY).read_bytes())]

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write result.json, strict JSON."""
        text = json.dumps(dict(result), indent=2, allow_nan=False) + "\n"
        write_atomically(self.path / RESULT, text.encode())

    def read_result(self) -> dict[str, Any] | None:
        """Read result.json; None where there is none, or none that can be read."""
        try:
            result = json.loads((self.path / RESULT).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return result if isinstance(result, dict) else None

    def close(self) -> None:
        """Close history.jsonl and let go of its lock."""
        self._history.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_run_folder(path: Path) -> None:
    """Raise `FolderError` where a path is no folder that holds a run."""
    if not path.is_dir():
        what = "is a file, not the folder of a run" if path.exists() else "no such folder"
        raise FolderError(f"{path}: {what}")
    if not (path / CONFIG).is_file():
        raise FolderError(f"{path}: holds no run ({CONFIG} is missing)")


def refuse_occupied(path: Path) -> None:
    """Raise `FolderError` where a folder holds a run already, or the path is no folder."""
    if path.exists() and not path.is_dir():
        raise FolderError(f"{path}: is a file, not a folder; choose another --out")
    held = [name for name in _FILES if (path / name).exists()]
    held += sorted(file.name for file in path.glob(stage_file("*")))
    if held:
        raise FolderError(
            f"{path}: holds a run already ({', '.join(held)}); "
            f"continue it with --resume {path} or choose another --out"
        )


def _locked(path: Path) -> IO[bytes]:
    # Unbuffered: a line that a full disk refused must not come back when the file is closed.
    history = open(path / HISTORY, "ab+", buffering=0)  # noqa: SIM115
    try:
        import fcntl

        fcntl.flock(history, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # no locks on this system
        pass
    except OSError:
        history.close()
        raise FolderError(f"{path}: another process is writing this run") from None
    return history


def _cut(history: IO[bytes], next_step: int) -> None:
    """Cut history.jsonl before the first line that is not before `next_step`, or torn at the end.

    Raises FolderError where lines that can be read follow one that cannot: they would be lost.
    """
    history.seek(0)
    content = history.read()
    lines = _lines(content)
    read = lines[-1][1] if lines else 0
    if b"\n" in content[read:].rstrip(b"\n"):
        raise FolderError(
            f"{Path(history.name)}: line {len(lines) + 1} is damaged and others follow it; put it "
            "right, or remove it, and resume again (nothing has been changed)"
        )
    end = 0
    for line, stop in lines:
        if line["step"] >= next_step:
            break
        end = stop
    history.truncate(end)


def _lines(content: bytes) -> list[tuple[dict[str, Any], int]]:
    """Parse lines up to the first torn one; with each, the offset of its end."""
    parsed: list[tuple[dict[str, Any], int]] = []
    end = 0
    for line in content.splitlines(keepends=True):
        end += len(line)
        try:
            record = json.loads(line)
        except ValueError:
            break
        if not line.endswith(b"\n") or not isinstance(record, dict) or "step" not in record:
            break
        parsed.append((record, end))
    return parsed
