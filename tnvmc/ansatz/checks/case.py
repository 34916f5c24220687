"""Where the conformance suite looks, and how it compares."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from tnvmc.ansatz.metropolis import amplitude_ratio
from tnvmc.ansatz.protocol import Ansatz, LogAmplitude, Snapshot, Targets
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace

Array = Any

MAX_STATES = 512
"""Largest space d^N whose stationary distribution is checked."""


@dataclass(frozen=True)
class Case:
    """An ansatz at a theta, and where to look at it."""

    ansatz: Ansatz
    theta: Array
    given_configs: Array | None
    given_rtol: float | None
    rng: np.random.Generator

    @property
    def xp(self) -> Any:
        return array_namespace(self.theta)

    @property
    def n_sites(self) -> int:
        return self.ansatz.lattice.n_sites

    @cached_property
    def eps(self) -> float:
        return float(self.xp.finfo(self.theta.dtype).eps)

    @cached_property
    def rtol(self) -> float:
        return self.given_rtol or (1e-8 if self.eps < 1e-10 else 1e-3)

    @cached_property
    def configs(self) -> Array:
        """Up to 12 configurations where psi does not vanish."""
        if self.given_configs is not None:
            return self.given_configs
        d, n_sites = self.ansatz.local_dim, self.n_sites
        if d**n_sites <= MAX_STATES:
            candidates = self.rng.permutation(all_configs(n_sites, d))
        else:
            candidates = self.rng.integers(d, size=(256, n_sites), dtype=np.int8)
            half = np.arange(n_sites) * d // n_sites
            candidates[::2] = self.rng.permuted(np.tile(half, (128, 1)), axis=1)
        inside = to_host(self.psi(to_namespace(candidates, self.xp)).phase) != 0
        require(
            bool(inside.any()),
            f"psi vanishes on all of {len(candidates)} configurations; pass `configs` in its "
            "support, or check theta",
        )
        return to_namespace(candidates[inside][:12], self.xp)

    @cached_property
    def tables(self) -> Targets:
        """Every kind of table: flips, exchanges, and all replacements with gaps (-1)."""
        d, n_sites = self.ansatz.local_dim, self.n_sites
        tables = dict(self.moves)
        whole = {tuple(range(k)) for k in (2, 3) if k <= n_sites} | {(0, n_sites - 1)}
        for patch in {p for p in whole if len(set(p)) == len(p)}:
            states = np.arange(d ** len(patch))
            table = np.array([np.delete(states, a) for a in states])
            table[self.rng.random(table.shape) < 0.3] = -1
            tables[patch] = to_namespace(table, self.xp)
        return tables

    @cached_property
    def moves(self) -> Targets:
        """Flips of all sites, exchanges over all bonds."""
        d = self.ansatz.local_dim
        flip = np.array([[b for b in range(d) if b != a] for a in range(d)])
        swap = np.array([[b * d + a if a != b else -1] for a in range(d) for b in range(d)])
        bonds = {bond for kind in self.ansatz.lattice.bonds.values() for bond in kind}
        moves = {bond: swap for bond in sorted(bonds)}
        moves.update({(site,): flip for site in range(self.n_sites)})
        return {patch: to_namespace(table, self.xp) for patch, table in moves.items()}

    def psi(self, configs: Array) -> LogAmplitude:
        return self.ansatz.log_amplitude(self.theta, configs)

    def uniforms(self, *shape: int) -> Array:
        return to_namespace(self.rng.random(shape), self.xp)


def all_configs(n_sites: int, local_dim: int) -> np.ndarray:
    return np.array(list(product(range(local_dim), repeat=n_sites)), dtype=np.int8)


def random_vector(case: Case, size: int, dtype: Any) -> np.ndarray:
    vector = case.rng.normal(size=size)
    if np.issubdtype(dtype, np.complexfloating):
        vector = vector + 1j * case.rng.normal(size=size)
    return vector.astype(dtype)


def measured(case: Case, configs: Array, jacobian: bool = True) -> Snapshot:
    walkers = case.ansatz.start(case.theta, configs)
    return case.ansatz.measure(case.theta, walkers, case.tables, jacobian=jacobian)[1]


def same_amplitude(where: str, found: LogAmplitude, expected: LogAmplitude, rtol: float) -> None:
    zero = to_host(expected.phase) == 0
    ratio = np.where(zero, 1.0, to_host(amplitude_ratio(found, expected)))
    ratio = np.where(zero & (to_host(found.phase) != 0), np.inf, ratio)
    close(f"{where}, as a quotient", ratio, np.ones(len(ratio)), rtol)


def close(where: str, found: Array, expected: Array, tolerance: float) -> None:
    """|found - expected| <= tolerance * max(1, |expected|), entry by entry; NaN never passes."""
    found, expected = to_host(found), to_host(expected)
    require(found.shape == expected.shape, f"{where}: shape {found.shape}, not {expected.shape}")
    error = np.abs(found - expected) / np.maximum(1.0, np.abs(expected))
    worst = np.unravel_index(int(np.argmax(np.nan_to_num(error, nan=np.inf))), error.shape)
    require(
        bool(error[worst] <= tolerance),
        f"{where}: at {tuple(int(k) for k in worst)} found {found[worst]}, expected "
        f"{expected[worst]} (relative error {error[worst]:.1e}, tolerance {tolerance:.1e})",
    )


def require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(f"check_ansatz: {message}")
