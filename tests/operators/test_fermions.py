"""Fermions against a dense Jordan-Wigner oracle, and the table of exact energies."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests import oracles
from tnvmc import HUBBARD, SPINLESS, T_J, Operator, commutator, exact_ground_state, exact_levels
from tnvmc.estimate.observables import energy_terms, local_energy, merged_targets
from tnvmc.lattice import square
from tnvmc.operators.fermions import Fermions, Strings, mode_order
from tnvmc.operators.models import heisenberg, hubbard, tj, tv
from tnvmc.operators.properties import fingerprint, infinite_temperature_energy

EXACT = 1e-12  # sums of a few elements of order 1
TABLE = 1e-8  # the digits of the table

HOLDS = {
    SPINLESS: [(0,), (1,)],
    T_J: [(0, 0), (1, 0), (0, 1)],
    HUBBARD: [(0, 0), (1, 0), (0, 1), (1, 1)],
}


def dense(matrix: Any, operator: Operator) -> np.ndarray:
    """A matrix of the oracle in all configurations of an operator."""
    configs = oracles.all_configs(operator.n_sites, operator.local_dim)
    return oracles.fock_matrix(matrix, operator.lattice.shape, HOLDS[operator.fermions], configs)


def hops(c: list[list[Any]], pairs: Any) -> Any:
    """Sum of c+_i c_j + h.c. over pairs and species."""
    spins = range(len(c[0]))
    one_way = sum(c[i][s].T @ c[j][s] for i, j in pairs for s in spins)
    return one_way + one_way.T


def test_modes_go_up_the_columns() -> None:
    assert mode_order(square(2, 3)) == (3, 0, 4, 1, 5, 2)


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (3, 3)])
def test_spinless_model(shape: tuple[int, int]) -> None:
    operator = tv(square(*shape), 0.7, 1.3)
    c, bonds = oracles.annihilators(shape, 1), operator.lattice.bonds["nearest"]
    n = [each[0].T @ each[0] for each in c]
    expected = -0.7 * hops(c, bonds) + 1.3 * sum(n[i] @ n[j] for i, j in bonds)
    np.testing.assert_allclose(operator.sparse().toarray(), dense(expected, operator), atol=EXACT)


@pytest.mark.parametrize("shape", [(2, 2), (2, 3)])
@pytest.mark.parametrize("model", ["hubbard", "tj"])
def test_models_with_spin(shape: tuple[int, int], model: str) -> None:
    lattice, c = square(*shape), oracles.annihilators(shape, 2)
    bonds, diagonals = lattice.bonds["nearest"], lattice.bonds["diagonal"]
    n = [[each.T @ each for each in of_site] for of_site in c]
    both = [up @ down for up, down in n]
    numbers = [up + down for up, down in n]
    if model == "hubbard":
        operator = hubbard(lattice, 1.0, 5.0, 0.3, 0.2)
        expected = -hops(c, bonds) - 0.3 * hops(c, diagonals) + 5 * sum(both) - 0.2 * sum(numbers)
    else:
        operator = tj(lattice, 1.0, 0.4)
        plus, z = [up.T @ down for up, down in c], [(up - down) / 2 for up, down in n]
        expected = -hops(c, bonds)
        for i, j in bonds:
            flips = plus[i] @ plus[j].T
            spins = (flips + flips.T) / 2 + z[i] @ z[j]
            expected = expected + 0.4 * (spins - numbers[i] @ numbers[j] / 4)
    np.testing.assert_allclose(operator.sparse().toarray(), dense(expected, operator), atol=EXACT)


def products_of(shape: tuple[int, int]) -> Any:
    """Operators between any sites, with what they are by the oracle."""
    lattice, n_sites = square(*shape), shape[0] * shape[1]
    c = [each[0] for each in oracles.annihilators(shape, 1)]
    for i, j in itertools.permutations(range(n_sites), 2):
        made = Operator.from_products(lattice, [("c^ c - c c^", [(i, j)])], fermions=SPINLESS)
        yield made, c[i].T @ c[j] + c[j].T @ c[i]
    rng = np.random.default_rng(0)
    for _ in range(8):
        i, j, k, m = sites = tuple(map(int, rng.permutation(n_sites)[:4]))
        text = "c^ c^ c c + c c c^ c^"
        made = Operator.from_products(lattice, [(text, [sites])], fermions=SPINLESS)
        pair = c[i].T @ c[j].T @ c[k] @ c[m]
        back = c[i] @ c[j] @ c[k].T @ c[m].T
        yield made, pair + back


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (3, 3)])
def test_products_between_any_sites(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    for operator, expected in products_of(shape):
        matrix = dense(expected, operator)
        np.testing.assert_allclose(operator.sparse().toarray(), matrix, atol=EXACT)
        check_local_values(operator, matrix, rng)


def check_local_values(operator: Operator, matrix: np.ndarray, rng: Any) -> None:
    """Local values of both kinds in a random state, against H psi / psi."""
    configs = oracles.all_configs(operator.n_sites, operator.local_dim)
    psi = 1 + rng.random(len(configs))
    terms = energy_terms(operator)
    targets, d = merged_targets([terms]), operator.local_dim
    ratios = {}
    for patch, table in targets.items():
        places = d ** (operator.n_sites - 1 - np.array(patch))
        digits = oracles.all_configs(len(patch), d)
        local = configs[:, list(patch)] @ d ** np.arange(len(patch) - 1, -1, -1)
        shift = (digits[np.maximum(table, 0)] - digits[:, None]) @ places
        ratios[patch] = psi[np.arange(len(psi))[:, None] + shift[local]] / psi[:, None]
    snapshot: Any = SimpleNamespace(configs=configs, ratios=ratios)
    expected = matrix @ psi / psi
    np.testing.assert_allclose(terms.values(snapshot, targets).sum(axis=1), expected, atol=1e-11)
    np.testing.assert_allclose(local_energy(operator, snapshot), expected, atol=1e-11)


def test_pairs_with_spin_between_any_sites() -> None:
    shape, rng = (2, 3), np.random.default_rng(2)
    lattice, c = square(*shape), oracles.annihilators((2, 3), 2)
    for _ in range(12):
        i, j, k = sites = tuple(map(int, rng.permutation(6)[:3]))
        text = "c^up nupdn cup - cup nupdn c^up + c^dn nup cdn - cdn nup c^dn"
        operator = Operator.from_products(lattice, [(text, [sites])], fermions=HUBBARD)
        n = [each.T @ each for each in c[j]]
        up, down = c[i][0].T @ n[0] @ n[1] @ c[k][0], c[i][1].T @ n[0] @ c[k][1]
        matrix = dense(up + up.T + down + down.T, operator)
        np.testing.assert_allclose(operator.sparse().toarray(), matrix, atol=EXACT)
        check_local_values(operator, matrix, rng)


def full_matrix(operator: Any) -> np.ndarray:
    """The matrix of an operator that may be not Hermitian."""
    if isinstance(operator, Operator):
        return np.asarray(operator.sparse().toarray())
    real, imaginary = (part.sparse().toarray() for part in (operator.real, operator.imaginary))
    return np.asarray(real + 1j * imaginary)


def test_products_and_commutators_of_operators() -> None:
    lattice, c = square(2, 3), oracles.annihilators((2, 3), 1)

    def hop(i: int, j: int) -> Operator:
        text = [("c^ c - c c^", [(i, j)])]
        return Operator.from_products(lattice, text, fermions=SPINLESS)

    for p, q in [((0, 5), (1, 4)), ((3, 2), (2, 1)), ((0, 1), (3, 4)), ((2, 3), (3, 2))]:
        one, two = hop(*p), hop(*q)
        first, second = hops(c, [p]), hops(c, [q])
        there = dense(first @ second, one), dense(second @ first, one)
        np.testing.assert_allclose(full_matrix(one @ two), there[0], atol=EXACT)
        np.testing.assert_allclose(
            full_matrix(commutator(one, two)), there[0] - there[1], atol=EXACT
        )


TV = [
    ((2, 2), 2, 1.0, (-1.56155281, -1.56155281)),
    ((3, 3), 4, 2.0, (-3.51293171, -3.38840137)),
    ((3, 4), 6, 0.0, (-8.30056308, -7.89292223)),
    ((3, 4), 6, 2.0, (-3.92504074, -3.82498821)),
    ((4, 4), 8, 0.0, (-10.94427191, -10.94427191)),
    ((4, 4), 8, 2.0, (-5.04993637, -5.03923287)),
]


@pytest.mark.parametrize(("shape", "particles", "V", "levels"), TV)
def test_levels_of_spinless_fermions(
    shape: tuple[int, int], particles: int, V: float, levels: tuple[float, float]
) -> None:
    operator = tv(square(*shape), 1.0, V, particles=particles)
    np.testing.assert_allclose(exact_levels(operator, 2), levels, atol=TABLE)


HUBBARD_TABLE = [
    ((2, 2), (2, 2), 8.0, -1.32023496),
    ((2, 3), (3, 3), 8.0, -2.17779355),
    ((2, 3), (2, 2), 4.0, -5.17568294),
    ((3, 3), (4, 4), 8.0, -5.04125303),
    pytest.param((3, 4), (6, 6), 8.0, -4.91325921, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("shape", "particles", "U", "energy"), HUBBARD_TABLE)
def test_energies_of_the_hubbard_model(
    shape: tuple[int, int], particles: tuple[int, int], U: float, energy: float
) -> None:
    operator = hubbard(square(*shape), 1.0, U, particles=particles)
    assert exact_ground_state(operator).energy == pytest.approx(energy, abs=TABLE)


def test_tj_without_holes_is_a_magnet() -> None:
    lattice = square(2, 3)
    found = exact_ground_state(tj(lattice, 1.0, 0.4, particles=(3, 3)))
    magnet = exact_ground_state(heisenberg(lattice)).energy
    assert found.energy == pytest.approx(0.4 * (magnet - len(lattice.bonds["nearest"]) / 4))


@pytest.mark.parametrize(
    ("fermions", "particles"), [(SPINLESS, 2), (T_J, (1, 2)), (HUBBARD, (3, 1))]
)
def test_sectors(fermions: Fermions, particles: Any) -> None:
    n_sites, d = 4, len(fermions.odd)
    strings = Strings(fermions, mode_order(square(2, 2)))
    packed = strings.sector(particles)
    assert strings.particles(packed) == tuple(np.atleast_1d(particles))
    operator = Operator(square(2, 2), (), d, fermions=fermions)
    states = operator.states(packed)
    configs = oracles.all_configs(n_sites, d)
    counts = np.array(
        [[fermions.numbers[k][s] for s in range(d)] for k in range(len(fermions.numbers))]
    )
    inside = (counts[:, configs].sum(axis=2) == np.reshape(particles, (-1, 1))).all(axis=0)
    np.testing.assert_array_equal(states.configs(states.codes), configs[inside])
    np.testing.assert_array_equal(states.positions(states.codes), np.arange(states.dimension))
    few = type("Few", (type(states),), {"tabled": False})(n_sites, d, packed, strings.weights)
    np.testing.assert_array_equal(few.codes, states.codes)


@pytest.mark.parametrize("particles", [-1, 5, (1, 1), 1.5])
def test_particles_that_do_not_fit(particles: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        tv(square(2, 2), particles=particles)
    with pytest.raises((TypeError, ValueError)):
        tj(square(2, 2), particles=(3, 2))


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError):
        exact_ground_state(tv(square(2, 2)))
    with pytest.raises(ValueError):
        Operator.from_products(square(2, 2), [("c^ + c", "all")], fermions=SPINLESS)
    with pytest.raises(ValueError):
        _ = heisenberg(square(2, 2)) + tv(square(2, 2))


def test_spins_with_the_same_matrices_are_another_operator() -> None:
    operator = tv(square(2, 2))
    spins = Operator(operator.lattice, operator.terms)
    assert fingerprint(spins) != fingerprint(operator)


def test_the_energy_of_random_states_is_that_of_the_sector() -> None:
    """A chemical potential shifts it as it shifts every energy."""
    for mu in (0.0, 4.0):
        operator = hubbard(square(2, 2), U=8.0, mu=mu, particles=[1, 2])
        matrix = operator.sparse(operator.magnetisation)
        mean = matrix.diagonal().mean()
        found = infinite_temperature_energy(operator, operator.magnetisation)
        assert abs(found - mean) < 1e-12 * max(1.0, abs(mean))


@pytest.mark.parametrize("local_dim", [2, 3])
def test_a_field_shifts_the_energy_of_random_states_of_a_sector(local_dim: int) -> None:
    lattice, terms = square(2, 2), [("Sx Sx + Sy Sy + Sz Sz", "nearest")]
    for h in (0.0, -10.0):
        made = [*terms, ("Sz", "all", h)] if h else terms
        operator = Operator.from_products(lattice, made, local_dim=local_dim)
        mean = operator.sparse(4).diagonal().real.mean()
        assert infinite_temperature_energy(operator, 4) == pytest.approx(mean, abs=EXACT)
    assert infinite_temperature_energy(operator, 0) == operator.infinite_temperature_energy
