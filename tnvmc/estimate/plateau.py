"""When an energy has stopped falling: a line through its last values, against its error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def on_plateau(energies: Sequence[float], errors: Sequence[float]) -> bool:
    """Tell whether the energy falls by less than one error of its mean over these steps.

    A line is fitted through the n values with weights 1 / error^2.  Its slope times n is the
    fall over the window; sigma = 1 / sqrt(sum of weights) is the error of the weighted mean, what
    the window knows of the energy.  With equal errors the slope times n has itself an error of
    sqrt(12 n^2 / (n^2 - 1)) = 3.5 sigma.  So an energy at rest passes in six windows out of ten,
    and soon stops, while one that falls by three errors of its slope (10 sigma) passes in one
    window out of 250.  A rising energy passes: no rate of learning that makes it rise is worth
    going on with.

    Errors of zero (no noise) count as equal, and sigma as 0: the line must not fall at all.
    Fewer than two values are no plateau.
    """
    n = len(energies)
    if n < 2:
        return False
    sizes = np.asarray(errors, dtype=float)
    noisy = bool((sizes > 0).all())
    weights = sizes**-2.0 if noisy else np.ones(n)
    sigma = 1.0 / math.sqrt(float(weights.sum())) if noisy else 0.0
    steps, values = np.arange(n, dtype=float), np.asarray(energies, dtype=float)
    off = steps - np.average(steps, weights=weights)
    values = values - np.average(values, weights=weights)
    slope = float((weights * off * values).sum() / (weights * off**2).sum())
    return -slope * n < sigma


def cost(line: Mapping[str, Any]) -> float:
    """What a step lowers: the energy, and penalties for overlaps with kept states where there are any."""
    added = (each["penalty"] * each["squared"] for each in line.get("overlaps", ()))
    return float(line["energy"] + sum(added))


def reached(lines: Sequence[Mapping[str, Any]], window: int) -> bool:
    """Apply `on_plateau` to the last `window` lines of a history; 0 is never.

    Steps that were undone, and energies or errors that are not finite, do not count.
    """
    if not window:
        return False
    known = [
        (cost(line), line["energy_error"])
        for line in lines
        if not line["undone"] and None not in (line["energy"], line["energy_error"])
    ]
    if len(known) < window:
        return False
    energies, errors = zip(*known[-window:], strict=True)
    return on_plateau(energies, errors)
