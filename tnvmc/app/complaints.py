"""What the command line says where something fails, and its exit statuses."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from typing import Any

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130

FORMAT = warnings.formatwarning


def warning_line(message: Warning | str, category: type[Warning], *place: Any, **line: Any) -> str:
    """Tell what Python would be warned of in one line; other warnings as ever."""
    ours = category.__module__.startswith("tnvmc.")
    return f"tnvmc: {message}\n" if ours else FORMAT(message, category, *place, **line)


def open_streams() -> None:
    """Let what is printed go nowhere where the process was started without standard streams."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def give_up_lost_streams() -> None:
    """Keep Python from complaining, at its end, that it cannot write what nobody reads."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def explain(error: Exception) -> int:
    """Print errors that users can do something about; let others through with their traceback."""
    told, failed = f"{error}", False
    if isinstance(error, MemoryError):
        told = f"not enough memory: {error}"
    elif isinstance(error, OSError):  # of the system; mistakes of the program are others
        told = f"{error.filename or 'output'}: {error.strerror or error}"
    elif not isinstance(error, ValueError):
        from tnvmc.app.run import DiskError, Interrupted
        from tnvmc.vmc.step import OptimisationFailed

        failed = isinstance(error, OptimisationFailed)
        if not failed and not isinstance(error, DiskError | Interrupted):
            raise error
    lines = getattr(error, "lines", [told])
    return complain(getattr(error, "exit_status", FAILED if failed else BAD_INPUT), *lines)


def complain(status: int, *lines: str) -> int:
    """Print lines on stderr and give the exit status back."""
    for line in lines:
        with contextlib.suppress(OSError):  # nobody reads it
            print(f"tnvmc: {' '.join(line.split())}", file=sys.stderr, flush=True)
    return status
