"""Axes that can be read: labels of logarithms, steps beyond the axis, values that are rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tnvmc.report.figures import style

ROUNDING = 1e-12
"""Of logarithms of amplitudes and of relative errors: below it a difference says nothing."""

_NARROWEST = 0.8  # decades: of 1, 2 and 5 times a power of ten two at least are within
_LABELS_UP_TO = 2.0  # decades over which 2 and 5 times a power of ten have labels
_PLAIN = (0.01, 1000.0)  # between them 0.2 is easier to read than 2 x 10^-1
_GAP = 1e4
_FEWEST = 4  # values among which one can be told to be absurd


def logarithmic(
    axes: Any, which: str, bottom: float | None = None, nonpositive: str = "mask"
) -> None:
    """Make the "x" or "y" axis logarithmic, once everything is drawn, and not below `bottom`.

    Matplotlib labels nearly every tick of an axis that spans less than a decade, and on an x axis
    they overprint.  Here 1, 2 and 5 times a power of ten have labels, and the axis is widened
    until it has two of them.  Between a hundredth and a thousand they are written without powers.
    """
    from matplotlib.ticker import FuncFormatter, LogFormatterSciNotation, LogLocator

    getattr(axes, f"set_{which}scale")("log", nonpositive=nonpositive)
    axis = getattr(axes, f"{which}axis")
    axis.set_minor_locator(LogLocator(subs=(2, 5)))
    axis.set_minor_formatter(LogFormatterSciNotation(minor_thresholds=(_LABELS_UP_TO,) * 2))
    low, high = getattr(axes, f"get_{which}lim")()
    low = max(low, bottom or low)
    if 0 < low < high:
        missing = max(0.0, _NARROWEST - math.log10(high / low)) / 2
        low, high = (low / 10**missing, high * 10**missing)
        getattr(axes, f"set_{which}lim")(low, high)
        if _PLAIN[0] <= low and high <= _PLAIN[1] and high / low <= 10**_LABELS_UP_TO:
            plain = FuncFormatter(lambda value, _: f"{value:g}")
            axis.set_major_formatter(plain)
            axis.set_minor_formatter(plain)


def absurd(values: Any, gap: float = _GAP) -> np.ndarray:
    """Tell which values would spoil an axis: above 1 and `gap` times the next smaller one.

    They are a tenth of all values at most: a course that is large for longer is to be seen.
    """
    size = np.abs(np.nan_to_num(np.asarray(values, float)))
    if len(size) < _FEWEST:
        return np.zeros(len(size), dtype=bool)
    largest = np.sort(size)[-max(1, len(size) // 10) - 1 :]
    far = (largest[1:] > gap * largest[:-1]) & (largest[:-1] > 0) & (largest[1:] > 1)
    return size >= largest[1:][far][0] if far.any() else np.zeros(len(size), dtype=bool)


def without(values: Any, gone: np.ndarray) -> np.ndarray:
    """Values with a gap where they are `gone`."""
    return np.where(gone, np.nan, values)


def mark_beyond(
    axes: Any, x: np.ndarray, values: np.ndarray, colour: str, name: str | None, edge: str = "top"
) -> None:
    """Mark steps that are beyond the axis with triangles at its edge; the legend says how far.

    `name` is the run they belong to, where there are several.
    """
    if len(x):
        axes.plot(
            x, np.full(len(x), float(edge == "top")), "^" if edge == "top" else "v", color=colour,
            transform=axes.get_xaxis_transform(), ms=5, clip_on=False, label=beyond(values, name),
        )  # fmt: skip


def beyond(values: np.ndarray, name: str | None = None) -> str:
    """Say how many steps are beyond the axis and how far: "1 step beyond the axis, at 1.6e+22"."""
    count, largest = len(values), values[np.argmax(np.abs(values))]
    told = f"1 step beyond the axis, at {largest:.2g}"
    if count > 1:
        told = f"{count} steps beyond the axis, up to {largest:.2g}"
    return told if name is None else f"{name}: {told}"


def reach(size: Any, error: Any) -> np.ndarray:
    """Error bars (2, ...) of sizes on a log axis, where they may not reach down to zero."""
    error = np.nan_to_num(np.atleast_1d(error))
    return np.array([np.minimum(error, 0.9 * np.asarray(size)), error])


def logarithmic_or_rounding(axes: Any, values: Any, floor: float = ROUNDING) -> None:
    """Make the y axis of `values` logarithmic; where nothing is above `floor`, say so instead."""
    known = np.abs(np.asarray(values, float))
    known = known[np.isfinite(known)]
    if not known.size or (known > floor).any():
        if (known > 0).any():
            logarithmic(axes, "y")
        return
    axes.set_ylim(1e-6 * floor, 1e3 * floor)  # first: all values may be 0
    axes.set_yscale("log", nonpositive="mask")
    axes.axhspan(1e-6 * floor, floor, color=style.GREY, alpha=0.14, lw=0)
    axes.text(
        0.02, 3 * floor, f"exact to rounding: nothing above {floor:.0e}", fontsize=9, va="bottom",
        transform=axes.get_yaxis_transform(),
    )  # fmt: skip
