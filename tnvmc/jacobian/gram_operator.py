"""Products with O O^dagger, shared by ranks while a system between samples is solved by iteration.

Rank 0 runs the solver.  It calls methods of `GramOperator`, and all ranks carry these out.  Vectors
of samples go around as a broadcast and a sum.  Some columns of the matrix are kept in blocks of
rows, which are dealt out: their number does not depend on the number of ranks, so nor do any bits.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.linalg import solve_triangular

from tnvmc.backend.namespace import dagger
from tnvmc.backend.process import ALONE, Ranks, one_blas_thread, side_by_side
from tnvmc.jacobian import exact_sums
from tnvmc.jacobian.base import UnitProducts

Array = Any
T = TypeVar("T")

_ROWS = 128  # of a block: few, so that a thousand ranks have work
_BLOCKS_OF_A_PRODUCT = 4  # enough rows for the rate of a matrix product
_PRODUCTS_AT_ONCE = 8  # that are computed before their blocks are sent


class CenteringTerms(NamedTuple):
    """What makes A A^dagger of O O^dagger; see `centered.CenteredJacobian`."""

    means: np.ndarray  #: (parts * M, parts): O O^dagger times the weights of each part
    of_means: np.ndarray  #: (parts, parts): the same, averaged over the rows of each part
    root: np.ndarray  #: (parts * M,): square roots of the weights

    def entries(self, raw: np.ndarray, rows: slice, chosen: np.ndarray) -> np.ndarray:
        """Make entries of A A^dagger from those of O O^dagger, at some rows and columns."""
        n, parts = self.means.shape
        part = np.arange(n) // (n // parts)
        means = self.means[rows][:, part[chosen]]
        means = means + dagger(self.means[chosen][:, part[rows]])
        found = raw - means + self.of_means[np.ix_(part[rows], part[chosen])]
        return np.asarray(found * self.root[rows][:, None] * self.root[chosen])


@dataclass
class GramOperator:
    """The part of one rank.  All ranks call the methods; their results are on rank 0."""

    products: UnitProducts
    n_units: int  #: of all ranks
    n_rows: int  #: M
    dtype: Any  #: of sums: double precision
    ranks: Ranks = ALONE
    n_columns: int = 0
    blocks: dict[int, np.ndarray] = field(default_factory=dict)  #: of the columns C, by place

    def times(self, u: np.ndarray) -> np.ndarray:
        """Compute O O^dagger u: (M,) -> (M,)."""
        like = np.empty(self.n_rows, np.result_type(self.dtype, u))
        return exact_sums.total(self.products.gram_terms(u), self.n_units, like, self.ranks)

    def choose(self, chosen: np.ndarray, centering: CenteringTerms) -> np.ndarray:
        """Let C be the columns of A A^dagger of l samples, (M, l); gives their rows (l, l).

        Cost: 2 l / M of the whole matrix.  Traffic: M l numbers of each rank.
        """
        scales, self.n_columns, self.blocks = self._scales(), len(chosen), {}
        places = range(len(self._slices))
        products = [places[i : i + _BLOCKS_OF_A_PRODUCT] for i in places[::_BLOCKS_OF_A_PRODUCT]]
        for begin in range(0, len(products), _PRODUCTS_AT_ONCE):
            now = products[begin : begin + _PRODUCTS_AT_ONCE]
            found = side_by_side(
                lambda blocks: self.products.gram_block(self._rows_of(blocks), chosen, scales), now
            )
            for blocks, whole in zip(now, found, strict=True):
                start = self._slices[blocks[0]].start
                for k in blocks:
                    rows = slice(self._slices[k].start - start, self._slices[k].stop - start)
                    raw = whole[rows].astype(self.dtype, copy=False)
                    self.ranks.combine(raw, "sum", self._owner(k))
                    if self._owner(k) == self.ranks.rank:
                        self.blocks[k] = centering.entries(raw, self._slices[k], chosen)
        return self._rows_among(chosen)

    def _rows_among(self, chosen: np.ndarray) -> np.ndarray:
        """The rows of C that belong to its own samples: (l, l)."""
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
        """Compute C^dagger C: (l, l)."""
        norms = self._collected([exact_sums.square_sums(block.T) for block in self.blocks.values()])
        scales = exact_sums.scales(np.sum(norms, axis=0)) if norms else None
        scales = self.ranks.told(scales)
        total = np.zeros((self.n_columns, self.n_columns), self.dtype)
        for block in self.blocks.values():
            total += exact_sums.rounded(dagger(block) @ block, scales, scales)
        self.ranks.combine(total, "sum")
        return total

    def columns_times(self, y: np.ndarray) -> np.ndarray:
        """Compute C y: (l,) -> (M,)."""
        parts = self._collected([block @ y for block in self.blocks.values()])
        return np.concatenate(parts) if parts else y

    def columns_adjoint(self, r: np.ndarray) -> np.ndarray:
        """Compute C^dagger r: (M,) -> (l,)."""
        terms = [dagger(block) @ r[self._slices[k]] for k, block in self.blocks.items()]
        like = np.empty(self.n_columns, np.result_type(self.dtype, r))
        return exact_sums.total(terms, len(self._slices), like, self.ranks)

    def _scales(self) -> np.ndarray:
        like = np.empty(self.n_rows)
        norms = exact_sums.total(self.products.squared_norms(), self.n_units, like, self.ranks)
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
"""Calls a method of `GramOperator` on all ranks: ``call(GramOperator.times, u)``."""


def run_on_rank_0(operator: GramOperator, task: Callable[[Call], T]) -> "T | TaskError":
    """Carry out a task on rank 0, while the others are in `follow_rank_0`.

    An error of the task itself is given back, so that all ranks end in order.
    """
    within = False

    def call(method: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal within
        operator.ranks.told((method, arguments))
        within = True
        with one_blas_thread():
            found = method(operator, *arguments)
        within = False
        return found

    found: T | TaskError
    try:
        found = task(call)
    except Exception as error:
        if within:  # the others may wait for a sum that does not come
            raise
        found = TaskError(error)
    operator.ranks.told(None)
    return found


def follow_rank_0(operator: GramOperator) -> None:
    """Carry out, on the other ranks, what the task on rank 0 calls, until it ends."""
    with one_blas_thread():
        while (asked := operator.ranks.told(None)) is not None:
            method, arguments = asked
            method(operator, *arguments)


def result_of(found: "T | TaskError") -> T:
    """Give the result of a task, or raise its error."""
    if isinstance(found, TaskError):
        raise found.error
    return found


@dataclass(frozen=True)
class TaskError:
    """The error that a task on rank 0 ended with."""

    error: Exception
