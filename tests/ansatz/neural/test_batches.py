"""Batches: their size follows from the network, and results are those of all rows, in threads too."""

from __future__ import annotations

import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.drawing import sample
from tnvmc.ansatz.neural import NETWORKS, batches
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.rbm import RBM
from tnvmc.lattice import chain, square
from tnvmc.operators.models import heisenberg, tfim
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for


@pytest.mark.parametrize(("n", "below", "above"), [(1, 16, 16), (17, 16, 32), (64, 64, 64)])
def test_batches_are_powers_of_two(n: int, below: int, above: int) -> None:
    assert batches.power_below(n) == below
    assert batches.padded_size(n) == above
    rows = np.arange(3 * n).reshape(n, 3)
    filled = batches.padded(rows, above)
    assert filled.shape == (above, 3)
    np.testing.assert_array_equal(filled[:n], rows)
    assert (filled[n:] == rows[0]).all()


@pytest.mark.parametrize("by_blocks", [True, False])
@pytest.mark.parametrize(("largest", "fewer"), [(32, 1024), (32, 16), (64, 16), (128, 16)])
def test_results_of_batches_are_those_of_all_rows(
    monkeypatch: pytest.MonkeyPatch, largest: int, fewer: int, by_blocks: bool
) -> None:
    monkeypatch.setattr(batches, "FEWER", fewer)

    @jax.jit
    def run(theta: Any, rows: Any, n_rows: Any) -> Any:
        return batches.in_blocks(lambda x: (x @ theta, jnp.sum(x, axis=1)), rows, 16, n_rows)

    rows, theta = np.random.default_rng(0).random((75, 4)), np.arange(4.0)
    found = batches.in_batches(run, theta, rows, largest, by_blocks)
    np.testing.assert_allclose(found[0], rows @ theta)
    np.testing.assert_allclose(found[1], rows.sum(axis=1))
    nothing = batches.in_batches(run, theta, np.ones((0, 4)), 32)
    assert nothing[0].shape == (0,)


@pytest.mark.parametrize("n", [1, 64, 65, 200, 1000])
def test_blocks_of_walkers_are_even(n: int) -> None:
    length = batches.even(n, 128)
    blocks = [min(length, n - begin) for begin in range(0, n, length)]
    assert sum(blocks) == n
    assert max(blocks) <= 128
    assert max(blocks) - min(blocks) < len(blocks)
    assert len(blocks) == 1 or max(blocks) > batches.FEWEST // 2


def network(kind: str, **architecture: Any) -> FlaxAnsatz:
    lattice = square(6, 6, "periodic")
    module = NETWORKS[kind].load()
    return FlaxAnsatz(lattice, lambda rngs: module(lattice, rngs=rngs, **architecture))


@pytest.mark.whole
def test_the_size_of_a_block_follows_from_the_largest_array() -> None:
    """Windows of 9 sites and 4 channels: 36 * 36 numbers of 8 bytes; an RBM: 36 hidden units."""
    rows = np.zeros((2, 36), np.int8)
    large = network("cnn", features=[4, 4], kernel=3)
    assert large._block(rows) == batches.power_below(batches.CACHE // (36 * 36 * 8))
    assert network("rbm", alpha=1)._block(rows) == batches.MOST_IN_BLOCK
    assert network("cnn", features=[64, 64], kernel=3)._block(rows) == batches.SMALLEST_BATCH


@pytest.mark.whole
@pytest.mark.parametrize("n_rows", [3, 8, 9, 32])
@pytest.mark.parametrize("block", [None, 8, 32, 64])
def test_blocks_give_what_all_rows_give(block: int | None, n_rows: int) -> None:
    rows = np.random.default_rng(0).random((32, 4))
    found = batches.in_blocks(
        lambda x: (jnp.sum(x, axis=1), 2 * x), jnp.asarray(rows), block, n_rows
    )
    np.testing.assert_allclose(found[0][:n_rows], rows.sum(axis=1)[:n_rows])
    np.testing.assert_array_equal(found[1][:n_rows], 2 * rows[:n_rows])
    if block == 8:  # whole blocks are left out
        assert not np.any(found[1][-(-n_rows // block) * block :])


def test_threads_keep_the_precision_and_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "available_cores", lambda: 3)
    places = range(0, 50, 7)

    def task(place: int) -> tuple[int, Any]:
        return place, jnp.ones(2).dtype

    with jax.enable_x64(False):
        assert batches.side_by_side(task, places, False) == [(p, np.float32) for p in places]
    assert batches.side_by_side(task, places, False) == [(p, np.float64) for p in places]


@pytest.mark.whole
def test_results_do_not_depend_on_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    lattice = square(4, 4)
    ansatz = FlaxAnsatz(lattice, lambda rngs: RBM(lattice, rngs=rngs))
    monkeypatch.setattr(batches, "MOST", 32)
    theta, configs = ansatz.random(0), initial_configs(heisenberg(lattice), 150, seed=0)
    found = []
    for cores in (1, 3):
        monkeypatch.setattr(batches, "available_cores", lambda cores=cores: cores)
        found.append(ansatz.log_amplitude(theta, configs).log_abs.tobytes())
    assert found[0] == found[1]


FULL = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8B")


def test_no_room_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cupy", raising=False)

    def full() -> None:
        raise FULL

    with pytest.raises(MemoryError, match="RESOURCE_EXHAUSTED"):
        batches.called(full)


@pytest.mark.parametrize("helps", [True, False])
def test_cupy_gives_back_what_it_keeps_first(monkeypatch: pytest.MonkeyPatch, helps: bool) -> None:
    calls: list[str] = []
    pool = SimpleNamespace(free_all_blocks=lambda: calls.append("freed"))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(get_default_memory_pool=lambda: pool))

    def run(x: int) -> int:
        calls.append("run")
        if len(calls) == 1 or not helps:
            raise FULL
        return x

    if helps:
        assert batches.called(run, 7) == 7
    else:
        with pytest.raises(MemoryError):
            batches.called(run, 7)
    assert calls == ["run", "freed", "run"]


def test_other_errors_of_jax_stay_what_they_are() -> None:
    def broken() -> None:
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        batches.called(broken)


@pytest.mark.whole
def test_moves_are_planned_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = tfim(chain(4))
    ansatz = FlaxAnsatz(chain(4), lambda rngs: RBM(chain(4), local_dim=2, rngs=rngs))
    planned: list[Any] = []
    plan_moves = batches.beside

    def counted(tree: Any, array: Any) -> Any:
        planned.append(tree)
        return plan_moves(tree, array)

    # The module itself: other tests import the package anew, which leaves its parts behind.
    monkeypatch.setattr(import_module("tnvmc.ansatz.neural.compiled_sweeps"), "beside", counted)
    for step in range(2):
        sample(Sampler(8, 8, n_burn=3, chunk=8), ansatz, (ansatz.random(0), initial_configs(operator, 8, 0)), operator.targets, moves_for(operator), (0, step))  # fmt: skip
    assert len(planned) == 2
