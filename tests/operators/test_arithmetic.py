"""Sums, multiples, products and commutators of operators, against dense matrices."""

from __future__ import annotations

import time
from operator import add, sub
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles import dense_hamiltonian, embed
from tnvmc import (
    NonHermitian,
    Operator,
    chain,
    commutator,
    exact_ground_state,
    heisenberg,
    square,
    tfim,
)
from tnvmc.operators.arithmetic import MAX_PAIRS, hermitian_parts
from tnvmc.operators.models import rydberg
from tnvmc.operators.spin import MAX_WIDTH, most_sites

ROUNDING = 1e-12
"""Of the largest product of two elements: sums of a few hundred roundings of 1e-16."""


def dense(operator: Any) -> np.ndarray:
    if isinstance(operator, Operator):
        return dense_hamiltonian(operator)
    return np.asarray(dense(operator.real) + 1j * dense(operator.imaginary))


@st.composite
def pairs(draw: Any) -> tuple[list[Any], list[np.ndarray]]:
    """Two operators of one lattice, Hermitian or not, and their dense matrices by `embed` alone."""
    local_dim, n_sites = draw(st.sampled_from([(2, 5), (2, 3), (3, 3)]))
    lattice, found, matrices = chain(n_sites), [], []
    for _ in range(2):
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        hermitian, complex_ = draw(st.booleans()), draw(st.booleans())
        terms, total = [], np.zeros((local_dim**n_sites,) * 2, complex)
        for _ in range(draw(st.integers(0, 4))):
            sites = tuple(draw(st.permutations(range(n_sites)))[: draw(st.integers(1, 3))])
            size = local_dim ** len(sites)
            matrix = rng.normal(size=(size, size)) + 1j * complex_ * rng.normal(size=(size, size))
            matrix = matrix + matrix.conj().T if hermitian else matrix
            terms.append((sites, matrix if complex_ else matrix.real))
            total += embed(matrix, sites, n_sites, local_dim)
        kind = Operator if hermitian else NonHermitian
        found.append(kind.from_terms(lattice, terms, local_dim=local_dim))
        matrices.append(total)
    return found, matrices


@settings(deadline=None, max_examples=40)
@given(pairs(), st.sampled_from([2.0, -0.5, 1j, 0.3 - 0.4j]))
def test_all_that_is_dense_arithmetic(case: Any, factor: complex) -> None:
    (a, b), (x, y) = case
    size = (1 + np.abs(x).sum(axis=1).max()) * (1 + np.abs(y).sum(axis=1).max())
    cases = [
        (a + b, x + y),
        (a - b, x - y),
        (factor * a - b / factor, factor * x - y / factor),
        (-a, -x),
        (a.H, x.conj().T),
        (a @ b, x @ y),
        (a**2, x @ x),
        (commutator(a, b), x @ y - y @ x),
        ((a @ b).H - b.H @ a.H, 0 * x),
    ]
    for number, (found, expected) in enumerate(cases):
        assert np.abs(dense(found) - expected).max() < ROUNDING * size, number
        if isinstance(found, Operator):
            gap = np.abs(expected - expected.conj().T).max()
            assert gap < ROUNDING * size, f"{number} is not Hermitian"


def test_a_number_is_that_multiple_of_one() -> None:
    operator = heisenberg(chain(4))
    matrix, one = operator.sparse().toarray(), np.eye(16)
    for shifted in (operator + 2, 2.0 + operator, np.float64(2) + operator, sum([operator, 2])):
        assert isinstance(shifted, Operator)
        assert np.array_equal(shifted.sparse().toarray(), matrix + 2 * one)
    assert np.array_equal((operator - 0.5).sparse().toarray(), matrix - 0.5 * one)
    assert np.array_equal((0.5 - operator).sparse().toarray(), 0.5 * one - matrix)
    assert 0 + operator is operator and isinstance(operator + 1j, NonHermitian)
    assert (operator + 2).infinite_temperature_energy == 2.0
    energies = [exact_ground_state(each).energy for each in (operator + 2, operator)]
    assert energies[0] == pytest.approx(energies[1] + 2)
    for other in (None, "1", [1.0], np.ones(4)):
        for act in (add, sub):
            with pytest.raises(TypeError):
                act(operator, other)


