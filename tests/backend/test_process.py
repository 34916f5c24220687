"""Signals that ask a process to end."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tnvmc.backend.process import Terminated, termination_as_exception


class Deaf:
    """An object during whose end a signal comes: Python only prints what is raised then."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        time.sleep(0.01)


@pytest.mark.usefixtures("hangup_heard")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_is_not_lost_where_exceptions_are(number: signal.Signals) -> None:
    deadline = time.monotonic() + 5
    with pytest.raises(KeyboardInterrupt) as ended, termination_as_exception():
        Deaf(number)
        while time.monotonic() < deadline:
            time.sleep(0.01)
    if number != signal.SIGINT:
        assert isinstance(ended.value, Terminated) and ended.value.exit_status == 128 + number
