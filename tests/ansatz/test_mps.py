"""Matrix product states."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise, product
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.initial import initial_parameters
from tnvmc.ansatz.mps import MPS, PeriodicMPS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.exact import exact_ground_state
from tnvmc.lattice import chain, from_bonds, square
from tnvmc.lattice.embedding import snake
from tnvmc.operators.models import heisenberg, tv
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.vmc import VMC

ROUNDING = 1e-12  # of a product of a few matrices with entries of order one

NOISE_OF_A_START = 1e-3  # of the energy: entries that simple update leaves at zero have noise


def all_configs(n_sites: int, local_dim: int = 2) -> np.ndarray:
    return np.array(list(product(range(local_dim), repeat=n_sites)), dtype=np.int8)


def dense(ansatz: PeriodicMPS, theta: np.ndarray) -> np.ndarray:
    tensors = ansatz.tensors(theta)
    configs = all_configs(ansatz.lattice.n_sites, ansatz.local_dim)
    return np.array(
        [np.trace(reduce(np.matmul, map(np.take, tensors, s, [0] * len(s)))) for s in configs]
    )


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_amplitude_is_the_trace(dtype: str) -> None:
    ansatz = PeriodicMPS(chain(6, "periodic"), 3, dtype)
    assert isinstance(ansatz, Ansatz)
    theta = ansatz.random(3, noise=1.0)
    assert theta.dtype == dtype and theta.shape == (ansatz.n_params,)
    amplitude = ansatz.log_amplitude(theta, all_configs(6))
    expected = dense(ansatz, theta)
    error = amplitude.phase * np.exp(amplitude.log_abs) - expected
    assert np.abs(error).max() < ROUNDING * np.abs(expected).max()


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32", "complex64"])
def test_conforms(dtype: str) -> None:
    ansatz = PeriodicMPS(chain(5, "periodic"), 3, dtype)
    check_ansatz(ansatz, ansatz.random(1))


def test_conforms_with_three_local_states_on_a_grid() -> None:
    ansatz = PeriodicMPS(square(2, 2), 2, "complex128", local_dim=3)
    check_ansatz(ansatz, ansatz.random(2, noise=1.0))


@pytest.mark.whole
def test_conforms_on_strict_arrays() -> None:
    ansatz = PeriodicMPS(chain(3, "periodic"), 2, "complex128")
    check_ansatz(ansatz, strict.asarray(ansatz.random(1)))


def test_conforms_on_the_chosen_backend(xp: Any) -> None:
    ansatz = PeriodicMPS(chain(3, "periodic"), 2)
    check_ansatz(ansatz, xp.asarray(ansatz.random(1)))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_every_site_closes_to_one(dtype: str) -> None:
    """psi is linear in each tensor, so sum over its entries of A * O is 1."""
    ansatz = PeriodicMPS(chain(7, "periodic"), 4, dtype)
    theta = ansatz.random(5, noise=1.0)
    configs = all_configs(7)[::9]
    per_site = (ansatz.log_derivatives(theta, configs) * theta).reshape(len(configs), 7, -1)
    np.testing.assert_allclose(per_site.sum(axis=2), 1.0, atol=ROUNDING)


@pytest.mark.parametrize("scale", [1e-5, 1e5])
def test_scale_of_the_tensors_drops_out(scale: float) -> None:
    ansatz = PeriodicMPS(chain(200, "periodic"), 3)
    theta = ansatz.random(0)
    rng = np.random.Generator(np.random.PCG64(0))
    configs = rng.integers(2, size=(5, 200), dtype=np.int8)
    one, other = (ansatz.log_amplitude(s * theta, configs) for s in (1.0, scale))
    np.testing.assert_array_equal(one.phase, other.phase)
    np.testing.assert_allclose(other.log_abs - one.log_abs, 200 * np.log(scale), rtol=1e-10)


def test_vanishing_amplitude_is_no_nan() -> None:
    ansatz = PeriodicMPS(chain(3, "periodic"), 2)
    tensors = np.zeros((3, 2, 2, 2))
    tensors[:, 0] = [[0.0, 1.0], [0.0, 0.0]]  # nilpotent
    tensors[:, 1] = np.eye(2)
    theta = ansatz.flatten(tensors)
    configs = np.array([[0, 0, 0], [1, 1, 1]], dtype=np.int8)
    amplitude = ansatz.log_amplitude(theta, configs)
    np.testing.assert_array_equal(amplitude.phase, [0.0, 1.0])
    np.testing.assert_allclose(amplitude.log_abs, [-np.inf, np.log(2)])
    assert np.isfinite(ansatz.log_derivatives(theta, configs)).all()


def test_factory_picks_by_boundary() -> None:
    assert isinstance(MPS(chain(6, "periodic"), 4), PeriodicMPS)
    for boundary in ("open", "periodic"):
        assert MPS(chain(6, boundary), 4, local_dim=3).local_dim == 3
    with pytest.raises(ValueError, match="at least 1"):
        PeriodicMPS(chain(6, "periodic"), 0)


@pytest.mark.parametrize("shape", [(3, 4), (4, 3)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_on_several_rows_its_bonds_go_along_them_and_back(
    shape: tuple[int, int], dtype: str
) -> None:
    """psi is a product of matrices in the order of the snake; no bond is truncated at chi = 1."""
    state, rng = MPS(square(*shape), 4, dtype), np.random.default_rng(0)
    theta = rng.normal(size=state.n_params).astype(dtype)
    configs = all_configs(12)[rng.integers(0, 2**12, size=20)]
    tensors, path = state.tensors(theta), snake(shape)
    found = state.log_amplitude(theta, configs)
    for config, phase, log_abs in zip(configs, found.phase, found.log_abs, strict=True):
        vector = np.ones(1)
        for here, before in zip(path, [None, *path], strict=False):
            matrix = tensors[here][config[here]]  # (up, left, down, right)
            legs = {-shape[1]: 0, -1: 1, 1: 3, None: 0}
            into = legs[None if before is None else before - here]
            matrix = np.moveaxis(matrix, into, 0)
            vector = vector @ matrix.reshape(len(vector), -1)
        assert phase * np.exp(log_abs) == pytest.approx(vector.item(), rel=ROUNDING)
    check_ansatz(state, theta)


def test_on_several_rows_it_reaches_the_ground_state() -> None:
    hamiltonian = heisenberg(square(2, 3))
    vmc = VMC(hamiltonian, MPS(hamiltonian.lattice, 8), Enumerate(threads=1))
    vmc.run(30)
    assert vmc.measure().energy == pytest.approx(exact_ground_state(hamiltonian).energy, abs=1e-4)
    with pytest.raises(ValueError, match="snake"):
        MPS(square(2, 3, vacant=[1]), 2)


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (6, 2)])
def test_on_several_rows_it_starts_as_the_chain_that_it_is(shape: tuple[int, int]) -> None:
    """Simple update in one row, laid along the snake: of couplings along it the chain's energy."""
    along = from_bonds(shape, list(pairwise(snake(shape))))
    energies = []
    for lattice in (chain(12), along):
        hamiltonian, state = heisenberg(lattice), MPS(lattice, 8)
        theta = initial_parameters(state, hamiltonian, 0, "simple_update")
        vmc = VMC(hamiltonian, state, Enumerate(threads=1), theta=theta)
        energies.append(vmc.measure().energy)
    assert energies[1] == pytest.approx(energies[0], rel=NOISE_OF_A_START)


