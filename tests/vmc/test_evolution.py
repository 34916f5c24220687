"""Real and imaginary time against exp(-iHt) and exp(-Ht) of dense matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.oracles import all_configs, dense_hamiltonian
from tnvmc import (
    PEPS,
    VMC,
    DirectSampler,
    Enumerate,
    Exact,
    Sampler,
    TimeEvolution,
    product_parameters,
    sharing,
    square,
    symmetry_group,
    tfim,
    xxz,
)
from tnvmc.ansatz.peps.starts.initial import SHARED_OPENING
from tnvmc.jacobian.dense import DenseJacobian
from tnvmc.jacobian.repeated import RepeatedJacobian
from tnvmc.storage.hdf5 import StateFileError

SITES, H = 4, 2.0
LATTICE = square(2, 2)
MATRIX = dense_hamiltonian(tfim(LATTICE, h=H))
MEAN_X = dense_hamiltonian(tfim(LATTICE, J=0.0, h=-1.0 / SITES))


def made(rule: TimeEvolution, sampler: Any = None, dtype: str = "complex128") -> VMC:
    """A quench from h = infinity."""
    psi = PEPS(LATTICE, D=2, dtype=dtype, sharing=None)
    theta = product_parameters(psi, [1, 1])
    return VMC(tfim(LATTICE, h=H), psi, sampler or Enumerate(), rule, theta=theta)


def vector(vmc: VMC) -> np.ndarray:
    """Psi, normalised, in the order of the dense matrices."""
    psi = vmc.ansatz.log_amplitude(vmc.theta, all_configs(SITES))
    values = np.exp(psi.log_abs) * psi.phase
    return values / np.linalg.norm(values)


def evolved(factor: complex, t: float) -> np.ndarray:
    energies, states = np.linalg.eigh(MATRIX)
    plus = np.full(2**SITES, 2.0 ** (-SITES / 2))
    psi = states @ (np.exp(factor * energies * t) * (states.T @ plus))
    return psi / np.linalg.norm(psi)


def mean(psi: np.ndarray) -> float:
    return float((psi.conj() @ MEAN_X @ psi).real)


def test_a_product_start_is_the_product_state() -> None:
    vmc = made(TimeEvolution())
    assert abs(vector(vmc) @ evolved(0, 0)) == pytest.approx(1, abs=1e-12)


def test_a_product_start_of_shared_tensors_opens_all_bonds() -> None:
    """By a little noise: what it adds to psi is of second order in SHARED_OPENING, 4 bonds."""
    operator = tfim(square(2, 2), h=H)
    psi = PEPS(LATTICE, D=2, dtype="complex128", sharing=sharing(operator), scheme=Exact())
    rule = TimeEvolution(step=0.1, observables=("X", "Z"))
    vmc = VMC(operator, psi, Enumerate(), rule, theta=product_parameters(psi, [1, 1]))
    off = np.sqrt(2 - 2 * abs(vector(vmc) @ evolved(0, 0)))
    assert off < 10 * np.sqrt(4) * SHARED_OPENING**2
    history = vmc.run(4)
    exact = evolved(-1j, 0.3)
    bound = history.column("error_bound")[-1] + off
    distance = np.sqrt(2 - 2 * abs(vector(vmc).conj() @ exact))
    assert distance < bound < 0.01
    assert history.column("X")[-1] == pytest.approx(mean(exact), abs=2 * bound)
    assert history.column("Z")[-1] == pytest.approx(0, abs=2 * bound)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-5])
def test_real_time_is_exact_within_its_own_bound(tolerance: float) -> None:
    vmc = made(TimeEvolution(step=0.1, tolerance=tolerance, observables=("X",)))
    history = vmc.run(4)
    exact = evolved(-1j, 0.3)
    overlap = abs(vector(vmc).conj() @ exact)
    bound = history.column("error_bound")[-1]
    assert np.sqrt(max(2 - 2 * overlap, 0)) < bound < 5 * tolerance ** (2 / 3)
    assert history.column("X")[-1] == pytest.approx(mean(exact), abs=2 * bound)
    np.testing.assert_allclose(history.column("time"), [0, 0.1, 0.2, 0.3])
    drift = abs(history.column("energy") - history[0].energy)
    assert drift.max() < 2 * bound * np.linalg.norm(MATRIX, 2)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_imaginary_time_is_exact(dtype: str) -> None:
    vmc = made(TimeEvolution(step=0.2, tolerance=1e-4, imaginary=True), dtype=dtype)
    vmc.run(4)
    assert abs(vector(vmc).conj() @ evolved(-1, 0.6)) > 1 - 1e-6


def test_samples_give_the_same_within_their_errors() -> None:
    sampler = Sampler(n_samples=2048, n_walkers=64)
    vmc = made(TimeEvolution(step=0.1, tolerance=3e-3, observables=["X"]), sampler)
    last = vmc.run(3)[-1].optimizer
    # Noise of the steps adds to that of the mean: three errors of both together.
    assert abs(last["X"] - mean(evolved(-1j, 0.2))) < 3 * np.sqrt(2) * last["X_error"] + 3e-3
    assert 0 < last["X_error"] < 0.02


def test_few_samples_are_solved_by_samples() -> None:
    """Both spaces give the same velocity where no direction is cut."""
    rng, rule = np.random.default_rng(0), TimeEvolution(signal=0, cutoff=1e-8)
    for n_samples, n_params in ((12, 20), (20, 12)):
        jacobian, energy = (
            rng.normal(size=shape) + 1j * rng.normal(size=shape)
            for shape in ((n_samples, n_params), n_samples)
        )
        theta = np.zeros(n_params, complex)
        found = rule.direction(theta, DenseJacobian(jacobian), energy, None, {})[0]
        centred = jacobian - jacobian.mean(axis=0)
        expected = np.linalg.pinv(centred, rcond=1e-4) @ (energy - energy.mean())
        np.testing.assert_allclose(found, 1j * expected, atol=1e-10)


def test_real_parameters_are_refused_in_real_time() -> None:
    with pytest.raises(ValueError, match="complex128"):
        made(TimeEvolution(), dtype="float64")


def test_time_has_no_learning_rate() -> None:
    vmc = made(TimeEvolution())
    with pytest.raises(ValueError, match="learning_rate"):
        VMC(vmc.operator, vmc.ansatz, Enumerate(), TimeEvolution(), learning_rate=0.1)


def test_a_product_start_is_of_a_peps() -> None:
    psi = PEPS(square(2, 2), D=2, sharing=None)
    with pytest.raises(ValueError, match="PEPS"):
        product_parameters(object(), [1, 1])
    assert product_parameters(psi, [1, 1]).dtype == np.float64
    with pytest.raises(ValueError, match="psi = 0"):
        product_parameters(psi, [1, 0])


def test_observables_are_of_the_sector_of_the_samples() -> None:
    operator = xxz(square(2, 2), Jz=0.3)
    psi = PEPS(operator.lattice, D=2, dtype="complex128", sharing=None)
    rule = TimeEvolution(step=0.1, observables=["Sx", "Sz"])
    vmc = VMC(operator, psi, Enumerate(), rule, theta=product_parameters(psi, [1, 1]))
    record = vmc.step()
    assert record.optimizer["Sx"] == 0
    assert abs(record.optimizer["Sz"]) < 1e-12


def test_noise_of_a_fit_without_rest_cuts_nothing() -> None:
    """What the samples have not seen is told by the rest of the fit, not by the local energies."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(60, 8)) + 1j * rng.normal(size=(60, 8))
    theta, rule = np.zeros(8, complex), TimeEvolution()
    for rest, noisy in ((0.0, False), (3.0, True)):
        energy = rows[:, 0] + rest * rng.normal(size=60)
        info = rule.direction(theta, DenseJacobian(rows), energy, None, rule.init(theta))[2]
        assert (info["noise"] > 1e-6, info["rank"] < 7.9) == (noisy, noisy)


