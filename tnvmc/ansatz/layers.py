"""The site tensors of one theta, laid out for every direction of use, and the sketches they imply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.backend.namespace import array_namespace, to_namespace
from tnvmc.contraction.boundary import BoundaryMPS, Row
from tnvmc.contraction.schemes import SRC, Scheme, Sketch, random_sketch

Array = Any

_LAYOUTS = {  # axes of a theta tensor (d, up, left, down, right)
    ("down", "right"): (0, 4, 3, 1, 2),
    ("down", "left"): (0, 2, 3, 1, 4),
    ("up", "right"): (0, 4, 1, 3, 2),
    ("up", "left"): (0, 2, 1, 3, 4),
}


@dataclass(frozen=True)
class Layers:
    """Tables to gather from, for one theta.

    `tables[absorbed, moving][site]` is (d, out, vertical_out, vertical_in, in): "down" rows take
    their upper leg in (windows, and absorption from above), "up" rows their lower leg.  Entries
    are scaled to at most 1; `log_scales[site]` holds the logs that were taken out.
    """

    n_rows: int
    n_cols: int
    tables: dict[tuple[str, str], list[Array]]
    log_scales: list[float]
    sketches: dict[str, list[Sketch | None]]

    @classmethod
    def build(cls, tensors: Sequence[Array], shape: tuple[int, int], scheme: Scheme) -> Layers:
        """Scale and lay out the tensors, and draw the sketches that `scheme` wants.

        Cost: copies of theta, and for `SRC` one pass of absorption each way for one walker.
        """
        xp = array_namespace(*tensors)
        scaled, logs = [], []
        for tensor in tensors:
            size = float(xp.max(xp.abs(tensor)))
            size = size if size > 0 else 1.0
            scaled.append(tensor / size)
            logs.append(float(np.log(size)))
        tables = {
            key: [_contiguous(xp.permute_dims(t, axes)) for t in scaled]
            for key, axes in _LAYOUTS.items()
        }
        layers = cls(*shape, tables, logs, {"down": [None] * shape[0], "up": [None] * shape[0]})
        if scheme.sketch_rank is not None and isinstance(scheme, SRC):
            layers.sketches.update(_sketches(layers, scheme))
        return layers

    def site(self, absorbed: str, moving: str, site: int, spins: Array) -> Array:
        """Gather one site for walkers at `spins` (B,)."""
        table = self.tables[absorbed, moving][site]
        return array_namespace(table).take(table, spins, axis=0)

    def leftward(self, row: int, spins: Array, absorbed: str = "down") -> list[Array]:
        """Gather a row at `spins` (B, N), laid out for transfer to the left."""
        return self._row(absorbed, "left", row, spins)

    def row(self, row: int, spins: Array, absorbed: str) -> Row:
        """Gather a row at `spins` (B, N), ready to be absorbed."""
        return Row(
            self._row(absorbed, "right", row, spins), self._row(absorbed, "left", row, spins)
        )

    def _row(self, absorbed: str, moving: str, row: int, spins: Array) -> list[Array]:
        first = row * self.n_cols
        return [
            self.site(absorbed, moving, site, spins[:, site])
            for site in range(first, first + self.n_cols)
        ]


def _contiguous(array: Array) -> Array:
    xp = array_namespace(array)
    return xp.reshape(xp.reshape(array, (-1,)), array.shape)


def _sketches(layers: Layers, scheme: SRC) -> dict[str, list[Sketch | None]]:
    """Give per row the sketch for absorbing it downward and upward.

    The environment sketch of a row is the boundary of all rows beyond it with every site at a
    random superposition of its local states, itself compressed with random sketches.
    """
    n_rows, n_cols = layers.n_rows, layers.n_cols
    some = layers.tables["down", "right"][0]
    xp = array_namespace(some)
    rng = np.random.default_rng((scheme.seed, 1))
    weights = [
        xp.astype(to_namespace(rng.normal(size=(1, table.shape[0])), xp), some.dtype)
        for table in layers.tables["down", "right"]
    ]

    def blurred(row: int, absorbed: str) -> Row:
        def mix(moving: str) -> list[Array]:
            mixed = []
            for site in range(row * n_cols, (row + 1) * n_cols):
                table = layers.tables[absorbed, moving][site]
                flat = xp.matmul(weights[site], xp.reshape(table, (table.shape[0], -1)))
                mixed.append(xp.reshape(flat, (1, *table.shape[1:])))
            return mixed

        return Row(mix("right"), mix("left"))

    def random(row: int, absorbed: str) -> Sketch:
        sites = layers.tables[absorbed, "right"][row * n_cols : (row + 1) * n_cols]
        key = (scheme.seed, 2, row, absorbed == "up")
        return random_sketch([t.shape[2] for t in sites], scheme.sketch_rank, key, some)

    def ahead(absorbed: str) -> list[Sketch | None]:
        order = range(n_rows) if absorbed == "down" else range(n_rows - 1, -1, -1)
        if scheme.sketch == "random":
            return [random(row, absorbed) for row in range(n_rows)]
        sketches: list[Sketch | None] = [None] * n_rows
        beyond = "up" if absorbed == "down" else "down"
        plain = SRC(scheme.sketch_rank, 0, scheme.seed, "random")
        boundary: BoundaryMPS | None = None
        rows = list(order)
        for row, following in zip(rows[-2::-1], rows[:0:-1], strict=True):
            boundary = plain.absorb(boundary, blurred(following, beyond), random(following, beyond))
            sketches[row] = boundary.bottom_leftward
        return sketches

    return {"down": ahead("down"), "up": ahead("up")}
