"""Jastrow states: a factor for each pair of sites."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tnvmc.ansatz.generic import GenericAnsatz
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.backend.arguments import numeric_type, one_of, set_whole
from tnvmc.backend.namespace import array_namespace, is_complex, require_states, to_namespace
from tnvmc.lattice.lattice import Lattice, require_lattice

Array = Any

_START = 0.01
"""Standard deviation of the parameters at the start: psi is nearly constant then."""


@dataclass(frozen=True)
class Jastrow(GenericAnsatz):
    """ln psi(s) = sum_i a_i z_i + sum_(i < j) v_ij z_i z_j, with z = d - 1 - 2 s (2 Sz).

    Args:
        lattice: the sites.
        fields: whether there are a_i, one for each site.
        dtype: of theta; with a real one psi > 0, with a complex one it has phases and is
            holomorphic in it.
        local_dim: local dimension d; for 4 a site has two z, +-1 by the binary digits of s (of
            electrons whether there is an up, a down), which are a pair, too.

    theta holds the fields, if any, then the N (N - 1) / 2 pairs v in lexicographic order; theta = 0
    is psi = 1.  Cost of an amplitude: N^2.  Log-derivatives are z_i and z_i z_j, whatever theta.

    Alone it has no sign structure; it is meant as a factor of `ProductOfStates`.

    Raises:
        ValueError: an unknown dtype.

    Source: R. Jastrow, Phys. Rev. 98, 1479 (1955); for spins: Capello, Becca, Fabrizio, Sorella and
    Tosatti, PRL 94, 026406 (2005).
    """

    lattice: Lattice
    fields: bool = False
    dtype: Any = "float64"
    local_dim: int = 2

    def __post_init__(self) -> None:
        require_lattice("Jastrow", self.lattice)
        set_whole(self, {"local_dim": 2})
        numeric_type("Jastrow", self.dtype)
        one_of("Jastrow", "fields", self.fields, (True, False))

    def description(self) -> dict[str, Any]:
        """Class and settings."""
        return {"ansatz": type(self).__name__, "architecture": {"fields": self.fields}}

    def rebuild(self) -> dict[str, Any]:
        return {"fields": self.fields, "dtype": np.dtype(self.dtype).name}

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        first, second = np.triu_indices(self._n_units, 1)
        return first, second

    @property
    def _n_units(self) -> int:
        return self.lattice.n_sites * (2 if self.local_dim == 4 else 1)

    @property
    def n_params(self) -> int:
        """Length P of theta."""
        return self._ends[0].size + (self._n_units if self.fields else 0)

    def random(self, seed: int) -> np.ndarray:
        """Small normal numbers: psi is nearly 1."""
        rng = np.random.Generator(np.random.PCG64(seed))
        theta = rng.normal(size=self.n_params)
        if np.issubdtype(np.dtype(self.dtype), np.complexfloating):
            theta = theta + 1j * rng.normal(size=self.n_params)
        return (_START * theta).astype(self.dtype)

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) for configurations (B, N)."""
        xp = array_namespace(theta)
        z, n_fields = self._spins(theta, configs), self._n_units if self.fields else 0
        coupling = self._couplings(theta[n_fields:])
        log_psi = xp.sum((z @ coupling) * z, axis=1)
        if n_fields:
            log_psi = log_psi + z @ theta[:n_fields]
        if not is_complex(log_psi):
            return LogAmplitude(xp.ones_like(log_psi), log_psi)
        return LogAmplitude(xp.exp(1j * xp.imag(log_psi)), xp.real(log_psi))

    def log_derivatives(self, theta: Array, configs: Array) -> Array:
        """z_i and z_i z_j: (B, P)."""
        xp = array_namespace(theta)
        z = self._spins(theta, configs)
        first, second = (to_namespace(sites, xp) for sites in self._ends)
        products = xp.take(z, first, axis=1) * xp.take(z, second, axis=1)
        return xp.concat([z, products], axis=1) if self.fields else products

    def _spins(self, theta: Array, configs: Array) -> Array:
        """z of configurations (B, N), in the type of theta."""
        xp, largest = array_namespace(theta), self.local_dim - 1
        require_states(configs, self.lattice.n_sites, self.local_dim)
        if self.local_dim == 4:
            configs, largest = xp.concat([configs % 2, configs // 2], axis=1), 1
        return xp.astype(largest - 2 * xp.astype(configs, xp.int64), theta.dtype)

    def _couplings(self, v: Array) -> Array:
        """v_ij above the diagonal of a matrix, zeros elsewhere."""
        xp, n = array_namespace(v), self._n_units
        place = np.zeros((n, n), dtype=np.int64)
        place[self._ends] = np.arange(1, v.shape[0] + 1)
        padded = xp.concat([xp.zeros(1, dtype=v.dtype), v])
        return xp.reshape(xp.take(padded, to_namespace(place.ravel(), xp), axis=0), (n, n))
