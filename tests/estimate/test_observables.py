"""Observables against dense expectation values under enumeration, and blocks against binning."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tests import oracles
from tests.drawing import sample
from tnvmc import PEPS, Exact, Sampler, heisenberg, rydberg, square, tfim
from tnvmc.backend.namespace import to_host
from tnvmc.estimate.blocks import Blocks
from tnvmc.estimate.momenta import correlation_matrix, momenta, structure_factor
from tnvmc.estimate.observables import (
    Dimers,
    LocalTerms,
    Squares,
    at_fixed_magnetisation,
    energy_terms,
    local_energy,
    merged_targets,
    products,
    scalar_products,
    site_terms,
    two_point,
)
from tnvmc.estimate.statistics import estimate, exact_estimate, weighted_estimate
from tnvmc.lattice import from_bonds
from tnvmc.lattice.permutations import checkerboard
from tnvmc.operators.order import order_parameter, order_parts
from tnvmc.operators.spin import kron, spin_matrices
from tnvmc.operators.term import Term
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.enumerate import born_weights
from tnvmc.sampling.moves import moves_for

EXACT = 1e-10  # sums of a few hundred local values of order one
SX, SY, SZ = spin_matrices()

OPERATORS: dict[str, Any] = {
    "heisenberg": lambda: heisenberg(square(2, 3)),
    "tfim": lambda: tfim(square(3, 3), h=2.0),
    "rydberg": lambda: rydberg(square(2, 3)),
}


class World:
    """A random PEPS on all its configurations, and the dense state that the samples stand for."""

    def __init__(self, name: str, dtype: str = "float64", xp: Any = np) -> None:
        self.operator = OPERATORS[name]()
        self.lattice, self.n = self.operator.lattice, self.operator.n_sites
        self.peps = PEPS(self.lattice, 2, dtype, Exact())
        rng = np.random.default_rng(3)
        theta = rng.normal(size=self.peps.n_params) + 0.5
        if dtype == "complex128":
            theta = theta + 0.3j * rng.normal(size=self.peps.n_params)
        self.theta, self.xp = theta, xp
        sector = self.n % 2 if self.operator.conserves_magnetisation else None
        configs = oracles.all_configs(self.n, magnetisation=sector)
        self.configs = configs.astype(np.int8)
        amplitudes = oracles.dense_state(self.peps.tensors(theta), self.lattice.shape, configs)
        self.psi = np.zeros(2**self.n, dtype=amplitudes.dtype)
        self.psi[[oracles.config_index(c) for c in configs]] = amplitudes
        self.psi /= np.linalg.norm(self.psi)

    def snapshot(self, targets: Any) -> Any:
        xp = self.xp
        theta, configs = xp.asarray(self.theta), xp.asarray(self.configs)
        tables = {patch: xp.asarray(table) for patch, table in targets.items()}
        walkers = self.peps.start(theta, configs)
        _, found = self.peps.measure(theta, walkers, tables, jacobian=False)
        return type(found)(
            found.configs, found.amplitude, found.ratios, None, born_weights(found.amplitude)
        )

    def means(self, observable: Any) -> np.ndarray:
        targets = merged_targets([observable])
        return means_of(observable, self.snapshot(targets), targets)

    def dense(self, matrix: np.ndarray, *sites: int) -> float:
        full = oracles.embed(matrix, sites, self.n)
        return float(np.vdot(self.psi, full @ self.psi).real)


def means_of(observable: Any, snapshot: Any, targets: Any) -> np.ndarray:
    """Means under the weights of a snapshot that enumerates all configurations."""
    values, weight = to_host(observable.values(snapshot, targets)), to_host(snapshot.weight)
    found = [exact_estimate(column, weight) for column in values.T]
    assert all(each.error == 0 for each in found)
    return np.array([each.mean for each in found])


def _matches(found: np.ndarray, expected: Any) -> None:
    assert np.abs(found - np.array(expected)).max() < EXACT


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", OPERATORS)
def test_every_term_of_the_hamiltonian(name: str, dtype: str) -> None:
    world = World(name, dtype)
    bonds = energy_terms(world.operator)
    means = world.means(bonds)
    _matches(means, [world.dense(term.matrix, *term.sites) for term in bonds.terms])
    snapshot = world.snapshot(world.operator.targets)
    total = exact_estimate(local_energy(world.operator, snapshot), snapshot.weight)
    assert abs(means.sum() - total.mean) < EXACT * 10


def test_a_hamiltonian_without_terms_has_no_values() -> None:
    """A lattice of one site has no bonds; its energy is the sum of nothing."""
    none = energy_terms(heisenberg(square(1, 1)))
    snapshot = World("heisenberg").snapshot({})
    assert none.values(snapshot, {}).shape == (len(snapshot.configs), 0)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", OPERATORS)
def test_two_point_functions_at_every_distance(name: str, dtype: str) -> None:
    world = World(name, dtype)
    pairs = list(combinations(range(world.n), 2))
    dot = np.sum([kron(s, s) for s in (SX, SY, SZ)], axis=0).real
    scalar = [world.dense(dot, *pair) for pair in pairs]
    _matches(world.means(scalar_products(world.n)), [*scalar, *[0.75] * world.n])
    along_z = [world.dense(kron(SZ, SZ), *pair) for pair in pairs]
    _matches(world.means(products(world.n, SZ)), [*along_z, *[0.25] * world.n])
    number = np.diag([0.0, 1.0])
    both = [world.dense(kron(number, number), *pair) for pair in pairs]
    alone = [world.dense(number, site) for site in range(world.n)]
    _matches(world.means(products(world.n, number)), [*both, *alone])


@pytest.mark.parametrize("name", OPERATORS)
def test_local_fields_and_off_diagonal_pairs(name: str) -> None:
    """In a state of fixed magnetisation <Sx> is 0 and <Sx Sx> is what an exchange gives."""
    world = World(name, "complex128")
    across = two_point(world.n, kron(SX, SX), SX @ SX)
    fields = [site_terms(world.n, matrix) for matrix in (SX, SY, SZ)]
    for observable in (across, *fields):
        if world.operator.conserves_magnetisation:
            observable = at_fixed_magnetisation(observable, world.operator)
        expected = [world.dense(t.matrix, *t.sites) for t in observable.terms]
        _matches(world.means(observable), expected)
    if world.operator.conserves_magnetisation:
        at_fixed = [world.dense(SX, site) for site in range(world.n)]
        _matches(world.means(at_fixed_magnetisation(fields[0], world.operator)), at_fixed)


def test_in_the_namespace_of_the_walkers(xp: Any) -> None:
    world = World("heisenberg", xp=xp)
    observable = scalar_products(world.n)
    targets = merged_targets([observable])
    values = to_host(observable.values(world.snapshot(targets), targets))
    plain = World("heisenberg")
    assert np.allclose(values, observable.values(plain.snapshot(targets), targets), atol=1e-9)


def test_observables_share_a_snapshot_whatever_they_replace() -> None:
    """Tables of one patch are merged; each observable finds its own elements again."""
    world = World("tfim")
    exchange = LocalTerms((Term((0, 8), kron(SX, SX) + kron(SY, SY).real),))
    flips = LocalTerms((Term((0, 8), kron(SX, np.eye(2))), Term((0, 8), kron(SX, SX) * 2)))
    targets = merged_targets([exchange, flips, energy_terms(world.operator)])
    snapshot = world.snapshot(targets)
    for observable in (exchange, flips, energy_terms(world.operator)):
        found = means_of(observable, snapshot, targets)
        _matches(found, [world.dense(t.matrix, *t.sites) for t in observable.terms])


def test_dimers_connected() -> None:
    """Bonds apart, bonds that share a site, and the reference itself."""
    world = World("tfim")
    bonds = world.lattice.bonds["nearest"]
    dimers = Dimers(bonds[4], bonds)
    blocks = Blocks(exact=True)
    snapshot = world.snapshot({})
    blocks.add(dimers.values(snapshot, {}), snapshot.weight)
    found, errors = blocks.derive(dimers.connected)

    def along(bond: Any) -> np.ndarray:
        return oracles.embed(kron(SZ, SZ), bond, world.n)

    def mean(matrix: np.ndarray) -> float:
        return float(world.psi @ matrix @ world.psi)

    reference = along(dimers.reference)
    expected = [mean(reference @ along(b)) - mean(reference) * mean(along(b)) for b in bonds]
    _matches(found, expected)
    assert not errors.any()


@pytest.mark.parametrize("shape", [(2, 3), (3, 4), (1, 5)])
def test_structure_factor_is_the_square_of_fourier_components(shape: tuple[int, int]) -> None:
    lattice = square(*shape)
    n = lattice.n_sites
    spins = np.random.default_rng(0).normal(size=(7, n))
    pairs = [np.mean(spins[:, i] * spins[:, j]) for i, j in combinations(range(n), 2)]
    matrix = correlation_matrix(np.array([*pairs, *np.mean(spins**2, axis=0)]))
    q = momenta(lattice)
    assert q.shape == (n, 2)
    assert (q > -np.pi - 1e-12).all()
    assert (q <= np.pi + 1e-12).all()
    assert len({tuple(np.round(each, 9)) for each in q}) == n
    rows, columns = np.divmod(np.arange(n), shape[1])
    waves = np.exp(1j * (q[:, :1] * columns + q[:, 1:] * rows))
    expected = np.mean(np.abs(waves @ spins.T) ** 2, axis=1) / n
    assert np.allclose(structure_factor(lattice, matrix), expected, atol=1e-12)
    staggered = np.mean((spins @ (-1.0) ** (rows + columns)) ** 2) / n**2
    assert (
        abs(
            float(
                (1.0 - 2.0 * checkerboard(lattice)) @ matrix @ (1.0 - 2.0 * checkerboard(lattice))
            )
            / lattice.n_sites**2
            - staggered
        )
        < 1e-12
    )


def test_structure_factor_at_pi_pi_is_the_order_parameter() -> None:
    lattice = square(4, 4)
    values = np.random.default_rng(0).normal(size=16 * 17 // 2)
    matrix = correlation_matrix(values)
    peak = structure_factor(lattice, matrix)[np.abs(momenta(lattice) - np.pi).max(axis=1) < 1e-9]
    assert np.allclose(
        peak / 16,
        float((1.0 - 2.0 * checkerboard(lattice)) @ matrix @ (1.0 - 2.0 * checkerboard(lattice)))
        / lattice.n_sites**2,
    )


def _series(n_draws: int, n_walkers: int, rho: float, seed: int) -> np.ndarray:
    """AR(1) chains (n_draws * W, 3) in draw-major order, of unit variance."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_walkers, 3))
    draws = []
    for _ in range(n_draws):
        draws.append(x)
        x = rho * x + np.sqrt(1 - rho**2) * rng.normal(size=x.shape)
    return np.concatenate(draws)


