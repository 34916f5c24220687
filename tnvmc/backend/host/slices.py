"""Products of slices with vectors, and sums of blocks at places that do not lie side by side."""

import numpy as np

from tnvmc.backend.host.compilation import kernel
from tnvmc.backend.host.vectors import keep, pointer, shifted


@kernel(fastmath={"reassoc", "contract"})
def dots(columns, spins, blocks, out):
    """Add the sums over k of columns[s, k] blocks[spins[s], k] to out[s], in its precision.

    `columns` are (M, w), with contiguous rows; `spins` (M,) say the row of `blocks` (d, w).
    """
    step, width = columns.strides[0] // columns.itemsize, columns.shape[1]
    first, block = pointer(columns, 0), pointer(blocks, 0)
    for s in range(spins.size):
        row, other = shifted(first, s * step), shifted(block, spins[s] * width)
        total = out[s]
        for k in range(width):
            total += row[k] * other[k]
        out[s] = total
    keep(columns, blocks)


@kernel(fastmath={"contract"})
def add_rows(columns, spins, factors, out):
    """Add conj(columns[s, k]) factors[s] to out[spins[s], k]; arguments as of `dots`."""
    step, width = columns.strides[0] // columns.itemsize, columns.shape[1]
    first, begin = pointer(columns, 0), pointer(out, 0)
    for s in range(spins.size):
        row, target, factor = shifted(first, s * step), shifted(begin, spins[s] * width), factors[s]
        for k in range(width):
            target[k] += np.conj(row[k]) * factor
    keep(columns, out)


@kernel()
def add_at(total, rows, columns, block, scales):
    """Add block (m, n) to total[rows, columns], rounded so that sums are exact; real numbers.

    No place may be named twice.  `scales` are those of all rows, and of all columns, of `total`.
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
