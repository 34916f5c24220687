"""The site tensors of one theta, laid out for every direction of use, and their sketches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.packed import SiteTables, TableRow
from tnvmc.contraction.row import BoundaryMPS, Sketch
from tnvmc.contraction.schemes import SRC, Scheme
from tnvmc.contraction.sketches import sketches_of

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

    `tables["down"]` are those of rows that take their upper leg in (windows, and absorption from
    above), `tables["up"]` of rows that take their lower leg.  Entries are scaled to at most 1;
    `log_scales[site]` holds the logs that were taken out.
    """

    n_rows: int
    n_cols: int
    tables: dict[str, SiteTables]
    log_scales: list[float]
    scheme: Scheme
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
                    f"PEPS: theta holds numbers that are not finite, in the tensor of site {site} "
                    "first. They come from an overflow or a division by 0 where theta was made"
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
        nothing: list[Sketch | None] = [None] * shape[0]
        sketches = {"down": nothing, "up": nothing}
        if isinstance(scheme, SRC):
            sketches = sketches_of(tables, shape, scheme)
        return cls(*shape, tables, logs, scheme, sketches)

    def site(self, absorbed: str, moving: str, site: int, spins: Array) -> Array:
        """Gather one site for walkers at `spins` (B,)."""
        return self.tables[absorbed].at(moving, site, spins)

    def row(self, row: int, configs: Array, absorbed: str) -> TableRow:
        """A row at `configs` (B, N), ready to be absorbed."""
        return TableRow(self.tables[absorbed], row * self.n_cols, self.n_cols, configs)

    def absorb(
        self, boundary: BoundaryMPS | None, row: int, configs: Array, direction: str
    ) -> BoundaryMPS:
        """Absorb one row at `configs` (B, N), "down" or "up", into the boundary before it."""
        sketch = self.sketches[direction][row]
        return self.scheme.absorb(boundary, self.row(row, configs, direction), sketch)

    def with_scale(self, amplitude: LogAmplitude) -> LogAmplitude:
        """psi with the scales of the tensors put back."""
        return LogAmplitude(amplitude.phase, amplitude.log_abs + sum(self.log_scales))
