"""The columns of a PEPS that is contracted by fixed projectors, at the spins of walkers.

What is absorbed in a column depends on its own spins alone.  So a patch, however high it is, is replaced by
absorbing its columns anew, from the first changed row to the middle, and closing them with what lies on the left and
on the right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tnvmc.ansatz.peps.halves import Halves
from tnvmc.ansatz.peps.windows import Window, local_spins
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.backend.linalg import normalise
from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.fixed import advance
from tnvmc.contraction.row import Environment, closure

Array = Any


@dataclass(frozen=True)
class Column:
    """One column of B walkers: what was absorbed, row by row, in the upper and in the lower half.

    `tensors[half][k]` is (B, left, vertical, right) after k + 1 rows, scaled to largest entry 1;
    `logs[half][k]` (B,) are the logs of all scales that were taken out.
    """

    tensors: tuple[list[Array], list[Array]]
    logs: tuple[list[Array], list[Array]]

    def take(self, walkers: Array | None) -> Column:
        """That of some walkers; of all in order for None."""
        if walkers is None:
            return self
        xp = array_namespace(walkers)

        def some(half: list[Array]) -> list[Array]:
            return [xp.take(each, walkers, axis=0) for each in half]

        (above, below), (above_logs, below_logs) = self.tensors, self.logs
        return Column((some(above), some(below)), (some(above_logs), some(below_logs)))

    def ends(self) -> tuple[Array, Array]:
        """What meets at the middle, from above and from below: (B, left, vertical, right)."""
        upper, lower = self.tensors
        xp = array_namespace(upper[-1])
        empty = (upper[-1].shape[0], 1, 1, 1)
        return upper[-1], lower[-1] if lower else xp.ones(empty, dtype=upper[-1].dtype)

    @property
    def log_scale(self) -> Array:
        """(B,) of both ends."""
        return sum(logs[-1] for logs in self.logs if logs)

    def put(self, new: Column, taken: Array, walkers: Array | None) -> Column:
        """This one, but `new` for walkers that have `taken` it; see `put`."""

        def chosen(old: list[Array], made: list[Array]) -> list[Array]:
            return [put(*each, taken, walkers) for each in zip(old, made, strict=True)]

        tensors = [chosen(*each) for each in zip(self.tensors, new.tensors, strict=True)]
        logs = [chosen(*each) for each in zip(self.logs, new.logs, strict=True)]
        return Column((tensors[0], tensors[1]), (logs[0], logs[1]))


def put(old: Array, new: Array, taken: Array, walkers: Array | None) -> Array:
    """`old` (B, ...) with the rows of those that have `taken` (b,) from `new` (b, ...).

    `walkers` are the places of the b; None for all, in order.
    """
    xp = array_namespace(old)
    if walkers is None:
        return xp.where(xp.reshape(taken, (-1,) + (1,) * (old.ndim - 1)), new, old)
    found = xp.asarray(old, copy=True)
    found[walkers[taken]] = new[taken]
    return found


@dataclass(frozen=True)
class Columns:
    """All columns of B walkers at their configurations (B, N)."""

    halves: Halves
    configs: Array
    columns: tuple[Column, ...]

    @classmethod
    def at(cls, halves: Halves, configs: Array) -> Columns:
        """Absorb every row.  Cost: that of absorbing all sites."""
        n_rows, n_cols = halves.shape
        nothing = cls(halves, configs, (Column(([], []), ([], [])),) * n_cols)
        return replace(
            nothing,
            columns=tuple(nothing._absorbed(c, range(n_rows), {}, None) for c in range(n_cols)),
        )

    def spins(self, row: int, column: int, walkers: Array | None = None) -> Array:
        """Present spins (B,) of a site."""
        found = self.configs[:, row * self.halves.shape[1] + column]
        return found if walkers is None else array_namespace(found).take(found, walkers, axis=0)

    def _absorbed(
        self, column: int, rows: Iterable[int], spins: dict[int, Array], walkers: Array | None
    ) -> Column:
        """A column with other spins, by site, in some rows: absorbed anew from the first in each half."""
        old, changed = self.columns[column].take(walkers), set(rows)
        tensors: tuple[list[Array], list[Array]] = ([], [])
        logs: tuple[list[Array], list[Array]] = ([], [])
        for h, half in enumerate(self.halves.halves):
            first = next((k for k, row in enumerate(half.rows) if row in changed), len(half.rows))
            tensors[h].extend(old.tensors[h][:first])
            logs[h].extend(old.logs[h][:first])
            for row, sites in zip(half.rows[first:], half.sites[first:], strict=True):
                states = spins.get(row * self.halves.shape[1] + column)
                states = self.spins(row, column, walkers) if states is None else states
                before = tensors[h][-1] if tensors[h] else None
                made, log = normalise(sites[column].absorb(before, states))
                logs[h].append(logs[h][-1] + log if logs[h] else log)
                tensors[h].append(made)
        return Column(tensors, logs)

    def replaced(
        self, window: Window, states: Array, walkers: Array | None = None
    ) -> tuple[Column, ...]:
        """The columns of a window with its patch at local states (b,).

        `walkers` are the places of the b; None for all, in order.
        """
        n_cols = self.halves.shape[1]
        spins = local_spins(states, window.patch, self.halves.local_dim)
        found = []
        for column in range(window.column, window.column + window.width):
            rows = [site // n_cols for site in window.patch if site % n_cols == column]
            own = self.columns[column]
            found.append(
                self._absorbed(column, rows, spins, walkers) if rows else own.take(walkers)
            )
        return tuple(found)

    def edge(self) -> Environment:
        """Before the first column: (B, 1, 1)."""
        first = self.columns[0].tensors[0][0]
        xp = array_namespace(first)
        return Environment(
            xp.ones((first.shape[0], 1, 1), dtype=first.dtype),
            xp.zeros_like(self.columns[0].logs[0][0]),
        )

    def amplitude(self) -> LogAmplitude:
        """psi (B,)."""
        return self.halves.with_scale(closed(self.edge(), self.columns, self.edge()))

    def lefts(self) -> list[Environment]:
        """What lies to the left of each column, and of the edge: (B, upper, lower)."""
        found = [self.edge()]
        for column in self.columns:
            found.append(advanced(found[-1], column))
        return found

    def rights(self) -> list[Environment]:
        """What lies to the right of the left edge, and of each column: (B, upper, lower)."""
        found = [self.edge()]
        for column in reversed(self.columns):
            found.append(advanced(found[-1], column, leftward=True))
        return found[::-1]


def advanced(env: Environment, column: Column, leftward: bool = False) -> Environment:
    """Absorb a column into an environment.  Cost per walker: 2 chi^3 D."""
    ends = column.ends()
    if leftward:
        ends = tuple(array_namespace(end).permute_dims(end, (0, 3, 2, 1)) for end in ends)
    tensor, log = normalise(advance(env.tensor, *ends))
    return Environment(tensor, env.log_scale + column.log_scale + log)


def closed(left: Environment, columns: Iterable[Column], right: Environment) -> LogAmplitude:
    """psi (B,) of some columns and what lies on both sides."""
    for column in columns:
        left = advanced(left, column)
    return LogAmplitude(*closure(left, right))
