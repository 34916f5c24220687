"""Energies by boundary MPS of the double layer, against dense states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exact_peps import exact_energy
from tests.oracles import all_configs, dense_hamiltonian, dense_state
from tnvmc.contraction.double_expectation import (
    EmptySector,
    boundary_expectation,
    boundary_overlap,
    estimated_cost,
)
from tnvmc.contraction.double_terms import TermsDoNotFit
from tnvmc.lattice.grids import chain, square
from tnvmc.operators.models import heisenberg, j1j2, rydberg, tfim, xxz
from tnvmc.operators.term import Operator

ROUNDING = 1e-9
UNCUT = 256  # no boundary of the lattices here has larger bonds


def state(shape, dtype="float64", D=2, d=2, seed=7):
    """Tensors with entries of both signs, so that nothing is positive by accident."""
    rng = np.random.default_rng(seed)
    n_rows, n_cols = shape
    tensors = []
    for r in range(n_rows):
        for c in range(n_cols):
            legs = [1 if edge else D for edge in (r == 0, c == 0, r == n_rows - 1, c == n_cols - 1)]
            tensor = 0.7 + 0.5 * rng.normal(size=(d, *legs))
            if dtype == "complex128":
                tensor = tensor + 0.5j * rng.normal(size=tensor.shape)
            tensors.append(tensor)
    return tensors


def dense_energy(tensors, operator, magnetisation=None):
    """The energy and the weight of the sector."""
    n, d = operator.n_sites, operator.local_dim
    configs = all_configs(n, d)
    psi = dense_state(tensors, operator.lattice.shape, configs)
    whole = np.vdot(psi, psi).real
    if magnetisation is not None:
        psi = np.where(n * (d - 1) - 2 * configs.sum(axis=1, dtype=int) == magnetisation, psi, 0)
    norm = np.vdot(psi, psi).real
    return np.vdot(psi, dense_hamiltonian(operator) @ psi).real / norm, norm / whole


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(("shape", "d", "total"), [
    ((3, 3), 2, None), ((3, 3), 2, 5), ((2, 4), 2, 1), ((2, 3), 3, 4), ((1, 5), 3, None),
])  # fmt: skip
def test_overlaps_are_those_of_dense_states(shape, d, total, dtype):
    bra, ket = state(shape, dtype, 2, d, seed=1), state(shape, dtype, 3, d, seed=2)
    configs = all_configs(len(bra), d)
    inside = np.ones(len(configs), bool) if total is None else configs.sum(axis=1) == total
    a, b = (dense_state(x, shape, configs) * inside for x in (bra, ket))
    exact = np.vdot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b))
    found, uncut = boundary_overlap(bra, ket, shape, UNCUT, total)
    assert uncut and found == pytest.approx(exact, abs=ROUNDING)
    if shape == (3, 3):
        cut, uncut = boundary_overlap(bra, ket, shape, 4, total)
        assert not uncut and 0 < abs(cut - exact) < 0.05


def test_rare_sectors_are_refused_before_rounding_decides():
    """Nearly a superposition of all up and all down, whose sectors between no tilt enlarges."""
    rng = np.random.default_rng(1)
    tensors = [1e-2 * rng.normal(size=x.shape) for x in state((3, 3))]
    for x in tensors:
        x[(0,) * 5] += 1
        x[(1, *(n - 1 for n in x.shape[1:]))] += 1
    for spread in (0.0, 0.2):
        given = [x + spread * rng.normal(size=x.shape) for x in tensors]
        operator = heisenberg(square(3, 3))
        if spread:
            exact = dense_energy(given, operator, 1)[0]
            found = boundary_expectation(given, operator, UNCUT, magnetisation=1).value
            assert found == pytest.approx(exact, rel=1e-7)
        else:
            with pytest.raises(EmptySector):
                boundary_expectation(given, operator, UNCUT, magnetisation=1)
            with pytest.raises(EmptySector):
                boundary_overlap(given, given, (3, 3), UNCUT, 4)


def test_states_without_a_common_configuration_have_no_overlap():
    up, down = ([np.array(x).reshape(2, 1, 1, 1, 1)] * 4 for x in ([1.0, 0.0], [0.0, 1.0]))
    assert boundary_overlap(up, down, (2, 2), 2) == (0, True)
    with pytest.raises(EmptySector):
        boundary_overlap(up, down, (2, 2), 2, 2)


def random_operator(shape, patches, d=2, seed=3):
    """Hermitian matrices without structure."""
    rng = np.random.default_rng(seed)
    terms = []
    for patch in patches:
        k = d ** len(patch)
        matrix = rng.normal(size=(k, k)) + 1j * rng.normal(size=(k, k))
        terms.append((patch, matrix + matrix.conj().T))
    return Operator.from_terms(square(*shape), terms, local_dim=d)


def cases():
    return {
        "heisenberg": heisenberg(square(3, 3)),
        "diagonals": j1j2(square(2, 4), J2=0.4),
        "all pairs": rydberg(square(3, 3)),
        "field": tfim(square(3, 2), h=2.0),
        "chain": j1j2(chain(6)),
        "one column": tfim(square(5, 1)),
        "one site": tfim(square(1, 1)),
        "cylinder": heisenberg(square(2, 4, "cylinder")),
        "torus": heisenberg(square(3, 3, "periodic")),
        # within one row, two rows, two columns, and pairs farther apart
        "three and four sites": random_operator((3, 3), [(8, 5, 7), (0, 1, 3, 4), (1, 0, 6)]),
        "far pairs": random_operator((3, 3), [(0, 8), (2, 6), (1, 6), (0, 2), (0, 6), (3,)]),
        "spin one": random_operator((2, 3), [(0, 1), (1, 4), (0, 4), (0, 5)], d=3),
    }


@pytest.mark.whole
@pytest.mark.parametrize("name", cases())
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_uncut_it_is_the_expectation_value(name, dtype):
    operator = cases()[name]
    tensors = state(operator.lattice.shape, dtype, d=operator.local_dim)
    found = boundary_expectation(tensors, operator, UNCUT)
    assert found.value == pytest.approx(dense_energy(tensors, operator)[0], rel=ROUNDING)
    assert found.closure_spread < ROUNDING
    assert (found.uncut, found.n_angles, found.sector_weight) == (True, 1, None)


@settings(max_examples=12, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dtype=st.sampled_from(["float64", "complex128"]),
    seed=st.integers(0, 2**20),
    data=st.data(),
)
def test_any_shape_in_any_sector(shape, dtype, seed, data):
    operator = xxz(square(*shape), Jz=0.7)
    n = operator.n_sites
    magnetisation = data.draw(st.sampled_from([None, *range(-n, n + 1, 2)]))
    tensors = state(shape, dtype, seed=seed)
    found = boundary_expectation(tensors, operator, UNCUT, magnetisation=magnetisation)
    energy, weight = dense_energy(tensors, operator, magnetisation)
    # What other sectors may add: `_FOREIGN` of the energies that differ by a few J a bond.
    assert found.value == pytest.approx(energy, rel=ROUNDING, abs=1e-8 * n)
    if magnetisation is not None:
        assert found.sector_weight == pytest.approx(weight, rel=1e-7)


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(4, 3), (4, 4)])
def test_four_rows_in_a_sector(shape, dtype):
    operator = j1j2(square(*shape))
    tensors = state(shape, dtype)
    for magnetisation in (0, 4, 2 - shape[0] * shape[1]):
        found = boundary_expectation(tensors, operator, 16, magnetisation=magnetisation)
        assert found.uncut
        assert found.value == pytest.approx(
            exact_energy(tensors, operator, magnetisation), rel=1e-8
        )


def test_a_sector_that_is_rare_loses_no_digits():
    """Nearly all spins up: one part in 10^8 of |psi|^2 lies in the sector asked for."""
    operator = xxz(square(3, 3))
    tensors = [tensor * np.array([1.0, 0.1])[:, None, None, None, None] for tensor in state((3, 3))]
    found = boundary_expectation(tensors, operator, UNCUT, magnetisation=-3)
    energy, weight = dense_energy(tensors, operator, -3)
    assert weight < 1e-7
    assert found.sector_weight == pytest.approx(weight, rel=1e-7)
    assert found.value == pytest.approx(energy, rel=1e-8)


def test_a_state_within_one_sector_needs_one_angle():
    """A product of up and down spins."""
    operator = heisenberg(square(2, 3))
    tensors = [np.eye(2)[k % 2].reshape(2, 1, 1, 1, 1) for k in range(6)]
    found = boundary_expectation(tensors, operator, 4, magnetisation=0)
    assert (found.n_angles, found.sector_weight) == (1, pytest.approx(1))
    with pytest.raises(EmptySector):
        boundary_expectation(tensors, operator, 4, magnetisation=2)


@pytest.mark.whole
@pytest.mark.parametrize("magnetisation", [None, 0])
def test_truncation_falls_with_chi_and_the_spread_of_closures_shows_it(magnetisation):
    operator = heisenberg(square(4, 4))
    tensors = state((4, 4), D=3)
    chis = (3, 9, 27)
    found = [boundary_expectation(tensors, operator, k, magnetisation=magnetisation) for k in chis]
    assert not any(each.uncut for each in found)
    exact = exact_energy(tensors, operator)
    if magnetisation is not None:
        exact = exact_energy(tensors, operator, magnetisation)
    errors = [abs(each.value - exact) for each in found]
    spreads = [each.closure_spread for each in found]
    assert errors[0] > errors[1] > errors[2] and spreads[0] > spreads[1] > spreads[2]
    assert errors[2] < 1e-6


def test_it_repeats_itself_bit_for_bit_and_scale_does_not_matter():
    operator = heisenberg(square(4, 3))
    tensors = state((4, 3))
    first, again = (boundary_expectation(tensors, operator, 4, magnetisation=0) for _ in range(2))
    assert first.value == again.value
    large = [1e60 * tensor for tensor in tensors]
    assert boundary_expectation(large, operator, 4).value == pytest.approx(
        boundary_expectation(tensors, operator, 4).value, rel=ROUNDING
    )


def test_what_cannot_be():
    tensors = state((3, 3))
    wide = random_operator((3, 3), [(0, 4, 8), (0, 1)])
    with pytest.raises(TermsDoNotFit, match="1 of 2 terms"):
        boundary_expectation(tensors, wide, 4)
    with pytest.raises(ValueError, match="chi must be at least 1"):
        boundary_expectation(tensors, heisenberg(square(3, 3)), 0)
    with pytest.raises(ValueError, match="2 Sz = 2: "):
        boundary_expectation(tensors, heisenberg(square(3, 3)), 4, magnetisation=2)
    with pytest.raises(ValueError, match="do not fill"):
        boundary_expectation(tensors, heisenberg(square(3, 2)), 4)


def test_cost_grows_with_all_that_it_is_made_of():
    def seconds(operator, D=2, chi=8, sector=False):
        return estimated_cost(operator, D, chi, sector=sector).seconds

    small = heisenberg(square(6, 6))
    first = seconds(small)
    assert seconds(heisenberg(square(8, 8))) > first
    assert seconds(j1j2(square(6, 6))) > first
    assert seconds(rydberg(square(6, 6))) > first
    assert seconds(small, D=3) > first
    assert seconds(small, chi=16) > first
    assert seconds(small, sector=True) > first
    assert estimated_cost(small, 8, 64).n_bytes > 1e9
