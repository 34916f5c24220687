"""PatchedTransformer: an autoregressive wave function whose tokens are patches of sites."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from tnvmc.ansatz.neural.architectures import PatchedTransformerConfig, noted
from tnvmc.ansatz.neural.autoregressive import Autoregressive
from tnvmc.ansatz.neural.decoder import REAL, Block, sinusoidal_positions
from tnvmc.lattice.lattice import Lattice, require_full_grid

MOST_STATES = 1024
"""Of a patch that one layer predicts at once; a larger patch wants `inner`."""

HEAD_SCALE = 0.1
"""Of the entries of the last layer, times 1 / sqrt(inputs): |psi|^2 starts nearly uniform."""


@noted("patched_transformer")
class PatchedTransformer(Autoregressive):
    """psi = sqrt(P) from a decoder-only transformer: p of each patch given the patches before it.

    Patches of b x b sites (or rows x columns), in row-major order, are the tokens: one-hot of their
    d^k states times an embedding matrix, plus sinusoidal positions; then `layers` causal blocks of
    `heads` heads and feed-forward width 4 `width`, normalised before each part (`decoder.Block`
    says why); then a head of d^k logits.  `output = "complex"` adds a phase: the sum over patches
    of one angle each, from a second head.  `attention = "linear"` stores O(1) numbers for each
    token.

    `inner = n` is the large patched variant: a gated recurrent unit of n units starts from what the
    transformer says of a patch and predicts its sites one by one; patches are embedded as the sum
    of one vector per site and state.  Parameters and logits then grow with k in place of d^k.

    Called: (B, N) local states -> ln psi (B,), real or complex.  Cost per configuration of T
    patches, to evaluate and to draw, per layer: O(T^2 width + T width^2) with keys and values
    remembered while drawing; "linear": O(T width^2).  It starts near the uniform superposition,
    with tokens of the size of their positions.

    Args:
        lattice: where the sites lie.
        magnetisation: twice the total Sz to which psi is restricted; None for all configurations.
        local_dim: states of a site.
        rngs: random numbers of the initial parameters.
        architecture: keywords of `PatchedTransformerConfig`.

    Raises:
        ValueError: patches that do not tile the lattice, a patch of more than 1024 states without
            `inner`; what `PatchedTransformerConfig` does not know.

    Source: K. Sprague, S. Czischek, "Variational Monte Carlo with large patched transformers",
    Commun. Phys. 7, 90 (2024), arXiv:2306.03921.  Transformers as quantum states: Y.-H. Zhang, M.
    Di Ventra, PRB 107, 075147 (2023).  Angles: M. Hibat-Allah et al., PRR 2, 023358 (2020).

    It does not know which patches are neighbours, nor periodic boundaries: both are learnt.
    """

    Config = PatchedTransformerConfig

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
        width, inner = config.width, config.inner
        patches = patches_of(lattice, config.patch)
        self.n_patches, n_sites = len(patches), len(patches[0])
        if not inner and local_dim**n_sites > MOST_STATES:
            raise ValueError(
                f"PatchedTransformer: a patch of {n_sites} sites has {local_dim}^{n_sites} states, "
                f"more than {MOST_STATES}; take a smaller patch or predict its sites one by one "
                "(inner = 32)"
            )
        sites = tuple((site,) for found in patches for site in found) if inner else patches
        super().__init__(sites, local_dim=local_dim, magnetisation=magnetisation)
        self.width = width
        self.n_parts = n_sites if inner else 1  # tokens of the base class in a patch
        self.embedding = nnx.Embed(
            self.n_parts * self.n_states + 1,  # the last row stands before the first patch
            width,
            embedding_init=nnx.initializers.normal(self.n_parts**-0.5),
            **REAL,
            rngs=rngs,
        )
        self.blocks = nnx.List(
            Block(width, config.heads, config.attention, rngs=rngs) for _ in range(config.layers)
        )
        self.norm = nnx.LayerNorm(width, **REAL, rngs=rngs)
        self.inner = Inner(width, inner, local_dim, rngs=rngs) if inner else None
        self.head = _small(inner or width, self.n_states, rngs)
        self.angle = (
            _small(inner or width, self.n_states, rngs) if config.output == "complex" else None
        )

    def logits(self, configs: jax.Array) -> jax.Array:
        """Raw scores (B, tokens, states): see `Autoregressive`."""
        return self.head(self._features(configs))

    def phase(self, configs: jax.Array) -> jax.Array | None:
        """Sum of the angles of the tokens (B,); None where psi > 0."""
        return self.scores(configs)[1]

    def scores(self, configs: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """`logits` and `phase` from one pass."""
        features = self._features(configs)
        if self.angle is None:
            return self.head(features), None
        chosen = self.tokens(configs)[..., None]
        angles = jnp.take_along_axis(self.angle(features), chosen, axis=2)
        return self.head(features), jnp.sum(angles, axis=(1, 2))

    def _features(self, configs: jax.Array) -> jax.Array:
        """What the heads see of each token: (B, tokens, width), or (B, tokens, inner)."""
        batch = configs.shape[0]
        parts = self.tokens(configs).reshape(batch, self.n_patches, self.n_parts)
        rows = parts + self.n_states * jnp.arange(self.n_parts)
        patches = jnp.sum(self.embedding(rows), axis=2)
        first = jnp.broadcast_to(self._first(), (batch, 1, self.width))
        x = jnp.concatenate([first, patches[:, :-1]], axis=1)
        x = x + sinusoidal_positions(self.n_patches, self.width)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x if self.inner is None else self.inner(x, parts)

    def _first(self) -> jax.Array:
        """The vector (width,) in place of a patch before the first."""
        return self.embedding(jnp.array(self.n_parts * self.n_states))

    def initial_cache(self, batch: int) -> Any:
        """What the blocks, and the network inside a patch, remember before the first token."""
        blocks = tuple(b.attention.initial_cache(batch, self.n_patches) for b in self.blocks)
        if self.inner is None:
            return blocks
        return blocks, jnp.zeros((batch, self.width)), self.inner.initial_state(batch)

    def step(self, cache: Any, token_before: jax.Array, t: jax.Array) -> tuple[Any, jax.Array]:
        """Score token t: see `Autoregressive`; the blocks run once a patch."""
        row = token_before + self.n_states * ((t - 1) % self.n_parts)
        before = jnp.where(t == 0, self._first(), self.embedding(row))
        inner = self.inner
        if inner is None:
            cache, x = self._transform(cache, before, t)
            return cache, self.head(x)
        blocks, patch, state = cache
        patch = patch + before  # the embedding of what is drawn of the patch

        def open_patch() -> Any:
            remembered, x = self._transform(blocks, patch, t // self.n_parts)
            return remembered, jnp.zeros_like(patch), inner.start(x)

        starts = t % self.n_parts == 0
        blocks, patch, state = jax.lax.cond(starts, open_patch, lambda: (blocks, patch, state))
        state = inner.step(state, jnp.where(starts, -1, token_before))
        return (blocks, patch, state), self.head(state)

    def _transform(self, cache: Any, x: jax.Array, p: jax.Array) -> tuple[Any, jax.Array]:
        """Take the embedding (B, width) of the patch before patch p through the blocks."""
        x = x + jnp.asarray(sinusoidal_positions(self.n_patches, self.width))[p]
        remembered = []
        for block, before in zip(self.blocks, cache, strict=True):
            after, x = block.step(before, x, p)
            remembered.append(after)
        return tuple(remembered), self.norm(x)


class Inner(nnx.Module):
    """A gated recurrent unit that goes through the sites of a patch, in row-major order.

    Its first state comes from the transformer; at each site it reads the state of the site before.
    """

    def __init__(self, width: int, units: int, local_dim: int, *, rngs: nnx.Rngs) -> None:
        self.local_dim = local_dim
        self.begin = nnx.Linear(width, units, **REAL, rngs=rngs)
        self.cell = nnx.GRUCell(local_dim, units, **REAL, rngs=rngs)

    def __call__(self, x: jax.Array, parts: jax.Array) -> jax.Array:
        """States before each site: (B, T, width), digits (B, T, k) -> (B, T k, units)."""
        nothing = jnp.full((*parts.shape[:2], 1), -1)
        before = jnp.concatenate([nothing, parts[..., :-1]], axis=2)

        def advance(state: jax.Array, digit: jax.Array) -> tuple[jax.Array, jax.Array]:
            state = self.step(state, digit)
            return state, state

        _, states = jax.lax.scan(advance, self.start(x), jnp.moveaxis(before, 2, 0))
        return jnp.moveaxis(states, 0, 2).reshape(x.shape[0], parts[0].size, -1)

    def start(self, x: jax.Array) -> jax.Array:
        """First state (..., units) of a patch."""
        return jnp.tanh(self.begin(x))

    def step(self, state: jax.Array, digit: jax.Array) -> jax.Array:
        """Next state, after a digit; -1 before the first site."""
        seen = jax.nn.one_hot(digit, self.local_dim, dtype=jnp.float64)
        return self.cell(state, seen)[0]

    def initial_state(self, batch: int) -> jax.Array:
        """A state (B, units) that is never read."""
        return jnp.zeros((batch, self.begin.out_features))


def patches_of(lattice: Lattice, patch: int | tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Give the sites of each patch, (T, k): patches, and sites within one, in row-major order.

    Raises:
        ValueError: patches that do not tile the lattice.
    """
    rows, cols = (patch, patch) if isinstance(patch, int) else patch
    require_full_grid("PatchedTransformer", lattice)
    n_rows, n_cols = lattice.shape
    if min(rows, cols) < 1 or n_rows % rows or n_cols % cols:
        raise ValueError(
            f"PatchedTransformer: patches of {rows} x {cols} sites do not tile a lattice of "
            f"{n_rows} x {n_cols}; each side must divide that of the lattice"
        )
    return tuple(
        tuple((top + i) * n_cols + left + j for i in range(rows) for j in range(cols))
        for top in range(0, n_rows, rows)
        for left in range(0, n_cols, cols)
    )


def _small(inputs: int, outputs: int, rngs: nnx.Rngs) -> nnx.Linear:
    start = nnx.initializers.normal(HEAD_SCALE / inputs**0.5)
    return nnx.Linear(inputs, outputs, kernel_init=start, **REAL, rngs=rngs)
