"""The matrix sqrt(w) (O - <O>) of stochastic reconfiguration, without forming it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tnvmc.ansatz.jacobian import conj, dagger, structured
from tnvmc.ansatz.protocol import Jacobian
from tnvmc.ansatz.structured import StructuredJacobian
from tnvmc.backend.namespace import array_namespace, is_numpy
from tnvmc.backend.process import one_blas_thread, side_by_side

Array = Any

_DENSE_ENTRIES = 2**21
"""Entries of O that `add_covariance` makes dense at a time (16 MiB of float64)."""

_DENSE_ROWS = 512
"""Rows of O that it makes dense at least, so that S is read and written few times."""

_WIDTH = 512
"""Rows of S that are computed at a time, on NumPy: those of a matrix as large as S are memory new to
the process at each step, and touching it took as long as the products (13,110 parameters)."""


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
        means = sum(float(xp.sum(xp.abs(self._mean(part)) ** 2)) for part in range(self.parts))
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

    def covariance_times(self, v: Array) -> Array:
        """A^dagger A v: (P,), without the matrix."""
        return self.adjoint(self.apply(v))

    def covariance(self) -> Array:
        """S = A^dagger A: (P, P), for P <= M, in double precision where the weights are.  Cost M P^2."""
        xp, n_params = array_namespace(self.weight), self.shape[1]
        dtype = self._mean(0).dtype
        total = xp.zeros((n_params, n_params), dtype=dtype)
        self.add_covariance(total)
        return total

    def add_covariance(self, total: Array) -> None:
        """Add S to a matrix (P, P) in its place and in its precision.  Cost M P^2, half of it on NumPy.

        Centred rows are made dense in pieces, so nothing cancels, and no second matrix is made.
        """
        xp = array_namespace(self.weight)
        jacobian, n_params = structured(self.jacobian), self.shape[1]
        n_samples = self.weight.shape[0]
        step = max(_DENSE_ROWS, _DENSE_ENTRIES // max(1, n_params))
        for part in range(self.parts):
            mean, offset = self._mean(part), part * n_samples
            for start in range(0, n_samples, step):
                stop = min(start + step, n_samples)
                rows = jacobian.rows(offset + start, offset + stop).dense() - mean
                rows *= xp.sqrt(self.weight[start:stop])[:, None]
                _add_square(total, xp.astype(rows, total.dtype, copy=False))

    def _mean(self, part: int) -> Array:
        """<O> of one part: (P,)."""
        xp = array_namespace(self.weight)
        zeros = xp.zeros_like(self.weight)
        pieces = [self.weight if i == part else zeros for i in range(self.parts)]
        return conj(self.jacobian.adjoint(xp.concat(pieces)))


def _add_square(total: Array, rows: Array) -> None:
    """Add rows^dagger rows to total (P, P): on NumPy one triangle of it, which is the other one too."""
    if not is_numpy(array_namespace(total)):
        total += dagger(rows) @ rows
        return

    def add(start: int) -> None:
        stop = min(start + _WIDTH, len(total))
        piece = dagger(rows[:, start:stop]) @ rows[:, start:]
        total[start:stop, start:] += piece
        total[stop:, start:stop] += dagger(piece[:, stop - start :])

    with one_blas_thread(), side_by_side() as run:  # no two of them write to one place
        run(add, range(0, len(total), _WIDTH))
