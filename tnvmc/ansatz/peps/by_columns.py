"""A PEPS contracted by projectors that theta alone fixes: psi is one function of s; see `contraction.fixed`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tnvmc.ansatz.peps import column_walks
from tnvmc.ansatz.peps.columns import Columns
from tnvmc.ansatz.peps.halves import Halves
from tnvmc.ansatz.peps.layout import TensorLayout, jacobian_of, on_grid
from tnvmc.ansatz.peps.views import LatestViews, turned, turned_configs, turned_places
from tnvmc.ansatz.peps.windows import Window, by_last_column
from tnvmc.ansatz.protocol import LogAmplitude, Snapshot, SweepInfo, Targets, Walkers
from tnvmc.contraction.fixed import Fixed

Array = Any


@dataclass(frozen=True, eq=False)
class ByColumns:
    """A PEPS, contracted column by column; the methods are those of `Ansatz`.

    A grid that is higher than wide is taken with rows and columns exchanged: a bond of a half of n rows is cut where
    D^n is above chi.
    """

    layout: TensorLayout
    scheme: Fixed
    latest: LatestViews

    @property
    def turned(self) -> bool:
        """Whether rows and columns are exchanged; a ring stays a row."""
        n_rows, n_cols = self.layout.filling.shape
        return n_cols < n_rows and not self.layout.rings

    def halves(self, theta: Array) -> Halves:
        """Lay out the tensors of theta (P,), with projectors."""
        tensors, shape = on_grid(self.layout, theta), self.layout.filling.shape
        if self.turned:
            tensors, shape = turned(tensors, shape), shape[::-1]
        return Halves.build(tensors, shape, self.scheme)

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) for (B, N)."""
        return self.start(theta, configs).amplitude

    def start(self, theta: Array, configs: Array) -> Walkers:
        """Walkers with what is absorbed in their columns.  Cost: that of absorbing all sites."""

        halves = self.latest.of(theta, self.halves)
        on_places = self.layout.filling.configs(configs)
        if self.turned:
            on_places = turned_configs(on_places, self.layout.filling.shape)
        columns = Columns.at(halves, on_places)
        return Walkers(configs, columns.amplitude(), columns)

    def sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array, power: Array | float
    ) -> tuple[Walkers, SweepInfo]:
        """Propose every move once, from left to right; see `Abilities.tempered_sweep`."""
        windows, columns = self._windows(moves), self._columns(walkers)
        after, amplitude, info = column_walks.sweep(columns, windows, moves, (uniforms, power))
        configs = after.configs
        if self.turned:
            configs = turned_configs(configs, after.halves.shape)
        return Walkers(self.layout.filling.off(configs), amplitude, after), info

    def measure(
        self, theta: Array, walkers: Walkers, replacements: Targets, jacobian: bool
    ) -> tuple[Walkers, Snapshot]:
        """Ratios, and log-derivatives at fixed projectors.

        All closures of a configuration are the same number: there is no spread of them to report.
        """
        columns, windows = self._columns(walkers), self._windows(replacements)
        ratios = column_walks.ratios(columns, windows, replacements)
        snapshot = Snapshot(
            walkers.configs, walkers.amplitude, {patch: ratios[patch] for patch in replacements}
        )
        if jacobian:
            holes, scales = column_walks.log_derivatives(columns), columns.halves.log_scales
            if self.turned:
                shape = columns.halves.shape
                holes, scales = turned(holes, shape), turned_places(scales, shape)
            derivatives = jacobian_of(self.layout, holes, scales, walkers.configs)
            snapshot = replace(snapshot, jacobian=derivatives)
        return walkers, snapshot

    def _windows(self, targets: Targets) -> tuple[Window, ...]:
        return by_last_column(tuple(targets), self.layout.embedding, self.turned)

    @staticmethod
    def _columns(walkers: Walkers) -> Columns:
        if not isinstance(walkers.cache, Columns):
            raise TypeError(
                "PEPS: these walkers carry no columns; make them with start(theta, configs)"
            )
        return walkers.cache
