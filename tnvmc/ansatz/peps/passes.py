"""Passes over the rows of a PEPS: each uses the boundaries of the last one and makes those of the next.

A pass going down finds the boundary MPS below every row ready (`ahead`) and builds those above on
its way (`behind`); these are `ahead` for the next pass, which goes up.  So every row is absorbed
once a pass, and no boundary is ever older than the configuration it belongs to.  At each row a pass visits
the strip of that row and then the strip of that row and the next, and then absorbs the row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tnvmc.ansatz.generic import acceptance, amplitude_ratio, local_states
from tnvmc.ansatz.peps import compiled
from tnvmc.ansatz.peps.layers import Layers
from tnvmc.ansatz.peps.views import Views
from tnvmc.ansatz.peps.windows import Window, local_spins
from tnvmc.ansatz.protocol import LogAmplitude, Targets
from tnvmc.ansatz.tally import Tally, propose
from tnvmc.backend.namespace import array_namespace, is_numpy
from tnvmc.contraction.row import BoundaryMPS, Environment, Strip, closure
from tnvmc.contraction.schemes import Scheme

Array = Any


@dataclass(frozen=True)
class RowBoundaries:
    """What a pass begins with: its view and direction, and the boundary MPS ahead of each row."""

    views: Views
    by_columns: bool
    direction: str  #: "down" or "up": the way the coming pass absorbs rows
    ahead: tuple[BoundaryMPS | None, ...]  #: per row, on the far side of it

    @property
    def layers(self) -> Layers:
        """Site tensors of the view."""
        return self.views.layers(self.by_columns)


def absorb_all(
    views: Views, configs: Array, by_columns: bool, absorbed: str = "up"
) -> RowBoundaries:
    """Absorb every row of a view in one direction, at fixed configurations (B, N).

    Gives what a pass in the other direction begins with.  Cost: one absorption per row.
    """
    layers, scheme = views.layers(by_columns), views.scheme
    configs = views.seen(configs, by_columns)
    n_rows = layers.n_rows
    behind: list[BoundaryMPS | None] = [None] * n_rows
    order = list(range(n_rows)) if absorbed == "down" else list(range(n_rows - 1, -1, -1))
    for row, following in itertools.pairwise(order):
        behind[following] = absorb(layers, scheme, behind[row], row, configs, absorbed)
    return RowBoundaries(views, by_columns, "up" if absorbed == "down" else "down", tuple(behind))


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


def close_row(
    layers: Layers, row: int, configs: Array, around: tuple[BoundaryMPS | None, BoundaryMPS | None]
) -> LogAmplitude:
    """psi of configurations (B, N): one row between the boundaries above and below it."""
    found = compiled.close_row(layers, row, configs, around)
    if found is not None:
        return found
    above, below = around
    strip = Strip(above, [layers.leftward(row, configs)], below)
    return LogAmplitude(*closure(strip.edge(), strip.right_environments()[0]))


class Pass:
    """One pass over the rows of a view; `configs`, in its order, follow the spins as they change."""

    def __init__(self, ready: RowBoundaries, configs: Array, local_dim: int) -> None:
        self._begun = ready
        self.layers, self.scheme, self.local_dim = ready.layers, ready.views.scheme, local_dim
        self.direction, self.configs = ready.direction, ready.views.seen(configs, ready.by_columns)
        self._ahead = ready.ahead
        self._behind: list[BoundaryMPS | None] = [None] * self.layers.n_rows

    def rows(self) -> Iterator[int]:
        """Yield the rows in order, absorbing each one after it was visited."""
        n_rows = self.layers.n_rows
        down = self.direction == "down"
        order = list(range(n_rows)) if down else list(range(n_rows - 1, -1, -1))
        for place, row in enumerate(order):
            yield row
            if place < n_rows - 1:
                self._behind[order[place + 1]] = absorb(
                    self.layers, self.scheme, self._behind[row], row, self.configs, self.direction
                )

    def boundaries(self) -> RowBoundaries:
        """What the next pass, in the other direction, begins with; after the last row."""
        other = "up" if self.direction == "down" else "down"
        return replace(self._begun, direction=other, ahead=tuple(self._behind))

    def sites(self) -> Array:
        """The present configurations (B, N) in the order of the sites."""
        return self._begun.views.unseen(self.configs, self._begun.by_columns)

    def first_rows(self, row: int) -> tuple[tuple[int, int], ...]:
        """Strips (first row, number of rows) to visit at `row`: itself, and itself with the next."""
        partner = row if self.direction == "down" else row - 1
        inside = 0 <= partner and partner + 1 < self.layers.n_rows
        return ((row, 1), (partner, 2)) if inside else ((row, 1),)

    def around(self, first: int, n_rows: int) -> tuple[BoundaryMPS | None, BoundaryMPS | None]:
        """The boundaries above and below the strip of `n_rows` rows from `first`."""
        last = first + n_rows - 1
        if self.direction == "down":
            return self._behind[first], self._ahead[last]
        return self._ahead[first], self._behind[last]

    def strip(self, first: int, n_rows: int) -> Strip:
        """The strip of `n_rows` rows from `first` at the present configurations."""
        last = first + n_rows - 1
        above, below = self.around(first, n_rows)
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
    walk: Pass,
    windows: tuple[Window, ...],
    moves: Targets,
    uniforms: Array,
    tally: Tally,
    power: Array | float = 1.0,
) -> LogAmplitude:
    """Try the moves of one strip from left to right, by walkers that sample |psi|^(2 power).

    Changes `walk.configs` and `tally`, and gives the last closure.
    Cost per walker: two transfers per column, and one per column of each possible move.
    """
    sampled = compiled.sample_strip(walk, windows, moves, uniforms, tally, power)
    if sampled is not None:
        return sampled
    xp = array_namespace(uniforms)
    key = windows[0].row, windows[0].n_rows
    strip = walk.strip(*key)
    right = strip.right_environments()
    lefts = [strip.edge()]
    present = LogAmplitude(*closure(lefts[0], right[0]))
    for window in windows:
        while len(lefts) <= window.column:
            sites = walk.column((*key, len(lefts) - 1), {}, None)
            lefts.append(strip.advance(lefts[-1], len(lefts) - 1, sites))
        left, right_of = lefts[window.column], right[window.column + window.width]
        states = local_states(walk.configs, window.patch, walk.local_dim)
        target, remainder = propose(moves[window.asked], states, uniforms[:, window.index])
        possible = target >= 0
        target = xp.where(possible, target, states)
        movers = movable(possible)
        if movers is not None and movers.shape[0] == 0:
            continue
        spins = local_spins(target, window.patch, walk.local_dim)
        trial = walk.close(strip, window, left, right_of, _chosen(spins, movers), movers)
        trial = scattered(trial, movers, present)
        moved = possible & (remainder < acceptance(trial, present, power))
        walk.configs = _with_spins(walk.configs, spins, moved)
        present = LogAmplitude(
            xp.where(moved, trial.phase, present.phase),
            xp.where(moved, trial.log_abs, present.log_abs),
        )
        del lefts[window.column + 1 :]  # they hold the spins from before
        tally.add(len(window.patch), states, target, possible, moved)
    return present


def movable(possible: Array) -> Array | None:
    """Places of the walkers that can move, None for all of them.

    On a GPU always all: to find them would stop the device, and to gather their environments
    costs as much as to close them.
    """
    xp = array_namespace(possible)
    if not is_numpy(xp):
        return None
    movers = xp.nonzero(possible)[0]
    return None if movers.shape[0] == possible.shape[0] else movers


def _chosen(spins: dict[int, Array], walkers: Array | None) -> dict[int, Array]:
    if walkers is None:
        return spins
    return {site: array_namespace(s).take(s, walkers, axis=0) for site, s in spins.items()}


def scattered(some: LogAmplitude, walkers: Array | None, others: LogAmplitude) -> LogAmplitude:
    """Amplitudes (B,): `some` for the selected walkers, those of `others` for the rest."""
    if walkers is None:
        return some
    xp = array_namespace(walkers)
    phase, log_abs = (xp.asarray(x, copy=True) for x in (others.phase, others.log_abs))
    phase[walkers], log_abs[walkers] = some.phase, some.log_abs
    return LogAmplitude(phase, log_abs)


def _with_spins(configs: Array, spins: dict[int, Array], moved: Array) -> Array:
    """Configurations (B, N) after the moves."""
    xp = array_namespace(configs)
    changed = xp.asarray(configs, copy=True)
    for site, values in spins.items():
        changed[:, site] = xp.where(moved, xp.astype(values, configs.dtype), configs[:, site])
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
    one-row strip with `jacobian` one environment tensor per column.
    """
    measured = compiled.measure_strip(walk, key, windows, replacements, jacobian and key[1] == 1)
    if measured is not None:
        return StripReport(*measured)
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
            environment = strip.site_environment(left, right[column + 1], column)
            derivatives.append(log_derivative(environment, _as_in_theta(present_sites[0])))
        for window in windows:
            if window.column == column:
                table = replacements[window.asked]
                sides = left, right[column + window.width]
                close = partial(_close_window, walk, strip, window, sides)
                states = local_states(walk.configs, window.patch, walk.local_dim)
                ratios[window.asked] = window_ratios(close, states, present, table)
        if column < last:
            left = strip.advance(left, column, present_sites)
    return StripReport(present, ratios, derivatives)


