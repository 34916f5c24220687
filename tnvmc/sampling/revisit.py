"""Configurations that were drawn already, measured again: at another chi, say."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Ansatz, Snapshot, Targets
from tnvmc.backend.namespace import array_namespace
from tnvmc.sampling.chains import chunk_hint, join, split, tables_in
from tnvmc.sampling.workers import in_workers

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
    processes = xp is np and getattr(ansatz, "in_processes", False)
    # At most half of the samples, so that two workers have work; as `Sampler.chunks`.
    chunks = split(n_samples, min(chunk_hint(ansatz), -(-n_samples // 2)))
    return join(in_workers(measure, chunks, threads, processes=processes))


def _measure_chunk(
    ansatz: Ansatz, theta: Array, configs: Array, targets: Targets, jacobian: bool, chunk: range
) -> Snapshot:
    walkers = ansatz.start(theta, configs[chunk.start : chunk.stop, :])
    return ansatz.measure(theta, walkers, targets, jacobian=jacobian)[1]
