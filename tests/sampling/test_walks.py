"""Chains that make several sweeps in one call: the same as sweep by sweep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flax")

from tests.drawing import sample
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.rbm import RBM
from tnvmc.lattice import square
from tnvmc.operators.models import heisenberg
from tnvmc.sampling import chains
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for

OPERATOR = heisenberg(square(2, 3))
ROUNDING = 1e-12  # a few operations on numbers of order 1, in batches of other sizes


def ansatz() -> FlaxAnsatz:
    lattice = OPERATOR.lattice
    return FlaxAnsatz(
        lattice, lambda rngs: RBM(lattice, dtype="float64", init_scale=0.3, rngs=rngs)
    )


def drawn(network: FlaxAnsatz, sampler: Sampler, stream: int = 0) -> Any:
    configs = initial_configs(OPERATOR, sampler.n_walkers, seed=0)
    point = network.random(0), configs
    return sample(sampler, network, point, OPERATOR.targets, moves_for(OPERATOR), (0, stream))


@pytest.mark.whole
@pytest.mark.parametrize(
    ("n_burn", "n_thin", "n_draws", "power"), [(0, 1, 40, 1.0), (3, 2, 21, 0.6), (5, 7, 2, 1.0)]
)
def test_sweeps_in_one_call_are_the_same_chain(
    monkeypatch: pytest.MonkeyPatch, n_burn: int, n_thin: int, n_draws: int, power: float
) -> None:
    network = ansatz()
    sampler = Sampler(10, 10 * n_draws, n_burn=n_burn, n_thin=n_thin, power=power)
    found = []
    for at_once in (1, 90, 4096):
        monkeypatch.setattr(chains, "_AT_ONCE", at_once)
        found.append(drawn(network, sampler))
    one = found[0]
    for configs, snapshot, info in found[1:]:
        np.testing.assert_array_equal(configs, one[0])
        np.testing.assert_array_equal(snapshot.configs, one[1].configs)
        np.testing.assert_allclose(
            snapshot.amplitude.log_abs, one[1].amplitude.log_abs, atol=ROUNDING
        )
        np.testing.assert_allclose(
            snapshot.jacobian.dense(), one[1].jacobian.dense(), atol=ROUNDING
        )
        for patch, ratios in one[1].ratios.items():
            np.testing.assert_allclose(snapshot.ratios[patch], ratios, rtol=1e-10)
        assert (info.acceptance, info.n_draws) == (one[2].acceptance, n_draws)


@pytest.mark.whole
def test_the_same_draw_is_the_same_in_any_bit() -> None:
    sampler = Sampler(10, 120)
    first, second = drawn(ansatz(), sampler), drawn(ansatz(), replace(sampler, threads=1))
    assert first[1].amplitude.log_abs.tobytes() == second[1].amplitude.log_abs.tobytes()
    assert drawn(ansatz(), sampler, 1)[1].configs.tobytes() != first[1].configs.tobytes()


@pytest.mark.whole
def test_a_walker_is_a_function_of_its_number() -> None:
    """Of more walkers in more blocks the first ones go the same way."""
    few, many = (drawn(ansatz(), Sampler(n, 4 * n, power=1.0)) for n in (16, 150))
    np.testing.assert_array_equal(many[0][:16], few[0])
