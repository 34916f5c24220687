"""Sweeps in single precision: the weights take away what rounding does to the samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests import oracles
from tests.drawing import sample
from tnvmc.ansatz.initial import initial_parameters
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.product import ProductState
from tnvmc.ansatz.wrappers.mixed import Mixed
from tnvmc.backend.namespace import to_host, to_namespace
from tnvmc.contraction.schemes import SRC
from tnvmc.estimate.local import local_energy
from tnvmc.estimate.statistics import effective_samples, estimate, weighted_estimate
from tnvmc.lattice import chain, square
from tnvmc.operators.models import heisenberg, tfim
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for
from tnvmc.vmc.driver import VMC

SINGLE = 1e-3  # ln psi of a dozen sites, each closure rounded at 6e-8 and conditioned to 1e3
DOUBLE = 1e-10


@dataclass(frozen=True)
class Coarse(ProductState):
    """A product state whose walks are off by far more than rounding."""

    @property
    def single(self) -> Any:
        return _Tilted(self.lattice, self.local_dim)


class _Tilted(ProductState):
    def start(self, theta: Any, configs: Any) -> Any:
        return super().start(_tilted(theta), configs)

    def sweep(self, theta: Any, *arguments: Any, **options: Any) -> Any:
        return super().sweep(_tilted(theta), *arguments, **options)


def _tilted(theta: Any) -> Any:
    return (np.asarray(theta).reshape(-1, 2) * np.array([1.0, 0.7])).astype(theta.dtype).ravel()


@pytest.mark.whole
def test_weights_undo_what_coarse_walks_do() -> None:
    """An energy that is many errors off without weights, and right with them."""
    operator = tfim(chain(8), h=1.0)
    ansatz = Coarse(operator.lattice, 2)
    theta = np.tile([1.0, 0.7], 8)
    sampler = Sampler(64, 64 * 200, n_burn=10, precision="single")
    configs = initial_configs(operator, 64, 0)
    _, snapshot, _ = sample(
        sampler, ansatz, (theta, configs), operator.targets, moves_for(operator)
    )
    local = local_energy(operator, snapshot)
    psi = ansatz.log_amplitude(theta, oracles.all_configs(8))
    vector = psi.phase * np.exp(psi.log_abs)
    dense = oracles.dense_hamiltonian(operator)
    exact = float(vector @ dense @ vector / (vector @ vector))
    found = weighted_estimate(local, snapshot.weight, 64)
    plain = estimate(local, 64)
    assert abs(found.mean - exact) < 4.5 * found.error
    assert abs(plain.mean - exact) > 10 * plain.error
    assert 0.3 * local.size < effective_samples(snapshot.weight) < 0.98 * local.size


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_a_peps_walks_in_single_and_is_measured_in_double(xp: Any, dtype: str) -> None:
    operator = heisenberg(square(3, 4))
    peps = PEPS(operator.lattice, 2, dtype, SRC(4))
    rng = np.random.default_rng(3)
    theta = initial_parameters(peps, operator, 0)
    if dtype == "complex128":
        theta = theta * np.exp(0.3j * rng.normal(size=theta.size))
    theta, mixed = to_namespace(theta, xp), Mixed(peps)
    configs = to_namespace(initial_configs(operator, 6, 1), xp)
    moves = {patch: xp.asarray(table) for patch, table in moves_for(operator).items()}
    targets = {patch: xp.asarray(table) for patch, table in operator.targets.items()}
    walkers = mixed.start(theta, configs)
    numbers = xp.asarray(rng.random((6, len(moves))))
    walkers, _ = mixed.sweep(theta, walkers, moves, numbers)
    assert walkers.amplitude.log_abs.dtype == xp.float32
    again, snapshot = mixed.measure(theta, walkers, targets)
    assert again is walkers
    _, expected = peps.measure(theta, peps.start(theta, walkers.configs), targets)
    assert snapshot.amplitude.log_abs.dtype == xp.float64
    np.testing.assert_array_equal(to_host(snapshot.configs), to_host(walkers.configs))
    for patch, ratios in expected.ratios.items():
        np.testing.assert_array_equal(to_host(snapshot.ratios[patch]), to_host(ratios))
    assert snapshot.jacobian is not None and expected.jacobian is not None
    np.testing.assert_array_equal(
        to_host(snapshot.jacobian.dense()), to_host(expected.jacobian.dense())
    )
    off = to_host(expected.amplitude.log_abs) - to_host(walkers.amplitude.log_abs).astype(float)
    np.testing.assert_allclose(to_host(snapshot.weight), np.exp(2 * off), rtol=DOUBLE)
    assert 0 < np.abs(off).max() < SINGLE


def test_a_configuration_where_rounding_ends_has_no_weight() -> None:
    """psi of 1e-200 is 0 in single precision, and nothing divides by it."""
    lattice = chain(2)
    ansatz = PEPS(lattice, 1)
    theta = np.array([1.0, 1e-200, 1.0, 1e-200])
    walkers = Mixed(ansatz).start(theta, np.array([[0, 0], [1, 1]], dtype=np.int8))
    _, snapshot = Mixed(ansatz).measure(theta, walkers, {})
    assert to_host(snapshot.weight)[1] == 0
    np.testing.assert_allclose(to_host(snapshot.weight)[0], 1)


SLOW = [
    pytest.param(kind, marks=pytest.mark.slow)
    for kind in ("vit", "patched_transformer", "rnn", "made")
]


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["rbm", "cnn", *SLOW])
def test_networks_walk_in_single_after_they_were_used_in_double(kind: str) -> None:
    pytest.importorskip("flax")
    from tnvmc.settings.build import build_ansatz
    from tnvmc.settings.load import complete, validate

    data = {
        "lattice": {"shape": [4, 4]},
        "hamiltonian": {"model": "heisenberg"},
        "ansatz": {"kind": kind, "marshall": True},
        "sampler": {"kind": "metropolis"},
    }
    operator = heisenberg(square(4, 4))
    ansatz: Any = build_ansatz(complete(validate(data)), operator)
    theta = ansatz.random(0)
    configs = initial_configs(operator, 8, 0)
    ansatz.start(theta, configs)
    for n_replicas in (1, 2):
        sampler = Sampler(8, 16, n_replicas=n_replicas, precision="single")
        configs = initial_configs(operator, sampler.n_configs, 0)
        _, snapshot, info = sample(
            sampler, ansatz, (theta, configs), operator.targets, moves_for(operator)
        )
        weight = 16 * to_host(snapshot.weight)
        assert weight.dtype == np.float64 and 0 < np.abs(weight - 1).max() < SINGLE
        assert info.acceptance > 0
        expected = ansatz.log_amplitude(theta, snapshot.configs)
        np.testing.assert_allclose(snapshot.amplitude.log_abs, expected.log_abs, rtol=DOUBLE)
    assert ansatz.single is ansatz.single, "compiled once"


@pytest.mark.whole
def test_numbers_next_to_one_are_not_rounded_up() -> None:
    """Rounded to 1 a number would pick a replacement that is not there and accept it."""
    pytest.importorskip("flax")
    import jax.numpy as jnp
    from flax import nnx

    from tnvmc.ansatz.neural.flax import FlaxAnsatz

    class Field(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.h = nnx.Param(jnp.full((4,), -8.0))

        def __call__(self, spins: Any) -> Any:
            return spins @ self.h[...]

    ansatz = FlaxAnsatz(chain(4), Field)
    operator = tfim(chain(4))
    walkers = ansatz.single.start(ansatz.random(0).astype(np.float32), np.zeros((2, 4), np.int8))
    moves = moves_for(operator)
    numbers = np.full((2, len(moves)), 1 - 2.0**-53)
    after, info = ansatz.single.sweep(ansatz.random(0).astype(np.float32), walkers, moves, numbers)
    assert info.proposed.sum() == 8 and info.accepted.sum() == 0
    np.testing.assert_array_equal(after.configs, walkers.configs)


@pytest.mark.parametrize(
    ("ansatz", "words"),
    [
        (ProductState(chain(4), 2), "a ProductState has no sweeps in single precision"),
        (PEPS(chain(4), 2, "float32"), "a PEPS with dtype float32 is in single precision as it is"),
    ],
)
def test_what_cannot_be_mixed_is_refused(ansatz: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"sampler.precision = 'single': {words}"):
        Mixed(ansatz)


def test_a_sampler_knows_one_precision_beside_its_own() -> None:
    with pytest.raises(ValueError, match="precision must be one of None, 'single', got 'half'"):
        Sampler(precision="half")  # type: ignore[arg-type]


@pytest.mark.whole
def test_a_measurement_tells_what_the_weights_changed() -> None:
    operator = heisenberg(square(2, 4))
    peps = PEPS(operator.lattice, 2)
    vmc = VMC(operator, peps, Sampler(32, 128, precision="single"))
    vmc.run(2)
    found = vmc.measure(256, chi=8)
    assert found.precision_shift is not None and 0 < abs(found.precision_shift) < SINGLE
    assert found.effective_samples == pytest.approx(256, rel=SINGLE)
    plain = vmc.measure(256, symmetries=("spin",))
    assert plain.precision_shift is None, "images are walked and measured in one precision"
