"""The covariance averaged over steps, and the shift that goes with it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.optimize.problems import random_problem
from tnvmc.backend.process import using_threads
from tnvmc.jacobian.centered import CenteredJacobian
from tnvmc.jacobian.dense import DenseJacobian
from tnvmc.optimize import average
from tnvmc.optimize.pace import Paced
from tnvmc.optimize.sr import SR, automatic_shift

SINGLE = 1e-6  # S is kept in single precision


def run(rule: SR, problems: list[Any]) -> list[np.ndarray]:
    state, found = rule.init(problems[0].theta), []
    for problem in problems:
        direction, state, _ = rule.direction(*problem.arguments, state)
        found.append(direction)
    return found


@pytest.mark.parametrize(
    ("theta", "psi"), [("real", "real"), ("real", "complex"), ("complex",) * 2]
)
def test_averages_s_and_not_the_force(theta: str, psi: str) -> None:
    first, second = (random_problem(9, (3, 2, 4), theta, psi, seed=seed) for seed in (1, 2))
    second = replace(second, theta=first.theta)
    (a, _), (b, e) = first.least_squares(), second.least_squares()
    s = (0.5 * a.conj().T @ a + b.conj().T @ b) / 1.5
    shift = 0.1 * np.trace(s).real / len(s) * np.eye(len(s))
    expected = np.linalg.solve(s + shift, b.conj().T @ e)
    found = run(SR(0.1, memory=0.5), [first, second])[1]
    assert np.abs(found - expected).max() < 100 * SINGLE * np.abs(expected).max()


def test_of_the_same_samples_again_is_plain() -> None:
    problem = random_problem(40, (3, 2, 4), "real", "real")
    plain = run(SR(0.1), [problem])[0]
    for found in run(SR(0.1, memory=0.9), 3 * [problem]):
        assert np.abs(found - plain).max() < 100 * SINGLE * np.abs(plain).max()


@pytest.mark.parametrize("theta", ["real", "complex"])
def test_bits_do_not_depend_on_the_number_of_threads(theta: str) -> None:
    problems = [random_problem(30, (200, 160), theta, theta, seed=seed) for seed in (1, 2)]
    assert problems[0].theta.size > 512  # rows that a thread takes
    found = []
    for n_threads in (1, 2, 3):
        with using_threads(n_threads):
            found.append(run(SR(0.1, memory=0.5), problems)[1])
    assert all(np.array_equal(found[0], each) for each in found[1:])


def test_of_many_parameters_each_step_is_on_its_own() -> None:
    problems = [random_problem(9, (3, 2, 4), "real", "real", seed=seed) for seed in (1, 2)]
    size = problems[0].theta.size
    own, averaged = (SR(memory=0.9, averaged_up_to=most) for most in (size - 1, size))
    assert not own.init(problems[0].theta)
    assert np.array_equal(run(own, problems)[1], run(SR(), problems[1:])[0])
    assert np.array_equal(run(averaged, problems)[1], run(SR(memory=0.9), problems)[1])


@pytest.mark.parametrize(
    ("rule", "n_params", "momentum"),
    [
        (SR(memory=0.9), 4096, 0.0),
        (SR(memory=0.9), 4097, 0.9),
        (SR(memory=0.9, momentum=0.5), 4097, 0.5),
        (SR(memory=0.9, averaged_up_to=5000), 4097, 0.0),
        (SR(), 4097, 0.0),
    ],
)
def test_of_many_shared_parameters_momentum_remembers(
    rule: SR, n_params: int, momentum: float
) -> None:
    expected = replace(rule, momentum=momentum)
    assert rule.for_shared_tensors(n_params) == expected
    assert Paced(rule).for_shared_tensors(n_params) == Paced(expected)


def test_what_momentum_carries_is_one_direction_and_the_direction_that_of_spring() -> None:
    problems = [random_problem(9, (3, 2, 4), "real", "real", seed=seed) for seed in (1, 2)]
    size = problems[0].theta.size
    rule = SR(0.1, memory=0.9, averaged_up_to=size - 1).for_shared_tensors(size)
    assert {name: each.shape for name, each in rule.init(problems[0].theta).items()} == {
        "previous": (size,)
    }
    found = run(rule, problems)
    a, e = problems[1].least_squares()
    shift = 0.1 * np.trace(a.T @ a) / len(a) * np.eye(size)
    expected = np.linalg.solve(a.T @ a + shift, a.T @ e + 0.9 * shift @ found[0])
    assert np.abs(found[1] - expected).max() < 1e-10 * np.abs(expected).max()


@pytest.mark.parametrize("shift", [0.0, 1e-8])
def test_with_a_shift_below_rounding_each_step_is_on_its_own(shift: float) -> None:
    problems = [random_problem(40, (3, 2, 4), "real", "real", seed=seed) for seed in (1, 2)]
    found = run(SR(shift, memory=0.5), problems)[-1]
    assert np.array_equal(found, run(SR(shift), problems)[-1])


@pytest.mark.parametrize("theta", ["real", "complex"])
def test_derivatives_that_vanish_in_single_precision_are_not_taken_for_zero(theta: str) -> None:
    problem = random_problem(40, (3, 2, 4), theta, theta)
    tiny = replace(problem, jacobian=DenseJacobian(1e-25 * problem.dense))
    found = run(SR(0.1, memory=0.5), [tiny, tiny])[-1]
    assert np.array_equal(found, run(SR(0.1), [tiny])[0])


@pytest.mark.whole
@given(factors=st.lists(st.floats(0.0, 0.99), max_size=50))
def test_effective_steps_are_those_of_kish(factors: list[float]) -> None:
    theta, weights = np.zeros(1), np.ones(1)
    one = CenteredJacobian(DenseJacobian(np.array([[1.0], [-1.0]])), np.full(2, 0.5))
    state = average.add(average.empty(theta), one, 0.5, theta)
    for factor in factors:
        state = average.add(state, one, factor, theta)
        weights = np.append(factor * weights, 1.0)
    expected = weights.sum() ** 2 / (weights**2).sum()
    found = state["counted"] ** 2 / state["squares"]  # as `SR` takes them
    assert found == pytest.approx(expected, rel=1e-9)
    assert np.asarray(state["covariance"])[0] == pytest.approx(state["counted"], rel=100 * SINGLE)


def test_what_lies_far_behind_is_forgotten() -> None:
    assert average.remembered(0.9, 0.0) == 0.9
    assert average.remembered(0.9, 1.0) == pytest.approx(0.9 / math.e)
    reach = 0.2
    first, second = (random_problem(9, (3, 2, 4), "real", "real", seed=seed) for seed in (1, 2))
    (a, _), (b, e) = first.least_squares(), second.least_squares()
    away = np.linspace(-1.0, 1.0, second.theta.size)
    for distance in (0.5, 1.0, 30.0):
        change = distance * reach / np.linalg.norm(b @ away) * away
        found = run(
            SR(0.1, memory=0.9, reach=reach), [first, replace(second, theta=first.theta + change)]
        )[1]
        factor = 0.9 * math.exp(-(distance**2))
        s = (factor * a.T @ a + b.T @ b) / (1 + factor)
        shift = 0.1 * np.trace(s) / len(s) * np.eye(len(s))
        expected = np.linalg.solve(s + shift, b.T @ e)
        assert np.abs(found - expected).max() < 100 * SINGLE * np.abs(expected).max()


def test_the_shift_is_largest_where_samples_are_as_many_as_parameters() -> None:
    shifts = [automatic_shift(x) for x in (0.01, 0.5, 1.0, 2.0, 100.0)]
    assert shifts == pytest.approx([1e-3, 0.025, 0.1, 0.025, 1e-2])


def test_the_automatic_shift_counts_the_samples_of_all_steps() -> None:
    problem, rule = random_problem(9, (3, 2, 4), "real", "real"), SR("auto", memory=0.5)
    n, state, told = problem.theta.size, rule.init(problem.theta), []
    for _ in range(2):
        _, state, info = rule.direction(*problem.arguments, state)
        told.append(info["shift"])
    expected = [automatic_shift(n / (rows * 9)) for rows in (1.0, 1.5**2 / 1.25)]
    assert told[0] / told[1] == pytest.approx(expected[0] / expected[1], rel=10 * SINGLE)


@pytest.mark.parametrize("memory", [-0.1, 1.0])
def test_a_memory_out_of_range_is_refused(memory: float) -> None:
    with pytest.raises(ValueError, match="memory"):
        SR(memory=memory)
