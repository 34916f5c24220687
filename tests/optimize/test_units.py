"""Directions of states side by side do not depend on the size of the log-derivatives of either."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

from tnvmc.backend.namespace import to_host
from tnvmc.jacobian.centered import CenteredJacobian, in_own_units
from tnvmc.jacobian.dense import DenseJacobian
from tnvmc.jacobian.hstack import HStackJacobian
from tnvmc.optimize.sr import SR

ROUNDING = 1e-9  # of directions of well conditioned systems
SINGLE = 1e-4  # the average of S is kept in single precision
M = 12
SIZES = (4, 5)
SCALE = 1e-3


def rows(dtype: str, xp: Any = np, scale: float = 1.0) -> HStackJacobian:
    rng = np.random.default_rng(3)
    first, second = (rng.normal(size=(2, M, n)) for n in SIZES)
    parts = [
        part[0] + 1j * part[1] if dtype == "complex128" else part[0] for part in (first, second)
    ]
    parts[1] = scale * parts[1]
    return HStackJacobian(tuple(DenseJacobian(xp.asarray(part)) for part in parts))


def direction(rule: SR, jacobian: HStackJacobian, dtype: str, xp: Any = np) -> np.ndarray:
    energies = xp.asarray(np.random.default_rng(4).normal(size=M))
    theta = xp.zeros(sum(SIZES), dtype=getattr(xp, dtype))
    state = rule.init(theta)
    for _ in range(2):  # the second step has a memory, or a momentum
        found, state, _ = rule.direction(theta, jacobian, energies, None, state)
    return to_host(found)


RULES = {
    "samples": (SR(0.1, space="samples"), ROUNDING),
    "parameters": (SR(0.1, space="parameters"), ROUNDING),
    "momentum": (SR(0.1, momentum=0.5), ROUNDING),
    "memory": (SR(0.1, memory=0.9), SINGLE),
}


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", RULES)
def test_a_small_part_learns_as_a_large_one(name: str, dtype: str) -> None:
    """ln psi changes by O d, which is the same whatever the unit of a parameter."""
    rule, tolerance = RULES[name]
    plain, small = rows(dtype), rows(dtype, scale=SCALE)
    one, other = direction(rule, plain, dtype), direction(rule, small, dtype)
    scales = np.repeat([1.0, SCALE], SIZES)
    assert np.abs(other * scales - one).max() < tolerance * np.abs(one).max()


@pytest.mark.parametrize("name", RULES)
def test_strict_arrays_agree(name: str) -> None:
    rule, tolerance = RULES[name]
    found = direction(rule, rows("float64", strict, SCALE), "float64", strict)
    expected = direction(rule, rows("float64", scale=SCALE), "float64")
    assert np.abs(found - expected).max() < tolerance * np.abs(expected).max()


def test_mean_diagonals_are_equal_and_the_trace_stays() -> None:
    a = CenteredJacobian(rows("float64", scale=SCALE), np.full(M, 1 / M))
    scaled, units = in_own_units(a)
    assert units is not None
    before, after = a.covariance(), scaled.covariance()
    np.testing.assert_allclose(after, units[:, None] * before * units, rtol=ROUNDING)
    np.testing.assert_allclose(scaled.gram().trace(), after.trace(), rtol=ROUNDING)
    assert scaled.trace() == pytest.approx(before.trace())
    parts = np.split(np.diagonal(after), [SIZES[0]])
    assert parts[0].mean() == pytest.approx(parts[1].mean())


def test_products_with_units() -> None:
    jacobian = in_own_units(CenteredJacobian(rows("float64", scale=SCALE), np.full(M, 1 / M)))[
        0
    ].jacobian
    assert isinstance(jacobian, HStackJacobian)
    dense, rng = jacobian.dense(), np.random.default_rng(5)
    v, u = rng.normal(size=sum(SIZES)), rng.normal(size=M)
    np.testing.assert_allclose(jacobian.apply(v), dense @ v, rtol=ROUNDING)
    np.testing.assert_allclose(jacobian.adjoint(u), dense.T @ u, rtol=ROUNDING)
    np.testing.assert_allclose(jacobian.gram(), dense @ dense.T, atol=ROUNDING)
    np.testing.assert_allclose(jacobian.squared_norms(), (dense**2).sum(axis=1), rtol=ROUNDING)
    np.testing.assert_allclose(jacobian.rows(2, 5).dense(), dense[2:5], rtol=ROUNDING)


def test_a_constant_part_stays() -> None:
    found = direction(SR(0.1), rows("float64", scale=0.0), "float64")
    assert np.isfinite(found).all() and not found[SIZES[0] :].any() and found[: SIZES[0]].all()


def test_other_jacobians_have_no_units() -> None:
    a = CenteredJacobian(DenseJacobian(np.eye(M)), np.full(M, 1 / M))
    assert in_own_units(a) == (a, None)
