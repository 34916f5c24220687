"""The matrix sqrt(w) (O - <O>) of stochastic reconfiguration, without forming it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tnvmc.backend.namespace import array_namespace
from tnvmc.jacobian.base import Jacobian, StructuredJacobian
from tnvmc.jacobian.jacobian import conj, dagger, structured

Array = Any

_DENSE_ENTRIES = 2**21
"""Entries of O that are made dense at a time (16 MiB of float64)."""

_DENSE_ROWS = 512
"""Rows of O that are made dense at least, so that S is read and written few times."""


@dataclass(frozen=True)
class CenteredJacobian:
    """A = sqrt(w) (O - <O>) with <O> = sum_s w_s O_s, as an operator; A is never formed.

    A^dagger A is the covariance S of stochastic reconfiguration, A A^dagger the matrix of its
    sample-space form.  With ``parts=2`` the rows are real parts, then imaginary parts, of the
    same M samples (see `stack_real`), each centred with the same weights.
    """

    jacobian: Jacobian  #: (parts * M, P)
    weight: Array  #: (M,) not negative, summing to 1
    parts: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        """(parts * M, P)."""
        return self.jacobian.shape

    def apply(self, v: Array) -> Array:
        """A v: (P,) -> (parts * M,)."""
        return self.centred(self.jacobian.apply(v))

    def adjoint(self, u: Array) -> Array:
        """A^dagger u: (parts * M,) -> (P,).  Centring acts on u, so O is touched once."""
        return self.jacobian.adjoint(self.centred_adjoint(u))

    def centred(self, values: Array) -> Array:
        """A v from O v."""
        xp = array_namespace(values)
        values = xp.reshape(values, (self.parts, -1))
        values = values - xp.sum(self.weight * values, axis=1, keepdims=True)
        return xp.reshape(xp.sqrt(self.weight) * values, (-1,))

    def centred_adjoint(self, u: Array) -> Array:
        """The vector with A^dagger u = O^dagger times it."""
        xp = array_namespace(u)
        values = xp.sqrt(self.weight) * xp.reshape(u, (self.parts, -1))
        values = values - self.weight * xp.sum(values, axis=1, keepdims=True)
        return xp.reshape(values, (-1,))

    def trace(self) -> float:
        """Trace of A A^dagger, which is that of A^dagger A.  Cost: one look at O, and `adjoint`."""
        xp = array_namespace(self.weight)
        squares = xp.reshape(structured(self.jacobian).squares(), (self.parts, -1))
        means = sum(float(xp.sum(xp.abs(self.mean(part)) ** 2)) for part in range(self.parts))
        return float(xp.sum(self.weight * squares)) - means

    def gram(self) -> Array:
        """A A^dagger: (parts * M, parts * M), by rank-one corrections of O O^dagger.

        Rounding: of the order of eps |O_s| |O_t|, not of the centred rows, so some
        (|<O>| / spread of O)^2 of the sixteen digits are lost.
        """
        xp = array_namespace(self.weight)
        n_rows, n_samples = self.shape[0], self.weight.shape[0]
        by_row = xp.reshape(self._own_gram(), (self.parts, n_samples, n_rows))
        by_row -= self.weight[None, None, :] @ by_row
        by_column = xp.reshape(by_row, (n_rows, self.parts, n_samples))
        by_column -= xp.reshape(by_column @ self.weight, (n_rows, self.parts, 1))
        root = xp.tile(xp.sqrt(self.weight), (self.parts,))
        gram = xp.reshape(by_column, (n_rows, n_rows))
        gram *= root[:, None]
        gram *= root
        return gram

    def _own_gram(self) -> Array:
        """O O^dagger in an array that may be changed: a foreign Jacobian may keep its own."""
        gram = self.jacobian.gram()
        if isinstance(self.jacobian, StructuredJacobian):
            return gram
        return array_namespace(gram).asarray(gram, copy=True)

    def gram_times(self, u: Array) -> Array:
        """A A^dagger u: (parts * M,), without the matrix."""
        return self.apply(self.adjoint(u))

    def covariance(self) -> Array:
        """S = A^dagger A: (P, P), for P <= M, in double precision where the weights are.  Cost M P^2.

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
        """Rows of A in pieces (m, P): what is centred first does not cancel later."""
        xp, jacobian = array_namespace(self.weight), structured(self.jacobian)
        n_samples = self.weight.shape[0]
        means = [self.mean(part) for part in range(self.parts)]
        for part, piece in row_pieces(self.parts, n_samples, self.shape[1]):
            offset = part * n_samples
            rows = jacobian.rows(offset + piece.start, offset + piece.stop).dense() - means[part]
            rows *= xp.sqrt(self.weight[piece])[:, None]
            yield rows

    def mean(self, part: int) -> Array:
        """<O> of one part: (P,)."""
        xp = array_namespace(self.weight)
        zeros = xp.zeros_like(self.weight)
        pieces = [self.weight if i == part else zeros for i in range(self.parts)]
        return conj(self.jacobian.adjoint(xp.concat(pieces)))


def row_pieces(n_parts: int, n_samples: int, n_params: int) -> list[tuple[int, slice]]:
    """Samples of each part that are made dense together: the same for any number of ranks."""
    step = max(_DENSE_ROWS, _DENSE_ENTRIES // max(1, n_params))
    pieces = [slice(i, min(i + step, n_samples)) for i in range(0, n_samples, step)]
    return [(part, piece) for part in range(n_parts) for piece in pieces]
