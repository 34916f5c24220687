"""Sums of matrices and vectors with the same bits in any order: of sites, threads or ranks.

A sum of numbers that are multiples of one quantum q is exact as long as it stays below 2^53 q.
Each entry (s, t) of a Gram matrix has a quantum of its own: all its partial sums are at most |O_s|
|O_t|, by Cauchy and Schwarz, and so at most a product of powers of two, one for each row.  Terms
are rounded to multiples of 2^-49 |O_s| |O_t| or finer before they are added: x -> (x + c) - c with
c = 3 scale_s scale_t (Rump, Ogita, Oishi, SIAM J. Sci. Comput. 31, 189 (2008), section 3).
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from tnvmc.backend.namespace import array_namespace
from tnvmc.backend.process import ALONE, Ranks


def square_sums(rows: Any) -> Any:
    """Compute sums of |entries|^2 of each row of a matrix of any array library, in double.

    The order of additions does not depend on how the matrix lies in memory.
    """
    xp = array_namespace(rows)
    if xp is not np:
        return xp.sum(xp.abs(rows) ** 2, axis=1, dtype=xp.float64)
    rows = np.ascontiguousarray(rows)
    if rows.dtype.kind == "c":
        rows = rows.view(rows.real.dtype)
    return np.einsum("ij,ij->i", rows, rows, dtype=np.float64)


def scales(norms: np.ndarray) -> np.ndarray:
    """Give powers of two, one for each row of squared norm n, of 1 to 2 times its norm."""
    with np.errstate(over="ignore", invalid="ignore"):
        exponents = np.frexp(np.sqrt(norms))[1]
        found = np.ldexp(1.0, exponents)
    found[~np.isfinite(norms)] = np.nan  # which all entries of the row become
    return np.asarray(found)


def rounded(terms: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Round terms (m, n), in double precision, for rows and columns of these scales."""
    big = 3.0 * rows[:, None] * columns
    if terms.dtype.kind != "c":
        return np.asarray((terms + big) - big)
    found = np.empty(terms.shape, np.complex128)
    found.real, found.imag = (terms.real + big) - big, (terms.imag + big) - big
    return found


def total(
    terms: Sequence[np.ndarray], n_terms: int, like: np.ndarray, ranks: Ranks = ALONE
) -> np.ndarray:
    """Add up vectors of which each rank has some: the result is on rank 0, the same in every bit.

    The quantum of an entry is 2^-50 of the largest term there, times their number, or finer.
    Entries with a term that is not finite become NaN. `terms` are those of this rank, of `n_terms`
    on all of them, each (n,) as `like`, whose type the sum has.
    """
    real = like.real.dtype
    flat = [np.ascontiguousarray(term, like.dtype).view(real) for term in terms]
    found = np.zeros(like.size * (like.itemsize // real.itemsize), np.float64)
    if n_terms > 1:
        flat = _to_one_quantum(flat, n_terms, found, ranks)
    with np.errstate(invalid="ignore", over="ignore"):  # not finite, and seen by who asked
        for term in flat:
            found += term
    ranks.combine(found, "sum")
    return found.astype(real, copy=False).view(like.dtype)


def summed(terms: Sequence[Any]) -> Any:
    """Add up vectors in one process: on NumPy as `total` does, elsewhere in their order."""
    if isinstance(terms[0], np.ndarray):
        return total(terms, len(terms), terms[0])
    return reduce(add, terms)


def _to_one_quantum(
    terms: Sequence[np.ndarray], n_terms: int, like: np.ndarray, ranks: Ranks
) -> list[np.ndarray]:
    """Round each entry to a multiple of the quantum of the largest term there on all ranks."""
    bound = np.zeros_like(like)
    for term in terms:
        np.maximum(bound, np.abs(term), out=bound)
    bound[np.isnan(bound)] = np.inf
    ranks.combine(bound, "max")
    with np.errstate(invalid="ignore", over="ignore"):
        big = 3.0 * np.ldexp(1.0, np.frexp(n_terms * bound)[1])
        big[~np.isfinite(bound)] = np.nan
        return [(term + big) - big for term in terms]


def sum_on_device(products: Iterable[Any], scales: Any) -> Any:
    """Add up matrices (M, M) in double precision on another array library than NumPy.

    They are rounded by `scales` (M,), in their namespace; None where nothing is to be rounded.
    """
    if scales is None:
        return reduce(add, products)
    big = 3.0 * scales[:, None] * scales[None, :]
    return reduce(add, (_rounded_elsewhere(product, big) for product in products))


def _rounded_elsewhere(product: Any, big: Any) -> Any:
    if "complex" not in str(product.dtype):
        return (product + big) - big
    xp = array_namespace(product)
    real, imaginary = ((part(product) + big) - big for part in (xp.real, xp.imag))
    return real + 1j * imaginary
