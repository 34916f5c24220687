"""Strips that are sampled and measured by compiled kernels of the processor."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate, pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tnvmc.ansatz.generic import CAP, largest_log_ratio
from tnvmc.ansatz.peps.layers import Layers
from tnvmc.ansatz.peps.windows import Window
from tnvmc.ansatz.protocol import MOVE_KINDS, LogAmplitude, Targets
from tnvmc.ansatz.tally import Tally, kind_table
from tnvmc.contraction.compiled import as_spins, compiles, strip
from tnvmc.contraction.packed import Shape, SiteTables

if TYPE_CHECKING:
    from tnvmc.ansatz.peps.passes import Pass

Array = Any


def sample_strip(
    walk: Pass,
    windows: tuple[Window, ...],
    moves: Targets,
    uniforms: Array,
    tally: Tally,
    power: Any,
) -> LogAmplitude | None:
    """Sample a strip, or give None where there is no kernel; see `passes.sample_strip`."""
    if not compiles(walk.layers.tables["down"].numbers):
        return None
    from tnvmc.backend.host.strips import Draws, Sampled, sample

    given = _strip(walk, windows[0].row, windows[0].n_rows)
    configs = as_spins(walk.configs, walk.layers.tables["down"]).copy()
    n_walkers = configs.shape[0]
    phase, log_abs = _amplitude(given.tables.dtype, n_walkers)
    counts = np.zeros((2, n_walkers, len(MOVE_KINDS)))
    powers = np.full(n_walkers, power, np.float64)
    if uniforms.shape[0] != n_walkers or uniforms.shape[1] <= max(w.index for w in windows):
        raise IndexError(
            f"PEPS.sweep: uniforms have shape {uniforms.shape}; {n_walkers} walkers and {len(moves)} "
            f"moves take ({n_walkers}, {len(moves)})"
        )
    draws = Draws(np.require(uniforms, np.float64, ["C", "W"]), powers, CAP)
    result = Sampled(phase, log_abs, *counts)
    sample(given, configs, _moves(windows, moves, walk.local_dim), draws, result)
    walk.configs = configs.astype(walk.configs.dtype, copy=False)
    tally.add_counts(*counts)
    return LogAmplitude(phase, log_abs)


def measure_strip(
    walk: Pass,
    key: tuple[int, int],
    windows: tuple[Window, ...],
    replacements: Targets,
    jacobian: bool,
) -> tuple[LogAmplitude, dict[tuple[int, ...], Array], list[Array]] | None:
    """Amplitude, ratios and log-derivatives of a strip, or None where there is no kernel."""
    tables = walk.layers.tables["down"]
    if not compiles(tables.numbers):
        return None
    given, n_walkers = _strip(walk, *key), walk.configs.shape[0]
    moves = _moves(windows, replacements, walk.local_dim)
    widths = tuple(replacements[window.asked].shape[1] for window in windows)
    sizes, legs = _legs_of(tables.shapes[given.first : given.first + walk.layers.n_cols])
    ratios = np.zeros(n_walkers * sum(widths), given.tables.dtype)
    derivatives = np.empty(n_walkers * sum(sizes) if jacobian else 0, ratios.dtype)
    amplitude = _measured(given, tables, walk.configs, moves, ratios, derivatives)
    by_window = _cut(ratios, n_walkers, widths)
    by_site = []
    if jacobian:
        parts = zip(_cut(derivatives, n_walkers, sizes), legs, strict=True)
        by_site = [part.reshape(n_walkers, *leg) for part, leg in parts]
    found = {window.asked: part for window, part in zip(windows, by_window, strict=True)}
    return amplitude, found, by_site


def close_row(
    layers: Layers, row: int, configs: Array, around: tuple[Any, Any]
) -> LogAmplitude | None:
    """Closure of one row between two boundaries, or None where there is no kernel."""
    tables = layers.tables["down"]
    if not compiles(tables.numbers):
        return None
    given = strip(tables, row * layers.n_cols, 1, layers.n_cols, around, configs.shape[0])
    nothing = np.zeros(0, tables.numbers.dtype)
    return _measured(given, tables, configs, _moves((), {}, layers.local_dim), nothing, nothing)


def _measured(
    given: Any,
    tables: SiteTables,
    configs: Array,
    moves: Any,
    ratios: np.ndarray,
    derivatives: np.ndarray,
) -> LogAmplitude:
    """Amplitudes of a strip; writes ratios and derivatives where there is room for them."""
    from tnvmc.backend.host.strips import Measured, measure

    phase, log_abs = _amplitude(given.tables.dtype, configs.shape[0])
    largest = largest_log_ratio(np, log_abs.dtype)
    # what stands in a window is tried in the configurations themselves, and put back
    spins = as_spins(configs, tables).copy()
    measure(given, spins, moves, Measured(phase, log_abs, ratios, derivatives, largest))
    return LogAmplitude(phase, log_abs)


def _strip(walk: Pass, row: int, n_rows: int) -> Any:
    n_cols, around = walk.layers.n_cols, walk.around(row, n_rows)
    tables = walk.layers.tables["down"]
    return strip(tables, row * n_cols, n_rows, n_cols, around, walk.configs.shape[0])


def _amplitude(dtype: Any, n_walkers: int) -> tuple[np.ndarray, np.ndarray]:
    """Room for phases and for logarithms."""
    phase = np.empty(n_walkers, dtype)
    return phase, np.empty(n_walkers, phase.real.dtype)


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


def _moves(windows: tuple[Window, ...], tables: Targets, local_dim: int) -> Any:
    """Windows and their tables as kernels take them."""
    asked = [np.asarray(tables[window.asked], np.int64) for window in windows]
    return _laid_out(windows, tuple((table.shape, table.tobytes()) for table in asked), local_dim)


@lru_cache(maxsize=1024)  # the same few in every step; told apart by what the tables hold
def _laid_out(
    windows: tuple[Window, ...], tables: tuple[tuple[tuple[int, ...], bytes], ...], local_dim: int
) -> Any:
    from tnvmc.backend.host.strips import N_FIELDS, Moves

    rows, kinds_at = [], {}
    targets_at = kinds_end = ratios_at = 0
    flat = [np.frombuffer(held, np.int64).reshape(shape) for shape, held in tables]
    for window, table in zip(windows, flat, strict=True):
        n_sites = len(window.patch)
        _check_table(window.asked, table, local_dim**n_sites)
        if n_sites not in kinds_at:
            kinds_at[n_sites], kinds_end = kinds_end, kinds_end + table.shape[0] ** 2
        rows.append(
            [window.column, window.column + window.width, window.index, n_sites, targets_at, table.shape[1],
             kinds_at[n_sites], ratios_at]
        )  # fmt: skip
        targets_at, ratios_at = targets_at + table.size, ratios_at + table.shape[1]
    most = max((len(window.patch) for window in windows), default=1)
    sites = [[*window.patch, *[0] * (most - len(window.patch))] for window in windows]
    return Moves(
        np.array(rows, np.int64).reshape(len(windows), N_FIELDS),
        np.array(sites, np.int64).reshape(len(windows), most),
        np.concatenate([table.ravel() for table in flat]) if flat else np.zeros(0, np.int64),
        _kinds(tuple(kinds_at), local_dim),
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


def _kinds(sizes: tuple[int, ...], local_dim: int) -> np.ndarray:
    """Tables of the kinds of changes of patches of these sizes, one after another."""
    tables = [kind_table(n_sites, local_dim).ravel().astype(np.int8) for n_sites in sizes]
    return np.concatenate(tables) if tables else np.zeros(0, np.int8)
