"""Strips of a PEPS and the tensors laid out for them: the interface, and the array library.

A strip is one row, or two adjacent ones, between the boundary MPS above and below.  Compiled
kernels have the same interface (`compiled_strips`) and give the same numbers to rounding.
`row_pass.Views` chooses one of the two where the tensors of a theta are laid out.  How a row is
absorbed is up to the scheme, for both of them: `Layers.absorb`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from tnvmc.ansatz.metropolis import (
    Chains,
    Proposals,
    amplitude_ratio,
    local_states,
    metropolis,
    movable,
    replaced,
)
from tnvmc.ansatz.peps.fermions import StripVariants, Variants
from tnvmc.ansatz.peps.windows import Window
from tnvmc.ansatz.protocol import LogAmplitude, Targets
from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.row import Environment, Strip, closure
from tnvmc.contraction.schemes import Scheme
from tnvmc.contraction.tensors import BoundaryMPS, SiteTables, Sketch, TableRow
from tnvmc.lattice.lattice import Patch

Array = Any
Ratios = dict[tuple[int, ...], Array]


@dataclass(frozen=True)
class Layers:
    """The tensors of one theta, scaled and laid out as tables to gather from.

    `tables["down"]` are those of rows that take their upper leg in (windows, and absorption from
    above), `tables["up"]` of rows that take their lower leg.  Entries are scaled to at most 1;
    `log_scales[site]` holds the logs that were taken out.
    """

    n_rows: int
    n_cols: int
    tables: dict[str, SiteTables]
    log_scales: list[float]
    scheme: Scheme
    sketches: dict[str, list[Sketch | None]]
    variants: Variants | None = None  #: that the tables of fermions hold

    @property
    def local_dim(self) -> int:
        """Local dimension d."""
        n_tensors = int(self.tables["down"].shapes[0][0])
        return len(self.variants.odd) if self.variants else n_tensors

    @classmethod
    def build(cls, tensors: Sequence[Array], shape: tuple[int, int], scheme: Scheme) -> "Layers":
        """Scale and lay out the tensors; without sketches.  Cost: copies of theta.

        Raises:
            ValueError: NaN or infinity in a tensor.
        """
        xp = array_namespace(*tensors)
        scaled, logs = [], []
        for site, tensor in enumerate(tensors):
            size = float(xp.max(xp.abs(tensor)))
            if not math.isfinite(size):
                raise ValueError(
                    f"PEPS: theta holds numbers that are not finite, in the tensor of site {site} "
                    "first. They come from an overflow or a division by 0 where theta was made"
                )
            size = size if size > 0 else 1.0
            scaled.append(tensor / size)
            logs.append(float(np.log(size)))
        tables = {absorbed: SiteTables.build(scaled, absorbed) for absorbed in ("down", "up")}
        nothing: list[Sketch | None] = [None] * shape[0]
        return cls(*shape, tables, logs, scheme, {"down": nothing, "up": nothing})

    def site(self, absorbed: str, moving: str, site: int, spins: Array) -> Array:
        """Gather one site for walkers at `spins` (B,)."""
        return self.tables[absorbed].at(moving, site, spins)

    def row(self, row: int, configs: Array, absorbed: str) -> TableRow:
        """A row at `configs` (B, N), ready to be absorbed."""
        return TableRow(self.tables[absorbed], row * self.n_cols, self.n_cols, configs)

    def absorb(
        self, boundary: BoundaryMPS | None, row: int, configs: Array, direction: str
    ) -> BoundaryMPS:
        """Absorb one row at `configs` (B, N), "down" or "up", into the boundary before it."""
        sketch = self.sketches[direction][row]
        return self.scheme.absorb(boundary, self.row(row, configs, direction), sketch)

    def with_scale(self, amplitude: LogAmplitude) -> LogAmplitude:
        """psi with the scales of the tensors put back."""
        return LogAmplitude(amplitude.phase, amplitude.log_abs + sum(self.log_scales))


@dataclass(frozen=True)
class StripState:
    """A strip at the spins of B walkers."""

    first: int  #: its upper row
    n_rows: int  #: 1 or 2
    configs: Array  #: (B, places) of the whole network
    above: BoundaryMPS | None
    below: BoundaryMPS | None
    way: str = "down"  #: of two rows, which one may be absorbed: the upper one "down", or "up"
    closed: LogAmplitude | None = None  #: psi (B,), closed at the other row, where it is known
    variants: StripVariants | None = None  #: of fermions

    def chosen(self, configs: Array, walkers: Array | None = None) -> Array:
        """Which tensor of its table each place of the strip has, at configurations (n, places)."""
        return configs if self.variants is None else self.variants.at(configs, walkers)


@dataclass(frozen=True)
class StripReport:
    """What measuring one strip yields."""

    amplitude: LogAmplitude
    ratios: Ratios
    log_derivatives: list[Array]  #: per column (B, up, left, down, right); empty if not asked for


class StripEngine(Protocol):
    """What contracts the strips of one theta."""

    @property
    def layers(self) -> Layers:
        """The site tensors."""

    def close(self, strip: StripState) -> LogAmplitude:
        """Give psi (B,), closed at the strip."""

    def sample(self, strip: StripState, windows: Sequence[Window], proposals: Proposals) -> Chains:
        """Try the moves of a strip from left to right, in the order of its windows.

        Cost per walker: two transfers per column, and one per column of each possible move.
        """

    def measure(
        self, strip: StripState, windows: Sequence[Window], replacements: Targets, jacobian: bool
    ) -> StripReport:
        """Close a strip at all replacements of its windows, and with `jacobian` open each site.

        Log-derivatives are those of strips of one row.  Cost per walker: two transfers per column,
        one more per column of each replacement, and one environment tensor per column with
        `jacobian`.
        """


@dataclass(frozen=True)
class ArrayStrips:
    """Strips by the array library of the tensors, all walkers at once."""

    layers: Layers

    def close(self, strip: StripState) -> LogAmplitude:
        """See `StripEngine`."""
        network = self._network(strip)
        return LogAmplitude(*closure(network.edge(), network.right_environments()[0]))

    def sample(self, strip: StripState, windows: Sequence[Window], proposals: Proposals) -> Chains:
        """See `StripEngine`."""
        network = self._network(strip)
        right, lefts = network.right_environments(), [network.edge()]
        chains = Chains(strip.configs, LogAmplitude(*closure(lefts[0], right[0])))
        visited = 0

        def close(window: Window, trial: Array, walkers: Array | None) -> LogAmplitude:
            nonlocal visited
            del lefts[visited + 1 :]  # they hold the spins from before the last move
            visited = window.column
            while len(lefts) <= window.column:
                column = len(lefts) - 1
                sites = self._sites(strip, column, strip.chosen(chains.configs))
                lefts.append(network.advance(lefts[-1], column, sites))
            sides = lefts[window.column], right[window.column + window.width]
            return self._closed(strip, network, window, sides, trial, walkers)

        metropolis(chains, windows, proposals, close)
        return chains

    def measure(
        self, strip: StripState, windows: Sequence[Window], replacements: Targets, jacobian: bool
    ) -> StripReport:
        """See `StripEngine`."""
        network = self._network(strip)
        right, left = network.right_environments(), network.edge()
        report = StripReport(LogAmplitude(*closure(left, right[0])), {}, [])
        every_column, chosen = network.n_cols - 1 if jacobian else -1, strip.chosen(strip.configs)
        last = max([every_column, *(window.column for window in windows)])
        for column in range(last + 1):
            sites = self._sites(strip, column, chosen)
            if jacobian:
                environment = network.site_environment(left, right[column + 1], column)
                report.log_derivatives.append(_log_derivative(environment, sites[0]))
            for window in windows:
                if window.column == column:
                    sides = left, right[column + window.width]
                    close = partial(self._closed, strip, network, window, sides)
                    report.ratios[window.asked] = window_ratios(
                        close, strip.configs, window.patch, report.amplitude,
                        replacements[window.asked], self.layers.local_dim,
                    )  # fmt: skip
            if column < last:
                left = network.advance(left, column, sites)
        return report

    def _network(self, strip: StripState) -> Strip:
        rows, chosen = range(strip.first, strip.first + strip.n_rows), strip.chosen(strip.configs)
        sites = [self.layers.row(row, chosen, "down").leftward for row in rows]
        return Strip(strip.above, sites, strip.below)

    def _sites(self, strip: StripState, column: int, configs: Array) -> list[Array]:
        """Sites of one column at what is chosen (n, places), rightward."""
        layers, rows = self.layers, range(strip.first, strip.first + strip.n_rows)
        places = [row * layers.n_cols + column for row in rows]
        return [layers.site("down", "right", place, configs[:, place]) for place in places]

    def _closed(
        self, strip: StripState, network: Strip, window: Window,
        sides: tuple[Environment, Environment], trial: Array, walkers: Array | None,
    ) -> LogAmplitude:  # fmt: skip
        """Close a window at configurations (n, places) of the walkers (n,), None for all."""
        left, right = sides if walkers is None else (side.take(walkers) for side in sides)
        trial = strip.chosen(trial, walkers)
        for column in range(window.column, window.column + window.width):
            sites = self._sites(strip, column, trial)
            left = network.advance(left, column, sites, walkers)
        return LogAmplitude(*closure(left, right))


@dataclass(frozen=True)
class RingStrips:
    """Strips whose rows are rings: two rows are closed by absorbing one of them anew.

    An environment of two rows would have D^2 times the size of one row's.  The row that the pass
    comes to next is absorbed, or the one at the edge: psi before the moves is that of the other
    row's own strip.  Cost per walker: one row absorbed and one closed for each possible move.
    """

    engine: StripEngine  #: of single rows

    @property
    def layers(self) -> Layers:
        """See `StripEngine`."""
        return self.engine.layers

    def close(self, strip: StripState) -> LogAmplitude:
        """See `StripEngine`."""
        return self.engine.close(strip)

    def sample(self, strip: StripState, windows: Sequence[Window], proposals: Proposals) -> Chains:
        """See `StripEngine`."""
        if strip.n_rows == 1:
            return self.engine.sample(strip, windows, proposals)
        chains = Chains(strip.configs, strip.closed or self._two_rows(strip, strip.configs))
        metropolis(chains, windows, proposals, self._closer(strip))
        return chains

    def measure(
        self, strip: StripState, windows: Sequence[Window], replacements: Targets, jacobian: bool
    ) -> StripReport:
        """See `StripEngine`."""
        if strip.n_rows == 1:
            return self.engine.measure(strip, windows, replacements, jacobian)
        present, close = strip.closed or self._two_rows(strip, strip.configs), self._closer(strip)
        ratios = {
            window.asked: window_ratios(
                partial(close, window), strip.configs, window.patch, present,
                replacements[window.asked], self.layers.local_dim,
            )
            for window in windows
        }  # fmt: skip
        return StripReport(present, ratios, [])

    def _closer(self, strip: StripState) -> Callable[[Window, Array, Array | None], LogAmplitude]:
        """psi of configurations (n, places) of walkers (n,), changed in a window of the strip."""
        return lambda _, trial, walkers: self._two_rows(strip, trial, walkers)

    def _two_rows(
        self, strip: StripState, configs: Array, walkers: Array | None = None
    ) -> LogAmplitude:
        """psi of configurations (n, places) of the selected walkers, changed in the two rows."""
        above, below = (side and side.take(walkers) for side in (strip.above, strip.below))
        upper, lower = strip.first, strip.first + 1
        if strip.way == "down":
            above = self.layers.absorb(above, upper, configs, "down")
            return self.engine.close(StripState(lower, 1, configs, above, below))
        below = self.layers.absorb(below, lower, configs, "up")
        return self.engine.close(StripState(upper, 1, configs, above, below))


def window_ratios(
    close: Callable[[Array, Array | None], LogAmplitude], configs: Array, patch: Patch,
    present: LogAmplitude, table: Array, local_dim: int,
) -> Array:  # fmt: skip
    """Give psi'/psi (B, R) of every replacement of a patch, those of all walkers in one batch.

    Args:
        close: psi of configurations (n, places), of walkers at places (n,), None for all in order.
        configs: (B, places) the present ones.
        patch: places that are replaced.
        present: psi (B,), closed as the replaced ones are.
        table: (d^k, R) what may replace them, filled up with -1.
        local_dim: d.
    """
    xp = array_namespace(configs)
    states = local_states(configs, patch, local_dim)
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
    theirs = configs if walkers is None else xp.take(configs, walkers, axis=0)
    changed = replaced(theirs, patch, flat, local_dim)
    found = amplitude_ratio(close(changed, walkers), present.take(walkers))
    if places.shape[0] == exists.shape[0]:
        ratios = xp.where(exists, found, ratios)
    else:
        ratios[places] = found
    return xp.reshape(ratios, targets.shape)


def _log_derivative(environment: Array, site: Array) -> Array:
    """environment / sum(site * environment), whose sum with the site tensor is exactly 1.

    Both are (B, up, left, down, right), but `site` (B, right, down, up, left); zero where psi is.
    """
    xp, batch = array_namespace(environment), environment.shape[0]
    turned = xp.reshape(xp.permute_dims(site, (0, 3, 4, 2, 1)), (batch, 1, -1))
    value = xp.matmul(turned, xp.reshape(environment, (batch, -1, 1)))[:, 0, 0]
    alive = value != 0
    inverse = xp.where(alive, 1 / xp.where(alive, value, xp.ones_like(value)), value)
    return environment * xp.reshape(inverse, (batch, 1, 1, 1, 1))
