"""Amplitudes, sweeps and measurements of a PEPS by boundaries that follow the spins, row by row.

Which contraction serves which patch: windows of one row or two, of the columns where that is cheaper, pairs of
sites by sources, and full contractions for what fits none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tnvmc.ansatz.generic import acceptance, local_states, replaced, replacement_ratios
from tnvmc.ansatz.peps.layers import Layers
from tnvmc.ansatz.peps.layout import TensorLayout, jacobian_of, on_grid
from tnvmc.ansatz.peps.pairs import Environments, pair_ratios, pairs_by_source
from tnvmc.ansatz.peps.passes import (
    Pass,
    RowBoundaries,
    StripReport,
    absorb,
    absorb_all,
    close_row,
    measure_strip,
    sample_strip,
)
from tnvmc.ansatz.peps.rings import measure_two_rows, sample_two_rows
from tnvmc.ansatz.peps.views import LatestViews, Views
from tnvmc.ansatz.peps.windows import Plan, Routes, routes
from tnvmc.ansatz.protocol import LogAmplitude, Snapshot, SweepInfo, Targets, Walkers
from tnvmc.ansatz.tally import Tally, propose
from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.schemes import Scheme
from tnvmc.lattice.lattice import Patch

Array = Any


@dataclass(frozen=True, eq=False)
class ByRows:
    """A PEPS, contracted row by row; the methods are those of `Ansatz`."""

    layout: TensorLayout
    scheme: Scheme
    latest: LatestViews
    chunk: int  #: configurations at a time in full contractions

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) for (B, N): boundaries from both sides, closed at the middle row."""
        views = self._views(theta)
        layers, configs = views.layers(by_columns=False), views.seen(configs, by_columns=False)
        down = self._half(layers, configs, "down")
        up = self._half(layers, configs, "up")
        middle = self.layout.lattice.shape[0] // 2
        return self._with_scale(layers, close_row(layers, middle, configs, (down, up)))

    def _half(self, layers: Layers, configs: Array, absorbed: str) -> Any:

        middle, n_rows = self.layout.lattice.shape[0] // 2, self.layout.lattice.shape[0]
        rows = range(middle) if absorbed == "down" else range(n_rows - 1, middle, -1)
        boundary = None
        for row in rows:
            boundary = absorb(layers, self.scheme, boundary, row, configs, absorbed)
        return boundary

    def start(self, theta: Array, configs: Array) -> Walkers:
        """Walkers with the boundaries below every row.  Cost: one absorption per row."""
        views = self._views(theta)
        ready = absorb_all(views, configs, by_columns=False)
        seen = views.seen(configs, by_columns=False)
        amplitude = close_row(views.rows, 0, seen, (None, ready.ahead[0]))
        return Walkers(configs, self._with_scale(views.rows, amplitude), ready)

    def sweep(
        self,
        theta: Array,
        walkers: Walkers,
        moves: Targets,
        uniforms: Array,
        power: Array | float,
    ) -> tuple[Walkers, SweepInfo]:
        """Propose every move once, in the order of a pass, by walkers that sample |psi|^(2 power).

        Moves that fit no strip of two rows or columns come last, by full contractions.  `power` is
        one number, or (B,); see `Ansatz.sweep` for the other arguments.

        Raises:
            TypeError: walkers without boundaries, which `start` has not made.
        """
        chosen = self._routes(moves)
        ready, configs, amplitude = self._boundaries(walkers), walkers.configs, walkers.amplitude
        tally = Tally(configs.shape[0], self.layout.local_dim, uniforms)
        for by_columns in (ready.by_columns, not ready.by_columns):
            plan = chosen.columns if by_columns else chosen.rows
            if not plan:
                continue
            if ready.by_columns != by_columns:
                ready = absorb_all(ready.views, configs, by_columns)
            walk = Pass(ready, configs, self.layout.local_dim)
            for row in walk.rows():
                for key in walk.first_rows(row):
                    if key in plan:
                        sample = (
                            sample_two_rows if self.layout.rings and key[1] == 2 else sample_strip
                        )
                        last = sample(walk, plan[key], moves, uniforms, tally, power)
                        amplitude = self._with_scale(ready.layers, last)
            ready, configs = walk.boundaries(), walk.sites()
        swept = Walkers(configs, amplitude, ready)
        if chosen.far:
            swept = self._sweep_far(theta, swept, moves, uniforms, tally, power)
        return swept, tally.info()

    def measure(
        self, theta: Array, walkers: Walkers, replacements: Targets, jacobian: bool
    ) -> tuple[Walkers, Snapshot]:
        """Ratios, log-derivatives and the spread of closures, in one pass.

        The amplitude is the closure at the middle row; `closure_spread` is the largest minus the
        smallest ln|psi| over the closures of all rows, which truncation alone sets apart.
        """
        pairs = self._pairs(replacements)
        by_source = frozenset(pairs.values())
        chosen = self._routes({p: t for p, t in replacements.items() if p not in by_source})
        ready = self._boundaries(walkers)
        ratios: dict[Patch, Array] = {}
        logs = []
        for by_columns in (ready.by_columns, not ready.by_columns):
            if by_columns and not chosen.columns:
                continue
            if ready.by_columns != by_columns:
                ready = absorb_all(ready.views, walkers.configs, by_columns)
            walk = Pass(ready, walkers.configs, self.layout.local_dim)
            plan = chosen.columns if by_columns else chosen.rows
            reports = self._reports(walk, plan, replacements, jacobian and not by_columns)
            for report in reports.values():
                ratios |= report.ratios
            logs += [report.amplitude.log_abs for (_, n), report in reports.items() if n == 1]
            if not by_columns:
                singles = [reports[row, 1] for row in range(self.layout.lattice.shape[0])]
                begun, ended = ready, walk.boundaries()
            ready = walk.boundaries()
        amplitude = self._with_scale(begun.layers, singles[len(singles) // 2].amplitude)
        if pairs:
            sides = begun.ahead, ended.ahead
            above, below = sides if begun.direction == "up" else sides[::-1]
            around = Environments(
                begun.layers, self.scheme, begun.views.seen(walkers.configs, False), above, below,
                [report.amplitude for report in singles],
            )  # fmt: skip
            asked = {placed: replacements[patch] for placed, patch in pairs.items()}
            at_a_time = max(self.chunk, walkers.configs.shape[0])
            found = pair_ratios(around, asked, at_a_time)
            ratios |= {pairs[placed]: values for placed, values in found.items()}
        if chosen.far:
            far = {patch: replacements[patch] for _, patch in chosen.far}
            exact = self.log_amplitude(theta, walkers.configs)
            ratios |= replacement_ratios(
                lambda configs: self.log_amplitude(theta, configs),
                walkers.configs, exact, far, self.layout.local_dim, self.chunk,
            )  # fmt: skip
        slices = [slice_ for report in singles for slice_ in report.log_derivatives]
        snapshot = Snapshot(
            walkers.configs,
            amplitude,
            {patch: ratios[patch] for patch in replacements},
            jacobian_of(self.layout, slices, begun.layers.log_scales, walkers.configs)
            if jacobian
            else None,
            closure_spread=_spread(logs),
        )
        return Walkers(walkers.configs, amplitude, ready), snapshot

    def _views(self, theta: Array) -> Views:
        def make(theta: Array) -> Views:
            return Views(on_grid(self.layout, theta), self.layout.filling, self.scheme)

        return self.latest.of(theta, make)

    def _routes(self, targets: Targets) -> Routes:
        return routes(tuple(targets), self.layout.embedding, self.layout.D)

    def _pairs(self, replacements: Targets) -> dict[Patch, Patch]:
        """Patches that are served by sources, by their places."""
        placed = {self.layout.embedding.placed(patch): patch for patch in replacements}
        chosen = pairs_by_source(
            tuple(placed), self.layout.lattice.shape[1], self.layout.D, self.layout.rings
        )
        return {places: placed[places] for places in chosen}

    def _reports(
        self, walk: Pass, plan: Plan, replacements: Targets, jacobian: bool
    ) -> dict[tuple[int, int], StripReport]:
        """Measure every row, and the strips of two rows that something was asked of."""
        return {
            key: measure_two_rows(walk, key, plan[key], replacements)
            if self.layout.rings and key[1] == 2
            else measure_strip(walk, key, plan.get(key, ()), replacements, jacobian)
            for row in walk.rows()
            for key in walk.first_rows(row)
            if key[1] == 1 or key in plan
        }

    @staticmethod
    def _boundaries(walkers: Walkers) -> RowBoundaries:
        if not isinstance(walkers.cache, RowBoundaries):
            raise TypeError(
                "PEPS: these walkers carry no boundaries; make them with start(theta, configs)"
            )
        return walkers.cache

    @staticmethod
    def _with_scale(layers: Layers, amplitude: LogAmplitude) -> LogAmplitude:
        return LogAmplitude(amplitude.phase, amplitude.log_abs + sum(layers.log_scales))

    def _sweep_far(
        self,
        theta: Array,
        walkers: Walkers,
        moves: Targets,
        uniforms: Array,
        tally: Tally,
        power: Array | float,
    ) -> Walkers:
        """Try the moves that fit no window with full contractions, then rebuild the boundaries."""
        xp = array_namespace(uniforms)
        configs = walkers.configs
        present = self.log_amplitude(theta, configs)
        for index, patch in self._routes(moves).far:
            states = local_states(configs, patch, self.layout.local_dim)
            target, remainder = propose(moves[patch], states, uniforms[:, index])
            possible = target >= 0
            target = xp.where(possible, target, states)
            trial_configs = replaced(configs, patch, target, self.layout.local_dim)
            trial = self.log_amplitude(theta, trial_configs)
            moved = possible & (remainder < acceptance(trial, present, power))
            configs = xp.where(moved[:, None], trial_configs, configs)
            present = LogAmplitude(
                xp.where(moved, trial.phase, present.phase),
                xp.where(moved, trial.log_abs, present.log_abs),
            )
            tally.add(len(patch), states, target, possible, moved)
        return self.start(theta, configs)


def _spread(logs: list[Array]) -> Array:
    """Largest minus smallest of several ln|psi| (B,), 0 where psi vanishes."""
    xp = array_namespace(*logs)
    stacked = xp.stack(logs)
    stacked = xp.where(xp.isfinite(stacked), stacked, xp.zeros_like(stacked))
    return xp.max(stacked, axis=0) - xp.min(stacked, axis=0)
