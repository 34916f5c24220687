"""Between NumPy or CuPy and JAX; what needs a GPU is in tests/test_gpu.py."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from tests.drawing import sample
from tnvmc.ansatz.neural import dlpack
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.rbm import RBM
from tnvmc.lattice import chain
from tnvmc.operators.models import tfim
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for

FULL = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8B")


def test_no_room_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cupy", raising=False)

    def full() -> None:
        raise FULL

    with pytest.raises(MemoryError, match="RESOURCE_EXHAUSTED"):
        dlpack.called(full)


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
        assert dlpack.called(run, 7) == 7
    else:
        with pytest.raises(MemoryError):
            dlpack.called(run, 7)
    assert calls == ["run", "freed", "run"]


def test_other_errors_of_jax_stay_what_they_are() -> None:
    def broken() -> None:
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        dlpack.called(broken)


@pytest.mark.whole
def test_moves_are_planned_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = tfim(chain(4))
    ansatz = FlaxAnsatz(chain(4), lambda rngs: RBM(chain(4), local_dim=2, rngs=rngs))
    planned: list[Any] = []
    plan_moves = dlpack.beside

    def counted(tree: Any, array: Any) -> Any:
        planned.append(tree)
        return plan_moves(tree, array)

    monkeypatch.setattr("tnvmc.ansatz.neural.compiled_sweeps.beside", counted)
    for step in range(2):
        sample(Sampler(8, 8, n_burn=3, chunk=8), ansatz, (ansatz.random(0), initial_configs(operator, 8, 0)), operator.targets, moves_for(operator), (0, step))  # fmt: skip
    assert len(planned) == 2
