"""Symmetrised wave functions against the dense sum over the group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracles
from tests.drawing import enumerated, sample
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.initial import initial_parameters
from tnvmc.ansatz.metropolis import local_states, replaced
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.product import ProductState
from tnvmc.ansatz.wrappers.images import moved_patch, moved_table
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.backend.namespace import to_host
from tnvmc.contraction.schemes import SRC
from tnvmc.estimate.observables import local_energy
from tnvmc.estimate.statistics import effective_samples, exact_estimate, weighted_estimate
from tnvmc.exact import symmetric_levels
from tnvmc.lattice import chain, square
from tnvmc.lattice.permutations import Symmetry, SymmetryGroup
from tnvmc.operators.models import heisenberg, tfim
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.optimize.sr import SR
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.sampling.moves import flips, moves_for
from tnvmc.session.vmc import VMC

UNCUT = 64
AMPLITUDE = 1e-10  # sums of at most 16 uncut amplitudes that may cancel to a hundredth
DERIVATIVE = 1e-6  # step 1e-6: error step^2 + rounding / step, relative to the largest


def small(dtype: str = "float64", **options: Any) -> tuple[Symmetrised, np.ndarray]:
    """PEPS on 2x3 under all eight symmetries, half of them odd: total spin 1 on six sites."""
    operator = heisenberg(square(2, 3))
    given = {"left-right reflection": -1}
    group = symmetry_group(operator, ["spin", "point"], given)
    peps = PEPS(operator.lattice, 2, dtype, SRC(UNCUT))
    return Symmetrised(peps, group, **options), random_theta(peps, 1)


def random_theta(peps: PEPS, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=peps.n_params)
    if peps.dtype.kind == "c":
        theta = theta + 1j * rng.normal(size=peps.n_params)
    return theta.astype(peps.dtype)


def dense_sum(state: Symmetrised, theta: np.ndarray, configs: np.ndarray) -> np.ndarray:
    """sum_g chi(g) psi(g s), every psi contracted densely."""
    peps: Any = state.ansatz
    total = np.zeros(len(configs), dtype=complex)
    for g in state.group.elements:
        images = np.array([[config[site] for site in g.sites] for config in configs])
        images = 1 - images if g.inverts else images
        total += g.character * oracles.dense_state(peps.tensors(theta), peps.lattice.shape, images)
    return total


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_amplitudes(dtype: str, xp: Any) -> None:
    state, theta = small(dtype)
    configs = oracles.all_configs(6)
    expected = dense_sum(state, theta, configs)
    found = state.log_amplitude(xp.asarray(theta), xp.asarray(configs))
    values = to_host(found.phase) * np.exp(to_host(found.log_abs))
    assert np.abs(values - expected).max() < AMPLITUDE * np.abs(expected).max()
    odd = np.all(configs.reshape(-1, 2, 3) == configs.reshape(-1, 2, 3)[:, :, ::-1], axis=(1, 2))
    assert odd.sum() == 16 and np.all(values[odd] == 0)
    assert np.all(np.isneginf(to_host(found.log_abs)[odd]))


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_local_energies_and_derivatives(dtype: str, xp: Any) -> None:
    state, theta = small(dtype)
    operator = heisenberg(square(2, 3)) + tfim(square(2, 3), h=0.3)
    configs = oracles.all_configs(6)
    psi = dense_sum(state, theta, configs)
    alive = np.abs(psi) > 1e-6 * np.abs(psi).max()
    targets = {patch: xp.asarray(table) for patch, table in operator.targets.items()}
    walkers = state.start(xp.asarray(theta), xp.asarray(configs))
    snapshot = state.measure(xp.asarray(theta), walkers, targets)[1]
    expected = (oracles.dense_hamiltonian(operator) @ psi)[alive] / psi[alive]
    found = to_host(local_energy(operator, snapshot))
    assert np.abs(found[alive] - expected).max() < AMPLITUDE * np.abs(expected).max()
    assert all(np.all(to_host(r)[~alive] == 0) for r in snapshot.ratios.values())

    chosen = np.flatnonzero(alive)[::12]
    difference = oracles.finite_difference_log(
        lambda t: dense_sum(state, t, configs[chosen]), theta
    )
    assert snapshot.jacobian is not None
    dense = to_host(snapshot.jacobian.dense())
    assert np.abs(dense[chosen] - difference).max() < DERIVATIVE * np.abs(difference).max()
    assert np.all(dense[~alive] == 0)


def test_weights_are_those_of_the_mixture() -> None:
    state, theta = small()
    configs = oracles.all_configs(6)
    snapshot = state.measure(theta, state.start(theta, configs), {}, jacobian=False)[1]
    peps: Any = state.ansatz
    squares = np.zeros(len(configs))
    for g in state.group.elements:
        images = configs[:, list(g.sites)]
        images = 1 - images if g.inverts else images
        squares += oracles.dense_state(peps.tensors(theta), (2, 3), images) ** 2
    expected = dense_sum(state, theta, configs).real ** 2 / (8 * squares)
    assert snapshot.weight is not None
    np.testing.assert_allclose(snapshot.weight, expected, atol=1e-12)
    assert 0 <= snapshot.weight.min() and snapshot.weight.max() <= 1 + 1e-12


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_moved_tables(data: st.DataObject) -> None:
    """g (s with the patch replaced) is (g s) with the moved patch replaced, column by column."""
    d, k = data.draw(st.integers(2, 3)), data.draw(st.integers(1, 3))
    sites = data.draw(st.permutations(range(5)))
    g = Symmetry("g", tuple(sites), data.draw(st.booleans()))
    patch = tuple(sorted(data.draw(st.permutations(range(5)))[:k]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    table = rng.integers(-1, d**k, size=(d**k, 2))
    there, moved = moved_patch(patch, g), moved_table(table, patch, g, d)
    assert there == tuple(sorted(there))

    def image(configs: np.ndarray) -> np.ndarray:
        taken = configs[:, list(g.sites)]
        return d - 1 - taken if g.inverts else taken

    configs = rng.integers(d, size=(20, 5), dtype=np.int8)
    for column in range(2):
        target = table[local_states(configs, patch, d), column]
        across = moved[local_states(image(configs), there, d), column]
        assert np.array_equal(target < 0, across < 0)
        possible = target >= 0
        before = image(replaced(configs[possible], patch, target[possible], d))
        after = replaced(image(configs)[possible], there, across[possible], d)
        assert np.array_equal(before, after)


@pytest.mark.whole
def test_conformance_without_reweighting() -> None:
    """Metropolis on |psi_sym|^2 passes the whole suite, the stationary distribution included."""
    operator = heisenberg(chain(5))
    peps = PEPS(operator.lattice, 2, scheme=SRC(UNCUT))
    group = symmetry_group(operator, ["spin", "point"], {"left-right reflection": -1})
    check_ansatz(Symmetrised(peps, group, reweight=False), random_theta(peps, 1))


@pytest.mark.whole
def test_conformance_of_a_ring_of_spins_one() -> None:
    lattice = chain(4, "periodic")
    mps = PeriodicMPS(lattice, 2, "complex128", local_dim=3)
    group = SymmetryGroup(
        (Symmetry("identity", (0, 1, 2, 3)), Symmetry("turned over", (3, 2, 1, 0), True, -1))
    )
    check_ansatz(Symmetrised(mps, group, reweight=False), mps.random(2).astype("complex128"))


@pytest.mark.whole
def test_sweeps_show_images_evenly() -> None:
    """Shown configurations follow q = mean_g |psi(g s)|^2: start from |psi|^2, sweep, count."""
    state, theta = small()
    configs = oracles.all_configs(6)
    psi = oracles.dense_state(state.ansatz.tensors(theta), (2, 3), configs).real  # type: ignore[attr-defined]
    rng = np.random.default_rng(5)
    n_copies = 10000
    start = configs[rng.choice(64, size=n_copies, p=oracles.exact_distribution(psi))]
    moves = flips(state.lattice)
    walkers = state.start(theta, start)
    moved, _ = state.sweep(theta, walkers, moves, rng.random((n_copies, len(moves))))
    again, _ = state.sweep(theta, moved, moves, rng.random((n_copies, len(moves))))
    squares = np.zeros(64)
    for g in state.group.elements:
        images = configs[:, list(g.sites)]
        images = 1 - images if g.inverts else images
        squares += psi[images @ 2 ** np.arange(5, -1, -1)] ** 2
    q = squares / squares.sum()
    for walkers in (moved, again):
        shown = state.measure(theta, walkers, {}, jacobian=False)[1].configs
        counts = np.bincount(shown @ 2 ** np.arange(5, -1, -1), minlength=64)
        # 63 degrees of freedom: chi^2 = 63 +- 11.2; five deviations are 119
        assert ((counts - n_copies * q) ** 2 / (n_copies * q)).sum() < 120


@pytest.mark.whole
def test_sampled_energy_is_the_exact_one() -> None:
    """Reweighted chains against enumeration, for a state far from symmetric."""
    operator = heisenberg(chain(6))
    peps = PEPS(operator.lattice, 2)
    odd = {"spin inversion": -1, "left-right reflection": -1}
    state = Symmetrised(peps, symmetry_group(operator, ["spin", "point"], odd))
    start = initial_parameters(peps, operator)
    theta = start + 0.4 * np.abs(start).max() * random_theta(peps, 3)
    exact = enumerated(state, theta, operator, jacobian=False)
    expected = exact_estimate(local_energy(operator, exact), exact.weight)
    sampler = Sampler(n_walkers=128, n_samples=4096, n_burn=10, n_thin=1, threads=1)
    configs = initial_configs(operator, 128, seed=0)
    _, snapshot, _ = sample(
        sampler,
        state,
        (theta, configs),
        operator.targets,
        moves_for(operator),
        (3, 0),
        jacobian=False,
    )
    assert snapshot.weight is not None
    assert snapshot.weight.sum() == pytest.approx(1)
    assert effective_samples(snapshot.weight) < 0.97 * 4096  # else nothing is tested
    found = weighted_estimate(local_energy(operator, snapshot), snapshot.weight, 128)
    assert found.mean == pytest.approx(expected.mean, abs=4 * found.error)
    assert found.error < 0.02 * abs(expected.mean)
    assert found.variance == pytest.approx(expected.variance, rel=0.2)


def test_energy_falls_with_every_symmetry() -> None:
    """A good state with noise that breaks what it had of symmetry, by enumeration."""
    operator = heisenberg(square(2, 4))
    peps = PEPS(operator.lattice, 2, scheme=SRC(16))
    start = initial_parameters(peps, operator)
    theta = start + 0.05 * np.abs(start).max() * random_theta(peps, 0)
    energies = {}
    for names in ((), ("spin",), ("point",), ("spin", "point")):
        state = Symmetrised(peps, symmetry_group(operator, names)) if names else peps
        snapshot = enumerated(state, theta, operator, jacobian=False, threads=1)
        energies[names] = exact_estimate(local_energy(operator, snapshot), snapshot.weight).mean
    assert energies[("spin", "point")] < min(energies[("spin",)], energies[("point",)])
    assert max(energies[("spin",)], energies[("point",)]) < energies[()]
    assert energies[("spin", "point")] > np.linalg.eigvalsh(oracles.dense_sector(operator, 0))[0]


@pytest.mark.whole
@pytest.mark.parametrize("reweight", [True, False])
def test_optimising_the_symmetrised_state(reweight: bool) -> None:
    """Ring of six: the ground state is odd under inversion and reflection (2 mod 4 pairs)."""
    operator = heisenberg(chain(6))
    group = symmetry_group(
        operator, ["spin", "point"], {"spin inversion": -1, "left-right reflection": -1}
    )
    state = Symmetrised(PEPS(operator.lattice, 2), group, reweight)
    rng = np.random.default_rng(1)
    theta = rng.normal(size=state.n_params)
    vmc = VMC(operator, state, Enumerate(threads=1), SR(1e-3), theta=theta, learning_rate=0.1)
    history = [record.energy for record in vmc.run(40)]
    ground = np.linalg.eigvalsh(oracles.dense_sector(operator, 0))[0]
    assert history[-1] < history[0]
    assert ground - 1e-9 < history[-1] < 0.97 * ground


def test_scheme_and_hints_pass_through() -> None:
    state = small()[0]
    assert state.scheme is not None and state.dtype is not None
    assert state.scheme == SRC(UNCUT) and state.dtype == np.float64
    assert state.execution.chunk == state.ansatz.execution.chunk
    cut = state.with_scheme(SRC(2))
    assert isinstance(cut, Symmetrised) and cut.scheme is not None
    assert cut.scheme == SRC(2) and cut.group is state.group
    mps = PeriodicMPS(chain(6, "periodic"), 2)
    ring = Symmetrised(mps, symmetry_group(heisenberg(mps.lattice), ["spin"]))
    assert ring.scheme is None
    with pytest.raises(ValueError, match="moves 6 sites"):
        Symmetrised(PEPS(square(2, 2), 2), state.group)


def test_an_image_where_psi_vanishes_still_counts() -> None:
    """A Neel state: psi is 0 at half of the images, and E = -1 of four antiparallel bonds."""
    operator = heisenberg(square(2, 2))
    neel = ProductState(operator.lattice)
    state = Symmetrised(neel, symmetry_group(operator, ["point"]))
    theta = np.eye(neel.local_dim, dtype=neel.dtype)[[0, 1, 1, 0]].ravel()
    snapshot = enumerated(state, theta, operator, jacobian=False)
    energy = exact_estimate(local_energy(operator, snapshot), snapshot.weight)
    assert abs(energy.mean + 1) < 1e-12
    with pytest.raises(ValueError, match="Add a little noise"):
        enumerated(state, theta, operator)


@pytest.mark.whole
def test_parameters_of_the_ground_state_get_noise_where_others_are_asked_for() -> None:
    """Simple update ends in the singlet, of which an odd sum leaves rounding."""
    operator = heisenberg(square(2, 4))
    peps = PEPS(operator.lattice, 3, scheme=SRC(UNCUT))
    state: Any = Symmetrised(peps, symmetry_group(operator, ["spin"], {"spin inversion": -1}))
    configs = initial_configs(operator, 64, 0)
    even = initial_parameters(peps, operator)
    assert state.share(even, configs) < 1e-20
    with pytest.raises(ValueError, match="other characters"):
        VMC(operator, state, theta=even)
    assert state.share(state.initial(operator), configs) > 1e-3
    peps_alone = initial_parameters(Symmetrised(peps, symmetry_group(operator, ["spin"])), operator)
    assert np.array_equal(peps_alone, even)


@pytest.mark.whole
def test_the_ground_state_may_be_odd_so_that_even_states_need_noise_too() -> None:
    """The singlet of six spins is odd under inversion."""
    operator = heisenberg(square(2, 3))
    peps = PEPS(operator.lattice, 2, scheme=SRC(UNCUT))
    state: Any = Symmetrised(peps, symmetry_group(operator, ["spin"], {"spin inversion": 1}))
    configs = initial_configs(operator, 64, 0)
    assert state.share(initial_parameters(peps, operator), configs) < 1e-20
    assert state.share(state.initial(operator), configs) > 1e-3
    VMC(operator, state)


def test_the_spread_is_that_of_a_sum_which_cancels() -> None:
    """Relative to psi_sym, of which 1e-5 is left, the rounding of psi is 1e5 times as large."""
    operator = heisenberg(square(2, 4))
    peps = PEPS(operator.lattice, 3, scheme=SRC(UNCUT))
    state = Symmetrised(peps, symmetry_group(operator, ["spin"], {"spin inversion": -1}))
    even = initial_parameters(peps, operator)
    theta = even + 1e-6 * np.abs(even).max() * random_theta(peps, 3)
    configs = initial_configs(operator, 64, 0)
    found = state.measure(theta, state.start(theta, configs), {}, jacobian=False)[1]
    plain = peps.measure(theta, peps.start(theta, configs), {}, jacobian=False)[1]
    assert found.closure_spread is not None and plain.closure_spread is not None
    assert np.median(found.closure_spread) > 1e4 * np.finfo(float).eps


MOMENTA = [({}, 0), ({"translation by (0, 1)": -1}, 1)]


@pytest.mark.whole
@pytest.mark.parametrize(("characters", "momentum"), MOMENTA)
def test_conformance_of_translations(characters: dict[str, int], momentum: int) -> None:
    """An open chain summed over the translations of a ring, at momenta 0 and pi."""
    operator = heisenberg(chain(4, "periodic"))
    peps = PEPS(operator.lattice, 2, scheme=SRC(UNCUT))
    group = symmetry_group(operator, ["translation"], characters)
    assert [g.character for g in group.elements] == [(-1) ** (momentum * k) for k in range(4)]
    check_ansatz(Symmetrised(peps, group, reweight=False), random_theta(peps, 1))


@pytest.mark.whole
@pytest.mark.parametrize(("characters", "momentum"), MOMENTA)
def test_translations_of_a_torus(characters: dict[str, int], momentum: int, xp: Any) -> None:
    """An open PEPS summed over 3x4 translations: psi(g s) = chi(g) psi(s), energies by dense H."""
    operator = heisenberg(square(3, 4, "periodic"))
    peps = PEPS(operator.lattice, 2, scheme=SRC(UNCUT))
    group = symmetry_group(operator, ["translation"], characters)
    assert len(group) == 12
    state = Symmetrised(peps, group)
    theta = random_theta(peps, 1)
    configs = initial_configs(operator, 8, 3)
    psi = dense_sum(state, theta, configs).real
    moved = np.roll(configs.reshape(-1, 3, 4), 1, axis=2).reshape(-1, 12)
    np.testing.assert_allclose(
        dense_sum(state, theta, moved).real, (-1) ** momentum * psi, rtol=1e-9
    )
    targets = {patch: xp.asarray(table) for patch, table in operator.targets.items()}
    walkers = state.start(xp.asarray(theta), xp.asarray(configs))
    snapshot = state.measure(xp.asarray(theta), walkers, targets)[1]
    found = to_host(local_energy(operator, snapshot))
    for config, value, here in zip(configs, found, psi, strict=True):
        expected = 0.0
        for i, j in operator.lattice.bonds["nearest"]:
            if config[i] == config[j]:
                expected += 0.25
                continue
            other = config.copy()
            other[[i, j]] = other[[j, i]]
            expected += -0.25 + 0.5 * dense_sum(state, theta, other[None])[0].real / here
        assert value == pytest.approx(expected, rel=1e-7, abs=1e-7)


REACHED = 2e-5
"""Of the energy, after 40 steps without noise; the first one is 0.2 of it away."""


@pytest.mark.whole
@pytest.mark.parametrize(
    ("operator", "names", "odd", "sector"),
    [
        (heisenberg(square(3, 3)), ["point"], "diagonal reflection", 1),
        (heisenberg(square(2, 4)), ["point"], "left-right reflection", 0),
        (heisenberg(chain(6, "periodic")), ["translation"], "translation by (0, 1)", 0),
    ],
)
def test_the_lowest_state_of_other_characters(
    operator: Operator, names: list[str], odd: str, sector: int
) -> None:
    """By enumeration the optimisation ends at the exact lowest level with these characters."""
    group = symmetry_group(operator, names, {odd: -1})
    state = Symmetrised(PEPS(operator.lattice, 3, scheme=SRC(9)), group)
    vmc = VMC(operator, state, Enumerate(threads=1), magnetisation=sector)
    energies = [record.energy for record in vmc.run(40)]
    (exact,) = symmetric_levels(operator, group, sector)
    assert min(energies) > exact - 1e-9
    assert energies[-1] == pytest.approx(exact, rel=REACHED)
