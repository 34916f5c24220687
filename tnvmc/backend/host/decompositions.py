"""Householder QR on the processor, of as many matrices at once as a vector has lanes.

The algorithm is that of LAPACK's dgeqr2 and dorg2r (Golub and Van Loan, Matrix Computations, section
5.2), for four columns at a time, which stay in the cache while all reflectors that concern them are
applied.  An element of the matrices is one vector; the columns of a row lie side by side.
"""

from __future__ import annotations

import numba

from tnvmc.backend.host.vectors import (
    add,
    copysign,
    divide,
    filled,
    fma,
    lanes,
    load,
    multiply,
    nonzero,
    sqrt,
    store,
    subtract,
    transpose_lanes,
    transpose_rows,
)  # fmt: skip

PANEL = 4
"""Columns at a time; rows of matrices have room for PANEL - 1 more."""


@numba.njit
def _reflect(a, m, width, j, k, tau, skipped):
    """Apply reflector j, whose own entry in row j is 1, to columns k to k + 3 but the first few."""
    wide = lanes(a)
    place, step = (j * width + k) * wide, width * wide
    p0, p1 = load(a, place), load(a, place + wide)
    p2, p3 = load(a, place + 2 * wide), load(a, place + 3 * wide)
    q0 = q1 = q2 = q3 = filled(a, 0.0)
    column, i = (j * width + j) * wide, 1
    while i + 1 < m - j:  # two rows at a time: eight sums that do not wait for each other
        v, at = load(a, column + i * step), place + i * step
        u, to = load(a, column + (i + 1) * step), place + (i + 1) * step
        p0, p1 = fma(v, load(a, at), p0), fma(v, load(a, at + wide), p1)
        p2, p3 = fma(v, load(a, at + 2 * wide), p2), fma(v, load(a, at + 3 * wide), p3)
        q0, q1 = fma(u, load(a, to), q0), fma(u, load(a, to + wide), q1)
        q2, q3 = fma(u, load(a, to + 2 * wide), q2), fma(u, load(a, to + 3 * wide), q3)
        i += 2
    if i < m - j:
        v, at = load(a, column + i * step), place + i * step
        p0, p1 = fma(v, load(a, at), p0), fma(v, load(a, at + wide), p1)
        p2, p3 = fma(v, load(a, at + 2 * wide), p2), fma(v, load(a, at + 3 * wide), p3)
    none = filled(a, 0.0)
    p0 = none if skipped > 0 else multiply(tau, add(p0, q0))
    p1 = none if skipped > 1 else multiply(tau, add(p1, q1))
    p2 = none if skipped > 2 else multiply(tau, add(p2, q2))
    p3 = multiply(tau, add(p3, q3))
    store(a, place, add(load(a, place), p0))
    store(a, place + wide, add(load(a, place + wide), p1))
    store(a, place + 2 * wide, add(load(a, place + 2 * wide), p2))
    store(a, place + 3 * wide, add(load(a, place + 3 * wide), p3))
    for i in range(1, m - j):
        v, at = load(a, column + i * step), place + i * step
        store(a, at, fma(v, p0, load(a, at)))
        store(a, at + wide, fma(v, p1, load(a, at + wide)))
        store(a, at + 2 * wide, fma(v, p2, load(a, at + 2 * wide)))
        store(a, at + 3 * wide, fma(v, p3, load(a, at + 3 * wide)))


@numba.njit
def _reflector(a, m, width, j):
    """Replace column j from row j on by its reflector, and give minus the factor of it."""
    wide = lanes(a)
    place, step = (j * width + j) * wide, width * wide
    squares, diagonal = filled(a, 0.0), load(a, place)
    for i in range(1, m - j):
        x = load(a, place + i * step)
        squares = fma(x, x, squares)
    size = copysign(sqrt(fma(diagonal, diagonal, squares)), diagonal)
    pivot = add(diagonal, size)
    inverse = divide(filled(a, 1.0), nonzero(pivot))
    for i in range(1, m - j):
        store(a, place + i * step, multiply(load(a, place + i * step), inverse))
    return subtract(filled(a, 0.0), divide(pivot, nonzero(size)))


@numba.njit
def factor(a, taus, m, n, width):
    """Replace the lower part of `a` by reflectors, and write minus their factors."""
    wide = lanes(a)
    for k in range(0, n, PANEL):
        for j in range(k):
            _reflect(a, m, width, j, k, load(taus, j * wide), 0)
        for j in range(k, min(k + PANEL, n)):
            tau = _reflector(a, m, width, j) if j < m - 1 else filled(a, 0.0)
            store(taus, j * wide, tau)
            if j + 1 < min(k + PANEL, n):
                _reflect(a, m, width, j, k, tau, j + 1 - k)


@numba.njit
def form(a, taus, m, n, width):
    """Replace reflectors by the first n columns of their product."""
    wide = lanes(a)
    zero, one = filled(a, 0.0), filled(a, 1.0)
    for k in range(
        (n - 1) // PANEL * PANEL, -1, -PANEL
    ):  # those further right need these reflectors
        end = min(k + PANEL, n)
        for j in range(end - 1, -1, -1):
            tau = load(taus, j * wide)
            for column in range(max(j + 1, k), k + PANEL):
                store(a, (j * width + column) * wide, zero)
            if j + 1 < end:
                _reflect(a, m, width, j, k, tau, max(0, j + 1 - k))
            if j >= k:
                store(a, (j * width + j) * wide, add(one, tau))
                for i in range(j + 1, m):
                    place = (i * width + j) * wide
                    store(a, place, multiply(tau, load(a, place)))


@numba.njit
def enter_columns(a, matrices, step, by_column, m, n):
    """Copy the first n columns of matrices, `step` numbers apart, into the lanes; columns are contiguous.

    Reads up to a vector beyond the end.
    """
    wide, width = lanes(a), n + PANEL - 1
    for i in range(n):
        for j in range(0, m, wide):
            to, some = (j * width + i) * wide, min(wide, m - j)
            transpose_rows(matrices, i * by_column + j, step, a, to, width * wide, some)


@numba.njit
def enter_rows(a, matrices, step, by_row, m, n):
    """Copy the first n columns of matrices, `step` numbers apart, into the lanes; rows are contiguous.

    Reads up to a vector beyond the end.
    """
    wide, width = lanes(a), n + PANEL - 1
    for i in range(m):
        for j in range(0, n, wide):
            to = (i * width + j) * wide
            transpose_rows(matrices, i * by_row + j, step, a, to, wide, min(wide, n - j))


@numba.njit
def leave(a, matrices, step, m, n):
    """Copy all lanes into matrices (m, n), `step` numbers apart.  Reads up to a vector beyond the end of a."""
    wide, width = lanes(a), n + PANEL - 1
    for i in range(m):
        for j in range(0, n, wide):
            at = (i * width + j) * wide
            transpose_lanes(a, at, wide, matrices, i * n + j, step, min(wide, n - j))


@numba.njit
def leave_one(a, lane, matrix, m, n):
    """Copy one lane into a matrix (m, n)."""
    wide, width = lanes(a), n + PANEL - 1
    for i in range(m):
        for j in range(n):
            matrix[i * n + j] = a[(i * width + j) * wide + lane]
