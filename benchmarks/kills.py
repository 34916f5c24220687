"""Commands that are killed, at random moments and inside every write, and what is left of them."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Self

from trials import Ended, awaited, command, forked, run
from workplace import BAD, Workplace, outcome, plain, table_of

from tnvmc.storage.seals import unsealed_json

Row = tuple[str, str, str]


@dataclass(frozen=True)
class Job:
    """A command that is killed, and how it is gone on with."""

    name: str
    arguments: tuple[str, ...]
    pooled: tuple[str, ...]  #: the same with two threads
    begins: str | None  #: folder that it begins with a copy of
    again: tuple[str, ...]  #: what is told to go on
    result: Callable[[Path], Any]  #: all that two equal ones share


def observables(folder: Path) -> Any:
    """What `tnvmc measure` leaves."""
    return plain(unsealed_json((folder / "observables.json").read_text())), outcome(folder)


_RUN, _COMPARE = ("run", "study.toml", "--out", "trial"), ("compare", "both.toml", "--out", "trial")
_MEASURE = ("measure", "trial", "--n-samples", "64", "--no-pairs")
_CONVERGE = ("converge", "trial", "--chi", "2", "--n-samples", "32")
_TWO = ("--set", "run.threads=2")
JOBS = {
    job.name: job
    for job in (
        Job("run", _RUN, (*_RUN, *_TWO, "--set", "run.checkpoint_every=1"), None,
            ("run", "--resume", "trial", "--set", "run.threads=1"), outcome),
        Job("measure", _MEASURE, (*_MEASURE, *_TWO), "whole", _MEASURE, observables),
        Job("converge", _CONVERGE, _CONVERGE, "whole", _CONVERGE, outcome),
        Job("compare", _COMPARE, (*_COMPARE, *_TWO), None,
            ("compare", "--resume", "trial", "--set", "run.threads=1"), table_of),
    )
}  # fmt: skip
ORDER = ("run", "measure", "run", "converge", "run", "compare")
ASKED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def begin(work: Workplace, job: Job, pooled: bool = False) -> None:
    """Make what the command finds."""
    shutil.rmtree(work.path / "trial", ignore_errors=True)
    if job.begins:
        work.copy("pooled" if pooled and job.name == "converge" else job.begins)


def dying_at(arguments: Sequence[str], n: int, part: float) -> Callable[[], int]:
    """A command in which the n-th of all writes, syncs and renames is the last thing that happens.

    `part` of what a write is given reaches the file; a rename or a sync happens if it is over 1/2.
    """

    counted = 0

    def wrapped(call: Callable[..., Any], cut: bool) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            nonlocal counted
            counted += 1
            if counted == n:
                if cut:
                    content = bytes(arguments[-1])
                    call(*arguments[:-1], content[: int(part * len(content))])
                    getattr(arguments[0], "flush", lambda: None)()
                elif part > 0.5:
                    call(*arguments, **options)
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return counting

    class Dying:
        def __init__(self, file: Any) -> None:
            self._file = file
            self.write = wrapped(file.write, cut=True)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *what: object) -> None:
            self._file.close()

    def opening(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        file = open(path, mode, *arguments, **options)  # noqa: SIM115
        return Dying(file) if set("wa+") & set(mode) and "b" in mode else file

    def body() -> int:
        from tnvmc.storage import files, run_folder

        for name in ("fsync", "replace", "mkdir"):
            setattr(os, name, wrapped(getattr(os, name), cut=False))
        files.open = run_folder.open = opening  # type: ignore[attr-defined]
        return command(*arguments)()

    return body


def writes_of(work: Workplace, job: Job) -> int:
    """Number of places at which `dying_at` can end a command."""
    low, high = 1, 2
    while not _survives(work, job, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _survives(work, job, middle) else (middle, high)
    return low


def _survives(work: Workplace, job: Job, n: int) -> bool:
    begin(work, job)
    pid = forked(dying_at(job.arguments, n, 1.0), work.path, work.logs)
    return awaited(pid, work.logs).kind == "ok"


def members(session: int) -> list[int]:
    """Processes of a session that live, by /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


