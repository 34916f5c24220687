"""Units of the parameters of states side by side, in which one shift is right for all of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tnvmc.backend.namespace import array_namespace
from tnvmc.jacobian.centered import CenteredJacobian
from tnvmc.jacobian.hstack import HStackJacobian

Array = Any

_LEAST = 1e-12
"""Of a mean diagonal over that of all parts: below it the derivatives of a part are rounding."""


def in_own_units(a: CenteredJacobian) -> tuple[CenteredJacobian, Array | None]:
    """Give A with the parameters of each part in a unit of its own, and these units (P,).

    In these units each part has the same mean diagonal of S, that of all of them before.  The shift
    of SR is relative to that mean, so without units it would hold back the part whose
    log-derivatives are small: of a nearly constant RBM beside a PEPS, S of the weights is 1/250 of
    that of the tensors.

    Returns:
        (A, None) where there are no parts side by side; with x the solution for the new A, units *
        x is that for the old one.

    Cost: one look at O, and a product with O^dagger.
    """
    jacobian = a.jacobian
    if not isinstance(jacobian, HStackJacobian):
        return a, None
    traces = [max(replace(a, jacobian=part).trace(), 0.0) for part in jacobian.parts]
    sizes = [part.shape[1] for part in jacobian.parts]
    mean = sum(traces) / sum(sizes)
    units = tuple(
        math.sqrt(mean * size / trace) if trace > _LEAST * mean * size else 1.0
        for trace, size in zip(traces, sizes, strict=True)
    )
    xp = array_namespace(a.weight)
    columns = [
        xp.full((size,), unit, dtype=xp.float64) for size, unit in zip(sizes, units, strict=True)
    ]
    return replace(a, jacobian=replace(jacobian, units=units)), xp.concat(columns)
