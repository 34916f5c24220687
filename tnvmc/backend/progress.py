"""Progress of a long computation, for whoever displays it, and its end where nobody needs it.

What computes names its phase (`begin`) and the share that is done (`tell`); a display asks for both
with `watched`.  No number depends on either.  `tell` is also where a computation ends in a thread
whose result is not needed any more (`stopped_by`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Event
from typing import TypeVar

T = TypeVar("T")
Show = Callable[[str, float | None], None]
"""Is called now and then, in the thread that asked, with the phase and the share of it that is
done, None where that is not known."""

INTERVAL = 0.1
"""Seconds between two calls of a display, and between two looks at threads that compute."""


class _Watch:
    """A display, with the phase and the part of it that are being computed."""

    def __init__(self, show: Show) -> None:
        self.show = show
        self.phase = ""
        self.part = (0.0, 1.0)  #: share of the phase before the present part, and that of the part
        self.shown_at = -float("inf")

    def begin_part(self, before: float, size: float) -> None:
        self.part, self.shown_at = (before, size), -float("inf")
        self.at(0.0)

    def at(self, share: float) -> None:
        """Show the share of the present part that is done, unless one was shown just now."""
        if self.phase and time.monotonic() - self.shown_at > INTERVAL:
            self.shown_at = time.monotonic()
            before, size = self.part
            self.show(self.phase, min(before + size * share, 1.0))


_WATCH: ContextVar[_Watch | None] = ContextVar("watch", default=None)
_STOP: ContextVar[Event | None] = ContextVar("stop", default=None)
_TELL: ContextVar[Callable[[float], None] | None] = ContextVar("tell", default=None)


class Stopped(Exception):
    """The result of a task is not needed any more."""


@contextmanager
def _set(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def watched(show: Show | None) -> Iterator[None]:
    """Show the computations inside the block, in this thread; None shows nothing there."""
    with _set(_WATCH, None if show is None else _Watch(show)):
        yield


@contextmanager
def stopped_by(stop: Event) -> Iterator[None]:
    """Let what this thread computes inside the block end at its next `tell` after `stop` is set."""
    with _set(_STOP, stop):
        yield


def begin(phase: str, *, known: bool = True) -> None:
    """Name what is computed from here on, and say whether its share will be known."""
    if (watch := _WATCH.get()) is None:
        return
    watch.phase = phase
    if known:
        watch.begin_part(0.0, 1.0)
    else:
        watch.show(phase, None)


def in_turn(parts: Sequence[T]) -> Iterator[T]:
    """Yield the parts of a phase, which take about equally long."""
    for number, part in enumerate(parts):
        if (watch := _WATCH.get()) is not None:
            watch.begin_part(number / len(parts), 1.0 / len(parts))
        yield part


def raise_if_stopped() -> None:
    """Raise `Stopped` if the result of this thread is not needed any more; see `stopped_by`."""
    if (stop := _STOP.get()) is not None and stop.is_set():
        raise Stopped


def tell(share: float) -> None:
    """Report the share of a task that is done, from within it; raises as `raise_if_stopped`."""
    if (stop := _STOP.get()) is not None and stop.is_set():
        raise Stopped
    if (report := _TELL.get()) is not None:
        report(share)


@dataclass
class Shares:
    """Shares of tasks that are done, as the tasks report them, in this thread or in others."""

    sizes: Sequence[int]  #: of the tasks, in proportion to the time they take
    _done: dict[int, float] = field(default_factory=dict)
    _watch: _Watch | None = field(default_factory=_WATCH.get)

    def show(self) -> None:
        """Show the share of all tasks that is done; only in the thread that made this."""
        if self._watch is not None:
            done = sum(self.sizes[number] * share for number, share in [*self._done.items()])
            self._watch.at(done / sum(self.sizes))

    def run(
        self, task: Callable[[range], T], number: int, chunk: range, stop: Event | None = None
    ) -> T:
        """Run a task and note what it reports; with `stop` in another thread, which that ends."""

        def report(share: float) -> None:
            self._done[number] = share
            if stop is None and self._watch is not None:
                self.show()

        telling, stopping = _TELL.set(report), _STOP.set(stop or _STOP.get())
        try:
            result = task(chunk)
        finally:
            _TELL.reset(telling)
            _STOP.reset(stopping)
        report(1.0)
        return result
