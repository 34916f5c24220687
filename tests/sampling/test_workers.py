"""Chunks side by side: order, equal bits, and a worker that dies."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loky import process_executor

from tests.drawing import sample
from tnvmc import PEPS, SRC, Sampler, heisenberg, square
from tnvmc.backend import progress
from tnvmc.backend.process import SIGNALS
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for
from tnvmc.sampling.workers import WorkerLost, in_workers


@pytest.mark.parametrize("processes", [False, True])
def test_results_come_in_the_order_of_the_chunks(processes: bool) -> None:
    chunks = [range(i, i + 2) for i in range(0, 10, 2)]
    assert in_workers(sum, chunks, 2, processes=processes) == [sum(chunk) for chunk in chunks]
    assert in_workers(sum, chunks, 1, processes=processes) == [sum(chunk) for chunk in chunks]


def test_one_worker_and_two_walk_the_same_chain() -> None:
    operator = heisenberg(square(4, 4))
    peps = PEPS(operator.lattice, 3, scheme=SRC(5))
    theta = np.abs(np.random.default_rng(0).normal(size=peps.n_params))
    configs = initial_configs(operator, 32, seed=1)
    found = [
        sample(Sampler(n_walkers=32, n_samples=64, threads=workers, chunk=16), peps, (theta, configs), operator.targets, moves_for(operator), (5, 0))
        for workers in (1, 2)
    ]  # fmt: skip
    (one, snapshot, _), (two, other, _) = found
    assert np.array_equal(one, two)
    assert np.array_equal(snapshot.amplitude.log_abs, other.amplitude.log_abs)
    assert all(np.array_equal(snapshot.ratios[p], other.ratios[p]) for p in snapshot.ratios)
    assert np.array_equal(snapshot.jacobian.dense(), other.jacobian.dense())  # type: ignore[union-attr]


def _dies(chunk: range) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return len(chunk)


def test_a_lost_worker_is_told_and_replaced() -> None:
    chunks = [range(2), range(2, 4)]
    with pytest.raises(WorkerLost, match=r"run\.threads"):
        in_workers(_dies, chunks, 2, processes=True)
    assert in_workers(sum, chunks, 2, processes=True) == [1, 5]


def _dies_while_it_sends(chunk: range) -> int:
    """Write the begin of a result, as a kill in the middle leaves it."""
    frame = sys._getframe()
    while "result_queue" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    os.write(frame.f_locals["result_queue"]._writer.fileno(), struct.pack("!i", 1000) + b"x")
    return _dies(chunk)


@pytest.mark.whole
@pytest.mark.timeout(60)
def test_a_worker_that_dies_while_it_sends_is_told() -> None:
    with pytest.raises(WorkerLost):
        in_workers(_dies_while_it_sends, [range(1), range(1, 2)], 2, processes=True)
    assert in_workers(len, [range(2), range(2, 4)], 2, processes=True) == [2, 2]


@pytest.mark.whole
@pytest.mark.timeout(60)
def test_no_descriptor_of_an_abandoned_pool_is_closed_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its number may belong to the next pool by then; two threads may come to close it."""
    twice: list[object] = []

    def slow(connection: Any) -> None:
        number = connection.fileno()
        time.sleep(0.2 * connection.writable)  # in which another thread may come
        try:
            os.close(number)
        except OSError as error:
            twice.append(error)

    before = {thread.ident for thread in threading.enumerate()}
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "_close", slow)
        for _ in range(3):
            with pytest.raises(WorkerLost):
                in_workers(_dies, [range(1), range(1, 2)], 2, processes=True)
        for thread in threading.enumerate():
            if thread.ident not in before and "ExecutorManager" in thread.name:
                thread.join(30)
                assert not thread.is_alive()
    assert twice == []
    assert in_workers(len, [range(2), range(2, 4)], 2, processes=True) == [2, 2]


def _recycles(chunk: range) -> int:
    """From now on loky replaces this worker after each task, as one that has grown."""
    process_executor._MEMORY_LEAK_CHECK_DELAY = 0
    process_executor._MAX_MEMORY_LEAK_SIZE = -(2**60)
    return os.getpid()


def _blocked(chunk: range) -> tuple[int, bool]:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return os.getpid(), blocked.issuperset(SIGNALS)


@pytest.mark.whole
def test_a_worker_that_replaces_another_leaves_signals_to_its_parent_too() -> None:
    pytest.importorskip("psutil")  # without which loky replaces none
    chunks = [range(1), range(1, 2)]
    old: set[int] = set()
    for _ in range(3):  # the first task gives the memory that others are compared with
        old |= set(in_workers(_recycles, chunks, 2, processes=True))
        time.sleep(0.3)
    found = in_workers(_blocked, chunks, 2, processes=True)
    assert {pid for pid, _ in found} - old
    assert all(blocked for _, blocked in found)


PARENT = """
import os, time
from tnvmc.backend import progress
from tnvmc.sampling.workers import in_workers

def task(chunk):
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(600)

in_workers(task, [range(1), range(1, 2)], 2, processes=True)
"""


@pytest.mark.whole
@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_its_parent(number: signal.Signals) -> None:
    """Not a parent that was killed, nor one that was interrupted, which does not wait for them."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        assert parent.stdout is not None
        workers = [int(parent.stdout.readline()) for _ in range(2)]
        parent.send_signal(number)
        parent.wait(30)
    deadline = time.monotonic() + 5
    while alive := [pid for pid in workers if _lives(pid)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.1)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def _signals_itself(chunk: range) -> int:
    for number in SIGNALS:
        os.kill(os.getpid(), number)
    return len(chunk)


def test_workers_leave_signals_to_their_parent() -> None:
    """Those of a terminal, or of a batch system, go to all processes at once."""
    assert in_workers(_signals_itself, [range(2), range(2, 4)], 2, processes=True) == [2, 2]


def test_threads_end_soon_where_another_one_failed() -> None:
    """What is still computed for nobody ends at the next share that it tells."""
    began = time.monotonic()

    def task(part: range) -> None:
        if part.start == 0:
            raise ValueError("no")
        while time.monotonic() < began + 60:
            progress.tell(0.5)
            time.sleep(0.01)

    with pytest.raises(ValueError, match="no"):
        in_workers(task, [range(1), range(1, 2)], 2)
    assert time.monotonic() < began + 30