def test_equal_samples_count_as_samples() -> None:
    """Rows that stand for several samples have the noise of these."""
    rng, rule, theta = np.random.default_rng(2), TimeEvolution(signal=0), np.zeros(3, complex)
    rows = DenseJacobian(rng.normal(size=(30, 3)) + 1j * rng.normal(size=(30, 3)))
    which, energy = np.repeat(np.arange(30), 4), rng.normal(size=30)
    merged = RepeatedJacobian(rows, which)
    apart = DenseJacobian(rows.dense()[which])
    one, other = (
        rule.direction(theta, each, energy[which], None, {})[2]["noise"] for each in (merged, apart)
    )
    assert one == pytest.approx(other)


def test_means_of_orbits_are_those_of_all_configurations() -> None:
    """Orbits of the Hamiltonian are none of <Sz>: it is measured on all configurations."""
    pytest.importorskip("flax")
    from tnvmc import RBM, FlaxAnsatz, symmetry_group

    operator = tfim(LATTICE, h=H)
    psi = FlaxAnsatz(
        LATTICE,
        lambda rngs: RBM(LATTICE, alpha=2, rngs=rngs),
        group=symmetry_group(operator, ("point", "spin")),
    )
    rule = TimeEvolution(step=0.1, observables=["Sx", "Sz"])
    vmc = VMC(operator, psi, Enumerate(), rule, theta=psi.random(0))
    last = vmc.step().optimizer
    assert last["Sz"] == pytest.approx(0, abs=1e-12)
    assert last["Sx"] == pytest.approx(float(vmc.expect(tfim(LATTICE, J=0, h=-1 / 8)).mean))


