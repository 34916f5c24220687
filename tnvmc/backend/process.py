"""This process: BLAS at one thread, memory that stays, signals that wait for the end of a record.

BLAS at one thread gives the same bits for any number of workers, and no idle threads.  Every
product of a pass allocates its result; glibc serves arrays above 128 KiB from fresh pages and
returns them at once, which would cost a third of the time of a sample (8x8, D = 4, chi = 8).
Ctrl-C and termination come at once in the middle of a step, never in the middle of a record.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from functools import cache
from types import FrameType
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


def one_blas_thread() -> Any:
    """Give a context in which the BLAS of NumPy and SciPy runs on the thread that calls it."""
    return _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")


@cache
def _controller(with_scipy: bool) -> ThreadpoolController:
    """The libraries of the process, looked up again only when SciPy has brought its own."""
    return ThreadpoolController()


_SHARE: list[int] = []  # of the cores, of which other ranks have theirs


def available_cores() -> int:
    """Cores this process may run on; where ranks share those of a machine, its part of them."""
    return _SHARE[0] if _SHARE else len(own_cores())


def own_cores() -> list[int]:
    """Numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return [*range(os.cpu_count() or 1)]


def share_cores(users: Sequence[Sequence[int]]) -> None:
    """Leave cores to other ranks: `users` are the cores of all that run on this machine."""
    part = sum(1 / sum(core in cores for cores in users) for core in own_cores())
    _SHARE[:] = [max(1, int(part + 1e-9))]


_THREADS: ContextVar[int | None] = ContextVar("threads", default=None)


@contextmanager
def using_threads(n: int | None) -> Iterator[None]:
    """Let `side_by_side` take n threads inside the block; None for as many as there are cores."""
    token = _THREADS.set(n)
    try:
        yield
    finally:
        _THREADS.reset(token)


def threads_in_use() -> int:
    """Threads that a large piece of work of this process may take."""
    return _THREADS.get() or available_cores()


def side_by_side(task: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Apply a function to every item of a list, on `threads_in_use` threads: results in order.

    For NumPy calls that leave the interpreter lock alone.  The first error is raised, when all that
    has begun has ended.
    """
    n_threads = threads_in_use()
    if n_threads == 1 or len(items) < 2:
        return [task(item) for item in items]
    # A copy of the context each: that of NumPy's floating-point errors is part of it.
    pool = _kept_threads(n_threads)
    futures = [pool.submit(copy_context().run, task, item) for item in items]
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()
        wait(futures)


_KEPT_THREADS = threading.local()  # each thread that asks has its own, so that tasks give out tasks


def _kept_threads(n: int) -> ThreadPoolExecutor:
    """Threads that stay: to start them takes longer than the work of a small step."""
    if getattr(_KEPT_THREADS, "n", None) != (n, os.getpid()):  # a fork has no threads
        _KEPT_THREADS.pool = ThreadPoolExecutor(n, thread_name_prefix="side by side")
        _KEPT_THREADS.n = (n, os.getpid())
    pool: ThreadPoolExecutor = _KEPT_THREADS.pool
    return pool


_MALLOPT = (  # options of glibc and their values
    (-3, 2**25),  # M_MMAP_THRESHOLD: the most that every version of glibc accepts
    (-1, 2**29),  # M_TRIM_THRESHOLD
    (-2, 2**26),  # M_TOP_PAD
)


@cache
def keep_freed_memory() -> bool:
    """Tell the C allocator to reuse freed arrays; True if it accepted, as that of glibc does.

    Changes the whole process, once: arrays up to 32 MiB come from the heap, up to 512 MiB of
    freed heap stay with the process.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # musl has none
        return False
    accepted = [bool(mallopt(option, value)) for option, value in _MALLOPT]
    return all(accepted)


def give_back_freed_memory() -> None:
    """Give freed memory that glibc's allocator keeps back to the system."""
    if not sys.platform.startswith("linux"):
        return
    with suppress(AttributeError, OSError):  # musl has none
        ctypes.CDLL(None).malloc_trim(0)


def memory_limit() -> float:
    """Bytes that this process may have, by machine and control group; inf if not known."""
    found = []
    with suppress(AttributeError, OSError, ValueError):  # Windows knows none of it
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # of version 2, and of version 1
        with suppress(OSError, ValueError), open(f"/sys/fs/cgroup/{name}") as file:
            found.append(int(file.read()))
    return min((each for each in found if each > 0), default=math.inf)


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

    Yields:
        A function that gives a block, within this one, in which they arrive at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield nullcontext
        return
    held: list[tuple[int, FrameType | None]] = []
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    before: dict[int, Any] = {number: each for number, each in handlers.items() if callable(each)}

    def hold() -> None:
        for number in before:
            signal.signal(number, lambda *event: held.append(event))

    def deliver() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:
            first = held[0]
            held.clear()
            before[first[0]](*first)

    @contextmanager
    def allowed() -> Iterator[None]:
        try:
            deliver()
            yield
        finally:
            hold()

    hold()
    try:
        yield allowed
    finally:
        deliver()


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
