"""Sums of matrices and vectors that are the same in every bit whatever the order: of sites, threads or ranks.

A sum of numbers that are multiples of one quantum q is exact as long as it stays below 2^53 q.  Each
entry (s, t) of a Gram matrix has a quantum of its own: all its partial sums are at most |O_s| |O_t|, by
Cauchy and Schwarz, and so at most a product of powers of two, one for each row.  Terms are rounded to
multiples of 2^-49 |O_s| |O_t| or finer before they are added: x -> (x + c) - c with c = 3 scale_s scale_t
(Rump, Ogita, Oishi, SIAM J. Sci. Comput. 31, 189 (2008), section 3).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tnvmc.backend.ranks import ALONE, Ranks


def norms(rows: np.ndarray) -> np.ndarray:
    """Squared norms of the rows of a matrix, in double precision, by the same sums wherever it lies."""
    rows = np.ascontiguousarray(rows)
    if rows.dtype.kind == "c":
        rows = rows.view(rows.real.dtype)
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def scales(norms: np.ndarray) -> np.ndarray:
    """Powers of two, one for each row of squared norm n, of 1 to 2 times its norm."""
    with np.errstate(over="ignore", invalid="ignore"):
        exponents = np.frexp(np.sqrt(norms))[1]
        found = np.ldexp(1.0, exponents)
    found[~np.isfinite(norms)] = np.nan  # which all entries of the row become
    return np.asarray(found)


def rounded(terms: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Terms (m, n), in double precision, rounded for rows and columns of these scales."""
    big = 3.0 * rows[:, None] * columns
    if terms.dtype.kind != "c":
        return np.asarray((terms + big) - big)
    found = np.empty(terms.shape, np.complex128)
    found.real, found.imag = (terms.real + big) - big, (terms.imag + big) - big
    return found


def total(
    terms: Sequence[np.ndarray], n_terms: int, like: np.ndarray, ranks: Ranks = ALONE
) -> np.ndarray:
    """Sum of vectors in double precision, of which each rank has some: on rank 0 the same in every bit.

    The quantum of an entry is 2^-50 of the largest term there, times their number, or finer.  Entries with a term that is
    not finite become NaN.

    Args:
        terms: those of this rank, each (n,).
        n_terms: of all ranks.
        like: an array (n,) of the type of the sum.
        ranks: all of them call this.
    """
    real = like.real.dtype
    flat = [np.ascontiguousarray(term, like.dtype).view(real) for term in terms]
    found = np.zeros(like.size * (like.itemsize // real.itemsize), np.float64)
    if n_terms > 1:
        flat = _to_one_quantum(flat, n_terms, found, ranks)
    with np.errstate(invalid="ignore", over="ignore"):  # not finite, and seen by who asked
        for term in flat:
            found += term
    ranks.add_up(found)
    return found.astype(real, copy=False).view(like.dtype)


def _to_one_quantum(
    terms: Sequence[np.ndarray], n_terms: int, like: np.ndarray, ranks: Ranks
) -> list[np.ndarray]:
    """Real terms, each entry rounded to a multiple of what follows from the largest one on all ranks."""
    bound = np.zeros_like(like)
    for term in terms:
        np.maximum(bound, np.abs(term), out=bound)
    bound[np.isnan(bound)] = np.inf
    ranks.largest(bound)
    with np.errstate(invalid="ignore", over="ignore"):
        big = 3.0 * np.ldexp(1.0, np.frexp(n_terms * bound)[1])
        big[~np.isfinite(bound)] = np.nan
        return [(term + big) - big for term in terms]
