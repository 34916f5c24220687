"""Tensors of a network side by side in memory, as compiled kernels read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from tnvmc.backend.namespace import array_namespace

Array = Any
Shape = tuple[int, ...]


def begins_of(shapes: Sequence[Shape]) -> tuple[int, ...]:
    """Places of the first numbers of tensors that lie one after another, and of their end."""
    return _begins_of(tuple(shapes))


@lru_cache(maxsize=4096)
def _begins_of(shapes: tuple[Shape, ...]) -> tuple[int, ...]:
    return tuple(accumulate(map(prod, shapes), initial=0))


@dataclass(frozen=True)
class PackedTensors(Sequence[Any]):
    """Tensors of B walkers: element c is (B, *shapes[c]), a view of `numbers`."""

    numbers: Array  #: (B, sum of sizes), contiguous
    shapes: tuple[Shape, ...]

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, c: Any) -> Any:
        if isinstance(c, slice):
            return [self[i] for i in range(*c.indices(len(self)))]
        c, begins = range(len(self))[c], _begins_of(self.shapes)
        part = self.numbers[:, begins[c] : begins[c + 1]]
        return array_namespace(part).reshape(part, (part.shape[0], *self.shapes[c]))

    @classmethod
    def of(cls, tensors: Sequence[Array], n_walkers: int) -> PackedTensors:
        """Put NumPy tensors (B or 1, ...) side by side; those that are stay where they are."""
        if isinstance(tensors, cls):
            return tensors
        shapes = tuple(tuple(tensor.shape[1:]) for tensor in tensors)
        begins = begins_of(shapes)
        numbers = np.empty((n_walkers, begins[-1]), tensors[0].dtype)
        for tensor, begin, end in zip(tensors, begins, begins[1:], strict=False):
            numbers[:, begin:end] = tensor.reshape(tensor.shape[0], -1)
        return cls(numbers, shapes)


@dataclass(frozen=True)
class SiteTables:
    """Site tensors of a network for every local state, laid out to be absorbed from one side.

    `numbers` holds the tensors (d, right, down, up, left) of all sites one after another, and then
    those with left and right exchanged; absorbed from below, up and down are exchanged in both.
    """

    numbers: Array
    shapes: tuple[Shape, ...]  #: of each site for moving right

    @cached_property
    def begins(self) -> tuple[int, ...]:
        """Place of each site in either half, and the size of a half."""
        return begins_of(self.shapes)

    @classmethod
    def build(cls, rightward: Sequence[Array], leftward: Sequence[Array]) -> SiteTables:
        """Put the tensors of all sites, laid out for both directions, side by side."""
        xp = array_namespace(*rightward)
        flat = [xp.reshape(tensor, (-1,)) for tensor in (*rightward, *leftward)]
        return cls(xp.concat(flat), tuple(tuple(tensor.shape) for tensor in rightward))

    def table(self, moving: str, site: int) -> Array:
        """All local states of a site, (d, out, vertical out, vertical in, in)."""
        d, right, down, up, left = self.shapes[site]
        shape = (d, right, down, up, left) if moving == "right" else (d, left, down, up, right)
        begin = self.begins[site] + (0 if moving == "right" else self.begins[-1])
        part = self.numbers[begin : begin + prod(shape)]
        return array_namespace(part).reshape(part, shape)

    def superposed(self, first: int, weights: np.ndarray) -> SiteTables:
        """Tables of one local state, of sites from `first` on: sums with weights (n, d)."""
        xp = array_namespace(self.numbers)
        mixes = xp.asarray(weights, dtype=self.numbers.dtype)
        sums = []
        for half in (0, self.begins[-1]):
            for k in range(len(weights)):
                begin, end = self.begins[first + k], self.begins[first + k + 1]
                table = xp.reshape(self.numbers[half + begin : half + end], (weights.shape[1], -1))
                sums.append(xp.matmul(mixes[k, :], table))
        own = self.shapes[first : first + len(weights)]
        return SiteTables(xp.concat(sums), tuple((1, *shape[1:]) for shape in own))

    def at(self, moving: str, site: int, spins: Array) -> Array:
        """Gather one site for walkers at `spins` (B,)."""
        table = self.table(moving, site)
        return array_namespace(table).take(table, spins, axis=0)


@dataclass(frozen=True)
class TableRow:
    """The row of a network that begins at site `first`, at the spins of B walkers; see `Row`."""

    tables: SiteTables
    first: int
    n_cols: int
    configs: Array  #: (B, N) of the whole network

    @cached_property
    def rightward(self) -> list[Array]:
        """Tensors (B, right, down, up, left)."""
        return self._gathered("right")

    @cached_property
    def leftward(self) -> list[Array]:
        """Tensors (B, left, down, up, right)."""
        return self._gathered("left")

    def _gathered(self, moving: str) -> list[Array]:
        sites = range(self.first, self.first + self.n_cols)
        return [self.tables.at(moving, site, self.configs[:, site]) for site in sites]
