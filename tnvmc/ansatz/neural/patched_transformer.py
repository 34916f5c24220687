"""PatchedTransformer: an autoregressive wave function whose tokens are patches of sites.

Layouts: (B, T, width) for all tokens, (B, width) for one; heads are (B, heads, T, r), r = width /
heads.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from tnvmc.ansatz.neural.architectures import PatchedTransformerConfig, noted
from tnvmc.ansatz.neural.autoregressive import Autoregressive
from tnvmc.ansatz.neural.layers import REAL, layer_norm, linear, patches_of
from tnvmc.lattice.lattice import Lattice

MOST_STATES = 1024
"""Of a patch, which one layer predicts at once."""

HEAD_SCALE = 0.1
"""Of the entries of the last layer, times 1 / sqrt(inputs): |psi|^2 starts nearly uniform."""


@noted("patched_transformer")
class PatchedTransformer(Autoregressive):
    """psi = sqrt(P) from a decoder-only transformer: p of each patch given the patches before it.

    Keywords: `PatchedTransformerConfig`.  Patches of b x b sites (or rows x columns), in row-major
    order, are the tokens: one-hot of their d^k states times an embedding matrix, plus sinusoidal
    positions; then `layers` causal blocks of `heads` heads and feed-forward width 4 `width`,
    normalised before each part; then a head of d^k logits.  `output = "complex"` adds a phase: the
    sum over patches of one angle each, from a second head.  `attention = "linear"` stores O(1)
    numbers for each token.

    Called: (B, N) local states -> ln psi (B,), real or complex.  Cost per configuration of T
    patches, to evaluate and to draw, per layer: O(T^2 width + T width^2); "linear": O(T width^2).
    It starts near the uniform superposition.

    Raises:
        ValueError: patches that do not tile the lattice, a patch of more than 1024 states; what
            `PatchedTransformerConfig` does not know.

    Source: K. Sprague, S. Czischek, "Variational Monte Carlo with large patched transformers",
    Commun.  Phys. 7, 90 (2024), arXiv:2306.03921.  Transformers as quantum states: Y.-H. Zhang, M.
    Di Ventra, PRB 107, 075147 (2023).  Angles: M. Hibat-Allah et al., PRR 2, 023358 (2020).

    It does not know which patches are neighbours, nor periodic boundaries: both are learnt.  The
    sites of a patch are not predicted one by one, as the large variant of the source does.
    """

    def __init__(
        self,
        lattice: Lattice,
        *,
        magnetisation: int | None = None,
        local_dim: int = 2,
        rngs: nnx.Rngs,
        **architecture: Any,
    ) -> None:
        config = PatchedTransformerConfig(**architecture)
        patches = patches_of("PatchedTransformer", lattice, config.patch_shape)
        if local_dim ** len(patches[0]) > MOST_STATES:
            raise ValueError(
                f"PatchedTransformer: a patch of {len(patches[0])} sites has "
                f"{local_dim}^{len(patches[0])} states, more than {MOST_STATES}; take a smaller "
                "patch"
            )
        super().__init__(patches, local_dim=local_dim, magnetisation=magnetisation)
        self.width = width = config.width
        self.embedding = nnx.Embed(
            self.n_states + 1,  # the last row stands before the first patch
            width,
            embedding_init=nnx.initializers.normal(1.0),
            **REAL,
            rngs=rngs,
        )
        self.blocks = nnx.List(
            Block(width, config.heads, config.attention, rngs=rngs) for _ in range(config.layers)
        )
        self.norm = layer_norm(width, rngs=rngs)
        start = nnx.initializers.normal(HEAD_SCALE / width**0.5)
        small = partial(linear, width, self.n_states, kernel_init=start, rngs=rngs)
        self.head = small()
        self.angle = small() if config.output == "complex" else None

    def scores(self, configs: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """Scores (B, T, states), and the sum of the angles of the tokens (B,), by one pass."""
        features = self._features(configs)
        if self.angle is None:
            return self.head(features), None
        chosen = self.tokens(configs)[..., None]
        angles = jnp.take_along_axis(self.angle(features), chosen, axis=2)
        return self.head(features), jnp.sum(angles, axis=(1, 2))

    def _features(self, configs: jax.Array) -> jax.Array:
        """What the heads see of each patch: (B, T, width)."""
        patches = self.embedding(self.tokens(configs))
        first = jnp.broadcast_to(self._first(), (len(patches), 1, self.width))
        x = jnp.concatenate([first, patches[:, :-1]], axis=1)
        x = x + sinusoidal_positions(self.n_tokens, self.width)
        for block in self.blocks:
            x = block(x)
        normed: jax.Array = self.norm(x)
        return normed

    def _first(self) -> jax.Array:
        """The vector (width,) in place of a patch before the first."""
        return self.embedding(jnp.array(self.n_states))

    def initial_cache(self, batch: int) -> Any:
        """What the blocks remember before the first patch."""
        return tuple(b.attention.initial_cache(batch, self.n_tokens) for b in self.blocks)

    def step(self, cache: Any, token_before: jax.Array, t: jax.Array) -> tuple[Any, jax.Array]:
        """Take patch t - 1 through the blocks, and score patch t: see `Autoregressive`."""
        x = jnp.where(t == 0, self._first(), self.embedding(token_before))
        x = x + jnp.asarray(sinusoidal_positions(self.n_tokens, self.width))[t]
        remembered = []
        for block, before in zip(self.blocks, cache, strict=True):
            after, x = block.step(before, x, t)
            remembered.append(after)
        return tuple(remembered), self.head(self.norm(x))


BASE = 10000.0
"""Of the geometric sequence of wavelengths of the positions (Vaswani et al.)."""


def sinusoidal_positions(n_tokens: int, width: int) -> np.ndarray:
    """Give the positions (T, width): sin(t / 10000^(i / width)) for even i, cos with i - 1 for odd.

    Source: Vaswani et al., NeurIPS 2017, section 3.5, with i counted over the full width.
    """
    even = np.arange(width) // 2 * 2
    angle = np.arange(n_tokens)[:, None] / BASE ** (even / width)
    return np.where(np.arange(width) % 2 == 0, np.sin(angle), np.cos(angle))


class CausalAttention(nnx.Module):
    """Heads that mix each token with those up to it; a subclass says with which weights.

    It defines `mix` (all tokens: q, k, v (B, heads, T, r) -> the same shape), `mix_one` (token t
    alone, (B, heads, r), and the cache with it added) and `initial_cache`.
    """

    mix: Callable[..., jax.Array]
    mix_one: Callable[..., tuple[Any, jax.Array]]
    initial_cache: Callable[[int, int], Any]

    def __init__(self, width: int, heads: int, *, rngs: nnx.Rngs) -> None:
        self.heads = heads
        self.qkv = linear(width, 3 * width, use_bias=False, rngs=rngs)
        self.out = linear(width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Mix all tokens: (B, T, width) -> (B, T, width)."""
        mixed = self.mix(*self._heads(x))
        return self.out(jnp.moveaxis(mixed, 1, 2).reshape(x.shape))

    def step(self, cache: Any, x: jax.Array, t: jax.Array) -> tuple[Any, jax.Array]:
        """Mix token t, the earlier ones being in the cache: (B, width) -> cache, (B, width)."""
        q, k, v = (part[:, :, 0] for part in self._heads(x[:, None]))
        cache, mixed = self.mix_one(cache, q, k, v, t)
        return cache, self.out(mixed.reshape(x.shape))

    def _heads(self, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Queries, keys and values, each (B, heads, T, r)."""
        split = self.qkv(x).reshape(*x.shape[:2], 3, self.heads, -1)
        q, k, v = jnp.moveaxis(split, (2, 3), (0, 2))
        return q, k, v


class SoftmaxAttention(CausalAttention):
    """softmax(q . k / sqrt(r)) over the tokens up to t: O(T^2 width), and O(T width) a drawn token.

    Remembers all keys and values.  Source: Vaswani et al., "Attention is all you need", NeurIPS
    2017, eq. 1.
    """

    def mix(self, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("bhtr,bhsr->bhts", q, k) / np.sqrt(q.shape[-1])
        seen = np.tril(np.ones(scores.shape[-2:], dtype=bool))
        return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1) @ v

    def mix_one(
        self, cache: Any, q: jax.Array, k: jax.Array, v: jax.Array, t: jax.Array
    ) -> tuple[Any, jax.Array]:
        keys, values = (
            jax.lax.dynamic_update_slice_in_dim(old, new[:, :, None], t, axis=2)
            for old, new in zip(cache, (k, v), strict=True)
        )
        scores = jnp.einsum("bhr,bhsr->bhs", q, keys) / np.sqrt(q.shape[-1])
        seen = jnp.arange(keys.shape[2]) <= t
        weight = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
        return (keys, values), jnp.einsum("bhs,bhsr->bhr", weight, values)

    def initial_cache(self, batch: int, n_tokens: int) -> tuple[jax.Array, jax.Array]:
        """Keys and values, each (B, heads, T, r)."""
        width = self.out.in_features
        empty = jnp.zeros((batch, self.heads, n_tokens, width // self.heads))
        return empty, empty


class LinearAttention(CausalAttention):
    """phi(q) . phi(k) over its sum, phi = elu + 1: O(T r width), and O(r width) a drawn token.

    Remembers sum_s phi(k_s) v_s and sum_s phi(k_s), whatever t is.  Source: Katharopoulos, Vyas,
    Pappas and Fleuret, "Transformers are RNNs", ICML 2020, eqs. 7, 9 and 18-20.
    """

    def mix(self, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        q, k = jax.nn.elu(q) + 1.0, jax.nn.elu(k) + 1.0
        sums = jnp.cumsum(k[..., :, None] * v[..., None, :], axis=2)
        return _read(q, sums, jnp.cumsum(k, axis=2))

    def mix_one(
        self, cache: Any, q: jax.Array, k: jax.Array, v: jax.Array, t: jax.Array
    ) -> tuple[Any, jax.Array]:
        q, k = jax.nn.elu(q) + 1.0, jax.nn.elu(k) + 1.0
        sums, norms = cache
        sums, norms = sums + k[..., :, None] * v[..., None, :], norms + k
        return (sums, norms), _read(q, sums, norms)

    def initial_cache(self, batch: int, n_tokens: int) -> tuple[jax.Array, jax.Array]:
        """Sums (B, heads, r, r) and (B, heads, r)."""
        r = self.out.in_features // self.heads
        return jnp.zeros((batch, self.heads, r, r)), jnp.zeros((batch, self.heads, r))


def _read(q: jax.Array, sums: jax.Array, norms: jax.Array) -> jax.Array:
    """What a query finds: (..., r), from sums (..., r, r) and norms (..., r)."""
    found = jnp.einsum("...r,...rs->...s", q, sums)
    return found / jnp.sum(q * norms, axis=-1, keepdims=True)


ATTENTIONS: dict[str, type[CausalAttention]] = {
    "softmax": SoftmaxAttention,
    "linear": LinearAttention,
}


class Block(nnx.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)), 4 times as wide, with GELU (tanh).

    Normalised before and not after each part: the residual path is then the identity, gradients at
    the start do not depend on the depth, and no warm-up is needed.  Source: Xiong et al., "On layer
    normalization in the transformer architecture", ICML 2020.
    """

    def __init__(self, width: int, heads: int, attention: str, *, rngs: nnx.Rngs) -> None:
        self.norm_attention = layer_norm(width, rngs=rngs)
        self.attention = ATTENTIONS[attention](width, heads, rngs=rngs)
        self.norm_feed_forward = layer_norm(width, rngs=rngs)
        self.widen = linear(width, 4 * width, rngs=rngs)
        self.narrow = linear(4 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Transform all tokens: (B, T, width) -> (B, T, width)."""
        x = x + self.attention(self.norm_attention(x))
        return x + self._feed_forward(x)

    def step(self, cache: Any, x: jax.Array, t: jax.Array) -> tuple[Any, jax.Array]:
        """Transform token t: (B, width) -> cache, (B, width)."""
        cache, mixed = self.attention.step(cache, self.norm_attention(x), t)
        x = x + mixed
        return cache, x + self._feed_forward(x)

    def _feed_forward(self, x: jax.Array) -> jax.Array:
        return self.narrow(jax.nn.gelu(self.widen(self.norm_feed_forward(x))))
