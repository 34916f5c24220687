"""Ranks tell each other that what they are at is not wanted any more: one was interrupted, or failed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import Event, current_thread, main_thread
from typing import Any

_BETWEEN_LOOKS = 0.05  # seconds


class Alarm(Event):
    """An event that is set on all ranks where one rings; messages are received when it is looked at.

    It stands for one request at a time.  `settle` begins the next, once it is known who rang in the last: so a
    message is never taken for one of another request.

    Args:
        comm: a communicator of its own.
    """

    def __init__(self, comm: Any) -> None:
        super().__init__()
        self._comm = comm
        self._rang = False
        self._heard: set[int] = set()  # ranks
        self._sending: list[Any] = []
        self._looked_at = -float("inf")

    @property
    def rang(self) -> bool:
        """Whether this rank told the others."""
        return self._rang

    def ring(self) -> None:
        """Tell the other ranks, once, and not where they were told by another."""
        if self._rang or self._heard:
            return
        self._rang = True
        others = (rank for rank in range(self._comm.Get_size()) if rank != self._comm.Get_rank())
        self._sending += [self._comm.isend(self._comm.Get_rank(), rank) for rank in others]

    def is_set(self) -> bool:
        """Whether it was set here, which is told to the others then, or another rank rang."""
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
        self._rang = False
