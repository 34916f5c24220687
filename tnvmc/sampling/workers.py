"""Walkers in chunks, and chunks side by side in threads.

Compiled kernels release the interpreter lock for a whole strip, so threads share the work of a
PEPS.  Without them a pass makes thousands of products of ten to a hundred microseconds, each of
which takes the lock, and two threads are only 1.1 times as fast as one (8x8, D = 4, chi = 8).
Results are the same in every bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import Any, Generic, TypeVar

import numpy as np

from tnvmc.ansatz.protocol import Ansatz, LogAmplitude, Snapshot, Targets
from tnvmc.backend import progress
from tnvmc.backend.device import out_of_room, ranks_per_device, take_own_device, walkers_that_fit
from tnvmc.backend.namespace import array_namespace, is_gpu, to_namespace
from tnvmc.backend.process import available_cores, keep_freed_memory, one_blas_thread
from tnvmc.backend.ranks import ALONE, Place, Ranks, in_use, shares, using_ranks
from tnvmc.jacobian.dense import concatenate
from tnvmc.jacobian.distributed import distribute

Array = Any

T = TypeVar("T")

DEFAULT_CHUNK = 64
"""Walkers per chunk of an ansatz that asks for nothing else."""


def one_after_another(ansatz: Ansatz, xp: Any) -> bool:
    """Whether chunks wait for each other: with own threads, or one queue of work on a GPU."""
    return xp is not np or ansatz.execution.own_threads


def split(n: int, size: int) -> list[range]:
    """0..n-1 in ranges of at most `size`."""
    return [range(begin, min(begin + size, n)) for begin in range(0, n, size)]


def chunks(n: int, ansatz: Ansatz, xp: Any = np, size: int | None = None) -> list[range]:
    """Chunks of n walkers, of at most `size`; the same for any number of workers.

    Without a size: on the host what the ansatz wants, but at most half of the walkers, so that
    two workers have work, unless it has threads of its own; on a GPU as many as fit into its free
    memory, in 1, 2, 4, ... equal chunks, so that a little more or less of it changes nothing.
    Where the numbers of a walker do not depend on its chunk (`Execution.apart`), chunks are of
    about equal size and as many for each of two workers on each rank; else they are those of one
    process.
    """
    wanted = ansatz.execution
    if size is None and is_gpu(xp) and wanted.bytes_per_walker is not None:
        beside = ranks_per_device(in_use(), xp)
        n_chunks, fit = in_use().size, walkers_that_fit(beside * wanted.bytes_per_walker)
        while n_chunks * fit < n:
            n_chunks *= 2
        return split(n, -(-n // n_chunks))
    if size is not None:
        return split(n, size)
    fit = wanted.chunk or DEFAULT_CHUNK
    if wanted.own_threads or not wanted.apart:
        return split(n, min(fit, n if wanted.own_threads else -(-n // 2)))
    n_workers = 2 * in_use().size
    return split(n, -(-n // (n_workers * -(-n // (n_workers * fit)))))


def in_chunks(
    task: Callable[[range], T], parts: Sequence[range], ansatz: Ansatz, xp: Any, workers: int | None
) -> list[T]:
    """Results of `task` for every chunk, in order.

    In threads on the host; see `one_after_another`.  Where ranks are in use each has some chunks
    that lie side by side, and Jacobians stay there, to be joined by `tnvmc.jacobian.distributed`.

    Raises:
        DeviceError: no room on the GPU.
    """
    ranks, alone = in_use(), one_after_another(ansatz, xp)
    ranks_per_device(ranks, xp)
    dealt = shares([*map(len, parts)], ranks.size)
    run = _Share(task, dealt, parts, 1 if alone else workers, xp)
    try:
        found = ranks.each(run, constant=ansatz)
    except MemoryError as error:
        if not is_gpu(xp):
            raise
        hint = (
            "lower sampler.chunk (walkers at a time), sampler.n_samples (log-derivatives) or "
            "contraction.chi"
        )
        raise out_of_room(f"{max(map(len, parts))} walkers at a time", hint) from error
    return [result for of_rank in found for result in of_rank]


@dataclass(frozen=True)
class _Share(Generic[T]):
    """The chunks of one rank, carried out there."""

    task: Callable[[range], T]
    dealt: Sequence[range]  #: to each rank, of the parts
    parts: Sequence[range]
    workers: int | None
    xp: Any  #: namespace of the walkers

    def __call__(self, ranks: Ranks) -> list[T]:
        own = self.dealt[ranks.rank]
        parts = self.parts[own.start : own.stop]
        take_own_device(self.xp)
        with using_ranks(ALONE):
            return in_workers(self.task, parts, self.workers)


def in_workers(task: Callable[[range], T], chunks: Sequence[range], workers: int | None) -> list[T]:
    """Results of `task` for every chunk, in order, in threads with BLAS at one thread.

    `workers` defaults to the cores of this process.  BLAS is pinned for one worker too: its own
    threads would change the rounding.
    """
    n_workers = max(1, min(workers or available_cores(), len(chunks)))
    shares = progress.Shares([len(chunk) for chunk in chunks])
    keep_freed_memory()
    with one_blas_thread():  # around all threads: the number is that of the process
        if n_workers == 1:
            return [shares.run(task, number, chunk) for number, chunk in enumerate(chunks)]
        stop = Event()
        with ThreadPoolExecutor(n_workers) as threads:
            futures = [
                threads.submit(shares.run, task, number, chunk, stop)
                for number, chunk in enumerate(chunks)
            ]
            try:
                for future in futures:  # in order, so that the error of the first chunk is raised
                    while wait([future], progress.INTERVAL).not_done:
                        progress.raise_if_stopped()
                        shares.show()
                    future.result()
                return [future.result() for future in futures]
            finally:  # where one failed, or all were interrupted, the others end soon
                stop.set()
                for future in futures:
                    future.cancel()


def tables_in(targets: Targets, xp: Any) -> Targets:
    """The same tables in the namespace of the walkers."""
    return {patch: to_namespace(table, xp) for patch, table in targets.items()}


def join(snapshots: list[Snapshot]) -> Snapshot:
    """Put snapshots one after another, and empty the list, so that no Jacobian is there twice.

    Their weights, if any, stay as they are.
    """
    xp = array_namespace(snapshots[0].configs)
    weights = [snapshot.weight for snapshot in snapshots]
    parts: list[Any] = [
        snapshot.jacobian for snapshot in snapshots if snapshot.jacobian is not None
    ]
    spreads = [snapshot.closure_spread for snapshot in snapshots]
    whole = Snapshot(
        configs=xp.concat([snapshot.configs for snapshot in snapshots]),
        amplitude=LogAmplitude(
            xp.concat([snapshot.amplitude.phase for snapshot in snapshots]),
            xp.concat([snapshot.amplitude.log_abs for snapshot in snapshots]),
        ),
        ratios={
            patch: xp.concat([snapshot.ratios[patch] for snapshot in snapshots])
            for patch in snapshots[0].ratios
        },
        weight=None if weights[0] is None else xp.concat(weights),
        closure_spread=None if spreads[0] is None else xp.concat(spreads),
    )
    snapshots.clear()
    if not parts:
        return whole
    if any(isinstance(part, Place) for part in parts):
        return replace(whole, jacobian=distribute(parts, in_use()))
    return replace(whole, jacobian=concatenate(parts))


def measure_configs(
    ansatz: Ansatz,
    theta: Array,
    configs: Array,
    targets: Targets,
    *,
    threads: int | None = None,
    jacobian: bool = False,
) -> Snapshot:
    """Measure M given configurations (M, N), in their order, without moving them.

    The snapshot has no weights: what the configurations stand for is the caller's business.
    Cost: one `start` and one measurement per configuration, no sweep.
    """
    xp = array_namespace(theta, configs)
    tables = tables_in(targets, xp)
    # Not a closure: ranks are sent the task.
    task = partial(_measure_rows, ansatz, theta, tables, jacobian, configs)
    found = join(in_chunks(task, chunks(configs.shape[0], ansatz, xp), ansatz, xp, threads))
    return replace(found, weight=None)  # of an ansatz whose walkers sample another distribution


def measured(
    ansatz: Ansatz, theta: Array, targets: Targets, jacobian: bool, configs: Array
) -> Snapshot:
    """Start at configurations (B, N) and measure them, in one call."""
    walkers = ansatz.start(theta, configs)
    return ansatz.measure(theta, walkers, targets, jacobian=jacobian)[1]


def _measure_rows(
    ansatz: Ansatz, theta: Array, targets: Targets, jacobian: bool, configs: Array, rows: range
) -> Snapshot:
    return measured(ansatz, theta, targets, jacobian, configs[rows.start : rows.stop, :])
