"""Vision transformer: against loops over heads and patches, translations, attention maps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flax")

import jax
from flax import nnx

from benchmarks.attention import input_dependence
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.vit import ViT, displacements
from tnvmc.lattice import Lattice, square

ROUNDING = 1e-11  # sums of some hundred terms of order 1

ATTENTIONS = pytest.mark.parametrize("attention", ["t5", "decoupled", "factored"])


def _vit(lattice: Lattice, **settings: Any) -> ViT:
    """A small network with noise on all parameters, those that start at 0 or 1 too."""
    settings = {"width": 6, "heads": 2, "layers": 2, **settings}
    graph, state = nnx.split(ViT(lattice, rngs=nnx.Rngs(3), **settings))
    rng = np.random.Generator(np.random.PCG64(4))
    noisy = jax.tree.map(lambda x: np.asarray(x) + 0.3 * rng.normal(size=x.shape), state)
    return nnx.merge(graph, noisy)


def _configs(n: int = 4, n_sites: int = 24, local_dim: int = 2) -> np.ndarray:
    rng = np.random.Generator(np.random.PCG64(7))
    return rng.integers(local_dim, size=(n, n_sites), dtype=np.int8)


def _arrays(module: Any) -> tuple[np.ndarray, ...]:
    """Kernel and bias of a linear layer, scale and bias of a norm."""
    first = module.kernel if isinstance(module, nnx.Linear) else module.scale
    return np.asarray(first[...]), np.zeros(1) if module.bias is None else np.asarray(module.bias)


def _linear(module: Any, x: np.ndarray) -> np.ndarray:
    kernel, bias = _arrays(module)
    return x @ kernel + bias


def _norm(module: Any, x: np.ndarray) -> np.ndarray:
    scale, bias = _arrays(module)
    return (x - x.mean()) / np.sqrt(x.var() + module.epsilon) * scale + bias


def _softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum()


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _position(layer: Any, grid: tuple[int, int], wraps: bool, head: int, i: int, j: int) -> float:
    """p_{i-j} of a head; entry (down, right) of a table of the displacements."""
    counts = grid if wraps else (2 * grid[0] - 1, 2 * grid[1] - 1)
    table = np.asarray(layer.position[...])[head].reshape(counts)
    (row, col), (row_j, col_j) = divmod(i, grid[1]), divmod(j, grid[1])
    return float(table[row - row_j, col - col_j])  # Python counts negative ones from the end


def _attended(layer: Any, x: np.ndarray, grid: tuple[int, int], wraps: bool) -> np.ndarray:
    n, r = len(x), x.shape[1] // layer.heads
    found = np.zeros_like(x)
    for head in range(layer.heads):
        part = slice(head * r, (head + 1) * r)
        for i in range(n):
            p = np.array([_position(layer, grid, wraps, head, i, j) for j in range(n)])
            scores = np.zeros(n)
            if layer.attention != "factored":
                keys = _linear(layer.key, x)[:, part]
                scores = keys @ _linear(layer.query, x)[i, part] / math.sqrt(r)
            weights = {
                "t5": _softmax(scores + p), "decoupled": _softmax(scores) + p, "factored": p
            }[layer.attention]  # fmt: skip
            found[i, part] = weights @ _linear(layer.value, x)[:, part]
    return _linear(layer.mix, found)


def _log_psi(vit: ViT, config: np.ndarray, patches: list[list[int]], grid: Any, wraps: Any) -> Any:
    """ln psi of one configuration of spins by loops over heads and patches."""
    x = np.array([_linear(vit.embedding, 1.0 - 2.0 * config[sites]) for sites in patches])
    for block in vit.blocks:
        normed = np.array([_norm(block.norm, row) for row in x])
        x = x + _attended(block.attention, normed, grid, wraps)
        normed = np.array([_norm(block.feed_norm, row) for row in x])
        x = x + _linear(block.narrow, _gelu(_linear(block.widen, normed)))
    z = _norm(vit.norm, x.sum(axis=0))
    imaginary = 0 if vit.head.phase is None else _head(vit.head.phase, z)
    return np.log(np.cosh(_head(vit.head.modulus, z) + 1j * imaginary)).sum()


def _head(part: Any, z: np.ndarray) -> np.ndarray:
    dense, norm = part.layers
    return _norm(norm, _linear(dense, z))


@pytest.mark.whole
@ATTENTIONS
@pytest.mark.parametrize("boundary", ["open", "periodic"])
def test_equals_loops_over_heads_and_patches(attention: str, boundary: str) -> None:
    vit = _vit(square(4, 6, boundary), attention=attention)
    corners = [row * 6 + col for row in (0, 2) for col in (0, 2, 4)]
    patches = [[c, c + 1, c + 6, c + 7] for c in corners]
    configs = _configs()
    expected = [_log_psi(vit, c, patches, (2, 3), boundary == "periodic") for c in configs]
    np.testing.assert_allclose(np.exp(vit(configs)), np.exp(expected), rtol=ROUNDING)


@ATTENTIONS
def test_translations_by_patches_leave_psi_alone(attention: str) -> None:
    """On a periodic lattice only, and translations by single sites do not."""
    configs = _configs()
    grids = configs.reshape(4, 4, 6)
    by_patch = np.roll(grids, (2, -4), axis=(1, 2)).reshape(4, 24)
    by_site = np.roll(grids, 1, axis=2).reshape(4, 24)
    periodic = _vit(square(4, 6, "periodic"), attention=attention)
    before = np.asarray(periodic(configs))
    np.testing.assert_allclose(np.exp(periodic(by_patch)), np.exp(before), rtol=ROUNDING)
    assert np.abs(periodic(by_site) - before).min() > 1e-3
    opened = _vit(square(4, 6), attention=attention)
    assert np.abs(opened(by_patch) - opened(configs)).min() > 1e-3


PUBLISHED = [
    (6, "factored", 154_980), (6, "t5", 184_260), (6, "decoupled", 184_260),
    (10, "factored", 155_620), (10, "t5", 184_900), (10, "decoupled", 184_900),
]  # fmt: skip
"""Numbers of parameters in table 1 of arXiv:2405.18874: 10 heads, width 60, 4 layers."""


@pytest.mark.parametrize(("length", "attention", "n_params"), PUBLISHED)
def test_as_many_parameters_as_published(length: int, attention: str, n_params: int) -> None:
    lattice = square(length, length, "periodic")
    sizes = {"heads": 10, "width": 60, "layers": 4, "attention": attention}
    vit = nnx.eval_shape(lambda: ViT(lattice, rngs=nnx.Rngs(0), **sizes))
    leaves = jax.tree.leaves(nnx.state(vit, nnx.Param))
    assert sum(math.prod(leaf.shape) for leaf in leaves) == n_params


@pytest.mark.whole
@ATTENTIONS
def test_psi_is_nearly_constant_at_the_start(attention: str) -> None:
    """And not quite: there is something to begin with."""
    vit = ViT(square(4, 4, "periodic"), width=12, heads=4, layers=1, rngs=nnx.Rngs(1))
    log_psi = np.asarray(vit(_configs(64, 16)))
    for part in (log_psi.real, log_psi.imag):
        assert 0.02 < part.std() < 1


def test_displacements() -> None:
    """Modulo the length where periodic, with their sign where open; from patch j to patch i."""
    ring, n_ring = displacements((1, 3), (False, True))
    assert n_ring == 3 and ring.tolist() == [[0, 2, 1], [1, 0, 2], [2, 1, 0]]
    line, n_line = displacements((1, 3), (True, False))
    assert n_line == 5 and line.tolist() == [[0, 4, 3], [1, 0, 4], [2, 1, 0]]
    both, n_both = displacements((3, 4), (False, True))
    assert n_both == 5 * 4 and len(np.unique(both)) == n_both


def test_patches_of_any_shape() -> None:
    vit = ViT(square(2, 9), patch=(1, 3), width=6, heads=2, rngs=nnx.Rngs(0))
    assert vit.embedding.kernel[...].shape == (3, 6)
    assert jax.eval_shape(vit, _configs(4, 18)).shape == (4,)


@pytest.mark.whole
@pytest.mark.parametrize(
    "attention",
    [
        "decoupled",
        pytest.param("t5", marks=pytest.mark.slow),
        pytest.param("factored", marks=pytest.mark.slow),
    ],
)
def test_conformance(attention: str) -> None:
    lattice = square(2, 4, "cylinder")
    settings = {"width": 4, "heads": 2, "layers": 1, "attention": attention}
    ansatz = FlaxAnsatz(lattice, lambda rngs: ViT(lattice, rngs=rngs, **settings))
    check_ansatz(ansatz, ansatz.random(1), configs=_configs(8, 8))


@pytest.mark.whole
def test_real_output_and_larger_local_dim() -> None:
    """psi > 0; local states of d > 2 enter as one-hot vectors."""
    vit = _vit(square(4, 6), output="real", local_dim=3)
    assert vit.embedding.kernel[...].shape == (4 * 3, 6)
    configs = np.zeros((4, 24), dtype=np.int8)
    configs[:3, 5] = (0, 1, 2)
    log_psi = np.asarray(vit(configs))
    assert log_psi.dtype == np.float64 and len(set(log_psi)) == 3


@pytest.mark.whole
@ATTENTIONS
def test_attention_maps(attention: str) -> None:
    """Rows of a softmax sum to one; p_{i-j} alone is alike for all inputs."""
    maps = np.asarray(_vit(square(4, 6), attention=attention).attention_maps(_configs()))
    assert maps.shape == (2, 4, 2, 6, 6)
    share = input_dependence(maps)
    assert share.shape == (2,)
    if attention == "t5":
        np.testing.assert_allclose(maps.sum(axis=-1), 1, rtol=ROUNDING)
    if attention == "factored":
        np.testing.assert_allclose(share, 0, atol=ROUNDING)
    else:
        assert (share > 1e-3).all() and (share < 1).all()


def test_input_dependence_of_known_maps() -> None:
    """A mean of 3 and a rest of +-1 in all entries: 1 / (9 + 1)."""
    maps = 3 + np.array([1.0, -1.0])[None, :, None, None, None] * np.ones((2, 2, 1, 3, 3))
    np.testing.assert_allclose(input_dependence(maps), 0.1, rtol=ROUNDING)
    with pytest.raises(ValueError, match="B at least 2"):
        input_dependence(maps[:, :1])


@pytest.mark.parametrize(
    ("shape", "settings", "message"),
    [
        ((3, 4), {}, "patches of 2 x 2 sites do not tile the lattice of 3 x 4"),
        ((4, 4), {"patch": (2, 3)}, "patches of 2 x 3 sites do not tile"),
        ((4, 4), {"width": 10}, "4 heads do not divide the width 10"),
        ((4, 4), {"layers": 0}, "layers = 0"),
        ((4, 4), {"patch": 0}, "patch = 0"),
        ((4, 4), {"attention": "linear"}, "'linear' must be one of t5, decoupled, factored"),
        ((4, 4), {"output": "phase"}, "output = 'phase'"),
    ],
)
def test_what_does_not_fit_is_said(
    shape: tuple[int, int], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match="ViT: .*" + message) as error:
        ViT(square(*shape), rngs=nnx.Rngs(0), **settings)
    assert "\n" not in str(error.value)
