"""Networks on which chains walk in single precision."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flax")

from tests.drawing import enumerated, sample
from tnvmc.ansatz.neural import NETWORKS
from tnvmc.ansatz.neural.compiled_sweeps import SinglePrecision
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.estimate.observables import local_energy
from tnvmc.estimate.statistics import estimate_samples
from tnvmc.lattice import square
from tnvmc.operators.models import j1j2
from tnvmc.sampling.chains import Sampler, walks_coarser
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for
from tnvmc.sampling.problem import Point

H = j1j2(square(4, 2), J2=0.5)
SIZES: dict[str, dict[str, Any]] = {
    "rbm": {"dtype": "complex128"},
    "cnn": {"features": [4], "kernel": 2},
    "vit": {"width": 8, "heads": 2, "layers": 1, "patch": 2},
}
SINGLE = 1e-5  # of ln psi: some hundred roundings of single precision
FEW_PER_SIGMA = 4


def network(kind: str) -> tuple[FlaxAnsatz, np.ndarray, np.ndarray]:
    make = partial(NETWORKS[kind].load(), H.lattice, **SIZES[kind])
    ansatz = FlaxAnsatz(H.lattice, lambda rngs: make(rngs=rngs))
    theta = ansatz.random(0)
    noise = np.random.default_rng(1).normal(0, 0.1, theta.shape)
    return ansatz, theta + noise, initial_configs(H, 32, seed=0)


@pytest.mark.parametrize("kind", SIZES)
def test_chains_walk_in_single_precision_and_energies_are_right(kind: str) -> None:
    ansatz, theta, configs = network(kind)
    single = ansatz.coarser
    assert isinstance(single, SinglePrecision)
    double, found = (each.log_amplitude(theta, configs) for each in (ansatz, single))
    assert (found.log_abs.dtype, double.log_abs.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(found.log_abs, double.log_abs, rtol=0, atol=SINGLE)
    np.testing.assert_allclose(found.phase, double.phase, rtol=0, atol=SINGLE)
    assert walks_coarser(ansatz, Point(theta, configs), 1.0)
    exact = enumerated(ansatz, theta, H, jacobian=False)
    energy = exact.weight @ local_energy(H, exact)
    for power in (1.0, 0.7):
        sampler = Sampler(32, 32 * 60, n_burn=10, power=power)
        begun = theta, configs
        _, seen, info = sample(sampler, ansatz, begun, H.targets, moves_for(H), (3, 0))
        assert seen.amplitude.log_abs.dtype == np.float64
        estimate = estimate_samples(local_energy(H, seen), seen.weight, info)
        assert abs(estimate.mean - energy) < FEW_PER_SIGMA * estimate.error


def test_a_module_of_the_users_own_keeps_its_precision() -> None:
    import jax.numpy as jnp
    from flax import linen as nn

    class Own(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            return jnp.sum(nn.Dense(4)(x.astype(float)), axis=-1)

    assert FlaxAnsatz(H.lattice, Own()).coarser is None
