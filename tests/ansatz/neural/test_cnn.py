"""Convolutional networks against loops over sites, and their symmetry."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flax")

import jax
from flax import nnx

from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.neural.cnn import CNN
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.lattice import chain, square

ROUNDING = 1e-12  # a few hundred terms of order 1, each rounded at 1e-16

ACTIVATIONS = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "log_cosh": lambda x: np.log(np.cosh(x)),
}


def _configs(n_sites: int, local_dim: int = 2) -> np.ndarray:
    return np.random.default_rng(3).integers(local_dim, size=(4, n_sites), dtype=np.int8)


def _by_loops(cnn: CNN, config: np.ndarray, activation: str) -> complex:
    """ln psi of one configuration, position by position."""
    act = ACTIVATIONS[activation]
    grid = config.reshape(cnn.shape)
    x = (1.0 - 2.0 * grid)[..., None] if cnn.local_dim == 2 else np.eye(cnn.local_dim)[grid]
    for layer in cnn.convolutions:
        y = act(_convolved(x, layer, cnn))
        x = x + y if cnn.residual and x.shape == y.shape else y
        if cnn.pooling != "none":
            x = _pooled(x, cnn.pool, np.max if cnn.pooling == "max" else np.mean)
    x = x.ravel() if cnn.head == "flatten" else x.sum(axis=(0, 1))
    for layer in cnn.dense:
        x = act(x @ np.asarray(layer.kernel[...]) + np.asarray(layer.bias[...]))
    z = x @ np.asarray(cnn.readout.kernel[...]) + np.asarray(cnn.readout.bias[...])
    if cnn.output == "complex":
        z = z[: len(z) // 2] + 1j * z[len(z) // 2 :]
    return np.log(np.cosh(z)).sum()


def _convolved(x: np.ndarray, layer: nnx.Linear, cnn: CNN) -> np.ndarray:
    n_rows, n_cols, n_channels = x.shape
    weights = np.asarray(layer.kernel[...]).reshape(*cnn.kernel, n_channels, -1)
    bias = np.asarray(layer.bias[...])
    found = []
    for row in range(0, n_rows, cnn.stride[0]):
        for col in range(0, n_cols, cnn.stride[1]):
            total = bias.copy()
            for i in range(cnn.kernel[0]):
                for j in range(cnn.kernel[1]):
                    r, c = row + i - (cnn.kernel[0] - 1) // 2, col + j - (cnn.kernel[1] - 1) // 2
                    inside = (0 <= r < n_rows or cnn.wraps[0]) and (0 <= c < n_cols or cnn.wraps[1])
                    if inside:
                        total += x[r % n_rows, c % n_cols] @ weights[i, j]
            found.append(total)
    return np.array(found).reshape(n_rows // cnn.stride[0], n_cols // cnn.stride[1], -1)


def _pooled(x: np.ndarray, pool: tuple[int, int], reduce: Any) -> np.ndarray:
    blocks = [
        [
            reduce(x[r : r + pool[0], c : c + pool[1]], axis=(0, 1))
            for c in range(0, x.shape[1], pool[1])
        ]
        for r in range(0, x.shape[0], pool[0])
    ]
    return np.array(blocks)


@pytest.mark.whole
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"activation": "relu", "padding": "periodic", "kernel": (2, 3), "head": "flatten"},
        {"activation": "sigmoid", "pooling": "average", "pool": (1, 2), "dense": (5,), "kernel": 2},
        {"activation": "log_cosh", "pooling": "max", "features": (3,), "output": "real"},
        {"stride": (1, 2), "kernel": (3, 1), "head": "flatten", "residual": True},
        {"local_dim": 3, "residual": True, "padding": "zero", "features": (2, 2)},
    ],
    ids=str,
)
def test_network_is_what_loops_over_sites_give(settings: dict[str, Any]) -> None:
    lattice = square(4, 4, "cylinder")
    cnn = CNN(lattice, **{"features": (2, 3), **settings}, rngs=nnx.Rngs(1))
    for layer in cnn.convolutions:  # biases start at zero and would not be tested
        layer.bias[...] = np.linspace(0.1, 0.7, layer.bias.shape[0])
    configs = _configs(16, cnn.local_dim)
    expected = [_by_loops(cnn, config, settings.get("activation", "gelu")) for config in configs]
    np.testing.assert_allclose(jax.jit(cnn)(configs), expected, rtol=ROUNDING, atol=ROUNDING)


def test_a_chain_takes_one_dimensional_windows() -> None:
    cnn = CNN(chain(6), features=(2,), kernel=3, pooling="max", pool=2, rngs=nnx.Rngs(0))
    assert (cnn.kernel, cnn.stride, cnn.pool) == ((1, 3), (1, 1), (1, 2))
    configs = _configs(6)
    expected = [_by_loops(cnn, config, "gelu") for config in configs]
    np.testing.assert_allclose(jax.jit(cnn)(configs), expected, rtol=ROUNDING, atol=ROUNDING)


def test_periodic_padding_and_sum_are_invariant_under_translations() -> None:
    lattice = square(3, 4, "periodic")
    configs = _configs(12)
    moved = np.roll(configs.reshape(-1, 3, 4), (1, 2), axis=(1, 2)).reshape(-1, 12)
    differences = {}
    for head in ("sum", "flatten"):
        network = jax.jit(CNN(lattice, features=(3, 3), head=head, rngs=nnx.Rngs(2)))
        differences[head] = np.abs(network(moved) - network(configs)).max()
    assert differences["sum"] < ROUNDING
    assert differences["flatten"] > 1e-3


@pytest.mark.whole
@pytest.mark.parametrize("output", [pytest.param("real", marks=pytest.mark.slow), "complex"])
def test_conforms(output: str) -> None:
    lattice = square(2, 2)
    settings = {"features": (2,), "kernel": 2, "dense": (2,), "output": output}
    ansatz = FlaxAnsatz(lattice, lambda rngs: CNN(lattice, **settings, rngs=rngs))
    check_ansatz(ansatz, ansatz.random(0))


def test_psi_is_nearly_constant_at_the_start() -> None:
    """Readout weights of 0.1 / sqrt(n): ln cosh(0.1) times 8 units is 0.04."""
    log_psi = jax.jit(CNN(square(4, 4), rngs=nnx.Rngs(0)))(_configs(16))
    assert np.abs(log_psi).max() < 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": 5}, "kernel 5 x 5 is larger than the 4 x 6 grid that layer 1 sees"),
        ({"stride": 4}, "stride 4 x 4 does not divide the 4 x 6 grid that layer 1 sees"),
        ({"pooling": "max", "pool": 4}, "pool 4 x 4 does not divide the 4 x 6 grid"),
        ({"stride": 2}, "kernel 3 x 3 is larger than the 2 x 3 grid that layer 2 sees"),
        ({"stride": 0}, "stride = 0 must be an integer >= 1"),
        ({"pooling": "mean"}, "pooling = 'mean' must be one of none, max, average"),
        ({"activation": "tanh"}, "activation = 'tanh' must be one of sigmoid, relu"),
        ({"padding": "open"}, "padding = 'open' must be one of lattice, periodic, zero"),
        ({"head": "mean"}, "head = 'mean' must be one of flatten, sum"),
        ({"output": "phase"}, "output = 'phase' must be one of real, complex"),
        ({"features": ()}, r"features = \(\) must be a list of integers >= 1"),
        ({"dense": (0,)}, r"dense = \(0,\)"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CNN(square(4, 6), **settings, rngs=nnx.Rngs(0))
