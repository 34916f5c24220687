"""Product states."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest

from tests.oracles import all_configs
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.product import ProductState
from tnvmc.backend.namespace import to_host
from tnvmc.lattice import chain, square
from tnvmc.operators.models import hubbard, tj, tv
from tnvmc.operators.term import Operator


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
def test_product_state_conforms(dtype: str) -> None:
    ansatz = ProductState(square(2, 2), dtype=dtype)
    check_ansatz(ansatz, ansatz.random(0))


def test_runs_on_strict_arrays() -> None:
    ansatz = ProductState(square(2, 2), dtype="complex128")
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
    check_ansatz(ansatz, np.eye(ansatz.local_dim, dtype=ansatz.dtype)[[0, 1, 1, 0]].ravel())


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


@pytest.mark.parametrize(
    "operator",
    [
        tv(square(2, 3), particles=2),
        tj(square(2, 2), particles=(2, 1)),
        hubbard(square(2, 2), particles=(2, 1)),
    ],
)
def test_a_start_of_fermions_has_no_zeros(operator: Operator) -> None:
    """Fermions occupy whole sites: a product of these is one configuration, which none leaves."""
    theta = ProductState(operator.lattice, operator.local_dim).initial(operator)
    assert np.all(np.abs(theta) > 0.1)
