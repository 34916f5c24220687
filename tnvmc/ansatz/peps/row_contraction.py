"""Amplitudes, sweeps and measurements of a PEPS by boundaries that follow the spins, row by row.

Which contraction serves which patch: windows of one row or two, of the columns where that is
cheaper, pairs of sites by sources, and full contractions for what fits none.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tnvmc.ansatz.generic import replacement_ratios
from tnvmc.ansatz.metropolis import Chains, MoveCounts, PlainSweep, Proposals, SiteMove, metropolis
from tnvmc.ansatz.peps.fermions import StripVariants, odd_patches
from tnvmc.ansatz.peps.layout import TensorLayout, jacobian_of
from tnvmc.ansatz.peps.pairs import Environments, pair_ratios, pairs_by_source
from tnvmc.ansatz.peps.row_pass import LatestTheta, RowBoundaries, RowPass, Views, strip_engine
from tnvmc.ansatz.peps.strip_engine import StripReport, StripState
from tnvmc.ansatz.peps.windows import Plan, Routes, routes
from tnvmc.ansatz.protocol import Ansatz, LogAmplitude, Snapshot, SweepInfo, Targets, Walkers
from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.schemes import Scheme
from tnvmc.contraction.tensors import BoundaryMPS
from tnvmc.lattice.lattice import Patch

Array = Any


class RowContraction(PlainSweep, TensorLayout, Ansatz):
    """The methods of `Ansatz` for a PEPS; its tensors are those of `TensorLayout`."""

    scheme: Scheme
    _latest: LatestTheta

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) for (B, N): boundaries from both sides, closed at the middle row."""
        views = self._views(theta)
        layers, chosen = views.rows.layers, views.placed(configs)
        middle = layers.n_rows // 2
        above: BoundaryMPS | None = None
        below: BoundaryMPS | None = None
        for row in range(middle):
            above = layers.absorb(above, row, chosen, "down")
        for row in range(layers.n_rows - 1, middle, -1):
            below = layers.absorb(below, row, chosen, "up")
        return layers.with_scale(views.rows.close(StripState(middle, 1, chosen, above, below)))

    def start(self, theta: Array, configs: Array) -> Walkers:
        """Walkers with the boundaries below every row.  Cost: one absorption per row."""
        views = self._views(theta)
        ready = RowBoundaries.made(views, configs, by_columns=False)
        strip = StripState(0, 1, views.placed(configs), None, ready.ahead[0])
        amplitude = views.rows.close(strip)
        return Walkers(configs, views.rows.layers.with_scale(amplitude), ready)

    def tempered_sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array, power: Array | float
    ) -> tuple[Walkers, SweepInfo]:
        """Propose every move once, in the order of a pass, by walkers that sample |psi|^(2 power).

        Moves that fit no strip of two rows or columns come last, by full contractions.  `power` is
        one number, or (B,).

        Raises:
            TypeError: walkers without boundaries, which `start` has not made.
        """
        chosen, _ = self._routes(moves, by_source=False)
        ready, configs, amplitude = _boundaries(walkers), walkers.configs, walkers.amplitude
        counts = MoveCounts(configs.shape[0], self.local_dim, uniforms)
        proposals = Proposals(moves, uniforms, power, counts)
        for by_columns in (ready.by_columns, not ready.by_columns):
            plan = chosen.columns if by_columns else chosen.rows
            if not plan:
                continue
            if ready.by_columns != by_columns:
                ready = RowBoundaries.made(ready.views, configs, by_columns)
            walk = RowPass(ready, configs)
            for strip in walk.strips(plan):
                chains = walk.engine.sample(strip, plan[strip.first, strip.n_rows], proposals)
                walk.configs, walk.closed = chains.configs, chains.amplitude
                closed = chains.amplitude
                if strip.variants:
                    closed = strip.variants.psi(closed, chains.configs)
                amplitude = walk.engine.layers.with_scale(closed)
            ready = walk.boundaries()
            configs = ready.views.embedding.off_grid(walk.configs, by_columns)
        if not chosen.far:
            return Walkers(configs, amplitude, ready), counts.info()
        psi = partial(self.log_amplitude, theta)
        chains = Chains(configs, psi(configs))
        far = [SiteMove(patch, index) for index, patch in chosen.far]
        metropolis(chains, far, proposals, lambda _, trial, __: psi(trial))
        return self.start(theta, chains.configs), counts.info()

    def measure(
        self, theta: Array, walkers: Walkers, replacements: Targets, *, jacobian: bool = True
    ) -> tuple[Walkers, Snapshot]:
        """Ratios, log-derivatives and spread of closures, in a pass over rows, or rows and columns.

        The amplitude is the closure at the middle row; `closure_spread` is the largest minus the
        smallest ln|psi| over the closures of all rows (and columns), which truncation alone sets
        apart.
        """
        chosen, pairs = self._routes(replacements, by_source=True)
        ready, configs = _boundaries(walkers), walkers.configs
        ratios: dict[Patch, Array] = {}
        closures: list[LogAmplitude] = []
        for by_columns in (ready.by_columns, not ready.by_columns):
            if by_columns and not chosen.columns:
                continue
            if ready.by_columns != by_columns:
                ready = RowBoundaries.made(ready.views, configs, by_columns)
            plan = chosen.columns if by_columns else chosen.rows
            if ready.references:  # boundaries below are right up to signs alone
                ready = RowBoundaries.made(ready.views, configs, by_columns)
            walk = RowPass(ready, configs)
            reports = _reports(walk, plan, replacements, jacobian and not by_columns)
            for report in reports.values():
                ratios |= report.ratios
            singles = [reports[row, 1] for row in range(walk.engine.layers.n_rows)]
            closures += [report.amplitude for report in singles]
            if not by_columns:
                rows, begun, ended = singles, ready, walk.boundaries()
            ready = walk.boundaries()
        layers = begun.views.rows.layers
        amplitude = layers.with_scale(rows[len(rows) // 2].amplitude)
        if pairs:
            around = _environments(begun, ended, configs, rows)
            ratios |= self._of_pairs(around, pairs, replacements)
        if chosen.far:
            psi = partial(self.log_amplitude, theta)
            far = {patch: replacements[patch] for _, patch in chosen.far}
            ratios |= replacement_ratios(
                psi, configs, psi(configs), far, self.local_dim, self.execution.chunk
            )
        slices = [slice_ for report in rows for slice_ in report.log_derivatives]
        snapshot = Snapshot(
            configs,
            amplitude,
            {patch: ratios[patch] for patch in replacements},
            jacobian_of(self, slices, layers.log_scales, configs) if jacobian else None,
            closure_spread=_spread(closures),
        )
        return Walkers(configs, amplitude, ready), snapshot

    def _of_pairs(
        self, around: Environments, pairs: dict[Patch, Patch], replacements: Targets
    ) -> dict[Patch, Array]:
        """Ratios of pairs at any distance, by sources; `pairs` are patches by their places."""
        asked = {placed: replacements[patch] for placed, patch in pairs.items()}
        at_once = max(self.execution.chunk, around.configs.shape[0])
        found, n_cols = pair_ratios(around, asked, at_once), self.embedding.shape[1]
        if self.variants:
            found = {
                placed: StripVariants(self.variants, n_cols, placed[1] // n_cols, 1).signed(
                    values, around.configs, placed, asked[placed]
                )
                for placed, values in found.items()
            }
        return {pairs[placed]: values for placed, values in found.items()}

    def _views(self, theta: Array) -> Views:
        """The network, laid out once for all chunks; on a GPU always anew: to compare waits."""
        latest, on_host = self._latest, isinstance(theta, np.ndarray)
        with latest.lock if on_host else nullcontext():
            if on_host and (views := latest.views) and _alike(theta, latest.theta):
                return views
            found, own = self.embedding, theta.copy() if on_host else theta  # others write into it
            tensors = found.filled(self.tensors(own))
            rows = strip_engine(tensors, found.shape, self.scheme, self.rings, self.variants)
            views = Views(tensors, found, self.scheme, rows)
            if on_host:
                latest.theta, latest.views = own, views
            return views

    def _routes(self, targets: Targets, by_source: bool) -> tuple[Routes, dict[Patch, Patch]]:
        """What serves patches; where asked for, apart from those by sources, by their places."""
        apart = odd_patches(targets, self.fermions.odd) if self.fermions else frozenset()
        patches, pairs = tuple(targets), {}
        if by_source:
            pairs = pairs_by_source(patches, self.embedding, self.D, apart)
            patches = tuple(p for p in patches if p not in {*pairs.values()})
        return routes(patches, self.embedding, self.D, apart), pairs


def _alike(theta: np.ndarray, known: np.ndarray | None) -> bool:
    return known is not None and known.dtype == theta.dtype and np.array_equal(theta, known)


def _boundaries(walkers: Walkers) -> RowBoundaries:
    if not isinstance(walkers.cache, RowBoundaries):
        raise TypeError(
            "PEPS: these walkers carry no boundaries; make them with start(theta, configs)"
        )
    return walkers.cache


def _environments(
    begun: RowBoundaries, ended: RowBoundaries, configs: Array, rows: Sequence[StripReport]
) -> Environments:
    """The boundaries on both sides of every row, before and after a pass over the rows."""
    sides = begun.ahead, ended.ahead
    above, below = sides if begun.direction == "up" else sides[::-1]
    return Environments(
        begun.views.rows.layers,
        begun.views.embedding.on_grid(configs),
        above,
        below,
        [report.amplitude for report in rows],
    )


def _reports(
    walk: RowPass, plan: Plan, replacements: Targets, jacobian: bool
) -> dict[tuple[int, int], StripReport]:
    """Measure every row, and the strips of two rows that something was asked of."""
    rows = {(row, 1): () for row in range(walk.engine.layers.n_rows)}
    wanted: Plan = {**rows, **plan}
    reports = {}
    for strip in walk.strips(wanted):
        key = strip.first, strip.n_rows
        with_jacobian = jacobian and strip.n_rows == 1
        report = walk.engine.measure(strip, wanted[key], replacements, with_jacobian)
        if strip.variants:
            signed = {
                window.asked: strip.variants.signed(
                    report.ratios[window.asked], walk.configs, window.patch,
                    replacements[window.asked],
                )
                for window in wanted[key]
            }  # fmt: skip
            report = replace(report, ratios=signed)
        reports[key] = report
        walk.closed = reports[key].amplitude
    return reports


def _spread(amplitudes: Sequence[LogAmplitude]) -> Array:
    """Largest minus smallest of several ln|psi| (B,), 0 where psi vanishes."""
    logs = [amplitude.log_abs for amplitude in amplitudes]
    xp = array_namespace(*logs)
    stacked = xp.stack(logs)
    stacked = xp.where(stacked == -xp.inf, xp.zeros_like(stacked), stacked)
    return xp.max(stacked, axis=0) - xp.min(stacked, axis=0)
