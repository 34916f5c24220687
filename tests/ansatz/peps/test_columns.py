"""A PEPS by fixed projectors is one function of s: ratios, sweeps and energies agree with its amplitudes."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracles
from tests.random_states import random_configs, random_theta, walked
from tnvmc import (
    PEPS,
    VMC,
    Enumerate,
    Exact,
    Fixed,
    chain,
    exact_ground_state,
    heisenberg,
    j1j2,
    kagome,
    square,
)
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.finite_differences import central_differences
from tnvmc.ansatz.peps import halves as halves_module
from tnvmc.ansatz.peps.column_walks import log_derivatives
from tnvmc.ansatz.peps.columns import Columns
from tnvmc.ansatz.peps.halves import Half, Halves
from tnvmc.backend.random import uniforms
from tnvmc.estimate.diagnostic import UnreliableWarning
from tnvmc.jacobian.slices import SliceJacobian
from tnvmc.sampling.moves import moves_for

ROUNDING = 1e-9  # of ratios of amplitudes that nearly cancel
UNCUT = 10**4


def _all_configs(n_sites: int) -> np.ndarray:
    return np.array(list(itertools.product((0, 1), repeat=n_sites)), dtype=np.int8)


@pytest.mark.whole
@settings(max_examples=25)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    D=st.integers(1, 3),
    dtype=st.sampled_from(["float64", "complex128"]),
)
def test_uncut_it_is_the_peps(shape: tuple[int, int], D: int, dtype: str) -> None:
    peps = PEPS(square(*shape), D, dtype, Fixed(UNCUT, n_drawn=1))
    theta, configs = random_theta(peps, mean=1), random_configs(4, shape[0] * shape[1])
    found = peps.log_amplitude(theta, configs)
    expected = oracles.dense_state(peps.tensors(theta), shape, configs)
    assert np.allclose(found.phase * np.exp(found.log_abs), expected, rtol=1e-9, atol=0)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((3, 3), "complex128"),
        ((1, 5), "float64"),
        ((5, 1), "complex128"),
        ((2, 3), "float64"),
        ((3, 2), "float64"),
    ],
)
def test_uncut_it_passes_the_conformance_suite(shape: tuple[int, int], dtype: str) -> None:
    peps = PEPS(square(*shape), 2, dtype, Fixed(UNCUT, n_drawn=1))
    check_ansatz(peps, random_theta(peps, mean=1))


@pytest.mark.whole
@pytest.mark.parametrize(("shape", "dtype"), [((3, 3), "float64"), ((2, 3), "complex128")])
def test_uncut_rings_pass_the_conformance_suite(shape: tuple[int, int], dtype: str) -> None:
    peps = PEPS(square(*shape, "cylinder"), 2, dtype, Fixed(UNCUT, n_drawn=1), bonds="periodic")
    check_ansatz(peps, random_theta(peps, mean=1))


@pytest.mark.whole
def test_uncut_vacant_places_pass_the_conformance_suite() -> None:
    peps = PEPS(kagome(3, 3), 2, "float64", Fixed(UNCUT, n_drawn=1))
    check_ansatz(peps, random_theta(peps, mean=1))


CUT: dict[str, tuple[tuple[int, int], int, str, int]] = {
    "D = 2 cut to 1": ((4, 3), 2, "float64", 1),
    "D = 2 cut to 2": ((3, 4), 2, "complex128", 2),
    "D = 3 cut to 3": ((4, 3), 3, "float64", 3),
    "D = 2 cut to 3, five rows": ((5, 3), 2, "complex128", 3),
}


@pytest.mark.parametrize("case", CUT)
def test_cut_hard_every_ratio_is_that_of_two_amplitudes(case: str) -> None:
    """Where boundaries that follow the spins disagree by as much as the truncation."""
    shape, D, dtype, chi = CUT[case]
    operator = j1j2(square(*shape), J2=0.4)
    peps = PEPS(operator.lattice, D, dtype, Fixed(chi, n_drawn=16))
    theta, configs = random_theta(peps, mean=1), random_configs(6, operator.lattice.n_sites)
    last = operator.lattice.n_sites - 1
    asked = {
        (0, 1): np.array([[3, 1], [2, 0], [1, 3], [0, 2]]),
        (1, shape[1] + 1): np.array([[-1], [2], [1], [-1]]),
        (0, last): np.array([[3, -1], [2, 0], [-1, 3], [0, 2]]),
    }
    _, snapshot = peps.measure(theta, peps.start(theta, configs), asked)
    present = peps.log_amplitude(theta, configs)
    for patch, table in asked.items():
        states = configs[:, patch[0]] * 2 + configs[:, patch[1]]
        for choice in range(table.shape[1]):
            target = table[states, choice]
            exists = target >= 0
            changed = configs.copy()
            changed[exists, patch[0]], changed[exists, patch[1]] = (
                target[exists] // 2,
                target[exists] % 2,
            )
            other = peps.log_amplitude(theta, changed)
            ratio = other.phase / present.phase * np.exp(other.log_abs - present.log_abs)
            expected = np.where(exists, ratio, 0)
            assert np.allclose(snapshot.ratios[patch][:, choice], expected, rtol=ROUNDING)


@pytest.mark.whole
@pytest.mark.parametrize("case", CUT)
def test_cut_hard_log_derivatives_are_those_at_fixed_projectors(case: str) -> None:
    shape, D, dtype, chi = CUT[case]
    scheme = Fixed(chi, n_drawn=16)
    peps = PEPS(square(*shape), D, dtype, scheme)
    theta, configs = random_theta(peps, mean=1), random_configs(4, shape[0] * shape[1])
    halves = Halves.build(peps.tensors(theta), shape, scheme)

    def at_fixed_projectors(theta: np.ndarray, configs: np.ndarray) -> Any:
        return Columns.at(_with_tensors(halves, peps.tensors(theta)), configs).amplitude()

    derivatives = log_derivatives(Columns.at(halves, configs))
    slices = [
        each.reshape(len(configs), -1) * np.exp(-log)
        for each, log in zip(derivatives, halves.log_scales, strict=True)
    ]
    found = SliceJacobian(slices, configs, 2).dense()
    expected = central_differences(at_fixed_projectors, theta, configs)
    assert np.allclose(found, expected, rtol=1e-6, atol=1e-7)  # of central differences


def _with_tensors(halves: Halves, tensors: list[np.ndarray]) -> Halves:
    """Other tensors between the same projectors."""

    def of_half(half: Any, axes: tuple[int, ...]) -> Any:
        rows = [
            [
                replace(site, table=tensors[row * halves.shape[1] + c].transpose(axes))
                for c, site in enumerate(sites)
            ]
            for row, sites in zip(half.rows, half.sites, strict=True)
        ]
        return Half.of(half.rows, rows)

    upper, lower = of_half(halves.upper, (0, 2, 1, 3, 4)), of_half(halves.lower, (0, 2, 3, 1, 4))
    return replace(halves, upper=upper, lower=lower, log_scales=[0.0] * len(tensors))


@pytest.mark.parametrize("case", CUT)
def test_a_sweep_leaves_what_start_makes(case: str) -> None:
    shape, D, dtype, chi = CUT[case]
    operator = heisenberg(square(*shape))
    peps = PEPS(operator.lattice, D, dtype, Fixed(chi, n_drawn=16))
    theta, configs = random_theta(peps, mean=1), random_configs(8, operator.lattice.n_sites)
    moves = moves_for(operator)
    u = uniforms(3, (0, 0), range(8), len(moves), np)
    before = peps.start(theta, configs)
    swept, info = peps.sweep(theta, before, moves, u)
    assert np.array_equal(before.configs, configs) and info.accepted.sum() > 0
    again = peps.start(theta, swept.configs)
    assert np.allclose(swept.amplitude.log_abs, again.amplitude.log_abs, atol=ROUNDING)
    for one, other in zip(swept.cache.columns, again.cache.columns, strict=True):
        assert all(np.allclose(*pair) for pair in zip(one.ends, other.ends, strict=True))


@pytest.mark.parametrize("most", [1, 2, 8])
@pytest.mark.parametrize("case", CUT)
def test_columns_that_are_not_known_beforehand_are_absorbed(
    case: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amplitudes, ratios and log-derivatives do not depend on how many rows are looked up."""
    shape, D, dtype, chi = CUT[case]
    operator = heisenberg(square(*shape))
    found = []
    for limit in (2**8, most):
        monkeypatch.setattr(halves_module, "MOST_SPINS", limit)
        peps = PEPS(operator.lattice, D, dtype, Fixed(chi, n_drawn=16))
        theta, configs = random_theta(peps, mean=1), random_configs(8, operator.lattice.n_sites)
        walkers = peps.start(theta, configs)
        known = [len(column) for half in walkers.cache.halves.halves for column in half.tables]
        assert (limit == 2**8) or max(known) <= np.log2(most)
        found.append(peps.measure(theta, walkers, operator.targets)[1])
    one, other = found
    assert np.allclose(one.amplitude.log_abs, other.amplitude.log_abs, atol=ROUNDING)
    for patch, ratios in one.ratios.items():
        assert np.allclose(ratios, other.ratios[patch], rtol=ROUNDING, atol=ROUNDING)
    assert np.allclose(one.jacobian.dense(), other.jacobian.dense(), rtol=ROUNDING, atol=ROUNDING)


