"""What ranks do together while a system in the space of samples is solved by iteration; a process alone is one rank.

Rank 0 leads: the methods of `Joint` that it calls, all call, until it is done.  Vectors of samples go around as a
broadcast and a sum, and nothing is asked rank by rank.  A few columns of O O^dagger are kept in blocks of
rows, which are dealt out: their number does not depend on the ranks, so nor do any bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from scipy.linalg import solve_triangular

from tnvmc.backend.process import one_blas_thread, side_by_side
from tnvmc.backend.ranks import ALONE, Ranks
from tnvmc.jacobian import exact_sums
from tnvmc.jacobian.gram import dagger

T = TypeVar("T")

_ROWS = 128  # of a block: few, so that a thousand ranks have work
_IN_A_PRODUCT = 4  # blocks: enough rows for the rate of a product
_AT_ONCE = 8  # products that are computed before their blocks are sent


class Units(Protocol):
    """Some of the pieces or blocks of O, with all samples."""

    def gram_terms(self, u: np.ndarray) -> Sequence[np.ndarray]:
        """What each adds to O O^dagger u: (M,)."""

    def cross(self, rows: slice, chosen: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """What they add to some rows and columns of O O^dagger, rounded for these scales."""

    def norms(self) -> Sequence[np.ndarray]:
        """Squared norms (M,) of the rows of each."""


class Centring(NamedTuple):
    """What makes A A^dagger of O O^dagger; see `tnvmc.jacobian.centred.CenteredJacobian`."""

    means: np.ndarray  #: (parts * M, parts): O O^dagger times the weights of each part
    of_means: np.ndarray  #: (parts, parts): the same, averaged over the rows of each part
    root: np.ndarray  #: (parts * M,): square roots of the weights

    def entries(self, raw: np.ndarray, rows: slice, chosen: np.ndarray) -> np.ndarray:
        """Entries of A A^dagger from those of O O^dagger."""
        n, parts = self.means.shape
        part = np.arange(n) // (n // parts)
        means = self.means[rows][:, part[chosen]]
        means = means + self.means[chosen][:, part[rows]].conj().T
        found = raw - means + self.of_means[np.ix_(part[rows], part[chosen])]
        return np.asarray(found * self.root[rows][:, None] * self.root[chosen])


@dataclass
class Joint:
    """The part of one rank.  All ranks call the methods; what rank 0 gets counts."""

    units: Units
    n_units: int  #: of all ranks
    n_rows: int  #: M
    dtype: Any  #: of sums: double precision
    ranks: Ranks = ALONE
    n_columns: int = 0
    blocks: dict[int, np.ndarray] = field(default_factory=dict)  #: of the columns C, by place

    def gram_times(self, u: np.ndarray) -> np.ndarray:
        """O O^dagger u: (M,) -> (M,)."""
        like = np.empty(self.n_rows, np.result_type(self.dtype, u))
        return exact_sums.total(self.units.gram_terms(u), self.n_units, like, self.ranks)

    def choose(self, chosen: np.ndarray, centring: Centring) -> np.ndarray:
        """Keep the columns C of A A^dagger of l samples: (M, l); gives their rows (l, l).

        Cost: 2 l / M of the whole matrix.  Traffic: M l numbers of each rank.
        """
        scales, self.n_columns, self.blocks = self._scales(), len(chosen), {}
        places = range(len(self._slices))
        products = [places[i : i + _IN_A_PRODUCT] for i in places[::_IN_A_PRODUCT]]
        for begin in range(0, len(products), _AT_ONCE):
            now = products[begin : begin + _AT_ONCE]
            found = side_by_side(
                lambda blocks: self.units.cross(self._rows_of(blocks), chosen, scales), now
            )
            for blocks, whole in zip(now, found, strict=True):
                start = self._slices[blocks[0]].start
                for k in blocks:
                    rows = slice(self._slices[k].start - start, self._slices[k].stop - start)
                    raw = whole[rows].astype(self.dtype, copy=False)
                    self.ranks.add_up(raw, self._owner(k))
                    if self._owner(k) == self.ranks.rank:
                        self.blocks[k] = centring.entries(raw, self._slices[k], chosen)
        own = []
        for k, block in self.blocks.items():
            inside = np.flatnonzero(chosen // _ROWS == k)
            own.append((inside, block[chosen[inside] - k * _ROWS]))
        core = np.empty((len(chosen), len(chosen)), self.dtype)
        for inside, rows in self._collected(own):
            core[inside] = rows
        return core

    def divide(self, factor: np.ndarray) -> None:
        """Replace C by C L^-dagger for a lower triangle L (l, l)."""
        for k, block in self.blocks.items():
            right = solve_triangular(factor, dagger(block), lower=True, check_finite=False)
            self.blocks[k] = np.ascontiguousarray(dagger(right))

    def square(self) -> np.ndarray:
        """C^dagger C: (l, l)."""
        norms = self._collected([exact_sums.norms(block.T) for block in self.blocks.values()])
        scales = exact_sums.scales(np.sum(norms, axis=0)) if norms else None
        scales = self.ranks.told(scales)
        total = np.zeros((self.n_columns, self.n_columns), self.dtype)
        for block in self.blocks.values():
            total += exact_sums.rounded(dagger(block) @ block, scales, scales)
        self.ranks.add_up(total)
        return total

    def columns_times(self, y: np.ndarray) -> np.ndarray:
        """C y: (l,) -> (M,)."""
        parts = self._collected([block @ y for block in self.blocks.values()])
        return np.concatenate(parts) if parts else y

    def columns_adjoint(self, r: np.ndarray) -> np.ndarray:
        """C^dagger r: (M,) -> (l,)."""
        terms = [dagger(block) @ r[self._slices[k]] for k, block in self.blocks.items()]
        like = np.empty(self.n_columns, np.result_type(self.dtype, r))
        return exact_sums.total(terms, len(self._slices), like, self.ranks)

    def _scales(self) -> np.ndarray:
        like = np.empty(self.n_rows)
        norms = exact_sums.total(self.units.norms(), self.n_units, like, self.ranks)
        return np.asarray(self.ranks.told(exact_sums.scales(norms)))

    def _collected(self, own: list[Any]) -> list[Any]:
        """What belongs to the blocks of all ranks, in their order, on rank 0."""
        return [each for of_rank in self.ranks.collected(own) for each in of_rank]

    @cached_property
    def _slices(self) -> list[slice]:
        """The rows of each block."""
        n = self.n_rows
        return [slice(begin, min(begin + _ROWS, n)) for begin in range(0, n, _ROWS)]

    def _rows_of(self, blocks: range) -> slice:
        """The rows of blocks that lie side by side."""
        return slice(self._slices[blocks[0]].start, self._slices[blocks[-1]].stop)

    def _owner(self, block: int) -> int:
        """The rank that keeps a block."""
        return block * self.ranks.size // len(self._slices)


Call = Callable[..., Any]
"""Calls a method of `Joint` on all ranks: ``call(Joint.gram_times, u)``."""


def lead(joint: Joint, task: Callable[[Call], T]) -> T | Failed:
    """On rank 0: what a task gives, whose calls the others answer; an error of its own ends it in order."""
    within = False

    def call(method: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal within
        joint.ranks.told((method, arguments))
        within = True
        with one_blas_thread():
            found = method(joint, *arguments)
        within = False
        return found

    found: T | Failed
    try:
        found = task(call)
    except Exception as error:
        if within:  # the others may wait for a sum that does not come
            raise
        found = Failed(error)
    joint.ranks.told(None)
    return found


def serve(joint: Joint) -> None:
    """On the other ranks: do what rank 0 calls, until it is done."""
    with one_blas_thread():
        while (asked := joint.ranks.told(None)) is not None:
            method, arguments = asked
            method(joint, *arguments)


def result_of(found: T | Failed) -> T:
    """What a task gave; its error is raised."""
    if isinstance(found, Failed):
        raise found.error
    return found


@dataclass(frozen=True)
class Failed:
    """A task of rank 0 that ended with an error."""

    error: Exception
