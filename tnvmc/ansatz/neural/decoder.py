"""Causal decoder blocks, over all tokens at once and token by token with what is remembered.

Layouts: (B, T, width) for all tokens, (B, width) for one; heads are (B, heads, T, r), r = width /
heads.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

REAL = {"dtype": jnp.float64, "param_dtype": jnp.float64}
"""What every layer computes and keeps its parameters in."""

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
    """Heads that mix each token with those up to it; a subclass says with which weights."""

    def __init__(self, width: int, heads: int, *, rngs: nnx.Rngs) -> None:
        self.heads = heads
        self.qkv = nnx.Linear(width, 3 * width, use_bias=False, **REAL, rngs=rngs)
        self.out = nnx.Linear(width, width, **REAL, rngs=rngs)

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

    def mix(self, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        """Weighted means of the values up to each token: (B, heads, T, r)."""
        raise NotImplementedError

    def mix_one(
        self, cache: Any, q: jax.Array, k: jax.Array, v: jax.Array, t: jax.Array
    ) -> tuple[Any, jax.Array]:
        """The same for token t alone, q, k, v (B, heads, r), and the cache with it added."""
        raise NotImplementedError

    def initial_cache(self, batch: int, n_tokens: int) -> Any:
        """What is remembered before the first token."""
        raise NotImplementedError


class SoftmaxAttention(CausalAttention):
    """softmax(q . k / sqrt(r)) over the tokens up to t: O(T^2 width), and O(T width) a drawn token.

    Remembers all keys and values.  Source: Vaswani et al., "Attention is all you need", NeurIPS
    2017, eq. 1.
    """

    def mix(self, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        """See `CausalAttention.mix`."""
        scores = jnp.einsum("bhtr,bhsr->bhts", q, k) / np.sqrt(q.shape[-1])
        seen = np.tril(np.ones(scores.shape[-2:], dtype=bool))
        return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1) @ v

    def mix_one(
        self, cache: Any, q: jax.Array, k: jax.Array, v: jax.Array, t: jax.Array
    ) -> tuple[Any, jax.Array]:
        """See `CausalAttention.mix_one`."""
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
        """See `CausalAttention.mix`."""
        q, k = _features(q), _features(k)
        sums = jnp.cumsum(k[..., :, None] * v[..., None, :], axis=2)
        return _read(q, sums, jnp.cumsum(k, axis=2))

    def mix_one(
        self, cache: Any, q: jax.Array, k: jax.Array, v: jax.Array, t: jax.Array
    ) -> tuple[Any, jax.Array]:
        """See `CausalAttention.mix_one`."""
        q, k = _features(q), _features(k)
        sums, norms = cache
        sums, norms = sums + k[..., :, None] * v[..., None, :], norms + k
        return (sums, norms), _read(q, sums, norms)

    def initial_cache(self, batch: int, n_tokens: int) -> tuple[jax.Array, jax.Array]:
        """Sums (B, heads, r, r) and (B, heads, r)."""
        r = self.out.in_features // self.heads
        return jnp.zeros((batch, self.heads, r, r)), jnp.zeros((batch, self.heads, r))


def _features(x: jax.Array) -> jax.Array:
    """Positive features of a query or a key."""
    return jax.nn.elu(x) + 1.0


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
        self.norm_attention = nnx.LayerNorm(width, **REAL, rngs=rngs)
        self.attention = ATTENTIONS[attention](width, heads, rngs=rngs)
        self.norm_feed_forward = nnx.LayerNorm(width, **REAL, rngs=rngs)
        self.widen = nnx.Linear(width, 4 * width, **REAL, rngs=rngs)
        self.narrow = nnx.Linear(4 * width, width, **REAL, rngs=rngs)

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
