"""The columns of a PEPS that is contracted by fixed projectors, at the spins of walkers.

What is absorbed in a column depends on its own spins alone, of which there are few: it is absorbed once for each of
them (`halves.Half.tables`), and looked up.  So a patch, however high it is, is replaced by looking its columns up, and
closing them with what lies on the left and on the right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tnvmc.ansatz.peps.halves import Absorbed, Half, Halves, code
from tnvmc.ansatz.peps.windows import Window, local_spins
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.backend.linalg import normalise
from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.fixed import advance
from tnvmc.contraction.row import Environment, closure

Array = Any


@dataclass(frozen=True)
class Column:
    """One column of B walkers, absorbed from above and from below up to the middle."""

    ends: tuple[
        Array, Array
    ]  #: what meets at the middle: (B, left, vertical, right), largest entry 1
    log_scale: Array  #: (B,) of both

    def take(self, walkers: Array | None) -> Column:
        """That of some walkers; of all in order for None."""
        if walkers is None:
            return self
        xp = array_namespace(walkers)
        upper, lower, log = (
            xp.take(each, walkers, axis=0) for each in (*self.ends, self.log_scale)
        )
        return Column((upper, lower), log)

    def put(self, new: Column, taken: Array, walkers: Array | None) -> Column:
        """This one, but `new` for walkers that have `taken` it; see `put`."""
        upper, lower = (
            put(*each, taken, walkers) for each in zip(self.ends, new.ends, strict=True)
        )
        return Column((upper, lower), put(self.log_scale, new.log_scale, taken, walkers))


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
        """Absorb every row.  Cost: that of absorbing all sites, where they are not `Half.tables`."""
        nothing = cls(halves, configs, ())
        return replace(
            nothing,
            columns=tuple(nothing._absorbed(c, {}, None) for c in range(halves.shape[1])),
        )

    def spins(self, row: int, column: int, walkers: Array | None = None) -> Array:
        """Present spins (B,) of a site."""
        found = self.configs[:, row * self.halves.shape[1] + column]
        return found if walkers is None else array_namespace(found).take(found, walkers, axis=0)

    def _absorbed(self, column: int, spins: dict[int, Array], walkers: Array | None) -> Column:
        """A column with other spins, by site."""
        xp, n_cols = array_namespace(self.configs), self.halves.shape[1]
        ends: list[Array] = []
        log: Array = 0.0
        for half in self.halves.halves:
            states = [
                spins[row * n_cols + column]
                if row * n_cols + column in spins
                else self.spins(row, column, walkers)
                for row in half.rows
            ]
            if not states:
                n_walkers, dtype = ends[0].shape[0], ends[0].dtype
                ends.append(xp.ones((n_walkers, 1, 1, 1), dtype=dtype))
                continue
            made, of_half = after_rows(half, column, states)
            ends.append(made)
            log = log + of_half
        return Column((ends[0], ends[1]), log)

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
            changed = any(site % n_cols == column for site in window.patch)
            own = self.columns[column]
            found.append(self._absorbed(column, spins, walkers) if changed else own.take(walkers))
        return tuple(found)

    def edge(self) -> Environment:
        """Before the first column: (B, 1, 1)."""
        first = self.columns[0]
        xp = array_namespace(first.log_scale)
        one = xp.ones((first.log_scale.shape[0], 1, 1), dtype=first.ends[0].dtype)
        return Environment(one, xp.zeros_like(first.log_scale))

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


def after_rows(half: Half, column: int, states: Sequence[Array]) -> Absorbed:
    """A column of a half at the spins (B,) of its first rows: looked up as far as it is known, then absorbed.

    Cost per walker: an absorption for each row beyond `Half.tables`.
    """
    xp = array_namespace(states[0])
    known = half.tables[column][: len(states)]
    number = xp.zeros(states[0].shape[0], dtype=xp.int64)
    for spins, sites in zip(states[: len(known)], half.sites, strict=False):
        number = code(number, xp.astype(spins, xp.int64), sites[column].table.shape[0])
    tensor, log = None, 0.0
    if known:
        tensor, log = (xp.take(each, number, axis=0) for each in known[-1])
    for spins, sites in zip(
        states[len(known) :], half.sites[len(known) : len(states)], strict=True
    ):
        tensor, scale = normalise(sites[column].absorb(tensor, spins))
        log = log + scale
    return tensor, log


def advanced(env: Environment, column: Column, leftward: bool = False) -> Environment:
    """Absorb a column into an environment.  Cost per walker: 2 chi^3 D."""
    ends = column.ends
    if leftward:
        ends = tuple(array_namespace(end).permute_dims(end, (0, 3, 2, 1)) for end in ends)
    tensor, log = normalise(advance(env.tensor, *ends))
    return Environment(tensor, env.log_scale + column.log_scale + log)


def closed(left: Environment, columns: Iterable[Column], right: Environment) -> LogAmplitude:
    """psi (B,) of some columns and what lies on both sides."""
    for column in columns:
        left = advanced(left, column)
    return LogAmplitude(*closure(left, right))
