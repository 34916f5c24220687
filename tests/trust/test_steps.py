"""Where the steps of an optimisation point, and how much of them was noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.trust.test_convergence import lines
from tnvmc import PEPS, Exact, Sampler, heisenberg, square
from tnvmc.estimate.observables import local_energy
from tnvmc.optimize.pace import along
from tnvmc.optimize.solve import least_squares
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.vmc import VMC
from tnvmc.trust.steps import noise_shares, zero_variance

SIGMAS = 4.0


def test_the_steps_point_at_the_energy_of_zero_variance() -> None:
    line, _ = zero_variance(lines())
    assert line is not None
    assert abs(line.intercept + 10) < SIGMAS * line.intercept_error < 5e-3
    assert line.slope == pytest.approx(0.3, rel=0.02)


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        (lines(11), "steps"),
        ([each | {"variance": 0.3} for each in lines()], "tail"),
        ([each | {"energy": -10.0} for each in lines()], "slope"),
        ([each | {"energy": -10 - 0.3 * each["variance"]} for each in lines()], "slope"),
        ([each | {"energy": each["energy"] + each["variance"] ** 2} for each in lines()], "bend"),
    ],
)
def test_it_is_not_shown_where_it_means_nothing(history: list[Any], reason: str) -> None:
    line, (found,) = zero_variance(history)
    assert line is None
    assert (found.code, found.values["reason"]) == ("variance_line_not_shown", reason)


def descent(share: float, n: int = 60, error: float = 1e-3) -> list[dict[str, Any]]:
    """E = 2 s^2 t^2 along a line, steps that expect 1 / (1 - share) times the slope that there is."""
    rng, found, t, last = np.random.default_rng(0), [], 5.0, 0.0
    rate = 0.02
    for step in range(n):
        slope = 2 * t  # half of dE / dt; the direction is -1
        told = {"expected_slope": last / (1 - share), "confirmed_slope": slope} if step else {}
        found.append({
            "step": step, "energy": 2 * t**2 + error * rng.normal(), "energy_error": error,
            "learning_rate": 2 * rate, "optimizer": told, "undone": False,
            "diagnostics": [{"code": "step_shortened", "values": {"factor": 0.5}}],
        })  # fmt: skip
        last = slope
        t -= rate
    return found


@pytest.mark.parametrize("share", [0.0, 0.4, 0.9])
def test_curvature_is_no_noise(share: float) -> None:
    found = noise_shares(descent(share))
    assert len(found) == 11
    assert all(each.last - each.first == 5 for each in found)
    assert all(abs(each.share - share) < SIGMAS * each.error for each in found)
    assert {place for each in found for place in (each.first, each.last)} <= set(range(60))


def test_no_share_spans_an_undone_step_or_two_stages() -> None:
    history = descent(0.4, 20)
    history[8]["undone"], history[8]["optimizer"] = True, {}
    history = [each | {"stage": 1 + each["step"] // 15} for each in history]
    assert [(each.first, each.last) for each in noise_shares(history)] == [(0, 5), (9, 14)]


def test_nothing_is_known_of_fixed_rates_of_few_steps_and_of_steps_too_long() -> None:
    history = descent(0.4)
    assert noise_shares([each | {"optimizer": {"slope": 1.0}} for each in history]) == []
    assert noise_shares([{k: v for k, v in e.items() if k != "optimizer"} for e in history]) == []
    assert noise_shares(history[:5]) == noise_shares([]) == []
    fell = [each | {"energy": each["energy"] - 5.0 * each["step"]} for each in history]
    assert noise_shares(fell) == []
    noisy = [each | {"energy_error": 100.0} for each in history]
    assert noise_shares(noisy) == []


@pytest.mark.whole
def test_shares_of_a_run_are_those_of_exact_slopes() -> None:
    operator = heisenberg(square(2, 4))
    peps = PEPS(operator.lattice, 2, scheme=Exact())
    theta = peps.initial(operator)
    sampler = Sampler(n_walkers=64, n_samples=256, threads=1)
    vmc = VMC(operator, peps, sampler=sampler, theta=theta, learning_rate="auto")
    exact = Enumerate()
    truth: list[float] = []
    history: list[dict[str, Any]] = []
    for _ in range(30):
        here, at = vmc.problem, replace(vmc.state.here)
        snapshot = exact.draw(here, at, 0, True)[0]
        local = local_energy(operator, snapshot)
        true = least_squares(at.theta, snapshot.jacobian, local, snapshot.weight)
        history.append(vmc.step().as_dict())
        truth.append(along(true, vmc.state.here.optimizer["last"]).slope)
    found = noise_shares(history)
    assert found
    for each in found:
        steps = slice(each.first, each.last)
        rates = np.array([line["learning_rate"] for line in history[steps]])
        after = history[each.first + 1 : each.last + 1]
        expected = rates @ [line["optimizer"]["expected_slope"] for line in after]
        share = 1 - rates @ truth[steps] / expected
        assert abs(each.share - share) < SIGMAS * each.error
