"""Adding blocks of a matrix at places that do not lie side by side."""

from __future__ import annotations

from tnvmc.backend.host.kernel_cache import kernel


@kernel()
def add_at(total, rows, columns, block, scales):
    """Add block (m, n) to total[rows, columns], rounded as `jacobian.exact_sums` says.

    Real; no place may be named twice.  Nothing is checked.  `scales` are those of all rows, and of
    all columns, of `total`.
    """
    of_rows, of_columns = scales
    for i in range(rows.size):
        row = total[rows[i]]
        of_row = 3.0 * of_rows[rows[i]]
        for j in range(columns.size):
            big = of_row * of_columns[columns[j]]
            row[columns[j]] += (block[i, j] + big) - big


@kernel()
def add_complex_at(total, rows, columns, block, scales):
    """The same for complex matrices."""
    of_rows, of_columns = scales
    for i in range(rows.size):
        row = total[rows[i]]
        of_row = 3.0 * of_rows[rows[i]]
        for j in range(columns.size):
            big = of_row * of_columns[columns[j]]
            term = block[i, j]
            row[columns[j]] += complex((term.real + big) - big, (term.imag + big) - big)
