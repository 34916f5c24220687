"""One Lanczos step from moments, and what H connects with samples."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracles import dense_hamiltonian
from tests.random_states import random_configs, random_theta
from tnvmc import PEPS, Exact, j1j2, square
from tnvmc.estimate.lanczos import NAMES, sampled_values, step_of
from tnvmc.estimate.observables import local_energy
from tnvmc.sampling.workers import measure_configs

EXACT = 1e-10  # products of a few matrices with elements of order one
LARGE = 5.0  # errors of a mean of many draws: once in two million


def moments(matrix: np.ndarray, psi: np.ndarray, centre: float) -> np.ndarray:
    shifted = matrix - centre * np.eye(len(matrix))
    return np.array([(psi @ np.linalg.matrix_power(shifted, n) @ psi).real for n in range(1, 5)])


@pytest.mark.parametrize("sign", [1, -1])
def test_the_step_has_the_lowest_energy_of_two_states(sign: int) -> None:
    rng = np.random.default_rng(1)
    matrix = np.diag(sign * rng.exponential(size=12))
    psi = rng.normal(size=12)
    psi /= np.linalg.norm(psi)
    found = dict(zip(NAMES, step_of(moments(matrix, psi, 0.3), 0.3), strict=True))
    basis = np.linalg.qr(np.stack([psi, matrix @ psi], axis=1))[0]
    assert found["energy"] == pytest.approx(
        np.linalg.eigvalsh(basis.T @ matrix @ basis)[0], abs=EXACT
    )
    after = psi + found["alpha"] * matrix @ psi
    after /= np.linalg.norm(after)
    energy = after @ matrix @ after
    assert energy == pytest.approx(found["energy"], abs=EXACT)
    variance = after @ matrix @ matrix @ after - energy**2
    assert variance == pytest.approx(found["variance"], abs=EXACT)


def test_an_eigenstate_stays() -> None:
    matrix, psi = np.diag([-3.0, 1.0]), np.array([1.0, 0.0])
    found = dict(zip(NAMES, step_of(moments(matrix, psi, -2.9), -2.9), strict=True))
    assert (found["energy"], found["alpha"], found["gain"]) == (pytest.approx(-3.0), 0.0, 0.0)


def test_no_line_where_the_variance_grows() -> None:
    found = dict(zip(NAMES, step_of(np.array([0.0, 1.0, -4.0, 40.0]), 0.0), strict=True))
    assert found["variance"] > found["variance_before"]
    assert np.isnan(found["at_zero_variance"])


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_values_of_all_that_is_connected_and_of_draws(dtype: type) -> None:
    operator = j1j2(square(2, 3), J2=0.5)
    state = PEPS(operator.lattice, 2, scheme=Exact(), dtype=dtype)
    theta, centre = random_theta(state), -0.7
    configs = random_configs(64, 6)
    every = random_configs(4096, 6, seed=1)
    places = {row.tobytes(): k for k, row in enumerate(every)}
    snapshot = measure_configs(state, theta, configs, operator.targets)
    known = measure_configs(state, theta, every, operator.targets)
    energies = local_energy(operator, known)
    local = local_energy(operator, snapshot)

    def values(drawn: np.ndarray | None) -> np.ndarray:
        def ask(configs: np.ndarray) -> np.ndarray:
            return energies[[places[row.tobytes()] for row in configs]]

        found, vanishing = sampled_values(operator, snapshot, ask, drawn, (local, centre))
        assert vanishing == 0
        return found

    all_of_them = values(None)
    every_state = np.array(np.meshgrid(*[[0, 1]] * 6, indexing="ij")).reshape(6, -1).T
    amplitudes = state.log_amplitude(theta, every_state.astype(np.int8))
    psi = amplitudes.phase * np.exp(amplitudes.log_abs)
    shifted = dense_hamiltonian(operator) - centre * np.eye(64)
    at = configs @ 2 ** np.arange(5, -1, -1)
    d, twice = (shifted @ psi / psi)[at], (shifted @ shifted @ psi / psi)[at]
    expected = [d.real, abs(d) ** 2, (d.conj() * twice).real, abs(twice) ** 2]
    assert np.allclose(all_of_them, np.stack(expected, axis=1), rtol=1e-9, atol=1e-9)
    rng = np.random.default_rng(2)
    draws = np.array([values(rng.random((64, 3))) for _ in range(400)])
    error = draws.std(axis=0) / np.sqrt(len(draws)) + EXACT
    assert (abs(draws.mean(axis=0) - all_of_them) / error).max() < LARGE
    assert (abs(draws[0] - all_of_them)[:, 2:] > EXACT).any()
