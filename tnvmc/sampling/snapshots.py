"""Snapshots: of given configurations, and several put into one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from tnvmc.ansatz.protocol import Ansatz, LogAmplitude, Snapshot, Targets
from tnvmc.backend.namespace import array_namespace, to_namespace
from tnvmc.backend.ranks import Place, in_use
from tnvmc.jacobian.dense import as_base
from tnvmc.jacobian.distributed import distribute
from tnvmc.jacobian.hstack import concatenate
from tnvmc.sampling.problem import Wanted
from tnvmc.sampling.workers import chunks, in_chunks

Array = Any


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


def kept(snapshot: Snapshot, jacobian: Wanted) -> Snapshot:
    """The snapshot with its log-derivatives in the precision that is wanted."""
    if jacobian != "single" or snapshot.jacobian is None:
        return snapshot
    return replace(snapshot, jacobian=as_base(snapshot.jacobian).in_single())


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
