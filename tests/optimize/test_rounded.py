"""SR from log-derivatives in single precision: near the direction of double, within the bound, or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.optimize.problems import Problem, random_problem
from tnvmc.backend.process import using_threads
from tnvmc.jacobian.slices import SliceJacobian
from tnvmc.optimize import rounded, sr
from tnvmc.optimize.conjugate_gradients import ConjugateGradients
from tnvmc.optimize.pace import Paced
from tnvmc.optimize.rounded import TOLERANCE, PrecisionError, likely
from tnvmc.optimize.solve import Eigen
from tnvmc.optimize.sr import SR

KINDS = [("real", "real"), ("real", "complex"), ("complex", "complex")]
KEY = (0, 0)


def in_both(rule: SR, problem: Problem, state: Any = None) -> tuple[np.ndarray, np.ndarray, Any]:
    """Direction in double, in single, report of the latter."""
    state = {} if state is None else state
    exact = rule.direction(*problem.arguments, state, KEY)[0]
    single = replace(problem, jacobian=problem.jacobian.in_single())
    near, _, info = rule.direction(*single.arguments, state, KEY)
    return exact, near, info


@pytest.mark.parametrize("size", [2.0**100, 2.0**130])
def test_numbers_beyond_single_precision_ask_for_double(size: float) -> None:
    problem = random_problem(12, (7, 9, 4))
    with np.errstate(over="ignore"):
        slices = [x.astype(np.float32) for x in problem.jacobian.slices]
        slices[1][3, 4] = np.float32(size)
    rounded_slices = SliceJacobian(slices, problem.jacobian.spins)
    with pytest.raises(PrecisionError):
        SR(1e-2).direction(*replace(problem, jacobian=rounded_slices).arguments, {}, KEY)


@pytest.mark.whole
@settings(max_examples=20, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    shape=st.sampled_from([(12, (7, 9, 4)), (60, (3, 5))]),
    diag_shift=st.sampled_from([10.0, 1e-1, 1e-2, 1e-4, 1e-6, 1e-8]),
    momentum=st.sampled_from([0.0, 0.9]),
    common=st.sampled_from([0.0, 10.0]),
    seed=st.integers(0, 2**16),
)
def test_the_change_is_within_the_bound_or_refused(
    kind: tuple[str, str],
    shape: tuple[int, tuple[int, ...]],
    diag_shift: float,
    momentum: float,
    common: float,
    seed: int,
) -> None:
    problem = random_problem(*shape, *kind, weighted=True, seed=seed)
    for slice_ in problem.jacobian.slices:
        slice_ += common  # a large mean, which centring takes away
    previous = (
        np.random.default_rng(seed).normal(size=problem.theta.size).astype(problem.theta.dtype)
    )
    state = {"previous": previous} if momentum else {}
    rule = SR(diag_shift=diag_shift, momentum=momentum)
    try:
        exact, near, info = in_both(rule, problem, state)
    except PrecisionError as error:
        assert error.change > TOLERANCE
        return
    change = np.linalg.norm(near - exact) / np.linalg.norm(near)
    assert info["log_derivatives"] == "single"
    assert change <= info["rounding"] <= TOLERANCE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("space", ["samples", "parameters"])
def test_with_a_usual_shift_single_precision_is_taken(kind: tuple[str, str], space: Any) -> None:
    problem = random_problem(40, (15, 20, 25), *kind)
    exact, near, info = in_both(SR(diag_shift=1e-2, space=space), problem)
    # Errors of entries are independent, so they add up to less than the bound.
    assert np.linalg.norm(near - exact) < 0.1 * info["rounding"] * np.linalg.norm(exact)
    assert info["method"] == "cholesky" and info["space"] == space


@pytest.mark.parametrize("diag_shift", [0.0, 1e-12])
def test_without_a_shift_it_is_refused(diag_shift: float) -> None:
    problem = random_problem(40, (15, 20, 25))
    with pytest.raises(PrecisionError):
        in_both(SR(diag_shift=diag_shift), problem)


def test_equations_that_single_precision_products_do_not_determine_are_refused() -> None:
    problem = random_problem(40, (4, 3))  # 14 parameters: the matrix of samples is singular
    rule = SR(diag_shift=1e-9, space="samples")
    with pytest.raises(PrecisionError):
        in_both(rule, problem)


def test_other_solvers_are_refused_and_conjugate_gradients_taken() -> None:
    problem = random_problem(40, (15, 20, 25))
    with pytest.raises(PrecisionError):
        in_both(SR(solver=Eigen()), problem)
    exact, near, info = in_both(SR(solver=ConjugateGradients(1e-10)), problem)
    assert np.linalg.norm(near - exact) <= info["rounding"] * np.linalg.norm(exact)
    assert info["rounding"] <= TOLERANCE


def test_refinement_takes_the_rounding_of_products_away(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(200, (300, 200), seed=4)
    exact, near, _ = in_both(SR(diag_shift=1e-2), problem)
    monkeypatch.setattr(rounded, "RESIDUAL", 1.0)
    monkeypatch.setattr(sr, "TOLERANCE", np.inf)
    _, rough, _ = in_both(SR(diag_shift=1e-2), replace(problem))
    assert np.linalg.norm(near - exact) < 0.5 * np.linalg.norm(rough - exact)


def test_no_bit_depends_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tnvmc.jacobian.pieces._THREADED_ENTRIES", 0)
    problem = random_problem(300, (40, 60, 50), seed=2)
    single = replace(problem, jacobian=problem.jacobian.in_single())
    found = []
    for threads in (1, 3):
        with using_threads(threads):
            found.append(SR().direction(*single.arguments, {}, KEY)[0])
    np.testing.assert_array_equal(*found)


def test_equal_energies_give_no_direction() -> None:
    problem = replace(random_problem(40, (15, 20, 25)), energy=np.full(40, 2.0))
    exact, near, info = in_both(SR(), problem)
    assert not exact.any() and not near.any() and info["rounding"] == 0


def test_a_rule_takes_single_where_it_is_many_and_the_shift_is_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theta = np.zeros(200_000)
    for rule in (SR(), Paced(SR())):
        state: Any = rule.init(theta)
        assert rule.takes_single(theta, 4096, state)
        assert not rule.takes_single(theta, 1024, state)
        assert not rule.takes_single(theta, 4096, rule.in_double(state))
        assert rule.in_double(state).keys() == state.keys()
    for rule in (SR(1e-5), SR(0.0), SR(precision="double"), SR(solver=Eigen())):
        assert not rule.takes_single(theta, 4096, rule.init(theta))
    asked = SR(precision="single")
    assert asked.takes_single(theta, 64, asked.init(theta))
    for few in (np.zeros(1000), theta.astype(np.float32)):
        assert "single" not in asked.init(few) and not asked.takes_single(few, 10**6, {})


def test_what_is_likely_is_found() -> None:
    problem = random_problem(100, (200, 200), seed=7)
    least = next(shift for shift in np.logspace(-9, -1, 17) if likely(shift, 100))
    assert least < 1e-4  # not only where every shift would do
    _, _, info = in_both(SR(diag_shift=least), problem)
    assert info["rounding"] <= TOLERANCE


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ValueError, match="precision"):
        SR(precision="half")  # type: ignore[arg-type]


def test_the_state_keeps_what_was_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sr, "LEAST_PARAMETERS", 0)
    problem, rule = random_problem(10, (4, 5)), SR()
    for state in (rule.init(problem.theta), rule.in_double(rule.init(problem.theta))):
        after = rule.direction(*problem.arguments, state, KEY)[1]
        assert after == state
