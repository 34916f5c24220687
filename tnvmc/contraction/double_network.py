"""The double layer of a PEPS as one layer with fused legs, for a batch of rotations about z.

Ket and bra legs of a site are one leg of size D^2, the ket's first, so that the rows, boundaries
and strips of `row.py` and `schemes.py` serve it.  The batch axis holds rotations of the ket
about z: element b is <psi| ... R_b |psi> with R_b = prod_j factors[b, s_j].
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tnvmc.contraction.double_boundary import Grid, scaled
from tnvmc.contraction.double_terms import Column, Source, Unit
from tnvmc.contraction.row import BoundaryMPS, Row, Strip
from tnvmc.contraction.schemes import SRC
from tnvmc.contraction.sketches import random_sketch

Array = Any

_AXES = {  # of a fused tensor (B, up, left, down, right)
    ("down", "right"): (0, 4, 3, 1, 2),
    ("down", "left"): (0, 2, 3, 1, 4),
    ("up", "right"): (0, 4, 1, 3, 2),
    ("up", "left"): (0, 2, 1, 3, 4),
}


class DoubleNetwork:
    """<psi| R_b |psi> for a grid of tensors (d, up, left, down, right) and B rotations.

    Tensors are scaled to largest entry 1: all values are those of the scaled state.

    Args:
        grid: the tensors by row and column.
        factors: (B, d) what a rotation multiplies the local states of the ket with.
        chi: largest bond of the boundaries.
        seed: of the sketches.
    """

    def __init__(self, grid: Grid, factors: Array, chi: int, seed: int = 0) -> None:
        self.grid = [[scaled(tensor)[0] for tensor in row] for row in grid]
        self.factors, self.chi, self.seed = factors, chi, seed
        self.n_rows, self.n_cols = len(grid), len(grid[0])

    def repeated(self, n: int) -> DoubleNetwork:
        """The same with the rotations n times over, in the order (copy, rotation)."""
        return DoubleNetwork(self.grid, np.tile(self.factors, (n, 1)), self.chi, self.seed)

    def site(self, place: tuple[int, int], layout: tuple[str, str], unit: Unit | None) -> Array:
        """Give a site with |t><s| between bra and ket, or with the local states summed over.

        Args:
            place: row and column.
            layout: what is absorbed, "down" or "up", and where it goes, "right" or "left".
            unit: (t, s), or None.

        Returns:
            (B, out, vertical out, vertical in, in), each leg ket and bra.
        """
        tensor = self.grid[place[0]][place[1]]
        d, legs, batch = len(tensor), tensor.shape[1:], len(self.factors)
        bras = tensor.conj().reshape(d, -1)
        if unit is None:
            kets = self.factors[:, :, None] * tensor.reshape(1, d, -1)
            both = np.matmul(kets.swapaxes(1, 2), bras)
        else:
            kets = self.factors[:, unit[1], None] * tensor[unit[1]].reshape(1, -1)
            both = kets[:, :, None] * bras[unit[0]]
        both = both.reshape(batch, *legs, *legs).transpose(0, 1, 5, 2, 6, 3, 7, 4, 8)
        both = both.reshape(batch, *(leg * leg for leg in legs))
        return np.ascontiguousarray(both.transpose(_AXES[layout]))

    def column(self, first: int, c: int, going: str, units: Column) -> list[Array]:
        """Give the sites of one column of the rows from `first` on, with units in them."""
        return [self.site((first + k, c), ("down", going), unit) for k, unit in enumerate(units)]

    def row(self, r: int, absorbed: str, sources: Sequence[Source] = ()) -> Row:
        """Give a row to be absorbed; with `sources` once for each of them: batch (n B)."""

        def sites(going: str) -> list[Array]:
            found = []
            for c in range(self.n_cols):
                plain = self.site((r, c), (absorbed, going), None)
                mixed = [
                    self.site((r, c), (absorbed, going), unit) if at == c else plain
                    for at, unit in sources
                ]
                found.append(np.concatenate(mixed) if mixed else plain)
            return found

        return Row(sites("right"), sites("left"))

    def absorbed(self, boundary: BoundaryMPS | None, row: Row, r: int, way: str) -> BoundaryMPS:
        """Give the boundary that contains a row too, its bonds cut to chi."""
        legs = [site.shape[2] for site in row.rightward]
        sketch = random_sketch(legs, self.chi, (self.seed, r, way == "up"), row.rightward[0])
        return SRC(self.chi, sketch="random").absorb(boundary, row, sketch)

    def boundaries(self, way: str) -> list[BoundaryMPS | None]:
        """Give per row the boundary of all rows before it: above it ("down") or below it ("up")."""
        found: list[BoundaryMPS | None] = [None] * self.n_rows
        order = range(self.n_rows) if way == "down" else range(self.n_rows - 1, -1, -1)
        for r, following in itertools.pairwise(order):
            found[following] = self.absorbed(found[r], self.row(r, way), r, way)
        return found

    def strip(
        self, first: int, n_rows: int, around: tuple[BoundaryMPS | None, BoundaryMPS | None]
    ) -> Strip:
        """Give rows between the boundaries above and below."""
        nothing = (None,) * n_rows
        columns = [self.column(first, c, "left", nothing) for c in range(self.n_cols)]
        return Strip(around[0], list(zip(*columns, strict=True)), around[1])
