"""Random parameters and configurations, and a walk that tells all that an ansatz gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend.namespace import to_host
from tnvmc.backend.random import uniforms
from tnvmc.operators.term import Operator
from tnvmc.sampling.moves import moves_for


def random_theta(state: Any, seed: int = 0, mean: float = 0.0) -> np.ndarray:
    """Normal parameters (P,) of a state with a dtype, real or complex as it is."""
    rng = np.random.default_rng(seed)
    theta = mean + rng.normal(size=state.n_params)
    if state.dtype.kind == "c":
        theta = theta + 1j * rng.normal(size=state.n_params)
    return theta.astype(state.dtype)


def random_configs(n: int, n_sites: int, seed: int = 0) -> np.ndarray:
    """Configurations (n, N) of spins 1/2."""
    return np.random.default_rng(seed).integers(0, 2, size=(n, n_sites)).astype(np.int8)


def walked(
    ansatz: Ansatz, operator: Operator, theta: np.ndarray, configs: np.ndarray, xp: Any
) -> list[np.ndarray]:
    """All numbers of a sweep and a measurement with arrays of a namespace, on the host."""
    t, moves = xp.asarray(theta), {p: xp.asarray(v) for p, v in moves_for(operator).items()}
    walkers = ansatz.start(t, xp.asarray(configs))
    u = uniforms(3, (0, 0), range(len(configs)), len(moves), xp)
    walkers, info = ansatz.sweep(t, walkers, moves, u)
    walkers, snapshot = ansatz.measure(t, walkers, moves)
    jacobian: Any = snapshot.jacobian
    parts = [walkers.configs, snapshot.amplitude.log_abs, info.accepted, *jacobian.slices]
    return [to_host(part) for part in (*parts, *snapshot.ratios.values())]
