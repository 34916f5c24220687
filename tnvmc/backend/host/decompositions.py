"""Householder QR on the processor, of as many matrices at once as a vector has lanes.

The algorithm is that of LAPACK's dgeqr2 and dorg2r (Golub and Van Loan, Matrix Computations, section
5.2); an element of the matrices is one vector, the columns of a row lie side by side.
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
)  # fmt: skip


@numba.njit
def _reflect(a, m, width, j, k, tau):
    """Apply reflector j, whose own entry in row j is 1, to columns k to k + 3."""
    wide = lanes(a)
    place, step = (j * width + k) * wide, width * wide
    p0, p1 = load(a, place), load(a, place + wide)
    p2, p3 = load(a, place + 2 * wide), load(a, place + 3 * wide)
    column = (j * width + j) * wide
    for i in range(1, m - j):
        v, at = load(a, column + i * step), place + i * step
        p0, p1 = fma(v, load(a, at), p0), fma(v, load(a, at + wide), p1)
        p2, p3 = fma(v, load(a, at + 2 * wide), p2), fma(v, load(a, at + 3 * wide), p3)
    p0, p1, p2, p3 = multiply(tau, p0), multiply(tau, p1), multiply(tau, p2), multiply(tau, p3)
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
def factor(a, taus, m, n, width):
    """Replace the lower part of `a` by reflectors, and write minus their factors."""
    wide = lanes(a)
    zero = filled(a, 0.0)
    for j in range(n):
        place, step = (j * width + j) * wide, width * wide
        squares, diagonal = zero, load(a, place)
        for i in range(1, m - j):
            x = load(a, place + i * step)
            squares = fma(x, x, squares)
        size = copysign(sqrt(fma(diagonal, diagonal, squares)), diagonal)
        pivot = add(diagonal, size)
        inverse = divide(filled(a, 1.0), nonzero(pivot))
        for i in range(1, m - j):
            store(a, place + i * step, multiply(load(a, place + i * step), inverse))
        tau = subtract(zero, divide(pivot, nonzero(size))) if j < m - 1 else zero
        store(taus, j * wide, tau)
        for k in range(j + 1, n, 4):
            _reflect(a, m, width, j, k, tau)


@numba.njit
def form(a, taus, m, n, width):
    """Replace reflectors by the first n columns of their product."""
    wide = lanes(a)
    zero, one = filled(a, 0.0), filled(a, 1.0)
    for j in range(n - 1, -1, -1):
        tau = load(taus, j * wide)
        for k in range(j + 1, width):
            store(a, (j * width + k) * wide, zero)
        for k in range(j + 1, n, 4):
            _reflect(a, m, width, j, k, tau)
        store(a, (j * width + j) * wide, add(one, tau))
        for i in range(j + 1, m):
            place = (i * width + j) * wide
            store(a, place, multiply(tau, load(a, place)))


@numba.njit
def enter(a, lane, matrix, by_row, by_column, m, n):
    """Copy n columns of a matrix into one lane."""
    wide, width = lanes(a), n + 3
    for i in range(m):
        for j in range(n):
            place = (i * width + j) * wide + lane
            a[place] = matrix[i * by_row + j * by_column]


@numba.njit
def leave(a, lane, matrix, m, n):
    """Copy one lane into a matrix (m, n)."""
    wide, width = lanes(a), n + 3
    for i in range(m):
        for j in range(n):
            matrix[i * n + j] = a[(i * width + j) * wide + lane]
