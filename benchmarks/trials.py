"""Trials of the command line in forked processes: cheap, and a crash or a hang is seen as one."""

from __future__ import annotations

import multiprocessing.util
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HANG = 60.0  # seconds after which a command counts as hanging
MEMORY = 6 * 2**30  # bytes of address space of a trial


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit status (negative: the signal that ended it), what it told."""

    status: int
    out: str
    err: str
    seconds: float
    hung: bool = False
    asked: bool = False  #: to end, by a signal

    @property
    def kind(self) -> str:
        """ "ok", "refused", "stopped", "killed", or what must not be."""
        lines = self.err.splitlines()
        if self.hung:
            return "hang"
        if "Traceback" in self.out + self.err or "Error:" in self.err:
            return "traceback"
        if self.status == -signal.SIGKILL:
            return "killed"
        if self.asked and self.status in (-signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT):
            return "stopped"  # before it had anything to save
        if self.status < 0:
            return "crash"
        if self.status == 0:
            return "ok"
        told = bool(lines) and all(line.startswith("tnvmc") for line in lines)
        if self.status in (1, 2):
            return "refused" if told or (self.status == 1 and "DAMAGED" in self.out) else "untold"
        return "stopped" if told or self.status == 141 else "untold"


def forked(body: Callable[[], int], folder: Path, logs: Path) -> int:
    """Run `body` in a child of this warm process, in a folder and a session of its own; its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        os.setsid()
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(logs / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        status = body()
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 1
    except BaseException:  # noqa: BLE001
        import traceback

        traceback.print_exc()
    finally:
        threading._shutdown()  # as a process that was not forked: workers leave nothing behind
        multiprocessing.util._exit_function()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def command(*arguments: str) -> Callable[[], int]:
    """Give what a child does: the command line, as ``tnvmc`` runs it."""

    def body() -> int:
        from tnvmc.app.cli import main

        return main(list(arguments))

    return body


def awaited(
    pid: int, logs: Path, limit: float = HANG, stop_after: float | None = None, asked: bool = False
) -> Ended:
    """Wait for a child; ask it to end (SIGTERM) after `stop_after`, kill it after `limit` more.

    `asked` tells that it was asked to end already.
    """
    began, final = time.monotonic(), stop_after is None
    deadline = began + (limit if stop_after is None else stop_after)
    hung = False
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            break
        if time.monotonic() > deadline:
            if final:
                hung = True
                os.killpg(pid, signal.SIGKILL)
                deadline += limit
            else:
                final, asked, deadline = True, True, time.monotonic() + limit
                os.kill(pid, signal.SIGTERM)
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(status)
    told = [(logs / name).read_text(errors="replace") for name in ("out", "err")]
    return Ended(code, *told, time.monotonic() - began, hung, asked)


def run(
    arguments: Sequence[str], folder: Path, logs: Path, stop_after: float | None = None
) -> Ended:
    """Run one command to its end."""
    return awaited(forked(command(*arguments), folder, logs), logs, stop_after=stop_after)


def warm() -> None:
    """Import all that a command needs, so that children have it; the picture of a run is not drawn."""
    import h5py  # noqa: F401
    import jinja2  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import rich.console  # noqa: F401
    import scipy.sparse.linalg
    import scipy.special  # noqa: F401

    import tnvmc.app.compare
    import tnvmc.app.converge
    import tnvmc.app.measure
    import tnvmc.app.run
    import tnvmc.report.page
    import tnvmc.report.plots
    import tnvmc.report.show

    tnvmc.app.compare.draw_comparison = lambda _: {}
    tnvmc.app.run.energy_picture = lambda *_: b"\x89PNG"  # half of the time of a short run
