"""What some pieces of slices, or blocks of columns, add to O O^dagger, on a GPU or another array library.

Sums are exact (`jacobian.exact_sums`), so it does not matter which rank has which piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tnvmc.backend.namespace import array_namespace, to_namespace

Array = Any


def gram_of_units(
    units: Sequence[Array], spins: Array | None, sites: Sequence[int], scales: np.ndarray | None
) -> Array:
    """Sum over units of U U^dagger: (M, M), double precision whatever the units have.

    Args:
        units: (M, w) each, one at least.
        spins: (M, N) where units are slices: samples of other spins at the site of a unit do not meet there.
        sites: of the units; none where they are dense.
        scales: (M,) those of `exact_sums`; None where there is one unit in all.

    Cost: M^2 w multiplications for each unit.  Memory: some (M, M) arrays.
    """
    xp = array_namespace(units[0])
    of_rows = None if scales is None else to_namespace(scales, xp)
    total = None
    for k, unit in enumerate(units):
        product = unit @ xp.matrix_transpose(_conj(xp, unit))
        product = xp.astype(product, xp.complex128 if _is_complex(unit) else xp.float64)
        if spins is not None:
            spin = spins[:, sites[k]]
            zero = xp.zeros((), dtype=product.dtype)
            product = xp.where(spin[:, None] == spin[None, :], product, zero)
        if of_rows is not None:
            product = _rounded(xp, product, 3.0 * of_rows[:, None] * of_rows[None, :])
        total = product if total is None else total + product
    return total


def _rounded(xp: Any, product: Array, big: Array) -> Array:
    """See `exact_sums.rounded`."""
    if not _is_complex(product):
        return (product + big) - big
    real, imaginary = ((part(product) + big) - big for part in (xp.real, xp.imag))
    return real + 1j * imaginary


def _conj(xp: Any, array: Array) -> Array:
    return xp.conj(array) if _is_complex(array) else array


def _is_complex(array: Array) -> bool:
    return "complex" in str(array.dtype)
