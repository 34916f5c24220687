"""The derived start, sweep and measure, and their parts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

from tnvmc import VMC, Enumerate, Sampler, heisenberg
from tnvmc.ansatz.checks.case import all_configs
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.generic import (
    GenericAnsatz,
    amplitude_sweep,
    as_log_amplitude,
    central_differences,
    replacement_ratios,
)
from tnvmc.ansatz.initial import initial_parameters
from tnvmc.ansatz.metropolis import acceptance, amplitude_ratio, local_states, replaced
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.protocol import Ansatz, LogAmplitude, Walkers
from tnvmc.backend.namespace import to_host
from tnvmc.backend.random import uniforms
from tnvmc.lattice import Lattice, chain, square
from tnvmc.sampling.moves import flips


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


@pytest.mark.whole
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("zeros", [0, 7])
def test_any_wave_function_conforms(dtype: Any, zeros: int) -> None:
    ansatz = Table(square(2, 2))
    assert isinstance(ansatz, Ansatz)
    check_ansatz(ansatz, random_state(16, dtype, zeros=zeros), seed=zeros)


def test_three_local_states_conform() -> None:
    ansatz = Table(chain(3), local_dim=3)
    check_ansatz(ansatz, random_state(27, np.float64))


@pytest.mark.whole
def test_a_walker_visits_everything_where_psi_is_constant() -> None:
    """With min(1, |psi'/psi|^2) a sweep was a map without chance: 2 of 512 in 3000 sweeps."""

    def constant(configs: Any) -> LogAmplitude:
        return LogAmplitude(np.ones(len(configs)), np.zeros(len(configs)))

    walkers = Walkers(np.zeros((8, 9), np.int8), constant(np.zeros((8, 9))))
    moves, seen = flips(square(3, 3)), set()
    for sweep in range(400):
        numbers = uniforms(0, (0, sweep), range(8), 9)
        walkers, _ = amplitude_sweep(constant, 2, walkers, moves, numbers)
        seen |= {config.tobytes() for config in walkers.configs}
    # Of 3200 draws that were independent, exp(-3200/512) of the configurations would be missing: 1.
    assert len(seen) > 500


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


class TwoMethods(GenericAnsatz):
    """The least that a wave function is: ln psi = (a + i b) . s + c s_0 s_1, with psi = 0 at all up."""

    def random(self, seed: int) -> Any:
        return 0.3 * np.random.default_rng(seed).normal(size=2 * self.lattice.n_sites + 1)

    def log_amplitude(self, theta: Any, configs: Any) -> LogAmplitude:
        n_sites, spins = self.lattice.n_sites, 1.0 - 2.0 * configs
        phase = np.exp(1j * (spins @ theta[n_sites:-1]))
        log_abs = spins @ theta[:n_sites] + theta[-1] * spins[:, 0] * spins[:, 1]
        nowhere = np.sum(configs, axis=1) == 0
        return LogAmplitude(np.where(nowhere, 0, phase), np.where(nowhere, -np.inf, log_abs))


def test_two_methods_and_a_lattice_are_enough() -> None:
    ansatz = TwoMethods(square(2, 2))
    assert (ansatz.n_params, ansatz.local_dim, ansatz.dtype) == (9, 2, np.float64)
    check_ansatz(ansatz, ansatz.random(1))


def test_central_differences() -> None:
    ansatz = TwoMethods(chain(4))
    theta, configs = ansatz.random(2), all_configs(4, 2)
    spins = 1.0 - 2.0 * configs
    expected = np.concatenate([spins, 1j * spins, spins[:, :1] * spins[:, 1:2]], axis=1)
    expected[0] = 0
    error = np.abs(ansatz.log_derivatives(theta, configs) - expected).max()
    assert error < 20 * np.finfo(float).eps ** (2 / 3)  # |ln psi| up to 10, linear in theta


def test_central_differences_of_complex_parameters() -> None:
    """A holomorphic psi, curved in theta: MPS of D = 2 against their own derivatives."""
    ansatz = PeriodicMPS(chain(4), 2, "complex128")
    theta, configs = ansatz.random(1), all_configs(4, 2)
    found = central_differences(ansatz.log_amplitude, theta, configs)
    expected = ansatz.log_derivatives(theta, configs)
    scale = np.abs(expected).max()
    assert np.abs(found - expected).max() < 1e-9 * max(scale**3, 1)


def test_a_state_of_ones_own_in_a_run(tmp_path: Path) -> None:
    operator = heisenberg(square(2, 2))
    ansatz = TwoMethods(operator.lattice)
    vmc = VMC(operator, ansatz, Enumerate(), learning_rate=0.05)
    assert np.array_equal(vmc.theta, ansatz.random(0))
    history = vmc.run(5)
    assert history[-1].energy < history[0].energy
    vmc.save(tmp_path / "mine.h5")
    again = VMC(operator, ansatz, Enumerate(), learning_rate=0.05)
    again.restore(tmp_path / "mine.h5")
    assert np.array_equal(again.theta, vmc.theta)
    assert again.run(1)[0].energy == vmc.run(1)[0].energy
    start = initial_parameters(ansatz, operator, 0, str(tmp_path / "mine.h5"))
    assert start.shape == vmc.theta.shape
    chains = VMC(operator, ansatz, Sampler(8, 32), theta=vmc.theta)
    chains.run(1)
    assert np.isfinite(chains.measure(n_samples=64).energy)
    assert np.isfinite(chains.expect(operator).mean)


@pytest.mark.parametrize(
    "given",
    [(1.0, 0.0), LogAmplitude(1.0, 0.0), LogAmplitude(np.ones((6, 1)), np.zeros((6, 1)))],
    ids=["tuple", "numbers", "columns"],
)
def test_amplitudes_of_another_shape_are_refused_in_a_line(given: Any) -> None:
    class Wrong(TwoMethods):
        def log_amplitude(self, theta: Any, configs: Any) -> Any:
            return given

    hamiltonian = heisenberg(chain(4, "periodic"))
    with pytest.raises(TypeError, match=r"Wrong.log_amplitude: must give LogAmplitude"):
        VMC(hamiltonian, Wrong(hamiltonian.lattice), Enumerate(threads=1)).run(1)


@pytest.mark.parametrize("given", [[0.1, 0.2], np.ones(2, int), np.ones((2, 2))])
def test_parameters_of_another_kind_are_refused_in_a_line(given: Any) -> None:
    class Wrong(TwoMethods):
        def random(self, seed: int) -> Any:
            return given

    with pytest.raises(TypeError, match=r"Wrong.random: must give an array \(P,\)"):
        Wrong(chain(4, "periodic")).n_params  # noqa: B018


@pytest.mark.parametrize(("modulus", "log"), [(0.5, 0.0), (1.0, 0j)], ids=["modulus", "complex"])
def test_a_modulus_belongs_into_the_logarithm(modulus: float, log: complex) -> None:
    """psi = phase exp(log_abs) with another modulus gave energies of another state without a word."""

    class Wrong(TwoMethods):
        def log_amplitude(self, theta: Any, configs: Any) -> Any:
            n = len(configs)
            return LogAmplitude(np.full(n, modulus), np.full(n, log))

    hamiltonian = heisenberg(chain(4, "periodic"))
    with pytest.raises(TypeError, match="phase must have modulus 1"):
        VMC(hamiltonian, Wrong(hamiltonian.lattice), Enumerate(threads=1)).run(1)
