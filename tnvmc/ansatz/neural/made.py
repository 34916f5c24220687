"""MADE: a masked dense network, the plainest autoregressive one."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from tnvmc.ansatz.neural.architectures import MADEConfig, noted
from tnvmc.ansatz.neural.autoregressive import Autoregressive, phase_of, snake
from tnvmc.ansatz.neural.layers import one_hot
from tnvmc.lattice.lattice import Lattice


@noted("made")
class MADE(Autoregressive):
    """Dense layers with masks: the scores of a site see the sites before it only; `MADEConfig`.

    Every unit has a degree m and sees units of the layer below with a degree up to m: the input of
    the t-th site, along a snake, has t, the `features` of a hidden layer are spread evenly over
    0..N-2, and the scores of site t have t - 1.  Hidden units are h = silu(W h + b).

    psi = sqrt(prod_t p_t) exp(i sum_t phi_t), p_t = softmax of the scores and, for `output =
    "complex"`, phi_t from as many angles beside them (`phase_of`), which share the hidden layers.

    Start: weights of variance 1 / (inputs that the mask leaves), those of the scores 100 times
    smaller, so that p is near uniform.  Cost per configuration, with H units a layer, to evaluate
    or to draw: 2 N d H + H^2 (layers - 1) multiplications, half of them by zeros.

    Source: Germain, Gregor, Murray, Larochelle, ICML 2015 (PMLR 37, 881).
    """

    def __init__(
        self, lattice: Lattice, *, magnetisation: int | None = None, local_dim: int = 2,
        rngs: nnx.Rngs, **architecture: Any,
    ) -> None:  # fmt: skip
        super().__init__(snake(lattice), local_dim=local_dim, magnetisation=magnetisation)
        config = MADEConfig(**architecture)
        self.is_complex = config.output == "complex"
        n = self.n_tokens
        degrees = np.repeat(np.arange(n), local_dim)
        layers = []
        for width in config.features:
            above = np.arange(width) * max(n - 1, 1) // width
            layers.append(MaskedLinear(degrees, above, rngs=rngs))
            degrees = above
        self.layers = nnx.List(layers)
        per_site = local_dim * (2 if self.is_complex else 1)
        self.head = MaskedLinear(
            degrees, np.repeat(np.arange(n) - 1, per_site), scale=0.1, rngs=rngs
        )

    def scores(self, configs: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """Scores (B, N, d) of all sites and sum of their phases (B,), by one pass."""
        tokens = self.tokens(configs)
        h = one_hot(tokens, self.local_dim).reshape(len(tokens), -1)
        for layer in self.layers:
            h = jax.nn.silu(layer(h))
        out = self.head(h).reshape(*tokens.shape, -1)
        logits, angles = out[:, :, : self.local_dim], out[:, :, self.local_dim :]
        return logits, phase_of(angles, tokens) if self.is_complex else None

    def initial_cache(self, batch: int) -> Any:
        """The input and all hidden layers, of which nothing is known."""
        widths = [len(layer.below) for layer in (*self.layers, self.head)]
        return [jnp.zeros((batch, width)) for width in widths]

    def step(self, cache: Any, token_before: jax.Array, t: jax.Array) -> tuple[Any, jax.Array]:
        """Put in site t - 1, then compute the units of degree t - 1 and the scores of site t."""
        known = one_hot(token_before, self.local_dim)
        layers = [_put(cache[0], known, (t - 1) * self.local_dim)]  # t = 0: seen by no unit
        for layer, units in zip(self.layers, cache[1:], strict=True):
            first, found = layer.of_degree(layers[-1], t - 1)
            layers.append(_put(units, jax.nn.silu(found), first))
        return layers, self.head.of_degree(layers[-1], t - 1)[1][:, : self.local_dim]


class MaskedLinear(nnx.Module):
    """x (B, n) -> x (W * mask) + b (B, m): an output sees inputs of its degree or below.

    `below` (n,) and `above` (m,) are degrees of inputs and outputs, ascending.
    """

    def __init__(
        self, below: np.ndarray, above: np.ndarray, *, scale: float = 1.0, rngs: nnx.Rngs
    ) -> None:
        self.below, self.above = tuple(map(int, below)), tuple(map(int, above))
        seen = np.maximum(self._mask.sum(axis=0), 1)
        noise = jax.random.normal(rngs.params(), self._mask.shape, jnp.float64)
        self.kernel = nnx.Param(noise * self._mask * (scale / np.sqrt(seen)))
        self.bias = nnx.Param(jnp.zeros(len(above), jnp.float64))

    @property
    def _mask(self) -> np.ndarray:
        return np.array(self.below)[:, None] <= np.array(self.above)[None, :]

    def __call__(self, x: jax.Array) -> jax.Array:
        """All outputs."""
        return x @ (self.kernel[...] * self._mask) + self.bias[...]

    def of_degree(self, x: jax.Array, degree: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Place of the first output of a degree (traced), and a window of fixed width from it."""
        values, counts = np.unique(self.above, return_counts=True)
        width = int(counts.max())
        firsts = np.searchsorted(self.above, np.arange(values[0], values[-1] + 1))
        first = jnp.asarray(firsts)[jnp.maximum(degree - int(values[0]), 0)]
        first = jnp.minimum(first, len(self.above) - width)
        kernel, mask, bias = (
            jax.lax.dynamic_slice_in_dim(array, first, width, axis=-1)
            for array in (self.kernel[...], jnp.asarray(self._mask), self.bias[...])
        )
        return first, x @ (kernel * mask) + bias


_put = partial(jax.lax.dynamic_update_slice_in_dim, axis=1)  # layer, units, place of the first
