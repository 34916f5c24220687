"""The covariance S = A^dagger A of stochastic reconfiguration on processors: its lower triangle.

Each rank has some rows of tiles of it (`cholesky.Triangle`).  For each few samples a rank makes the
centred log-derivatives of its own parameters dense, ranks send these to each other, and each adds
to its own rows.  So no rank has all of S, and all of them share the work of S and of its Cholesky
factor, with the bits of one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tnvmc.backend.process import one_blas_thread, threads_in_use, using_threads
from tnvmc.backend.ranks import ALONE, Here, Place, Ranks
from tnvmc.jacobian.centered import CenteredJacobian, row_pieces
from tnvmc.jacobian.cholesky import Factor, Triangle, n_stored, tiles_of
from tnvmc.jacobian.distributed import DistributedJacobian


@dataclass(frozen=True, eq=False)
class Covariance:
    """S (P, P), Hermitian; ``np.asarray`` gives its rows of tiles, as they are in a file."""

    n: int  #: P
    dtype: Any
    ranks: Ranks
    shares: tuple[Place | Triangle, ...]  #: of each rank

    @classmethod
    def of_numbers(cls, numbers: np.ndarray, n: int, ranks: Ranks = ALONE) -> Covariance:
        """Make it of numbers as in a file (`n_stored`,), dealt out."""
        dtype = numbers.dtype
        return cls(n, dtype, ranks, tuple(ranks.together(_dealt, n, dtype, Here(numbers))))

    @classmethod
    def of_samples(cls, a: CenteredJacobian) -> Covariance:
        """Compute A^dagger A, in the precision of the weights or better."""
        n, ranks = a.shape[1], _ranks_of(a)
        dtype = a.mean(0).dtype
        shares = tuple(ranks.together(_zeros, n, dtype))
        return cls(n, dtype, ranks, shares).plus(a, 0.0)

    @property
    def shape(self) -> tuple[int]:
        """Of the numbers that are stored."""
        return (n_stored(self.n),)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        numbers = np.asarray(self._together(Triangle.gathered), dtype)
        return numbers.copy() if copy else numbers

    def __reduce__(self) -> tuple[Any, ...]:
        return Covariance.of_numbers, (np.asarray(self), self.n)

    def __deepcopy__(self, memo: Any) -> Covariance:
        return self  # nothing changes it

    def plus(self, a: CenteredJacobian, factor: float) -> Covariance:
        """Give factor * S + A^dagger A, in the precision of S.

        Cost: M P^2 / 2, shared.  Traffic: M P numbers to each rank.  Memory: a second S.
        """
        ranks = _ranks_of(a)
        if ranks is not self.ranks:  # of one process, taken up on ranks; or the other way round
            return Covariance.of_numbers(np.asarray(self), self.n, ranks).plus(a, factor)
        jacobian = a.jacobian
        if isinstance(jacobian, DistributedJacobian):
            means = np.stack([a.mean(part) for part in range(a.parts)])
            samples: Any = _Samples(jacobian.shares, means, a.weight)
            made = ranks.together(_plus, self.shares, threads_in_use(), factor, samples)
        else:
            (own,) = self.shares
            assert isinstance(own, Triangle)
            made = [_added_to(own, factor, a.dense_rows())]
        return Covariance(self.n, self.dtype, ranks, tuple(made))

    def in_units(self, units: np.ndarray) -> Covariance:
        """Give D S D for a diagonal D (P,)."""
        made = self.ranks.together(_of_share, self.shares, threads_in_use(), _scaled, units)
        return Covariance(self.n, self.dtype, self.ranks, tuple(made))

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
        whole = Covariance.of_numbers(np.asarray(self), self.n).shares[0]
        assert isinstance(whole, Triangle)
        return whole.dense()

    def _together(self, method: Any, *arguments: Any) -> Any:
        """What a method of `Triangle` that takes ranks gives on rank 0."""
        n_threads = threads_in_use()
        return self.ranks.together(_of_all, self.shares, n_threads, method, *arguments)[0]


class _Samples(NamedTuple):
    """What S is made of."""

    shares: tuple[Place, ...]  #: of the log-derivatives, of each rank
    means: np.ndarray  #: <O> (parts, P)
    weight: np.ndarray  #: (M,)


def _ranks_of(a: CenteredJacobian) -> Ranks:
    """The ranks that have the log-derivatives."""
    jacobian = a.jacobian
    return jacobian.ranks if isinstance(jacobian, DistributedJacobian) else ALONE


# --- what each rank does


def _zeros(ranks: Ranks, n: int, dtype: Any) -> Triangle:
    return Triangle.zeros(n, dtype, ranks)


def _dealt(ranks: Ranks, n: int, dtype: Any, numbers: Here) -> Triangle:
    return Triangle.dealt(numbers.value, n, dtype, ranks)


def _of_all(ranks: Ranks, shares: Sequence[Any], n_threads: int, method: Any, *args: Any) -> Any:
    own = ranks.found(shares[ranks.rank])
    with using_threads(n_threads):
        found = method(own, *args, ranks)
    return found if ranks.rank == 0 else None


def _of_share(ranks: Ranks, shares: Sequence[Any], n_threads: int, task: Any, *args: Any) -> Any:
    with using_threads(n_threads):
        return task(ranks.found(shares[ranks.rank]), *args)


def _scaled(own: Triangle, units: np.ndarray) -> Triangle:
    tiles = tiles_of(own.n)

    def scale(i: int, row: np.ndarray, out: np.ndarray) -> None:
        np.multiply(units[tiles[i], None] * row, units[: row.shape[1]], out=out)

    return own.changed(scale)


def _added_to(own: Triangle, factor: float, rows: Iterator[np.ndarray]) -> Triangle:
    """A multiple of some rows of S, and what dense rows of A add to them."""
    total = own.changed(lambda i, row, out: np.multiply(row, factor, out=out))
    for part in rows:
        total.add_square(part.astype(total.numbers.dtype, copy=False))
    return total


def _plus(
    ranks: Ranks, shares: Sequence[Any], n_threads: int, factor: float, samples: _Samples
) -> Triangle:
    own, share = ranks.found(shares[ranks.rank]), ranks.found(samples.shares[ranks.rank])
    with one_blas_thread(), using_threads(n_threads):
        return _added_to(own, factor, _dense_rows(ranks, share, samples, own.numbers.dtype))


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
