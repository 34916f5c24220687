"""Patched transformer, its large variant and both attentions, against dumb loops in NumPy."""

from __future__ import annotations

import re
from math import cos, exp, pi, sin, sqrt
from typing import Any

import jax
import numpy as np
import pytest
from flax import nnx

from tests.ansatz.neural.autoregressive_checks import ROUNDING, check_autoregressive, perturbed
from tests.oracles import all_configs
from tnvmc import VMC, rydberg
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.layers import patches_of
from tnvmc.ansatz.neural.patched_transformer import (
    ATTENTIONS,
    PatchedTransformer,
    sinusoidal_positions,
)
from tnvmc.lattice import square
from tnvmc.sampling.direct import DirectSampler

SMALL: dict[str, Any] = {"width": 4, "heads": 2, "layers": 1}


def build(shape: tuple[int, int] = (2, 4), **options: Any) -> PatchedTransformer:
    return PatchedTransformer(square(*shape), **(SMALL | options), rngs=nnx.Rngs(0))


@pytest.mark.whole
@pytest.mark.parametrize(
    "options",
    [
        {"patch": (2, 1), "output": "complex"},
        pytest.param(
            {"patch": 2, "attention": "linear", "magnetisation": 2}, marks=pytest.mark.slow
        ),
        pytest.param({"attention": "linear", "patch": (1, 2)}, marks=pytest.mark.slow),
    ],
    ids=["softmax", "linear, sector", "linear"],
)
def test_is_autoregressive(options: dict[str, Any]) -> None:
    check_autoregressive(perturbed(build(**options), 0.1))


@pytest.mark.whole
def test_norm_is_one_at_twelve_sites() -> None:
    module = perturbed(build((3, 4), patch=(3, 2), output="complex"))
    log_psi = np.asarray(jax.jit(module)(all_configs(12)))
    assert abs(np.sum(np.abs(np.exp(log_psi)) ** 2) - 1) < ROUNDING


@pytest.mark.whole
@pytest.mark.parametrize(
    "options",
    [
        {"patch": (1, 2), "output": "complex"},
        pytest.param({"attention": "linear"}, marks=pytest.mark.slow),
    ],
    ids=["softmax, complex", "linear"],
)
def test_conforms(options: dict[str, Any]) -> None:
    lattice = square(2, 2) if "patch" in options else square(2, 4)
    ansatz = FlaxAnsatz(
        lattice, lambda rngs: PatchedTransformer(lattice, **(SMALL | options), rngs=rngs)
    )
    check_ansatz(ansatz, ansatz.random(1))


def test_logits_are_those_of_a_dumb_transformer() -> None:
    module = perturbed(build((2, 6), layers=2, patch=(2, 1)))
    configs = np.random.default_rng(0).integers(2, size=(5, 12))
    tokens = 2 * configs[:, :6] + configs[:, 6:]
    expected = np.array([dumb_logits(module, row) for row in tokens])
    np.testing.assert_allclose(jax.jit(module.scores)(configs)[0], expected, rtol=0, atol=ROUNDING)


def dumb_logits(module: PatchedTransformer, tokens: np.ndarray) -> np.ndarray:
    """Logits (T, 4) of one row of tokens, token by token and head by head."""
    start = len(module.embedding.embedding[...]) - 1
    before = [start, *tokens[:-1]]
    x = np.asarray(module.embedding.embedding[...])[before] + sinusoidal_positions(6, 4)
    for block in module.blocks:
        qkv = normalised(block.norm_attention, x) @ np.asarray(block.attention.qkv.kernel[...])
        heads = []
        for h in range(2):
            q, k, v = (qkv[:, 4 * part + 2 * h : 4 * part + 2 * h + 2] for part in range(3))
            heads.append(dumb_softmax_attention(q, k, v))
        x = x + dense(block.attention.out, np.concatenate(heads, axis=1))
        wide = dense(block.widen, normalised(block.norm_feed_forward, x))
        gelu = 0.5 * wide * (1 + np.tanh(sqrt(2 / pi) * (wide + 0.044715 * wide**3)))
        x = x + dense(block.narrow, gelu)
    return dense(module.head, normalised(module.norm, x))


def dense(layer: nnx.Linear, x: np.ndarray) -> np.ndarray:
    return x @ np.asarray(layer.kernel[...]) + np.asarray(layer.bias[...])


