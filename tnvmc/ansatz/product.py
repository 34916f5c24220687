"""States that factorise into clusters of sites: product states and dimer coverings."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.ansatz.generic import GenericAnsatz, as_log_amplitude
from tnvmc.ansatz.peps.starts.simple_update import simple_update
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.backend.arguments import numeric_type, set_whole
from tnvmc.backend.namespace import array_namespace
from tnvmc.lattice.lattice import Lattice, Patch, require_lattice

Array = Any


class ClusterProduct(GenericAnsatz):
    """psi(s) = prod_c phi_c(s_c), one free vector phi_c for each of C clusters of k sites.

    `theta` is the (C, d^k) array of the vectors, flattened, each vector in the order of the
    local states of its patch.  Cost of an amplitude: N.  All log-derivatives are 1/phi_c(s_c).
    """

    def __post_init__(self) -> None:
        require_lattice(type(self).__name__, self.lattice)
        set_whole(self, {"local_dim": 2})
        numeric_type(type(self).__name__, self.dtype)

    @property
    @abstractmethod
    def clusters(self) -> tuple[Patch, ...]:
        """Clusters of equal size that hold every site once."""

    @property
    def n_params(self) -> int:
        """P = C d^k."""
        return int(len(self.clusters) * self.local_dim ** len(self.clusters[0]))

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) for configurations (B, N)."""
        xp = array_namespace(theta)
        states = self._states(configs, xp)
        offsets = xp.arange(states.shape[1]) * (theta.shape[0] // states.shape[1])
        places = xp.reshape(states + offsets[None, :], (-1,))
        factors = xp.reshape(xp.take(theta, places, axis=0), states.shape)
        size = xp.abs(factors)
        safe = xp.where(size == 0, xp.ones_like(size), size)
        return as_log_amplitude(xp.prod(factors / safe, axis=1), xp.sum(xp.log(safe), axis=1))

    def log_derivatives(self, theta: Array, configs: Array) -> Array:
        """1/phi_c(s_c) at the entry (c, s_c), shape (B, P); zero where that factor vanishes."""
        xp = array_namespace(theta)
        vectors = xp.reshape(theta, (len(self.clusters), -1))
        states = self._states(configs, xp)
        zero = vectors == 0
        inverse = xp.where(
            zero, xp.zeros_like(vectors), 1.0 / xp.where(zero, xp.ones_like(vectors), vectors)
        )
        held = states[:, :, None] == xp.arange(vectors.shape[1])[None, None, :]
        rows = xp.where(held, inverse[None, :, :], xp.zeros_like(inverse)[None, :, :])
        return xp.reshape(rows, (states.shape[0], -1))

    def random(self, seed: int) -> np.ndarray:
        """`theta` with entries of modulus 0.5..1.5, positive or with random phases."""
        rng = np.random.Generator(np.random.PCG64(seed))
        entries = rng.uniform(0.5, 1.5, self.n_params)
        if np.issubdtype(self.dtype, np.complexfloating):
            entries = entries * np.exp(2j * np.pi * rng.uniform(size=self.n_params))
        return entries.astype(self.dtype)

    def _states(self, configs: Array, xp: Any) -> Array:
        """Local state of every cluster: (B, C)."""
        sites = np.array(self.clusters)
        states = xp.zeros((configs.shape[0], sites.shape[0]), dtype=xp.int64)
        for column in sites.T:
            here = xp.take(configs, xp.asarray(column), axis=1)
            states = states * self.local_dim + xp.astype(here, xp.int64)
        return states


@dataclass(frozen=True)
class ProductState(ClusterProduct):
    """psi(s) = prod_i phi_i(s_i): mean field, P = N d."""

    lattice: Lattice
    local_dim: int = 2
    dtype: Any = "float64"

    def rebuild(self) -> dict[str, Any]:
        return {"dtype": np.dtype(self.dtype).name}

    @property
    def clusters(self) -> tuple[Patch, ...]:
        """Every site by itself."""
        return tuple((site,) for site in range(self.lattice.n_sites))

    starts = ("random", "product")
    """Random vectors, or the ordered product state of lowest energy."""

    def initial(self, operator: Any, seed: int = 0, kind: str | None = None) -> Array:
        """Give theta (P,) for an operator."""
        if kind != "product":
            return super().initial(operator, seed, kind)
        tensors, _ = simple_update(operator, 1, max_steps=0, seed=seed)
        return np.concatenate([tensor.ravel() for tensor in tensors]).astype(self.dtype)

    def basis_state(self, config: Array) -> np.ndarray:
        """`theta` of the state |config>, for instance a Neel state; psi = 0 everywhere else."""
        one_hot = np.eye(self.local_dim, dtype=self.dtype)
        return one_hot[np.asarray(config, dtype=np.int64)].ravel()


@dataclass(frozen=True)
class DimerCovering(ClusterProduct):
    """psi(s) = prod over pairs phi_ab(s_a, s_b): any two-site states on a covering by pairs.

    With `theta = singlets()` it is the exact ground state of the Shastry-Sutherland model for
    J/J' below about 0.675, with E = -3/8 J' N (Shastry and Sutherland, Physica B+C 108, 1069
    (1981)).  Raises ValueError when the pairs do not hold every site exactly once.
    """

    lattice: Lattice
    pairs: tuple[tuple[int, int], ...]
    local_dim: int = 2
    dtype: Any = "float64"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pairs", tuple((int(a), int(b)) for a, b in self.pairs))
        n_sites = self.lattice.n_sites
        visited = Counter(site for pair in self.pairs for site in pair)
        every = (*range(n_sites), *visited)
        wrong = [site for site in every if visited[site] != 1 or not 0 <= site < n_sites]
        if wrong:
            raise ValueError(
                f"DimerCovering: {len(self.pairs)} pairs must hold each of the sites "
                f"0..{n_sites - 1} once; site {wrong[0]} appears {visited[wrong[0]]} times"
                f"{' and is not on the lattice' if not 0 <= wrong[0] < n_sites else ''}. "
                "Check the list of pairs."
            )

    def rebuild(self) -> dict[str, Any]:
        return {"dtype": np.dtype(self.dtype).name, "pairs": self.pairs}

    @property
    def clusters(self) -> tuple[Patch, ...]:
        """The pairs, each in increasing order of site index."""
        return tuple((min(pair), max(pair)) for pair in self.pairs)

    def singlets(self) -> np.ndarray:
        """`theta` of the product of singlets (|01> - |10>)/sqrt(2); spin 1/2 only."""
        if self.local_dim != 2:
            raise ValueError(
                f"DimerCovering.singlets: two spins 1/2 needed, local_dim is {self.local_dim}"
            )
        singlet = np.array([0.0, 1.0, -1.0, 0.0], dtype=self.dtype) / np.sqrt(2.0)
        return np.tile(singlet, len(self.pairs)).astype(self.dtype)


def pairs_of(lattice: Lattice) -> tuple[tuple[int, int], ...]:
    """Give pairs that hold every site: the lattice's dimers, else neighbours in rows or columns.

    Raises:
        ValueError: no side of the lattice is even, or places of its grid are vacant.
    """
    if lattice.bonds.get("dimer"):
        return tuple((i, j) for i, j in lattice.bonds["dimer"])
    if lattice.vacant:
        raise ValueError(
            f"DimerCovering: pairs are not known on a grid with {len(lattice.vacant)} vacant "
            "places; give them as DimerCovering(lattice, pairs), in a file ansatz.pairs"
        )
    n_rows, n_cols = lattice.shape
    sites = np.arange(n_rows * n_cols).reshape(n_rows, n_cols)
    if n_cols % 2:
        sites = sites.T
    if sites.shape[1] % 2:
        raise ValueError(
            f"DimerCovering: {n_rows} x {n_cols} sites cannot be paired; one side of the lattice "
            "must be even"
        )
    return tuple((int(i), int(j)) for i, j in sites.reshape(-1, 2))
