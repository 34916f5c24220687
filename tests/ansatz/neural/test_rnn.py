"""Recurrent wave functions against the checks of all autoregressive networks."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.ansatz.neural.autoregressive_checks import check_autoregressive, noisy
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.rnn import RNN
from tnvmc.lattice.grids import square


@pytest.mark.whole
def test_rnn_along_a_snake_is_autoregressive() -> None:
    network = noisy(lambda: RNN(square(3, 4), hidden=4, order="snake", rngs=nnx.Rngs(0)))
    check_autoregressive(network)


@pytest.mark.whole
def test_two_dimensional_rnn_is_autoregressive() -> None:
    make = partial(RNN, square(4, 3), hidden=3, order="2d", output="complex", magnetisation=-2)
    check_autoregressive(noisy(lambda: make(rngs=nnx.Rngs(1))))


@pytest.mark.whole
def test_conformance() -> None:
    """That along a snake conforms in test_vacant_places.py."""
    make = partial(RNN, square(2, 2), hidden=3, order="2d", output="complex")
    ansatz = FlaxAnsatz(square(2, 2), lambda rngs: make(rngs=rngs))
    check_ansatz(ansatz, 3 * ansatz.random(1))


def test_two_dimensional_cell_equals_a_loop_over_the_lattice() -> None:
    """In the middle of rows of both directions, at their ends, and in a first row and column."""
    network = noisy(lambda: RNN(square(3, 3), hidden=3, order="2d", rngs=nnx.Rngs(2)))
    configs = np.random.Generator(np.random.PCG64(0)).integers(0, 2, size=(4, 9))
    found = jax.jit(lambda c: network.scores(c)[0])(configs)
    np.testing.assert_allclose(found, dumb_2d(network, configs), atol=1e-13)


@pytest.mark.whole
def test_start_is_near_uniform_with_small_phases() -> None:
    network = RNN(square(4, 4), hidden=8, output="complex", rngs=nnx.Rngs(3))
    configs = np.random.Generator(np.random.PCG64(0)).integers(0, 2, size=(64, 16))
    ln_psi = np.asarray(jax.jit(lambda c: network(c))(jnp.asarray(configs)))
    assert np.abs(2 * ln_psi.real + 16 * np.log(2)).max() < 2
    assert np.abs(ln_psi.imag).max() < np.pi


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": "3d"}, "order = '3d'"),
        ({"output": "imaginary"}, "output = 'imaginary'"),
        ({"hidden": 0}, "hidden = 0"),
    ],
)
def test_bad_settings_are_told(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RNN(square(2, 2), rngs=nnx.Rngs(0), **settings)


def dumb_2d(network: RNN, configs: np.ndarray) -> np.ndarray:
    """Logits (B, N, d) in the order of the snake, with the message of every site kept."""
    cell, size = network.cell, network.cell.hidden
    mix, bias, carry, head, constant = map(
        np.asarray,
        (cell.mix.kernel, cell.mix.bias, cell.carry.kernel, network.head.kernel, network.head.bias),
    )
    result = np.zeros((*configs.shape, 2))
    for b, config in enumerate(configs):
        messages: dict[tuple[int, int], np.ndarray] = {}
        for t, (site,) in enumerate(network.sites):
            row, col = divmod(site, cell.n_cols)
            back = (row, col - 1) if row % 2 == 0 else (row, col + 1)
            none = np.zeros(size + 2)
            beside, above = messages.get(back, none), messages.get((row - 1, col), none)
            h = np.concatenate([beside[:size], above[:size]])
            x = np.concatenate([beside[size:], above[size:]])
            mixed = np.kron(x, np.append(h, 1.0)) @ mix + bias
            gate = 1 / (1 + np.exp(-mixed[size:]))
            state = gate * np.tanh(mixed[:size]) + (1 - gate) * (h @ carry)
            result[b, t] = state @ head + constant
            messages[row, col] = np.concatenate([state, np.eye(2)[config[site]]])
    return result
