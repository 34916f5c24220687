"""What messages between ranks are made of: pieces of memory, exceptions, signals that are noted."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import numpy as np

from tnvmc.backend.process import SIGNALS

PIECE = 2**28
"""Bytes of a message at most: counts of MPI have 32 bits."""


def taken_apart(error: BaseException) -> tuple[Any, ...]:
    """An exception as pickle takes it: by its arguments as they are, not by a call of its __init__."""
    kind = type(error)
    return rebuilt, (kind.__module__, kind.__qualname__, kind, error.args, error.__dict__)


def rebuilt(
    module: str, name: str, kind: type[BaseException], given: tuple[Any, ...], state: dict[str, Any]
) -> BaseException:
    """The exception again, of the class of that name here: that of a script is sent as another one."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, BaseException):
        kind = found
    error = kind.__new__(kind)
    error.args = given
    error.__dict__.update(state)
    return error


def bytes_of(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def pieces(part: Any) -> Iterator[Any]:
    view = memoryview(part)
    for begin in range(0, len(view), PIECE):
        yield view[begin : begin + PIECE]


@contextmanager
def noted_signals(stop: Event) -> Iterator[list[int]]:
    """Note signals by which this process is asked to end, instead of ending: rank 0 decides.

    What this rank is at ends early then: rank 0 has the signal too, or gets it with the answer.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(number: int, frame: object) -> None:
        noted.append(number)
        stop.set()

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
