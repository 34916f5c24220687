"""Log-derivatives in single precision: half of the memory, and a bound on what it changes.

A rounded entry differs by at most `UNIT_ROUNDOFF` of itself.  Products with rounded slices are taken in
the precision of what they are multiplied with, so nothing else is rounded but the entries.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tnvmc.backend.namespace import array_namespace, is_numpy
from tnvmc.jacobian.base import Jacobian, StructuredJacobian
from tnvmc.jacobian.beside import BesideJacobian
from tnvmc.jacobian.centred import CenteredJacobian
from tnvmc.jacobian.jacobian import SliceJacobian, structured

Array = Any

UNIT_ROUNDOFF = 2.0**-24
"""Of single precision: relative error of a rounded number."""

_LARGEST, _SMALLEST = 2.0**40, 2.0**-40
"""Between them the largest entry of a site must lie: then squares neither overflow nor vanish, and what
becomes 0 (entries below 1e-45) is far less than the rounding of the others."""

_SINGLE = {"float64": np.float32, "complex128": np.complex64}


def in_single(jacobian: Jacobian) -> Jacobian:
    """Give slices in single precision, on NumPy.

    Anything else comes back as it is, and so do slices whose entries do not lie in the range of single
    precision: those are too large, too small, or not finite.
    """
    if isinstance(jacobian, BesideJacobian):
        return BesideJacobian(tuple(structured(in_single(part)) for part in jacobian.parts))
    if not isinstance(jacobian, SliceJacobian) or str(jacobian.dtype) not in _SINGLE:
        return jacobian
    if not is_numpy(array_namespace(jacobian.spins)) or not all(map(_fits, jacobian.slices)):
        return jacobian
    single = _SINGLE[str(jacobian.dtype)]
    slices = [slice_.astype(single) for slice_ in jacobian.slices]
    return SliceJacobian(slices, jacobian.spins, jacobian.local_dim)


def is_rounded(jacobian: Jacobian, theta: Array) -> bool:
    """Tell whether slices have less precision than the parameters they belong to."""
    if isinstance(jacobian, BesideJacobian):
        return any(is_rounded(part, theta) for part in jacobian.parts)
    if not isinstance(jacobian, StructuredJacobian) or jacobian.about().widths is None:
        return False  # dense ones have the precision of their state
    xp = array_namespace(theta)
    return bool(xp.finfo(jacobian.dtype).eps > xp.finfo(theta.dtype).eps)


def rounding_of(a: CenteredJacobian) -> float:
    """Bound the norm |A - A'| of what rounding to single precision has changed in A, for slices.

    It is UNIT_ROUNDOFF sqrt(sum_s w_s |O_s|^2), with O not centred: centring is a projection, which
    makes no difference larger.  Cost: one look at the slices.
    """
    assert isinstance(a.jacobian, StructuredJacobian)
    squares = a.jacobian.squares().reshape(a.parts, -1)
    return 1.001 * UNIT_ROUNDOFF * math.sqrt(float(np.sum(a.weight * squares)))


def _fits(slice_: np.ndarray) -> bool:
    """Whether all entries are 0, or the largest lies in the range."""
    with np.errstate(invalid="ignore", over="ignore"):
        largest = float(np.max(np.abs(slice_), initial=0.0))
    return largest == 0 or _SMALLEST <= largest <= _LARGEST
