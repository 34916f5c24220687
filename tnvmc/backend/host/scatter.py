"""Adding blocks of a matrix at places that do not lie side by side."""

from __future__ import annotations

import numba


@numba.njit(nogil=True, cache=True)
def add_at(total, rows, columns, block):
    """Add block (m, n) to total[rows, columns]; no place may be named twice.  Nothing is checked."""
    for i in range(rows.size):
        row = total[rows[i]]
        for j in range(columns.size):
            row[columns[j]] += block[i, j]
