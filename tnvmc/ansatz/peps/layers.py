"""The site tensors of one theta, laid out for every direction of use, and the sketches they imply."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.packed import PackedTensors, SiteTables, TableRow
from tnvmc.contraction.row import BoundaryMPS
from tnvmc.contraction.schemes import SRC, Scheme
from tnvmc.contraction.sketches import Sketch, joined_sketches, random_sketch

Array = Any

_MAX_JOINED = 8
"""Most boundaries that are joined into one sketch near the edge."""

_LAYOUTS = {  # axes of a theta tensor (d, up, left, down, right)
    ("down", "right"): (0, 4, 3, 1, 2),
    ("down", "left"): (0, 2, 3, 1, 4),
    ("up", "right"): (0, 4, 1, 3, 2),
    ("up", "left"): (0, 2, 1, 3, 4),
}


@dataclass(frozen=True)
class Layers:
    """Tables to gather from, for one theta.

    `tables["down"]` are those of rows that take their upper leg in (windows, and absorption from
    above), `tables["up"]` of rows that take their lower leg.  Entries are scaled to at most 1;
    `log_scales[site]` holds the logs that were taken out.
    """

    n_rows: int
    n_cols: int
    tables: dict[str, SiteTables]
    log_scales: list[float]
    sketches: dict[str, list[Sketch | None]]

    @property
    def local_dim(self) -> int:
        """Local dimension d."""
        return int(self.tables["down"].shapes[0][0])

    @classmethod
    def build(cls, tensors: Sequence[Array], shape: tuple[int, int], scheme: Scheme) -> Layers:
        """Scale and lay out the tensors, and draw the sketches that `scheme` wants.

        Cost: copies of theta, and for `SRC` one pass of absorption each way for one walker.

        Raises:
            ValueError: NaN or infinity in a tensor.
        """
        xp = array_namespace(*tensors)
        scaled, logs = [], []
        for site, tensor in enumerate(tensors):
            size = float(xp.max(xp.abs(tensor)))
            if not math.isfinite(size):
                raise ValueError(
                    f"PEPS: theta holds numbers that are not finite, in the tensor of site {site} first. "
                    "They come from an overflow or a division by 0 where theta was made"
                )
            size = size if size > 0 else 1.0
            scaled.append(tensor / size)
            logs.append(float(np.log(size)))
        tables = {
            absorbed: SiteTables.build(
                *([xp.permute_dims(t, _LAYOUTS[absorbed, moving]) for t in scaled]
                  for moving in ("right", "left"))
            )
            for absorbed in ("down", "up")
        }  # fmt: skip
        layers = cls(*shape, tables, logs, {"down": [None] * shape[0], "up": [None] * shape[0]})
        if scheme.sketch_rank is not None and isinstance(scheme, SRC):
            layers.sketches.update(_sketches(layers, scheme))
        return layers

    def site(self, absorbed: str, moving: str, site: int, spins: Array) -> Array:
        """Gather one site for walkers at `spins` (B,)."""
        return self.tables[absorbed].at(moving, site, spins)

    def leftward(self, row: int, configs: Array) -> list[Array]:
        """Gather a row at `configs` (B, N), laid out for transfer to the left."""
        return self.row(row, configs, "down").leftward

    def row(self, row: int, configs: Array, absorbed: str) -> TableRow:
        """A row at `configs` (B, N), ready to be absorbed."""
        return TableRow(self.tables[absorbed], row * self.n_cols, self.n_cols, configs)


def _sketches(layers: Layers, scheme: SRC) -> dict[str, list[Sketch | None]]:
    """Give per row the sketch for absorbing it downward and upward.

    The environment sketch of a row is the boundary of all rows beyond it with every site at a
    random superposition of its local states, itself compressed with random sketches.  Near the
    edge such a boundary is narrower than the rank that is wanted, so several are joined there.
    """
    rows = range(layers.n_rows)
    if scheme.sketch == "random":
        return {
            absorbed: [_packed(_random_row(layers, scheme, row, absorbed)) for row in rows]
            for absorbed in ("down", "up")
        }
    sketches: dict[str, list[Sketch | None]] = {}
    for absorbed, beyond in (("down", "up"), ("up", "down")):
        inward = list(rows) if absorbed == "up" else list(reversed(rows))  # from the far edge
        parts: dict[int, list[Sketch]] = {row: [] for row in inward[1:]}
        depth = len(inward) - 1
        for draw in range(_MAX_JOINED):
            boundaries = _blurred_boundaries(layers, scheme, inward[:depth], beyond, draw)
            for row, boundary in zip(inward[1:], boundaries, strict=False):
                parts[row].append(boundary.bottom_leftward)
            narrow = [k for k in range(depth) if _width(parts[inward[k + 1]]) < scheme.sketch_rank]
            depth = max(narrow, default=-1) + 1
            if not depth:
                break
        sketches[absorbed] = [
            _packed(joined_sketches(parts[row], scheme.sketch_rank)) if parts.get(row) else None
            for row in rows
        ]
    return sketches


def _packed(sketch: Sketch) -> Sketch:
    """The same, side by side in memory as kernels read it, in NumPy; each row of a step takes it again."""
    return PackedTensors.of(sketch, 1) if isinstance(sketch[0], np.ndarray) else sketch


def _width(parts: list[Sketch]) -> int:
    """Widest bond of the sketches side by side."""
    return sum(max(tensor.shape[3] for tensor in part) for part in parts)


def _random_row(layers: Layers, scheme: SRC, row: int, absorbed: str, draw: int = 0) -> Sketch:
    tables, first = layers.tables[absorbed], row * layers.n_cols
    shapes = tables.shapes[first : first + layers.n_cols]
    key = (scheme.seed, 2, row, absorbed == "up", draw)
    verticals = [shape[2] for shape in shapes]
    return random_sketch(verticals, scheme.sketch_bond(max(verticals)), key, tables.numbers)


def _blurred_boundaries(
    layers: Layers, scheme: SRC, rows: list[int], absorbed: str, draw: int
) -> list[BoundaryMPS]:
    """Boundaries after each of `rows`, with every site at a random superposition of its states."""
    rng = np.random.default_rng((scheme.seed, 1, absorbed == "up", draw))
    plain = SRC(scheme.chi, scheme.seed, "random")
    tables, n_cols = layers.tables[absorbed], layers.n_cols
    xp = array_namespace(tables.numbers)
    only_state = xp.zeros((1, n_cols), dtype=xp.int8)
    boundary: BoundaryMPS | None = None
    found = []
    for row in rows:
        weights = rng.normal(size=(n_cols, layers.local_dim))
        sketch = _random_row(layers, scheme, row, absorbed, draw)
        blurred = TableRow(tables.superposed(row * n_cols, weights), 0, n_cols, only_state)
        boundary = plain.absorb(boundary, blurred, sketch)
        found.append(boundary)
    return found
