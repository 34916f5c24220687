"""Conjugate gradients against dense solutions, and SR by them against SR by Cholesky."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

from tests.optimize.problems import random_numbers, random_problem
from tnvmc.jacobian.centered import CenteredJacobian
from tnvmc.optimize import sr
from tnvmc.optimize.conjugate_gradients import ConjugateGradients
from tnvmc.optimize.rule import NonFiniteError
from tnvmc.optimize.sr import SR

KINDS = [("real", "real"), ("real", "complex"), ("complex", "complex")]
TIGHT = ConjugateGradients(1e-12)


def positive_matrix(n: int, complex_: bool) -> np.ndarray:
    factor = random_numbers(np.random.default_rng(n), (n, n), complex_)
    return factor @ factor.conj().T


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("xp", [np, strict])
def test_equals_the_dense_solution(complex_: bool, xp: Any) -> None:
    matrix = positive_matrix(12, complex_)
    rhs = random_numbers(np.random.default_rng(0), 12, complex_)
    x, info = TIGHT(xp.asarray(matrix), xp.asarray(rhs), 0.5)
    exact = np.linalg.solve(matrix + 0.5 * np.eye(12), rhs)
    # |x - exact| <= residual / smallest eigenvalue <= 1e-12 |b| / shift, and rounding
    np.testing.assert_allclose(np.asarray(x), exact, atol=1e-10 * np.abs(exact).max())
    assert info.residual is not None and info.residual <= TIGHT.tolerance


def test_ends_at_its_tolerance_and_tells_the_true_residual() -> None:
    matrix, rhs = positive_matrix(60, False), np.random.default_rng(1).normal(size=60)
    for tolerance in (1e-1, 1e-3, 1e-6):
        x, info = ConjugateGradients(tolerance)(matrix, rhs, 0.1)
        residual = np.linalg.norm(rhs - matrix @ x - 0.1 * x) / np.linalg.norm(rhs)
        assert info.residual == pytest.approx(residual, rel=1e-3)
        assert residual <= tolerance


def test_ends_after_most_iterations_and_says_how_far_it_came() -> None:
    matrix, rhs = positive_matrix(60, False), np.random.default_rng(1).normal(size=60)
    _, info = ConjugateGradients(1e-12, most=5)(matrix, rhs, 1e-3)
    assert info.iterations == 5
    assert info.residual is not None and info.residual > 1e-12


def test_nothing_to_solve() -> None:
    x, info = ConjugateGradients()(np.eye(3), np.zeros(3), 0.1)
    assert not x.any()
    assert (info.iterations, info.residual) == (0, 0.0)


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -1.0, float("nan")])
def test_tolerance_lies_between_0_and_1(tolerance: float) -> None:
    with pytest.raises(ValueError, match="tolerance"):
        ConjugateGradients(tolerance)


@pytest.mark.parametrize(("theta", "psi"), KINDS)
@pytest.mark.parametrize("slices", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("space", ["parameters", "samples"])
@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_sr_equals_that_by_cholesky(
    theta: str, psi: str, slices: bool, weighted: bool, space: Any, momentum: float
) -> None:
    problem = random_problem(9, (3, 2, 4), theta, psi, slices, weighted)
    previous = {"previous": problem.theta} if momentum else {}
    expected, _, by_matrix = SR(1e-2, momentum, space=space).direction(*problem.arguments, previous)
    rule = SR(1e-2, momentum, space=space, solver=TIGHT)
    found, _, info = rule.direction(*problem.arguments, previous)
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    assert info["shift"] == pytest.approx(by_matrix["shift"])
    assert info["iterations"] > 0
    assert info["residual"] <= TIGHT.tolerance
    assert "residual" not in by_matrix


@pytest.mark.parametrize("slices", [True, False])
@pytest.mark.parametrize("parts", [1, 2])
def test_trace_without_a_matrix(slices: bool, parts: int) -> None:
    problem = random_problem(8, (3, 2), psi="complex", slices=slices, weighted=True)
    weight = problem.weight[: 8 // parts]
    a = CenteredJacobian(problem.jacobian, weight / weight.sum(), parts)
    assert a.trace() == pytest.approx(float(np.trace(a.gram()).real))


def test_is_taken_where_a_matrix_would_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(9, (6, 2, 4))
    monkeypatch.setattr(sr, "LARGEST_MATRIX", 8)
    info = SR(1e-2).direction(*problem.arguments, {})[2]
    assert info["method"] == "conjugate gradients"
    monkeypatch.setattr(sr, "LARGEST_MATRIX", 9)
    info = SR(1e-2).direction(*problem.arguments, {})[2]
    assert info["method"] == "cholesky"


def test_is_taken_for_many_samples_of_slices_and_a_large_shift(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sr, "APPLIED_FROM", 9)
    methods = []
    for slices, shift in ((True, 1e-2), (True, 1e-3), (False, 1e-2)):
        problem = random_problem(9, (6, 2, 4), slices=slices)
        methods.append(SR(shift).direction(*problem.arguments, {})[2]["method"])
    assert methods == ["conjugate gradients", "cholesky", "cholesky"]


def test_forms_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(9, (6, 2, 4))
    for name in ("gram", "covariance"):
        monkeypatch.delattr(CenteredJacobian, name)
    rule = SR(1e-2, memory=0.9, solver=TIGHT)
    assert rule.init(problem.theta) == {}
    rule.direction(*problem.arguments, {})


@pytest.mark.parametrize("size", [1e-170, 1e160])
def test_scale_of_the_right_hand_side_does_not_matter(size: float) -> None:
    matrix, rhs = positive_matrix(12, False), np.random.default_rng(0).normal(size=12)
    x, info = TIGHT(matrix, size * rhs, 0.5)
    np.testing.assert_allclose(x / size, TIGHT(matrix, rhs, 0.5)[0], rtol=1e-9)
    assert info.residual is not None and info.residual <= TIGHT.tolerance


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(NonFiniteError):
        TIGHT(np.eye(3), np.array([1.0, bad, 0.0]), 0.1)


def test_a_singular_matrix_leaves_the_best_solution_and_says_so() -> None:
    x, info = ConjugateGradients()(np.diag([1.0, 0.0, 0.0]), np.ones(3), 0.0)
    assert info.residual is not None
    assert info.residual == pytest.approx(np.linalg.norm(np.ones(3) - x * [1, 0, 0]) / np.sqrt(3))
    assert ConjugateGradients().tolerance < info.residual <= 1.0
    told = {"iterations": info.iterations, "residual": info.residual}
    assert SR(solver=ConjugateGradients()).unsolved(told) == info.residual
    assert SR(solver=ConjugateGradients()).unsolved({"residual": 1e-4}) is None
    assert SR().unsolved({}) is None
