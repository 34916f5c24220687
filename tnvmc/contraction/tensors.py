"""Tensors of a network, laid out to be absorbed: of all sites, of a row at its spins, boundary MPS.

Those of NumPy lie side by side in memory, as compiled kernels read them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np

from tnvmc.backend import host
from tnvmc.backend.namespace import array_namespace, require_states

Array = Any
Shape = tuple[int, ...]
Sketch = Sequence[Array]
"""An MPS on the open legs of a row, shared by all walkers, as bottoms laid out leftward: per column
(1, vertical, right, left)."""

LAYOUTS = {  # axes of (d or B, up, left, down, right) for what is absorbed, and where it goes
    ("down", "right"): (0, 4, 3, 1, 2),
    ("down", "left"): (0, 2, 3, 1, 4),
    ("up", "right"): (0, 4, 1, 3, 2),
    ("up", "left"): (0, 2, 1, 3, 4),
}

_COMPILED = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))


@lru_cache(maxsize=4096)
def begins_of(shapes: tuple[Shape, ...]) -> tuple[int, ...]:
    """Places of the first numbers of tensors that lie one after another, and of their end."""
    return tuple(accumulate(map(prod, shapes), initial=0))


class PackedTensors(list[Any]):
    """NumPy tensors of B walkers side by side: element c is (B, *shapes[c]), in `numbers`."""

    def __init__(self, numbers: np.ndarray, shapes: tuple[Shape, ...]) -> None:
        self.numbers, self.shapes = numbers, shapes  #: (B, sum of sizes), contiguous
        parts = zip(pairwise(begins_of(shapes)), shapes, strict=True)
        super().__init__(numbers[:, begin:end].reshape(-1, *shape) for (begin, end), shape in parts)


def packed(tensors: Sequence[Array], n_walkers: int) -> Sequence[Array]:
    """Put NumPy tensors (B or 1, ...) side by side; others, and those that are, come back."""
    if type(tensors) is PackedTensors or type(tensors[0]) is not np.ndarray:
        return tensors
    shapes = tuple(tuple(tensor.shape[1:]) for tensor in tensors)
    numbers = np.empty((n_walkers, begins_of(shapes)[-1]), tensors[0].dtype)
    found = PackedTensors(numbers, shapes)
    for into, tensor in zip(found, tensors, strict=True):
        into[...] = tensor
    return found


@dataclass(frozen=True)
class SiteTables:
    """Site tensors of a network for every local state, laid out to be absorbed from one side.

    `numbers` holds the tensors (d, right, down, up, left) of all sites one after another, and then
    those with left and right exchanged; absorbed from below, up and down are exchanged in both.
    `begins_of(shapes)` are the places of sites in either half, and the size of a half.
    """

    numbers: Array
    shapes: tuple[Shape, ...]  #: of each site for moving right

    @classmethod
    def build(cls, tensors: Sequence[Array], absorbed: str) -> "SiteTables":
        """Lay out tensors (d, up, left, down, right) of all sites, absorbed "down" or "up"."""
        xp, ways = array_namespace(*tensors), ("right", "left")
        both = [xp.permute_dims(t, LAYOUTS[absorbed, way]) for way in ways for t in tensors]
        flat = [xp.reshape(tensor, (-1,)) for tensor in both]
        return cls(xp.concat(flat), tuple(tuple(t.shape) for t in both[: len(tensors)]))

    @cached_property
    def compiled(self) -> bool:
        """Whether there are kernels for these numbers."""
        on_host = array_namespace(self.numbers) is np
        return on_host and self.numbers.dtype in _COMPILED and host.available()

    def table(self, moving: str, site: int) -> Array:
        """All local states of a site, (d, out, vertical out, vertical in, in)."""
        d, right, down, up, left = shape = self.shapes[site]
        begins = begins_of(self.shapes)
        begin = begins[site]
        if moving == "left":
            begin, shape = begin + begins[-1], (d, left, down, up, right)
        own = self.numbers[begin : begin + prod(shape)]
        return array_namespace(own).reshape(own, shape)

    def at(self, moving: str, site: int, spins: Array) -> Array:
        """Gather one site for walkers at `spins` (B,)."""
        table = self.table(moving, site)
        return array_namespace(table).take(table, spins, axis=0)

    def superposed(self, first: int, weights: np.ndarray) -> "SiteTables":
        """Tables of one local state, of sites from `first` on: sums with weights (n, d)."""
        xp, begins = array_namespace(self.numbers), begins_of(self.shapes)
        mixes = xp.asarray(weights, dtype=self.numbers.dtype)
        sums = []
        for half in (0, begins[-1]):
            for k in range(len(weights)):
                part = self.numbers[half + begins[first + k] : half + begins[first + k + 1]]
                sums.append(xp.matmul(mixes[k, :], xp.reshape(part, (weights.shape[1], -1))))
        own = self.shapes[first : first + len(weights)]
        return SiteTables(xp.concat(sums), tuple((1, *shape[1:]) for shape in own))


@dataclass(frozen=True)
class Row:
    """One row of site tensors at fixed spins, for B walkers.

    `rightward[c]` is (B, right, down, up, left) and `leftward[c]` (B, left, down, up, right); with
    up and down exchanged in both, the same row is absorbed from below.
    """

    rightward: Sequence[Array]
    leftward: Sequence[Array]
    tables: SiteTables | None = None  #: that it is gathered from


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
        require_states(self.configs, len(self.tables.shapes), self.tables.shapes[self.first][0])
        return [self.tables.at(moving, site, self.configs[:, site]) for site in sites]


@dataclass(frozen=True)
class BoundaryMPS:
    """All rows on one side of a cut, contracted at fixed spins into a matrix product state.

    The state is exp(log_scale) times the product of `tensors`, each (B, vertical, left, right).
    What truncation did to it is not booked here: schemes without singular values cannot tell.
    The measure is the spread between the closures of one configuration (`Snapshot.closure_spread`).
    """

    tensors: Sequence[Array]
    log_scale: Array  #: (B,)

    def take(self, walkers: Array | None) -> "BoundaryMPS":
        """Select walkers by index (n,), None for all; shared tensors stay shared."""
        if walkers is None:
            return self
        xp = array_namespace(walkers)
        alone = self.log_scale.shape[0] == 1  # a tensor of one walker is shared by none
        tensors = [
            t if t.shape[0] == 1 and not alone else xp.take(t, walkers, axis=0)
            for t in self.tensors
        ]
        return BoundaryMPS(tensors, xp.take(self.log_scale, walkers, axis=0))

    @cached_property
    def top_rightward(self) -> list[Array]:
        """Tensors (B, right, vertical, left)."""
        return permuted(self.tensors, (0, 3, 1, 2))

    @cached_property
    def top_leftward(self) -> list[Array]:
        """Tensors (B, left, vertical, right)."""
        return permuted(self.tensors, (0, 2, 1, 3))

    @cached_property
    def bottom_leftward(self) -> list[Array]:
        """Tensors (B, vertical, right, left); rightward they are `tensors` themselves."""
        return permuted(self.tensors, (0, 1, 3, 2))


def permuted(tensors: Sequence[Array], axes: tuple[int, ...]) -> list[Array]:
    """Contiguous copies; small next to one transfer, and every product after it is copy-free."""
    xp = array_namespace(*tensors)
    copies = []
    for tensor in tensors:
        turned = xp.permute_dims(tensor, axes)
        flat = xp.reshape(turned, (tensor.shape[0], -1))  # merging axes is what makes the copy
        copies.append(xp.reshape(flat, turned.shape))
    return copies


def opened(tensors: Sequence[Array], n_cols: int) -> list[Array]:
    """Give the tensors of open rows with the closing bonds carried along.

    The right leg of the last column of a ring meets the left one of the first.  Written out, such a
    row is an open one whose bonds hold two indices, (right, carried)::

        first column  (up, 1, down, (r, a))       = T_0[up, a, down, r]
        between       (up, (l, a), down, (r, a')) = T_c[up, l, down, r] delta(a, a')
        last column   (up, (l, a), down, 1)       = T_3[up, l, down, a]

    Tensors (d, up, left, down, right) of rings, row by row, become (d, up, left * a, down, right *
    a), of size 1 at both ends of a row.  One between takes D^2 times the memory, mostly for zeros.
    """
    xp = array_namespace(*tensors)
    found = []
    for site, tensor in enumerate(tensors):
        d, up, left, down, right = tensor.shape
        column = site % n_cols
        if column == 0:
            turned = xp.permute_dims(tensor, (0, 1, 3, 4, 2))
            found.append(xp.reshape(turned, (d, up, 1, down, right * left)))
        elif column == n_cols - 1:
            turned = xp.permute_dims(tensor, (0, 1, 2, 4, 3))
            found.append(xp.reshape(turned, (d, up, left * right, down, 1)))
        else:
            carried = tensors[site - column].shape[2]
            same = xp.reshape(
                xp.eye(carried, dtype=tensor.dtype), (1, 1, 1, carried, 1, 1, carried)
            )
            product = xp.reshape(tensor, (d, up, left, 1, down, right, 1)) * same
            found.append(xp.reshape(product, (d, up, left * carried, down, right * carried)))
    return found


def opened_row(rightward: Sequence[Array]) -> Sequence[Array]:
    """The same for one row of tensors (B, right, down, up, left); an open one comes back."""
    if rightward[0].shape[4] == 1:
        return rightward
    xp = array_namespace(*rightward)
    sites = opened([xp.permute_dims(t, (0, 3, 4, 2, 1)) for t in rightward], len(rightward))
    return [xp.permute_dims(t, (0, 4, 3, 1, 2)) for t in sites]
