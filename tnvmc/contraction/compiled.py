"""Boundaries and strips as the compiled kernels of the processor take them; see `backend.host`."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tnvmc.backend.namespace import require_states
from tnvmc.contraction.row import NORMALISE_EVERY
from tnvmc.contraction.tensors import (
    BoundaryMPS,
    PackedTensors,
    Shape,
    SiteTables,
    begins_of,
    packed,
)

Array = Any


def as_spins(configs: Array, tables: SiteTables) -> np.ndarray:
    """Configurations (B, N) as kernels take them: int8 (they look at each), contiguous, writeable.

    Raises IndexError and TypeError; see `require_states`.
    """
    spins: np.ndarray = configs
    n_sites, flags = len(tables.shapes), configs.flags
    if configs.dtype != np.int8 or configs.shape[1:] != (n_sites,):
        require_states(configs, n_sites, tables.shapes[0][0])
    elif flags.c_contiguous and flags.writeable:
        return spins  # as in every call of a step: `require` takes longer to tell
    return np.require(configs, np.int8, ["C", "W"])


def absorb_row(
    boundary: BoundaryMPS | None, row: Any, prepared: tuple[Any, Any, Any], chi: int
) -> BoundaryMPS:
    """Absorb a `TableRow` with a sketch by one kernel; `prepared` is of `row_for_kernels`."""
    from tnvmc.backend.host.strips import absorb

    strip, bonds, shapes = prepared
    numbers = np.empty((row.configs.shape[0], begins_of(shapes)[-1]), strip.above.dtype)
    log_scale = strip.log_scale
    absorb(strip, chi, bonds, as_spins(row.configs, row.tables), numbers.ravel(), log_scale)
    if boundary is not None:
        log_scale = log_scale + boundary.log_scale
    return BoundaryMPS(PackedTensors(numbers, shapes), log_scale)


def row_for_kernels(
    boundary: BoundaryMPS | None, row: Any, sketch: Sequence[Array], chi: int
) -> tuple[Any, np.ndarray, tuple[Shape, ...]]:
    """The row as kernels absorb it, and bonds and shapes of the new boundary."""
    from tnvmc.backend.host.strips import Strip

    n_walkers, tables = row.configs.shape[0], row.tables
    above, step, *of_above = _boundary_for_kernels(boundary, row.n_cols, tables, n_walkers)
    below: Any = packed(sketch, 1)
    sites = slice(row.first, row.first + row.n_cols)
    own, begins = tables.shapes[sites], begins_of(tables.shapes)[sites]
    legs, bonds, shapes = _row_plan(own, begins, *of_above, below.shapes, chi)
    strip = Strip(
        legs, row.first, 1, own[0][0], own[0][0], np.zeros(0, np.int8), NORMALISE_EVERY,
        tables.numbers, above, below.numbers.ravel(), (step, 0),
        np.empty(n_walkers, above.real.dtype),
    )  # fmt: skip
    return strip, bonds, shapes


def rings_for_kernels(
    rows: tuple[Any, Any], around: tuple[Any, Any], sketch: Any, chi: int, from_above: bool
) -> Any:
    """Give two adjacent rows, as `backend.host.rings.close_rings` takes them.

    The first of `rows` is absorbed with the sketch, at the other one psi is closed; the latter's
    tensors are those that are absorbed from above.  `around` are the boundaries above and below the
    two; `from_above` is whether the first of the rows is the upper one.
    """
    from tnvmc.backend.host.columns import ABOVE_LEFT, BELOW_LEFT, LEFT, UPPER
    from tnvmc.backend.host.rings import Rings

    (far, near), n_walkers = rows, rows[0].configs.shape[0]
    absorbed, bonds, shapes = row_for_kernels(around[not from_above], far, sketch, chi)
    sites, tables = slice(near.first, near.first + near.n_cols), near.tables
    own, begins = tables.shapes[sites], begins_of(tables.shapes)[sites]
    new = begins_of(shapes), tuple(bonds.tolist())
    old = _boundary_for_kernels(around[from_above], near.n_cols, tables, n_walkers)[2:]
    strip = strip_for_kernels(
        tables, range(*sites.indices(sites.stop)), near.n_cols, around, n_walkers
    )
    legs = _legs((own,), (begins,), *((new, old) if from_above else (old, new)))
    columns = absorbed.legs
    sizes = columns[:, ABOVE_LEFT] * columns[:, UPPER + LEFT] * columns[:, BELOW_LEFT]
    room = (columns[0, UPPER + LEFT] * sizes + 7) // 8 * 8  # see `vectors.lined`
    held = np.empty((n_walkers, int(room.sum())), absorbed.above.dtype)
    return Rings(absorbed, strip._replace(legs=legs), from_above, chi, bonds, held)


def strip_for_kernels(
    tables: SiteTables, sites: range, n_cols: int, around: tuple[Any, Any], n_walkers: int,
    odd: tuple[int, ...] = (),
) -> Any:  # fmt: skip
    """Give rows between two boundaries, as kernels take them.

    `tables` are those of all sites, absorbed from above, `sites` those of one row, or of two,
    `around` the boundary above and below, None at the edge; `odd` are parities of the local states
    of fermions, whose tables hold variants.

    Raises:
        ValueError: boundaries of other walkers, or of another type of numbers.
    """
    from tnvmc.backend.host.strips import Strip

    rows = range(sites.start, sites.stop, n_cols)
    shapes = tuple(tables.shapes[first : first + n_cols] for first in rows)
    begins = tuple(begins_of(tables.shapes)[first : first + n_cols] for first in rows)
    above, below = (_boundary_for_kernels(each, n_cols, tables, n_walkers) for each in around)
    log_scale = np.zeros(n_walkers)
    for boundary in around:
        if boundary is not None:
            log_scale += boundary.log_scale
    n_tensors = shapes[0][0][0]
    return Strip(
        _legs(shapes, begins, above[2:], below[2:]), sites.start, len(rows),
        len(odd) or n_tensors, n_tensors, np.array(odd, np.int8), NORMALISE_EVERY,
        tables.numbers, above[0], below[0], (above[1], below[1]), log_scale,
    )  # fmt: skip


def _boundary_for_kernels(
    boundary: BoundaryMPS | None, n_cols: int, tables: SiteTables, n_walkers: int
) -> tuple[np.ndarray, int, tuple[int, ...], tuple[int, ...]]:
    """Numbers of a boundary, the step from one walker to the next, places of its tensors, bonds.

    At the edge it is a product of ones that all walkers share.
    """
    dtype = tables.numbers.dtype
    if boundary is None:
        return np.ones(n_cols, dtype), 0, tuple(range(n_cols)), (1,) * (n_cols + 1)
    found: Any = boundary.tensors
    if type(found) is not PackedTensors:
        found = packed(found, boundary.log_scale.shape[0])
    if found.numbers.shape[0] != n_walkers or found.numbers.dtype != dtype:
        raise ValueError(
            f"boundaries of {found.numbers.shape[0]} walkers in {found.numbers.dtype}, but there "
            f"are {n_walkers} configurations and tensors in {dtype}; make walkers with "
            "start(theta, configs)"
        )
    shapes, step = found.shapes, found.numbers.shape[1] if n_walkers > 1 else 0
    bonds = *(left for _, left, _ in shapes), shapes[-1][2]
    return found.numbers.ravel(), step, begins_of(shapes), bonds


@lru_cache(maxsize=4096)
def _row_plan(
    own: tuple[Shape, ...], begins: tuple[int, ...], of_above: tuple[int, ...],
    bonds_above: tuple[int, ...], sketch: tuple[Shape, ...], chi: int,
) -> tuple[np.ndarray, np.ndarray, tuple[Shape, ...]]:  # fmt: skip
    """Columns of a row that is absorbed, bonds of its boundary and shapes of its tensors."""
    bonds_below = (*(left for _, _, left in sketch), sketch[-1][1])
    legs = _legs((own,), (begins,), (of_above, bonds_above), (begins_of(sketch), bonds_below))
    bonds, carried = [1], own[0][4]
    for c, (_, right, down, _, _) in enumerate(own[:-1]):
        rows, open_bond = down * bonds[-1], carried * bonds_above[c + 1] * right
        if rows <= min(chi, open_bond):
            bonds.append(rows)
        else:
            bonds.append(min(rows, open_bond if open_bond <= chi else bonds_below[c + 1]))
    bonds.append(1)
    shapes = tuple((site[2], *bonds[c : c + 2]) for c, site in enumerate(own))
    return legs, np.array(bonds, np.int64), shapes


@lru_cache(maxsize=4096)
def _legs(
    shapes: tuple[tuple[Shape, ...], ...], begins: tuple[tuple[int, ...], ...],
    above: tuple[tuple[int, ...], tuple[int, ...]], below: tuple[tuple[int, ...], tuple[int, ...]],
) -> np.ndarray:  # fmt: skip
    """Rows of numbers that describe columns, in the order of `backend.host.columns`."""
    legs = []
    for c in range(len(shapes[0])):
        row = [above[0][c], *above[1][c : c + 2], below[0][c], *below[1][c : c + 2]]
        for of_row, places in zip(shapes, begins, strict=True):
            _, right, down, up, left = of_row[c]
            row += [places[c], up, left, down, right]
        if len(shapes) == 1:
            row += [0, 0, 1, 0, 1]
        legs.append(row)
    return np.array(legs, np.int64)