def test_walkers_stand_where_psi_is_at_the_first_time() -> None:
    # An easy-axis magnet: one sweep from random places leaves domains, and an error of 2.7.
    model = xxz(square(4, 4), 1.0, 3.0)
    psi = PEPS(model.lattice, D=2, dtype="complex128", sharing=None)
    start = VMC(model, psi, Enumerate())
    vmc = VMC(model, psi, Sampler(1024, 1024, power=1), TimeEvolution(), theta=start.theta)
    record = vmc.step()
    assert record.energy_error < 0.1
    assert abs(record.energy - start.measure().energy) < 4 * record.energy_error


def test_observables_of_direct_draws_are_not_those_of_orbits() -> None:
    pytest.importorskip("flax")
    from tnvmc import RNN, FlaxAnsatz

    model = tfim(LATTICE, h=H)
    group = symmetry_group(model, ["spin"])
    psi = FlaxAnsatz(LATTICE, lambda rngs: RNN(LATTICE, hidden=4, rngs=rngs), group=group)
    rule = TimeEvolution(imaginary=True, observables=["Sz"])
    told = VMC(model, psi, DirectSampler(1000), rule, theta=psi.random(1)).step().optimizer
    assert abs(told["Sz"]) < 4 * told["Sz_error"]  # the average is even


def test_another_step_cannot_go_on_from_a_file(tmp_path: Path) -> None:
    made(TimeEvolution(step=0.1)).save(tmp_path / "at.h5")
    with pytest.raises(StateFileError):
        made(TimeEvolution(step=0.05)).restore(tmp_path / "at.h5")


def test_a_product_on_rings_of_odd_length() -> None:
    lattice = square(2, 3, "cylinder")
    psi = PEPS(lattice, 2, "complex128", bonds="periodic", scheme=Exact(), sharing=None)
    amplitudes = psi.log_amplitude(product_parameters(psi, [1, 0.7]), all_configs(6))
    expected = np.log(0.7) * all_configs(6).sum(axis=1)
    np.testing.assert_allclose(np.ptp(amplitudes.log_abs - expected), 0, atol=1e-12)
