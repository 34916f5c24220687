"""Products of the slices of a Jacobian with vectors: memory is read once, in order.

Sums are taken in the precision of the vector, whatever the slices have.
"""

from __future__ import annotations

import numpy as np

from tnvmc.backend.host.kernel_cache import kernel
from tnvmc.backend.host.vectors import keep, pointer, shifted


@kernel(fastmath={"reassoc", "contract"})
def dots(columns, spins, blocks, out):
    """Add the sums over k of columns[s, k] blocks[spins[s], k] to out[s].

    Args:
        columns: (M, w); rows are contiguous, and may be apart.
        spins: (M,), which say the row of `blocks`.
        blocks: (d, w), contiguous.
        out: (M,).
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
