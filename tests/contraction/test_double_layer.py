"""Norms and exact amplitudes against dense states."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracles import all_configs, dense_state
from tnvmc.ansatz.peps.starts.tensors import random_positive
from tnvmc.contraction.double_layer import log_amplitude, log_norm
from tnvmc.lattice.grids import square

ROUNDING = 1e-10
UNCUT = 64  # no boundary MPO of the lattices here has larger bonds at D = 2


def random_state(lattice, dtype="float64", D=2, local_dim=2):
    """Entries of both signs, so that nothing is positive by accident."""
    rng = np.random.default_rng(7)
    tensors = random_positive(lattice, D, dtype, seed=1, local_dim=local_dim)
    return [t * (1 - 0.6 * rng.uniform(size=t.shape)) - 0.1 * np.abs(t).max() for t in tensors]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (1, 6), (5, 1), (1, 1)])
def test_norm_and_amplitudes(shape, dtype):
    tensors = random_state(square(*shape), dtype)
    configs = all_configs(shape[0] * shape[1])
    psi = dense_state(tensors, shape, configs)
    phase, log_abs = log_amplitude(tensors, shape, configs)
    assert np.allclose(phase * np.exp(log_abs), psi, rtol=1e-9, atol=ROUNDING * np.abs(psi).max())
    exact = np.log(np.sum(np.abs(psi) ** 2))
    assert np.isclose(log_norm(tensors, shape), exact, atol=ROUNDING)
    assert np.isclose(log_norm(tensors, shape, chi=UNCUT), exact, atol=ROUNDING)


def test_error_falls_with_chi():
    tensors = random_state(square(4, 4), D=3)
    exact = log_norm(tensors, (4, 4))
    errors = [abs(log_norm(tensors, (4, 4), chi=chi) - exact) for chi in (2, 8, 32, 81)]
    assert errors[0] > errors[1] > errors[2] > errors[3]
    assert errors[3] < 1e-9


def test_no_overflow():
    shape = (16, 16)
    lattice = square(*shape)
    tensors = random_positive(lattice, 2, seed=1)
    low, high = ([size / np.linalg.norm(t) * t for t in tensors] for size in (1e-5, 1e5))
    for chi in (4, 8):
        difference = log_norm(high, shape, chi=chi) - log_norm(low, shape, chi=chi)
        assert np.isclose(difference, 2 * 256 * np.log(1e10), rtol=1e-12)
    configs = np.random.default_rng(0).integers(0, 2, (2, 256))
    narrow = [t[:, :1, :1, :1, :1] for t in high]
    assert np.isfinite(log_amplitude(narrow, shape, configs)[1]).all()


def test_vanishing_amplitudes():
    tensors = [np.array([1.0, 0.0]).reshape(2, 1, 1, 1, 1)] * 4
    phase, log_abs = log_amplitude(tensors, (2, 2), np.array([[0, 0, 0, 0], [0, 1, 0, 0]]))
    assert phase.tolist() == [1.0, 0.0]
    assert log_abs.tolist() == [0.0, -np.inf]
    assert log_amplitude(tensors, (2, 2), np.zeros((0, 4), int))[0].shape == (0,)


def test_errors():
    tensors = random_state(square(2, 2))
    with pytest.raises(ValueError, match="4 tensors do not fill 3 rows of 2"):
        log_norm(tensors, (3, 2))