def test_what_is_hermitian_is_an_operator() -> None:
    lattice = square(2, 2)
    h, up = heisenberg(lattice), NonHermitian.from_products(lattice, [("S+", [0])])
    sz = Operator.from_products(lattice, [("Sz", "all")])
    assert isinstance(h @ h, Operator)
    assert isinstance(up + up.H, Operator)
    assert isinstance(up.H @ up, Operator)
    assert isinstance(1j * (up - up.H), Operator)
    assert isinstance(up @ h, NonHermitian)
    assert isinstance(1j * h, NonHermitian)
    assert isinstance(-1j * (1j * h), Operator)
    assert isinstance(h * (1 + 0j), Operator)
    nothing = commutator(h, sz)
    assert isinstance(nothing, Operator)
    assert nothing.terms == ()
    assert h.H is h


def test_the_variance_of_the_ground_state_is_zero() -> None:
    h = heisenberg(square(2, 3))
    levels, vectors = np.linalg.eigh(dense(h))
    square_of_h = vectors[:, 0] @ dense(h @ h) @ vectors[:, 0]
    assert abs(square_of_h - levels[0] ** 2) < ROUNDING * levels[0] ** 2


def test_units_names_and_sectors() -> None:
    lattice = chain(3)
    a = Operator(lattice, heisenberg(lattice).terms, 2, "S.S", "a", magnetisation=1)
    b = Operator(lattice, tfim(lattice).terms, 2, "Pauli", "b")
    assert (a + b).units == "custom"
    assert (2j * a).units == "S.S"
    assert ((a @ b).name, commutator(a, b).name) == ("(a) (b)", "[a, b]")
    for found in (a + b, b + a, a @ b, b @ a, 1j * a, -a, commutator(b, a), (1j * a) + b):
        assert found.magnetisation == 1
    c = Operator(lattice, b.terms, magnetisation=3)
    with pytest.raises(ValueError, match=r"2 Sz = 1.*for 3"):
        a + c
    with pytest.raises(ValueError, match="cannot multiply a on"):
        a @ heisenberg(chain(4))
    for wrong in (lambda: a @ np.eye(8), lambda: np.eye(8) @ a, lambda: a @ "b", lambda: a + "1"):
        with pytest.raises(TypeError):
            wrong()
    for power in (0, -1, 1.5):
        with pytest.raises((ValueError, TypeError)):
            a**power


def test_products_that_are_too_wide_or_too_many_are_refused_with_their_size() -> None:
    assert [most_sites(d) for d in (2, 3, 4, 1024)] == [10, 6, 5, 1]
    ring = Operator.from_products(chain(12), [("X X X X X X", [range(6), range(6, 12)])])
    with pytest.raises(ValueError, match=rf"12 sites together.*may act on 10.*{MAX_WIDTH}"):
        ring @ ring
    assert commutator(ring, ring).terms == (), "far terms commute and are left out"
    with pytest.raises(TypeError, match="operators"):
        commutator(ring, 3)
    every_pair = rydberg(square(6, 6))
    began = time.perf_counter()
    with pytest.raises(ValueError, match=rf"443556 products, at most {MAX_PAIRS}"):
        every_pair @ every_pair
    assert time.perf_counter() - began < 2, "refused before it is made"


def test_a_term_on_ten_sites_is_served() -> None:
    parity = Operator.from_products(chain(10), [(" ".join(10 * "Z"), [tuple(range(10))])])
    configs = np.array([[0] * 10, [1] + [0] * 9, [1, 1, 1] + [0] * 7], dtype=np.int8)
    assert parity.diagonal(configs).tolist() == [1.0, -1.0, -1.0]
    flip = Operator.from_products(chain(10), [(" ".join(10 * "X"), [tuple(range(10))])])
    (table,) = flip.replacements.values()
    assert table.targets.shape == (MAX_WIDTH, 1)
    assert isinstance(parity @ flip, Operator)


def test_hermitian_parts_of_a_rounding_error_are_one() -> None:
    matrix = np.array([[1.0, 1.0 + 1e-15], [1.0, 1.0]])
    assert hermitian_parts({(0,): matrix}, 1e-12)[1] == {}
    assert list(hermitian_parts({(0,): matrix}, 0.0)[1]) == [(0,)]


@pytest.mark.parametrize("zero", [0, 0.0, 0j, np.float64(0)])
def test_division_by_zero_is_refused(zero: complex) -> None:
    with pytest.raises(ValueError, match="divided by 0"):
        heisenberg(square(2, 2)) / zero
    with pytest.raises(TypeError):
        heisenberg(square(2, 2)) / "2"
