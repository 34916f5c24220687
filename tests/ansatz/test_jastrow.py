"""Jastrow states against sums over pairs, one by one."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tests import oracles
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.jastrow import Jastrow
from tnvmc.backend.namespace import to_host
from tnvmc.lattice import square

ROUNDING = 1e-12  # of sums of some tens of numbers of order one


def dense(state: Jastrow, theta: np.ndarray, configs: np.ndarray) -> np.ndarray:
    """ln psi, pair by pair."""
    n, found = state.lattice.n_sites * (2 if state.local_dim == 4 else 1), []
    fields = theta[:n] if state.fields else np.zeros(n)
    v = theta[n if state.fields else 0 :]
    for s in configs:
        z = state.local_dim - 1 - 2 * s.astype(int)
        if state.local_dim == 4:
            z = np.array([1 - 2 * (a >> k & 1) for k in (0, 1) for a in s])
        total = sum(fields * z)
        for k, (i, j) in enumerate(combinations(range(n), 2)):
            total += v[k] * z[i] * z[j]
        found.append(total)
    return np.array(found)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("local_dim", [2, 3, 4])
def test_amplitudes(dtype: str, local_dim: int, xp: Any) -> None:
    state = Jastrow(square(2, 3), fields=True, dtype=dtype, local_dim=local_dim)
    theta, configs = 30 * state.random(1), oracles.all_configs(6, local_dim)[::7]
    assert theta.shape == (state.n_params,) and theta.dtype == dtype
    found = state.log_amplitude(xp.asarray(theta), xp.asarray(configs))
    expected = dense(state, theta, configs)
    np.testing.assert_allclose(to_host(found.log_abs), expected.real, atol=ROUNDING)
    np.testing.assert_allclose(to_host(found.phase), np.exp(1j * expected.imag), atol=ROUNDING)


@pytest.mark.whole
@pytest.mark.parametrize("fields", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_conforms(fields: bool, dtype: str, xp: Any) -> None:
    state = Jastrow(square(2, 3), fields=fields, dtype=dtype)
    check_ansatz(state, xp.asarray(30 * state.random(2)))


def test_number_of_parameters() -> None:
    lattice = square(3, 3)
    assert Jastrow(lattice).n_params == 36
    assert Jastrow(lattice, fields=True).n_params == 45


def test_zero_is_constant() -> None:
    state = Jastrow(square(2, 2))
    found = state.log_amplitude(np.zeros(state.n_params), oracles.all_configs(4))
    assert (found.phase == 1).all() and (found.log_abs == 0).all()
