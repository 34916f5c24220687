"""Sums of diagonal local terms, evaluated for many configurations at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.backend.namespace import array_namespace, to_namespace
from tnvmc.lattice.lattice import Patch

Array = Any


@dataclass(frozen=True, eq=False)
class DiagonalForm:
    """f(s) = constant + phi . linear + phi Q phi + sum over patches of table[local state].

    phi is the one-hot code of a configuration without its state 0: entry (a - 1) * N + i is 1
    where s_i = a.  All terms on one or two sites, however many, become one matrix product that
    way (for d = 2, phi is the configuration itself).  Terms on three and four sites are looked
    up patch by patch.
    """

    n_sites: int
    local_dim: int
    constant: float
    linear: np.ndarray  #: (F,), F = N (d - 1)
    quadratic: np.ndarray  #: (F, F) upper triangular, or (0, 0) where no pair interacts
    tables: Mapping[Patch, np.ndarray]  #: patches of 3 and 4 sites -> (d^k,)

    def evaluate(self, configs: Array) -> Array:
        """Give f for configurations (B, N): float64 (B,), in the namespace of `configs`.

        Cost B F^2 for pairs and B per patch of three or four sites; memory 2 B F floats.
        Values of `configs` outside 0..d-1 are not noticed.
        """
        xp = array_namespace(configs)
        n_walkers = configs.shape[0]
        total = xp.full((n_walkers,), self.constant, dtype=xp.float64)
        if np.any(self.linear) or self.quadratic.size:
            phi = self._one_hot(configs, xp)
            total = total + phi @ to_namespace(self.linear, xp)
            if self.quadratic.size:
                total = total + xp.sum((phi @ to_namespace(self.quadratic, xp)) * phi, axis=1)
        for patch, table in self.tables.items():
            total = total + xp.take(to_namespace(table, xp), self._local_states(configs, patch, xp))
        return total

    def _one_hot(self, configs: Array, xp: Any) -> Array:
        codes = [
            xp.asarray(configs == state, dtype=xp.float64) for state in range(1, self.local_dim)
        ]
        return codes[0] if len(codes) == 1 else xp.concat(codes, axis=1)

    def _local_states(self, configs: Array, patch: Patch, xp: Any) -> Array:
        states = xp.zeros((configs.shape[0],), dtype=xp.int64)
        for site in patch:
            states = states * self.local_dim + xp.asarray(configs[:, site], dtype=xp.int64)
        return states


def diagonal_form(
    diagonals: Mapping[Patch, np.ndarray], n_sites: int, local_dim: int
) -> DiagonalForm:
    """Collect the diagonals (d^k,) of local matrices by patch into a `DiagonalForm`."""
    n_features = n_sites * (local_dim - 1)
    constant = 0.0
    linear = np.zeros((local_dim - 1, n_sites))
    quadratic = np.zeros((local_dim - 1, n_sites, local_dim - 1, n_sites))
    tables: dict[Patch, np.ndarray] = {}
    for patch, diagonal in diagonals.items():
        table = diagonal.reshape((local_dim,) * len(patch))
        if len(patch) == 1:
            constant += table[0]
            linear[:, patch[0]] += table[1:] - table[0]
        elif len(patch) == 2:
            i, j = patch
            constant += table[0, 0]
            linear[:, i] += table[1:, 0] - table[0, 0]
            linear[:, j] += table[0, 1:] - table[0, 0]
            quadratic[:, i, :, j] += table[1:, 1:] - table[1:, :1] - table[:1, 1:] + table[0, 0]
        elif np.any(diagonal):
            tables[patch] = diagonal
    pairs = quadratic.reshape(n_features, n_features)
    return DiagonalForm(
        n_sites=n_sites,
        local_dim=local_dim,
        constant=float(constant),
        linear=linear.reshape(n_features),
        quadratic=pairs if np.any(pairs) else np.zeros((0, 0)),
        tables=tables,
    )
