"""Fermions are sampled in their sector: enumeration and chains against the dense matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tnvmc import VMC, DirectSampler, Enumerate, Jastrow, ProductState, Sampler
from tnvmc.lattice import square
from tnvmc.operators.models import hubbard, tj, tv
from tnvmc.operators.term import Operator
from tnvmc.sampling.configurations import check_configs, initial_configs, magnetisation_of
from tnvmc.sampling.moves import check_reach, exchanges, moves_for
from tnvmc.sampling.problem import Point, Problem

LATTICE = square(2, 3)
MODELS = {
    "tv": tv(LATTICE, 1.0, 2.0, particles=3),
    "hubbard": hubbard(LATTICE, 1.0, 4.0, particles=(3, 2)),
    "tj": tj(LATTICE, 1.0, 0.4, particles=(2, 1)),
}


def theta_of(ansatz: Any) -> np.ndarray:
    theta: np.ndarray = 0.2 * np.random.default_rng(0).normal(size=ansatz.n_params)
    return theta


def dense_energy(ansatz: Any, theta: np.ndarray, operator: Operator) -> float:
    states = operator.states(operator.magnetisation)
    amplitude = ansatz.log_amplitude(theta, states.configs(states.codes))
    psi = amplitude.phase * np.exp(amplitude.log_abs)
    return float(psi @ (operator.sparse(operator.magnetisation) @ psi) / (psi @ psi))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("state", [ProductState, Jastrow])
@pytest.mark.filterwarnings("ignore::tnvmc.UnreliableWarning")
def test_energies_are_those_of_the_matrix(model: str, state: Any) -> None:
    operator = MODELS[model]
    ansatz = state(LATTICE, local_dim=operator.local_dim)
    theta = theta_of(ansatz)
    expected = dense_energy(ansatz, theta, operator)
    exact = VMC(operator, ansatz, Enumerate(), theta=theta).measure(progress=False)
    assert exact.energy == pytest.approx(expected, abs=1e-12)
    sampler = Sampler(n_samples=4000, n_walkers=200, threads=1)
    chains = VMC(operator, ansatz, sampler, theta=theta).measure(progress=False)
    assert chains.particles == exact.particles == operator.strings.particles(operator.magnetisation)  # type: ignore[union-attr]
    assert abs(chains.energy - expected) < 4 * chains.energy_error


@pytest.mark.parametrize("model", MODELS)
def test_walkers_start_anywhere_in_the_sector(model: str) -> None:
    operator = MODELS[model]
    configs = initial_configs(operator, 2000, 0)
    check_configs(operator, configs, 2000)
    assert magnetisation_of(operator, configs) == operator.magnetisation
    seen, counts = np.unique(configs, axis=0, return_counts=True)
    dimension = operator.states(operator.magnetisation).dimension
    assert len(seen) == dimension
    assert ((counts - 2000 / dimension) ** 2).sum() / (2000 / dimension) < 1.5 * dimension


@pytest.mark.parametrize("model", MODELS)
def test_moves_keep_all_numbers_and_reach_all(model: str) -> None:
    operator = MODELS[model]
    moves = moves_for(operator)
    check_reach(operator, moves)
    weights = operator.strings.weights  # type: ignore[union-attr]
    totals = np.add.outer(weights, weights).ravel()
    for table in moves.values():
        rows, columns = np.nonzero(table >= 0)
        np.testing.assert_array_equal(totals[rows], totals[table[rows, columns]])


def test_moves_of_hubbard_that_only_exchange_states_do_not_reach_all() -> None:
    operator = MODELS["hubbard"]
    swap = np.full((16, 1), -1)
    for a in range(4):
        for b in range(4):
            if a != b:
                swap[4 * a + b, 0] = 4 * b + a
    with pytest.raises(ValueError):
        check_reach(operator, dict.fromkeys(LATTICE.bonds["nearest"], swap))
    with pytest.raises(ValueError):  # of digits, not of particles
        check_reach(operator, exchanges(LATTICE, LATTICE.bonds["nearest"], 4))


def test_what_cannot_be_sampled() -> None:
    operator = tv(LATTICE)
    ansatz = ProductState(LATTICE)
    with pytest.raises(ValueError):
        initial_configs(operator, 2, 0)
    with pytest.raises(ValueError):
        initial_configs(operator, 2, 0, 99)
    with pytest.raises(ValueError):
        check_configs(operator, np.array([[0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1]]), 2)
    with pytest.raises(ValueError):
        DirectSampler(4).draw(Problem.of(MODELS["tv"], ansatz), Point(np.ones(12), None), 0)
