"""The oracles themselves, on cases that can be done by hand."""

from __future__ import annotations

import itertools

import numpy as np

from tests.oracles import (
    all_configs,
    config_index,
    dense_amplitude,
    dense_hamiltonian,
    dense_local_energy,
    dense_sector,
    dense_state,
    embed,
    exact_distribution,
    finite_difference,
    finite_difference_log,
)
from tnvmc.lattice import chain
from tnvmc.operators import heisenberg
from tnvmc.operators.term import Operator


def open_tensors(shape: tuple[int, int], bond: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    n_rows, n_cols = shape
    return [
        rng.normal(
            size=(
                2,
                bond if row else 1,
                bond if col else 1,
                bond if row < n_rows - 1 else 1,
                bond if col < n_cols - 1 else 1,
            )
        )
        for row, col in itertools.product(range(n_rows), range(n_cols))
    ]


def test_one_row_is_a_product_of_matrices() -> None:
    tensors = open_tensors((1, 4), 3, 0)
    config = [0, 1, 1, 0]
    product = np.eye(1)
    for tensor, spin in zip(tensors, config, strict=True):
        product = product @ tensor[spin, 0, :, 0, :]
    assert np.isclose(dense_amplitude(tensors, (1, 4), config), product[0, 0])


def test_two_by_two_written_out() -> None:
    tensors = open_tensors((2, 2), 2, 1)
    a, b, c, d = (tensor[1] for tensor in tensors)
    written = 0.0
    for right, down, down_b, right_c in itertools.product(range(2), repeat=4):
        written += (
            a[0, 0, down, right]
            * b[0, right, down_b, 0]
            * c[down, 0, 0, right_c]
            * d[down_b, right_c, 0, 0]
        )
    assert np.isclose(dense_amplitude(tensors, (2, 2), [1, 1, 1, 1]), written)


def test_a_column_is_the_transposed_row() -> None:
    row = open_tensors((1, 4), 3, 2)
    column = [tensor.transpose(0, 2, 1, 4, 3) for tensor in row]
    configs = all_configs(4)
    assert np.allclose(dense_state(row, (1, 4), configs), dense_state(column, (4, 1), configs))


def test_hamiltonian_and_local_energy_of_two_spins() -> None:
    dense = dense_hamiltonian(heisenberg(chain(2)))
    expected = [[0.25, 0, 0, 0], [0, -0.25, 0.5, 0], [0, 0.5, -0.25, 0], [0, 0, 0, 0.25]]
    assert np.allclose(dense, expected)
    singlet_like = np.array([1e-9, 1, -1, 1e-9])
    assert np.allclose(dense_local_energy(dense, singlet_like)[1:3], -0.75)


def test_embedding_puts_the_first_named_site_first() -> None:
    up_down = np.zeros((4, 4))
    up_down[1, 1] = 1  # |first = 0, second = 1>
    hit = np.flatnonzero(np.diag(embed(up_down, (2, 0), 3)))
    assert [all_configs(3)[k].tolist() for k in hit] == [[1, 0, 0], [1, 1, 0]]


def test_configs_distribution_and_derivatives() -> None:
    configs = all_configs(3, 3, 0)
    assert len(configs) == 7
    assert [config_index(c, 3) for c in configs] == sorted(config_index(c, 3) for c in configs)
    assert np.allclose(exact_distribution(np.array([1, 2j, -1])), [1 / 6, 4 / 6, 1 / 6])
    theta = np.array([0.3, -1.2])
    gradient = finite_difference(lambda t: np.array([t[0] ** 2 * t[1], t[1]]), theta)
    assert np.allclose(gradient, [[2 * 0.3 * -1.2, 0.09], [0, 1]], atol=1e-8)
    complex_theta = np.array([0.3 + 0.5j])
    log = finite_difference_log(lambda t: np.array([t[0] ** 3]), complex_theta)
    assert np.allclose(log, [[3 / complex_theta[0]]], atol=1e-8)


def test_a_sector_is_a_block_of_the_whole() -> None:
    """Of a model with terms of one, two and three sites, one of which leaves the sector."""
    raise_third = np.kron(np.diag([1.0, 2.0, 3.0, 5.0]), [[0.0, 1j], [-1j, 0.0]])
    exchange = np.kron([[0, 1], [0, 0]], [[0, 0], [1, 0]])
    terms = [
        ((0,), np.diag([0.3, -0.2])),
        ((3, 1), exchange + exchange.T),
        ((2, 0, 3), raise_third),
    ]
    operator = Operator.from_terms(chain(4), terms)
    rows = [config_index(config) for config in all_configs(4, 2, 0)]
    expected = dense_hamiltonian(operator)[np.ix_(rows, rows)]
    np.testing.assert_allclose(dense_sector(operator, 0), expected, atol=1e-15)
    assert np.abs(expected).sum() > 4
