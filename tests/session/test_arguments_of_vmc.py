"""What a VMC is given: models without symmetries, sectors, walkers, moves, types."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.magnets import dzyaloshinskii_moriya, xyz
from tnvmc.ansatz.jastrow import Jastrow
from tnvmc.ansatz.mps import MPS, PeriodicMPS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.peps.symmetries import sharing
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.backend.arguments import ArgumentWarning
from tnvmc.contraction.schemes import Exact
from tnvmc.exact import exact_ground_state
from tnvmc.lattice import chain, square
from tnvmc.lattice.permutations import NotSymmetric
from tnvmc.operators.fermions import SPINLESS
from tnvmc.operators.models import heisenberg, j1j2, tfim, tv
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.observables import measure_observables
from tnvmc.session.vmc import VMC

OPERATOR = tfim(chain(4, "periodic"), h=1.0)
ANSATZ = PeriodicMPS(OPERATOR.lattice, D=2)
FEW = Sampler(n_walkers=16, n_samples=64, threads=1)
SIGMAS = 5.0  # of an error that is itself uncertain by a tenth


@pytest.mark.whole
def test_xyz_antiferromagnet_with_the_default_moves() -> None:
    """With flips alone walkers stick; every kind of move is counted by itself."""
    operator = xyz(square(2, 3))
    vmc = VMC(operator, PEPS(operator.lattice, 2), Sampler(64, 512), seed=1)
    vmc.run(8)
    exact = vmc.measure(sampler=Enumerate())
    found = vmc.measure(n_samples=4096)
    assert abs(found.energy - exact.energy) < SIGMAS * found.energy_error
    assert found.r_hat is not None and found.r_hat < 1.01
    assert found.acceptance_by_move is not None and exact.acceptance_by_move is None
    assert set(found.acceptance_by_move) == {"flips", "exchanges", "pair_flips"}
    assert found.as_dict()["acceptance_by_move"] == found.acceptance_by_move


@pytest.mark.slow
def test_xyz_antiferromagnet_4x4() -> None:
    """-0.55593 per site exactly; by flips alone -0.681(30) was measured, below it."""
    operator = xyz(square(4, 4))
    vmc = VMC(operator, PEPS(operator.lattice, 2), Sampler(128, 1024))
    vmc.run(60)
    exact = vmc.measure(sampler=Enumerate())
    found = vmc.measure(n_samples=16384)
    print(found, exact)
    assert abs(found.energy - exact.energy) < SIGMAS * found.energy_error
    assert -0.55593 < exact.energy_per_site < -0.50
    assert found.r_hat is not None and found.r_hat < 1.02


def test_complex_hamiltonians_make_a_peps_complex() -> None:
    """A real one gives -4.749 for -6.125 on 3x3."""
    operator = dzyaloshinskii_moriya(square(2, 2))
    exact = exact_ground_state(operator, 0).energy
    vmc = VMC(operator, PEPS(operator.lattice, 2), Enumerate(), learning_rate=0.3)
    assert vmc.ansatz.dtype == np.complex128 and vmc.theta.dtype == np.complex128
    vmc.run(15)
    assert exact - 1e-9 < vmc.measure().energy < 0.99 * exact


def test_real_wave_functions_for_complex_hamiltonians_are_refused() -> None:
    operator = dzyaloshinskii_moriya(square(2, 2))
    lattice = operator.lattice
    real = PEPS(lattice, 2, "float64")
    with pytest.raises(ValueError, match="complex128"):
        VMC(operator, real)
    with pytest.raises(ValueError, match="complex128"):
        real.initial(operator)
    with pytest.raises(ValueError, match="complex128"):
        real.flatten(PEPS(lattice, 2, "complex128").tensors(PEPS(lattice, 2).initial(operator)))
    theta = real.initial(heisenberg(lattice))
    with pytest.raises(ValueError, match="theta is float64"):
        VMC(operator, real, theta=theta)
    assert VMC(operator, PEPS(lattice, 2), theta=theta).theta.dtype == np.complex128
    with pytest.raises(ValueError, match="PeriodicMPS"):
        VMC(operator, PeriodicMPS(lattice, 2))
    assert PEPS(lattice, 2).with_scheme(Exact()).for_operator(operator).dtype == np.complex128


def test_sectors_are_told_once_and_kept_by_all_samplers() -> None:
    operator, theta = heisenberg(chain(4)), ANSATZ.random(seed=1)
    enumerated = VMC(operator, ANSATZ, Enumerate(), theta=theta, magnetisation=2).measure()
    assert enumerated == replace(
        VMC(operator, ANSATZ, Enumerate(2), theta=theta).measure(), seconds=enumerated.seconds
    )
    assert enumerated.n_samples == 4
    chains = VMC(operator, ANSATZ, FEW, theta=theta, magnetisation=2)
    assert chains.measure(sampler=Enumerate()).energy == enumerated.energy
    up = np.tile(np.array([1, 0, 0, 0], dtype=np.int8), (FEW.n_walkers, 1))
    assert VMC(operator, ANSATZ, FEW, theta=theta, configs=up).problem.magnetisation == 2
    with pytest.raises(ValueError, match="2 Sz = 0 in one place and 2"):
        VMC(operator, ANSATZ, Enumerate(2), theta=theta, magnetisation=0)
    with pytest.raises(ValueError, match="2 Sz = 0 in one place and 2"):
        VMC(operator, ANSATZ, FEW, theta=theta, configs=up, magnetisation=0)
    with pytest.raises(ValueError, match="0 in one place and 2"):
        chains.measure(sampler=Enumerate(0))
    for sampler in (FEW, Enumerate(), Enumerate(0), DirectSampler(8, magnetisation=0)):
        with pytest.raises(ValueError, match="does not conserve the magnetisation"):
            vmc = VMC(tfim(chain(4)), ANSATZ, sampler, theta=theta, magnetisation=0)
            vmc.measure()


def test_a_checkpoint_of_another_sector_is_refused(tmp_path: Path) -> None:
    operator, theta = heisenberg(chain(4)), ANSATZ.random(seed=1)
    VMC(operator, ANSATZ, FEW, theta=theta, magnetisation=2).save(tmp_path / "up.h5")
    with pytest.raises(ValueError, match="keep 2 Sz = 2"):
        VMC(operator, ANSATZ, FEW, theta=theta).restore(tmp_path / "up.h5")
    spinless = [tv(square(2, 2), particles=n) for n in (1, 2)]
    state = PEPS(square(2, 2), 2, fermions=spinless[0].fermions, sharing=None)
    VMC(spinless[0], state, FEW).save(tmp_path / "one.h5")
    with pytest.raises(ValueError, match="have 1 particles, those here 2 particles"):
        VMC(spinless[1], state, FEW).restore(tmp_path / "one.h5")


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        (-1, "shape"),
        (np.zeros((3, 4), np.int8), "shape"),
        (np.full((FEW.n_walkers, 4), -1), "from -1 to -1"),
        (np.full((FEW.n_walkers, 4), 2), "from 2 to 2"),
        (np.zeros((FEW.n_walkers, 4)), "integers"),
        (np.eye(FEW.n_walkers, 4, dtype=np.int8), "2 Sz = 2"),
    ],
)
def test_configurations_that_cannot_be_are_refused(configs: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        VMC(heisenberg(chain(4)), ANSATZ, FEW, theta=ANSATZ.random(seed=1), configs=configs)


def test_moves_beside_a_sampler_that_makes_none_are_refused() -> None:
    with pytest.raises(ValueError, match="Enumerate makes none"):
        VMC(OPERATOR, ANSATZ, Enumerate(), theta=ANSATZ.random(1), moves=["exchanges"])


@pytest.mark.parametrize("coupling", [1e-300, 1e-160])
def test_couplings_whose_squares_are_zero_are_refused(coupling: float) -> None:
    """Their error was 0."""
    with pytest.raises(ValueError, match="underflow"):
        heisenberg(chain(4), J=coupling)
    assert heisenberg(chain(4), J=[1.0, coupling, 0.0]).terms
    assert heisenberg(chain(4), J=0.0).terms


def test_parts_that_do_not_fit_are_refused() -> None:
    """They used to end in an IndexError, or in a number without meaning."""
    operator = heisenberg(square(2, 3))
    for ansatz in (PEPS(operator.lattice, 2, local_dim=3), PEPS(square(1, 6), 2)):
        with pytest.raises(ValueError, match="VMC: heisenberg"):
            VMC(operator, ansatz)
    vmc = VMC(operator, PEPS(operator.lattice, 2), Sampler(4, 8, threads=1))
    spin_one = Operator.from_terms(operator.lattice, [((0, 1), np.eye(9))], local_dim=3)
    with pytest.raises(ValueError, match="states a site"):
        vmc.expect(spin_one)


def test_a_diagonal_hamiltonian_needs_a_sector() -> None:
    """Sector 0 was taken without a word, where the ground state may lie in any."""
    operator = tfim(square(2, 3), h=0.0)
    with pytest.raises(ValueError, match="magnetisation"):
        VMC(operator, PEPS(operator.lattice, 2))
    assert VMC(operator, PEPS(operator.lattice, 2), magnetisation=6).problem.magnetisation == 6


def test_samples_that_are_rounded_up_are_told_once() -> None:
    """10 samples of 128 walkers are 128."""
    operator = tfim(chain(4))
    vmc = VMC(operator, PEPS(operator.lattice, 2), Sampler(16, 10, threads=1))

    def told(call: Callable[[], object]) -> int:
        with warnings.catch_warnings(record=True, action="always") as seen:
            call()
        return sum(each.category is ArgumentWarning for each in seen)

    assert told(lambda: vmc.run(2)) == 1
    assert told(vmc.measure) == told(lambda: vmc.measure(32)) == 0
    assert told(lambda: vmc.measure(33)) == told(lambda: vmc.expect(operator, 33)) == 1
    assert told(lambda: vmc.measure(sampler=Sampler(16, 33, threads=1))) == 1
    assert told(lambda: measure_observables(vmc, 32, pair_samples=7)) == 1


def test_arrays_that_were_given_stay_the_users() -> None:
    theta, configs = ANSATZ.initial(OPERATOR, 1), np.tile([0, 1, 0, 1], (16, 1))
    vmc = VMC(OPERATOR, ANSATZ, FEW, theta=theta, configs=configs)
    before, walkers = theta.copy(), configs.copy()
    vmc.run(2)
    assert np.array_equal(theta, before) and np.array_equal(configs, walkers)
    other = VMC(OPERATOR, ANSATZ, FEW, theta=theta, configs=configs)
    theta *= 0
    configs *= 0
    assert np.array_equal(other.theta, before)
    assert np.array_equal(other.state.here.configs, walkers)


@pytest.mark.parametrize("measured", [False, True])
def test_parameters_that_are_handed_out_cannot_be_written(measured: bool) -> None:
    vmc = VMC(OPERATOR, ANSATZ, FEW)
    energy = vmc.measure().energy
    theta = vmc.measured_theta() if measured else vmc.theta
    with pytest.raises(ValueError, match="read-only"):
        theta *= 2
    assert vmc.measure().energy == energy


@pytest.mark.parametrize("given", ["float16", "float32", "longdouble", "float64"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_given_parameters_have_the_type_of_the_state(given: str, dtype: str) -> None:
    peps = PEPS(OPERATOR.lattice, 2, dtype)
    theta = PEPS(OPERATOR.lattice, 2).initial(OPERATOR, 1)
    vmc = VMC(OPERATOR, peps, FEW, theta=theta.astype(given))
    vmc.step()
    assert vmc.theta.dtype == dtype


def test_complex_parameters_stay_complex() -> None:
    theta = PEPS(OPERATOR.lattice, 2).initial(OPERATOR, 1) * 1j
    assert VMC(OPERATOR, PEPS(OPERATOR.lattice, 2), FEW, theta=theta).theta.dtype == "complex128"


@pytest.mark.parametrize("dtype", ["int64", "uint64", "uint8"])
def test_walkers_of_any_integers(dtype: str) -> None:
    configs = np.tile([0, 1, 0, 1], (16, 1))
    energies = {
        VMC(OPERATOR, ANSATZ, FEW, configs=configs.astype(each)).step().energy
        for each in (dtype, "int8")
    }
    assert len(energies) == 1


@pytest.mark.parametrize("network", [False, True])
def test_a_sum_over_symmetries_that_the_hamiltonian_lacks_is_refused(network: bool) -> None:
    """Summed over the reflection, the energy in this field was 4 % too high without a word."""
    lattice = chain(4)
    group = symmetry_group(tfim(lattice), ["point"])
    state: Any = Symmetrised(Jastrow(lattice, fields=True), group)
    if network:
        flax = pytest.importorskip("tnvmc.ansatz.neural.flax")
        rbm = pytest.importorskip("tnvmc.ansatz.neural.rbm")
        state = flax.FlaxAnsatz(lattice, lambda rngs: rbm.RBM(lattice, rngs=rngs), group=group)
    VMC(tfim(lattice, h=[1, 2, 2, 1]), state, FEW)
    with pytest.raises(NotSymmetric, match="lacks 1 of them"):
        VMC(tfim(lattice, h=[1, 2, 2, 1.01]), state, FEW)


def test_what_a_state_shares_by_default() -> None:
    """As in a file: all that is proven, in a ground state that starts by itself."""
    operator, frustrated = heisenberg(square(2, 4)), j1j2(square(2, 4), J2=0.5)
    peps, enumerated = PEPS(operator.lattice, 3), Enumerate(threads=1)
    shared = VMC(operator, peps, enumerated)
    few, many = shared.ansatz.n_params, peps.n_params
    assert few < many and shared.ansatz.sharing == sharing(operator)

    def n_params(state: Any, **more: Any) -> int:
        return VMC(more.pop("of", operator), state, enumerated, **more).ansatz.n_params

    assert n_params(peps.with_scheme(Exact())) == n_params(shared.ansatz) == few
    assert n_params(PEPS(operator.lattice, 3, sharing=None)) == many
    assert n_params(PEPS(operator.lattice, 2)) == PEPS(operator.lattice, 2).n_params
    assert n_params(peps, of=frustrated) == many
    assert n_params(peps, theta=shared.theta) == few
    assert n_params(peps, theta=peps.initial(operator)) == many
    unshared = VMC(operator, peps, enumerated, theta=peps.initial(operator)).ansatz
    assert n_params(unshared) == n_params(peps, orthogonal_to=shared) == many
    assert n_params(Symmetrised(peps, symmetry_group(operator, "spin"))) == many
    row = heisenberg(chain(6))
    assert n_params(MPS(row.lattice, 3), of=row) == MPS(row.lattice, 3).n_params


def test_observables_of_other_particles_are_refused() -> None:
    """Their matrices would be read without the signs of fermions, or with them for spins."""
    lattice, hop = square(2, 3), np.array([[0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    spins = Operator.from_terms(lattice, [((0, 2), hop)])
    fermions = Operator.from_terms(lattice, [((0, 2), hop)], fermions=SPINLESS)
    pairs = [(tv(lattice, particles=3), spins), (heisenberg(lattice), fermions)]
    for hamiltonian, observable in pairs:
        vmc = VMC(hamiltonian, PEPS(lattice, 2), Enumerate())
        with pytest.raises(ValueError):
            vmc.expect(observable)
        with pytest.raises(ValueError):
            measure_observables(vmc, operators=[observable])
