"""Which strip of rows serves which patch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tnvmc.lattice.lattice import Patch

Array = Any


@dataclass(frozen=True)
class Window:
    """A patch that fits into one row or two adjacent ones: it is closed by a walk over its columns."""

    patch: Patch
    index: int  #: place of the patch in the mapping it came from
    row: int
    n_rows: int
    column: int
    width: int


@dataclass(frozen=True)
class Plan:
    """Patches sorted by the strip that serves them; `far` ones fit none and need full contractions."""

    strips: dict[tuple[int, int], tuple[Window, ...]]  #: (first row, number of rows) -> windows
    far: tuple[tuple[int, Patch], ...]


@lru_cache(maxsize=64)
def plan(patches: tuple[Patch, ...], n_cols: int) -> Plan:
    """Sort patches into windows, and far patches.

    Windows are ordered by their last column: a sampler that walks from left to right then finds
    the environment to the right of each window as it was before the walk.
    """
    strips: dict[tuple[int, int], list[Window]] = {}
    far = []
    for index, patch in enumerate(patches):
        rows = [site // n_cols for site in patch]
        columns = [site % n_cols for site in patch]
        n_rows = max(rows) - min(rows) + 1
        if n_rows > 2:
            far.append((index, patch))
            continue
        width = max(columns) - min(columns) + 1
        window = Window(patch, index, min(rows), n_rows, min(columns), width)
        strips.setdefault((window.row, n_rows), []).append(window)
    ordered = {
        key: tuple(sorted(found, key=lambda w: (w.column + w.width, w.column, w.index)))
        for key, found in strips.items()
    }
    return Plan(ordered, tuple(far))


def local_spins(state: Array, patch: Patch, local_dim: int) -> dict[int, Array]:
    """Give the spin (B,) of each site of a patch in local states (B,)."""
    spins = {}
    for site in reversed(patch):
        spins[site] = state % local_dim
        state = state // local_dim
    return spins
