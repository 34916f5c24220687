"""The exact twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.drawing import enumerated
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.estimate.observables import local_energy
from tnvmc.lattice import chain, square
from tnvmc.operators import models
from tnvmc.sampling import workers
from tnvmc.sampling.enumerate import born_weights


def state(operator: Any, dtype: str = "complex128") -> tuple[PeriodicMPS, Any]:
    ansatz = PeriodicMPS(operator.lattice, 2, dtype)
    return ansatz, ansatz.random(11, noise=0.8)


@pytest.mark.parametrize("model", ["heisenberg", "j1j2", "tfim", "rydberg"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_energy_and_variance_are_those_of_the_matrix(model: str, dtype: str) -> None:
    operator = getattr(models, model)(square(2, 3))
    ansatz, theta = state(operator, dtype)
    snapshot = enumerated(ansatz, theta, operator)
    sector = 0 if operator.conserves_magnetisation else None
    matrix = operator.sparse(magnetisation=sector)
    psi = snapshot.amplitude.phase * np.exp(snapshot.amplitude.log_abs)
    norm = np.vdot(psi, psi).real
    local = local_energy(operator, snapshot)
    assert snapshot.weight.sum() == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(snapshot.weight, np.abs(psi) ** 2 / norm, rtol=1e-12)
    energy = np.vdot(psi, matrix @ psi) / norm
    assert (snapshot.weight * local).sum() == pytest.approx(energy, rel=1e-12)
    square_norm = np.linalg.norm(matrix @ psi) ** 2 / norm
    assert (snapshot.weight * np.abs(local) ** 2).sum() == pytest.approx(square_norm, rel=1e-12)


def test_force_is_the_gradient_of_the_energy() -> None:
    """d<H>/d theta = 2 Re sum_s w O* (E - <E>), by central differences."""
    operator = models.tfim(chain(4), h=0.7)
    ansatz, theta = state(operator, "float64")

    def energy(at: np.ndarray) -> float:
        snapshot = enumerated(ansatz, at, operator, jacobian=False)
        return float((snapshot.weight * local_energy(operator, snapshot)).sum())

    snapshot = enumerated(ansatz, theta, operator)
    local = local_energy(operator, snapshot)
    gradient = 2 * snapshot.jacobian.adjoint(snapshot.weight * (local - energy(theta)))
    direction = np.random.Generator(np.random.PCG64(0)).normal(size=theta.size)
    step = 1e-5
    slope = (energy(theta + step * direction) - energy(theta - step * direction)) / (2 * step)
    assert gradient @ direction == pytest.approx(slope, rel=1e-7)


def test_chunks_and_threads_change_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = models.heisenberg(square(2, 4))
    ansatz, theta = state(operator)
    whole = enumerated(ansatz, theta, operator)
    split = workers.split
    monkeypatch.setattr(workers, "split", lambda n, size: split(n, 7))
    one = enumerated(ansatz, theta, operator, threads=1)
    two = enumerated(ansatz, theta, operator, threads=2)
    assert one.configs.shape == (70, 8)
    np.testing.assert_array_equal(one.weight, two.weight)
    np.testing.assert_array_equal(one.jacobian.dense(), two.jacobian.dense())
    np.testing.assert_allclose(one.weight, whole.weight, rtol=1e-12)


def test_odd_lattices_need_a_magnetisation() -> None:
    operator = models.heisenberg(square(3, 3))
    ansatz, theta = state(operator)
    with pytest.raises(ValueError, match="odd"):
        enumerated(ansatz, theta, operator)
    snapshot = enumerated(ansatz, theta, operator, jacobian=False, magnetisation=1)
    assert snapshot.configs.shape == (126, 9)


def test_too_many_configurations_are_refused_before_anything_is_built() -> None:
    operator = models.heisenberg(square(10, 10))
    ansatz = PeriodicMPS(operator.lattice, 1)
    with pytest.raises(ValueError, match="at most 2000000"):
        enumerated(ansatz, ansatz.random(0), operator)


def test_weights_of_huge_and_vanishing_amplitudes() -> None:
    log_abs = np.array([5000.0, 5000.0 + np.log(2.0), -np.inf])
    weight = born_weights(LogAmplitude(np.array([1.0, -1.0, 0.0]), log_abs))
    np.testing.assert_allclose(weight, [0.2, 0.8, 0.0])
    with pytest.raises(ValueError, match="vanishes on the whole sector"):
        born_weights(LogAmplitude(np.zeros(2), np.full(2, -np.inf)))
    with pytest.raises(ValueError, match="non-finite"):
        born_weights(LogAmplitude(np.ones(2), np.array([0.0, np.nan])))
