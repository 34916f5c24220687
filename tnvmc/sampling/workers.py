"""Walkers in chunks, and chunks side by side: in threads, or in processes where calls are short.

Compiled kernels give the interpreter lock away for a whole strip, so threads share the work of a PEPS.
Without them a pass makes thousands of products of ten to a hundred microseconds; Python threads hand the
lock over at each of them, and two threads then gained a factor 1.1 (8x8, D = 4, chi = 8), where
processes do not share the lock.  Results are the same in any bit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from threading import Event, Lock
from typing import Any, Generic, TypeVar

import numpy as np

from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend import progress
from tnvmc.backend.device import out_of_room, walkers_that_fit
from tnvmc.backend.namespace import is_gpu
from tnvmc.backend.own_device import ranks_per_device, take_own_device
from tnvmc.backend.process import (
    available_cores,
    blocked_signals,
    end_with,
    keep_freed_memory,
    one_blas_thread,
)
from tnvmc.backend.ranks import ALONE, Ranks, in_use, shares, using_ranks

T = TypeVar("T")

DEFAULT_CHUNK = 64
"""Walkers per chunk of an ansatz that asks for nothing else."""


def one_after_another(ansatz: Ansatz, xp: Any) -> bool:
    """Whether chunks wait for each other: with threads of its own, or one queue of work on a GPU."""
    return xp is not np or ansatz.execution.own_threads


def split(n: int, size: int) -> list[range]:
    """0..n-1 in ranges of at most `size`."""
    return [range(begin, min(begin + size, n)) for begin in range(0, n, size)]


def chunks(
    n: int, ansatz: Ansatz, xp: Any = np, size: int | None = None, n_replicas: int = 1
) -> list[range]:
    """Chunks of n walkers, of at most `size`; the same for any number of workers.

    Without a size: on the host what the ansatz wants, but at most half of the walkers, so that
    two workers have work, unless it has threads of its own; on a GPU as many as fit into its free
    memory, in 1, 2, 4, ... equal chunks, so that a little more or less of it changes nothing.  Each
    walker counts `n_replicas` times.  Where the numbers of a walker do not depend on its chunk (`Execution.apart`), chunks
    are of about equal size and as many for each of two workers on each rank; else they are those of one process.
    """
    wanted = ansatz.execution
    if size is None and is_gpu(xp) and wanted.bytes_per_walker is not None:
        beside = ranks_per_device(in_use(), xp)
        n_chunks, fit = (
            in_use().size,
            walkers_that_fit(beside * wanted.bytes_per_walker * n_replicas),
        )
        while n_chunks * fit < n:
            n_chunks *= 2
        return split(n, -(-n // n_chunks))
    if size is not None:
        return split(n, size)
    fit = -(-(wanted.chunk or DEFAULT_CHUNK) // n_replicas)
    if wanted.own_threads or not wanted.apart:
        return split(n, min(fit, n if wanted.own_threads else -(-n // 2)))
    n_workers = 2 * in_use().size
    return split(n, -(-n // (n_workers * -(-n // (n_workers * fit)))))


def in_chunks(
    task: Callable[[range], T], parts: Sequence[range], ansatz: Ansatz, xp: Any, workers: int | None
) -> list[T]:
    """Results of `task` for every chunk, in order.

    In processes or threads on the host, as the ansatz prefers; see `one_after_another`.  Where ranks are
    in use each has some chunks that lie side by side, and Jacobians stay there, to be joined by
    `tnvmc.jacobian.distributed`.

    Raises:
        DeviceError: no room on the GPU.
        WorkerLost: a worker process was killed.
    """
    ranks, alone = in_use(), one_after_another(ansatz, xp)
    ranks_per_device(ranks, xp)
    run = _Share(
        task, shares([*map(len, parts)], ranks.size), parts, 1 if alone else workers,
        xp is np and ansatz.execution.processes, xp,
    )  # fmt: skip
    try:
        found = ranks.each(run, constant=ansatz)
    except MemoryError as error:
        if not is_gpu(xp):
            raise
        raise out_of_room(f"{max(map(len, parts))} walkers at a time") from error
    return [result for of_rank in found for result in of_rank]


@dataclass(frozen=True)
class _Share(Generic[T]):
    """The chunks of one rank, carried out there."""

    task: Callable[[range], T]
    dealt: Sequence[range]  #: to each rank, of the parts
    parts: Sequence[range]
    workers: int | None
    processes: bool
    xp: Any  #: namespace of the walkers

    def __call__(self, ranks: Ranks) -> list[T]:
        own = self.dealt[ranks.rank]
        parts = self.parts[own.start : own.stop]
        take_own_device(self.xp)
        with using_ranks(ALONE):
            return in_workers(self.task, parts, self.workers, processes=self.processes)


class WorkerLost(RuntimeError):
    """A worker process was killed from outside; the next call makes new ones."""


def in_workers(
    task: Callable[[range], T],
    chunks: Sequence[range],
    workers: int | None,
    *,
    processes: bool = False,
) -> list[T]:
    """Results of `task` for every chunk, in order, with BLAS at one thread per worker.

    `workers` defaults to the cores of this process.  With `processes` the task and its result are
    pickled, and the processes stay for the next call (loky: nothing is forked, and the main script
    is not imported again).  BLAS is pinned for one worker too: its own threads would
    change the rounding.

    Raises:
        WorkerLost: a process was killed.
    """
    n_workers = max(1, min(workers or available_cores(), len(chunks)))
    with progress.tally([len(chunk) for chunk in chunks]) as tally:
        tasks = [task] * len(chunks)
        if tally is not None:
            alone = n_workers == 1
            tasks = [tally.task(task, number, look=alone) for number in range(len(chunks))]
        work = list(zip(tasks, chunks, strict=True))
        return _done(work, n_workers, processes, None if tally is None else tally.look)


_Work = Sequence[tuple[Callable[[range], T], range]]
_Look = Callable[[], None] | None


def _done(work: _Work[T], n_workers: int, processes: bool, look: _Look) -> list[T]:
    """Results of tasks, in order; while they are under way, `look` is called now and then."""
    if processes and n_workers > 1:
        pool = _processes(n_workers)
        try:
            with blocked_signals():  # one that has grown is replaced by the next call of submit
                futures = [pool.submit(_pinned, task, chunk) for task, chunk in work]
            return _results(pool, futures, look)
        except BrokenProcessPool as error:
            _abandon(pool)
            raise WorkerLost(
                f"one of {n_workers} worker processes died, most likely for lack of memory; lower "
                "the number of workers (run.threads) or of walkers in a batch (sampler.chunk)"
            ) from error
        except (
            KeyboardInterrupt,
            progress.Stopped,
        ):  # the end of this process would wait for what they still do
            _abandon(pool)
            raise
    keep_freed_memory()
    with one_blas_thread():  # around all threads: the number is that of the process
        if n_workers == 1:
            return [task(chunk) for task, chunk in work]
        stop, unwanted = Event(), progress.stop_event()
        with ThreadPoolExecutor(n_workers) as threads:
            futures = [threads.submit(_stoppable, stop, task, chunk) for task, chunk in work]
            try:
                asked = look is not None or unwanted is not None
                while asked and wait(futures, progress.BETWEEN_LOOKS).not_done:
                    progress.end_if_unwanted()
                    if look is not None:
                        look()
                return [future.result() for future in futures]
            finally:  # where one failed, or all were interrupted, the others end soon
                stop.set()
                for future in futures:
                    future.cancel()


def _stoppable(stop: Event, task: Callable[[range], T], chunk: range) -> T:
    with progress.until(stop):
        return task(chunk)


def _results(pool: Any, futures: Sequence[Future[T]], look: _Look) -> list[T]:
    """Wait for all results.

    A worker that was killed in the middle of sending a result leaves a part of it in the pipe, on
    whose rest the pool would wait for ever; that it is dead is seen here then.
    """
    dead = False
    while _unfinished(futures, look):
        was_dead, dead = dead, not all(each.is_alive() for each in [*pool._processes.values()])
        if dead and was_dead:
            raise BrokenProcessPool("a worker died while it sent a result")
    return [future.result() for future in futures]


_BETWEEN_LOOKS = 2.0  # seconds


def _unfinished(futures: Sequence[Future[T]], look: _Look) -> bool:
    """Wait for all results, at most `_BETWEEN_LOOKS`; whether some are missing."""
    end, asked = time.monotonic() + _BETWEEN_LOOKS, look is not None or progress.stop_event()
    while (left := end - time.monotonic()) > 0:
        if not wait(futures, progress.BETWEEN_LOOKS if asked else left).not_done:
            return False
        progress.end_if_unwanted()
        if look is not None:
            look()
    return True


def _abandon(pool: Any) -> None:
    """Kill the workers of a pool, and let its thread end, which the exit of Python waits for.

    That thread may wait for the rest of a result; it ends with the last descriptor of the pipe that could
    be written to.  Ours is turned to nowhere for that, and not closed: the thread closes it itself, maybe
    now, and its number may then belong to another pool.
    """
    _processes.cache_clear()
    for each in [*pool._processes.values()]:
        if each.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    writer = pool._result_queue._writer
    with _CLOSING:
        if os.name == "posix" and not writer.closed:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, writer.fileno(), inheritable=False)
            os.close(nowhere)
    pool.shutdown(wait=False)


_CLOSING = Lock()  # of the pipes of results


def _close_alone(writer: Any) -> None:
    """Let a connection be closed only while nobody else looks whether it is."""
    close = writer.close

    def closed() -> None:
        with _CLOSING:
            close()

    writer.close = closed


@cache
def _processes(n_workers: int) -> Any:
    """Processes of our own: the pool that loky shares is also taken by other libraries.

    They end with this process, also where it was killed, and leave signals to it: those of a
    terminal or a batch system go to all processes at once.
    """
    from loky import ProcessPoolExecutor
    from loky.backend.resource_tracker import ensure_running

    with blocked_signals():
        ensure_running()  # unblocks some
        with blocked_signals():
            pool = ProcessPoolExecutor(n_workers, initializer=end_with, initargs=(os.getpid(),))
            _close_alone(pool._result_queue._writer)
            pool.submit(int)  # which starts them
    return pool


def _pinned(task: Callable[[range], T], chunk: range) -> T:
    keep_freed_memory()
    with one_blas_thread():
        return task(chunk)
