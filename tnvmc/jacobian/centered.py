"""A = sqrt(w) (O - <O>) of stochastic reconfiguration, and A A^dagger, without forming either."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tnvmc.backend.namespace import array_namespace, conj, dagger
from tnvmc.jacobian.base import JacobianBase, LocalJacobian
from tnvmc.jacobian.distributed import DistributedJacobian
from tnvmc.jacobian.gram_operator import (
    Call,
    CenteringTerms,
    GramOperator,
    result_of,
    run_on_rank_0,
)
from tnvmc.jacobian.hstack import HStackJacobian

Array = Any
T = TypeVar("T")

_DENSE_ENTRIES = 2**21
"""Entries of O that are made dense at a time (16 MiB of float64)."""

_DENSE_ROWS = 512
"""Rows of O that are made dense at least, so that S is read and written few times."""


@dataclass(frozen=True)
class CenteredJacobian:
    """A = sqrt(w) (O - <O>) with <O> = sum_s w_s O_s, as an operator; A is never formed.

    A^dagger A is the covariance S of stochastic reconfiguration, A A^dagger the matrix of its
    sample-space form.  With ``parts=2`` the rows are real parts, then imaginary parts, of the
    same M samples (see `JacobianBase.stacked_real`), each centred with the same weights.
    """

    jacobian: JacobianBase  #: (parts * M, P)
    weight: Array  #: (M,) not negative, summing to 1
    parts: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        """(parts * M, P)."""
        return self.jacobian.shape

    def apply(self, v: Array) -> Array:
        """Compute A v: (P,) -> (parts * M,)."""
        return self.centred(self.jacobian.apply(v))

    def adjoint(self, u: Array) -> Array:
        """Compute A^dagger u: (parts * M,) -> (P,).  Centring acts on u, so O is touched once."""
        return self.jacobian.adjoint(self.centred_adjoint(u))

    def centred(self, values: Array) -> Array:
        """Compute A v from O v."""
        xp = array_namespace(values)
        values = xp.reshape(values, (self.parts, -1))
        values = values - xp.sum(self.weight * values, axis=1, keepdims=True)
        return xp.reshape(xp.sqrt(self.weight) * values, (-1,))

    def centred_adjoint(self, u: Array) -> Array:
        """Give the vector with A^dagger u = O^dagger times it."""
        xp = array_namespace(u)
        values = xp.sqrt(self.weight) * xp.reshape(u, (self.parts, -1))
        values = values - self.weight * xp.sum(values, axis=1, keepdims=True)
        return xp.reshape(values, (-1,))

    def trace(self) -> float:
        """Compute the trace of A A^dagger, which is that of A^dagger A.

        Cost: one look at O, and `adjoint`.
        """
        xp = array_namespace(self.weight)
        squares = xp.reshape(self.jacobian.squared_norms(), (self.parts, -1))
        means = sum(float(xp.sum(xp.abs(self.mean(part)) ** 2)) for part in range(self.parts))
        return float(xp.sum(self.weight * squares)) - means

    def gram(self) -> Array:
        """Compute A A^dagger: (parts * M, parts * M), by rank-one corrections of O O^dagger.

        Rounding: of the order of eps |O_s| |O_t|, not of the centred rows, so some
        (|<O>| / spread of O)^2 of the sixteen digits are lost.
        """
        xp = array_namespace(self.weight)
        n_rows, n_samples = self.shape[0], self.weight.shape[0]
        by_row = xp.reshape(self.jacobian.gram(), (self.parts, n_samples, n_rows))
        by_row -= self.weight[None, None, :] @ by_row
        by_column = xp.reshape(by_row, (n_rows, self.parts, n_samples))
        by_column -= xp.reshape(by_column @ self.weight, (n_rows, self.parts, 1))
        root = xp.tile(xp.sqrt(self.weight), (self.parts,))
        gram = xp.reshape(by_column, (n_rows, n_rows))
        gram *= root[:, None]
        gram *= root
        return gram

    def covariance(self) -> Array:
        """Compute S = A^dagger A: (P, P), in double precision where the weights are.  Cost M P^2.

        On processors `tnvmc.jacobian.covariance.Covariance` is faster, and has half of it.
        """
        xp, n_params = array_namespace(self.weight), self.shape[1]
        total = xp.zeros((n_params, n_params), dtype=self.mean(0).dtype)
        self.add_covariance(total)
        return total

    def add_covariance(self, total: Array) -> None:
        """Add S to a matrix (P, P) in its place and in its precision.  Cost M P^2."""
        xp = array_namespace(self.weight)
        for rows in self.dense_rows():
            rows = xp.astype(rows, total.dtype, copy=False)
            total += dagger(rows) @ rows

    def dense_rows(self) -> Iterator[Array]:
        """Give the rows of A in pieces (m, P): what is centred first does not cancel later."""
        xp, jacobian = array_namespace(self.weight), self.jacobian
        n_samples = self.weight.shape[0]
        means = [self.mean(part) for part in range(self.parts)]
        for part, piece in row_pieces(self.parts, n_samples, self.shape[1]):
            offset = part * n_samples
            rows = jacobian.rows(offset + piece.start, offset + piece.stop).dense() - means[part]
            rows *= xp.sqrt(self.weight[piece])[:, None]
            yield rows

    def mean(self, part: int) -> Array:
        """Compute <O> of one part: (P,)."""
        xp = array_namespace(self.weight)
        zeros = xp.zeros_like(self.weight)
        pieces = [self.weight if i == part else zeros for i in range(self.parts)]
        return conj(self.jacobian.adjoint(xp.concat(pieces)))


def row_pieces(n_parts: int, n_samples: int, n_params: int) -> list[tuple[int, slice]]:
    """Give the samples of each part that are made dense together, for any number of ranks."""
    step = max(_DENSE_ROWS, _DENSE_ENTRIES // max(1, n_params))
    pieces = [slice(i, min(i + step, n_samples)) for i in range(0, n_samples, step)]
    return [(part, piece) for part in range(n_parts) for piece in pieces]


@dataclass(frozen=True)
class SampleSpace:
    """The matrix A A^dagger (n, n) for iterations, seen from rank 0."""

    a: CenteredJacobian
    call: Call | None = None
    """Of methods of `GramOperator`, on all ranks and on NumPy, which then may have some columns C
    (n, l) of the matrix; None: products with A are all there is."""

    def times(self, u: Array) -> Array:
        """Compute A A^dagger u: (n,) -> (n,)."""
        if self.call is None:
            return self.a.apply(self.a.adjoint(u))
        return self.a.centred(self.call(GramOperator.times, self.a.centred_adjoint(u)))

    def choose(self, chosen: np.ndarray) -> np.ndarray:
        """Let C be the columns of these samples; gives their rows (l, l).

        Cost: 2 l / n of the matrix.
        """
        assert self.call is not None
        weight, parts = self.a.weight, self.a.parts
        of_parts = np.kron(np.eye(parts), weight)
        means = np.stack([self.call(GramOperator.times, each) for each in of_parts], axis=1)
        root = np.tile(np.sqrt(weight), parts)
        terms = CenteringTerms(means, of_parts @ means, root)
        core = self.call(GramOperator.choose, chosen, terms)
        return np.asarray((core + dagger(core)) / 2)


def in_sample_space(a: CenteredJacobian, task: Callable[[SampleSpace], T]) -> T:
    """Carry out a task that needs products with A A^dagger, on all ranks that have a part of A."""
    jacobian = a.jacobian

    def shared(call: Call) -> T:
        return task(SampleSpace(a, call))

    if array_namespace(a.weight) is not np:
        return task(SampleSpace(a))
    if isinstance(jacobian, DistributedJacobian):
        return jacobian.with_all_ranks(shared)
    if isinstance(jacobian, LocalJacobian):
        products, double = jacobian.products, np.result_type(jacobian.dtype, np.float64)
        operator = GramOperator(products, len(products.units), a.shape[0], double)
        return result_of(run_on_rank_0(operator, shared))
    return task(SampleSpace(a))  # of several states, each on ranks by itself


_LEAST_DIAGONAL = 1e-12
"""Of a mean diagonal over that of all parts: below it the derivatives of a part are rounding."""


def in_own_units(a: CenteredJacobian) -> tuple[CenteredJacobian, Array | None]:
    """Give A with the parameters of each part in a unit of its own, and these units (P,).

    In these units each part has the same mean diagonal of S, that of all of them before.  The shift
    of SR is relative to that mean, so without units it would hold back the part whose
    log-derivatives are small.  With x the solution for the new A, units * x is that for the old
    one; None where there are no parts side by side.

    Cost: one look at O, and a product with O^dagger.
    """
    jacobian = a.jacobian
    if not isinstance(jacobian, HStackJacobian):
        return a, None
    traces = [max(replace(a, jacobian=part).trace(), 0.0) for part in jacobian.parts]
    sizes = [part.shape[1] for part in jacobian.parts]
    mean = sum(traces) / sum(sizes)
    units = tuple(
        math.sqrt(mean * size / trace) if trace > _LEAST_DIAGONAL * mean * size else 1.0
        for trace, size in zip(traces, sizes, strict=True)
    )
    xp = array_namespace(a.weight)
    columns = [xp.full((n,), unit, dtype=xp.float64) for n, unit in zip(sizes, units, strict=True)]
    return replace(a, jacobian=replace(jacobian, units=units)), xp.concat(columns)
