"""Passes over the rows of a PEPS: each uses boundaries of the last and makes those of the next.

A pass going down finds the boundary MPS below every row ready (`ahead`) and builds those above on
its way (`behind`); these are `ahead` for the next pass, which goes up.  So every row is absorbed
once a pass, and no boundary is ever older than the configuration it belongs to.  At each row a pass
visits the strip of that row and then the strip of that row and the next, and then absorbs the row.

The same passes go over the columns, where column c is row c, and the legs (d, up, left, down,
right) of a tensor are (d, left, up, right, down): a vertical bond is two sites of one row then.
Without truncation rows and columns give the same psi(s); with it they differ as two closures do.
"""

import itertools
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from tnvmc.ansatz.peps.fermions import Reference, StripVariants, Variants
from tnvmc.ansatz.peps.strip_engine import ArrayStrips, Layers, RingStrips, StripEngine, StripState
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.schemes import SRC, Scheme
from tnvmc.contraction.sketches import sketches_of
from tnvmc.contraction.tensors import BoundaryMPS
from tnvmc.lattice.embedding import Embedding

Array = Any
T = TypeVar("T")

_ONE_AT_A_TIME = Lock()
_OTHER = {"down": "up", "up": "down"}


@dataclass(frozen=True)
class Views:
    """The network of one theta by rows, and by columns, which are laid out when first used."""

    tensors: Sequence[Array]  #: of all places of the grid
    embedding: Embedding
    scheme: Scheme
    rows: StripEngine

    @cached_property
    def _columns(self) -> StripEngine:
        shape, variants = self.embedding.shape, self.rows.layers.variants
        turned, variants = _transposed(self.tensors, shape), variants and variants.of_columns
        return strip_engine(turned, shape[::-1], self.scheme, variants=variants)

    def placed(self, configs: Array) -> Array:
        """Which tensor each place has (B, places) at configurations (B, N) of the sites."""
        configs, variants = self.embedding.on_grid(configs), self.rows.layers.variants
        n_cols = self.embedding.shape[1]
        return configs if variants is None else variants.of_network(configs, n_cols)

    def engine(self, by_columns: bool) -> StripEngine:
        """One of the two, made once for all threads."""
        if not by_columns:
            return self.rows
        with _ONE_AT_A_TIME:
            return self._columns


def strip_engine(
    tensors: Sequence[Array],
    shape: tuple[int, int],
    scheme: Scheme,
    rings: bool = False,
    variants: Variants | None = None,
) -> StripEngine:
    """Lay out the tensors of a theta, for compiled kernels where there are any for them.

    Cost: copies of theta, and for `SRC` one pass of absorption each way for one walker.
    """
    layers = Layers.build(variants.of_tensors(tensors) if variants else tensors, shape, scheme)
    layers = replace(layers, variants=variants) if variants else layers
    if isinstance(scheme, SRC):
        ways = {way: sketches_of(layers.tables, way, shape, scheme) for way in ("down", "up")}
        layers = replace(layers, sketches=ways)
    engine: StripEngine = ArrayStrips(layers)
    if layers.tables["down"].compiled:
        from tnvmc.ansatz.peps.compiled_strips import CompiledRings, CompiledStrips  # needs Numba

        engine = CompiledStrips(layers)
        if rings and isinstance(scheme, SRC):
            return CompiledRings(engine, scheme.chi)
    return RingStrips(engine) if rings else engine


def _transposed(tensors: Sequence[Array], shape: tuple[int, int]) -> list[Array]:
    """Exchange rows and columns of tensors (d, up, left, down, right) of all places."""
    (n_rows, n_cols), xp = shape, array_namespace(tensors[0])
    order = [row * n_cols + column for column in range(n_cols) for row in range(n_rows)]
    return [xp.permute_dims(tensors[place], (0, 2, 1, 4, 3)) for place in order]


class LatestTheta:
    """What was laid out for the theta that was asked for last: all chunks of a step share it."""

    def __init__(self) -> None:
        self.theta: np.ndarray | None = None
        self.views: Views | None = None
        self.lock = Lock()

    def __reduce__(self) -> "tuple[type[LatestTheta], tuple[()]]":
        return LatestTheta, ()


