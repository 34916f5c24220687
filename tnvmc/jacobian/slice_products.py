"""Products of many rounded slices with vectors of more precision, on the processor.

NumPy would make a copy of a whole slice in the other precision.  Pieces of rows stay in the cache.
"""

from __future__ import annotations

import numpy as np

_ROWS = 128


def times(slice_: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Multiply (M, n) with (n, k): (M, k) in the precision of the finer one."""
    dtype = np.result_type(slice_, matrix)
    out = np.empty((len(slice_), matrix.shape[1]), dtype=dtype)
    for start in range(0, len(slice_), _ROWS):
        rows = slice(start, start + _ROWS)
        np.matmul(slice_[rows].astype(dtype), matrix, out=out[rows])
    return out


def times_slice(matrix: np.ndarray, slice_: np.ndarray) -> np.ndarray:
    """Multiply (k, M) with (M, n): (k, n) in the precision of the finer one."""
    dtype = np.result_type(slice_, matrix)
    total = np.zeros((len(matrix), slice_.shape[1]), dtype=dtype)
    for start in range(0, len(slice_), _ROWS):
        rows = slice(start, start + _ROWS)
        total += matrix[:, rows] @ slice_[rows].astype(dtype)
    return total
