"""Slater determinants against products of dense creation operators, and against exact energies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flax import nnx

from tests import oracles
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.jastrow import Jastrow
from tnvmc.ansatz.load_state import load_state
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.rbm import RBM
from tnvmc.ansatz.slater import Slater
from tnvmc.ansatz.wrappers.product_of_states import ProductOfStates
from tnvmc.backend.namespace import to_host
from tnvmc.estimate.observables import local_energy
from tnvmc.lattice import square
from tnvmc.operators.fermions import HUBBARD, SPINLESS, T_J, mode_order
from tnvmc.operators.models import heisenberg, hubbard, tj, tv
from tnvmc.sampling.enumerate import Enumerate, born_weights
from tnvmc.session.vmc import VMC
from tnvmc.storage.hdf5 import StateFileError

ROUNDING = 1e-12  # of determinants of a few rows of order one
CONVERGED = 1e-6  # of mean fields after their rounds, and of steps without noise

FERMIONS = {2: SPINLESS, 3: T_J, 4: HUBBARD}
STATES = (
    Slater(square(2, 2), 2),
    Slater(square(2, 3), 3),
    Slater(square(2, 3), 4, "complex128"),
    Slater(square(2, 2), (2, 1)),
    Slater(square(2, 2), (2, 2), "complex128"),
    Slater(square(2, 3), (2, 1)),
    Slater(square(2, 2), (2, 0)),
    Slater(square(2, 2), (1, 2), local_dim=3),
)


def dense(state: Slater, theta: np.ndarray) -> np.ndarray:
    """psi of all configurations: creation operators of the orbitals on the vacuum, mode by mode.

    Modes: sites in their order, on each up before down; all up orbitals stand before the down ones.
    """
    order, held = mode_order(state.lattice), FERMIONS[state.local_dim].numbers
    n_modes = len(order) * len(held)
    raising, parity = np.array([[0.0, 0.0], [1.0, 0.0]]), np.diag([1.0, -1.0])

    def creator(mode: int) -> np.ndarray:
        found = np.eye(1)
        for k in range(n_modes):
            found = np.kron(found, parity if k < mode else raising if k == mode else np.eye(2))
        return found

    vector = np.eye(2**n_modes, dtype=complex)[0]
    for k in reversed(range(len(held))):
        for orbital in reversed(state.orbitals(theta)[k].T):
            vector = sum(
                orbital[site] * (creator(rank * len(held) + k) @ vector)
                for rank, site in enumerate(order)
            )
    found = []
    for config in oracles.all_configs(len(order), state.local_dim):
        digits = [held[k][config[site]] for site in order for k in range(len(held))]
        found.append(vector[oracles.config_index(digits)])
    return np.array(found)


@pytest.mark.parametrize("state", STATES, ids=lambda state: f"{state.numbers}, {state.dtype}")
def test_amplitudes(state: Slater, xp: Any) -> None:
    theta, configs = state.random(1), oracles.all_configs(state.lattice.n_sites, state.local_dim)
    assert theta.shape == (state.n_params,) and theta.dtype == state.dtype
    found = state.log_amplitude(xp.asarray(theta), xp.asarray(configs))
    expected = dense(state, theta)
    psi = to_host(found.phase) * np.exp(to_host(found.log_abs))
    np.testing.assert_allclose(psi, expected, atol=ROUNDING)
    assert ((to_host(found.phase) == 0) == (expected == 0)).all()


@pytest.mark.whole
@pytest.mark.parametrize("state", STATES, ids=lambda state: f"{state.numbers}, {state.dtype}")
def test_conforms(state: Slater, xp: Any) -> None:
    check_ansatz(state, xp.asarray(state.random(2)))


def slater(operator: Any, dtype: str = "float64") -> Slater:
    particles = operator.strings.particles(operator.magnetisation)
    return Slater(operator.lattice, particles, dtype, operator.local_dim)


def energy(operator: Any, state: Any, theta: np.ndarray) -> tuple[float, float]:
    """Mean and variance of the local energy over all configurations of the sector."""
    basis = operator.states(operator.magnetisation)
    walkers = state.start(theta, basis.configs(basis.codes))
    snapshot = state.measure(theta, walkers, operator.targets, jacobian=False)[1]
    weight, local = born_weights(snapshot.amplitude), local_energy(operator, snapshot)
    mean = np.sum(weight * local)
    assert abs(mean.imag) < ROUNDING
    return mean.real, np.sum(weight * np.abs(local - mean) ** 2)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(
    ("operator", "exact"),
    [
        (tv(square(3, 4), V=0, particles=6), -8.30056308),
        (hubbard(square(2, 3), U=0, particles=(3, 3)), -7.65685425),
        (hubbard(square(2, 2), U=0, t2=0.3, mu=0.5, particles=(2, 1)), None),
    ],
)
def test_free_fermions_are_exact_at_the_start(operator: Any, exact: float, dtype: str) -> None:
    if exact is None:
        exact = np.linalg.eigvalsh(operator.sparse(operator.magnetisation).toarray())[0]
    state = slater(operator, dtype)
    found, variance = energy(operator, state, state.initial(operator))
    assert found == pytest.approx(exact, abs=1e-8) and variance < ROUNDING


@pytest.mark.parametrize(
    ("operator", "lowest"),
    [
        (tv(square(3, 3), V=2, particles=4), -3.40900876),
        (tv(square(3, 4), V=2, particles=6), -3.78575853),
        (hubbard(square(2, 3), U=8, particles=(3, 3)), -1.68259207),
    ],
)
def test_the_start_is_the_lowest_mean_field(operator: Any, lowest: float) -> None:
    """The energies are those of many descents without noise from random orbitals."""
    state = slater(operator)
    for seed in range(3):
        found = energy(operator, state, state.initial(operator, seed))[0]
        assert found == pytest.approx(lowest, abs=CONVERGED)


def descended(operator: Any, state: Any, steps: int, theta: Any = None) -> float:
    vmc = VMC(operator, state, Enumerate(), theta=theta)
    vmc.run(steps)
    return float(vmc.measure().energy)


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_random_orbitals_descend_to_the_mean_field(dtype: str) -> None:
    operator = tv(square(2, 3), V=2, particles=3)
    state = slater(operator, dtype)
    lowest = energy(operator, state, state.initial(operator))[0]
    found = min(descended(operator, state, 60, state.random(seed)) for seed in range(2))
    assert found == pytest.approx(lowest, abs=CONVERGED)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("operator", "exact", "within"),
    [
        (tv(square(3, 3), V=2, particles=4), -3.51293171, 3e-3),
        (hubbard(square(2, 3), U=8, particles=(3, 3)), -2.17779355, 0.22),
    ],
)
def test_times_another_state(operator: Any, exact: float, within: float) -> None:
    """How near positive factors come: signs stay those of determinants, which move with them."""
    lattice, d = operator.lattice, operator.local_dim

    def machine(rngs: nnx.Rngs) -> RBM:
        return RBM(lattice, dtype="float64", local_dim=d, rngs=rngs)

    alone = energy(operator, slater(operator), slater(operator).initial(operator))[0]
    for other in (Jastrow(lattice, local_dim=d), FlaxAnsatz(lattice, machine, local_dim=d)):
        found = descended(operator, ProductOfStates(slater(operator), other), 50)
        assert exact < found < min(exact + within, alone - 0.05)


def test_projected_determinants_start_low() -> None:
    """t-J: no site holds two; the energy lies above the exact one."""
    operator = tj(square(2, 3), particles=(2, 2))
    found = energy(operator, slater(operator), slater(operator).initial(operator))[0]
    exact = np.linalg.eigvalsh(operator.sparse(operator.magnetisation).toarray())[0]
    assert exact < found < 0.8 * exact


def test_what_is_saved_is_made_again(tmp_path: Path) -> None:
    for number, state in enumerate(STATES):
        theta = state.random(3)
        state.save(tmp_path / f"{number}.h5", theta)
        again, found = load_state(tmp_path / f"{number}.h5")
        assert again.description() == state.description() and again.dtype == state.dtype
        np.testing.assert_array_equal(found, theta)
        with pytest.raises(StateFileError):
            Slater(square(2, 3), 5).load_theta(tmp_path / f"{number}.h5")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Slater(square(2, 2), 5),
        lambda: Slater(square(2, 2), (5, 0)),
        lambda: Slater(square(2, 2), 0),
        lambda: Slater(square(2, 2), (3, 3), local_dim=3),
        lambda: Slater(square(2, 2), 2, local_dim=4),
        lambda: Slater(square(2, 2), 2, local_dim=5),
        lambda: Slater(square(2, 2), (1, 1, 1)),
        lambda: Slater(square(2, 2), 2, dtype="int64"),
        lambda: Slater(square(2, 2), 2).initial(heisenberg(square(2, 2))),
        lambda: Slater(square(2, 2), 2).initial(hubbard(square(2, 2), particles=(1, 1))),
        lambda: Slater(square(2, 2), 2).initial(tv(square(2, 2), particles=3)),
        lambda: Slater(square(2, 2), 2).initial(tv(square(2, 2)), 0, "simple_update"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any) -> None:
    with pytest.raises(ValueError):
        make()
