"""The derived start, sweep and measure, and their parts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.generic import (
    GenericAnsatz,
    acceptance,
    amplitude_ratio,
    as_log_amplitude,
    local_states,
    propose,
    replaced,
    replacement_ratios,
)
from tnvmc.ansatz.protocol import Ansatz, LogAmplitude
from tnvmc.backend.namespace import to_host
from tnvmc.lattice import Lattice, chain, square


@dataclass(frozen=True)
class Table(GenericAnsatz):
    """psi(s) = theta[s]: every wave function, one parameter per configuration."""

    lattice: Lattice
    local_dim: int = 2

    @property
    def n_params(self) -> int:
        return self.local_dim**self.lattice.n_sites

    def random(self, seed: int) -> Any:
        return random_state(self.n_params, np.float64, seed)

    def places(self, configs: Any) -> Any:
        return local_states(configs, tuple(range(self.lattice.n_sites)), self.local_dim)

    def log_amplitude(self, theta: Any, configs: Any) -> LogAmplitude:
        values = theta[self.places(configs)]
        return as_log_amplitude(values, np.zeros(len(values)))

    def log_derivatives(self, theta: Any, configs: Any) -> Any:
        rows = np.eye(self.n_params)[self.places(configs)]
        values = theta[self.places(configs)][:, None]
        return np.where(values == 0, 0, rows / np.where(values == 0, 1, values))


def random_state(size: int, dtype: Any, seed: int = 0, zeros: int = 0) -> np.ndarray:
    rng = np.random.Generator(np.random.PCG64(seed))
    psi = rng.normal(size=size) + 1j * rng.normal(size=size)
    psi[rng.permutation(size)[:zeros]] = 0
    return (psi if np.issubdtype(dtype, np.complexfloating) else psi.real).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("zeros", [0, 7])
def test_any_wave_function_conforms(dtype: Any, zeros: int) -> None:
    ansatz = Table(square(2, 2))
    assert isinstance(ansatz, Ansatz)
    check_ansatz(ansatz, random_state(16, dtype, zeros=zeros), seed=zeros)


def test_three_local_states_conform() -> None:
    ansatz = Table(chain(3), local_dim=3)
    check_ansatz(ansatz, random_state(27, np.float64))


def test_local_states_and_replaced_are_inverse() -> None:
    configs = np.array(list(product(range(3), repeat=4)), dtype=np.int8)
    patch = (0, 2, 3)
    states = local_states(configs, patch, 3)
    assert states.dtype == np.int64
    np.testing.assert_array_equal(states, configs[:, [0, 2, 3]] @ np.array([9, 3, 1]))
    np.testing.assert_array_equal(replaced(configs, patch, states, 3), configs)
    other = replaced(configs, patch, states[::-1], 3)
    np.testing.assert_array_equal(local_states(other, patch, 3), states[::-1])
    np.testing.assert_array_equal(other[:, 1], configs[:, 1])


def test_local_states_of_small_integers_do_not_overflow() -> None:
    configs = np.full((1, 4), 3, dtype=np.int8)
    assert local_states(configs, (0, 1, 2, 3), 4) == [255]


def test_propose_uses_one_uniform_for_choice_and_acceptance() -> None:
    table = np.array([[5, 6, -1], [7, 8, 9]])
    target, remainder = propose(table, np.array([0, 0, 1, 1]), np.array([0.0, 0.5, 0.9, 0.1]))
    np.testing.assert_array_equal(target, [5, 6, 9, 7])
    np.testing.assert_allclose(remainder, [0.0, 0.5, 0.7, 0.3])
    last, _ = propose(table, np.array([0]), np.array([1 - 2.0**-53]))
    assert last == [-1]


def test_acceptance_and_ratio_where_psi_vanishes() -> None:
    zero = (0.0, -np.inf)
    old = LogAmplitude(*map(np.array, zip((1.0, 0.3), (-1.0, 0.0), zero, zero, strict=True)))
    new = LogAmplitude(*map(np.array, zip((-1.0, 0.2), zero, (1.0, 9.0), zero, strict=True)))
    np.testing.assert_allclose(acceptance(new, old), [np.exp(-0.2), 0.0, 1.0, 0.5])
    np.testing.assert_allclose(amplitude_ratio(new, old), [-np.exp(-0.1), 0.0, 0.0, 0.0])


def test_ratios_of_tiny_amplitudes_stay_finite_when_squared() -> None:
    old = LogAmplitude(np.array([1.0]), np.array([-2000.0]))
    new = LogAmplitude(np.array([1.0]), np.array([0.0]))
    assert np.isfinite(amplitude_ratio(new, old) ** 2)
    assert acceptance(new, old) == [1.0]
    assert acceptance(old, new) == [0.0]


def test_replacement_ratios_do_not_depend_on_the_batch() -> None:
    ansatz, theta = Table(chain(4)), random_state(16, np.complex128)
    configs = np.array(list(product(range(2), repeat=4)), dtype=np.int8)
    tables = {
        (0, 1): np.array([[-1], [2], [1], [-1]]),
        (3,): np.array([[1], [0]]),
        (1, 2): np.full((4, 2), -1),
    }
    amplitude = ansatz.log_amplitude(theta, configs)
    results = [
        replacement_ratios(
            lambda c: ansatz.log_amplitude(theta, c), configs, amplitude, tables, 2, n
        )
        for n in (1, 5, 2048)
    ]
    for ratios in results:
        for patch in tables:
            np.testing.assert_array_equal(ratios[patch], results[0][patch])
    flip = replaced(configs, (3,), 1 - configs[:, 3].astype(np.int64), 2)
    expected = theta[ansatz.places(flip)] / theta[ansatz.places(configs)]
    np.testing.assert_allclose(results[0][(3,)][:, 0], expected, rtol=1e-13)
    assert not results[0][(1, 2)].any()


def test_nothing_to_replace_gives_zeros() -> None:
    ansatz, theta = Table(chain(2)), random_state(4, np.float64)
    walkers = ansatz.start(theta, np.zeros((3, 2), dtype=np.int8))
    exchange = {(0, 1): np.array([[-1], [2], [1], [-1]])}
    _, snapshot = ansatz.measure(theta, walkers, exchange, jacobian=False)
    np.testing.assert_array_equal(snapshot.ratios[(0, 1)], np.zeros((3, 1)))
    assert ansatz.measure(theta, walkers, {}, jacobian=False)[1].ratios == {}


def test_a_walker_outside_the_support_finds_it() -> None:
    ansatz = Table(chain(6))
    theta = np.zeros(64)
    theta[0b010101] = theta[0b101010] = 1.0
    rng = np.random.Generator(np.random.PCG64(1))
    walkers = ansatz.start(theta, np.tile(np.array([[0, 0, 0, 1, 1, 1]], dtype=np.int8), (8, 1)))
    exchange = np.array([[-1], [2], [1], [-1]])
    moves = {(i, i + 1): exchange for i in range(5)}
    for _ in range(60):
        walkers, _ = ansatz.sweep(theta, walkers, moves, rng.random((8, 5)))
    np.testing.assert_array_equal(np.abs(walkers.amplitude.phase), np.ones(8))


def test_parts_run_on_strict_arrays() -> None:
    amplitude = as_log_amplitude(strict.asarray([2.0, 0.0, -1.0]), strict.asarray([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(to_host(amplitude.log_abs), [np.log(2), -np.inf, 2.0])
    other = as_log_amplitude(strict.asarray([1.0, 1.0, 0.0]), strict.asarray([0.0, 0.0, 0.0]))
    np.testing.assert_allclose(to_host(amplitude_ratio(other, amplitude)), [0.5, 0.0, 0.0])
    np.testing.assert_allclose(to_host(acceptance(other, amplitude)), [0.25, 1.0, 0.0])
