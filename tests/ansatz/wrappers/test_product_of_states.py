"""Products of states against dense products."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flax import nnx

from tests import oracles
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.jastrow import Jastrow
from tnvmc.ansatz.load_state import load_state
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.neural.cnn import CNN
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.rbm import RBM
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.product import ProductState
from tnvmc.ansatz.protocol import Walkers, chi_of, with_chi
from tnvmc.ansatz.wrappers.product_of_states import LARGEST, ProductOfStates, deviation
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.contraction.schemes import SRC
from tnvmc.estimate.observables import local_energy
from tnvmc.jacobian.dense import as_base
from tnvmc.jacobian.hstack import HStackJacobian
from tnvmc.jacobian.slices import SliceJacobian
from tnvmc.lattice import chain, kagome, square
from tnvmc.operators.models import heisenberg, tfim
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.optimize.sr import SR
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.sampling.moves import flips
from tnvmc.session.vmc import VMC

UNCUT = 64
ROUNDING = 1e-9  # of amplitudes of small networks, some of which nearly cancel
STEP = 1e-5  # of central differences: error step^2 + rounding / step
DERIVATIVE = 1e-6
FORWARD = 1e-7  # third derivatives of a network along random directions are some thousands
LATTICE = square(2, 3)


def rbm(lattice: Any = LATTICE, **options: Any) -> FlaxAnsatz:
    network = RBM(lattice, init_scale=0.3, dtype="float64", rngs=nnx.Rngs(3), **options)
    return FlaxAnsatz(lattice, network)


def cnn(lattice: Any, **options: Any) -> FlaxAnsatz:
    return FlaxAnsatz(lattice, CNN(lattice, features=(2,), kernel=2, rngs=nnx.Rngs(1), **options))


def random_theta(state: Any, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if isinstance(state, ProductOfStates):
        return np.asarray(
            state.joined(random_theta(state.first, seed), random_theta(state.second, seed))
        )
    if isinstance(state, FlaxAnsatz):
        return state.random(3)
    if isinstance(state, Jastrow):
        return 20 * state.random(seed)
    theta = rng.normal(size=state.n_params)
    if "complex" in str(state.dtype):
        theta = theta + 1j * rng.normal(size=state.n_params)
    return theta.astype(state.dtype)


PAIRS = ("PEPS, Jastrow", "PEPS, RBM", "complex", "phases", "ring, CNN")


@cache
def pairs() -> dict[str, tuple[Any, Any]]:
    """The factors by name, which all tests here share: networks keep what was compiled for them."""
    ring, plaquette = chain(5, "periodic"), square(2, 2)
    real = PEPS(LATTICE, 2, "float64", SRC(UNCUT))
    turned = PEPS(plaquette, 2, "complex128", SRC(UNCUT))
    return {
        "PEPS, Jastrow": (real, Jastrow(LATTICE)),
        "PEPS, RBM": (real, rbm()),
        "complex": (turned, Jastrow(plaquette, dtype="complex128")),
        "phases": (real, cnn(LATTICE, output="complex")),
        "ring, CNN": (PeriodicMPS(ring, 2), cnn(ring)),
    }


def product(name: str, sweeps: Any = None) -> ProductOfStates:
    return ProductOfStates(*pairs()[name], sweeps)


def dense(state: Any, theta: np.ndarray, configs: np.ndarray) -> np.ndarray:
    found = state.log_amplitude(theta, configs)
    return np.asarray(found.phase * np.exp(found.log_abs))


@pytest.mark.whole
@pytest.mark.parametrize("name", PAIRS)
def test_conforms(name: str) -> None:
    """With sweeps of both: |psi|^2 is stationary, and everything is that of one wave function."""
    state = product(name, "both")
    check_ansatz(state, random_theta(state))


@pytest.mark.whole
def test_conforms_on_the_chosen_backend(xp: Any) -> None:
    state = ProductOfStates(PEPS(square(2, 2), 2, scheme=SRC(16)), Jastrow(square(2, 2)), "both")
    check_ansatz(state, xp.asarray(random_theta(state)))


@pytest.mark.whole
@pytest.mark.parametrize("name", PAIRS)
def test_amplitudes_ratios_and_log_derivatives(name: str) -> None:
    state = product(name)
    configs = oracles.all_configs(state.lattice.n_sites)
    theta = random_theta(state)
    own, other = state.split(theta)
    expected = dense(state.first, own, configs) * dense(state.second, other, configs)
    found = dense(state, theta, configs)
    assert np.abs(found - expected).max() < ROUNDING * np.abs(expected).max()
    operator = tfim(state.lattice)
    snapshot = state.measure(theta, state.start(theta, configs), operator.targets)[1]
    local = local_energy(operator, snapshot)
    hamiltonian = oracles.dense_hamiltonian(operator)
    wanted = oracles.dense_local_energy(hamiltonian, expected)
    assert np.abs(local - wanted).max() < ROUNDING * np.abs(wanted).max()
    rows, jacobian = snapshot.jacobian.dense(), snapshot.jacobian  # type: ignore[union-attr]
    assert isinstance(jacobian, HStackJacobian) and jacobian.shape == (len(configs), state.n_params)
    for k in (0, len(own) - 1, len(own), state.n_params - 1):
        shift = STEP * np.eye(1, state.n_params, k)[0]
        forward, backward = (dense(state, theta + sign * shift, configs) for sign in (1, -1))
        slope = (forward - backward) / (2 * STEP * expected)
        assert np.abs(rows[:, k] - slope).max() < DERIVATIVE * max(1, np.abs(rows).max())


def test_slices_stay_slices() -> None:
    state = product("PEPS, RBM")
    theta = random_theta(state)
    found = state.measure(theta, state.start(theta, oracles.all_configs(6)), {})[1].jacobian
    assert isinstance(found, HStackJacobian) and isinstance(found.parts[0], SliceJacobian)


def test_real_parts_above_imaginary_ones() -> None:
    state = product("phases")
    theta = random_theta(state)
    found = state.measure(theta, state.start(theta, oracles.all_configs(6)), {})[1].jacobian
    assert found is not None
    rows, stacked = found.dense(), as_base(found).stacked_real()
    np.testing.assert_array_equal(stacked.dense(), np.concatenate([rows.real, rows.imag]))
    assert not isinstance(stacked.dense()[0, 0], complex)


@pytest.mark.whole
@pytest.mark.parametrize("name", ["PEPS, Jastrow", "phases", "ring, CNN", "complex"])
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_weighted_sweeps_of_the_first_keep_the_distribution(name: str, power: float) -> None:
    """Copies of every configuration start with |psi_a|^(2 p), sweep, and are weighed: |psi|^2 comes
    out.

    The error of a sum over K copies with weights w_s has the variance sum_s w_s^2 / K at most.
    """
    state = product(name, "first")
    theta, configs = random_theta(state), oracles.all_configs(state.lattice.n_sites)
    start = np.abs(dense(state.first, state.split(theta)[0], configs)) ** (2 * power)
    start /= start.sum()
    target = np.abs(dense(state, theta, configs)) ** 2
    target /= target.sum()
    n_copies, moves = 400, flips(state.lattice, 2)
    copies, shares = np.tile(configs, (n_copies, 1)), np.tile(start, n_copies) / n_copies
    uniforms = np.random.default_rng(1).random((len(copies), len(moves)))
    walkers: Walkers = state.start(theta, copies)
    assert state.tempered
    powers = np.full(len(copies), power)
    moved, _ = state.tempered_sweep(theta, walkers, moves, uniforms, powers)
    assert (moved.configs != copies).any(axis=1).mean() > 0.1
    snapshot = state.measure(theta, moved, {}, jacobian=False)[1]
    assert snapshot.weight is not None
    size = np.exp((2 - 2 * power) * snapshot.amplitude.log_abs)
    weight = shares * size * snapshot.weight**power
    place = moved.configs.astype(int) @ 2 ** np.arange(state.lattice.n_sites - 1, -1, -1)
    counts = np.bincount(place, weight, len(configs))
    scale = weight.sum()
    noise = np.sqrt(((target / start) ** 2 * start**2).sum() / n_copies)
    assert np.linalg.norm(counts / scale - target) < 4 * noise
    if name != "PEPS, Jastrow":  # others are too even for so few copies
        return
    unweighed = np.bincount(place, shares, len(configs))
    assert np.linalg.norm(unweighed - target) > 2 * np.linalg.norm(counts / scale - target)


@pytest.mark.whole
@pytest.mark.parametrize("sampler", [Sampler(64, 4096), DirectSampler(4096, n_pilot=0)])
def test_samplers_agree_with_enumeration(sampler: Any) -> None:
    operator = heisenberg(LATTICE)
    state = product("PEPS, Jastrow")
    theta = random_theta(state, 4)
    exact = VMC(operator, state, Enumerate(), theta=theta).measure()
    found = VMC(operator, state, sampler, theta=theta).measure(n_samples=4096)
    assert abs(found.energy - exact.energy) < 5 * found.energy_error
    assert found.effective_samples is not None and found.effective_samples < found.n_samples


@pytest.mark.whole
def test_enumerated_descent_goes_below_both() -> None:
    """No noise: the product ends below each of its factors."""
    operator = heisenberg(LATTICE)
    peps = PEPS(LATTICE, 1)
    state = ProductOfStates(peps, Jastrow(LATTICE))
    energies = []
    for ansatz in (peps, state):
        vmc = VMC(operator, ansatz, Enumerate(), SR(diag_shift=1e-3), learning_rate=0.1)
        vmc.run(40)
        energies.append(vmc.measure().energy)
    assert energies[1] < energies[0] - 0.2  # D = 1 is a Neel state, the product has pairs


@pytest.mark.whole
def test_the_start_is_that_of_the_first() -> None:
    operator = heisenberg(LATTICE)
    for name in ("PEPS, Jastrow", "PEPS, RBM", "phases"):
        second = pairs()[name][1]
        state = ProductOfStates(PEPS(LATTICE, 2), second)
        own, other = state.split(state.initial(operator, 1))
        np.testing.assert_array_equal(own, state.first.initial(operator, 1))
        assert 0 < deviation(second, other, oracles.all_configs(6, 2, 0)) < 2 * LARGEST


@pytest.mark.whole
def test_a_network_starts_with_the_features_it_was_made_with() -> None:
    """Only its readout is small: else log-derivatives of deep layers vanish to a high order."""
    network = cnn(LATTICE, output="real")
    state = ProductOfStates(PEPS(LATTICE, 2), network)
    other, made = state.split(state.initial(heisenberg(LATTICE), 1))[1], network.random(1)
    readout = network.readout
    assert readout.any() and not readout.all()
    np.testing.assert_array_equal(other[~readout], made[~readout])
    assert (np.abs(other[readout]) <= np.abs(made[readout])).all()


def test_abilities_are_those_of_the_first() -> None:
    state = product("PEPS, RBM")
    assert state.scheme is not None and state.tempered and state.exact_draws is False
    assert chi_of(state) == UNCUT and chi_of(with_chi(state, 7)) == 7
    ring = product("ring, CNN")
    assert ring.scheme is None and ring.sweeps == "both" and state.sweeps == "first"


def test_a_factor_of_zero_has_no_weight() -> None:
    plain, other = ProductState(LATTICE), ProductState(LATTICE)
    state = ProductOfStates(plain, other, "first")
    configs = oracles.all_configs(6)
    theta = np.concatenate(
        [np.ones(12), np.eye(other.local_dim, dtype=other.dtype)[configs[9]].ravel()]
    )
    snapshot = state.measure(theta, state.start(theta, configs), {})[1]
    assert snapshot.weight is not None and np.flatnonzero(snapshot.weight).tolist() == [9]


def test_symmetries_do_not_take_weights_for_even_ones() -> None:
    """Symmetrised counts on chains of |psi|^2: with those of the first state it would be wrong."""
    operator = heisenberg(LATTICE)
    group = symmetry_group(operator, ["spin"])
    pair = PEPS(LATTICE, 2, scheme=SRC(UNCUT)), Jastrow(LATTICE)
    with pytest.raises(ValueError, match="sweeps = 'both'"):
        Symmetrised(ProductOfStates(*pair), group)
    assert Symmetrised(ProductOfStates(*pair, "both"), group).n_params > 0


def test_a_product_of_a_product() -> None:
    """Weights of the inner one are used where it is walked on, and not where both are."""
    inner = ProductOfStates(ProductState(LATTICE), Jastrow(LATTICE), "first")
    configs = oracles.all_configs(6)
    for sweeps, weighed in (("first", True), ("both", False)):
        state: Any = ProductOfStates(inner, Jastrow(LATTICE), sweeps)
        theta = random_theta(state, 2)
        snapshot = state.measure(theta, state.start(theta, configs), {})[1]
        assert (snapshot.weight is not None) == weighed
        if weighed:
            walked = dense(inner.first, theta[:12], configs)
            expected = np.abs(dense(state, theta, configs) / walked) ** 2
            np.testing.assert_allclose(snapshot.weight / expected, (snapshot.weight / expected)[0])


def test_weights_that_are_no_numbers_are_refused() -> None:
    state = ProductOfStates(ProductState(LATTICE), Jastrow(LATTICE, fields=True), "first")
    theta = np.concatenate([np.ones(12), np.full(state.second.n_params, 50.0)])
    with pytest.raises(ValueError, match="reference configuration"):
        state.measure(theta, state.start(theta, oracles.all_configs(6)), {})


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ValueError, match="sites"):
        ProductOfStates(PEPS(LATTICE, 2), Jastrow(square(3, 3)))
    with pytest.raises(ValueError, match="one type"):
        ProductOfStates(PEPS(LATTICE, 2), Jastrow(LATTICE, dtype="complex128"))
    with pytest.raises(ValueError, match="local states"):
        ProductOfStates(PEPS(LATTICE, 2), Jastrow(LATTICE, local_dim=3))


def test_states_of_other_lattices_are_refused() -> None:
    with pytest.raises(ValueError, match="kagome"):
        ProductOfStates(PEPS(kagome(3, 3), 2), Jastrow(chain(8)))


def test_bonds_around_rings_are_kept_in_files(tmp_path: Path) -> None:
    lattice = square(2, 4, "cylinder")
    state = ProductOfStates(PEPS(lattice, 2, "float64", bonds="periodic"), Jastrow(lattice))
    theta = np.random.default_rng(0).normal(size=state.n_params)
    state.save(tmp_path / "state.h5", theta)
    read, found = load_state(tmp_path / "state.h5")
    assert isinstance(read, ProductOfStates) and read.first.bonds == "periodic"
    assert np.array_equal(found, theta)
