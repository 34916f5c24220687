"""Chunks of walkers side by side: in threads, or in processes where calls are short.

A pass over a PEPS makes thousands of products of ten to a hundred microseconds.  Python threads
hand the interpreter lock over at each of them, and two threads then gained a factor 1.1 (8x8,
D = 4, chi = 8); processes do not share the lock.  Results are the same in any bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from typing import Any, TypeVar

from tnvmc.backend.memory import keep_freed_memory
from tnvmc.backend.threads import one_blas_thread

T = TypeVar("T")


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
    n_workers = min(workers or available_cores(), len(chunks))
    if processes and n_workers > 1:
        try:
            return list(_processes(n_workers).map(partial(_pinned, task), chunks))
        except BrokenProcessPool as error:
            _processes.cache_clear()
            raise WorkerLost(
                f"one of {n_workers} worker processes died, most likely for lack of memory; lower "
                "the number of workers (run.threads) or of walkers in a batch (sampler.chunk)"
            ) from error
    keep_freed_memory()
    with one_blas_thread():  # around all threads: the number is that of the process
        if n_workers == 1:
            return [task(chunk) for chunk in chunks]
        with ThreadPoolExecutor(n_workers) as pool:
            return list(pool.map(task, chunks))


@cache
def _processes(n_workers: int) -> Any:
    """Processes of our own: the pool that loky shares is also taken by other libraries."""
    from loky import ProcessPoolExecutor

    return ProcessPoolExecutor(n_workers)


def _pinned(task: Callable[[range], T], chunk: range) -> T:
    keep_freed_memory()
    with one_blas_thread():
        return task(chunk)


def available_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