@dataclass(frozen=True)
class RowBoundaries:
    """What a pass begins with: its view and direction, and the boundary MPS ahead of each row."""

    views: Views
    by_columns: bool
    direction: str  #: "down" or "up": the way the coming pass absorbs rows
    ahead: tuple[BoundaryMPS | None, ...]  #: per row, on the far side of it
    references: tuple[Reference | None, ...] = ()
    """Of fermions after moves in a pass that went up: what the boundary below each row was made
    at."""

    @classmethod
    def made(cls, views: Views, configs: Array, by_columns: bool) -> "RowBoundaries":
        """Absorb every row at configurations (B, N) upward, for a pass that goes down.

        Cost: one absorption per row.
        """
        walk = RowPass(cls(views, by_columns, "up", ()), configs)
        for _ in walk.strips(()):
            pass
        return walk.boundaries()


class RowPass:
    """One pass over the rows of a view; `configs`, in its order, follow the spins, and `closed`."""

    def __init__(self, begun: RowBoundaries, configs: Array) -> None:
        self._begun = begun
        self.engine = begun.views.engine(begun.by_columns)
        self.configs = begun.views.embedding.on_grid(configs, begun.by_columns)
        n_rows = self.engine.layers.n_rows
        self._behind: list[BoundaryMPS | None] = [None] * n_rows
        self._variants, self._begun_at = self.engine.layers.variants, self.configs
        self._by_twists = self._variants is not None and not begun.by_columns
        self._references: list[Reference | None] = [*begun.references] or [None] * n_rows
        if self._by_twists and begun.direction == "down" and not begun.references:
            self._references[:-1] = [Reference(self._above(row)) for row in range(1, n_rows)]
        self.closed: LogAmplitude | None = None  #: psi (B,), closed at the row that is visited

    def strips(self, wanted: Container[tuple[int, int]]) -> Iterator[StripState]:
        """Yield the strips (first row, number of rows) that are wanted; absorb rows after them."""
        layers, direction, ahead = self.engine.layers, self._begun.direction, self._begun.ahead
        down = direction == "down"
        order = list(range(layers.n_rows))[:: 1 if down else -1]
        for row, following in itertools.zip_longest(order, order[1:]):
            pair, self.closed = row if down else row - 1, None
            for first, n_rows in ((row, 1), (pair, 2)):
                if (first, n_rows) in wanted:
                    last = first + n_rows - 1
                    above = self._behind[first] if down else ahead[first]
                    below = ahead[last] if down else self._behind[last]
                    at_edge = self._behind[row] is None  # to absorb this row costs less there
                    way, closed = (direction, None) if at_edge else (_OTHER[direction], self.closed)
                    yield StripState(
                        first, n_rows, self.configs, above, below, way, closed,
                        self._of_strip(first, n_rows, self._references[last])
                        if self._variants else None,
                    )  # fmt: skip
            if following is not None:
                reference = None if down else self._references[row]
                variants = self._of_strip(row, 1, reference) if self._variants else None
                chosen = variants.at(self.configs) if variants else self.configs
                self._behind[following] = layers.absorb(self._behind[row], row, chosen, direction)
                if variants and self._by_twists and not down:
                    sign = variants.sign(self.configs)
                    self._references[following] = Reference(self._above(row), sign)

    def _of_strip(self, first: int, n_rows: int, reference: Reference | None) -> StripVariants:
        assert self._variants is not None
        n_cols = self.engine.layers.n_cols
        return StripVariants(self._variants, n_cols, first, n_rows, reference)

    def _above(self, row: int) -> Array:
        """Parities (B, n_cols) of the particles above a row."""
        assert self._variants is not None
        return self._variants.above(self.configs, self.engine.layers.n_cols)[:, row, :]

    def boundaries(self) -> RowBoundaries:
        """What the next pass, in the other direction, begins with; after the last row."""
        direction, moved = _OTHER[self._begun.direction], self.configs is not self._begun_at
        late = self._by_twists and moved and direction == "down"
        references = tuple(self._references) if late else ()
        ahead = tuple(self._behind)
        return replace(self._begun, direction=direction, ahead=ahead, references=references)
