"""Configurations that were drawn already, measured again: at another chi, say."""

from __future__ import annotations

from functools import partial
from typing import Any

from tnvmc.ansatz.protocol import Ansatz, Snapshot, Targets
from tnvmc.backend.namespace import array_namespace
from tnvmc.sampling.chains import join, tables_in
from tnvmc.sampling.chunks import chunks, in_chunks

Array = Any


def revisit(
    ansatz: Ansatz,
    theta: Array,
    configs: Array,
    operator_targets: Targets,
    threads: int | None = None,
    jacobian: bool = False,
) -> Snapshot:
    """Measure M given configurations (M, N), in their order, without moving them.

    The snapshot has no weights: what the configurations stand for is the caller's business.
    Cost: one `start` and one measurement per configuration, no sweep.
    """
    xp = array_namespace(theta, configs)
    targets = tables_in(operator_targets, xp)
    n_samples = configs.shape[0]
    measure = partial(_measure_chunk, ansatz, theta, configs, targets, jacobian)
    return join(in_chunks(measure, chunks(n_samples, ansatz, xp), ansatz, xp, threads))


def _measure_chunk(
    ansatz: Ansatz, theta: Array, configs: Array, targets: Targets, jacobian: bool, chunk: range
) -> Snapshot:
    walkers = ansatz.start(theta, configs[chunk.start : chunk.stop, :])
    return ansatz.measure(theta, walkers, targets, jacobian=jacobian)[1]
