"""The rate that follows the steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.optimize.problems import random_problem
from tnvmc.optimize.first_order import GradientDescent
from tnvmc.optimize.pace import Paced, correlation_along
from tnvmc.optimize.solve import least_squares
from tnvmc.optimize.sr import SR


def test_the_first_step_has_the_first_rate() -> None:
    problem = random_problem(40, (3, 2, 4), "real", "real")
    plain, _, _ = SR().direction(*problem.arguments, {})
    rule = Paced(SR(), rate=0.25)
    found, state, info = rule.direction(*problem.arguments, rule.init(problem.theta))
    assert np.array_equal(found, 0.25 * plain)
    assert (state["rate"], info["paced_rate"], info["correlation"]) == (0.25, 0.25, 0.0)


@pytest.mark.parametrize(
    ("theta", "psi"), [("real", "real"), ("real", "complex"), ("complex",) * 2]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_downhill_raises_it_and_uphill_lowers_it(theta: str, psi: str, sign: int) -> None:
    problem = random_problem(40, (3, 2, 4), theta, psi)
    a, e = problem.least_squares()
    last = sign * (a.conj().T @ e)
    c = (e.conj() @ (a @ last)).real / (np.linalg.norm(e) * np.linalg.norm(a @ last))
    assert sign * c > 0
    rule = Paced(GradientDescent(), rate=0.1, gain=0.5)
    state = {**rule.init(problem.theta), "last": last}
    _, state, info = rule.direction(*problem.arguments, state)
    assert info["correlation"] == pytest.approx(c)
    assert state["rate"] == pytest.approx(0.1 * math.exp(0.5 * c))


def test_it_stays_below_the_largest() -> None:
    problem = random_problem(40, (3, 2, 4), "real", "real")
    rule = Paced(GradientDescent(), rate=0.49)
    state = rule.init(problem.theta)
    for _ in range(20):  # the same samples again: always downhill
        _, state, _ = rule.direction(*problem.arguments, state)
    assert state["rate"] == 0.5


def test_the_correlation_of_what_is_constant_is_0() -> None:
    problem = random_problem(9, (3, 2, 4), "real", "real")
    theta, jacobian, energy, weight = problem.arguments
    flat = least_squares(theta, jacobian, np.ones_like(energy), weight)
    assert correlation_along(flat, np.ones_like(theta)) == 0
    assert correlation_along(least_squares(*problem.arguments), np.zeros_like(theta)) == 0


@pytest.mark.parametrize(("noise", "says"), [(1e-14, False), (1e-9, True)])
def test_local_energies_that_differ_by_rounding_say_nothing_of_the_rate(
    noise: float, says: bool
) -> None:
    problem = random_problem(40, (3, 2, 4), "real", "real")
    theta, jacobian, energy, weight = problem.arguments
    rule = Paced(GradientDescent(), rate=0.1)
    state = {**rule.init(theta), "last": np.ones_like(theta)}
    nearly = -7.0 + noise * energy
    _, after, info = rule.direction(theta, jacobian, nearly, weight, state)
    assert (info["correlation"] != 0) == says and (after["rate"] != 0.1) == says


def test_the_state_of_the_rule_is_kept() -> None:
    problem = random_problem(9, (3, 2, 4), "real", "real")
    rule = Paced(SR(momentum=0.5, memory=0.9))
    state = rule.init(problem.theta)
    own = {"rate", "last"}
    average = {"rule_covariance", "rule_counted", "rule_squares", "rule_at"}
    assert {"rule_previous", *average, *own} == set(state)
    _, after, _ = rule.direction(*problem.arguments, state)
    assert set(after) == set(state)


def test_a_step_that_was_cut_takes_back_what_the_rate_grew_by_at_most() -> None:
    rule = Paced(SR(), rate=0.4)
    state = rule.init(np.ones(3))
    for factor, left in ((0.01, math.exp(-rule.gain)), (0.95, 0.95)):
        assert rule.shortened(state, factor)["rate"] == pytest.approx(0.4 * left)
        assert set(rule.shortened(state, factor)) == set(state)
