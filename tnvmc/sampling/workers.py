"""Chunks of walkers side by side: in threads, or in processes where calls are short.

A pass over a PEPS makes thousands of products of ten to a hundred microseconds.  Python threads
hand the interpreter lock over at each of them, and two threads then gained a factor 1.1 (8x8,
D = 4, chi = 8); processes do not share the lock.  Results are the same in any bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from threadpoolctl import threadpool_limits

from tnvmc.backend.memory import keep_freed_memory

T = TypeVar("T")


def in_workers(
    task: Callable[[range], T],
    chunks: Sequence[range],
    workers: int | None,
    *,
    processes: bool = False,
) -> list[T]:
    """Results of `task` for every chunk, in order, with BLAS at one thread per worker.

    `workers` defaults to the cores of this process.  With `processes` the task and its result are
    pickled, and the processes stay for the next call (joblib's loky; nothing is forked and the
    main script is not imported again).  BLAS is pinned for one worker too: its own threads would
    change the rounding.
    """
    n_workers = min(workers or available_cores(), len(chunks))
    pinned = partial(_pinned, task)
    if n_workers == 1:
        return [pinned(chunk) for chunk in chunks]
    from joblib import Parallel, delayed

    kind = "loky" if processes else "threading"
    with Parallel(n_jobs=n_workers, backend=kind, max_nbytes=None, pre_dispatch="all") as parallel:
        return list(parallel(delayed(pinned)(chunk) for chunk in chunks))


def _pinned(task: Callable[[range], T], chunk: range) -> T:
    keep_freed_memory()
    with threadpool_limits(limits=1):
        return task(chunk)


def available_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
