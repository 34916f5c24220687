"""A PEPS contracted by projectors that theta alone fixes: psi is one function of s; see `contraction.fixed`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tnvmc.ansatz.peps import column_walks
from tnvmc.ansatz.peps.columns import Columns
from tnvmc.ansatz.peps.halves import Halves
from tnvmc.ansatz.peps.layout import TensorLayout, jacobian_of, on_grid
from tnvmc.ansatz.peps.views import LatestViews
from tnvmc.ansatz.peps.windows import Window, by_last_column
from tnvmc.ansatz.protocol import LogAmplitude, Snapshot, SweepInfo, Targets, Walkers
from tnvmc.contraction.fixed import Fixed

Array = Any


@dataclass(frozen=True, eq=False)
class ByColumns:
    """A PEPS, contracted column by column; the methods are those of `Ansatz`."""

    layout: TensorLayout
    scheme: Fixed
    latest: LatestViews

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) for (B, N)."""
        return self.start(theta, configs).amplitude

    def start(self, theta: Array, configs: Array) -> Walkers:
        """Walkers with what is absorbed in their columns.  Cost: that of absorbing all sites."""

        def make(theta: Array) -> Halves:
            return Halves.build(on_grid(self.layout, theta), self.layout.lattice.shape, self.scheme)

        halves = self.latest.of(theta, make)
        columns = Columns.at(halves, self.layout.filling.configs(configs))
        return Walkers(configs, columns.amplitude(), columns)

    def sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array, power: Array | float
    ) -> tuple[Walkers, SweepInfo]:
        """Propose every move once, from left to right; see `Tempered.tempered_sweep`."""
        windows, columns = self._windows(moves), self._columns(walkers)
        after, amplitude, info = column_walks.sweep(columns, windows, moves, (uniforms, power))
        return Walkers(self.layout.filling.off(after.configs), amplitude, after), info

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
            derivatives = jacobian_of(self.layout, holes, scales, walkers.configs)
            snapshot = replace(snapshot, jacobian=derivatives)
        return walkers, snapshot

    def _windows(self, targets: Targets) -> tuple[Window, ...]:
        return by_last_column(tuple(targets), self.layout.embedding)

    @staticmethod
    def _columns(walkers: Walkers) -> Columns:
        if not isinstance(walkers.cache, Columns):
            raise TypeError(
                "PEPS: these walkers carry no columns; make them with start(theta, configs)"
            )
        return walkers.cache
