"""Chunks side by side: order, equal bits, and an end where one of them fails."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.drawing import sample
from tnvmc import PEPS, SRC, Sampler, heisenberg, square
from tnvmc.backend import progress
from tnvmc.backend.process import ALONE, own_chunks
from tnvmc.contraction.schemes import Scheme, ZipUp
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_chunks(workers: int) -> None:
    chunks = [range(i, i + 2) for i in range(0, 10, 2)]
    assert own_chunks(ALONE, sum, chunks, workers) == [sum(chunk) for chunk in chunks]


@pytest.mark.parametrize("scheme", [SRC(5), ZipUp(5)], ids=["compiled", "numpy"])
def test_one_worker_and_two_walk_the_same_chain(scheme: Scheme) -> None:
    operator = heisenberg(square(4, 4))
    peps = PEPS(operator.lattice, 3, scheme=scheme)
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


def test_threads_end_soon_where_another_one_failed() -> None:
    """What is still computed for nobody ends at the next share that it tells."""
    began = time.monotonic()

    def task(part: range) -> None:
        if part.start == 0:
            raise ValueError("no")
        while time.monotonic() < began + 60:
            progress.tell(0.5)
            time.sleep(0.01)

    with pytest.raises(ValueError, match="no"):
        own_chunks(ALONE, task, [range(1), range(1, 2)], 2)
    assert time.monotonic() < began + 30
