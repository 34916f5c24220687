"""How ranks learn that their work is not wanted any more: one was interrupted, or failed."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread
from typing import Any

from tnvmc.backend.process import SIGNALS

_BETWEEN_LOOKS = 0.05  # seconds


class Alarm(Event):
    """An event that is set on all ranks when one rings; messages are received in `is_set`.

    It stands for one request at a time.  `settle` begins the next, once it is known who rang in the
    last: so a message is never taken for one of another request.  It has its own communicator.
    """

    def __init__(self, comm: Any) -> None:
        super().__init__()
        self._comm = comm
        self.rang = False  #: whether this rank told the others
        self._heard: set[int] = set()  # ranks
        self._sending: list[Any] = []
        self._looked_at = -float("inf")

    def ring(self) -> None:
        """Tell the other ranks, once, unless another rank did."""
        if self.rang or self._heard:
            return
        self.rang = True
        others = (rank for rank in range(self._comm.Get_size()) if rank != self._comm.Get_rank())
        self._sending += [self._comm.isend(self._comm.Get_rank(), rank) for rank in others]

    def is_set(self) -> bool:
        """Whether it was set here, of which the others are told then, or another rank rang."""
        if current_thread() is not main_thread():
            return super().is_set()
        if super().is_set():
            self.ring()
            return True
        if time.monotonic() - self._looked_at < _BETWEEN_LOOKS:
            return bool(self._heard)
        self._looked_at = time.monotonic()
        while self._comm.iprobe():
            self._heard.add(self._comm.recv())
        return bool(self._heard)

    def settle(self, rang: Iterable[int]) -> None:
        """Begin the next request, after one in which these ranks rang."""
        for rank in set(rang) - self._heard - {self._comm.Get_rank()}:
            self._comm.recv(source=rank)
        for sending in self._sending:
            sending.wait()
        self._sending.clear()
        self._heard.clear()
        self.rang = False


@contextmanager
def noted_signals(stop: Event) -> Iterator[list[int]]:
    """Note signals by which this process is asked to end, instead of ending: rank 0 decides.

    What this rank does ends early then: rank 0 has the signal too, or gets it with the answer.
    """
    noted: list[int] = []
    if current_thread() is not main_thread():
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
