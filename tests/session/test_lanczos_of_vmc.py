"""A Lanczos step from a VMC: that of the dense vector, within its errors from samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tnvmc import (
    MPS,
    PEPS,
    VMC,
    DirectSampler,
    Enumerate,
    Exact,
    Jastrow,
    LanczosStep,
    ProductState,
    Sampler,
    Symmetrised,
    chain,
    heisenberg,
    j1j2,
    lanczos_step,
    square,
    symmetry_group,
    tfim,
    tv,
)
from tnvmc.session.lanczos import step_from
from tnvmc.vmc.measurement import MeasurementPlan

EXACT = 1e-10  # of energies of order ten, from sums over a thousand configurations
SIGMAS = 4
LATTICE = square(3, 4)


def dense(vmc: VMC) -> tuple[float, float, float]:
    """Energy, alpha and variance after the step, by vectors."""
    sector = vmc.problem.magnetisation
    matrix, basis = vmc.operator.sparse(sector), vmc.operator.states(sector)
    found = vmc.ansatz.log_amplitude(vmc.measured_theta(), basis.configs(basis.codes))
    psi = np.asarray(found.phase) * np.exp(found.log_abs - found.log_abs.max())
    both = np.stack([psi, matrix @ psi], axis=1)
    basis = np.linalg.qr(both)[0]
    after = basis @ np.linalg.eigh(basis.conj().T @ (matrix @ basis))[1][:, 0]
    one, alpha = np.linalg.lstsq(both, after, rcond=None)[0]
    energy = (after.conj() @ (matrix @ after)).real
    return energy, (alpha / one).real, np.linalg.norm(matrix @ after) ** 2 - energy**2


def network() -> Any:
    import tnvmc

    return tnvmc.FlaxAnsatz(LATTICE, lambda rngs: tnvmc.RBM(LATTICE, rngs=rngs))


CASES: dict[str, Any] = {
    "Heisenberg": lambda: (heisenberg(LATTICE), PEPS(LATTICE, 2, scheme=Exact())),
    "J1-J2, complex": lambda: (
        j1j2(LATTICE, J2=0.5),
        PEPS(LATTICE, 2, scheme=Exact(), dtype=np.complex128),
    ),
    "Ising": lambda: (tfim(square(3, 3), h=3.0), PEPS(square(3, 3), 2, scheme=Exact())),
    "fermions": lambda: (tv(LATTICE, t=1.0, V=2.0, particles=4), PEPS(LATTICE, 2, scheme=Exact())),
    "MPS": lambda: (heisenberg(chain(10)), MPS(chain(10), 3)),
    "Jastrow": lambda: (heisenberg(LATTICE), Jastrow(LATTICE)),
    "RBM": lambda: (heisenberg(LATTICE), network()),
}


@pytest.mark.whole
@pytest.mark.parametrize("case", CASES)
def test_an_enumeration_gives_the_step_of_the_dense_vector(case: str) -> None:
    operator, ansatz = CASES[case]()
    vmc = VMC(operator, ansatz, Enumerate(threads=1), seed=2)
    vmc.run(3)
    found = step_from(vmc, MeasurementPlan(), None)  # some are far above the ground state
    energy, alpha, variance = dense(vmc)
    assert found.energy == pytest.approx(energy, abs=EXACT)
    assert found.alpha == pytest.approx(alpha, abs=EXACT)
    assert found.variance == pytest.approx(variance, abs=100 * EXACT)
    assert found.energy_error == found.alpha_error == 0
    assert found.gain > 0


@pytest.fixture(scope="module")
def magnet() -> VMC:
    operator = j1j2(square(2, 3), J2=0.5)
    vmc = VMC(operator, PEPS(operator.lattice, 2), Sampler(16, 64, threads=1), seed=1)
    vmc.run(4)
    return vmc


def test_samples_agree_with_all_configurations(magnet: VMC) -> None:
    exact = lanczos_step(magnet, sampler=Enumerate(threads=1))
    for n_connected in (2, None):
        found = lanczos_step(magnet, n_samples=1024, n_connected=n_connected)
        assert found.n_samples == 1024
        for name in ("before", "energy", "alpha", "gain"):
            error = getattr(found, f"{name}_error")
            assert error > 0
            assert abs(getattr(found, name) - getattr(exact, name)) < SIGMAS * error
        assert found.gain_error < found.energy_error
        assert found.seconds > 0
    again = lanczos_step(magnet, n_samples=1024, n_connected=None)
    assert (again.energy, again.energy_error) == (found.energy, found.energy_error)
    drawn = lanczos_step(magnet, n_samples=1024, sampler=DirectSampler(512, threads=1))
    assert abs(drawn.energy - exact.energy) < SIGMAS * drawn.energy_error


def test_it_shows_itself(magnet: VMC) -> None:
    found = lanczos_step(magnet, sampler=Enumerate(threads=1))
    assert isinstance(found, LanczosStep)
    assert "alpha" in repr(found)
    assert "<td>gain</td>" in found._repr_html_()


def test_wrong_arguments_are_refused(magnet: VMC) -> None:
    with pytest.raises(TypeError, match="vmc"):
        lanczos_step(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_connected"):
        lanczos_step(magnet, n_connected=1)
    excited = VMC(magnet.operator, PEPS(magnet.operator.lattice, 2), orthogonal_to=magnet)
    with pytest.raises(ValueError, match="orthogonal"):
        lanczos_step(excited)


@pytest.mark.filterwarnings("ignore::tnvmc.UnreliableWarning")
def test_amplitudes_that_vanish_are_told() -> None:
    operator = heisenberg(square(2, 2))
    ansatz = PEPS(operator.lattice, 1)
    theta = np.ones(ansatz.n_params)
    theta[0] = 0.0  # site 0 is never up
    vmc = VMC(operator, ansatz, Enumerate(threads=1), theta=theta)
    found = lanczos_step(vmc)
    assert "amplitudes_vanish" in [each.code for each in found.diagnostics]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["Heisenberg", "J1-J2, complex", "Ising", "fermions"])
def test_two_of_three_lie_within_an_error(case: str) -> None:
    operator, ansatz = CASES[case]()
    made = VMC(operator, ansatz, Sampler(32, 512, threads=1), seed=3)
    made.run(6)
    theta = made.measured_theta()
    exact = lanczos_step(made, sampler=Enumerate(threads=1))
    off = []
    for seed in range(60):
        vmc = VMC(operator, made.ansatz, made.method.sampler, theta=theta, seed=seed)
        found = step_from(vmc, MeasurementPlan(512), 4)
        off.append([
            abs(getattr(found, x) - getattr(exact, x)) / getattr(found, f"{x}_error")
            for x in ("energy", "alpha")
        ])  # fmt: skip
    # 0.68 +- 0.06 and 0.95 +- 0.03 of 60; four of these, since four cases are looked at.
    assert (np.mean(np.array(off) < 1, axis=0) > 0.68 - 4 * 0.06).all()
    assert (np.mean(np.array(off) < 2, axis=0) > 0.95 - 4 * 0.03).all()


def test_zeros_of_an_even_sum_are_told() -> None:
    model = heisenberg(square(2, 2))
    neel = np.eye(2)[[0, 1, 1, 0]].ravel()
    psi = Symmetrised(ProductState(model.lattice), symmetry_group(model, ["spin"]))
    found = lanczos_step(VMC(model, psi, Enumerate(), theta=neel))
    assert "amplitudes_vanish" in [each.code for each in found.diagnostics]
