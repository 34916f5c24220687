"""Vision transformer wave function."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from tnvmc.ansatz.neural.architectures import ViTConfig, noted
from tnvmc.ansatz.neural.layers import (
    layer_norm,
    linear,
    normal_linear,
    one_hot,
    patches_of,
    shifts,
    sum_log_cosh,
)
from tnvmc.lattice.lattice import Lattice

HEAD_SCALES = (0.8, 0.15)
"""Of x and y in ln cosh (x + i y) at the start: ln psi varies by less than 1 over configurations.
Modulus: the norm fixes the sum of x^2, so that x must be of order 1 to vary it.  Phase: as x y."""

Grid = tuple[int, int]
Wraps = tuple[bool, bool]


@noted("vit")
class ViT(nnx.Module):
    """Vision transformer: ln psi of configurations read in patches of b x b sites; see `ViTConfig`.

    Patches are embedded by one linear map (spins as +-1; local states of local_dim > 2 as one-hot
    vectors), pass `layers` blocks of attention and feed-forward (4 width wide, GELU), each after a
    layer norm and with a skip connection, and are summed to z, which is normed.  The output is ln
    psi = sum_a ln cosh(x_a + i y_a) with a = 1..width, x and y each an affine map of z that is
    normed ("complex"), or without y ("real": psi > 0).

    On a periodic lattice psi is invariant under translations by whole patches; positions are known
    to the attention only.

    Groups of parameters: `embedding`, `blocks`, `norm`, `head`.  Cost per configuration of n
    patches: layers n (12 width^2 + 2 n width) multiplications with queries and keys, layers n (10
    width^2 + n width) without ("factored"), plus 2 width^2.

    Raises:
        ValueError: patches that do not tile the lattice; what `ViTConfig` does not know.

    Source: L. L. Viteritti, R. Rende, F. Becca, PRL 130, 236401 (2023); relative positions and
    kinds of attention, and as many parameters: R. Rende, L. L. Viteritti, arXiv:2405.18874.  The
    head is that of the authors' tutorial (NetKet, 2025).
    """

    def __init__(
        self, lattice: Lattice, *, local_dim: int = 2, rngs: nnx.Rngs, **architecture: Any
    ) -> None:
        config = ViTConfig(**architecture)
        shape, width = config.patch_shape, config.width
        self.sites = patches_of("ViT", lattice, shape)
        self.local_dim = local_dim
        self.period = (lattice.shape, lattice.periodic, shape)
        grid = (lattice.n_rows // shape[0], lattice.n_cols // shape[1])
        inputs = len(self.sites[0]) * (1 if local_dim == 2 else local_dim)
        self.embedding = linear(inputs, width, rngs=rngs)
        self.blocks = nnx.List(
            Block(grid, lattice.periodic, config, rngs=rngs) for _ in range(config.layers)
        )
        self.norm = layer_norm(width, rngs=rngs)
        self.head = LogCoshHead(width, config.output, rngs=rngs)

    def __call__(self, configs: jax.Array) -> jax.Array:
        """Give ln psi: (B, N) local states -> (B,)."""
        x = self._embedded(configs)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x.sum(axis=1)))

    def invariances(self) -> np.ndarray:
        """Give the translations by whole patches (n, N) that leave psi as it is."""
        return shifts(*self.period)

    def attention_maps(self, configs: jax.Array) -> jax.Array:
        """Give the attention weights: (B, N) -> (layers, B, heads, n, n), receiving patch first."""
        x, maps = self._embedded(jnp.asarray(configs)), []
        for block in self.blocks:
            maps.append(block.attention.weights(block.norm(x)))
            x = block(x)
        return jnp.stack(maps)

    def _embedded(self, configs: jax.Array) -> jax.Array:
        patches = configs[:, np.asarray(self.sites)]
        if self.local_dim == 2:
            return self.embedding(1.0 - 2.0 * patches)
        return self.embedding(one_hot(patches, self.local_dim).reshape(*patches.shape[:2], -1))


class Block(nnx.Module):
    """One layer: x + attention(norm(x)), then x + feed-forward(norm(x)), x (B, n, width)."""

    def __init__(self, grid: Grid, periodic: Wraps, config: ViTConfig, *, rngs: nnx.Rngs) -> None:
        width = config.width
        self.norm = layer_norm(width, rngs=rngs)
        self.attention = RelativeAttention(grid, periodic, config, rngs=rngs)
        self.feed_norm = layer_norm(width, rngs=rngs)
        self.widen = linear(width, 4 * width, rngs=rngs)
        self.narrow = linear(4 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attention(self.norm(x))
        return x + self.narrow(jax.nn.gelu(self.widen(self.feed_norm(x))))


class LogCoshHead(nnx.Module):
    """ln psi = sum_a ln cosh(x_a + i y_a) with x, y = norm(w . z + b): (B, width) -> (B,).

    Source: G. Carleo, M. Troyer, Science 355, 602 (2017), with z in the place of the spins.
    """

    def __init__(self, width: int, output: str, *, rngs: nnx.Rngs) -> None:
        def part(scale: float) -> nnx.Sequential:
            norm = layer_norm(width, scale_init=nnx.initializers.constant(scale), rngs=rngs)
            return nnx.Sequential(normal_linear(width, width, rngs), norm)

        self.modulus = part(HEAD_SCALES[0])
        self.phase = part(HEAD_SCALES[1]) if output == "complex" else None

    def __call__(self, z: jax.Array) -> jax.Array:
        real = self.modulus(z)
        return sum_log_cosh(real if self.phase is None else real + 1j * self.phase(z))


class RelativeAttention(nnx.Module):
    """Multi-head attention on a grid of n patches, with one number p per head and displacement.

    Patch i receives A_i = sum_j alpha_ij v_j in each of the `heads`, r = width / heads components
    wide; the heads are joined and mixed by one matrix.  The weights alpha are, by `attention`,

        "t5"         softmax_j(q_i . k_j / sqrt(r) + p_{i-j})
        "decoupled"  softmax_j(q_i . k_j / sqrt(r)) + p_{i-j}
        "factored"   p_{i-j}                           no queries, no keys: alike for every input

    Along a periodic direction of n patches displacements count modulo n, so that the layer commutes
    with translations by patches; along an open one there are 2n - 1. p starts as noise: of 1 /
    sqrt(n) in "factored", which keeps the size of the values, a tenth of it beside the softmax.

    Source: R. Rende, L. L. Viteritti, Mach.  Learn.: Sci.  Technol. 6, 010501 (2025),
    arXiv:2405.18874; "t5" after C. Raffel et al., JMLR 21, 140 (2020).  The formulas are ours from
    the names and figures of the paper, and the factored one is that of the authors' tutorial
    (NetKet, 2025).
    """

    def __init__(self, grid: Grid, periodic: Wraps, config: ViTConfig, *, rngs: nnx.Rngs) -> None:
        self.heads, self.attention = config.heads, config.attention
        index, n_displacements = displacements(grid, periodic)
        self.index = tuple(map(tuple, index.tolist()))
        square = partial(linear, config.width, config.width, rngs=rngs)
        if self.attention != "factored":
            self.query = square()
            self.key = square()
        self.value = square()
        self.mix = square()
        noise = (1.0 if self.attention == "factored" else 0.1) / (grid[0] * grid[1]) ** 0.5
        self.position = nnx.Param(
            noise * jax.random.normal(rngs.params(), (self.heads, n_displacements), jnp.float64)
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


def displacements(grid: Grid, periodic: Wraps) -> tuple[np.ndarray, int]:
    """Number the displacements from patch j to patch i: (n, n) indices, and how many there are."""
    places = np.stack(np.divmod(np.arange(grid[0] * grid[1]), grid[1]), axis=-1)
    apart = places[:, None] - places[None, :]
    counts = [n if wraps else 2 * n - 1 for n, wraps in zip(grid, periodic, strict=True)]
    index = (apart % counts) @ (counts[1], 1)
    return index, counts[0] * counts[1]
