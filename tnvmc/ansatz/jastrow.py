"""Jastrow states: a factor for each pair of sites."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tnvmc.ansatz.generic import GenericAnsatz
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.backend.arguments import numeric_type, one_of, set_whole
from tnvmc.backend.namespace import array_namespace, to_namespace
from tnvmc.lattice.lattice import Lattice, require_lattice

Array = Any

_START = 0.01
"""Standard deviation of the parameters at the start: psi is nearly constant then."""

_DIGITS = 6  # to which distances are told apart


@dataclass(frozen=True)
class Jastrow(GenericAnsatz):
    """ln psi(s) = sum_i a_i z_i + sum_(i < j) v_ij z_i z_j, with z = d - 1 - 2 s (2 Sz).

    Args:
        lattice: the sites; distances go the shortest way round a ring.
        pairs: "all": a v for each pair, P = N (N - 1) / 2; "distance": one v for all pairs of a
            distance.
        fields: whether there are a_i, one for each site.
        dtype: of theta; with a real one psi > 0, with a complex one it has phases and is
            holomorphic in it.
        local_dim: local dimension d; for 4 a site has two z, +-1 by the binary digits of s (of
            electrons whether there is an up, a down), which are a pair, too.

    theta holds the fields, if any, then the v, pairs in lexicographic order or distances in
    increasing order.  theta = 0 is psi = 1.  Cost of an amplitude: N^2.  Log-derivatives are z_i
    and z_i z_j, whatever theta.

    Alone it has no sign structure; it is meant as a factor of `ProductOfStates`.

    Raises:
        ValueError: other `pairs`; an unknown dtype; distances on a lattice without positions.

    Source: R. Jastrow, Phys. Rev. 98, 1479 (1955); for spins: Capello, Becca, Fabrizio, Sorella and
    Tosatti, PRL 94, 026406 (2005).
    """

    lattice: Lattice
    pairs: Literal["all", "distance"] = "all"
    fields: bool = False
    dtype: Any = "float64"
    local_dim: int = 2

    def __post_init__(self) -> None:
        require_lattice("Jastrow", self.lattice)
        set_whole(self, {"local_dim": 2})
        numeric_type("Jastrow", self.dtype)
        one_of("Jastrow", "pairs", self.pairs, ("all", "distance"))
        one_of("Jastrow", "fields", self.fields, (True, False))
        _ = self.classes  # which may not exist

    def description(self) -> dict[str, Any]:
        """Class and settings."""
        about = {"pairs": self.pairs, "fields": self.fields}
        return {"ansatz": type(self).__name__, "architecture": about}

    def rebuild(self) -> dict[str, Any]:
        return {"pairs": self.pairs, "fields": self.fields, "dtype": np.dtype(self.dtype).name}

    @cached_property
    def classes(self) -> np.ndarray:
        """Which v belongs to each pair i < j in lexicographic order: (N (N - 1) / 2,)."""
        (first, second), n = self._ends, self.lattice.n_sites
        if self.pairs == "all":
            return np.arange(first.size)
        if self.lattice.coordinates is None and self.lattice.kind in ("graph", "custom"):
            raise ValueError(
                "Jastrow: pairs = 'distance' needs positions, and this lattice, a list of bonds, "
                "has none; give it coordinates, or take pairs = 'all'"
            )
        far = self.lattice.distances()[first % n, second % n].round(_DIGITS)
        far = far + (first // n != second // n) * (1 + far.max(initial=0))
        return np.unique(far, return_inverse=True)[1].reshape(-1)

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
        n_pairs = int(self.classes.max(initial=-1)) + 1
        return n_pairs + (self._n_units if self.fields else 0)

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
        if not xp.isdtype(log_psi.dtype, "complex floating"):
            return LogAmplitude(xp.ones_like(log_psi), log_psi)
        return LogAmplitude(xp.exp(1j * xp.imag(log_psi)), xp.real(log_psi))

    def log_derivatives(self, theta: Array, configs: Array) -> Array:
        """z_i and sums of z_i z_j over the pairs of each v: (B, P)."""
        xp = array_namespace(theta)
        z = self._spins(theta, configs)
        first, second = (to_namespace(sites, xp) for sites in self._ends)
        products = xp.take(z, first, axis=1) * xp.take(z, second, axis=1)
        if self.pairs == "distance":
            members = np.eye(int(self.classes.max()) + 1)[self.classes]  # which pairs have which v
            products = products @ xp.astype(to_namespace(members, xp), theta.dtype)
        return xp.concat([z, products], axis=1) if self.fields else products

    def _spins(self, theta: Array, configs: Array) -> Array:
        """z of configurations (B, N), in the type of theta."""
        xp, largest = array_namespace(theta), self.local_dim - 1
        if self.local_dim == 4:
            configs, largest = xp.concat([configs % 2, configs // 2], axis=1), 1
        return xp.astype(largest - 2 * xp.astype(configs, xp.int64), theta.dtype)

    def _couplings(self, v: Array) -> Array:
        """v_ij above the diagonal of a matrix, zeros elsewhere."""
        xp, n = array_namespace(v), self._n_units
        place = np.zeros((n, n), dtype=np.int64)
        place[self._ends] = self.classes + 1
        padded = xp.concat([xp.zeros(1, dtype=v.dtype), v])
        return xp.reshape(xp.take(padded, to_namespace(place.ravel(), xp), axis=0), (n, n))
