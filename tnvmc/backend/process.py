"""This process: BLAS at one thread, memory that stays, signals that wait for the end of a record.

BLAS at one thread gives the same bits for any number of workers, and no idle threads.  Every product of
a pass allocates its result; glibc serves arrays above 128 KiB from fresh pages and returns them at
once, so each product would fault its pages in anew: a third of the time of a sample, measured (8x8,
D = 4, chi = 8).  Ctrl-C and termination come at once in the middle of a step, never in the middle of a
record.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> Any:
    """Give a context manager in which the BLAS of NumPy and SciPy runs on the thread that calls it.

    The libraries of the process are looked up once, and again when SciPy has brought its own: the
    look-up alone takes milliseconds in a process with many libraries, such as one with JAX.
    """
    return _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")


@cache
def _controller(with_scipy: bool) -> ThreadpoolController:
    return ThreadpoolController()


_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_LARGEST_KEPT = 2**25  # the most that every version of glibc accepts
_KEPT = 2**29
_AHEAD = 2**26


@cache
def keep_freed_memory() -> bool:
    """Tell the C allocator to reuse freed arrays; True if it accepted.

    Changes the whole process, once: arrays up to 32 MiB come from the heap, up to 512 MiB of
    freed heap stay with the process.  Does nothing where the allocator is not glibc's.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # musl has none
        return False
    options = (
        (_M_MMAP_THRESHOLD, _LARGEST_KEPT),
        (_M_TRIM_THRESHOLD, _KEPT),
        (_M_TOP_PAD, _AHEAD),
    )
    accepted = [bool(mallopt(option, value)) for option, value in options]
    return all(accepted)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM), as batch systems do before they kill."""

    exit_status = 128 + signal.SIGTERM


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back SIGINT and SIGTERM inside the block; they arrive when it ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[tuple[int, FrameType | None]] = []
    before: dict[signal.Signals, Any] = {}
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler):
            before[number] = handler
            signal.signal(number, lambda *event: held.append(event))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:
            before[signal.Signals(held[0][0])](*held[0])


@contextmanager
def termination_as_exception() -> Iterator[None]:
    """Turn SIGTERM into `Terminated` inside the block."""

    def raise_terminated(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