@pytest.mark.parametrize(("n_walkers", "segments"), [(64, 4), (128, 1), (4, 16)])
def test_blocks_have_the_error_of_correlated_chains(n_walkers: int, segments: int) -> None:
    """tau = 4.5 draws: errors are three times those of independent samples, within a third."""
    n_draws, rho = 64 * segments, 0.8
    values = _series(n_draws, n_walkers, rho, seed=1)
    blocks = Blocks()
    for part in np.split(values, segments):
        blocks.add(part, n_walkers=n_walkers)
    mean, error = blocks.derive()
    assert np.allclose(mean, values.mean(axis=0))
    true = np.sqrt((1 + rho) / (1 - rho) / len(values))
    assert (np.abs(error / true - 1) < 1 / 3).all()
    assert blocks.n_samples == len(values)
    assert np.isclose(blocks.effective_samples, len(values))


def test_blocks_of_weighted_samples_agree_with_the_weighted_estimate() -> None:
    rng = np.random.default_rng(0)
    values, weight = rng.normal(size=(4096, 1)), rng.uniform(size=4096)
    values[7], weight[7] = np.inf, 0.0  # psi = 0: without weight, whatever the value
    blocks = Blocks()
    blocks.add(values, weight, 64)
    mean, error = blocks.derive()
    values[7] = 0
    expected = weighted_estimate(values[:, 0], weight, 64)
    assert abs(mean[0] - np.average(values[:, 0], weights=weight)) < 1e-12
    assert abs(error[0] / expected.error - 1) < 0.3
    assert blocks.effective_samples == pytest.approx(weight.sum() ** 2 / (weight**2).sum())


