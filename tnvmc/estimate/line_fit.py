"""Straight lines through energies: against the variance, against 1/D, and from step to step."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

FEWEST_FOR_AN_ERROR = 3
"""Points of a line whose scatter gives an error; two fix the line and say nothing of it."""

STEPS_PER_BIN = 4
"""Fewest steps of an optimisation that are averaged into a point: chains carry on from one step
to the next, so that single steps are not independent."""

_MOST_BINS = 12
_TAIL = 4.0  # times the final variance: beyond it the energy bends away from the line
_LEVER = 0.25  # fall of the variance from the first to the last third of the tail, at least
_SEEN = 3.0  # errors that the fall must have: chance moves energy and variance together


@dataclass(frozen=True)
class Line:
    """y = intercept + slope x, with errors; inf where two points leave none."""

    intercept: float
    intercept_error: float
    slope: float
    slope_error: float
    chi2_per_dof: float  #: NaN for two points, and where the points come without errors


def fit_line(x: Sequence[float], y: Sequence[float], error: Sequence[float]) -> Line:
    """Fit a line through points with errors in y.

    Errors are those of the weighted fit, times sqrt(chi^2 / dof) where that is larger than 1: the
    points then scatter more than their errors say.  Points without errors (an error of 0 among
    them) count alike and their scatter is their error.

    Raises:
        ValueError: fewer than two points, or all at the same x; lists of different lengths; numbers
            that are not finite; an error below 0.
    """
    xs, ys, es = (np.asarray(values, dtype=np.float64) for values in (x, y, error))
    if not xs.shape == ys.shape == es.shape:
        raise ValueError(
            f"fit_line: x, y and error have shapes {xs.shape}, {ys.shape}, {es.shape}; give "
            "one number of each for every point"
        )
    if not np.isfinite([xs, ys, es]).all() or (es < 0).any():
        raise ValueError("fit_line: x, y and error must be finite, errors 0 or more; omit others")
    if xs.size < 2 or np.ptp(xs) == 0:
        raise ValueError(f"fit_line: {xs.size} points at {np.unique(xs).size} places fix no line")
    weighted = bool(np.all(es > 0))
    weight = 1 / es**2 if weighted else np.ones_like(ys)
    centre_x, centre_y = np.average(xs, weights=weight), np.average(ys, weights=weight)
    moment = float(weight @ (xs - centre_x) ** 2)
    slope = float(weight @ ((xs - centre_x) * (ys - centre_y))) / moment
    residual = ys - centre_y - slope * (xs - centre_x)
    dof = xs.size - 2
    if dof == 0:
        return Line(float(centre_y - slope * centre_x), math.inf, slope, math.inf, math.nan)
    scatter = float(weight @ residual**2) / dof
    scale = max(1.0, scatter) if weighted else scatter
    return Line(
        float(centre_y - slope * centre_x),
        math.sqrt(scale * (1 / float(weight.sum()) + float(centre_x) ** 2 / moment)),
        slope,
        math.sqrt(scale / moment),
        scatter if weighted else math.nan,
    )


@dataclass(frozen=True)
class Bin:
    """Some steps of an optimisation, averaged."""

    first: int  #: place of the first step, counted from 0
    last: int
    energy: float
    energy_error: float
    variance: float


def binned_steps(
    energy: Sequence[float], error: Sequence[float], variance: Sequence[float], first: int = 0
) -> list[Bin]:
    """Average successive steps in at most 12 bins of equal length, of at least 4 steps each.

    What does not fill a bin is left out at the start.  `first` is the place of the first step.
    """
    n_bins = min(_MOST_BINS, len(energy) // STEPS_PER_BIN)
    if n_bins == 0:
        return []
    length = len(energy) // n_bins
    found = []
    for begin in range(len(energy) - n_bins * length, len(energy), length):
        own = slice(begin, begin + length)
        found.append(
            Bin(
                first + begin,
                first + begin + length - 1,
                float(np.mean(energy[own])),
                float(np.sqrt(np.sum(np.square(error[own])))) / length,
                float(np.mean(variance[own])),
            )
        )
    return found


def converging_tail(
    energy: Sequence[float], error: Sequence[float], variance: Sequence[float]
) -> list[Bin]:
    """Give points for an extrapolation in the variance from the end of an optimisation.

    The tail begins where the variance (median of 5 steps) falls below 4 times its final value for
    good: energy against variance is a line only near the ground state.  Empty where it holds fewer
    than 3 bins, or where the variance does not fall within it by a quarter and by 3 errors.
    """
    v = np.asarray(variance, dtype=np.float64)
    if v.size < FEWEST_FOR_AN_ERROR * STEPS_PER_BIN:
        return []
    final = float(np.median(v[-max(5, v.size // 10) :]))
    smooth = np.array([np.median(v[max(0, k - 2) : k + 3]) for k in range(v.size)])
    outside = np.flatnonzero(smooth > _TAIL * final)
    begin = int(outside[-1]) + 1 if outside.size else 0
    points = binned_steps(energy[begin:], error[begin:], variance[begin:], begin)
    return [] if len(points) < FEWEST_FOR_AN_ERROR or not _falls(v[begin:]) else points


def _falls(variance: np.ndarray) -> bool:
    """Tell whether the variance really falls from the first to the last third of the steps."""
    third = variance.size // 3
    early, late = variance[:third], variance[-third:]
    fall = float(early.mean() - late.mean())
    error = math.sqrt(float(early.var(ddof=1) + late.var(ddof=1)) / third)
    return fall > max(_LEVER * float(late.mean()), _SEEN * error)


def change_over_last_quarter(
    energy: Sequence[float], error: Sequence[float], quarters: int = 1
) -> tuple[float, float] | None:
    """Fit a line to the last `quarters` of the steps: its change over one, and the error of that.

    From two quarters the error is a third of that from one, and energies that come to rest fall by
    less than the line in the last one.  None where the line has fewer than 3 bins of 4 steps.
    """
    n, used = len(energy) // 4, len(energy) // 4 * quarters
    points = binned_steps(energy[-used:], error[-used:], error[-used:]) if n else []
    if len(points) < FEWEST_FOR_AN_ERROR:
        return None
    middle = [0.5 * (point.first + point.last) for point in points]
    line = fit_line(middle, [p.energy for p in points], [p.energy_error for p in points])
    return line.slope * n, line.slope_error * n


def on_plateau(energies: Sequence[float], errors: Sequence[float]) -> bool:
    """Tell whether the energy falls by less than one error of its mean over these steps.

    A line is fitted with weights 1 / error^2; its slope times n is compared with sigma = 1 /
    sqrt(sum of weights).  With equal errors that fall has itself an error of 3.5 sigma, so that an
    energy at rest passes in six windows out of ten and one that falls by 10 sigma in one out of
    250.  A rising energy passes.  Errors of zero (no noise) count as equal, and sigma as 0.  Fewer
    than two values are no plateau.
    """
    n = len(energies)
    if n < 2:
        return False
    sizes = np.asarray(errors, dtype=float)
    sigma = 1.0 / math.sqrt(float((sizes**-2.0).sum())) if (sizes > 0).all() else 0.0
    return -fit_line(range(n), energies, errors).slope * n < sigma


def cost(line: Mapping[str, Any]) -> float:
    """What a step lowers: the energy, and penalties for overlaps with kept states where there are
    any.
    """
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
