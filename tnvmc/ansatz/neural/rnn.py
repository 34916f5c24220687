"""RNN: recurrent wave functions, along a snake or with two incoming states in two dimensions."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from tnvmc.ansatz.neural.architectures import RNNConfig, noted
from tnvmc.ansatz.neural.autoregressive import Autoregressive, phase_of, snake
from tnvmc.ansatz.neural.layers import REAL, linear, one_hot
from tnvmc.lattice.lattice import Lattice, require_full_grid


@noted("rnn")
class RNN(Autoregressive):
    """psi = sqrt(prod_t p_t) exp(i sum_t phi_t), p_t and phi_t read off one hidden state per site.

    Sites are visited along a snake.  `order` says on which sites a site depends:

    - "snake": the site before it, through a gated recurrent unit (`nnx.GRUCell`);
    - "2d": the site before it in its row and the one above, through `GatedCell`.

    p_t = softmax(A h_t + a), phi_t = 2 arctan(B h_t + b) at the state that is taken (`phase_of`),
    with the same parameters at all sites.  `output = "real"` leaves phi_t out.

    Start: A and B small, so that p is near uniform and phases are near 0.  Cost per configuration,
    H = hidden: 3 N H^2 (snake), (8 d + 2) N H^2 (2d) multiplications, to evaluate or to draw.
    Open boundaries are assumed: on a periodic lattice the bonds that close it are not seen.

    Source: Hibat-Allah, Ganahl, Hayward, Melko, Carrasquilla, Phys. Rev. Research 2, 023358 (2020);
    the 2D cell after Hibat-Allah, Melko, Carrasquilla, arXiv:2207.14314.
    """

    def __init__(
        self, lattice: Lattice, *, magnetisation: int | None = None, local_dim: int = 2,
        rngs: nnx.Rngs, **architecture: Any,
    ) -> None:  # fmt: skip
        super().__init__(snake(lattice), local_dim=local_dim, magnetisation=magnetisation)
        config = RNNConfig(**architecture)
        hidden = config.hidden
        self.cell: SnakeCell | GatedCell
        if config.order == "snake":
            self.cell = SnakeCell(local_dim, hidden, rngs=rngs)
        else:
            require_full_grid("RNN", lattice)
            self.cell = GatedCell(lattice.shape, local_dim, hidden, rngs=rngs)
        small = nnx.initializers.normal(0.1 / np.sqrt(hidden))
        self.head = linear(hidden, local_dim, kernel_init=small, rngs=rngs)
        self.phase_head = (
            linear(hidden, local_dim, kernel_init=small, rngs=rngs)
            if config.output == "complex"
            else None
        )

    def scores(self, configs: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """Scores (B, N, d) of all sites and sum of their phases (B,), by one scan over them."""
        tokens = self.tokens(configs)
        hidden = self._hidden(tokens)
        if self.phase_head is None:
            return self.head(hidden), None
        return self.head(hidden), phase_of(self.phase_head(hidden), tokens)

    def initial_cache(self, batch: int) -> Any:
        """The memory of the cell before the first site."""
        return self.cell.initial(batch)

    def step(self, cache: Any, token_before: jax.Array, t: jax.Array) -> tuple[Any, jax.Array]:
        """One call of the cell."""
        cache, hidden = self._advance(cache, token_before, t)
        return cache, self.head(hidden)

    def _advance(self, cache: Any, token_before: jax.Array, t: jax.Array) -> tuple[Any, jax.Array]:
        before = one_hot(token_before, self.local_dim) * (t > 0)
        return self.cell(cache, before, t)

    def _hidden(self, tokens: jax.Array) -> jax.Array:
        """Hidden states (B, N, H); that of site t of the snake has seen the sites before it."""
        before = jnp.roll(tokens, 1, axis=1).T
        start = self.initial_cache(tokens.shape[0])
        steps = (before, jnp.arange(self.n_tokens))
        _, hidden = jax.lax.scan(lambda cache, x: self._advance(cache, *x), start, steps)
        return jnp.swapaxes(hidden, 0, 1)


class SnakeCell(nnx.Module):
    """A gated recurrent unit that hears of the site before it on the path."""

    def __init__(self, local_dim: int, hidden: int, *, rngs: nnx.Rngs) -> None:
        self.hidden = hidden
        self.unit = nnx.GRUCell(local_dim, hidden, **REAL, rngs=rngs)

    def initial(self, batch: int) -> jax.Array:
        """Hidden state (B, H) before the first site."""
        return jnp.zeros((batch, self.hidden))

    def __call__(
        self, state: jax.Array, before: jax.Array, t: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Memory, and hidden state (B, H) of site t; `before` (B, d) is what came before it."""
        return self.unit(state, before)