@cache
def _dense(J2: float) -> np.ndarray:
    return oracles.dense_sector(j1j2(square(3, 4), J2=J2), 0)


@cache
def _start(J2: float) -> np.ndarray:
    operator = j1j2(square(3, 4), J2=J2)
    return PEPS(operator.lattice, 3).initial(operator)


@pytest.mark.whole
@pytest.mark.parametrize("J2", [0.0, 0.5])
@pytest.mark.parametrize("chi", [1, 2, 3])
def test_energies_are_those_of_one_function_and_not_below_the_ground_state(
    J2: float, chi: int
) -> None:
    operator = j1j2(square(3, 4), J2=J2)
    peps = PEPS(operator.lattice, 3, "float64", Fixed(chi))
    vmc = VMC(operator, peps, Enumerate(), theta=_start(J2))
    configs = oracles.all_configs(12, magnetisation=0)  # which are what is enumerated
    psi = peps.log_amplitude(vmc.theta, configs)
    vector = psi.phase * np.exp(psi.log_abs - psi.log_abs.max())
    expected = vector @ _dense(J2) @ vector / (vector @ vector)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UnreliableWarning
        )  # far above the ground state, as it should be
        energy = vmc.measure().energy
    assert energy == pytest.approx(expected, rel=1e-9)
    assert energy > exact_ground_state(operator).energy


