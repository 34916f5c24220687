"""Chunks side by side: order, equal bits, and a worker that dies."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from tests.drawing import sample
from tnvmc import PEPS, SRC, Sampler, heisenberg, square
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for
from tnvmc.sampling.workers import WorkerLost, in_workers


@pytest.mark.parametrize("processes", [False, True])
def test_results_come_in_the_order_of_the_chunks(processes: bool) -> None:
    chunks = [range(i, i + 2) for i in range(0, 10, 2)]
    assert in_workers(sum, chunks, 2, processes=processes) == [sum(chunk) for chunk in chunks]
    assert in_workers(sum, chunks, 1, processes=processes) == [sum(chunk) for chunk in chunks]


def test_one_worker_and_two_walk_the_same_chain() -> None:
    operator = heisenberg(square(4, 4))
    peps = PEPS(operator.lattice, 3, scheme=SRC(5))
    theta = np.abs(np.random.default_rng(0).normal(size=peps.n_params))
    configs = initial_configs(operator, 32, seed=1)
    found = [
        sample(Sampler(n_walkers=32, n_samples=64, threads=workers, chunk=16), peps, (theta, configs), operator.targets, moves_for(operator), (5, 0))
        for workers in (1, 2)
    ]  # fmt: skip
    (one, snapshot, _), (two, other, _) = found
    assert np.array_equal(one, two)
    assert np.array_equal(snapshot.amplitude.log_abs, other.amplitude.log_abs)
    assert all(np.array_equal(snapshot.ratios[p], other.ratios[p]) for p in snapshot.ratios)
    assert np.array_equal(snapshot.jacobian.dense(), other.jacobian.dense())  # type: ignore[union-attr]


def _dies(chunk: range) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return len(chunk)


def test_a_lost_worker_is_told_and_replaced() -> None:
    chunks = [range(2), range(2, 4)]
    with pytest.raises(WorkerLost, match=r"run\.threads"):
        in_workers(_dies, chunks, 2, processes=True)
    assert in_workers(sum, chunks, 2, processes=True) == [1, 5]
