"""Product states and dimer coverings."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest

from tests.drawing import enumerated
from tests.oracles import all_configs
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.product import DimerCovering, ProductState
from tnvmc.backend.namespace import to_host
from tnvmc.estimate.observables import local_energy
from tnvmc.lattice import chain, shastry_sutherland, square
from tnvmc.operators import models


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
def test_product_state_conforms(dtype: str) -> None:
    ansatz = ProductState(square(2, 2), dtype=dtype)
    check_ansatz(ansatz, ansatz.random(0))


def test_runs_on_strict_arrays() -> None:
    ansatz = DimerCovering(square(2, 2), ((0, 3), (2, 1)), dtype="complex128")
    theta, configs = ansatz.random(4), all_configs(4)
    here, there = strict.asarray(theta), strict.asarray(configs)
    for name in ("log_amplitude", "log_derivatives"):
        found, expected = getattr(ansatz, name)(here, there), getattr(ansatz, name)(theta, configs)
        if name == "log_amplitude":
            found, expected = found.phase, expected.phase
        np.testing.assert_allclose(to_host(found), expected, rtol=1e-13)


def test_neel_state_conforms() -> None:
    """psi = 0 on all configurations but one."""
    ansatz = ProductState(square(2, 2))
    check_ansatz(ansatz, ansatz.basis_state([0, 1, 1, 0]))


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_dimer_covering_conforms(dtype: str) -> None:
    ansatz = DimerCovering(square(2, 2), ((0, 3), (2, 1)), dtype=dtype)
    check_ansatz(ansatz, ansatz.random(4))
    check_ansatz(ansatz, ansatz.singlets())


def test_product_state_of_three_local_states_is_the_product() -> None:
    ansatz = ProductState(chain(4), 3, "complex128")
    theta = ansatz.random(2)
    configs = all_configs(4, 3)
    amplitude = ansatz.log_amplitude(theta, configs)
    expected = np.prod(theta.reshape(4, 3)[np.arange(4), configs], axis=1)
    np.testing.assert_allclose(amplitude.phase * np.exp(amplitude.log_abs), expected, rtol=1e-13)


def test_long_products_neither_overflow_nor_underflow() -> None:
    ansatz = ProductState(chain(2000))
    amplitude = ansatz.log_amplitude(np.full(4000, 1e-5), np.zeros((2, 2000), dtype=np.int8))
    np.testing.assert_allclose(amplitude.log_abs, 2000 * np.log(1e-5), rtol=1e-12)


def test_dimers_are_the_exact_shastry_sutherland_ground_state() -> None:
    """E/N = -3/8 J' for J/J' < 0.675 (Shastry and Sutherland 1981), whatever J."""
    lattice = shastry_sutherland(4, 4, "periodic")
    operator = models.shastry_sutherland(lattice, J=0.6, J_dimer=1.0)
    ansatz = DimerCovering(lattice, lattice.bonds["dimer"])
    snapshot = enumerated(ansatz, ansatz.singlets(), operator, jacobian=False)
    inside = snapshot.weight > 0
    assert inside.sum() == 2**8
    energy = local_energy(operator, snapshot)[inside]
    np.testing.assert_allclose(energy, -3 / 8 * 16, atol=1e-12)

    from scipy.sparse.linalg import eigsh

    ground = eigsh(operator.sparse(magnetisation=0), k=1, which="SA", tol=1e-9)[0][0]
    assert ground == pytest.approx(-6.0, abs=1e-7)


def test_bad_coverings_are_refused() -> None:
    with pytest.raises(ValueError, match="site 2 appears 0 times"):
        DimerCovering(chain(3), ((0, 1),))
    with pytest.raises(ValueError, match="site 0 appears 2 times"):
        DimerCovering(chain(2), ((0, 0),))
    with pytest.raises(ValueError, match="site 4 appears 1 times and is not on the lattice"):
        DimerCovering(chain(4), ((0, 1), (2, 3), (4, 5)))
    with pytest.raises(ValueError, match="site -1 appears 1 times and is not"):
        DimerCovering(chain(2), ((0, 1), (-1, -2)))
    with pytest.raises(ValueError, match="local_dim is 3"):
        DimerCovering(chain(2), ((0, 1),), local_dim=3).singlets()
