"""The covariance S = A^dagger A of stochastic reconfiguration on processors: its lower triangle.

One process has all rows of tiles (`cholesky.Triangle`).  Of ranks each has some: for each few
samples a rank makes the centred log-derivatives of its own parameters dense, ranks send these to
each other, and each adds to its own rows.  So no rank has all of S, and all of them share the work
of S and of its Cholesky factor, with the bits of one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tnvmc.backend.process import Here, Place, Ranks, one_blas_thread
from tnvmc.jacobian.centered import CenteredJacobian, row_pieces
from tnvmc.jacobian.cholesky import Factor, Triangle
from tnvmc.jacobian.distributed import DistributedJacobian
from tnvmc.jacobian.tiles import n_stored, rows_of

MOST_PARAMETERS = 4096
"""Up to so many parameters S is kept from step to step where nothing is said: 32 MiB of float32,
and a solution that takes less time than the samples of most steps.
"""


@dataclass(frozen=True, eq=False)
class DistributedTriangle:
    """S (P, P) whose rows are on several ranks, seen from rank 0; see `cholesky.Triangle`."""

    n: int  #: P
    dtype: Any
    ranks: Ranks
    shares: tuple[Place, ...]  #: `Triangle` of each rank

    @property
    def shape(self) -> tuple[int]:
        """Of the numbers that are stored."""
        return (n_stored(self.n),)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._together(_gathered), dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return of_numbers, (np.asarray(self), self.n)

    def __deepcopy__(self, memo: Any) -> DistributedTriangle:
        return self  # nothing changes it

    def plus(self, jacobian: DistributedJacobian, samples: _Samples, factor: float) -> Covariance:
        """Give factor * S + A^dagger A, in the precision of S.

        Cost: M P^2 / 2, shared.  Traffic: M P numbers to each rank.  Memory: a second S.
        """
        both = [*zip(self.shares, jacobian.shares, strict=True)]
        return self._made(_plus, both, factor, samples)

    def in_units(self, units: np.ndarray) -> DistributedTriangle:
        """Give D S D for a diagonal D (P,)."""
        return self._made(_in_units, self.shares, units)

    def diagonal(self) -> np.ndarray:
        """Give the diagonal (P,), real."""
        return np.asarray(self._together(Triangle.diagonal))

    def times(self, x: np.ndarray) -> np.ndarray:
        """Compute S x for x (P,), in its precision."""
        return np.asarray(self._together(Triangle.times, x))

    def factor(self, shift: float) -> Factor | None:
        """Compute L with S + shift = L L^dagger, on rank 0; None where S + shift is not positive.

        Cost: P^3 / 3, shared.  Traffic: P^2 / 2 numbers to each rank.
        """
        found: Factor | None = self._together(Triangle.factor, shift)
        return found

    def dense(self) -> np.ndarray:
        """Give S (P, P), on rank 0."""
        return of_numbers(np.asarray(self), self.n).dense()

    def _made(self, task: Any, shares: Sequence[Any], *arguments: Any) -> DistributedTriangle:
        made = self.ranks.together(task, shares, *arguments)
        return DistributedTriangle(self.n, self.dtype, self.ranks, tuple(made))

    def _together(self, method: Any, *arguments: Any) -> Any:
        """What a method of `Triangle` that takes ranks gives on rank 0."""
        return self.ranks.together(_of_all, self.shares, method, *arguments)[0]


Covariance = Triangle | DistributedTriangle


def of_numbers(numbers: np.ndarray, n: int) -> Triangle:
    """Make S (n, n) of numbers as in a file (`n_stored`,)."""
    return Triangle(n, rows_of(n), np.asarray(numbers))


def of_samples(a: CenteredJacobian) -> Covariance:
    """Compute A^dagger A, in the precision of the weights or better."""
    zeros = np.zeros(n_stored(a.shape[1]), a.mean(0).dtype)
    return plus(of_numbers(zeros, a.shape[1]), a, 0.0)


def plus(before: Covariance, a: CenteredJacobian, factor: float) -> Covariance:
    """Give factor * S + A^dagger A, in the precision of S, on the ranks that have A."""
    jacobian, own = a.jacobian, before
    if isinstance(jacobian, DistributedJacobian):
        ranks = jacobian.ranks
        if not isinstance(own, DistributedTriangle) or own.ranks is not ranks:
            shares = ranks.together(_dealt, own.n, own.dtype, Here(np.asarray(own)))
            own = DistributedTriangle(own.n, own.dtype, ranks, tuple(shares))
        means = np.stack([a.mean(part) for part in range(a.parts)])
        return own.plus(jacobian, _Samples(means, a.weight), factor)
    if isinstance(own, DistributedTriangle):
        own = of_numbers(np.asarray(own), own.n)
    return own.plus(a.dense_rows(), factor)


class _Samples(NamedTuple):
    """What A is made of, beside log-derivatives."""

    means: np.ndarray  #: <O> (parts, P)
    weight: np.ndarray  #: (M,)


# --- what each rank does


def _dealt(ranks: Ranks, n: int, dtype: Any, numbers: Here) -> Triangle:
    """The rows of each rank, where rank 0 has the numbers of all."""
    of_rank = n, ranks.rank, ranks.size
    own = Triangle(n, rows_of(*of_rank), np.empty(n_stored(*of_rank), dtype))
    sent = [np.empty(0, dtype) for _ in range(ranks.size)]
    received = [each.copy() for each in sent]
    if numbers.value is not None:
        rows = Triangle(n, rows_of(n), numbers.value).rows
        for rank in range(ranks.size):
            parts = [rows[i].reshape(-1) for i in rows_of(n, rank, ranks.size)]
            sent[rank] = np.concatenate(parts) if parts else sent[rank]
    received[0] = own.numbers
    ranks.exchange(sent, received)
    return own


def _gathered(own: Triangle, ranks: Ranks) -> np.ndarray:
    """The numbers of all rows, on rank 0."""
    n, dtype = own.n, own.dtype
    sent = [np.empty(0, dtype) for _ in range(ranks.size)]
    received = [each.copy() for each in sent]
    sent[0] = own.numbers
    if ranks.rank == 0:
        received = [np.empty(n_stored(n, k, ranks.size), dtype) for k in range(ranks.size)]
    ranks.exchange(sent, received)
    if ranks.rank:
        return own.numbers
    whole = Triangle(n, rows_of(n), np.empty(n_stored(n), dtype))
    for rank, numbers in enumerate(received):
        for i, row in Triangle(n, rows_of(n, rank, ranks.size), numbers).rows.items():
            whole.rows[i][...] = row
    return whole.numbers


def _of_all(ranks: Ranks, shares: Sequence[Any], method: Any, *args: Any) -> Any:
    own = ranks.found(shares[ranks.rank])
    found = method(own, *args, ranks)
    return found if ranks.rank == 0 else None


def _in_units(ranks: Ranks, shares: Sequence[Any], units: np.ndarray) -> Triangle:
    own: Triangle = ranks.found(shares[ranks.rank])
    return own.in_units(units)


def _plus(ranks: Ranks, shares: Sequence[Any], factor: float, samples: _Samples) -> Triangle:
    own, share = map(ranks.found, shares[ranks.rank])
    with one_blas_thread():
        made: Triangle = own.plus(_dense_rows(ranks, share, samples, own.dtype), factor)
    return made


def _dense_rows(ranks: Ranks, share: Any, samples: _Samples, dtype: Any) -> Iterator[np.ndarray]:
    """Rows of A, some at a time, on each rank all of their parameters: (m, P)."""
    n_parts, n_params = samples.means.shape
    runs = [share.layout.parameters(each) for each in ranks.told(ranks.collected(share.places))]
    widths = [sum(run.stop - run.start for run in of_rank) for of_rank in runs]
    for part, rows in row_pieces(n_parts, len(samples.weight), n_params):
        own = np.empty((rows.stop - rows.start, widths[ranks.rank]), dtype)
        _fill_in(own, share, samples, part, rows)
        received = [np.empty((len(own), width), dtype) for width in widths]
        ranks.exchange([own] * ranks.size, received)
        whole = np.empty((len(own), n_params), dtype)
        for of_rank, columns in zip(runs, received, strict=True):
            begin = 0
            for run in of_rank:
                end = begin + run.stop - run.start
                whole[:, run] = columns[:, begin:end]
                begin = end
        yield whole


def _fill_in(own: np.ndarray, share: Any, samples: _Samples, part: int, rows: slice) -> None:
    """Fill in rows of A for the own parameters, as `CenteredJacobian.dense_rows` has them."""
    offset, begin = part * len(samples.weight), 0
    columns = share.products.dense_columns(slice(offset + rows.start, offset + rows.stop))
    root = np.sqrt(samples.weight[rows])[:, None]
    for run, values in zip(share.layout.parameters(share.places), columns, strict=True):
        end = begin + run.stop - run.start
        own[:, begin:end] = (values - samples.means[part, run]) * root
        begin = end
