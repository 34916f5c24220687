"""Householder QR on the processor, of as many matrices at once as a vector has lanes.

The algorithm is that of LAPACK's dgeqr2 and dorg2r (Golub and Van Loan, Matrix Computations,
section 5.2), for four columns at a time, which stay in the cache while all reflectors that concern
them are applied.  An element of the matrices is one vector, or two for complex numbers; the columns
of a row lie side by side.  Reflectors are Hermitian, with real factors: I - tau v v^H.
"""

import numpy as np
from numba import types

from tnvmc.backend.host.vectors import (
    add,
    chosen,
    copysign,
    divide,
    filled,
    fma,
    helper,
    lanes,
    load,
    multiply,
    nonzero,
    reals,
    sqrt,
    store,
    subtract,
    transpose_lanes,
    transpose_rows,
)  # fmt: skip

PANEL = 4
"""Columns at a time; rows of matrices have room for PANEL - 1 more."""


def _reflect_reals(a, m, width, j, k, tau, skipped, per):
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


def _reflector_of_reals(a, m, width, j, per):
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


def _reflect_pairs(a, m, width, j, k, tau, skipped, per):
    """Apply reflector j to columns k to k + 3 but the first few; complex numbers."""
    wide = lanes(a)
    step, v0 = 2 * width * wide, 2 * (j * width + j) * wide
    for column in range(skipped, PANEL):
        begin = 2 * (j * width + k + column) * wide
        x, y = load(a, begin), load(a, begin + wide)
        p = q = filled(a, 0.0)
        for i in range(1, m - j):
            v, u = load(a, v0 + i * step), load(a, v0 + i * step + wide)
            b, c = load(a, begin + i * step), load(a, begin + i * step + wide)
            x, y = fma(v, b, x), fma(v, c, y)
            p, q = fma(u, c, p), fma(u, b, q)
        x, y = multiply(tau, add(x, p)), multiply(tau, subtract(y, q))
        store(a, begin, add(load(a, begin), x))
        store(a, begin + wide, add(load(a, begin + wide), y))
        for i in range(1, m - j):
            v, u = load(a, v0 + i * step), load(a, v0 + i * step + wide)
            b, c = load(a, begin + i * step), load(a, begin + i * step + wide)
            store(a, begin + i * step, subtract(fma(v, x, b), multiply(u, y)))
            store(a, begin + i * step + wide, fma(u, x, fma(v, y, c)))


def _reflector_of_pairs(a, m, width, j, per):
    """Replace column j from row j on by its reflector; gives minus its factor; complex."""
    wide = lanes(a)
    place, step = 2 * (j * width + j) * wide, 2 * width * wide
    squares, x, y = filled(a, 0.0), load(a, place), load(a, place + wide)
    for i in range(1, m - j):
        b, c = load(a, place + i * step), load(a, place + i * step + wide)
        squares = fma(b, b, fma(c, c, squares))
    first = fma(x, x, multiply(y, y))
    modulus, size = sqrt(first), sqrt(add(first, squares))
    some = nonzero(modulus)
    along, across = add(divide(x, some), subtract(some, modulus)), divide(y, some)  # 1 for 0
    pivot = add(modulus, size)
    inverse = divide(filled(a, 1.0), nonzero(pivot))
    along, across = multiply(along, inverse), multiply(across, inverse)
    for i in range(1, m - j):  # x / p = x conj(p) / |p|^2
        b, c = load(a, place + i * step), load(a, place + i * step + wide)
        store(a, place + i * step, fma(b, along, multiply(c, across)))
        store(a, place + i * step + wide, subtract(multiply(c, along), multiply(b, across)))
    return subtract(filled(a, 0.0), divide(pivot, nonzero(size)))


@chosen
def _reflect(a, m, width, j, k, tau, skipped, per):
    return _reflect_reals if per.literal_value == 1 else _reflect_pairs


@chosen
def _reflector(a, m, width, j, per):
    return _reflector_of_reals if per.literal_value == 1 else _reflector_of_pairs


@helper
def factor(a, taus, m, n, p):
    """Replace the lower part of `a` by reflectors, and write minus their factors.

    Args:
        a: (m, n + PANEL - 1, p, lanes) real numbers.
        taus: (n, lanes).
        m, n: of the matrices.
        p: real numbers in one, 1 or 2.
    """
    wide, width = lanes(a), n + PANEL - 1
    for k in range(0, n, PANEL):
        for j in range(k):
            _reflect(a, m, width, j, k, load(taus, j * wide), np.int64(0), p)
        for j in range(k, min(k + PANEL, n)):
            tau = _reflector(a, m, width, j, p) if j < m - 1 else filled(a, 0.0)
            store(taus, j * wide, tau)
            if j + 1 < min(k + PANEL, n):
                _reflect(a, m, width, j, k, tau, j + 1 - k, p)


@helper
def form(a, taus, m, n, p):
    """Replace reflectors by the first n columns of their product; arguments as of `factor`."""
    wide, width = lanes(a), n + PANEL - 1
    zero, one = filled(a, 0.0), filled(a, 1.0)
    for k in range((n - 1) // PANEL * PANEL, -1, -PANEL):  # those further right need these
        end = min(k + PANEL, n)
        for j in range(end - 1, -1, -1):
            tau = load(taus, j * wide)
            for column in range(p * (j * width + max(j + 1, k)), p * (j * width + k + PANEL)):
                store(a, column * wide, zero)
            if j + 1 < end:
                _reflect(a, m, width, j, k, tau, max(0, j + 1 - k), p)
            if j >= k:
                for part in range(p):
                    diagonal = (p * (j * width + j) + part) * wide
                    store(a, diagonal, zero if part else add(one, tau))
                    for i in range(1, m - j):
                        place = diagonal + i * p * width * wide
                        store(a, place, multiply(tau, load(a, place)))


@helper
def enter(a, matrices, step, by_row, m, n, p):
    """Copy the first n columns of matrices, `step` numbers apart, into the lanes.

    Reads up to a vector beyond the end.
    """
    wide, width = lanes(a), p * (n + PANEL - 1)
    given = reals(matrices)
    for i in range(m):
        for j in range(0, p * n, wide):
            to, some = (i * width + j) * wide, min(wide, p * n - j)
            transpose_rows(given, p * i * by_row + j, p * step, a, to, wide, some)


@helper
def leave(a, matrices, step, m, n, p):
    """Copy all lanes into matrices (m, n), `step` apart.  Reads a vector beyond the end of a."""
    wide, width = lanes(a), p * (n + PANEL - 1)
    kept = reals(matrices)
    for i in range(m):
        for j in range(0, p * n, wide):
            at, some = (i * width + j) * wide, min(wide, p * n - j)
            transpose_lanes(a, at, wide, kept, p * i * n + j, p * step, some)


@helper
def leave_one(a, lane, matrix, m, n, p):
    """Copy one lane into a matrix (m, n)."""
    wide, width = lanes(a), p * (n + PANEL - 1)
    kept = reals(matrix)
    for i in range(m):
        for j in range(p * n):
            kept[p * i * n + j] = a[(i * width + j) * wide + lane]


@chosen
def conjugated(given, room, size):
    """Give complex conjugates of numbers, in `room`; reals stay where they are."""
    return _of_pairs if given.dtype in types.complex_domain else _of_reals


def _of_pairs(given, room, size):
    for i in range(size):
        room[i] = given[i].conjugate()
    return room


def _of_reals(given, room, size):
    return given
