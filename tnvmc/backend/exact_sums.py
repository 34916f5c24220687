"""Sums of matrices that are the same in every bit whatever the order: of sites, threads or ranks.

A sum of numbers that are multiples of one quantum q is exact as long as it stays below 2^53 q.  Each
entry (s, t) of a Gram matrix has a quantum of its own: all its partial sums are at most |O_s| |O_t|, by
Cauchy and Schwarz, and so at most a product of powers of two, one for each row.  Terms are rounded to
multiples of 2^-49 |O_s| |O_t| or finer before they are added: x -> (x + c) - c with c = 3 scale_s scale_t
(Rump, Ogita, Oishi, SIAM J. Sci. Comput. 31, 189 (2008), section 3).
"""

from __future__ import annotations

import numpy as np


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
