"""Restricted Boltzmann machines with their hidden layer traced out.

Two forms of one family.  "binary" (units 0/1, visible unit v_i = the digit of site i)::

    E(v, h) = sum_j b_j h_j + sum_ij v_i W_ij h_j + sum_i c_i v_i
    psi(v) = sum_h exp(-E(v, h)) = exp(-c.v) prod_j (1 + exp(-b_j - (v W)_j))

"log_cosh" (units +-1, s_i = 1 - 2 v_i)::

    ln psi(s) = a.s + sum_j ln cosh(b_j + (s W)_j)

In both the amplitude psi itself is the traced sum, and |psi|^2 is the probability.

Source: G. Carleo, M. Troyer, Science 355, 602 (2017), arXiv:1606.02318.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from tnvmc.ansatz.neural.architectures import RBMConfig, noted
from tnvmc.ansatz.neural.layers import sum_log, sum_log_cosh
from tnvmc.lattice.lattice import Lattice
from tnvmc.lattice.permutations import space_group

_OPENING = 0.1  # size of weights in a product state


@noted("rbm")
class RBM(nnx.Module):
    """ln psi(s) of a restricted Boltzmann machine: configs (B, N) -> (B,); see `RBMConfig`.

    With `dtype = "float64"` psi > 0 and the result is real; with "complex128" (holomorphic in the
    parameters) it is complex.  Parameters: `weights` W (N, H), `hidden_bias` b (H,) and
    `visible_bias` c or a (N,).  Cost: B N H.

    They start as normal numbers of standard deviation `init_scale`, not 0, where hidden units never
    differ.  ln psi spreads by init_scale^2 N sqrt(H) / 2: by default as of N = 16 and H = 32.

    For d > 2 the units are the digit and s = d - 1 - 2 * digit (2 Sz); for d = 4 a site has two
    units, the binary digits: of electrons whether there is an up, a down.

    With `sharing` ln psi is the sum over images of s under the symmetries of the lattice.
    """

    def __init__(
        self, lattice: Lattice, *, local_dim: int = 2, rngs: nnx.Rngs, **architecture: Any
    ) -> None:
        config = RBMConfig(**architecture)
        self.lattice, self.local_dim = lattice, local_dim
        self.form, self.dtype = config.form, config.dtype
        n_units = lattice.n_sites * (2 if local_dim == 4 else 1)
        images = tuple(g.sites for g in space_group(lattice)) if config.sharing else ()
        self.images = images if len(images) > 1 else ()
        n_hidden = max(1, round(config.alpha * lattice.n_sites / max(1, len(images))))
        least = 0.1 * min(1.0, (16 / n_units) ** 0.5 * (32 / (config.alpha * n_units)) ** 0.25)
        scale = least if config.init_scale is None else config.init_scale

        def normal(*shape: int) -> nnx.Param[jax.Array]:
            return nnx.Param(scale * jax.random.normal(rngs.params(), shape, config.dtype))

        self.weights = normal(n_units, n_hidden)
        self.hidden_bias = normal(n_hidden) if config.hidden_bias else None
        self.visible_bias = normal(n_units) if config.visible_bias else None

    @property
    def holomorphic(self) -> bool:
        """Whether ln psi is holomorphic in complex parameters."""
        return self.dtype == "complex128"

    def invariances(self) -> np.ndarray:
        """Give the rearrangements of the sites (n, N) that leave psi as it is."""
        return np.array(self.images or [range(self.lattice.n_sites)])

    def product(self, theta: np.ndarray) -> np.ndarray:
        """Make of random numbers parameters of nearly psi = 1, a product state along x: units of
        equal weights, up to phases, cancel in psi, but not in its derivatives.
        """
        n = self.weights.shape[1]
        alike = self.form == "log_cosh" and theta.size == self.weights.size and self.holomorphic
        if n < 2 or not alike:
            told = "of a complex log_cosh RBM without biases, of 2 units or more"
            raise ValueError(f"product_parameters: {told}")
        member, group = np.divmod(np.arange(n), max(1, n // 4))
        phases = np.exp(1j * np.pi * member / np.bincount(group)[group])
        return np.ravel(_OPENING / np.std(theta) * theta.reshape(-1, n)[:, group] * phases)

    def __call__(self, configs: jax.Array) -> jax.Array:
        """ln psi(s), (B,), for configurations (B, N)."""
        if self.images:
            configs = configs[:, np.array(self.images)]  # (B, |G|, N)
        if self.local_dim == 4:
            configs = jnp.concatenate([configs % 2, configs // 2], axis=-1)
        units = jnp.asarray(configs, self.dtype)
        if self.form == "log_cosh":
            units = (1 if self.local_dim == 4 else self.local_dim - 1) - 2 * units
        fields = units @ self.weights[...]
        if self.hidden_bias is not None:
            fields = fields + self.hidden_bias[...]
        if self.form == "log_cosh":
            log_psi, sign = sum_log_cosh(fields), 1
        else:
            positive = jnp.real(fields) < 0
            small = jnp.exp(jnp.where(positive, fields, -fields))  # without overflow
            log_psi = jnp.sum(jnp.where(positive, -fields, 0), axis=-1) + sum_log(1 + small)
            sign = -1
        if self.visible_bias is not None:
            log_psi = log_psi + sign * (units @ self.visible_bias[...])
        return jnp.sum(log_psi, axis=-1) if self.images else log_psi
