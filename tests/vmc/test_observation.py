"""Samples of a draw at other parameters."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc import PEPS, SRC, VMC, DirectSampler, Sampler, heisenberg, square
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.estimate.observables import local_energy
from tnvmc.estimate.statistics import pull, weighted_estimate
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.sampling.problem import Point, SampleInfo
from tnvmc.sampling.workers import measure_configs
from tnvmc.vmc.observation import Reweighted

LATTICE = square(2, 3)


@pytest.mark.parametrize("sampler", [Sampler(64, 512, threads=1), DirectSampler(512, threads=1)])
def test_weights_are_those_of_the_other_state(sampler: Sampler | DirectSampler) -> None:
    ansatz = PEPS(LATTICE, 2, scheme=SRC(4))
    vmc = VMC(heisenberg(LATTICE), ansatz, sampler)
    here = vmc.state.here
    seen, _, info = sampler.draw(vmc.problem, here, 1, jacobian=False)
    same, at, _ = Reweighted(seen, info, 1).draw(vmc.problem, here)
    assert at is here
    own = np.ones(512) if seen.weight is None else seen.weight
    assert same.weight == pytest.approx(own / own.sum(), rel=1e-9)
    theta = here.theta + 0.1 * np.random.default_rng(0).normal(size=here.theta.shape)
    other, _, _ = Reweighted(seen, info, 1).draw(vmc.problem, Point(theta, here.configs))
    psi = [ansatz.log_amplitude(each, seen.configs).log_abs for each in (theta, here.theta)]
    weight = own * np.exp(2 * (psi[0] - psi[1]))
    assert other.weight == pytest.approx(weight / weight.sum(), rel=1e-7)


def test_samples_where_a_sum_over_symmetries_cancels_have_no_weight() -> None:
    """Here an odd pair of spins, which a reflection maps on itself."""
    operator = heisenberg(square(1, 2))
    peps = PEPS(operator.lattice, 2)
    names = symmetry_group(operator, "point").names
    state = Symmetrised(peps, symmetry_group(operator, "point", {names[1]: -1}))
    configs = np.array([[0, 1], [0, 0], [1, 0]], dtype=np.int8)
    vmc = VMC(operator, state, Sampler(3, 3, threads=1), configs=configs[[0, 2, 0]])
    seen = measure_configs(state, vmc.theta, configs, vmc.problem.targets, jacobian=False)
    assert seen.amplitude.log_abs[1] == -np.inf
    info = SampleInfo(n_walkers=3, n_draws=1, seconds=0.0)
    again, _, _ = Reweighted(seen, info, 1).draw(vmc.problem, vmc.state.here)
    assert np.asarray(again.weight).tolist() == pytest.approx([0.5, 0, 0.5])


def test_a_pull_scatters_as_the_mean() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=2000), rng.exponential(size=2000)
    found = weighted_estimate(x, w, 2000)
    assert pull(x, w).std() / np.sqrt(2000) == pytest.approx(found.error, rel=0.05)
    assert pull(x, w).mean() == pytest.approx(0, abs=1e-12)
    assert pull(x, None) == pytest.approx(x - x.mean())


def test_local_energies_are_those_there() -> None:
    vmc = VMC(heisenberg(LATTICE), PEPS(LATTICE, 2), Sampler(64, 64, threads=1))
    seen, _, info = vmc.method.sampler.draw(vmc.problem, vmc.state.here, 1, jacobian=False)
    again, _, _ = Reweighted(seen, info).draw(vmc.problem, vmc.state.here)
    assert local_energy(vmc.operator, again) == pytest.approx(local_energy(vmc.operator, seen))
