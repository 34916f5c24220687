"""Models of NetKet, as they are, pass the conformance suite.

Not among them, and why:
  * LogStateVector: a table of all amplitudes, on a Hilbert space and not on configurations alone;
    it passes all the same.
  * Slater2nd, MultiSlater2nd: take occupation numbers of fermions, of fixed number, and vanish
    (or fail to be determinants) on spins.
  * DeepSetRelDistance, Gaussian: take positions of continuous particles.
  * NDM, MPDOOpen, MPDOPeriodic: density matrices, with two configurations to an entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.lattice import square

nk = pytest.importorskip("netket")

from flax import linen
from netket.experimental import models as experimental

from tnvmc.ansatz.neural.flax import FlaxAnsatz

LATTICE = square(2, 2)
HILBERT = nk.hilbert.Spin(0.5, N=4)
GRID = nk.graph.Grid([2, 2], pbc=False)


def _matrix_product(name: str) -> Any:
    from netket.models import tensor_networks

    return getattr(tensor_networks, name)(HILBERT, bond_dim=2)


MODELS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "RBM": (lambda: nk.models.RBM(alpha=1), {}),
    "RBM, holomorphic": (
        lambda: nk.models.RBM(alpha=1, param_dtype=complex),
        {"holomorphic": True},
    ),
    "RBM, complex as two real": (lambda: nk.models.RBM(alpha=1, param_dtype=complex), {}),
    "RBMModPhase": (lambda: nk.models.RBMModPhase(alpha=1), {}),
    "RBMMultiVal": (lambda: nk.models.RBMMultiVal(n_classes=2), {"inputs": "states"}),
    "RBMSymm": (lambda: nk.models.RBMSymm(symmetries=GRID.automorphisms(), alpha=2), {}),
    "GCNN": (lambda: nk.models.GCNN(symmetries=GRID, layers=2, features=2), {}),
    "Jastrow": (nk.models.Jastrow, {}),
    "MLP": (lambda: nk.models.MLP(hidden_dims=(4,)), {}),
    "DeepSetMLP": (
        lambda: Column(nk.models.DeepSetMLP(features_phi=(3,), features_rho=(3, 1))),
        {},
    ),
    "LogStateVector": (lambda: nk.models.LogStateVector(HILBERT), {}),
    "MPSOpen": (lambda: _matrix_product("MPSOpen"), {}),
    "MPSPeriodic": (lambda: _matrix_product("MPSPeriodic"), {}),
    "ARNNDense": (lambda: nk.models.ARNNDense(HILBERT, layers=2, features=3), {}),
    "ARNNConv1D": (lambda: nk.models.ARNNConv1D(HILBERT, layers=2, features=3, kernel_size=2), {}),
    "ARNNConv2D": (
        lambda: nk.models.ARNNConv2D(HILBERT, layers=2, features=3, kernel_size=(2, 2)),
        {},
    ),
    "FastARNNDense": (lambda: nk.models.FastARNNDense(HILBERT, layers=2, features=3), {}),
    "FastARNNConv1D": (
        lambda: nk.models.FastARNNConv1D(HILBERT, layers=2, features=3, kernel_size=2),
        {},
    ),
    "FastARNNConv2D": (
        lambda: nk.models.FastARNNConv2D(HILBERT, layers=2, features=3, kernel_size=(2, 2)),
        {},
    ),
    "LSTMNet": (lambda: experimental.LSTMNet(HILBERT, layers=1, features=3), {}),
    "GRUNet1D": (lambda: experimental.GRUNet1D(HILBERT, layers=1, features=3), {}),
    "FastLSTMNet": (lambda: experimental.FastLSTMNet(HILBERT, layers=1, features=3), {}),
    "FastGRUNet1D": (lambda: experimental.FastGRUNet1D(HILBERT, layers=1, features=3), {}),
}

_QUICK = ("RBM, holomorphic",)


class Column(linen.Module):
    """A model of particles with features, (B, N, 1), on spins."""

    model: Any

    @linen.compact
    def __call__(self, x: Any) -> Any:
        return self.model(x[..., None])


@pytest.mark.whole
@pytest.mark.parametrize(
    "name",
    [name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS],
)
def test_a_model_of_netket_passes_the_conformance_suite(name: str) -> None:
    make, options = MODELS[name]
    ansatz = FlaxAnsatz(LATTICE, make(), **{"inputs": "spins"} | options)
    noise = 0.1 * np.random.default_rng(1).normal(size=ansatz.n_params)
    check_ansatz(ansatz, ansatz.random(1) + noise)
