"""Walkers in chunks: as many at a time as suit the device, side by side where there are workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend.device import out_of_room, walkers_that_fit
from tnvmc.backend.namespace import is_gpu
from tnvmc.sampling.workers import in_workers

T = TypeVar("T")

DEFAULT_CHUNK = 64
"""Walkers per chunk of an ansatz that gives no hint."""


def chunk_hint(ansatz: Ansatz) -> int:
    """Configurations that an ansatz likes to handle at a time, on the host."""
    return int(ansatz.chunk_hint()) if hasattr(ansatz, "chunk_hint") else DEFAULT_CHUNK


def _own_threads(ansatz: Ansatz) -> bool:
    return bool(getattr(ansatz, "own_threads", False))


def split(n: int, size: int) -> list[range]:
    """0..n-1 in ranges of at most `size`."""
    return [range(begin, min(begin + size, n)) for begin in range(0, n, size)]


def chunks(
    n: int, ansatz: Ansatz, xp: Any = np, size: int | None = None, n_replicas: int = 1
) -> list[range]:
    """Chunks of n walkers, of at most `size`; the same for any number of workers.

    Without a size: on the host what the ansatz hints at, but at most half of the walkers, so that
    two workers have work, unless it has threads of its own; on a GPU as many as fit into its free
    memory, in 1, 2, 4, ... equal chunks, so that a little more or less of it changes nothing.  Each
    walker counts `n_replicas` times.
    """
    if size is None and is_gpu(xp) and hasattr(ansatz, "walker_bytes"):
        n_chunks, fit = 1, walkers_that_fit(ansatz.walker_bytes * n_replicas)
        while n_chunks * fit < n:
            n_chunks *= 2
        return split(n, -(-n // n_chunks))
    most = n if _own_threads(ansatz) else -(-n // 2)
    return split(n, size or min(-(-chunk_hint(ansatz) // n_replicas), most))


def in_chunks(
    task: Callable[[range], T], parts: Sequence[range], ansatz: Ansatz, xp: Any, workers: int | None
) -> list[T]:
    """Results of `task` for every chunk, in order.

    In processes or threads on the host, as the ansatz prefers; one after another for an ansatz with
    threads of its own, and on a GPU, which has one queue of work.

    Raises:
        DeviceError: no room on the GPU.
        WorkerLost: a worker process was killed.
    """
    processes = xp is np and getattr(ansatz, "in_processes", False)
    alone = xp is not np or _own_threads(ansatz)
    try:
        return in_workers(task, parts, 1 if alone else workers, processes=processes)
    except MemoryError as error:
        if not is_gpu(xp):
            raise
        raise out_of_room(f"{max(map(len, parts))} walkers at a time") from error
