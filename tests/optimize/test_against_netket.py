"""One update of stochastic reconfiguration, ours and NetKet's: the same network, the same samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tnvmc.estimate.observables import local_energy
from tnvmc.jacobian.centered import CenteredJacobian
from tnvmc.lattice import square
from tnvmc.operators.models import j1j2
from tnvmc.optimize.sr import SR
from tnvmc.sampling.workers import measure_configs

nk = pytest.importorskip("netket")

import jax

from tnvmc.ansatz.neural.flax import FlaxAnsatz

AGREEMENT = 1e-8
SHIFT = 0.01


def _hamiltonian(hilbert: Any, bonds: dict[tuple[int, int], float]) -> Any:
    from netket.operator.spin import sigmax, sigmay, sigmaz

    total = 0
    for (i, j), coupling in bonds.items():
        for sigma in (sigmax, sigmay, sigmaz):
            total = total + 0.25 * coupling * sigma(hilbert, i) @ sigma(hilbert, j)
    return total


@pytest.mark.whole
@pytest.mark.parametrize("dtype", [pytest.param(float, marks=pytest.mark.slow), complex])
def test_one_update_is_that_of_netket(dtype: type) -> None:
    """NetKet's gradient of real parameters, and its update, have a factor 2 that ours have not."""
    operator = j1j2(square(2, 3), J2=0.5)
    bonds = dict.fromkeys(operator.lattice.bonds["nearest"], 1.0)
    bonds |= dict.fromkeys(operator.lattice.bonds["diagonal"], 0.5)
    hilbert = nk.hilbert.Spin(0.5, N=6, total_sz=0)
    graph = nk.graph.Graph(edges=list(bonds))
    sampler = nk.sampler.MetropolisExchange(hilbert, graph=graph, n_chains=64)
    model = nk.models.RBM(alpha=2, param_dtype=dtype)
    theirs = nk.vqs.MCState(sampler, model, n_samples=512, seed=3)
    theirs.init_parameters(jax.nn.initializers.normal(0.3))
    energy, gradient = theirs.expect_and_grad(_hamiltonian(hilbert, bonds))
    holomorphic = dtype is complex
    rule = nk.optimizer.SR(
        diag_shift=SHIFT, solver=nk.optimizer.solver.cholesky, holomorphic=holomorphic
    )
    update = rule(theirs, gradient)

    ours = FlaxAnsatz(operator.lattice, model, inputs="spins", holomorphic=holomorphic)
    theta, expected = (ours.functional.flatten(x) for x in (theirs.parameters, update))
    configs = ((1 - np.asarray(theirs.samples).reshape(-1, 6)) // 2).astype(np.int8)
    snapshot = measure_configs(ours, theta, configs, operator.targets, jacobian=True)
    local = local_energy(operator, snapshot)
    np.testing.assert_allclose(local.mean(), energy.mean, rtol=1e-12)
    weight = np.full(len(configs), 1 / len(configs))
    covariance = CenteredJacobian(snapshot.jacobian, weight).covariance()
    mean_diagonal = np.trace(covariance).real / min(len(configs), len(theta))
    for space in ("parameters", "samples"):
        sr = SR(diag_shift=SHIFT / mean_diagonal, space=space)
        found, _, _ = sr.direction(theta, snapshot.jacobian, local, None, {})
        assert np.abs(2 * found - expected).max() <= AGREEMENT * np.abs(expected).max()
