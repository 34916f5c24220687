"""Passes over the rows of a PEPS: what lies ahead is eaten, what lies behind is left.

A pass going down finds the boundary MPS below every row ready (`ahead`) and builds those above on
its way (`behind`); these are `ahead` for the next pass, which goes up.  At each row a pass visits
the strip of that row and then the strip of that row and the next, and then absorbs the row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tnvmc.ansatz.generic import acceptance, amplitude_ratio, local_states, propose
from tnvmc.ansatz.layers import Layers
from tnvmc.ansatz.protocol import LogAmplitude, Targets
from tnvmc.ansatz.windows import Plan, Window, local_spins
from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.boundary import BoundaryMPS
from tnvmc.contraction.row import Environment, Strip, closure
from tnvmc.contraction.schemes import Scheme

Array = Any


@dataclass(frozen=True)
class Turn:
    """Where a pass begins: the direction of the coming pass and the boundary ahead of each row."""

    layers: Layers
    direction: str  #: "down" or "up": the way the coming pass absorbs rows
    ahead: tuple[BoundaryMPS | None, ...]  #: per row, on the far side of it


def absorb_all(layers: Layers, scheme: Scheme, configs: Array, absorbed: str) -> Turn:
    """Absorb every row in one direction, at fixed configurations, and turn."""
    n_rows = layers.n_rows
    behind: list[BoundaryMPS | None] = [None] * n_rows
    order = list(range(n_rows)) if absorbed == "down" else list(range(n_rows - 1, -1, -1))
    for row, following in itertools.pairwise(order):
        behind[following] = absorb(layers, scheme, behind[row], row, configs, absorbed)
    return Turn(layers, "up" if absorbed == "down" else "down", tuple(behind))


def absorb(
    layers: Layers,
    scheme: Scheme,
    boundary: BoundaryMPS | None,
    row: int,
    configs: Array,
    absorbed: str,
) -> BoundaryMPS:
    """Absorb one row at `configs` (B, N) into the boundary before it."""
    sites = layers.row(row, configs, absorbed)
    return scheme.absorb(boundary, sites, layers.sketches[absorbed][row])


class Pass:
    """One pass over the rows; `configs` and the strips follow the spins as they change."""

    def __init__(self, turn: Turn, scheme: Scheme, configs: Array, local_dim: int) -> None:
        self.layers, self.scheme, self.local_dim = turn.layers, scheme, local_dim
        self.direction, self.configs = turn.direction, configs
        self._ahead = turn.ahead
        self._behind: list[BoundaryMPS | None] = [None] * self.layers.n_rows

    def rows(self) -> Iterator[int]:
        """Yield the rows in order, absorbing each one after its turn."""
        n_rows = self.layers.n_rows
        down = self.direction == "down"
        order = list(range(n_rows)) if down else list(range(n_rows - 1, -1, -1))
        for place, row in enumerate(order):
            yield row
            if place < n_rows - 1:
                self._behind[order[place + 1]] = absorb(
                    self.layers, self.scheme, self._behind[row], row, self.configs, self.direction
                )

    def turn(self) -> Turn:
        """What the next pass begins with, after the last row."""
        other = "up" if self.direction == "down" else "down"
        return Turn(self.layers, other, tuple(self._behind))

    def first_rows(self, row: int) -> tuple[tuple[int, int], ...]:
        """Strips (first row, number of rows) to visit at `row`: itself, and itself with the next."""
        partner = row if self.direction == "down" else row - 1
        inside = 0 <= partner and partner + 1 < self.layers.n_rows
        return ((row, 1), (partner, 2)) if inside else ((row, 1),)

    def strip(self, first: int, n_rows: int) -> Strip:
        """The strip of `n_rows` rows from `first` at the present configurations."""
        last = first + n_rows - 1
        above, below = (
            (self._behind[first], self._ahead[last])
            if self.direction == "down"
            else (self._ahead[first], self._behind[last])
        )
        rows = [self.layers.leftward(row, self.configs) for row in range(first, last + 1)]
        return Strip(above, rows, below)

    def column(
        self, window: tuple[int, int, int], spins: dict[int, Array], walkers: Array | None
    ) -> list[Array]:
        """Sites of one column (first row, number of rows, column), rightward.

        `spins` overrides the present ones of the selected walkers at some sites.
        """
        first, n_rows, column = window
        xp = array_namespace(self.configs)
        sites = []
        for row in range(first, first + n_rows):
            site = row * self.layers.n_cols + column
            state = spins.get(site)
            if state is None:
                state = self.configs[:, site]
                state = state if walkers is None else xp.take(state, walkers, axis=0)
            sites.append(self.layers.site("down", "right", site, state))
        return sites

    def close(
        self,
        strip: Strip,
        window: Window,
        left: Environment,
        right: Environment,
        spins: dict[int, Array],
        walkers: Array | None,
    ) -> LogAmplitude:
        """Close a window with `spins` in it, for the selected walkers (None: all, in order)."""
        if walkers is not None:
            left, right = left.take(walkers), right.take(walkers)
        for column in range(window.column, window.column + window.width):
            sites = self.column((window.row, window.n_rows, column), spins, walkers)
            left = strip.advance(left, column, sites, walkers)
        return LogAmplitude(*closure(left, right))


def sample_strip(
    walk: Pass, key: tuple[int, int], windows: tuple[Window, ...], moves: Targets, uniforms: Array
) -> tuple[Array, Array, LogAmplitude]:
    """Try the moves of one strip from left to right, with Metropolis acceptance.

    Changes `walk.configs`.  Returns possible and accepted moves (B,) and the last closure.
    Cost per walker: two transfers per column, and one per column of each possible move.
    """
    xp = array_namespace(uniforms)
    strip = walk.strip(*key)
    right = strip.right_environments()
    lefts = [strip.edge()]
    present = LogAmplitude(*closure(lefts[0], right[0]))
    proposed = xp.zeros((walk.configs.shape[0],), dtype=xp.float64)
    accepted = proposed
    for window in windows:
        while len(lefts) <= window.column:
            sites = walk.column((*key, len(lefts) - 1), {}, None)
            lefts.append(strip.advance(lefts[-1], len(lefts) - 1, sites))
        left = lefts[window.column]
        table = moves[window.patch]
        states = local_states(walk.configs, window.patch, walk.local_dim)
        target, remainder = propose(table, states, uniforms[:, window.index])
        possible = target >= 0
        walkers = xp.nonzero(possible)[0]
        if walkers.shape[0] == 0:
            continue
        everyone = walkers.shape[0] == possible.shape[0]
        chosen = target if everyone else xp.take(target, walkers, axis=0)
        spins = local_spins(chosen, window.patch, walk.local_dim)
        right_of = right[window.column + window.width]
        trial = walk.close(strip, window, left, right_of, spins, None if everyone else walkers)
        before = LogAmplitude(present.phase[possible], present.log_abs[possible])
        taken = remainder[possible] < acceptance(trial, before)
        moved = xp.asarray(possible, copy=True)
        moved[possible] = taken
        walk.configs = _with_spins(walk.configs, spins, moved, taken)
        present = LogAmplitude(
            _overwritten(present.phase, moved, trial.phase[taken]),
            _overwritten(present.log_abs, moved, trial.log_abs[taken]),
        )
        del lefts[window.column + 1 :]  # they hold the spins from before
        proposed = proposed + xp.astype(possible, xp.float64)
        accepted = accepted + xp.astype(moved, xp.float64)
    return proposed, accepted, present


def _overwritten(array: Array, where: Array, values: Array) -> Array:
    """A copy of an array (B,) with `values` where a mask is true."""
    copy = array_namespace(array).asarray(array, copy=True)
    copy[where] = values
    return copy


def _with_spins(configs: Array, spins: dict[int, Array], moved: Array, taken: Array) -> Array:
    """Configurations (B, N) after the moves: `spins` of those `taken` go to the walkers `moved`."""
    xp = array_namespace(configs)
    changed = xp.asarray(configs, copy=True)
    for site, values in spins.items():
        new = xp.astype(values[taken], configs.dtype)
        changed[:, site] = _overwritten(configs[:, site], moved, new)
    return changed


@dataclass(frozen=True)
class StripReport:
    """What measuring one strip yields."""

    amplitude: LogAmplitude
    ratios: dict[tuple[int, ...], Array]
    log_derivatives: list[Array]  #: per column (B, up, left, down, right); one-row strips only


def measure_strip(
    walk: Pass,
    key: tuple[int, int],
    windows: tuple[Window, ...],
    replacements: Targets,
    jacobian: bool,
) -> StripReport:
    """Close one strip at all replacements of its windows, and open it at each site.

    Cost per walker: two transfers per column, one more per column of each replacement, and for a
    one-row strip with `jacobian` one hole per column.
    """
    strip = walk.strip(*key)
    right = strip.right_environments()
    left = strip.edge()
    present = LogAmplitude(*closure(left, right[0]))
    ratios: dict[tuple[int, ...], Array] = {}
    derivatives: list[Array] = []
    jacobian = jacobian and key[1] == 1
    last = strip.n_cols - 1 if jacobian else max((w.column for w in windows), default=-1)
    for column in range(last + 1):
        present_sites = walk.column((*key, column), {}, None)
        if jacobian:
            hole = strip.hole(left, right[column + 1], column)
            derivatives.append(_log_derivative(hole, present_sites[0]))
        for window in windows:
            if window.column == column:
                table = replacements[window.patch]
                ratios[window.patch] = _window_ratios(
                    walk, strip, window, left, right[column + window.width], present, table
                )
        if column < last:
            left = strip.advance(left, column, present_sites)
    return StripReport(present, ratios, derivatives)


def _log_derivative(hole: Array, site: Array) -> Array:
    """hole / sum(site * hole), so that the sum over the site with its tensor is exactly 1.

    `hole` is (B, up, left, down, right), `site` (B, right, down, up, left); zero where psi is.
    """
    xp = array_namespace(hole)
    batch = hole.shape[0]
    turned = xp.reshape(xp.permute_dims(site, (0, 3, 4, 2, 1)), (batch, 1, -1))
    value = xp.matmul(turned, xp.reshape(hole, (batch, -1, 1)))[:, 0, 0]
    alive = value != 0
    inverse = xp.where(alive, 1 / xp.where(alive, value, xp.ones_like(value)), value)
    return hole * xp.reshape(inverse, (batch, 1, 1, 1, 1))


def _window_ratios(
    walk: Pass,
    strip: Strip,
    window: Window,
    left: Environment,
    right: Environment,
    present: LogAmplitude,
    table: Array,
) -> Array:
    """psi'/psi (B, R) of every replacement of a window, those of all walkers in one batch."""
    xp = array_namespace(left.tensor)
    targets = xp.take(table, local_states(walk.configs, window.patch, walk.local_dim), axis=0)
    flat = xp.reshape(targets, (-1,))
    exists = flat >= 0
    places = xp.nonzero(exists)[0]
    ratios = xp.zeros(flat.shape, dtype=left.tensor.dtype)
    if places.shape[0] == 0:
        return xp.reshape(ratios, targets.shape)
    walkers = places // targets.shape[1]
    spins = local_spins(xp.take(flat, places, axis=0), window.patch, walk.local_dim)
    everyone = targets.shape[1] == 1 and places.shape[0] == flat.shape[0]
    trial = walk.close(strip, window, left, right, spins, None if everyone else walkers)
    before = LogAmplitude(
        xp.take(present.phase, walkers, axis=0), xp.take(present.log_abs, walkers, axis=0)
    )
    ratios[exists] = amplitude_ratio(trial, before)
    return xp.reshape(ratios, targets.shape)


def covered(plan: Plan, key: tuple[int, int]) -> tuple[Window, ...]:
    """The windows of one strip, none if nothing was asked of it."""
    return plan.strips.get(key, ())