@dataclass(frozen=True)
class Whole:
    """A command that was not killed: what it leaves, its seconds, its writes in random order."""

    result: Any
    seconds: float
    places: list[tuple[int, float]]

    @classmethod
    def of(cls, work: Workplace, job: Job, rng: random.Random) -> Self:
        begin(work, job)
        ended = work.do(*job.arguments)
        result = job.result(work.path / "trial")
        writes = writes_of(work, job)
        print(f"{job.name} takes {ended.seconds:.2f} s, {writes} writes, syncs and renames")
        places = list(product(range(1, writes + 1), (0.0, 0.3, 1.0)))
        rng.shuffle(places)
        return cls(result, ended.seconds, places)


def finish(work: Workplace, job: Job, whole: Whole) -> tuple[str, list[Ended]]:
    """Go on with what was killed, or start it again where that is what is told, and compare."""
    ends = []
    for _ in range(2):
        ended = run(job.again, work.path, work.logs)
        begun = [*(work.path / "trial").glob("**/config.toml")]
        if ended.kind == "refused" and not begun and not job.begins:
            ended = run(job.arguments, work.path, work.logs)
        ends.append(ended)
        if ended.kind != "ok":
            return ended.kind if ended.kind in BAD else "lost", ends
    folder = work.path / "trial"
    if [path for path in folder.rglob("*") if path.suffix == ".tmp"]:
        return "leftovers", ends
    return "same bits" if job.result(folder) == whole.result else "silent", ends


def kills(work: Workplace, count: int, rng: random.Random) -> list[Row]:
    """(command and who, when or how, outcome) of each kill."""
    wholes = {name: Whole.of(work, job, rng) for name, job in JOBS.items()}
    trials, found = Counter[str](), []
    for number in range(count):
        job = JOBS[ORDER[number % len(ORDER)]]
        whole, turn = wholes[job.name], trials[job.name] % 10
        trials[job.name] += 1
        if turn < 6:
            row, pid, ended = _inside_a_write(work, job, whole)
        elif turn < 8:
            row, pid, ended = _at_a_moment(work, job, whole, rng)
        else:
            row, pid, ended = _with_threads(work, job, whole, rng)
        told, ends = "worker left", [ended]
        if ended.kind in BAD:
            told = ended.kind
        elif _all_end(pid):
            told, more = finish(work, job, whole)
            ends += more
        if told != "same bits":
            print(*row, told, *ends, flush=True)
        found.append((f"{job.name}: {row[0]}", row[1], told))
    return found


Killed = tuple[tuple[str, str], int, Ended]


def _inside_a_write(work: Workplace, job: Job, whole: Whole) -> Killed:
    n, part = whole.places[0]
    whole.places.append(whole.places.pop(0))
    begin(work, job)
    pid = forked(dying_at(job.arguments, n, part), work.path, work.logs)
    return ("parent", "SIGKILL inside a write"), pid, awaited(pid, work.logs)


def _at_a_moment(work: Workplace, job: Job, whole: Whole, rng: random.Random) -> Killed:
    number = rng.choice((signal.SIGKILL, signal.SIGKILL, *ASKED))
    begin(work, job)
    pid = forked(command(*job.arguments), work.path, work.logs)
    time.sleep(rng.uniform(0.02, whole.seconds))
    os.kill(pid, number)
    ended = awaited(pid, work.logs, asked=number in ASKED)
    return ("parent", f"{number.name} at a random moment"), pid, ended


def _with_threads(work: Workplace, job: Job, whole: Whole, rng: random.Random) -> Killed:
    """Kill a command that has two threads, alone or with the group of its processes."""
    number, who = rng.choice((signal.SIGKILL, *ASKED)), rng.choice(("group", "parent"))
    begin(work, job, pooled=True)
    pid = forked(command(*job.pooled), work.path, work.logs)
    time.sleep(rng.uniform(0.02, whole.seconds))
    _signalled(os.kill if who == "parent" else os.killpg, pid, number)
    ended = awaited(pid, work.logs, asked=number in ASKED)
    return (who, f"{number.name} with two threads"), pid, ended


def _signalled(kill: Callable[[int, int], None], whom: int, number: int) -> None:
    try:
        kill(whom, number)
    except ProcessLookupError:  # it has come to its end
        return


def _all_end(session: int) -> bool:
    """Wait 5 seconds for the processes of a session; those that are left are killed."""
    deadline = time.monotonic() + 5
    while members(session):
        if time.monotonic() > deadline:
            _signalled(os.killpg, session, signal.SIGKILL)
            return False
        time.sleep(0.05)
    return True