@pytest.mark.whole
def test_the_error_falls_with_chi() -> None:
    operator = heisenberg(square(6, 6))
    peps = PEPS(operator.lattice, 3, "float64", Exact())
    theta, configs = (
        peps.initial(operator),
        np.array(
            [np.random.default_rng(k).permutation(np.arange(36) % 2) for k in range(32)],
            dtype=np.int8,
        ),
    )
    exact = peps.log_amplitude(theta, configs)

    def error(chi: int) -> float:
        found = peps.with_scheme(Fixed(chi)).log_amplitude(theta, configs)
        return float(np.median(np.abs(found.log_abs - exact.log_abs)))

    errors = [error(chi) for chi in (3, 9, 18)]
    assert errors[1] < 0.3 * errors[0] and errors[2] < 0.3 * errors[1], errors


@pytest.mark.parametrize("shape", [(10, 2), (2, 10)])
def test_a_long_strip_is_exact_whichever_way_it_lies(shape: tuple[int, int]) -> None:
    """Its short side decides what is cut; a high one was off by 1.7 in ln psi at chi = 16."""
    peps = PEPS(square(*shape), 2, "float64", Exact())
    theta, configs = random_theta(peps, mean=1), random_configs(6, 20)
    exact = peps.log_amplitude(theta, configs)
    found = peps.with_scheme(Fixed(2)).log_amplitude(theta, configs)
    assert np.allclose(found.log_abs, exact.log_abs, atol=ROUNDING)
    assert np.array_equal(found.phase, exact.phase)


