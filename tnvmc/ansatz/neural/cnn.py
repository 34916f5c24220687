"""Convolutional networks on the grid of the lattice.

Leg order of all arrays: (B, rows, columns, channels).
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from tnvmc.ansatz.neural.architectures import CNNConfig, noted
from tnvmc.ansatz.neural.layers import log_cosh, normal_linear, one_hot, shifts, sum_log_cosh
from tnvmc.lattice.lattice import Lattice, require_full_grid

Size = int | tuple[int, ...]
Grid = tuple[int, int]

_ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "sigmoid": jax.nn.sigmoid,
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "log_cosh": log_cosh,
}


@noted("cnn")
class CNN(nnx.Module):
    """ln psi(s) of a convolutional network: configs (B, N) -> (B,); see `CNNConfig`.

    convolution -> activation [-> pooling], once per entry of `features`; then the head (all
    positions and channels flattened, or channels summed over positions); then dense layers, each
    with the activation; then the readout ln psi = sum_k ln cosh(z_k) over as many units as the last
    layer is wide, with z_k real (psi > 0) or complex.  Groups of parameters: `convolutions`,
    `dense`, `readout`.

    The head "sum" (the default) keeps few parameters and serves any lattice; "flatten" tells
    positions apart, for N times the weights of the layer after it.  With padding "periodic", stride
    1, no pooling and the head "sum", psi is invariant under all translations of the grid; on an
    open lattice such a network cannot see the edges.

    A site enters as s = 1 - 2 * digit in one channel for d = 2, as d one-hot channels for d > 2.
    Weights start as normal numbers of variance 1 / fan-in, the readout 10 times smaller, so that
    psi is nearly constant at first.

    Cost: B N sum_l (window * channels_l * channels_l+1).  A convolution is written as windows times
    a matrix, as XLA's own is slow in per-sample gradients on a CPU.

    Raises:
        ValueError: kernel, stride or pool that do not fit the grid that their layer sees; what
            `CNNConfig` does not know.

    Source: K. Choo, T. Neupert, G. Carleo, PRB 100, 125124 (2019).
    """

    def __init__(
        self, lattice: Lattice, *, local_dim: int = 2, rngs: nnx.Rngs, **architecture: Any
    ) -> None:
        config = CNNConfig(**architecture)
        require_full_grid("CNN", lattice)
        self.shape, self.local_dim = lattice.shape, local_dim
        self.pooling, self.activation, self.head = config.pooling, config.activation, config.head
        self.residual, self.output = config.residual, config.output
        features, dense = config.features, config.dense
        wraps = {"lattice": lattice.periodic, "periodic": (True, True), "zero": (False, False)}
        self.wraps = wraps[config.padding]
        self.kernel, self.stride, self.pool = (
            _per_direction(size, lattice.shape)
            for size in (config.kernel, config.stride, config.pool)
        )
        channels = (1 if local_dim == 2 else local_dim, *features)
        grid = self._final_grid(len(features))
        window = self.kernel[0] * self.kernel[1]
        self.convolutions = nnx.List(
            normal_linear(window * before, after, rngs) for before, after in pairwise(channels)
        )
        n_flat = features[-1] * (grid[0] * grid[1] if self.head == "flatten" else 1)
        widths = (n_flat, *dense)
        self.dense = nnx.List(normal_linear(a, b, rngs) for a, b in pairwise(widths))
        parts = 2 if self.output == "complex" else 1
        n_units = (*features, *dense)[-1]
        self.readout = normal_linear(widths[-1], parts * n_units, rngs, scale=0.1)

    def invariances(self) -> np.ndarray:
        """Give the translations (n, N) that leave psi as it is; the identity if there are none."""
        plain = self.stride == (1, 1) and self.pooling == "none" and self.head == "sum"
        return shifts(self.shape, self.wraps if plain else (False, False), (1, 1))

    def __call__(self, configs: jax.Array) -> jax.Array:
        """ln psi(s), (B,), for configurations (B, N)."""
        activation = _ACTIVATIONS[self.activation]
        x = self._image(configs)
        for convolution in self.convolutions:
            windows = _windows(_padded(x, self.kernel, self.wraps), self.kernel, self.stride)
            y = activation(convolution(windows.reshape(*windows.shape[:3], -1)))
            x = x + y if self.residual and x.shape == y.shape else y
            if self.pooling != "none":
                blocks = _windows(x, self.pool, self.pool)
                x = blocks.max(axis=3) if self.pooling == "max" else blocks.mean(axis=3)
        x = x.reshape(x.shape[0], -1) if self.head == "flatten" else x.sum(axis=(1, 2))
        for layer in self.dense:
            x = activation(layer(x))
        z = self.readout(x)
        if self.output == "complex":
            real, imag = jnp.split(z, 2, axis=1)
            z = jax.lax.complex(real, imag)
        return sum_log_cosh(z)

    def _image(self, configs: jax.Array) -> jax.Array:
        """Configurations as (B, rows, columns, channels)."""
        grid = jnp.reshape(configs, (configs.shape[0], *self.shape))
        if self.local_dim == 2:
            return (1.0 - 2.0 * jnp.asarray(grid, jnp.float64))[..., None]
        return one_hot(grid, self.local_dim)

    def _final_grid(self, n_layers: int) -> Grid:
        """Rows and columns of what leaves the last convolution; every layer is checked."""
        grid: Grid = self.shape
        for layer in range(1, n_layers + 1):
            where = f"the {_by(grid)} grid that layer {layer} sees"
            if self.kernel[0] > grid[0] or self.kernel[1] > grid[1]:
                raise ValueError(
                    f"CNN: kernel {_by(self.kernel)} is larger than {where}; take a smaller kernel"
                    + (", or less stride and pooling" if layer > 1 else "")
                )
            grid = _divided(grid, self.stride, "stride", where)
            if self.pooling != "none":
                where = f"the {_by(grid)} grid that layer {layer} pools"
                grid = _divided(grid, self.pool, "pool", where)
        return grid


def _padded(x: jax.Array, kernel: Grid, wraps: tuple[bool, bool]) -> jax.Array:
    """x with the borders that a window around every position needs."""
    for axis, (size, wrap) in enumerate(zip(kernel, wraps, strict=True), start=1):
        border = [(0, 0)] * 4
        border[axis] = ((size - 1) // 2, size // 2)
        x = jnp.pad(x, border, mode="wrap" if wrap else "constant")
    return x


def _windows(x: jax.Array, size: Grid, stride: Grid) -> jax.Array:
    """All windows (B, rows', columns', places in the window, channels) of x.

    Made of slices, whose derivative is again slices; one by indices would end in a scatter.
    """
    rows, cols = x.shape[1] - size[0] + 1, x.shape[2] - size[1] + 1
    return jnp.stack(
        [
            x[:, row : row + rows : stride[0], col : col + cols : stride[1]]
            for row in range(size[0])
            for col in range(size[1])
        ],
        axis=3,
    )


def _per_direction(size: Size, shape: Grid) -> Grid:
    """A size as (rows, columns); along a direction of one site an integer means 1."""
    rows, cols = np.broadcast_to(size, 2).tolist()
    if np.ndim(size):
        return rows, cols
    return 1 if shape[0] == 1 else rows, 1 if shape[1] == 1 else cols


def _divided(grid: Grid, size: Grid, what: str, where: str) -> Grid:
    if grid[0] % size[0] or grid[1] % size[1]:
        raise ValueError(f"CNN: {what} {_by(size)} does not divide {where}")
    return grid[0] // size[0], grid[1] // size[1]


def _by(size: Grid) -> str:
    return f"{size[0]} x {size[1]}"
