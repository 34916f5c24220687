"""A preconditioner from some columns of the matrix, for conjugate gradients in the space of
samples.

With C the columns of A A^dagger that belong to l samples, W their rows and L L^dagger = W + nu,

    A A^dagger ~ B B^dagger,   B = C L^-dagger,

is a Nystroem approximation: never larger than A A^dagger, and good for its large eigenvalues, which
take conjugate gradients most of their iterations (Frangella, Tropp, Udell, SIAM J. Matrix Anal.
Appl. 44, 718 (2023)).  The inverse of B B^dagger + mu, with mu the shift and the mean eigenvalue of
what B leaves out, is (1 - T T^dagger) / mu with T = B K^-dagger and K K^dagger = B^dagger B + mu.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tnvmc.jacobian.centered import SampleSpace, SharedSampleSpace

Array = Any

MOST_COLUMNS = 1536
_SHARE = 8  # rows of the matrix for each of the columns
_FEWEST = 16  # columns that are worth it
_CORE = 0.1
"""Of W: nu is this times the shift, on the scale of W.  It stands above the rounding of entries,
and changes eigenvalues that matter by a tenth of the shift.
"""


def preconditioner(
    space: SampleSpace, shift: float, trace: float
) -> Callable[[Array], Array] | None:
    """Give a positive multiple of an approximate inverse of A A^dagger + shift: (n,) -> (n,).

    None where there are no columns to be had, few samples, or rounding leaves nothing of W.

    Args:
        space: products with A A^dagger, and its columns.
        shift: what is added to the diagonal.
        trace: that of A A^dagger.

    Cost: n l entries of the matrix, n l^2 for B and its square, shared by all ranks; 2 l^3 / 3 on
    rank 0.
    """
    n = space.n_rows
    n_columns = min(MOST_COLUMNS, n // _SHARE)
    if not isinstance(space, SharedSampleSpace) or n_columns < _FEWEST or not shift > 0:
        return None
    core = space.choose(np.arange(n_columns) * n // n_columns)
    if not np.isfinite(core).all():
        return None
    one = np.eye(n_columns)
    try:
        space.divide(np.linalg.cholesky(core + _CORE * shift * n_columns / n * one))
        square = space.square()
        rest = max(trace - float(np.trace(square).real), 0.0) / (n - n_columns)
        space.divide(np.linalg.cholesky(square + (shift + rest) * one))
    except np.linalg.LinAlgError:
        return None
    return lambda r: r - space.columns_times(space.columns_adjoint(r))