class GatedCell(nnx.Module):
    """A gated unit with two incoming messages, from the site before it in the row and from above.

    A message is a hidden state h and the one-hot state x of a site, zeros where there is none:

        c = tanh(W [x; x'] o [h; h'] + b),  u = sigmoid(V [x; x'] o [h; h'] + v),
        h_t = u c + (1 - u) U [h; h']

    with o the outer product, so that the states of the neighbours choose the weights.  [h; h'] is
    extended by a 1, which lets the states act without a hidden state as well.
    """

    def __init__(
        self, shape: tuple[int, int], local_dim: int, hidden: int, *, rngs: nnx.Rngs
    ) -> None:
        self.hidden, self.local_dim, self.n_cols = hidden, local_dim, shape[1]
        # Two of 2d states are ever on, which the fan-in of the initialiser does not know.
        spread = nnx.initializers.variance_scaling(local_dim, "fan_in", "normal")
        self.mix = linear(
            2 * local_dim * (2 * hidden + 1), 2 * hidden, kernel_init=spread, rngs=rngs
        )
        self.carry = linear(2 * hidden, hidden, use_bias=False, rngs=rngs)

    def initial(self, batch: int) -> tuple[jax.Array, jax.Array]:
        """Give the last hidden state (B, H), and the last message (B, n_cols, H + d) by column."""
        row = jnp.zeros((batch, self.n_cols, self.hidden + self.local_dim))
        return jnp.zeros((batch, self.hidden)), row

    def __call__(
        self, state: tuple[jax.Array, jax.Array], before: jax.Array, t: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        """Memory, and hidden state (B, H) of site t; `before` (B, d) is what came before it."""
        last, row = state
        message = jnp.concatenate([last, before], axis=1)
        # At t = 0 this writes zeros to a column that holds zeros.
        row = jax.lax.dynamic_update_index_in_dim(row, message, self._column(t - 1), axis=1)
        above = jax.lax.dynamic_index_in_dim(row, self._column(t), axis=1, keepdims=False)
        beside = message * (t % self.n_cols > 0)
        hidden = self._gated(beside, above)
        return (hidden, row), hidden

    def _column(self, t: jax.Array) -> jax.Array:
        """Column of place t on the snake."""
        row, place = t // self.n_cols, t % self.n_cols
        return jnp.where(row % 2 == 0, place, self.n_cols - 1 - place)

    def _gated(self, beside: jax.Array, above: jax.Array) -> jax.Array:
        size = self.hidden
        h = jnp.concatenate([beside[:, :size], above[:, :size]], axis=1)
        x = jnp.concatenate([beside[:, size:], above[:, size:]], axis=1)
        extended = jnp.concatenate([h, jnp.ones_like(h[:, :1])], axis=1)
        mixed = self.mix((x[:, :, None] * extended[:, None, :]).reshape(len(x), -1))
        candidate, gate = jnp.tanh(mixed[:, :size]), jax.nn.sigmoid(mixed[:, size:])
        return gate * candidate + (1 - gate) * self.carry(h)