def test_jackknife_knows_correlations_and_takes_the_bias_off() -> None:
    """x - x' of equal columns has error 0; <x>^2 is biased by Var / n, which is gone."""
    rng = np.random.default_rng(0)
    squares = []
    for _ in range(400):
        x = rng.normal(size=(64, 1))
        blocks = Blocks()
        blocks.add(np.concatenate([x, x], axis=1), n_walkers=64)
        difference, error = blocks.derive(lambda m: m[:1] - m[1:])
        assert difference[0] == error[0] == 0
        squares.append(blocks.derive(lambda m: m[:1] ** 2)[0][0])
    spread = np.std(squares) / np.sqrt(400)
    assert abs(np.mean(squares)) < 4 * spread  # 4 sigma; the naive mean is 1/64, 10 sigma off
    assert spread < 1 / 64 / 8


def test_blocks_of_nothing_and_of_one() -> None:
    with pytest.raises(ValueError, match="weights are 0"):
        empty = Blocks()
        empty.add(np.zeros((5, 1)), np.zeros(5))
        empty.mean()
    one = Blocks()
    one.add(np.ones((5, 2)))
    assert np.isinf(one.derive()[1]).all()


def test_chains_meet_the_enumeration() -> None:
    """3x3 TFIM: every S.S by chains within 5 sigma of its dense value, chi^2 of all near 1."""
    world = World("tfim")
    observable = scalar_products(world.n)
    targets = merged_targets([observable])
    sampler = Sampler(n_walkers=64, n_samples=2048, n_burn=20, n_thin=2, threads=1)
    configs = initial_configs(world.operator, 64, 0)
    moves = moves_for(world.operator)
    _, snapshot, _ = sample(
        sampler, world.peps, (world.theta, configs), targets, moves, jacobian=False
    )
    blocks = Blocks()
    blocks.add(observable.values(snapshot, targets), n_walkers=64)
    mean, error = blocks.derive()
    n_pairs = world.n * (world.n - 1) // 2
    gap = (mean - world.means(observable))[:n_pairs] / error[:n_pairs]
    assert np.abs(gap).max() < 5
    assert 0.2 < np.mean(gap**2) < 3
    one_by_one = estimate(observable.values(snapshot, targets)[:, 0], 64)
    assert abs(one_by_one.mean - mean[0]) < EXACT
    assert abs(one_by_one.error / error[0] - 1) < 0.5


def test_what_needs_coordinates_or_sublattices_says_so() -> None:
    triangle = from_bonds((1, 3), [(0, 1), (1, 2), (0, 2)])
    with pytest.raises(ValueError, match="no coordinates"):
        momenta(triangle)
    with pytest.raises(ValueError, match="sublattice"):
        checkerboard(triangle)


@pytest.mark.parametrize("name", ["dimer_columnar", "dimer_staggered", "plaquette", "chirality"])
def test_squares_need_no_distant_products(name: str) -> None:
    """Of a complex state, and with the ratios of single bonds and figures alone."""
    world = World("heisenberg", "complex128")
    squares = Squares(name, order_parts(name, world.lattice))
    assert max(map(len, squares.targets)) <= 4
    full = oracles.dense_hamiltonian(order_parameter(name, world.lattice))
    expected = np.vdot(world.psi, full @ world.psi).real
    assert world.means(squares) == pytest.approx([expected], abs=EXACT)
