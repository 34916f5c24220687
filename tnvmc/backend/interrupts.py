"""Ctrl-C and termination: at once in the middle of a step, never in the middle of a record."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

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
