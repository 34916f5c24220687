"""A PEPS on a grid with vacant places: draws, sweeps, the double layer, starts, quimb."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.exact_peps import exact_energy
from tests.oracles import all_configs, config_index, exact_distribution
from tnvmc import PEPS, SRC, VMC, Enumerate, Exact, exact_ground_state, heisenberg
from tnvmc.ansatz.peps.draws import Drawer
from tnvmc.ansatz.peps.starts.simple_update import evolved, simple_update
from tnvmc.backend.random import uniforms
from tnvmc.lattice import embedding, honeycomb, kagome
from tnvmc.operators.models import tfim
from tnvmc.sampling.moves import moves_for
from tnvmc.trust.double_layer import on_grid, scan_double_layer
from tnvmc.vmc.measurement import MeasurementPlan, measure

UNCUT = 10**4
ROUNDING = 1e-9


def positive(peps: PEPS, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.3, 1.3, size=peps.n_params)


def amplitudes(peps: PEPS, theta: Any) -> tuple[np.ndarray, np.ndarray]:
    configs = all_configs(peps.lattice.n_sites)
    found = peps.log_amplitude(theta, configs)
    return configs, found.phase * np.exp(found.log_abs)


def test_configurations_go_on_the_grid_and_come_back(xp: Any) -> None:
    found = embedding(kagome(3, 3))
    configs = xp.asarray([[1, 2, 3, 4, 5, 6, 7, 8]])
    whole = found.on_grid(configs)
    assert [int(whole[0, place]) for place in range(9)] == [1, 2, 3, 4, 0, 5, 6, 7, 8]
    back = found.off_grid(whole)
    assert bool(xp.all(back == configs)) and found.n_vacant == 1


def test_draws_leave_vacant_places_out() -> None:
    peps = PEPS(kagome(3, 3), 2, scheme=Exact())
    theta = positive(peps)
    configs, psi = amplitudes(peps, theta)
    drawer = Drawer.build(peps.tensors(theta), peps.embedding, UNCUT, UNCUT, floor=0.0)
    q = np.exp(drawer.log_prob(configs))
    np.testing.assert_allclose(q, exact_distribution(psi), rtol=1e-8)
    drawn, log_prob = drawer(uniforms(1, (0, 0), range(200), 8))
    places = [config_index(config) for config in drawn]
    np.testing.assert_allclose(np.exp(log_prob), q[places], rtol=1e-8)
    cut = Drawer.build(peps.tensors(theta), peps.embedding, 1, 2)
    assert np.exp(cut.log_prob(configs)).sum() == pytest.approx(1, abs=ROUNDING)


@pytest.mark.whole
@pytest.mark.parametrize("D", [2, 4])  # from 4 on columns take turns where no bond is a diagonal
@pytest.mark.parametrize("model", [heisenberg, tfim])
def test_sweeps_sample_the_born_distribution(model: Any, D: int) -> None:
    """Chi squared of the visits on kagome 2 x 3, and on honeycomb."""
    operator = model(kagome(2, 3) if D == 2 else honeycomb(2, 3))
    peps = PEPS(operator.lattice, D, scheme=SRC(UNCUT))
    theta, n = positive(peps, 3), operator.n_sites
    moves, n_walkers = moves_for(operator), 200
    start = (np.arange(n) % 2).astype(np.int8)
    walkers = peps.start(theta, np.tile(start, (n_walkers, 1)))
    counts = np.zeros(2**n)
    for sweep in range(60):
        u = uniforms(11, (0, sweep), range(n_walkers), len(moves))
        walkers, _ = peps.sweep(theta, walkers, moves, u)
        if sweep >= 10 and sweep % 5 == 0:
            counts += np.bincount([config_index(c) for c in walkers.configs], minlength=2**n)
    configs, psi = amplitudes(peps, theta)
    inside = configs.sum(axis=1) == start.sum() if model is heisenberg else slice(None)
    expected = exact_distribution(psi[inside]) * counts.sum()
    frequent = expected > 5
    assert counts[inside].sum() == counts.sum()
    chi_squared = np.sum((counts[inside] - expected)[frequent] ** 2 / expected[frequent])
    assert chi_squared < frequent.sum() + 5 * np.sqrt(2 * frequent.sum())


@pytest.mark.whole
@pytest.mark.parametrize("magnetisation", [0, 2])
def test_the_double_layer_agrees(magnetisation: int) -> None:
    """With the exact contraction of the whole grid, and with the sum over all configurations."""
    operator = heisenberg(kagome(3, 4))
    peps = PEPS(operator.lattice, 2, scheme=SRC(UNCUT))
    theta = positive(peps, 1)
    vmc = VMC(operator, peps, Enumerate(threads=1), theta=theta, magnetisation=magnetisation)
    held = measure(vmc.method, vmc.state, MeasurementPlan())
    scan = scan_double_layer(held)
    assert scan is not None and scan.energy is not None
    assert scan.energy == pytest.approx(held.measurement.energy, rel=1e-6)
    assert {point.magnetisation for point in scan.points} == {magnetisation}
    whole = on_grid(operator, peps.embedding)
    tensors = peps.embedding.filled(peps.tensors(theta))
    exact = exact_energy(tensors, whole, magnetisation=magnetisation + 2)  # two vacant places
    assert exact == pytest.approx(held.measurement.energy, rel=ROUNDING)


@pytest.mark.whole
@pytest.mark.parametrize("lattice", [kagome(3, 4), honeycomb(3, 4)], ids=repr)
def test_simple_update_starts_near_the_ground_state(lattice: Any) -> None:
    operator = heisenberg(lattice)
    peps = PEPS(lattice, 4, scheme=Exact())
    tensors = simple_update(operator, 4)
    assert [t.shape for t in tensors] == peps.shapes
    vmc = VMC(operator, peps, Enumerate(threads=1), theta=peps.flatten(tensors))
    ground, above = exact_ground_state(operator).energy, 0.12 if lattice.vacant else 0.02
    assert ground <= vmc.measure().energy < (1 - above) * ground
    same = evolved(operator, tensors, 4, 0)
    again = VMC(operator, peps, Enumerate(threads=1), theta=peps.flatten(same)).measure()
    assert again.energy == pytest.approx(vmc.measure().energy, rel=1e-6)


def test_quimb_holds_the_same_state() -> None:
    pytest.importorskip("quimb")
    peps = PEPS(kagome(2, 3), 2, scheme=Exact())
    theta = positive(peps, 2)
    dense = peps.to_quimb(theta).to_dense().ravel()
    np.testing.assert_allclose(dense, amplitudes(peps, theta)[1], rtol=1e-10)


def test_a_run_goes_down() -> None:
    operator = heisenberg(kagome(3, 3))
    peps = PEPS(operator.lattice, 2, scheme=Exact())
    vmc = VMC(operator, peps, Enumerate(threads=1), theta=positive(peps))
    energies = [record.energy for record in vmc.run(4)]
    assert energies == sorted(energies, reverse=True)
