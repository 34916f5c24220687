"""What all autoregressive networks share: conditionals, the sector, and direct draws.

psi(s) = sqrt(p(s)) exp(i phase(s)) with p(s) = prod_t p(token_t | tokens before), so that
sum |psi|^2 = 1 whatever the parameters, and independent samples of |psi|^2 are drawn token by
token.  A token is a patch of k sites and has d**k states; its first site is the most significant
digit, as in `local_states`.  The RNN takes one site per token, the patched transformer more.

A network gives two views of the same conditionals: `scores`, of all tokens of given configurations
at once, and `step`, of one token with what is remembered of those before.  They must agree.

Source: Sharir, Levine, Wies, Carleo, Shashua, PRL 124, 020503 (2020); the sector: Hibat-Allah,
Ganahl, Hayward, Melko, Carrasquilla, Phys. Rev. Research 2, 023358 (2020).
"""

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from tnvmc.lattice.lattice import Lattice
from tnvmc.operators.basis import check_magnetisation

Cache = Any
"""A pytree of arrays: what a network stores about the tokens that are drawn."""


class Autoregressive(nnx.Module):
    """psi = sqrt(p) exp(i phase), with p normalised exactly and drawn from directly.

    Args:
        sites: (T, k) the sites of each token, in the order of drawing; together all N, each once.
        local_dim: d.
        magnetisation: twice the total Sz.  Where given, a state of a token from which the sector is
            out of reach has probability 0, and p sums to 1 over the sector alone.

    A subclass calls ``super().__init__(sites, ...)`` and defines `scores`, `initial_cache` and
    `step`.

    Raises:
        ValueError: sites that are no partition; a magnetisation that N sites cannot have.
    """

    def __init__(
        self,
        sites: Sequence[Sequence[int]],
        *,
        local_dim: int = 2,
        magnetisation: int | None = None,
    ) -> None:
        self.sites = tuple(tuple(int(site) for site in token) for token in sites)
        self.local_dim = local_dim
        self.magnetisation = magnetisation
        self.n_tokens = len(self.sites)  #: T
        self.n_sites = self.n_tokens * len(self.sites[0])  #: N = T k
        self.n_states = local_dim ** len(self.sites[0])  #: of a token, d**k
        flat = sorted(site for token in self.sites for site in token)
        if flat != list(range(len(flat))) or len({len(token) for token in self.sites}) != 1:
            raise ValueError(
                f"autoregressive: tokens {self.sites} must have equally many sites and hold each "
                "of the sites 0 to N - 1 once; does the patch fit the lattice?"
            )
        self.total: int | None = None  #: sum of the digits in the sector
        if magnetisation is not None:
            check_magnetisation(self.n_sites, local_dim, magnetisation)
            self.total = (self.n_sites * (local_dim - 1) - magnetisation) // 2

    def scores(self, configs: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """Logits (B, T, d**k) of configurations (B, N), and phases (B,); None where psi > 0.

        Logits of token t see tokens < t only; they are neither masked nor normalised.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no scores")

    def initial_cache(self, batch: int) -> Cache:
        """Give what is remembered before the first token, for `batch` configurations."""
        raise NotImplementedError(f"{type(self).__name__} defines no initial_cache")

    def step(self, cache: Cache, token_before: jax.Array, t: jax.Array) -> tuple[Cache, jax.Array]:
        """The cache after taking in token t - 1, and the logits (B, d**k) of token t.

        `token_before` (B,) holds states of token t - 1 and means nothing at t = 0; t is traced.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no step")

    def __call__(self, configs: jax.Array) -> jax.Array:
        """ln psi (B,) of configurations (B, N); real where psi > 0.

        Its real part is -inf outside the sector.
        """
        logits, phase = self.scores(configs)
        half = 0.5 * self._log_prob(logits, configs, self.total)
        return half if phase is None else jax.lax.complex(half, phase)

    def log_prob(self, configs: jax.Array, total: int | None = None) -> jax.Array:
        """ln of the probability (B,) that `draw` with this `total` gives configurations (B, N).

        Without `total` that is ln p; -inf outside the sector.
        """
        return self._log_prob(self.scores(configs)[0], configs, self._total(total))

    def tokens(self, configs: jax.Array) -> jax.Array:
        """States (B, T) of the tokens of configurations (B, N), 0..d**k - 1."""
        digits = configs[:, np.array(self.sites)].astype(jnp.int32)
        powers = self.local_dim ** np.arange(digits.shape[2])[::-1]
        return jnp.sum(digits * powers, axis=2)

    def configs(self, tokens: jax.Array) -> jax.Array:
        """Configurations (B, N), int8, from the states (B, T) of their tokens."""
        digits = jnp.asarray(self._digits, jnp.int8)[tokens]
        order = np.argsort(np.concatenate(self.sites))
        return digits.reshape(len(tokens), self.n_sites)[:, order]

    def draw(self, uniforms: jax.Array, total: int | None = None) -> tuple[jax.Array, jax.Array]:
        """Configurations (B, N), int8, drawn with uniform numbers (B, N); with them ln q (B,).

        q = p, unless `total` names a sum of digits to stay in and p does not know of it: then what
        is out of reach is left out token by token, and q is the product of what remains.  Token t
        takes the uniform number of its first site.  Cost: T calls of `step`.

        Raises:
            ValueError: a total other than that of the module.
        """
        total = self._total(total)
        columns = uniforms[:, np.array([token[0] for token in self.sites])].T
        batch = uniforms.shape[0]

        def advance(carry: Any, x: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
            cache, before, spent, log_q = carry
            t, u = x
            cache, logits = self.step(cache, before, t)
            log_p = log_softmax(logits, self._allowed(spent, t, total))
            token = pick(log_p, u)
            log_q = log_q + jnp.take_along_axis(log_p, token[:, None], axis=1)[:, 0]
            return (cache, token, spent + jnp.asarray(self._sums)[token], log_q), token

        none = jnp.zeros(batch, jnp.int32)
        start = (self.initial_cache(batch), none, none, jnp.zeros(batch, jnp.float64))
        (_, _, _, log_q), tokens = jax.lax.scan(advance, start, (jnp.arange(len(columns)), columns))
        return self.configs(tokens.T), log_q

    def _log_prob(self, logits: jax.Array, configs: jax.Array, total: int | None) -> jax.Array:
        tokens = self.tokens(configs)
        spent = jnp.cumsum(jnp.asarray(self._sums)[tokens], axis=1)
        spent = jnp.concatenate([jnp.zeros_like(spent[:, :1]), spent[:, :-1]], axis=1)
        allowed = self._allowed(spent, jnp.arange(self.n_tokens), total)
        log_p = log_softmax(logits, allowed)
        chosen = jnp.take_along_axis(log_p, tokens[:, :, None], axis=2)[:, :, 0]
        inside = chosen != -jnp.inf  # a NaN stays one and is seen
        value = jnp.sum(jnp.where(inside, chosen, 0.0), axis=1)
        return jnp.where(jnp.all(inside, axis=1), value, -jnp.inf)

    def _allowed(self, spent: jax.Array, t: jax.Array, total: int | None) -> jax.Array:
        """Whether each state of token t leaves `total` in reach after `spent`: (..., d**k)."""
        if total is None:
            return jnp.ones((*spent.shape, self.n_states), bool)
        missing = total - spent[..., None] - self._sums
        most = (self.n_tokens - 1 - t) * len(self.sites[0]) * (self.local_dim - 1)
        return (missing >= 0) & (missing <= jnp.asarray(most)[..., None])

    @property
    def _digits(self) -> np.ndarray:
        """(d**k, k) the digits of every state of a token."""
        states = itertools.product(range(self.local_dim), repeat=len(self.sites[0]))
        return np.array(list(states), dtype=np.int32)

    @property
    def _sums(self) -> np.ndarray:
        """(d**k,) the sum of the digits of every state of a token."""
        return np.asarray(self._digits.sum(axis=1, dtype=np.int32))

    def _total(self, total: int | None) -> int | None:
        if total is None or total == self.total:
            return self.total
        if self.total is not None:
            raise ValueError(
                f"draw: digits are to sum to {total}, but magnetisation = {self.magnetisation} of "
                f"the network makes them sum to {self.total}; give both the same sector"
            )
        return total


def snake(lattice: Lattice) -> tuple[tuple[int], ...]:
    """Tokens of one site along a snake: even rows left to right, odd rows right to left."""
    rows: list[list[int]] = [[] for _ in range(lattice.n_rows)]
    for site, place in enumerate(lattice.places):
        rows[place // lattice.n_cols].append(site)
    path = [row if number % 2 == 0 else row[::-1] for number, row in enumerate(rows)]
    return tuple((site,) for row in path for site in row)


def phase_of(angles: jax.Array, tokens: jax.Array) -> jax.Array:
    """Phases (B,): sum over t of 2 arctan(x) with x = angles (B, T, n) at the tokens (B, T).

    Any function of a configuration is such a sum.  Each term stays within (-pi, pi), and is smooth
    where the pi softsign(x) of Hibat-Allah et al.  (2020) is not.
    """
    chosen = jnp.take_along_axis(angles, tokens[:, :, None], axis=2)[:, :, 0]
    return 2.0 * jnp.sum(jnp.arctan(chosen), axis=1)


def log_softmax(logits: jax.Array, allowed: jax.Array) -> jax.Array:
    """ln of the softmax over the allowed states (last axis); -inf for the others.

    Exactly 0 where one state is left.  Where none is, all are -inf.  No NaN in derivatives: what is
    masked is replaced before every function that could overflow.
    """
    usable = allowed | ~jnp.any(allowed, axis=-1, keepdims=True)
    largest = jax.lax.stop_gradient(
        jnp.max(jnp.where(usable, logits, -jnp.inf), axis=-1, keepdims=True)
    )
    shifted = jnp.where(usable, logits - largest, 0.0)
    norm = jnp.sum(jnp.where(usable, jnp.exp(shifted), 0.0), axis=-1, keepdims=True)
    return jnp.where(allowed, shifted - jnp.log(norm), -jnp.inf)


def pick(log_p: jax.Array, uniforms: jax.Array) -> jax.Array:
    """States (B,) by inverse CDF from ln p (B, n) and uniform numbers (B,) in [0, 1].

    A state of probability 0 is never picked, however the sums are rounded: the cell must end above
    the number *and* be of positive width, and a number above all cells falls into the last such.
    """
    p = jnp.exp(log_p)
    ends = jnp.cumsum(p, axis=1)
    possible = p > 0
    last = p.shape[1] - 1 - jnp.argmax(possible[:, ::-1], axis=1)
    inside = possible & (ends > uniforms[:, None] * ends[:, -1:])
    found = jnp.where(jnp.any(inside, axis=1), jnp.argmax(inside, axis=1), last)
    return found.astype(jnp.int32)
