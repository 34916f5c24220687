"""Progress of a long computation, for whoever displays it, and how it is ended.

What computes names its phase (`begin`) and the share that is done (`tell`); a display asks for both
with `watched`.  No number depends on either.  `tell` is also where a computation ends in a thread
whose result is not needed any more (`stopped_by`).  Ctrl-C and termination come at once in the
middle of a step, never in the middle of a record (`uninterrupted`).
"""

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Event
from types import FrameType
from typing import Any, TypeVar

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
        self.phase, self.shown = "", 0.0
        self.part = (0.0, 1.0)  #: share of the phase before the present part, and that of the part
        self.shown_at = -float("inf")

    def begin_part(self, before: float, size: float) -> None:
        self.part, self.shown, self.shown_at = (before, size), before, -float("inf")
        self.at(0.0)

    def at(self, share: float) -> None:
        """Show the share of the part that is done, unless one was just shown; it never falls."""
        if self.phase and time.monotonic() - self.shown_at > INTERVAL:
            self.shown_at = time.monotonic()
            self.shown = max(self.shown, min(self.part[0] + self.part[1] * share, 1.0))
            self.show(self.phase, self.shown)


_WATCH: ContextVar[_Watch | None] = ContextVar("watch", default=None)
STOP: ContextVar[Event | None] = ContextVar("stop", default=None)
TELL: "ContextVar[tuple[Shares, int] | None]" = ContextVar("tell", default=None)


class Stopped(Exception):
    """The result of a task is not needed any more."""


@contextmanager
def bound(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a variable of the context inside the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def watched(show: Show | None) -> AbstractContextManager[None]:
    """Show the computations inside the block, in this thread; None shows nothing there."""
    return bound(_WATCH, None if show is None else _Watch(show))


def stopped_by(stop: Event) -> AbstractContextManager[None]:
    """Let what this thread computes inside the block end at its next `tell` after `stop` is set."""
    return bound(STOP, stop)


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
    if (stop := STOP.get()) is not None and stop.is_set():
        raise Stopped


def tell(share: float) -> None:
    """Report the share of a task that is done, from within it; raises as `raise_if_stopped`."""
    if (stop := STOP.get()) is not None and stop.is_set():
        raise Stopped
    if (told := TELL.get()) is not None:
        shares, number = told
        shares.done[number] = share
        if shares.watch is not None:
            shares.show()


@dataclass
class Shares:
    """Shares of tasks that are done, as the tasks tell them, in this thread or in others."""

    sizes: Sequence[int]  #: of the tasks, in proportion to the time they take
    done: dict[int, float] = field(default_factory=dict)
    watch: _Watch | None = field(default_factory=_WATCH.get)  #: where they are shown
    _thread: int = field(default_factory=threading.get_ident)

    def show(self) -> None:
        """Show the share of all tasks that is done; in the thread that made this."""
        if self.watch is not None and threading.get_ident() == self._thread:
            done = sum(self.sizes[number] * share for number, share in [*self.done.items()])
            self.watch.at(done / sum(self.sizes))


SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
    if hasattr(signal, name)
)
"""Those by which a process is asked to end; SIGUSR1 by batch systems, ahead of a job's limit."""


class Terminated(KeyboardInterrupt):
    """The process was asked to end, by a batch system (SIGTERM, SIGUSR1) or a terminal (SIGHUP)."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self.exit_status = 128 + number


class OutputLost(KeyboardInterrupt):
    """Nothing can be shown any more: the terminal was closed, or the reader of a pipe is gone."""

    exit_status = 128 + 13  # that of a process that SIGPIPE ends


@contextmanager
def uninterrupted() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Hold back `SIGNALS` inside the block; they arrive when it ends.

    Yields a function that gives a block, within this one, in which they arrive at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield nullcontext
        return
    held: list[tuple[int, FrameType | None]] = []
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    before: dict[int, Any] = {number: each for number, each in handlers.items() if callable(each)}
    hold = dict.fromkeys(before, lambda *event: held.append(event))

    def answer(handlers: dict[int, Any]) -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if held and handlers is before:
            (number, frame), held[:] = held[0], []
            before[number](number, frame)

    @contextmanager
    def allowed() -> Iterator[None]:
        try:
            answer(before)
            yield
        finally:
            answer(hold)

    answer(hold)
    try:
        yield allowed
    finally:
        answer(before)


_UNTIL_AGAIN = 0.05  # seconds


@contextmanager
def termination_as_exception() -> Iterator[None]:
    """Turn SIGTERM, SIGHUP and SIGUSR1 into `Terminated` inside the block, the first of them.

    What comes after it changes nothing.  A SIGHUP that is ignored, as under nohup, stays so.  An
    exception that comes up where Python can only print it, as within ``__del__``, comes again a
    moment later; so does Ctrl-C.
    """
    asked = False

    def raise_terminated(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            raise Terminated(number)

    def once_more(lost: Any) -> None:
        nonlocal asked
        if lost.exc_type not in (Terminated, KeyboardInterrupt):
            hook(lost)
            return
        asked = False
        number = getattr(lost.exc_value, "exit_status", 128 + signal.SIGINT) - 128
        # Not from here: what a handler raises within this function is lost as well.
        again = threading.Timer(_UNTIL_AGAIN, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    before = {
        number: signal.signal(number, raise_terminated)
        for number in SIGNALS
        if number != signal.SIGINT and signal.getsignal(number) != signal.SIG_IGN
    }
    hook, sys.unraisablehook = sys.unraisablehook, once_more
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


compiled = 0.0  # seconds so far in which Numba or JAX compiled, in any thread

_compile_lock = threading.Lock()
_compilations: list[tuple[float, float]] = []  # disjoint, in order


def add_compilation(seconds: float) -> None:
    """Note a compilation that ends now; those that overlap with it are counted once."""
    global compiled
    end = time.perf_counter()
    begin = end - seconds
    with _compile_lock:
        while _compilations and _compilations[-1][1] > begin:
            begin = min(begin, _compilations.pop()[0])
        _compilations.append((begin, end))
        compiled = math.fsum(end - begin for begin, end in _compilations)


def on_jax_event(event: str, duration_secs: float, **_: str | int) -> None:
    """Note what JAX reports of tracing and compiling; a listener of `jax.monitoring`."""
    if event.startswith("/jax/core/compile/"):
        add_compilation(duration_secs)
