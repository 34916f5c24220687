"""Sweeps, ratios and log-derivatives of a PEPS by fixed projectors, on the places of its grid.

One walk over the columns, from left to right, serves every patch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tnvmc.ansatz.generic import acceptance, local_states
from tnvmc.ansatz.peps.columns import Columns, advanced, after_rows, closed, put
from tnvmc.ansatz.peps.passes import log_derivative, movable, window_ratios
from tnvmc.ansatz.peps.windows import Window, local_spins
from tnvmc.ansatz.protocol import LogAmplitude, SweepInfo, Targets
from tnvmc.ansatz.tally import Tally, propose
from tnvmc.backend.linalg import normalise
from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.row import Environment
from tnvmc.lattice.lattice import Patch

Array = Any
Sides = tuple[Environment, Environment]


def sweep(
    walk: Columns, windows: Sequence[Window], moves: Targets, chance: tuple[Array, Array | float]
) -> tuple[Columns, LogAmplitude, SweepInfo]:
    """Propose every move once; `chance` are the uniform numbers (B, n_moves) and the power of |psi|^2.

    Cost per walker and move: 2 chi^3 D a column, and an absorption for each row that `Half.tables` leave out.
    """
    local_dim, (uniforms, power) = walk.halves.local_dim, chance
    tally = Tally(walk.configs.shape[0], local_dim, uniforms)
    rights, lefts = walk.rights(), [walk.edge()]
    present = closed(lefts[0], (), rights[0])
    for window in windows:
        while len(lefts) <= window.column:
            lefts.append(advanced(lefts[-1], walk.columns[len(lefts) - 1]))
        states = local_states(walk.configs, window.patch, local_dim)
        target, remainder = propose(moves[window.asked], states, uniforms[:, window.index])
        possible = target >= 0
        target = array_namespace(states).where(possible, target, states)
        movers = movable(possible)
        if movers is not None and movers.shape[0] == 0:
            continue
        sides = lefts[window.column], rights[window.column + window.width]
        walk, present, moved = _tried(
            walk, window, sides, present, (target, possible, remainder, power)
        )
        del lefts[window.column + 1 :]  # they hold the spins from before
        tally.add(len(window.patch), states, target, possible, moved)
    return walk, walk.halves.with_scale(present), tally.info()


def _tried(
    walk: Columns,
    window: Window,
    sides: Sides,
    present: LogAmplitude,
    proposal: tuple[Array, Array, Array, Array | float],
) -> tuple[Columns, LogAmplitude, Array]:
    """Accept or reject one move of every walker; gives which have moved (B,) too."""
    target, possible, remainder, power = proposal
    xp = array_namespace(target)
    movers = movable(possible)

    def some(values: Array) -> Array:
        return values if movers is None else xp.take(values, movers, axis=0)

    columns = walk.replaced(window, some(target), movers)
    left, right = sides if movers is None else (side.take(movers) for side in sides)
    trial = closed(left, columns, right)
    of_movers = power if isinstance(power, float) else some(power)
    chance = acceptance(trial, present.take(movers), of_movers)
    taken = some(possible) & (some(remainder) < chance)
    moved = put(xp.zeros_like(possible), taken, taken, movers)
    configs = xp.asarray(walk.configs, copy=True)
    for site, spins in local_spins(target, window.patch, walk.halves.local_dim).items():
        configs[:, site] = xp.where(moved, xp.astype(spins, configs.dtype), configs[:, site])
    own = slice(window.column, window.column + window.width)
    replacing = [
        old.put(new, taken, movers) for old, new in zip(walk.columns[own], columns, strict=True)
    ]
    now = (*walk.columns[: own.start], *replacing, *walk.columns[own.stop :])
    after = LogAmplitude(
        put(present.phase, trial.phase, taken, movers),
        put(present.log_abs, trial.log_abs, taken, movers),
    )
    return replace(walk, configs=configs, columns=now), after, moved


def ratios(walk: Columns, windows: Sequence[Window], replacements: Targets) -> dict[Patch, Array]:
    """psi'/psi (B, R) of all replacements, by patch as it was asked for."""
    lefts, rights = walk.lefts(), walk.rights()
    present = closed(lefts[0], (), rights[0])
    return {
        window.asked: _ratios(
            walk,
            window,
            (lefts[window.column], rights[window.column + window.width]),
            present,
            replacements[window.asked],
        )
        for window in windows
    }


def _ratios(
    walk: Columns, window: Window, sides: Sides, present: LogAmplitude, table: Array
) -> Array:
    """psi'/psi (B, R) of every replacement of a window."""

    def close(states: Array, walkers: Array | None) -> LogAmplitude:
        left, right = sides if walkers is None else (side.take(walkers) for side in sides)
        return closed(left, walk.replaced(window, states, walkers), right)

    states = local_states(walk.configs, window.patch, walk.halves.local_dim)
    return window_ratios(close, states, present, table)


def log_derivatives(walk: Columns) -> list[Array]:
    """Log-derivatives (B, up, left, down, right) by place, of the tensor at its spin and fixed projectors.

    Cost per walker: twice that of absorbing all sites.
    """
    xp = array_namespace(walk.configs)
    n_rows, n_cols = walk.halves.shape
    lefts, rights = walk.lefts(), walk.rights()
    found: list[Array] = [None] * (n_rows * n_cols)
    for c, column in enumerate(walk.columns):
        outers = _holes(lefts[c].tensor, column.ends, rights[c + 1].tensor)
        for half, outer, axes in zip(
            walk.halves.halves, outers, (_FROM_ABOVE, _FROM_BELOW), strict=True
        ):
            states = [walk.spins(row, c) for row in half.rows]
            for k in range(len(half.rows) - 1, -1, -1):
                site, spins = half.sites[k][c], states[k]
                before = after_rows(half, c, states[:k])[0] if k else None
                outer, hole = site.adjoint(before, spins, outer)
                outer = None if outer is None else normalise(outer)[0]
                turned = xp.permute_dims(xp.take(site.table, spins, axis=0), axes)
                place = half.rows[k] * n_cols + c
                found[place] = log_derivative(xp.permute_dims(hole, axes), turned)
    return found


_FROM_ABOVE, _FROM_BELOW = (0, 2, 1, 3, 4), (0, 3, 1, 2, 4)  # (left, up, down, right) as in theta


def _holes(left: Array, ends: tuple[Array, Array], right: Array) -> tuple[Array, Array]:
    """What surrounds either end of a column: (B, left, vertical, right), up to a scale."""
    upper, lower = ends
    return _hole(left, lower, right), _hole(_transposed(left), upper, _transposed(right))


def _hole(left: Array, other: Array, right: Array) -> Array:
    """left (B, own, other) and right (B, own, other) joined by the other end (B, left, vertical, right)."""
    xp = array_namespace(left)
    batch, bond, d_vertical, out = other.shape
    x = xp.matmul(left, xp.reshape(other, (batch, bond, d_vertical * out)))
    x = xp.matmul(xp.reshape(x, (batch, -1, out)), xp.matrix_transpose(right))
    return xp.reshape(x, (batch, left.shape[1], d_vertical, right.shape[1]))


def _transposed(matrices: Array) -> Array:
    return array_namespace(matrices).matrix_transpose(matrices)
