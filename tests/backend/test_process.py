"""Signals that ask a process to end."""

from __future__ import annotations

import os
import resource
import signal
import time

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  (brings a BLAS of its own)
from threadpoolctl import threadpool_info

from tnvmc.backend.process import keep_freed_memory, one_blas_thread
from tnvmc.backend.progress import Terminated, termination_as_exception


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


def test_a_loop_of_products_does_not_fault() -> None:
    if not keep_freed_memory():
        pytest.skip("the allocator of this system is not glibc's")
    a = np.ones((512, 512))
    pages = a.nbytes // resource.getpagesize()
    np.matmul(a, a)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.matmul(a, a)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < 2 * pages  # without it 20 times the pages


def _threads() -> list[int]:
    return [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


def test_every_blas_has_one_thread_inside_and_its_own_outside() -> None:
    before = _threads()
    with one_blas_thread():
        assert _threads() == [1] * len(before)
    assert _threads() == before
