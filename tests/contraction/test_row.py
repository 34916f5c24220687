"""Transfers, closures and environment tensors against einsum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnvmc.backend.namespace import to_host
from tnvmc.contraction.row import Environment, Strip, closure, split_scale, transfer
from tnvmc.contraction.tensors import BoundaryMPS

ROUNDING = 1e-12  # products of a few dozen terms of order 1


def _normal(rng: np.random.Generator, shape: tuple[int, ...], is_complex: bool) -> np.ndarray:
    return rng.normal(size=shape) + (1j * rng.normal(size=shape) if is_complex else 0)


@given(
    sizes=st.lists(st.integers(1, 3), min_size=9, max_size=9),
    edges=st.tuples(st.booleans(), st.booleans()),
    is_complex=st.booleans(),
)
def test_transfer_is_the_contraction_of_a_column(
    sizes: list[int], edges: tuple[bool, bool], is_complex: bool
) -> None:
    rng = np.random.default_rng(sum(sizes))
    t, u, top, l1, m, r1, l2, r2, n = sizes
    b, bottom = 2, 3
    if edges[0]:
        t = u = top = 1
    if edges[1]:
        b = bottom = n = 1
    env = _normal(rng, (2, t, l1, l2, b), is_complex)
    above = _normal(rng, (2, top, u, t), is_complex)
    upper = _normal(rng, (2, r1, m, u, l1), is_complex)
    lower = _normal(rng, (2, r2, n, m, l2), is_complex)
    below = _normal(rng, (2, n, b, bottom), is_complex)
    if edges[0]:
        above[...] = 1
    if edges[1]:
        below[...] = 1
    expected = np.einsum("zabce,zuva,zxmvb,zynmc,znef->zuxyf", env, above, upper, lower, below)
    found = transfer(env, None if edges[0] else above, [upper, lower], None if edges[1] else below)
    assert np.allclose(found, expected, atol=ROUNDING * max(1, np.max(np.abs(expected))))


def test_a_bottom_shared_by_all_walkers_is_broadcast(xp: Any) -> None:
    rng = np.random.default_rng(0)
    env, site = rng.normal(size=(5, 1, 2, 3)), rng.normal(size=(5, 4, 2, 1, 2))
    shared = rng.normal(size=(1, 2, 3, 6))
    one = transfer(*map(xp.asarray, (env,)), None, [xp.asarray(site)], xp.asarray(shared))
    many = transfer(env, None, [site], np.repeat(shared, 5, axis=0))
    assert np.allclose(to_host(one), many, atol=ROUNDING)


@pytest.mark.parametrize("is_complex", [False, True])
def test_closures_agree_at_every_column_and_environments_give_them(is_complex: bool) -> None:
    rng = np.random.default_rng(3)
    n_cols, bonds, chi = 6, [1, 2, 3, 2, 3, 2, 1], [1, 2, 4, 3, 4, 2, 1]
    walkers = 3

    def boundary() -> BoundaryMPS:
        tensors = [
            _normal(rng, (walkers, 2, chi[c], chi[c + 1]), is_complex) for c in range(n_cols)
        ]
        return BoundaryMPS(tensors, rng.normal(size=walkers))

    leftward = [
        _normal(rng, (walkers, bonds[c], 2, 2, bonds[c + 1]), is_complex) for c in range(n_cols)
    ]
    rightward = [np.moveaxis(site, (1, 4), (4, 1)) for site in leftward]
    strip = Strip(boundary(), [leftward], boundary())
    right = strip.right_environments()
    left = strip.edge()
    phase, log_abs = closure(left, right[0])
    for column in range(n_cols):
        found = closure(left, right[column])
        assert np.allclose(found[0], phase, atol=1e-10)
        assert np.allclose(found[1], log_abs, atol=1e-10)
        environment = strip.site_environment(left, right[column + 1], column)
        site = np.transpose(rightward[column], (0, 3, 4, 2, 1))
        value = np.sum(environment * site, axis=(1, 2, 3, 4))
        scale = left.log_scale + right[column + 1].log_scale
        assert np.allclose(value * np.exp(scale), phase * np.exp(log_abs), rtol=1e-10)
        left = strip.advance(left, column, [rightward[column]])


def test_selected_walkers_advance_like_all() -> None:
    rng = np.random.default_rng(4)
    tensors = [rng.normal(size=(4, 2, 1, 3)), rng.normal(size=(4, 2, 3, 1))]
    boundary = BoundaryMPS(tensors, np.zeros(4))
    sites = [rng.normal(size=(4, 1, 2, 2, 2)), rng.normal(size=(4, 2, 2, 2, 1))]
    strip = Strip(boundary, [sites], boundary)
    chosen = np.array([3, 1])
    right_site = np.moveaxis(sites[0], (1, 4), (4, 1))
    everyone = strip.advance(strip.edge(), 0, [right_site])
    some = strip.advance(strip.edge().take(chosen), 0, [right_site[chosen]], chosen)
    assert np.array_equal(some.tensor, everyone.tensor[chosen])


def test_a_vanishing_closure_has_no_phase_and_warns_of_nothing() -> None:
    zero = Environment(np.zeros((1, 2, 1)), np.zeros(1))
    phase, log_abs = closure(zero, zero)
    assert phase[0] == 0 and log_abs[0] == -np.inf
    phase, log_abs = split_scale(np.array([0.0, np.nan]), np.zeros(2))
    assert np.array_equal(phase, [0, np.nan], equal_nan=True)
    assert np.array_equal(log_abs, [-np.inf, np.nan], equal_nan=True)
    phase, log_abs = split_scale(np.array([-2.0]), np.array([700.0]))
    assert phase[0] == -1 and np.isclose(log_abs[0], 700 + np.log(2))
