"""Multi-head attention whose positions enter as p_{i-j}, in three forms."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


class RelativeAttention(nnx.Module):
    """Multi-head attention on a grid of n patches, with one number p per head and displacement.

    Patch i receives A_i = sum_j alpha_ij v_j in each of the `heads`, r = width / heads components
    wide; the heads are joined and mixed by one matrix.  The weights alpha are, by `attention`,

        "t5"         softmax_j(q_i . k_j / sqrt(r) + p_{i-j})
        "decoupled"  softmax_j(q_i . k_j / sqrt(r)) + p_{i-j}
        "factored"   p_{i-j}                           no queries, no keys: alike for every input

    Along a periodic direction of n patches displacements count modulo n, so there are n of them
    and the layer commutes with translations by patches; along an open one there are 2n - 1.

    p starts as noise: of 1 / sqrt(n) in "factored", which keeps the size of the values, a tenth
    of it beside the softmax, which starts as the mean over the patches.

    Args:
        grid: rows and columns of patches.
        periodic: whether rows, columns of patches come back to the first one.

    Source: R. Rende, L. L. Viteritti, Mach. Learn.: Sci. Technol. 6, 010501 (2025),
    arXiv:2405.18874; "t5" after C. Raffel et al., JMLR 21, 140 (2020), which shares p among
    far displacements and leaves out the 1 / sqrt(r).  Of the paper's text only its beginning was
    at hand: the formulas are ours from its names and figures (T5's bias inside the softmax, the
    same bias outside it, the bias alone); the authors' tutorial on this wave function (NetKet,
    2025) has the factored one as it is here.
    """

    def __init__(
        self,
        grid: tuple[int, int],
        periodic: tuple[bool, bool],
        *,
        width: int,
        heads: int,
        attention: str,
        rngs: nnx.Rngs,
    ) -> None:
        self.heads, self.attention = heads, attention
        index, n_displacements = displacements(grid, periodic)
        self.index = tuple(map(tuple, index.tolist()))
        if attention != "factored":
            self.query = _linear(width, rngs)
            self.key = _linear(width, rngs)
        self.value = _linear(width, rngs)
        self.mix = _linear(width, rngs, use_bias=True)
        noise = (1.0 if attention == "factored" else 0.1) / (grid[0] * grid[1]) ** 0.5
        self.position = nnx.Param(
            noise * jax.random.normal(rngs.params(), (heads, n_displacements), jnp.float64)
        )

    def __call__(self, x: jax.Array) -> jax.Array:
        """Give A, mixed: (B, n, width) -> (B, n, width).  Cost: B n width (width + n)."""
        value = self._by_head(self.value(x))
        if self.attention == "factored":
            heads = jnp.einsum("hij,bjhr->bihr", self._positions(), value)
        else:
            heads = jnp.einsum("bhij,bjhr->bihr", self.weights(x), value)
        return self.mix(heads.reshape(x.shape))

    def weights(self, x: jax.Array) -> jax.Array:
        """Give the attention weights alpha: (B, n, width) -> (B, heads, n, n)."""
        position = self._positions()
        if self.attention == "factored":
            return jnp.broadcast_to(position, (x.shape[0], *position.shape))
        query, key = self._by_head(self.query(x)), self._by_head(self.key(x))
        scores = jnp.einsum("bihr,bjhr->bhij", query, key) / query.shape[-1] ** 0.5
        if self.attention == "t5":
            return jax.nn.softmax(scores + position, axis=-1)
        return jax.nn.softmax(scores, axis=-1) + position

    def _positions(self) -> jax.Array:
        return self.position[...][:, np.asarray(self.index)]

    def _by_head(self, x: jax.Array) -> jax.Array:
        return x.reshape(*x.shape[:2], self.heads, -1)


def displacements(grid: tuple[int, int], periodic: tuple[bool, bool]) -> tuple[np.ndarray, int]:
    """Number the displacements from patch j to patch i: (n, n) indices, and how many there are."""
    places = np.stack(np.divmod(np.arange(grid[0] * grid[1]), grid[1]), axis=-1)
    apart = places[:, None] - places[None, :]
    counts = [n if wraps else 2 * n - 1 for n, wraps in zip(grid, periodic, strict=True)]
    index = (apart % counts) @ (counts[1], 1)
    return index, counts[0] * counts[1]


def input_dependence(maps: Sequence[float] | np.ndarray) -> np.ndarray:
    """Give for each layer the share of the attention weights that depends on the input.

    Maps of `ViT.attention_maps` (layers, B, heads, n, n) are split into their mean over the B
    configurations and the rest; the share is |rest|^2 / |maps|^2, (layers,): 0 where all inputs
    are met alike (always so for "factored"), below 1.  A common map hides what is uniform in it:
    weights of a softmax never fall below 1 / n in the mean, so the share stays below 1 - 1 / n.

    Raises:
        ValueError: not five axes, or fewer than two configurations.
    """
    maps = np.asarray(maps)
    if maps.ndim != 5 or maps.shape[1] < 2:
        raise ValueError(
            f"input_dependence: maps of shape {maps.shape}; they must be (layers, B, heads, n, n) "
            "with B at least 2, as `ViT.attention_maps` gives them"
        )
    rest = maps - maps.mean(axis=1, keepdims=True)
    axes = (1, 2, 3, 4)
    return np.asarray((rest**2).sum(axis=axes) / (maps**2).sum(axis=axes))


def _linear(width: int, rngs: nnx.Rngs, use_bias: bool = False) -> nnx.Linear:
    return nnx.Linear(
        width, width, use_bias=use_bias, dtype=jnp.float64, param_dtype=jnp.float64, rngs=rngs
    )
