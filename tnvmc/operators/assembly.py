"""The matrix of an operator for one diagonalisation: in blocks, by a kernel where there is one.

Where turning all spins over keeps the operator and the basis, the matrix falls into two blocks, of
the even and odd combinations (|p> +- |n - 1 - p>) / sqrt(2) of the states at positions p < n / 2.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tnvmc.backend import host
from tnvmc.operators.basis import Basis
from tnvmc.operators.properties import flip_invariant
from tnvmc.operators.spin import digits_of
from tnvmc.operators.term import Operator

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Where each row begins, columns, values; a column may come more than once in a row."""


def splits(operator: Operator, basis: Basis) -> bool:
    """Tell whether turning all spins over keeps operator and basis, but none of its states."""
    whole = basis.magnetisation in (None, 0) and basis.dimension % 2 == 0
    return whole and flip_invariant(operator)


class Blocks:
    """The blocks of a matrix, as linear operators; they share memory, so one is there at a time.

    Cost: 30 ns for each state and patch.  Memory: 21 bytes for each stored element while they are
    put together, 9 to 13 later (16 and 20 more if complex); half of it where the matrix `splits`.
    """

    def __init__(self, operator: Operator, basis: Basis) -> None:
        self._turned: np.ndarray | None = None
        self._sign = 1
        n = basis.dimension
        self.signs: tuple[int | None, ...] = (None,)
        if splits(operator, basis):
            self.signs, n = (1, -1), n // 2
        self.dimension = n  #: of a block
        self._starts, self._columns, self._values = _rows(operator, basis, n)
        self.dtype = self._values.dtype
        if n < basis.dimension:
            self._turned = self._columns >= n
            over = basis.dimension - 1 - self._columns[self._turned]
            self._columns[self._turned] = over
        if self.dtype == np.float64:
            with np.errstate(over="ignore", under="ignore"):
                narrow = self._values.astype(np.float32)
            if np.array_equal(narrow, self._values):  # couplings of 1/2 and the like: less to read
                self._values = narrow

    def operator(self, sign: int | None) -> Any:
        """Give a block as scipy.sparse.linalg.LinearOperator: until another is asked for."""
        from scipy.sparse.linalg import LinearOperator

        if sign is not None and sign != self._sign:
            np.negative(self._values, out=self._values, where=self._turned)
            self._sign = sign
        shape = (self.dimension, self.dimension)
        return LinearOperator(shape, matvec=self._product(), dtype=self.dtype)

    def _product(self) -> Callable[[np.ndarray], np.ndarray]:
        """A function that multiplies a vector by the block."""
        n, arrays = self.dimension, (self._starts, self._columns, self._values)
        if not host.available():
            from scipy.sparse import csr_matrix

            starts, columns, values = arrays
            matrix = csr_matrix((values.astype(self.dtype), columns, starts), shape=(n, n))
            return lambda x: np.asarray(matrix @ x)
        from tnvmc.backend.host import elements

        multiply: Any = elements.multiply
        unsigned = [x.view(x.dtype.str.replace("i", "u")) for x in arrays[:2]]

        def product(x: np.ndarray) -> np.ndarray:
            x = np.ascontiguousarray(x).reshape(-1)
            out: np.ndarray = np.empty_like(x)
            multiply(*unsigned, arrays[2], x, out)
            return out

        return product


def spread(vector: np.ndarray, sign: int | None) -> np.ndarray:
    """Give a vector of a block as one of the basis: (n,)."""
    if sign is None:
        return vector
    return np.asarray(np.concatenate([vector, sign * vector[::-1]]) / np.sqrt(2))


def _rows(operator: Operator, basis: Basis, n_rows: int) -> Rows:
    """The first rows of the matrix."""
    keeps = basis.magnetisation is None or operator.conserves_magnetisation
    plain = operator.fermions is None and host.available() and basis.tabled
    if not keeps or not plain:  # the first raises
        matrix = operator.sparse(basis.magnetisation)[:n_rows]
        return matrix.indptr.astype(np.int64), matrix.indices, matrix.data
    from tnvmc.backend.host.elements import Places, count, fill

    first, rank = basis.tables
    places = Places(basis.codes, first, rank, basis.n_sites, basis.local_dim)
    terms = _terms(operator, basis, len(rank))
    starts = np.empty(n_rows + 1, dtype=np.int64)
    count(terms, places, n_rows, starts)
    n_elements = int(starts[-1])
    narrow = np.int32 if max(n_elements, basis.dimension) < 2**31 else np.int64
    columns, values = np.empty(n_elements, dtype=narrow), np.empty(n_elements, terms.elements.dtype)
    fill(terms, places, starts, columns, values)
    return starts, columns, values


def _terms(operator: Operator, basis: Basis, n_tails: int) -> Any:
    """The tables of the kernel."""
    from tnvmc.backend.host.elements import Terms

    d, patches = basis.local_dim, list(operator.matrices)
    widest = max(map(len, patches), default=1)
    sites = np.full((len(patches), widest), -1)
    n_choices = np.zeros(len(patches), dtype=np.int64)
    elements: list[np.ndarray] = [np.zeros(0)]
    shifts: list[np.ndarray] = [np.zeros((2, 0), dtype=np.int64)]
    diagonals: list[np.ndarray] = [np.zeros(0)]
    counts: list[np.ndarray] = [np.zeros(0, dtype=np.int64)]
    for i, patch in enumerate(patches):
        sites[i, : len(patch)] = patch
        diagonals.append(np.diag(operator.matrices[patch]).real)
        replacement = operator.replacements.get(patch)
        if replacement is None:
            counts.append(np.zeros(d ** len(patch), dtype=np.int64))
            continue
        counts.append((replacement.elements != 0).sum(axis=1))
        n_choices[i] = replacement.targets.shape[1]
        elements.append(replacement.elements.reshape(-1))
        digits = digits_of(len(patch), d)
        change = digits[np.maximum(replacement.targets, 0)] - digits[:, None, :]
        place = np.array([d ** (basis.n_sites - 1 - site) for site in patch])
        parts = np.stack([place // n_tails, np.where(place < n_tails, place, 0)])
        shifts.append((change @ parts.T).reshape(-1, 2).T)
    dtype = np.complex128 if operator.is_complex else np.float64
    head_shift, tail_shift = np.concatenate(shifts, axis=1)
    n_states = np.array([d ** len(patch) for patch in patches], dtype=np.int64)
    n_elements = n_choices * n_states
    return Terms(
        sites, n_choices, np.cumsum(n_elements) - n_elements, np.cumsum(n_states) - n_states,
        np.concatenate(elements).astype(dtype), head_shift, tail_shift,
        np.concatenate(diagonals), np.concatenate(counts),
    )  # fmt: skip