def _as_in_theta(site: Array) -> Array:
    """(B, right, down, up, left) as (B, up, left, down, right)."""
    return array_namespace(site).permute_dims(site, (0, 3, 4, 2, 1))


def log_derivative(environment: Array, site: Array) -> Array:
    """environment / sum(site * environment), whose sum with the site tensor is exactly 1.

    Both are (B, up, left, down, right); zero where psi is.
    """
    xp = array_namespace(environment)
    batch = environment.shape[0]
    turned = xp.reshape(site, (batch, 1, -1))
    value = xp.matmul(turned, xp.reshape(environment, (batch, -1, 1)))[:, 0, 0]
    alive = value != 0
    inverse = xp.where(alive, 1 / xp.where(alive, value, xp.ones_like(value)), value)
    return environment * xp.reshape(inverse, (batch, 1, 1, 1, 1))


def _close_window(
    walk: Pass,
    strip: Strip,
    window: Window,
    sides: tuple[Environment, Environment],
    states: Array,
    walkers: Array | None,
) -> LogAmplitude:
    spins = local_spins(states, window.patch, walk.local_dim)
    return walk.close(strip, window, *sides, spins, walkers)


def window_ratios(
    close: Callable[[Array, Array | None], LogAmplitude],
    states: Array,
    present: LogAmplitude,
    table: Array,
) -> Array:
    """psi'/psi (B, R) of every replacement of a patch, those of all walkers in one batch.

    Args:
        close: psi with the patch at local states (b,), of walkers at places (b,), None for all in order.
        states: (B,) the present local states.
        present: psi, closed as the replaced ones are.
        table: (d^k, R) what may replace them, filled up with -1.
    """
    xp = array_namespace(states)
    targets = xp.take(table, states, axis=0)
    flat = xp.reshape(targets, (-1,))
    exists = flat >= 0
    n_walkers, n_choices = targets.shape
    places = movable(exists)
    if places is None:
        places = xp.arange(flat.shape[0])
        flat = xp.where(exists, flat, xp.take(states, places // n_choices, axis=0))
        walkers = None if n_choices == 1 else places // n_choices
    else:
        walkers = places // n_choices
        flat = xp.take(flat, places, axis=0)
    ratios = xp.zeros((n_walkers * n_choices,), dtype=present.phase.dtype)
    if places.shape[0] == 0:
        return xp.reshape(ratios, targets.shape)
    found = amplitude_ratio(close(flat, walkers), present.take(walkers))
    if places.shape[0] == exists.shape[0]:
        ratios = xp.where(exists, found, ratios)
    else:
        ratios[places] = found
    return xp.reshape(ratios, targets.shape)
