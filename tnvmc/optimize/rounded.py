"""Directions of SR from log-derivatives that were rounded to single precision, with a bound.

The Gram matrix is then one of single-precision products, and only guides an iterative refinement:
the residual is that of the operator itself, with products in double.  What is left is the rounding
of the entries, delta = A' - A.  For a direction d', made with A' and the shift t from the target e
and, in SPRING, from what is carried over, the one that A gives differs by exactly

    (A^dagger A + t) (d - d') = A^dagger delta d' - delta^dagger (e - A' d'),   so
    |d - d'| <= |delta| (|e - A' d'| / t + |d'| / (2 sqrt(t))),

since |(A^dagger A + t)^-1| <= 1 / t and |(A^dagger A + t)^-1 A^dagger| <= 1 / (2 sqrt(t)).  All of
it is known, so the bound is computed at each step, and a direction that it does not vouch for is
not taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tnvmc.backend.namespace import array_namespace
from tnvmc.jacobian.base import UNIT_ROUNDOFF
from tnvmc.jacobian.centered import CenteredJacobian, rounding_bound
from tnvmc.optimize.solve import SolveInfo, condition_of, factorised

Array = Any

TOLERANCE = 1e-3
"""Largest bound of |d - d'| / |d'|.  Noise of the samples changes a direction by 0.1 to 1 of its
length where parameters outnumber samples; the bound overestimates by one to two orders.
"""

RESIDUAL = 1e-7
"""Of refinement, relative to the target."""

_MOST_REFINEMENTS = 6


class PrecisionError(ValueError):
    """Rounded log-derivatives do not determine the direction; take them in double precision."""

    def __init__(self, change: float) -> None:
        #: bound of the relative change of the direction; infinite where it failed
        self.change = change
        super().__init__(
            f"log-derivatives in single precision: the direction may be off by {change:.1e} of its "
            f"length, at most {TOLERANCE:g} is allowed; take them in double precision, or raise "
            "diag_shift"
        )


def likely(share: float, n: int) -> bool:
    """Tell beforehand whether the bound will be met, for a shift of `share` mean diagonals of n.

    With |e - A d| and 2 sqrt(t) |d| of the order of |e|, and half of |O|^2 left by centring, it is
    4 UNIT_ROUNDOFF sqrt(n / share).
    """
    return share > 0 and 4 * UNIT_ROUNDOFF * math.sqrt(n / share) <= TOLERANCE


def refined(
    a: CenteredJacobian, gram: Array, target: Array, shift: float
) -> tuple[Array, SolveInfo]:
    """Solve for A^dagger (A A^dagger + shift)^-1 e: (P,); `gram` is overwritten.

    Cost: n^3 / 3, and twice two products with A.

    Raises PrecisionError where the matrix cannot be factorised, or refinement does not converge.
    """
    xp = array_namespace(target)
    pivots, solve = factorised(gram, shift, overwrite=True)
    if pivots is None:
        raise PrecisionError(math.inf)
    size = float(xp.linalg.vector_norm(target))
    x, residual = xp.zeros_like(target), target
    for _ in range(_MOST_REFINEMENTS):
        x = x + solve(residual)
        found = a.adjoint(x)
        residual = target - a.apply(found) - shift * x
        if float(xp.linalg.vector_norm(residual)) <= RESIDUAL * size:
            return found, SolveInfo("cholesky", shift, x.shape[0], condition_of(pivots))
    raise PrecisionError(math.inf)


@dataclass(frozen=True)
class Lengths:
    """Norms that the bound is made of."""

    direction: float  #: |d'|
    missed: float  #: |e - A' d'|
    target: float  #: |e| of the system that was solved


def change_of(a: CenteredJacobian, lengths: Lengths, shift: float) -> float:
    """Bound |d - d'| / |d'| for a direction made with rounded log-derivatives.

    It holds for systems solved up to `RESIDUAL`, as `refined` does.  What conjugate gradients leave
    unsolved, with rounding and without, is not in it.
    """
    if lengths.target == 0 and lengths.missed == 0:
        return 0.0
    if not shift > 0 or not lengths.direction > 0:
        return math.inf
    delta, root = rounding_bound(a), 2 * math.sqrt(shift)
    rounded = delta * (lengths.missed / shift + lengths.direction / root)
    unsolved = RESIDUAL * lengths.target * (1 / root + delta / shift)
    return (rounded + unsolved) / lengths.direction
