"""How far a long computation is: told by what computes, in threads and processes too.

What computes names its phase (`begin`) and tells the share that is done (`tell`); who shows it asks with
`watched`.  Nothing is asked: nothing is done, and the numbers are the same in either case.  Shares of
workers come through a small file, which threads and processes write to alike, each in its own place.
"""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Event
from typing import Generic, TypeVar

T = TypeVar("T")
Show = Callable[[str, float | None], None]
"""What is called now and then, in the thread that asked: the phase, and the share of it that is done, None
where nobody knows it."""

BETWEEN_LOOKS = 0.1  # seconds
_NUMBER = struct.Struct("d")


@dataclass
class Watch:
    """Shows a computation that is under way, a few times a second."""

    show: Show
    phase: str = ""
    _behind: float = 0.0  #: share of the phase that lies behind the present part
    _size: float = 1.0  #: of the present part
    _shown_at: float = field(default=-float("inf"))

    def begin(self, phase: str, known: bool = True) -> None:
        """Begin a phase, at a share of 0, or at one that is not known."""
        self.phase = phase
        if known:
            self.part(0.0, 1.0)
        else:
            self.show(phase, None)

    def part(self, behind: float, size: float) -> None:
        """Begin a part of the phase: what is told from here on are shares of it."""
        self._behind, self._size = behind, size
        self._show(behind)

    def at(self, share: float) -> None:
        """Tell the share of the present part that is done."""
        if time.monotonic() - self._shown_at > BETWEEN_LOOKS:
            self._show(self._behind + self._size * share)

    def _show(self, share: float) -> None:
        if self.phase:
            self._shown_at = time.monotonic()
            self.show(self.phase, min(share, 1.0))


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)
_STOP: ContextVar[Event | None] = ContextVar("stop", default=None)
_TELL: ContextVar[Callable[[float], None] | None] = ContextVar("tell", default=None)


@contextmanager
def watched(show: Show | None) -> Iterator[None]:
    """Show the computations inside the block, in this thread; None shows nothing there."""
    token = _WATCH.set(None if show is None else Watch(show))
    try:
        yield
    finally:
        _WATCH.reset(token)


def begin(phase: str, *, known: bool = True) -> None:
    """Name what is computed from here on; tell whether it is known how much that is."""
    if (watch := _WATCH.get()) is not None:
        watch.begin(phase, known)


def in_turn(parts: Sequence[T]) -> Iterator[T]:
    """Yield the parts of a phase, which are about equal."""
    for number, part in enumerate(parts):
        if (watch := _WATCH.get()) is not None:
            watch.part(number / len(parts), 1.0 / len(parts))
        yield part


class Stopped(Exception):
    """The result of a task is not wanted any more."""


@contextmanager
def until(stop: Event) -> Iterator[None]:
    """Let what is computed in this thread, inside the block, end at its next `tell` after `stop` was set."""
    token = _STOP.set(stop)
    try:
        yield
    finally:
        _STOP.reset(token)


def stop_event() -> Event | None:
    """What tells this thread that its result is not wanted any more; see `until`."""
    return _STOP.get()


def end_if_unwanted() -> None:
    """Raise `Stopped` where nobody waits any more for what this thread computes; see `until`."""
    if (stop := _STOP.get()) is not None and stop.is_set():
        raise Stopped


def tell(share: float) -> None:
    """Tell the share of a task that is done, from within it; see `Tally.task`.

    Raises:
        Stopped: nobody waits for the task; see `until`.
    """
    end_if_unwanted()
    if (told := _TELL.get()) is not None:
        told(share)


class Tally:
    """Shares of tasks that are done, of which each has its place in a file."""

    def __init__(self, watch: Watch, sizes: Sequence[int]) -> None:
        self._watch, self._sizes = watch, sizes
        place, self._path = tempfile.mkstemp(prefix="tnvmc-")
        with open(place, "wb") as file:
            file.write(bytes(_NUMBER.size * len(sizes)))

    def task(self, task: Callable[[range], T], number: int, *, look: bool) -> Callable[[range], T]:
        """Give the task with a place to tell to; with `look` it shows what it tells, in this thread."""
        return _Telling(task, self._path, number, self.look if look else None)

    def look(self) -> None:
        """Show how much of all tasks is done."""
        with contextlib.suppress(OSError, struct.error), open(self._path, "rb") as file:
            shares = [each[0] for each in _NUMBER.iter_unpack(file.read())]
            done = sum(size * share for size, share in zip(self._sizes, shares, strict=False))
            self._watch.at(done / sum(self._sizes))

    def close(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)


@contextmanager
def tally(sizes: Sequence[int]) -> Iterator[Tally | None]:
    """Give a place for what tasks of such sizes tell; None where nobody asked, or there is no room."""
    watch, found = _WATCH.get(), None
    if watch is not None:
        with contextlib.suppress(OSError):
            found = Tally(watch, sizes)
    try:
        yield found
    finally:
        if found is not None:
            found.close()


@dataclass(frozen=True)
class _Telling(Generic[T]):
    """A task with a place to tell to; picklable, for worker processes, where it does not look."""

    task: Callable[[range], T]
    path: str
    number: int
    look: Callable[[], None] | None

    def __call__(self, chunk: range) -> T:
        token = _TELL.set(self._write)
        try:
            result = self.task(chunk)
        finally:
            _TELL.reset(token)
        self._write(1.0)
        return result

    def _write(self, share: float) -> None:
        with contextlib.suppress(OSError), open(self.path, "r+b", buffering=0) as file:
            file.seek(self.number * _NUMBER.size)
            file.write(_NUMBER.pack(share))
        if self.look is not None:
            self.look()
