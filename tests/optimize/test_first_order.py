"""Gradient, random signs and Adam against finite differences and textbook formulas."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

from tests.optimize.problems import log_linear, random_numbers, random_problem
from tnvmc.backend.namespace import to_host
from tnvmc.jacobian.dense import DenseJacobian
from tnvmc.jacobian.slices import SliceJacobian
from tnvmc.optimize.first_order import Adam, GradientDescent
from tnvmc.optimize.rule import NonFiniteError

KINDS = [("real", "real"), ("real", "complex"), ("complex", "complex"), ("complex", "real")]
RULES = [GradientDescent(), Adam()]


def force_of(problem: Any) -> np.ndarray:
    a, e = problem.least_squares()
    return a.conj().T @ e


@pytest.mark.parametrize(("theta", "psi"), KINDS)
@pytest.mark.parametrize("weighted", [True, False])
def test_gradient_is_the_force(theta: str, psi: str, weighted: bool) -> None:
    problem = random_problem(20, (3, 2), theta, psi, weighted=weighted)
    force, state, info = GradientDescent().direction(*problem.arguments, {})
    np.testing.assert_allclose(force, force_of(problem), atol=1e-13)
    assert state == {}
    assert info["force_norm"] == pytest.approx(np.linalg.norm(force))


@pytest.mark.parametrize(("theta", "psi"), KINDS)
def test_force_is_half_of_the_slope_of_the_energy(theta: str, psi: str) -> None:
    """dE = 2 Re(F^dagger d theta), under enumeration, in every direction."""
    model = log_linear(psi)
    rng = np.random.default_rng(2)
    parameters = 0.3 * random_numbers(rng, 9, theta == "complex")
    jacobian, local, weight = model.snapshot(parameters)
    force, _, _ = GradientDescent().direction(parameters, jacobian, local, weight, {})
    for _ in range(5):
        v = random_numbers(rng, 9, theta == "complex")
        h = 1e-5
        slope = (model.energy(parameters + h * v) - model.energy(parameters - h * v)) / (2 * h)
        assert slope == pytest.approx(2 * float((force.conj() @ v).real), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(("theta", "psi"), KINDS)
def test_adam_is_the_textbook(theta: str, psi: str) -> None:
    rule = Adam(beta1=0.8, beta2=0.95, epsilon=1e-6)
    problems = [random_problem(20, (3, 2), theta, psi, seed=seed) for seed in range(5)]
    state = rule.init(problems[0].theta)
    m, v = 0.0, 0.0
    for t, problem in enumerate(problems, start=1):
        found, state, _ = rule.direction(*problem.arguments, state)
        force = force_of(problem)
        m = 0.8 * m + 0.2 * force
        v = 0.95 * v + 0.05 * np.abs(force) ** 2
        expected = m / (1 - 0.8**t) / (np.sqrt(v / (1 - 0.95**t)) + 1e-6)
        np.testing.assert_allclose(found, expected, atol=1e-11)
    assert state["count"] == 5


def test_adam_turns_with_the_phase_of_a_parameter() -> None:
    """theta_k -> theta_k e^(i a): O_k and the force turn, and so must the direction."""
    phase = np.exp(0.7j)
    rule = Adam()
    plain, turned = rule.init(np.zeros(10, complex)), rule.init(np.zeros(10, complex))
    for seed in range(4):
        problem = random_problem(20, (3, 2), "complex", "complex", slices=False, seed=seed)
        there = DenseJacobian(problem.dense * phase)
        d, plain, _ = rule.direction(*problem.arguments, plain)
        theta = problem.theta / phase
        e, turned, _ = rule.direction(theta, there, problem.energy, None, turned)
        np.testing.assert_allclose(e, d * phase.conj(), atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("theta", "psi"), KINDS)
def test_downhill_without_noise(rule: Any, theta: str, psi: str) -> None:
    model = log_linear(psi, n_params=14)
    values, vectors = np.linalg.eigh(model.hamiltonian)
    ground = np.abs(vectors[:, 0]) if psi == "real" else vectors[:, 0]
    parameters = model.parameters_near(ground, 0.2, theta)
    state = rule.init(parameters)
    energies = []
    for step in range(150):
        jacobian, local, weight = model.snapshot(parameters)
        energies.append(model.energy(parameters))
        d, state, _ = rule.direction(parameters, jacobian, local, weight, state)
        assert d.dtype == parameters.dtype
        parameters = parameters - 0.02 * 0.97**step * d
    assert min(energies) >= values[0] - 1e-10
    assert energies[-1] - values[0] < 0.2 * (energies[0] - values[0])


@pytest.mark.parametrize("rule", RULES)
def test_resumed_state_repeats_every_bit(rule: Any) -> None:
    problems = [random_problem(8, (3, 2), "complex", "complex", seed=seed) for seed in range(6)]
    state, found, states = rule.init(problems[0].theta), [], []
    for step, problem in enumerate(problems):
        states.append({k: v if isinstance(v, int) else np.copy(v) for k, v in state.items()})
        d, state, _ = rule.direction(*problem.arguments, state)
        found.append(d)
    state = states[3]
    for step in range(3, 6):
        d, state, _ = rule.direction(*problems[step].arguments, state)
        np.testing.assert_array_equal(d, found[step])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("theta", "psi"), KINDS)
def test_strict_namespace(rule: Any, theta: str, psi: str) -> None:
    problem = random_problem(11, (3, 2), theta, psi, weighted=True)
    jacobian = SliceJacobian(
        [strict.asarray(x) for x in problem.jacobian.slices], strict.asarray(problem.jacobian.spins)
    )
    parameters, energy, weight = (
        strict.asarray(x) for x in (problem.theta, problem.energy, problem.weight)
    )
    found = rule.direction(parameters, jacobian, energy, weight, rule.init(parameters))[0]
    expected = rule.direction(*problem.arguments, rule.init(problem.theta))[0]
    np.testing.assert_allclose(to_host(found), expected, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_non_finite_never_becomes_a_direction(rule: Any) -> None:
    problem = random_problem(20, (3, 2))
    energy = problem.energy.copy()
    energy[4] = np.nan
    with pytest.raises(NonFiniteError, match="1 of 20 are not finite"):
        rule.direction(problem.theta, problem.jacobian, energy, None, rule.init(problem.theta))
    large = SliceJacobian([1e300 * x for x in problem.jacobian.slices], problem.jacobian.spins)
    with pytest.raises(NonFiniteError, match="force"):
        rule.direction(problem.theta, large, 1e10 * problem.energy, None, rule.init(problem.theta))


def test_adam_settings() -> None:
    with pytest.raises(ValueError, match="beta1 = 1.0"):
        Adam(beta1=1.0)


def test_weights_need_not_be_normalised() -> None:
    problem = random_problem(20, (3, 2), weighted=True)
    theta, jacobian, energy, weight = problem.arguments
    one, _, _ = GradientDescent().direction(theta, jacobian, energy, weight, {})
    other, _, _ = GradientDescent().direction(theta, jacobian, energy, 17 * weight, {})
    np.testing.assert_allclose(one, other, atol=1e-14)
