"""Which strip of which view serves which patch."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tnvmc.lattice.embedding import Embedding
from tnvmc.lattice.lattice import Patch

Array = Any

_D_OF_COLUMNS = 4


@dataclass(frozen=True)
class Window:
    """A patch that fits into one row or two adjacent ones: it is closed by a walk over its columns.

    Rows, columns and the places of `patch` are those of the view that serves it; `asked` are the
    sites.
    """

    asked: Patch
    patch: Patch
    index: int  #: place of the patch in the mapping it came from
    row: int
    n_rows: int
    column: int
    width: int


Plan = dict[tuple[int, int], tuple[Window, ...]]
"""Windows by strip (first row, number of rows)."""


@dataclass(frozen=True)
class Routes:
    """Patches by the view that serves them; `far` ones need full contractions."""

    rows: Plan
    columns: Plan
    far: tuple[tuple[int, Patch], ...]


@lru_cache(maxsize=64)
def routes(
    patches: tuple[Patch, ...], found: Embedding, D: int, apart: frozenset[Patch] = frozenset()
) -> Routes:
    """Sort patches of sites into windows of the rows, windows of the columns, and far ones.

    Those that are to be `apart` are far ones.  Rows alone serve everything that fits into two of
    them.  Where every patch lies in one row or in one column, both views take turns from D = 4 on:
    two more absorptions of the whole network, but no strip of two rows, which costs D times as much
    as one (10x10 at D = 8, chi = 16: a third of the time; at D = 4 as much).  No view of the
    columns where `Embedding.by_rows`.
    """
    numbered, n_cols = [pair for pair in enumerate(patches) if pair[1] not in apart], found.shape[1]
    placed = [found.placed(patch) for _, patch in numbered]
    others = tuple(pair for pair in enumerate(patches) if pair[1] in apart)
    shared = [len({place // n_cols for place in patch}) > 1 for patch in placed]
    upright = [len({place % n_cols for place in patch}) == 1 for patch in placed]
    by_columns = [a and b for a, b in zip(shared, upright, strict=True)]
    if not found.by_rows and D >= _D_OF_COLUMNS and by_columns == shared and any(shared):
        rows = [pair for pair, turned in zip(numbered, by_columns, strict=True) if not turned]
        columns = [pair for pair, turned in zip(numbered, by_columns, strict=True) if turned]
        return Routes(_plan(rows, found, False)[0], _plan(columns, found, True)[0], others)
    plan, far = _plan(numbered, found, False)
    return Routes(plan, {}, far + others)


def turned(patch: Patch, shape: tuple[int, int]) -> Patch:
    """The same places, in the same order, where columns are counted as rows."""
    n_rows, n_cols = shape
    return tuple(site % n_cols * n_rows + site // n_cols for site in patch)


def _plan(
    numbered: Iterable[tuple[int, Patch]], found: Embedding, by_columns: bool
) -> tuple[Plan, tuple[tuple[int, Patch], ...]]:
    """Windows of one view, and the patches that do not fit it.

    Windows are ordered by their last column: a sampler that walks from left to right then finds
    the environment to the right of each window as it was before the walk.
    """
    strips: dict[tuple[int, int], list[Window]] = {}
    far = []
    n_cols = found.shape[0] if by_columns else found.shape[1]
    for index, asked in numbered:
        patch = found.placed(asked)
        patch = turned(patch, found.shape) if by_columns else patch
        rows = [site // n_cols for site in patch]
        columns = [site % n_cols for site in patch]
        n_rows = max(rows) - min(rows) + 1
        if n_rows > 2:
            far.append((index, asked))
            continue
        width = max(columns) - min(columns) + 1
        window = Window(asked, patch, index, min(rows), n_rows, min(columns), width)
        strips.setdefault((window.row, n_rows), []).append(window)
    return {
        key: tuple(sorted(inside, key=lambda w: (w.column + w.width, w.column, w.index)))
        for key, inside in strips.items()
    }, tuple(far)