def test_open_factory_makes_a_peps_of_one_row() -> None:
    peps = pytest.importorskip("tnvmc.ansatz.peps.state")
    assert isinstance(MPS(chain(6), 4), peps.PEPS)


def test_a_graph_is_no_peps() -> None:
    """It used to be a matrix product state along the numbering, without a word."""
    bonds = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    with pytest.raises(ValueError, match="without rows and columns"):
        PEPS(from_bonds(6, bonds), 2)
    assert PEPS(from_bonds((2, 3), bonds), 2).lattice.shape == (2, 3)
    assert MPS(from_bonds(6, bonds), 2).lattice.shape == (1, 6)
    assert PEPS(from_bonds(4, [(0, 1), (1, 2), (1, 3), (0, 3)]), 2).lattice.shape == (1, 4)


def test_a_start_of_fermions_along_a_snake_is_the_evolved_state() -> None:
    """Of a chain that is laid along the snake: -2.03 where signs of the modes were left out."""
    path = [(0, 1), (1, 2), (2, 5), (5, 4), (4, 3)]
    operator = tv(from_bonds((2, 3), path), particles=3)
    exact = exact_ground_state(operator).energy
    psi = PEPS(operator.lattice, 4, bonds="snake", fermions=operator.fermions, sharing=None)
    found = VMC(operator, psi, Enumerate(), theta=psi.initial(operator, 0)).measure().energy
    assert found == pytest.approx(exact, rel=2e-3)  # what the time step of the evolution leaves
