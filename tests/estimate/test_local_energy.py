"""Local energies against the dense Hamiltonian."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

from tests.oracles import all_configs, dense_hamiltonian, dense_local_energy
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.estimate.observables import local_energy, off_diagonal_values
from tnvmc.lattice import Lattice, chain, shastry_sutherland, square
from tnvmc.operators import models
from tnvmc.operators.spin import SIGMA_X, SIGMA_Y, SIGMA_Z, kron, spin_matrices
from tnvmc.operators.term import Operator

TOLERANCE = 1e-9


def chirality(lattice: Lattice) -> Operator:
    """S1.(S2 x S3) on two triangles: imaginary elements on three sites, sites out of order."""
    spins = spin_matrices()
    signs = {(0, 1, 2): 1, (1, 2, 0): 1, (2, 0, 1): 1, (0, 2, 1): -1, (2, 1, 0): -1, (1, 0, 2): -1}
    matrix = sum(s * kron(*(spins[axis] for axis in order)) for order, s in signs.items())
    return Operator.from_terms(lattice, [((3, 0, 4), matrix), ((1, 2, 5), matrix)])


def four_sites(lattice: Lattice) -> Operator:
    """A random real symmetric plaquette term, and a field with all three components."""
    matrix = np.random.Generator(np.random.PCG64(0)).normal(size=(16, 16))
    field = 0.3 * SIGMA_X + 0.2 * SIGMA_Y - 0.5 * SIGMA_Z
    return Operator.from_terms(lattice, [((4, 1, 0, 3), matrix + matrix.T), ((2,), field)])


OPERATORS = {
    "heisenberg": lambda: models.heisenberg(square(2, 3)),
    "random bonds": lambda: models.heisenberg(square(2, 3), J=np.linspace(0.5, 1.5, 7)),
    "xxz": lambda: models.xxz(square(2, 3, "cylinder"), J=1.0, Jz=-0.4),
    "j1j2": lambda: models.j1j2(square(2, 3), J1=1.0, J2=0.6),
    "tfim": lambda: models.tfim(chain(6, "periodic"), h=1.3),
    "rydberg": lambda: models.rydberg(square(2, 3)),
    "shastry_sutherland": lambda: models.shastry_sutherland(shastry_sutherland(2, 3), 0.7, 1.0),
    "chirality": lambda: chirality(square(2, 3)),
    "four sites": lambda: four_sites(square(2, 3)),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_equals_the_row_of_the_dense_operator(name: str, dtype: str) -> None:
    operator = OPERATORS[name]()
    ansatz = PeriodicMPS(operator.lattice, 2, dtype)
    theta = ansatz.random(4, noise=0.6)
    walkers = ansatz.start(theta, all_configs(6))
    _, snapshot = ansatz.measure(theta, walkers, operator.targets, jacobian=False)
    psi = snapshot.amplitude.phase * np.exp(snapshot.amplitude.log_abs)
    expected = dense_local_energy(dense_hamiltonian(operator), psi)
    found = local_energy(operator, snapshot)
    assert np.iscomplexobj(found) == (dtype == "complex128" or operator.is_complex)
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["j1j2", "rydberg", "four sites"])
def test_runs_on_strict_arrays(name: str) -> None:
    operator = OPERATORS[name]()
    ansatz = PeriodicMPS(operator.lattice, 2)
    theta = ansatz.random(4)
    configs = all_configs(6)[::9]
    found: list[Any] = []
    for xp in (np, strict):
        here = xp.asarray(theta)
        walkers = ansatz.start(here, xp.asarray(configs))
        targets = {patch: xp.asarray(table) for patch, table in operator.targets.items()}
        _, snapshot = ansatz.measure(here, walkers, targets, jacobian=False)
        found.append(np.asarray(local_energy(operator, snapshot)))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


@pytest.mark.parametrize("name", ["rydberg", "four sites", "chirality"])
@pytest.mark.parametrize("constant", [0.0, 1e3])
def test_the_off_diagonal_part_is_what_a_dense_matrix_without_its_diagonal_gives(
    name: str, constant: float
) -> None:
    operator = OPERATORS[name]()
    operator = operator + Operator.from_terms(operator.lattice, [((0,), constant * np.eye(2))])
    ansatz = PeriodicMPS(operator.lattice, 2, "complex128")
    theta = ansatz.random(4, noise=0.6)
    walkers = ansatz.start(theta, all_configs(6))
    _, snapshot = ansatz.measure(theta, walkers, operator.targets, jacobian=False)
    psi = snapshot.amplitude.phase * np.exp(snapshot.amplitude.log_abs)
    matrix = dense_hamiltonian(OPERATORS[name]())
    matrix = matrix - np.diag(np.diag(matrix))
    expected = (psi.conj() @ matrix @ psi).real / np.vdot(psi, psi).real
    weighted = replace(snapshot, weight=3.0 * abs(psi) ** 2)
    found = off_diagonal_values(operator, weighted, local_energy(operator, snapshot))
    mean = np.average(found, weights=weighted.weight)
    assert mean == pytest.approx(expected, abs=1e-9)


def test_missing_ratios_are_named() -> None:
    operator = models.heisenberg(chain(4))
    ansatz = PeriodicMPS(operator.lattice, 1)
    theta = ansatz.random(0)
    walkers = ansatz.start(theta, np.array([[0, 1, 0, 1]], dtype=np.int8))
    _, snapshot = ansatz.measure(theta, walkers, {}, jacobian=False)
    with pytest.raises(ValueError, match=r"no ratios for patch \(0, 1\)"):
        local_energy(operator, snapshot)