def normalised(layer: nnx.LayerNorm, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=1, keepdims=True)
    scale = np.asarray(layer.scale[...]) / np.sqrt(
        np.mean(centred**2, axis=1, keepdims=True) + 1e-6
    )
    return centred * scale + np.asarray(layer.bias[...])


def dumb_softmax_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    weights = [[exp(q[t] @ k[s] / sqrt(q.shape[1])) for s in range(t + 1)] for t in range(len(q))]
    return np.array([np.array(w) @ v[: len(w)] / sum(w) for w in weights])


def dumb_linear_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    def phi(x: np.ndarray) -> np.ndarray:
        return np.array([y + 1 if y > 0 else exp(y) for y in x])

    weights = [[phi(q[t]) @ phi(k[s]) for s in range(t + 1)] for t in range(len(q))]
    return np.array([np.array(w) @ v[: len(w)] / sum(w) for w in weights])


@pytest.mark.whole
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_is_a_weighted_mean_of_what_came_before(name: str) -> None:
    q, k, v = np.random.default_rng(1).normal(size=(3, 2, 3, 5, 2))  # batch 2, 3 heads, 5 tokens
    dumb = dumb_softmax_attention if name == "softmax" else dumb_linear_attention
    found = ATTENTIONS[name](6, 3, rngs=nnx.Rngs(0)).mix(*map(jax.numpy.asarray, (q, k, v)))
    for b, h in np.ndindex(2, 3):
        np.testing.assert_allclose(found[b, h], dumb(q[b, h], k[b, h], v[b, h]), atol=ROUNDING)


@pytest.mark.whole
def test_linear_attention_remembers_as_much_of_any_number_of_tokens() -> None:
    def remembered(attention: str, patch: int) -> int:
        cache = build((4, 4), attention=attention, patch=patch).initial_cache(3)
        return sum(array.size for array in jax.tree.leaves(cache))

    assert remembered("linear", 1) == remembered("linear", 2)
    assert remembered("softmax", 1) == 4 * remembered("softmax", 2)


def test_positions_follow_the_formula() -> None:
    found = sinusoidal_positions(7, 5)
    for t, i in np.ndindex(7, 5):
        wave = sin(t / 10000 ** (i / 5)) if i % 2 == 0 else cos(t / 10000 ** ((i - 1) / 5))
        assert abs(found[t, i] - wave) < ROUNDING


def test_patches_go_row_by_row() -> None:
    assert patches_of("", square(2, 4), (2, 2)) == ((0, 1, 4, 5), (2, 3, 6, 7))
    assert patches_of("", square(2, 2), (2, 1)) == ((0, 2), (1, 3))
    assert patches_of("", square(1, 4), (1, 2)) == ((0, 1), (2, 3))


@pytest.mark.whole
def test_starts_near_the_uniform_superposition() -> None:
    module = PatchedTransformer(square(4, 4), output="complex", rngs=nnx.Rngs(0))
    log_psi = np.asarray(jax.jit(module)(np.random.default_rng(0).integers(2, size=(64, 16))))
    assert np.abs(log_psi.real + 8 * np.log(2)).max() < 1.0
    assert 0 < np.abs(log_psi.imag).max() < 1.5


@pytest.mark.parametrize(
    "options, message",
    [
        ({"patch": 3}, "patches of 3 x 3 sites do not tile the lattice of 4 x 4"),
        ({"patch": (2, 3)}, "patches of 2 x 3 sites do not tile the lattice of 4 x 4"),
        ({"width": 6, "heads": 4}, "4 heads do not divide the width 6"),
        ({"patch": 4}, "a patch of 16 sites has 2^16 states, more than 1024"),
        ({"attention": "soft"}, "attention = 'soft' must be one of softmax, linear"),
        ({"output": "phase"}, "output = 'phase' must be one of real, complex"),
        ({"layers": 0}, "layers = 0 must be an integer >= 1"),
    ],
)
def test_refuses_with_both_values(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        build((4, 4), **options)
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_rydberg_atoms_beat_the_lecture() -> None:
    """-6.84 there at step 400; exact -7.254611338546."""
    lattice = square(4, 4)
    ansatz = FlaxAnsatz(lattice, lambda rngs: PatchedTransformer(lattice, rngs=rngs))
    vmc = VMC(rydberg(lattice), ansatz, DirectSampler(1024), theta=ansatz.random(0))
    vmc.run(40)
    found = vmc.measure(n_samples=8192)
    print(f"after 40 steps {found.energy} +- {found.energy_error}, variance {found.variance}")
    assert -7.254611338546 - 4 * found.energy_error < found.energy < -7.18
