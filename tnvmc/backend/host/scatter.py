"""Adding blocks of a matrix at places that do not lie side by side."""

from __future__ import annotations

import numba


@numba.njit(nogil=True, cache=True)
def add_at(total, rows, columns, block, scales):
    """Add block (m, n) to total[rows, columns], rounded as `backend.exact_sums` says.

    Real; no place may be named twice.  Nothing is checked.
    """
    for i in range(rows.size):
        row = total[rows[i]]
        of_row = 3.0 * scales[rows[i]]
        for j in range(columns.size):
            big = of_row * scales[columns[j]]
            row[columns[j]] += (block[i, j] + big) - big


@numba.njit(nogil=True, cache=True)
def add_complex_at(total, rows, columns, block, scales):
    """The same for complex matrices."""
    for i in range(rows.size):
        row = total[rows[i]]
        of_row = 3.0 * scales[rows[i]]
        for j in range(columns.size):
            big = of_row * scales[columns[j]]
            term = block[i, j]
            row[columns[j]] += complex((term.real + big) - big, (term.imag + big) - big)
