"""The covariance averaged over steps, and the shift that goes with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.optimize.problems import random_problem
from tnvmc.ansatz.jacobian import DenseJacobian
from tnvmc.optimize import average, window
from tnvmc.optimize.sr import SR, automatic_shift

SINGLE = 1e-6  # S is kept in single precision
KEY = (0, 0)


def run(rule: SR, problems: list[Any]) -> list[np.ndarray]:
    state, found = rule.init(problems[0].theta), []
    for problem in problems:
        direction, state, _ = rule.direction(*problem.arguments, state, KEY)
        found.append(direction)
    return found


@pytest.mark.parametrize(
    ("theta", "psi"), [("real", "real"), ("real", "complex"), ("complex",) * 2]
)
def test_averages_s_and_not_the_force(theta: str, psi: str) -> None:
    first, second = (random_problem(9, (3, 2, 4), theta, psi, seed=seed) for seed in (1, 2))
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


@pytest.mark.parametrize(
    ("theta", "psi"), [("real", "real"), ("real", "complex"), ("complex",) * 2]
)
@pytest.mark.parametrize("shift", [0.1, "auto"])
def test_rows_of_steps_give_the_same(
    theta: str, psi: str, shift: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the space of the rows of all steps, as by the averaged matrix; the shift has other units."""
    problems = [random_problem(9, (3, 2, 4), theta, psi, seed=seed) for seed in (1, 2, 3)]
    averaged = run(SR(shift, memory=0.5), problems)
    monkeypatch.setattr(average, "MOST_PARAMETERS", 1)
    rows = run(SR(shift, memory=0.5), problems)
    n_params = problems[0].theta.size
    per_step = 9 * (1 + (theta == "real" and psi == "complex"))
    for step, (found, expected) in enumerate(zip(rows, averaged, strict=True), 1):
        if step * per_step < n_params:
            continue  # of the mean diagonal of the smaller matrix
        assert np.abs(found - expected).max() < 1000 * SINGLE * np.abs(expected).max()


def test_without_room_for_two_steps_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(9, (3, 2, 4), "real", "real")
    assert set(SR(memory=0.9).init(problem.theta)) == {"covariance", "averaged"}
    monkeypatch.setattr(average, "MOST_PARAMETERS", problem.theta.size - 1)
    assert set(SR(memory=0.9).init(problem.theta)) == {"rows", "products", "age"}
    monkeypatch.setattr(window, "MOST_ROWS", 17)
    found = run(SR(memory=0.9), [problem, problem])
    assert np.array_equal(found[1], run(SR(), [problem])[0])


def test_the_oldest_rows_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(average, "MOST_PARAMETERS", 1)
    monkeypatch.setattr(window, "MOST_ROWS", 25)
    first, *last = (random_problem(9, (3, 2, 4), "real", "real", seed=seed) for seed in (1, 2, 3))
    of_three, of_two = run(SR(0.1, memory=0.5), [first, *last])[-1], run(SR(0.1, memory=0.5), last)
    assert np.abs(of_three - of_two[-1]).max() < 100 * SINGLE * np.abs(of_three).max()


@pytest.mark.parametrize("rows", [(60, 30), (30, 60), (12, 30, 9)])
def test_a_step_of_other_samples_counts_as_one_step(
    rows: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its number of rows: S is an average over steps."""
    problems = [random_problem(n, (3, 2, 4), "real", "real", seed=n) for n in rows]
    averaged = run(SR(0.1, memory=0.5), problems)[-1]
    monkeypatch.setattr(average, "MOST_PARAMETERS", 1)
    found = run(SR(0.1, memory=0.5), problems)[-1]
    assert np.abs(found - averaged).max() < 1000 * SINGLE * np.abs(averaged).max()


def test_no_step_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for 25 rows: of 9 + 20 the 9 only, though 5 more would fit."""
    monkeypatch.setattr(average, "MOST_PARAMETERS", 1)
    monkeypatch.setattr(window, "MOST_ROWS", 25)
    problems = [random_problem(n, (3, 2, 4), "real", "real", seed=n) for n in (20, 9)]
    rule, state = SR(0.1, memory=0.5), SR(memory=0.5).init(problems[0].theta)
    for problem, left in zip(problems, (0, 9), strict=True):  # 20: no room for two steps
        _, state, _ = rule.direction(*problem.arguments, state, KEY)
        assert state["age"].shape[0] == left
    monkeypatch.setattr(window, "MOST_ROWS", 50)
    for n, ages in ((20, [0] * 20 + [1] * 9), (25, [0] * 25 + [1] * 20), (9, [0] * 9 + [1] * 25)):
        problem = random_problem(n, (3, 2, 4), "real", "real", seed=n)
        _, state, _ = rule.direction(*problem.arguments, state, KEY)
        assert list(state["age"]) == ages


@pytest.mark.parametrize("shift", [0.0, 1e-8])
def test_a_shift_below_rounding_takes_the_present_rows_in_double(
    shift: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of single precision would give a direction of rounding alone."""
    monkeypatch.setattr(average, "MOST_PARAMETERS", 1)
    problems = [random_problem(9, (3, 2, 4), "real", "real", seed=seed) for seed in range(5)]
    found = run(SR(shift, memory=0.5), problems)[-1]
    assert np.array_equal(found, run(SR(shift), problems)[-1])


def test_rows_that_vanish_in_single_precision_are_not_taken_for_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(average, "MOST_PARAMETERS", 1)
    problem = random_problem(9, (3, 2, 4), "real", "real")
    tiny = replace(problem, jacobian=DenseJacobian(1e-25 * problem.dense))
    found = run(SR(0.1, memory=0.5), [tiny, tiny])[-1]
    assert np.array_equal(found, run(SR(0.1), [tiny])[0])


@given(memory=st.floats(0.0, 0.99), steps=st.integers(1, 200))
def test_effective_steps_are_those_of_kish(memory: float, steps: int) -> None:
    weights = memory ** np.arange(steps)
    expected = weights.sum() ** 2 / (weights**2).sum()
    assert average.effective_steps(memory, steps) == pytest.approx(expected, rel=1e-9)


def test_the_shift_is_largest_where_samples_are_as_many_as_parameters() -> None:
    shifts = [automatic_shift(x) for x in (0.01, 0.5, 1.0, 2.0, 100.0)]
    assert shifts == pytest.approx([1e-3, 0.025, 0.1, 0.025, 1e-3])


def test_the_automatic_shift_counts_the_samples_of_all_steps() -> None:
    problem, rule = random_problem(9, (3, 2, 4), "real", "real"), SR("auto", memory=0.5)
    n, state, told = problem.theta.size, rule.init(problem.theta), []
    for _ in range(2):
        _, state, info = rule.direction(*problem.arguments, state, KEY)
        told.append(info["shift"])
    expected = [automatic_shift(n / (rows * 9)) for rows in (1.0, 1.5**2 / 1.25)]
    assert told[0] / told[1] == pytest.approx(expected[0] / expected[1], rel=10 * SINGLE)


@pytest.mark.parametrize("memory", [-0.1, 1.0])
def test_a_memory_out_of_range_is_refused(memory: float) -> None:
    with pytest.raises(ValueError, match="memory"):
        SR(memory=memory)
