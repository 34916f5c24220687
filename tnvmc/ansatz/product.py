"""Product states."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.ansatz.generic import GenericAnsatz, as_log_amplitude
from tnvmc.ansatz.peps.starts.even_form import occupied
from tnvmc.ansatz.peps.starts.simple_update import simple_update
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.backend.arguments import numeric_type, set_whole
from tnvmc.backend.namespace import array_namespace, require_states
from tnvmc.lattice.lattice import Lattice, require_lattice

Array = Any

_ADMIXTURE = 0.3
"""Of every local state to the start of fermions: other occupations are a hop away."""


@dataclass(frozen=True)
class ProductState(GenericAnsatz):
    """psi(s) = prod_i phi_i(s_i): mean field, P = N d.

    `theta` is the (N, d) array of the vectors phi_i, flattened.  Cost of an amplitude: N.  All
    log-derivatives are 1/phi_i(s_i).
    """

    lattice: Lattice
    local_dim: int = 2
    dtype: Any = "float64"

    starts = ("product", "random")
    """The ordered product state of lowest energy, or random vectors."""

    def __post_init__(self) -> None:
        require_lattice("ProductState", self.lattice)
        set_whole(self, {"local_dim": 2})
        numeric_type("ProductState", self.dtype)

    def rebuild(self) -> dict[str, Any]:
        return {"dtype": np.dtype(self.dtype).name}

    @property
    def n_params(self) -> int:
        """P = N d."""
        return self.lattice.n_sites * self.local_dim

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) for configurations (B, N)."""
        xp = array_namespace(theta)
        require_states(configs, self.lattice.n_sites, self.local_dim)
        offsets = xp.arange(configs.shape[1]) * self.local_dim
        places = xp.reshape(xp.astype(configs, xp.int64) + offsets[None, :], (-1,))
        factors = xp.reshape(xp.take(theta, places, axis=0), configs.shape)
        size = xp.abs(factors)
        safe = xp.where(size == 0, xp.ones_like(size), size)
        return as_log_amplitude(xp.prod(factors / safe, axis=1), xp.sum(xp.log(safe), axis=1))

    def log_derivatives(self, theta: Array, configs: Array) -> Array:
        """1/phi_i(s_i) at the entry (i, s_i), shape (B, P); zero where that factor vanishes."""
        xp = array_namespace(theta)
        require_states(configs, self.lattice.n_sites, self.local_dim)
        vectors = xp.reshape(theta, (-1, self.local_dim))
        zero = vectors == 0
        inverse = xp.where(
            zero, xp.zeros_like(vectors), 1.0 / xp.where(zero, xp.ones_like(vectors), vectors)
        )
        held = configs[:, :, None] == xp.arange(self.local_dim, dtype=configs.dtype)[None, None, :]
        rows = xp.where(held, inverse[None, :, :], xp.zeros_like(inverse)[None, :, :])
        return xp.reshape(rows, (configs.shape[0], -1))

    def random(self, seed: int) -> np.ndarray:
        """`theta` with entries of modulus 0.5..1.5, positive or with random phases."""
        rng = np.random.Generator(np.random.PCG64(seed))
        entries = rng.uniform(0.5, 1.5, self.n_params)
        if np.issubdtype(self.dtype, np.complexfloating):
            entries = entries * np.exp(2j * np.pi * rng.uniform(size=self.n_params))
        return entries.astype(self.dtype)

    def initial(self, operator: Any, seed: int = 0, kind: str | None = None) -> Array:
        """Give theta (P,) for an operator."""
        if kind not in (None, "product"):
            return super().initial(operator, seed, kind)
        if operator.fermions is not None:  # of which `occupied` alone is one configuration
            return (occupied(operator) + _ADMIXTURE).ravel().astype(self.dtype)
        tensors = simple_update(operator, 1, max_steps=0, seed=seed)
        return np.concatenate([tensor.ravel() for tensor in tensors]).astype(self.dtype)
