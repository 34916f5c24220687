"""Stochastic reconfiguration against dense formulas, and without noise downhill."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.optimize.problems import Problem, log_linear, random_problem
from tnvmc.backend.namespace import to_host
from tnvmc.jacobian.dense import DenseJacobian
from tnvmc.jacobian.repeated import RepeatedJacobian
from tnvmc.jacobian.slices import SliceJacobian
from tnvmc.optimize.rule import NonFiniteError
from tnvmc.optimize.solve import Eigen
from tnvmc.optimize.sr import SR

KINDS = [("real", "real"), ("real", "complex"), ("complex", "complex"), ("complex", "real")]


def direction(rule: SR, problem: Problem) -> tuple[np.ndarray, Any]:
    found, _, info = rule.direction(*problem.arguments, rule.init(problem.theta))
    return found, info


def dense_spring(
    a: np.ndarray, e: np.ndarray, diag_shift: float, momentum: float, previous: np.ndarray
) -> np.ndarray:
    """argmin |A d - e|^2 + shift |d - momentum previous|^2, as one tall least-squares problem."""
    shift = diag_shift * np.linalg.norm(a) ** 2 / min(a.shape)
    tall = np.concatenate([a, np.sqrt(shift) * np.eye(a.shape[1])])
    rhs = np.concatenate([e, np.sqrt(shift) * momentum * previous])
    return np.linalg.lstsq(tall, rhs, rcond=None)[0]


@pytest.mark.parametrize(("theta", "psi"), KINDS)
@pytest.mark.parametrize("slices", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("n_samples", [6, 40])
def test_equals_minsr_and_the_dense_formula(
    theta: str, psi: str, slices: bool, weighted: bool, n_samples: int
) -> None:
    problem = random_problem(n_samples, (3, 2, 4), theta, psi, slices, weighted)
    a, e = problem.least_squares()
    expected = dense_spring(a, e, 1e-3, 0.0, np.zeros(a.shape[1]))
    found = {
        space: direction(SR(diag_shift=1e-3, space=space), problem)  # type: ignore[arg-type]
        for space in ("parameters", "samples", "auto")
    }
    scale = np.abs(expected).max()
    for name, (vector, info) in found.items():
        assert vector.dtype == problem.theta.dtype
        assert np.abs(vector - expected).max() < 1e-8 * scale, name
        assert info["method"] == "cholesky"
    rows = 2 * n_samples if (theta, psi) == ("real", "complex") else n_samples
    assert found["auto"][1]["space"] == ("parameters" if problem.theta.size <= rows else "samples")
    assert found["samples"][1]["shift"] == pytest.approx(found["parameters"][1]["shift"])
    info = found["auto"][1]
    assert info["metric_norm"] == pytest.approx(np.linalg.norm(a @ expected))
    assert info["slope"] == pytest.approx((e.conj() @ a @ expected).real)


@settings(max_examples=40, deadline=None)
@given(
    n_samples=st.integers(2, 30),
    widths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    kind=st.sampled_from(KINDS),
    diag_shift=st.floats(1e-4, 10.0),
    momentum=st.sampled_from([0.0, 0.5, 0.99]),
    seed=st.integers(0, 2**16),
)
def test_both_spaces_agree(
    n_samples: int,
    widths: list[int],
    kind: tuple[str, str],
    diag_shift: float,
    momentum: float,
    seed: int,
) -> None:
    problem = random_problem(n_samples, tuple(widths), *kind, seed=seed)
    previous = np.random.default_rng(seed).normal(size=problem.theta.shape)
    previous = previous.astype(problem.theta.dtype)
    found = [
        SR(diag_shift, momentum, space=space).direction(  # type: ignore[arg-type]
            *problem.arguments, {"previous": previous}
        )[0]
        for space in ("parameters", "samples")
    ]
    scale = max(1.0, np.abs(found[0]).max())
    assert np.abs(found[0] - found[1]).max() < 1e-8 * scale


@pytest.mark.parametrize("space", ["parameters", "samples"])
def test_pseudo_inverse_is_the_same_in_both_spaces(space: Any) -> None:
    problem = random_problem(9, (3, 2, 4), "complex", "complex")
    a, e = problem.least_squares()
    found, info = direction(SR(diag_shift=0.0, solver=Eigen(1e-10), space=space), problem)
    np.testing.assert_allclose(found, np.linalg.lstsq(a, e, rcond=None)[0], atol=1e-9)
    assert info["rank"] == 8  # centring takes one of nine


@pytest.mark.parametrize(("theta", "psi"), KINDS)
@pytest.mark.parametrize("space", ["parameters", "samples"])
def test_spring(theta: str, psi: str, space: Any) -> None:
    rule = SR(diag_shift=1e-2, momentum=0.9, space=space)
    problem = random_problem(8, (3, 2, 4), theta, psi)
    state = rule.init(problem.theta)
    previous = np.zeros_like(problem.theta)
    for seed in range(4):
        drawn = random_problem(8, (3, 2, 4), theta, psi, seed=seed)
        found, state, _ = rule.direction(*drawn.arguments, state)
        expected = dense_spring(*drawn.least_squares(), 1e-2, 0.9, previous)
        np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())
        np.testing.assert_array_equal(state["previous"], found)
        previous = found


@pytest.mark.parametrize("psi", ["real", "complex"])
def test_equal_samples_are_one_row_with_their_weight(psi: str) -> None:
    problem = random_problem(5, (3, 4), psi=psi)
    which = np.array([0, 3, 3, 1, 4, 2, 0, 3])
    of_all = DenseJacobian(problem.dense[which])
    once = RepeatedJacobian(problem.jacobian, which)
    rng = np.random.default_rng(1)
    v, u = rng.normal(size=problem.dense.shape[1]), rng.normal(size=8)
    assert once.shape == of_all.shape
    for found, expected in (
        (once.apply(v), of_all.apply(v)),
        (once.adjoint(u), of_all.adjoint(u)),
        (once.gram(), of_all.gram()),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-13)
    energies, rule = problem.energy[which], SR(0.0, solver=Eigen(1e-10))
    for weight in (None, np.arange(1.0, 6.0)[which]):
        found, expected = (
            rule.direction(problem.theta, each, energies, weight, rule.init(problem.theta))[0]
            for each in (once, of_all)
        )
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


def test_spring_without_momentum_is_sr() -> None:
    problem = random_problem(8, (3, 2))
    plain, _ = direction(SR(momentum=0.0), problem)
    first, _ = direction(SR(momentum=0.9), problem)
    np.testing.assert_allclose(first, plain, rtol=1e-12)


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_full_vector_moves_in_imaginary_time(kind: str) -> None:
    """psi_s = theta_s: SR without shift is d = (H - E) psi, up to a change of the norm."""
    model = log_linear(kind)
    rng = np.random.default_rng(1)
    psi = rng.normal(size=7) + (1j * rng.normal(size=7) if kind == "complex" else 0)
    local = model.hamiltonian @ psi / psi
    weight = np.abs(psi) ** 2 / np.linalg.norm(psi) ** 2
    rule = SR(diag_shift=0.0, solver=Eigen(1e-12))
    arguments = (psi, DenseJacobian(np.diag(1 / psi)), local, weight, {})
    found = rule.direction(*arguments)[0]
    energy = weight @ local.real
    expected = model.hamiltonian @ psi - energy * psi
    along = (psi.conj() @ (found - expected)) / np.linalg.norm(psi) ** 2
    np.testing.assert_allclose(found, expected + along * psi, atol=1e-9)


@pytest.mark.whole
@pytest.mark.parametrize(("theta", "psi"), KINDS)
@pytest.mark.parametrize("space", ["parameters", "samples"])
def test_descends_to_the_ground_state(theta: str, psi: str, space: Any) -> None:
    model = log_linear(psi, n_params=14)
    values, vectors = np.linalg.eigh(model.hamiltonian)
    rule = SR(diag_shift=1e-4, space=space)
    ground = np.abs(vectors[:, 0]) if psi == "real" else vectors[:, 0]
    parameters = model.parameters_near(ground, 0.2, theta)
    energies = []
    for _ in range(200):
        jacobian, local, weight = model.snapshot(parameters)
        d, _, info = rule.direction(parameters, jacobian, local, weight, {})
        energies.append(model.energy(parameters))
        assert info["slope"] >= 0
        parameters = parameters - 0.02 * d
    assert min(energies) >= values[0] - 1e-10
    assert np.diff(energies).max() < 1e-10, "without noise the energy never rises"
    assert energies[-1] - values[0] < 1e-5 * (energies[0] - values[0])


def test_slope_is_half_of_the_fall_of_the_energy() -> None:
    for theta, psi in (("real", "complex"), ("complex", "complex")):
        model = log_linear(psi)
        rng = np.random.default_rng(2)
        parameters = 0.2 * rng.normal(size=9)
        if theta == "complex":
            parameters = parameters + 0.2j * rng.normal(size=9)
        jacobian, local, weight = model.snapshot(parameters)
        d, _, info = SR().direction(parameters, jacobian, local, weight, {})
        h = 1e-6 / np.linalg.norm(d)
        fall = model.energy(parameters + h * d) - model.energy(parameters - h * d)
        assert fall / (2 * h) == pytest.approx(2 * info["slope"], rel=1e-6)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_state_is_all_that_is_carried(momentum: float) -> None:
    """A rule made anew goes on bit for bit from a copied state, and changes no argument."""
    rule = SR(momentum=momentum)
    problems = [random_problem(8, (3, 2), seed=seed) for seed in range(6)]
    state = rule.init(problems[0].theta)
    trail = []
    for problem in problems:
        before = {k: np.copy(v) for k, v in state.items()}
        d, following, _ = rule.direction(*problem.arguments, state)
        assert all(np.array_equal(before[k], state[k]) for k in state)
        state = following
        trail.append((d, {k: np.copy(v) for k, v in state.items()}))
    state = trail[2][1]
    for problem, (expected, _) in zip(problems[3:], trail[3:], strict=True):
        d, state, _ = SR(momentum=momentum).direction(*problem.arguments, state)
        np.testing.assert_array_equal(d, expected)


def test_nothing_to_gain() -> None:
    """Equal local energies (an eigenstate), or a psi that no parameter changes: no step."""
    problem = random_problem(12, (3, 2))
    flat = np.full(12, -1.25)
    for space in ("parameters", "samples"):
        rule = SR(space=space)  # type: ignore[arg-type]
        d, _, _ = rule.direction(problem.theta, problem.jacobian, flat, None, {})
        np.testing.assert_array_equal(d, 0)
        still = DenseJacobian(np.ones((12, 10)))
        d, _, _ = rule.direction(problem.theta, still, problem.energy, None, {})
        assert np.abs(d).max() < 1e-6


def test_single_precision() -> None:
    problem = random_problem(30, (3, 2, 4))
    slices = [x.astype(np.float32) for x in problem.jacobian.slices]
    single = SliceJacobian(slices, problem.jacobian.spins)
    theta, energy = problem.theta.astype(np.float32), problem.energy.astype(np.float32)
    expected, _ = direction(SR(), problem)
    for space in ("parameters", "samples"):
        rule = SR(space=space)  # type: ignore[arg-type]
        d, _, _ = rule.direction(theta, single, energy, None, {})
        assert d.dtype == np.float32
        np.testing.assert_allclose(d, expected, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize(("theta", "psi"), KINDS)
@pytest.mark.parametrize("space", ["parameters", "samples"])
def test_strict_namespace(theta: str, psi: str, space: Any) -> None:
    problem = random_problem(11, (3, 2), theta, psi, weighted=True)
    jacobian = SliceJacobian(
        [strict.asarray(x) for x in problem.jacobian.slices], strict.asarray(problem.jacobian.spins)
    )
    rule = SR(momentum=0.5, space=space)
    arguments = [strict.asarray(x) for x in (problem.theta, problem.energy, problem.weight)]
    moved = rule.direction(
        arguments[0], jacobian, arguments[1], arguments[2], rule.init(arguments[0])
    )[0]
    expected, _ = direction(rule, problem)
    np.testing.assert_allclose(to_host(moved), expected, atol=1e-10)


def poisoned(problem: Problem, where: str, value: float) -> tuple[Any, ...]:
    theta, jacobian, energy, weight = (np.copy(problem.theta), problem.jacobian,
                                       np.copy(problem.energy), np.full(20, 0.05))  # fmt: skip
    if where == "theta":
        theta[[1, 3]] = value
    elif where == "energy":
        energy[[1, 3]] = value
    elif where == "weight":
        weight[[1, 3]] = value
    else:
        slices = [np.copy(x) for x in jacobian.slices]
        slices[0][1, 0] = slices[1][3, 1] = slices[0][3, 0] = value
        jacobian = SliceJacobian(slices, jacobian.spins)
    return theta, jacobian, energy, weight


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("theta", "theta: 2 of 10 are not finite"),
        ("energy", "local energies of the samples: 2 of 20 are not finite"),
        ("weight", "weights of the samples: 2 of 20 are not finite"),
        ("jacobian", "log-derivatives: 2 of 20 samples"),
    ],
)
def test_non_finite_input(where: str, message: str, value: float) -> None:
    arguments = poisoned(random_problem(20, (3, 2)), where, value)
    with pytest.raises(NonFiniteError, match=message):
        SR().direction(*arguments, {})


@pytest.mark.parametrize("space", ["parameters", "samples"])
def test_overflow_is_found(space: Any) -> None:
    problem = random_problem(20, (3, 2))
    large = SliceJacobian([1e200 * x for x in problem.jacobian.slices], problem.jacobian.spins)
    with pytest.raises(NonFiniteError, match="log-derivatives are too large"):
        SR(space=space).direction(problem.theta, large, problem.energy, None, {})


def test_letters() -> None:
    for name, value in (("diag_shift", -1), ("momentum", 1.0), ("space", "dual")):
        with pytest.raises(ValueError, match=f"SR: {name} "):
            SR(**{name: value})  # type: ignore[arg-type]
    problem = random_problem(8, (3, 2))
    with pytest.raises(ValueError, match=r"local_energy has shape \(7,\).*8 samples of 10"):
        SR().direction(problem.theta, problem.jacobian, problem.energy[:7], None, {})
