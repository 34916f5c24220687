"""Walkers in chunks: as many at a time as suit the device, side by side where there are workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tnvmc.ansatz.protocol import Ansatz, execution_of
from tnvmc.backend.device import out_of_room, walkers_that_fit
from tnvmc.backend.namespace import is_gpu
from tnvmc.sampling.workers import in_workers

T = TypeVar("T")

DEFAULT_CHUNK = 64
"""Walkers per chunk of an ansatz that asks for nothing else."""


def one_after_another(ansatz: Ansatz, xp: Any) -> bool:
    """Whether chunks wait for each other: with threads of its own, or one queue of work on a GPU."""
    return xp is not np or execution_of(ansatz).own_threads


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
    walker counts `n_replicas` times.
    """
    wanted = execution_of(ansatz)
    if size is None and is_gpu(xp) and wanted.bytes_per_walker is not None:
        n_chunks, fit = 1, walkers_that_fit(wanted.bytes_per_walker * n_replicas)
        while n_chunks * fit < n:
            n_chunks *= 2
        return split(n, -(-n // n_chunks))
    most = n if wanted.own_threads else -(-n // 2)
    return split(n, size or min(-(-(wanted.chunk or DEFAULT_CHUNK) // n_replicas), most))


def in_chunks(
    task: Callable[[range], T], parts: Sequence[range], ansatz: Ansatz, xp: Any, workers: int | None
) -> list[T]:
    """Results of `task` for every chunk, in order.

    In processes or threads on the host, as the ansatz prefers; see `one_after_another`.

    Raises:
        DeviceError: no room on the GPU.
        WorkerLost: a worker process was killed.
    """
    processes = xp is np and execution_of(ansatz).processes
    try:
        n_workers = 1 if one_after_another(ansatz, xp) else workers
        return in_workers(task, parts, n_workers, processes=processes)
    except MemoryError as error:
        if not is_gpu(xp):
            raise
        raise out_of_room(f"{max(map(len, parts))} walkers at a time") from error
