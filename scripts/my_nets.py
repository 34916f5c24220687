"""A network of one's own, for compare_flax_4x4.toml, which names its class."""

import jax.numpy as jnp
from flax import nnx


class ResCNN(nnx.Module):
    """ln psi = sum over sites and channels of a residual convolutional network, real.

    `lattice` and `rngs` are given by tnvmc; `features` and `layers` are keywords of the file.
    """

    def __init__(self, lattice, features=8, layers=2, *, rngs):
        self.shape = lattice.shape
        real = {"dtype": jnp.float64, "param_dtype": jnp.float64, "rngs": rngs}
        self.first = nnx.Linear(9, features, **real)
        self.blocks = nnx.List(nnx.Linear(9 * features, features, **real) for _ in range(layers))

    def __call__(self, configs):  # (B, N) of 0 and 1 -> (B,)
        x = self.first(windows((1.0 - 2.0 * configs).reshape(-1, *self.shape, 1)))
        for block in self.blocks:
            x = x + block(windows(nnx.gelu(x)))
        return 0.1 * x.sum(axis=(1, 2, 3))


def windows(x):
    """Channels of 3 x 3 sites around each: (B, rows, columns, f) -> (..., 9 f), 0 beyond edges."""
    _, rows, columns, _ = x.shape
    x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    parts = [x[:, i : i + rows, j : j + columns] for i in range(3) for j in range(3)]
    return jnp.concatenate(parts, axis=-1)
