"""What several networks are made of: types, activations, patches and translations of a grid."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from tnvmc.lattice.lattice import Lattice, Patch, require_full_grid

REAL: dict[str, Any] = {"dtype": jnp.float64, "param_dtype": jnp.float64}
"""What every layer computes and keeps its parameters in."""

linear = partial(nnx.Linear, dtype=jnp.float64, param_dtype=jnp.float64)
layer_norm = partial(nnx.LayerNorm, dtype=jnp.float64, param_dtype=jnp.float64)


def normal_linear(n_in: int, n_out: int, rngs: nnx.Rngs, scale: float = 1.0) -> nnx.Linear:
    """A dense layer with normal weights of standard deviation scale / sqrt(n_in), no bias yet."""
    normal = nnx.initializers.variance_scaling(scale**2, "fan_in", "normal")
    return linear(n_in, n_out, kernel_init=normal, rngs=rngs)


def one_hot(tokens: jax.Array, n_states: int) -> jax.Array:
    """Tokens (...) as float64 unit vectors (..., n_states); 0 for a token below 0."""
    return jax.nn.one_hot(tokens, n_states, dtype=jnp.float64)


def log_cosh(x: jax.Array) -> jax.Array:
    """ln cosh(x), real or complex, of any shape and without overflow.

    Written as |x| + ln(1 + exp(-2|x|)) - ln 2 with the sign of the real part; for complex x the
    branch is left open (a multiple of 2 pi i), which psi does not see.
    """
    x = jnp.where(jnp.real(x) < 0, -x, x)
    return x + jnp.log1p(jnp.exp(-2 * x)) - math.log(2)


def sum_log_cosh(x: jax.Array) -> jax.Array:
    """sum_j ln cosh(x_j) over the last axis of x (..., H): `log_cosh` with fewer logarithms."""
    x = jnp.where(jnp.real(x) < 0, -x, x)
    return jnp.sum(x, axis=-1) + sum_log(1 + jnp.exp(-2 * x)) - x.shape[-1] * math.log(2)


_FACTORS = 16
"""Factors under one logarithm: XLA makes those of the host one by one, at 20 ns each (exp: 1 ns).
Each factor is at most 2 and, where it is not 0, at least half a rounding error, so that no product
overflows, or vanishes where no factor does."""


@jax.custom_jvp
def sum_log(factors: jax.Array) -> jax.Array:
    """sum_j ln f_j over the last axis, of f_j = 1 + exp(z_j) with Re z_j <= 0."""
    n = factors.shape[-1]
    n_groups = -(-n // _FACTORS)
    missing = [(0, 0)] * (factors.ndim - 1) + [(0, n_groups * _FACTORS - n)]
    groups = jnp.pad(factors, missing, constant_values=1)
    groups = groups.reshape(*factors.shape[:-1], n_groups, _FACTORS)
    return jnp.sum(jnp.log(jnp.prod(groups, axis=-1)), axis=-1)


@sum_log.defjvp
def _sum_log_jvp(primals: Any, tangents: Any) -> Any:
    """The derivative of a product would be many products."""
    return sum_log(*primals), jnp.sum(tangents[0] / primals[0], axis=-1)


def patches_of(network: str, lattice: Lattice, patch: tuple[int, int]) -> tuple[Patch, ...]:
    """Give the sites of each patch, (T, k): patches, and sites within one, in row-major order.

    Raises:
        ValueError: vacant places; patches that do not tile the lattice.
    """
    require_full_grid(network, lattice)
    (n_rows, n_cols), (rows, cols) = lattice.shape, patch
    if n_rows % rows or n_cols % cols:
        raise ValueError(
            f"{network}: patches of {rows} x {cols} sites do not tile the lattice of {n_rows} x "
            f"{n_cols}; give patch = [rows, columns] that divide it"
        )
    sites = np.arange(n_rows * n_cols).reshape(n_rows // rows, rows, n_cols // cols, cols)
    return tuple(map(tuple, sites.swapaxes(1, 2).reshape(-1, rows * cols).tolist()))


def shifts(shape: tuple[int, int], wraps: tuple[bool, bool], step: tuple[int, int]) -> np.ndarray:
    """Translations of a grid by multiples of `step` along the directions that wrap: (n, N).

    (g s)_i = s_{row[i]}.  For networks to say what leaves them as they are.
    """
    grid = np.arange(shape[0] * shape[1]).reshape(shape)
    down, along = (
        range(0, length if wrap else 1, by)
        for length, wrap, by in zip(shape, wraps, step, strict=True)
    )
    return np.array([np.roll(grid, (i, j), axis=(0, 1)).ravel() for i in down for j in along])