def test_a_high_grid_is_cut_as_a_wide_one() -> None:
    """The same psi, ratios and log-derivatives as of the grid with rows and columns exchanged."""
    high, wide = square(4, 3), square(3, 4)
    operator = j1j2(high, J2=0.4)
    order = np.arange(12).reshape(3, 4).T.ravel()  # of the wide one's sites on the high one
    peps, other = (PEPS(lattice, 2, "float64", Fixed(2, n_drawn=16)) for lattice in (high, wide))
    theta, configs = random_theta(other, mean=1), random_configs(5, 12)
    tensors = [other.tensors(theta)[k].transpose(0, 2, 1, 4, 3) for k in order]
    seen = peps.start(peps.flatten(tensors), configs[:, order])
    expected = other.start(theta, configs)
    assert np.allclose(seen.amplitude.log_abs, expected.amplitude.log_abs, atol=ROUNDING)
    places = {patch: tuple(int(order[k]) for k in patch) for patch in operator.targets}
    asked = {places[patch]: table for patch, table in operator.targets.items()}
    _, one = peps.measure(peps.flatten(tensors), seen, operator.targets)
    _, two = other.measure(theta, expected, asked)
    for patch, ratios in one.ratios.items():
        assert np.allclose(ratios, two.ratios[places[patch]], rtol=ROUNDING, atol=ROUNDING)
    sizes = [tensor.size for tensor in other.tensors(theta)]
    cut = np.split(two.jacobian.dense(), np.cumsum(sizes)[:-1], axis=1)
    slices = [
        cut[k].reshape(5, *other.shapes[k]).transpose(0, 1, 3, 2, 5, 4).reshape(5, -1)
        for k in order
    ]
    assert np.allclose(one.jacobian.dense(), np.concatenate(slices, axis=1), atol=ROUNDING)


def test_projectors_are_the_same_for_the_same_theta() -> None:
    peps = PEPS(square(5, 3), 3, "float64", Fixed(3))
    theta, configs = random_theta(peps, mean=1), random_configs(5, 15)
    one, other = (
        PEPS(square(5, 3), 3, "float64", Fixed(3)).log_amplitude(theta, part)
        for part in (configs, configs[:2])
    )
    assert np.array_equal(one.log_abs[:2], other.log_abs)


def test_a_chain_needs_no_projector() -> None:
    peps = PEPS(chain(9), 4, scheme=Fixed(1))
    theta, configs = random_theta(peps, mean=1), random_configs(5, 9)
    expected = peps.with_scheme(Exact()).log_amplitude(theta, configs)
    assert np.allclose(peps.log_amplitude(theta, configs).log_abs, expected.log_abs, atol=ROUNDING)


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_columns_are_written_against_the_array_standard(dtype: str) -> None:
    strict = pytest.importorskip("array_api_strict")
    operator = j1j2(square(4, 3))
    peps = PEPS(operator.lattice, 2, dtype, Fixed(3, n_drawn=8))
    theta, configs = random_theta(peps, mean=1, seed=13), random_configs(6, 12)
    found, expected = (walked(peps, operator, theta, configs, xp) for xp in (strict, np))
    for one, other in zip(found, expected, strict=True):
        assert np.allclose(one, other, rtol=1e-10, atol=1e-10)
