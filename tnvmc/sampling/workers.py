"""Walkers in chunks, and chunks side by side in threads.

Compiled kernels release the interpreter lock for a whole strip, so threads share the work of a
PEPS.  Without them a pass makes thousands of products of ten to a hundred microseconds, each of
which takes the lock, and two threads are only 1.1 times as fast as one (8x8, D = 4, chi = 8).
Results are the same in every bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from tnvmc.ansatz.protocol import Ansatz, LogAmplitude, Snapshot, Targets
from tnvmc.backend.device import out_of_room, ranks_per_device, walkers_that_fit
from tnvmc.backend.namespace import array_namespace, is_gpu, to_namespace
from tnvmc.backend.process import Place, in_use, own_chunks
from tnvmc.jacobian.dense import concatenate
from tnvmc.jacobian.distributed import distribute
from tnvmc.jacobian.repeated import RepeatedJacobian

Array = Any

T = TypeVar("T")


def split(n: int, size: int) -> list[range]:
    """0..n-1 in ranges of at most `size`."""
    return [range(begin, min(begin + size, n)) for begin in range(0, n, size)]


def chunks(n: int, ansatz: Ansatz, xp: Any = np, size: int | None = None) -> list[range]:
    """Chunks of n walkers, of at most `size`; the same for any number of workers.

    Without a size: on the host what the ansatz wants, but at most half of the walkers, so that two
    workers have work, unless it has threads of its own; on a GPU as many as fit into its free
    memory, in 1, 2, 4, ... equal chunks.  Where the numbers of a walker do not depend on its chunk
    (`Execution.apart`), there are as many for each of two workers on each rank.
    """
    wanted, n_ranks = ansatz.execution, in_use().size
    if size is not None:
        return split(n, size)
    if xp is not np and is_gpu(xp) and wanted.bytes_per_walker is not None:
        n_chunks = n_ranks
        fit = walkers_that_fit(ranks_per_device(in_use(), xp) * wanted.bytes_per_walker)
        while n_chunks * fit < n:
            n_chunks *= 2
        return split(n, -(-n // n_chunks))
    fit = wanted.chunk
    if wanted.own_threads or not wanted.apart:
        return split(n, min(fit, n if wanted.own_threads else -(-n // 2)))
    n_workers = 2 * n_ranks
    return split(n, -(-n // (n_workers * -(-n // (n_workers * fit)))))


def in_chunks(
    task: Callable[[range], T], parts: Sequence[range], ansatz: Ansatz, xp: Any, workers: int | None
) -> list[T]:
    """Results of `task` for every chunk, in order.

    In threads; one after another for an ansatz with threads of its own, and on a GPU, which has one
    queue of work.  Where ranks are in use each has some chunks that lie side by side, and Jacobians
    stay there, to be joined by `tnvmc.jacobian.distributed`.

    Raises:
        DeviceError: no room on the GPU.
    """
    ranks = in_use()
    if xp is not np:
        ranks_per_device(ranks, xp)  # warns
    n_threads = 1 if xp is not np or ansatz.execution.own_threads else workers
    try:
        found = ranks.each(own_chunks, task, parts, n_threads, constant=ansatz)
    except MemoryError as error:
        if not is_gpu(xp):
            raise
        hint = (
            "lower sampler.chunk (walkers at a time), sampler.n_samples (log-derivatives) or "
            "contraction.chi"
        )
        raise out_of_room(f"{max(map(len, parts))} walkers at a time", hint) from error
    return [result for of_rank in found for result in of_rank]


def tables_in(targets: Targets, xp: Any) -> Targets:
    """The same tables in the namespace of the walkers."""
    return {patch: to_namespace(table, xp) for patch, table in targets.items()}


def join(snapshots: list[Snapshot]) -> Snapshot:
    """Put snapshots one after another, and empty the list, so that no Jacobian is there twice.

    Their weights, if any, stay as they are.
    """
    xp = array_namespace(snapshots[0].configs)
    amplitudes = [snapshot.amplitude for snapshot in snapshots]
    own = {
        name: [getattr(snapshot, name) for snapshot in snapshots]
        for name in ("configs", "weight", "closure_spread")
    }
    whole = Snapshot(
        **{name: xp.concat(found) for name, found in own.items() if found[0] is not None},
        amplitude=LogAmplitude(
            *(xp.concat([getattr(each, of) for each in amplitudes]) for of in ("phase", "log_abs"))
        ),
        ratios={
            patch: xp.concat([snapshot.ratios[patch] for snapshot in snapshots])
            for patch in snapshots[0].ratios
        },
    )
    parts: list[Any] = [each.jacobian for each in snapshots if each.jacobian is not None]
    snapshots.clear()
    if not parts:
        return whole
    elsewhere = type(parts[0]) is Place
    joined = distribute(parts, in_use()) if elsewhere else concatenate(parts)
    return replace(whole, jacobian=joined)


def measure_configs(
    ansatz: Ansatz, theta: Array, configs: Array, targets: Targets, *, threads: int | None = None,
    jacobian: bool = False,
) -> Snapshot:  # fmt: skip
    """Measure M given configurations (M, N), in their order, without moving them.

    The snapshot has no weights: what the configurations stand for is the caller's business.
    Cost: one `start` and one measurement per configuration, no sweep.
    """
    xp = array_namespace(theta, configs)
    tables = tables_in(targets, xp)
    # Not a closure: ranks are sent the task.
    task = partial(measure_rows, ansatz, theta, tables, jacobian, configs)
    found = join(in_chunks(task, chunks(configs.shape[0], ansatz, xp), ansatz, xp, threads))
    return replace(found, weight=None)  # of an ansatz whose walkers sample another distribution


def expanded(snapshot: Snapshot, which: Array) -> Snapshot:
    """The snapshot of M samples, `which` (M,) tells whose row of this one each has."""
    xp = array_namespace(snapshot.configs)
    own: dict[str, Any] = {"amplitude": snapshot.amplitude.take(which)}
    for name in ("configs", "weight", "closure_spread"):
        if (found := getattr(snapshot, name)) is not None:
            own[name] = xp.take(found, which, axis=0)
    own["ratios"] = {p: xp.take(ratio, which, axis=0) for p, ratio in snapshot.ratios.items()}
    if snapshot.jacobian is not None:
        own["jacobian"] = RepeatedJacobian(snapshot.jacobian, which)
    return replace(snapshot, **own)


def measured(
    ansatz: Ansatz, theta: Array, targets: Targets, jacobian: bool, configs: Array
) -> Snapshot:
    """Start at configurations (B, N) and measure them, in one call."""
    walkers = ansatz.start(theta, configs)
    return ansatz.measure(theta, walkers, targets, jacobian=jacobian)[1]


def measure_rows(
    ansatz: Ansatz, theta: Array, targets: Targets, jacobian: bool, configs: Array, rows: range
) -> Snapshot:
    return measured(ansatz, theta, targets, jacobian, configs[rows.start : rows.stop, :])
