"""Strips that are closed, sampled and measured by compiled kernels of the processor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np

from tnvmc.ansatz.metropolis import CAP, Chains, Proposals, kind_table, largest_log_ratio
from tnvmc.ansatz.peps.strip_engine import Layers, RingStrips, StripReport, StripState
from tnvmc.ansatz.peps.windows import Window
from tnvmc.ansatz.protocol import LogAmplitude, Targets
from tnvmc.backend.host import rings as ring_kernels
from tnvmc.backend.host import strips as kernels
from tnvmc.contraction.compiled import as_spins, rings_for_kernels, strip_for_kernels
from tnvmc.contraction.tensors import Shape

Array = Any


@dataclass(frozen=True)
class CompiledStrips:
    """Strips by kernels, one walker after another; see `strip_engine.StripEngine`."""

    layers: Layers

    def close(self, strip: StripState) -> LogAmplitude:
        """See `StripEngine`."""
        return self.measure(strip, (), {}, jacobian=False).amplitude

    def sample(self, strip: StripState, windows: Sequence[Window], proposals: Proposals) -> Chains:
        """See `StripEngine`.

        Raises:
            IndexError: uniform numbers or tables of another shape; a spin that is no local state.
        """
        moves, uniforms = proposals.moves, proposals.uniforms
        given, configs, laid_out = self._prepared(strip, windows, moves)
        n_walkers, counts = strip.configs.shape[0], proposals.counts
        amplitude = _room(n_walkers, given.tables.dtype)
        powers = np.full(n_walkers, proposals.power, np.float64)
        if uniforms.shape[0] != n_walkers or uniforms.shape[1] <= max(w.index for w in windows):
            raise IndexError(
                f"PEPS.sweep: uniforms have shape {uniforms.shape}; {n_walkers} walkers and "
                f"{len(moves)} moves take ({n_walkers}, {len(moves)})"
            )
        draws = kernels.Draws(np.require(uniforms, np.float64, ["C", "W"]), powers, CAP)
        result = kernels.Sampled(amplitude.phase, amplitude.log_abs, counts.possible, counts.moved)
        kernels.sample(given, configs, laid_out, draws, result)
        configs = configs % given.local_dim if self.layers.variants else configs
        return Chains(configs.astype(strip.configs.dtype, copy=False), amplitude)

    def measure(
        self, strip: StripState, windows: Sequence[Window], replacements: Targets, jacobian: bool
    ) -> StripReport:
        """See `StripEngine`.

        Raises:
            IndexError: tables of another shape; a spin that is no local state.
        """
        layers, n_walkers = self.layers, strip.configs.shape[0]
        # what stands in a window is tried in the configurations themselves, and put back
        given, spins, laid_out = self._prepared(strip, windows, replacements)
        widths = tuple(replacements[window.asked].shape[1] for window in windows)
        shapes = layers.tables["down"].shapes
        sizes, legs = _legs_of(shapes[given.first : given.first + layers.n_cols])
        amplitude = _room(n_walkers, given.tables.dtype)
        ratios = np.zeros(n_walkers * sum(widths), given.tables.dtype)
        derivatives = np.empty(n_walkers * sum(sizes) if jacobian else 0, ratios.dtype)
        result = kernels.Measured(
            amplitude.phase, amplitude.log_abs, ratios, derivatives,
            largest_log_ratio(np, amplitude.log_abs.dtype),
        )  # fmt: skip
        kernels.measure(given, spins, laid_out, result)
        by_window = _cut(ratios, n_walkers, widths)
        by_site = _cut(derivatives, n_walkers, sizes) if jacobian else []
        return StripReport(
            amplitude,
            {window.asked: part for window, part in zip(windows, by_window, strict=True)},
            [part.reshape(n_walkers, *leg) for part, leg in zip(by_site, legs, strict=False)],
        )

    def _prepared(
        self, strip: StripState, windows: Sequence[Window], moves: Targets
    ) -> tuple[Any, np.ndarray, Any]:
        """Strip, a copy of its spins, and windows with their tables, as kernels take them."""
        n_cols, around = self.layers.n_cols, (strip.above, strip.below)
        places = range(strip.first * n_cols, (strip.first + strip.n_rows) * n_cols)
        tables, n_walkers = self.layers.tables["down"], strip.configs.shape[0]
        odd = self.layers.variants.odd if self.layers.variants else ()
        given = strip_for_kernels(tables, places, n_cols, around, n_walkers, odd)
        spins = as_spins(strip.chosen(strip.configs), tables).copy()
        asked = [np.asarray(moves[window.asked], np.int64) for window in windows]
        held = tuple((table.shape, table.tobytes()) for table in asked)
        return given, spins, _laid_out(tuple(windows), held, given.local_dim)


@dataclass(frozen=True)
class CompiledRings(RingStrips):
    """`RingStrips` by kernels, where rows are absorbed with sketches.

    What is right of the columns that change is contracted once for all moves of a strip.
    """

    chi: int

    def _closer(self, strip: StripState) -> Callable[[Window, Array, Array | None], LogAmplitude]:
        layers, configs, down = self.layers, strip.configs, strip.way == "down"
        tables, everyone, first = layers.tables["down"], np.arange(len(configs)), strip.first
        far, near = (first, first + 1) if down else (first + 1, first)
        around = strip.above, strip.below
        given = layers.row(far, configs, strip.way), layers.row(near, configs, "down")
        rings = rings_for_kernels(given, around, layers.sketches[strip.way][far], self.chi, down)
        ring_kernels.hold(rings, as_spins(configs, tables))

        def close(window: Window, trial: Array, walkers: Array | None) -> LogAmplitude:
            found = _room(len(trial), tables.numbers.dtype)
            owners, out = everyone if walkers is None else walkers, (found.phase, found.log_abs)
            end = window.column + window.width
            ring_kernels.close_rings(rings, as_spins(trial, tables), owners, end, *out)
            return found

        return close


def _room(n_walkers: int, dtype: Any) -> LogAmplitude:
    """Room for phases and for logarithms."""
    phase = np.empty(n_walkers, dtype)
    return LogAmplitude(phase, np.empty(n_walkers, phase.real.dtype))


def _cut(numbers: np.ndarray, n_walkers: int, widths: tuple[int, ...]) -> list[np.ndarray]:
    """Arrays (B, width) that lie one after another."""
    ends = [n_walkers * end for end in accumulate(widths, initial=0)]
    parts = zip(pairwise(ends), widths, strict=True)
    return [numbers[a:b].reshape(n_walkers, width) for (a, b), width in parts]


@lru_cache(maxsize=1024)
def _legs_of(sites: tuple[Shape, ...]) -> tuple[tuple[int, ...], tuple[Shape, ...]]:
    """Sizes and shapes (up, left, down, right) of the tensors of sites at one local state."""
    legs = tuple((up, left, down, right) for _, right, down, up, left in sites)
    return tuple(map(prod, legs)), legs


@lru_cache(maxsize=1024)  # the same few in every step; told apart by what the tables hold
def _laid_out(
    windows: tuple[Window, ...], tables: tuple[tuple[tuple[int, ...], bytes], ...], local_dim: int
) -> Any:
    rows, kinds_at = [], {}
    targets_at = kinds_end = ratios_at = 0
    flat = [np.frombuffer(held, np.int64).reshape(shape) for shape, held in tables]
    for window, table in zip(windows, flat, strict=True):
        n_sites = len(window.patch)
        _check_table(window.asked, table, local_dim**n_sites)
        if n_sites not in kinds_at:
            kinds_at[n_sites], kinds_end = kinds_end, kinds_end + table.shape[0] ** 2
        end, n_choices = window.column + window.width, table.shape[1]
        rows.append(
            [window.column, end, window.index, n_sites, targets_at, n_choices, kinds_at[n_sites],
             ratios_at]
        )  # fmt: skip
        targets_at, ratios_at = targets_at + table.size, ratios_at + n_choices
    most = max((len(window.patch) for window in windows), default=1)
    sites = [[*window.patch, *[0] * (most - len(window.patch))] for window in windows]
    kinds = [kind_table(n_sites, local_dim).ravel().astype(np.int8) for n_sites in kinds_at]
    return kernels.Moves(
        np.array(rows, np.int64).reshape(len(windows), kernels.N_FIELDS),
        np.array(sites, np.int64).reshape(len(windows), most),
        np.concatenate([table.ravel() for table in flat] or [np.zeros(0, np.int64)]),
        np.concatenate(kinds or [np.zeros(0, np.int8)]),
    )


def _check_table(patch: tuple[int, ...], table: np.ndarray, n_states: int) -> None:
    """Kernels read tables without looking where they end."""
    if table.shape[:1] != (n_states,) or table.ndim != 2 or table.shape[1] == 0:
        raise IndexError(
            f"the table of sites {patch} has shape {table.shape}; it takes a row for each of their "
            f"{n_states} states, and a column at least"
        )
    if table.max() >= n_states:
        raise IndexError(
            f"the table of sites {patch} names state {table.max()}, but they have {n_states}"
        )
