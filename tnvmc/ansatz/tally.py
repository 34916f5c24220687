"""What a sweep proposes, and how many moves of each kind it found possible and accepted."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import MOVE_KINDS, SweepInfo, Sweeps, Targets, Walkers
from tnvmc.backend.namespace import array_namespace, to_namespace

Array = Any


class Tally:
    """Counts of the moves of one sweep of B walkers, by kind."""

    def __init__(self, n_walkers: int, local_dim: int, like: Array) -> None:
        self._local_dim, self._xp = local_dim, array_namespace(like)
        self._kinds: list[Array] = []
        self._possible: list[Array] = []
        self._moved: list[Array] = []
        nothing = self._xp.zeros((n_walkers, len(MOVE_KINDS)), dtype=self._xp.float64)
        self._possible_counts, self._moved_counts = nothing, nothing

    def add(
        self, n_sites: int, states: Array, targets: Array, possible: Array, moved: Array
    ) -> None:
        """Count one move of every walker.

        Args:
            n_sites: of the patch.
            states: (B,) its local states before.
            targets: (B,) those that were proposed; the present one where none was.
            possible: (B,) whether one was.
            moved: (B,) whether it was accepted.
        """
        n_states = self._local_dim**n_sites
        table = _kinds_in(self._xp, n_sites, self._local_dim)
        self._kinds.append(self._xp.take(table, states * n_states + targets, axis=0))
        self._possible.append(possible)
        self._moved.append(moved)

    def add_counts(self, possible: Array, moved: Array) -> None:
        """Count moves that were sorted by kind already, (B, kinds)."""
        self._possible_counts = self._possible_counts + possible
        self._moved_counts = self._moved_counts + moved

    def info(self) -> SweepInfo:
        """All that was counted, (B, kinds)."""
        xp = self._xp
        possible_moves, moved_moves = self._possible_counts, self._moved_counts
        if self._kinds:
            kinds, possible, moved = map(xp.stack, (self._kinds, self._possible, self._moved))

            def counts(chosen: Array) -> Array:
                columns = [
                    xp.sum(xp.astype(chosen & (kinds == kind), xp.float64), axis=0)
                    for kind in range(len(MOVE_KINDS))
                ]
                return xp.stack(columns, axis=1)

            possible_moves, moved_moves = (
                possible_moves + counts(possible),
                moved_moves + counts(moved),
            )
        return SweepInfo(possible_moves, moved_moves)


class PlainSweep:
    """The sweep of an ansatz with tempered sweeps: that of power 1."""

    def sweep(
        self: Sweeps, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array
    ) -> tuple[Walkers, SweepInfo]:
        """Propose every move once; see `Ansatz.sweep`."""
        return self.tempered_sweep(theta, walkers, moves, uniforms, 1.0)


def kind_table(n_sites: int, local_dim: int) -> np.ndarray:
    """Give the kind of each change of local states, (d^k, d^k), as a place in `MOVE_KINDS`.

    What changes decides, not the size of the patch: one site is a flip, two sites an exchange where
    their sum stays and a pair flip where it does not, more are terms.
    """
    digits = np.indices((local_dim,) * n_sites).reshape(n_sites, -1)
    n_changed = (digits[:, :, None] != digits[:, None, :]).sum(axis=0)
    total = digits.sum(axis=0)
    pair = np.where(total[:, None] == total, 1, 2)
    kinds: np.ndarray = np.where(n_changed <= 1, 0, np.where(n_changed == 2, pair, 3))
    return kinds


@lru_cache(maxsize=32)
def _kinds_in(xp: Any, n_sites: int, local_dim: int) -> Array:
    return to_namespace(kind_table(n_sites, local_dim).ravel().astype(np.int8), xp)


def propose(table: Array, states: Array, uniforms: Array) -> tuple[Array, Array]:
    """Pick one replacement per walker, as `Ansatz.sweep` prescribes.

    Returns the new local state (B,), -1 where the move is impossible, and the remainder of the
    uniform number (B,), again uniform in [0, 1).  A move is accepted if the remainder is below
    `acceptance`.
    """
    xp = array_namespace(uniforms)
    table = xp.asarray(table)
    if table.shape[1] == 1:
        return xp.take(table[:, 0], states, axis=0), uniforms
    scaled = uniforms * table.shape[1]
    pick = xp.floor(scaled)
    places = states * table.shape[1] + xp.astype(pick, xp.int64)
    return xp.take(xp.reshape(table, (-1,)), places, axis=0), scaled - pick
