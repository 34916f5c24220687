"""The double layer of a PEPS as one layer with fused legs, and its closures.

Ket and bra legs of a site are one leg, the ket's first, so that the rows, boundaries
and strips of `row.py` and `schemes.py` serve it.  The batch axis holds rotations of the ket
about z: element b is <psi| ... R_b |psi> with R_b = prod_j factors[b, s_j].  One pass over a strip
gives the norm and the sum of all its terms.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.contraction.double_layer import Grid, scaled
from tnvmc.contraction.double_terms import Column, Ends, Prefix, Source, StripTerms, Unit, View
from tnvmc.contraction.row import Environment, Strip, closure, transfer
from tnvmc.contraction.schemes import SRC
from tnvmc.contraction.sketches import random_sketch
from tnvmc.contraction.tensors import LAYOUTS, BoundaryMPS, Row

Array = Any
Boundaries = Sequence[BoundaryMPS | None]


class DoubleNetwork:
    """<psi| R_b |psi> for a grid of tensors (d, up, left, down, right) and B rotations.

    Tensors are scaled to largest entry 1: all values are those of the scaled state.  A rotation
    multiplies the local states of the ket with `factors` (B, d).  `bra` is another state's grid.
    """

    def __init__(self, grid: Grid, factors: Array, chi: int, bra: Grid | None = None) -> None:
        self.grid, self.bra = (
            [[scaled(tensor)[0] for tensor in row] for row in each] for each in (grid, bra or grid)
        )
        self.factors, self.chi = factors, chi
        self.n_rows, self.n_cols = len(grid), len(grid[0])

    def repeated(self, n: int) -> "DoubleNetwork":
        """The same with the rotations n times over, in the order (copy, rotation)."""
        return DoubleNetwork(self.grid, np.tile(self.factors, (n, 1)), self.chi, self.bra)

    def site(self, place: tuple[int, int], layout: tuple[str, str], unit: Unit | None) -> Array:
        """Give a site with |t><s| between bra and ket, or with the local states summed over.

        `place` is row and column; `layout` what is absorbed, "down" or "up", and where it goes,
        "right" or "left"; `unit` is (t, s), or None.  Gives (B, out, vertical out, vertical in,
        in), each leg ket and bra.
        """
        tensor, bra = (grid[place[0]][place[1]] for grid in (self.grid, self.bra))
        d, batch = len(tensor), len(self.factors)
        bras = bra.conj().reshape(d, -1)
        if unit is None:
            kets = self.factors[:, :, None] * tensor.reshape(1, d, -1)
            both = np.matmul(kets.swapaxes(1, 2), bras)
        else:
            kets = self.factors[:, unit[1], None] * tensor[unit[1]].reshape(1, -1)
            both = kets[:, :, None] * bras[unit[0]]
        legs = tensor.shape[1:], bra.shape[1:]
        both = both.reshape(batch, *legs[0], *legs[1]).transpose(0, 1, 5, 2, 6, 3, 7, 4, 8)
        both = both.reshape(batch, *(ket * other for ket, other in zip(*legs, strict=True)))
        return np.ascontiguousarray(both.transpose(LAYOUTS[layout]))

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
        sketch = random_sketch(legs, self.chi, (0, r, way == "up"), row.rightward[0])
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


@dataclass(frozen=True)
class Closed:
    """One closure for B rotations: <R> and the sum of its terms <R h>, times exp(-log_scale)."""

    norm: Array  #: (B,)
    total: Array  #: (B,)
    log_scale: float


def closures(network: DoubleNetwork, view: View) -> Iterator[Closed]:
    """Close every strip of a view with its terms, then the pairs that fit no strip.

    The norm and the terms of a closure have the same environments.
    """
    above, below = network.boundaries("down"), network.boundaries("up")
    for (first, n_rows), terms in sorted(view.strips.items()):
        yield close_strip(network, terms, (above[first], below[first + n_rows - 1]))
    for row, sources in sorted(view.pairs.items()):
        yield from _close_pairs(network, row, sources, (above, below))


def close_strip(
    network: DoubleNetwork, terms: StripTerms,
    around: tuple[BoundaryMPS | None, BoundaryMPS | None], log_scale: float | None = None,
) -> Closed:  # fmt: skip
    """Close a strip without and with its terms, going once from left to right.

    Terms that begin alike share what is left of their ends, terms that end alike what is right.
    `log_scale` is taken out of the values; by default that of the largest norm.
    """
    strip = network.strip(terms.first, terms.n_rows, around)
    rights = strip.right_environments()
    lefts: dict[Prefix, Environment] = {(): strip.edge()}
    if log_scale is None:
        largest = float(closure(lefts[()], rights[0])[1].max())
        log_scale = largest if np.isfinite(largest) else 0.0
    norm = _value(lefts[()], rights[0], log_scale)
    total = np.zeros_like(norm)
    for c in range(network.n_cols):
        for units, members in terms.ended(c).items():
            right = _absorbed(
                strip, c, rights[c + 1], network.column(terms.first, c, "left", units)
            )
            for prefix, coefficient in members:
                total = total + coefficient * _value(lefts[prefix], right, log_scale)
        plain = network.column(terms.first, c, "right", (None,) * terms.n_rows)
        following = {
            prefix: strip.advance(lefts[prefix], c, plain)
            for prefix, last in terms.prefixes.items()
            if prefix in lefts and last > c
        }
        for prefix in terms.started(c):
            sites = network.column(terms.first, c, "right", prefix[-1][1])
            following[prefix] = strip.advance(lefts[prefix[:-1]], c, sites)
        lefts = following
    return Closed(norm, total, log_scale)


def _value(left: Environment, right: Environment, log_scale: float) -> Array:
    """Contract both, times exp(-log_scale): (B,)."""
    phase, log_abs = closure(left, right)
    return phase * np.exp(log_abs - log_scale)


def _absorbed(strip: Strip, c: int, right: Environment, sites: Sequence[Array]) -> Environment:
    """The environment right of column c - 1, with other sites in column c."""
    above = None if strip.above is None else strip.above.top_leftward[c]
    below = None if strip.below is None else strip.below.bottom_leftward[c]
    return Environment(transfer(right.tensor, above, sites, below), right.log_scale)


def _close_pairs(
    network: DoubleNetwork, row: int, sources: Mapping[Source, Mapping[int, Ends]],
    around: tuple[Boundaries, Boundaries],
) -> Iterator[Closed]:  # fmt: skip
    """Pairs of sites at any distance whose upper site is in `row`, closed at the row of the lower.

    A source is the network with the unit of the upper site in it; all are one batch (n B).
    """
    above, below = around
    n, n_rotations = len(sources), len(network.factors)
    many = network.repeated(n)
    boundary = network.absorbed(
        _repeated(above[row], n), network.row(row, "down", list(sources)), row, "down"
    )
    lowest = max(r for targets in sources.values() for r in targets)
    for r in range(row + 1, lowest + 1):
        ends: Ends = defaultdict(lambda: np.zeros((n, 1), dtype=complex))
        for k, targets in enumerate(sources.values()):
            for last, coefficient in targets.get(r, {}).items():
                ends[last][k] = coefficient
        if ends:
            unchanged = close_strip(network, StripTerms(r, 1), (above[r], below[r]))
            spread = {last: np.repeat(c, n_rotations) for last, c in ends.items()}
            closed = close_strip(
                many, StripTerms(r, 1, {(): spread}), (boundary, _repeated(below[r], n)),
                unchanged.log_scale,
            )  # fmt: skip
            total = closed.total.reshape(n, n_rotations).sum(axis=0)
            yield Closed(unchanged.norm, total, unchanged.log_scale)
        if r < lowest:
            boundary = network.absorbed(boundary, many.row(r, "down"), r, "down")


def _repeated(boundary: BoundaryMPS | None, n: int) -> BoundaryMPS | None:
    """A boundary n times over, in the order (copy, rotation)."""
    if boundary is None:
        return None
    tensors = [np.tile(tensor, (n, 1, 1, 1)) for tensor in boundary.tensors]
    return BoundaryMPS(tensors, np.tile(boundary.log_scale, n))
