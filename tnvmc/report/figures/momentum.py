"""The structure factor on the Brillouin zone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tnvmc.report.figures import style
from tnvmc.report.figures.places import largest_error, left_out, span
from tnvmc.report.observables import maximum, peak
from tnvmc.shown import with_error
from tnvmc.storage.run_files import Json, Run, as_array

_LABELS = {"SS": r"$\mathbf{S}\cdot\mathbf{S}$", "nn": "$n\\,n$", "SzSz": "$S^zS^z$"}
"""By name; the first that is measured is drawn."""
_CLOSE = 1e-6  # of q / pi


def structure_factor(run: Run) -> Any | str:
    """Draw S(q) over the zone and, where the points lie on it, along Gamma-X-M-Gamma.

    A chain gets a curve against q.
    """
    found = _measured(run)
    if isinstance(found, str):
        return found
    factor, label, q = found
    if _is_chain(factor, q):
        figure = style.new_figure()
        _along(figure.subplots(), q, factor, label)
        return figure
    path = _path(q) if _in_zone(factor) else []
    if not path:
        figure = style.new_figure(4.6, 3.7)
        _zone(figure, figure.subplots(), q, factor, label)
        return figure
    figure = style.new_figure(8.6, 3.7)
    zone, cut = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _zone(figure, zone, q, factor, "")  # the curve beside it has the label
    where, index = (np.array(column) for column in zip(*path, strict=True))
    _curve(cut, where, factor, index, label)
    corners = (0, 1, 2, 2 + np.sqrt(2))
    cut.set_xticks(corners, [r"$\Gamma$", "X", "M", r"$\Gamma$"])
    for corner in corners[1:3]:
        cut.axvline(corner, color=style.GREY, lw=0.9, ls=":")
    cut.set_ylim(bottom=min(0.0, float(np.nanmin(as_array(factor["mean"])[index]))))
    return figure


def draw_structure_factor(axes: Any, run: Run) -> str | None:
    """Draw S(q) over the zone into axes, with a colour bar; of a chain a curve against q.

    Returns:
        What is lacking, None where nothing is.
    """
    found = _measured(run)
    if isinstance(found, str):
        return found
    factor, label, q = found
    if _is_chain(factor, q):
        _along(axes, q, factor, label)
    else:
        _zone(axes.figure, axes, q, factor, label)
    return None


def _measured(run: Run) -> tuple[Json, str, np.ndarray] | str:
    """The structure factor to draw, how it is called and its q / pi; or what is lacking."""
    measured = (run.observables or {}).get("structure_factor") or {}
    name = next((name for name in _LABELS if name in measured), None)
    if name is None:
        why = left_out(run, "structure_factor")
        return why or "no structure factor is measured (tnvmc measure)"
    factor = measured[name]
    return factor, rf"$S(\mathbf{{q}})$ of {_LABELS[name]}", as_array(factor["q"]) / np.pi


def _is_chain(factor: Json, q: np.ndarray) -> bool:
    straight = 1 in (len(np.unique(q[:, axis].round(9))) for axis in (0, 1))
    return straight or factor.get("zone") == "chain"


def _in_zone(factor: Json) -> bool:
    """Whether the points are those of the Brillouin zone of a grid."""
    return factor.get("zone", "square") == "square"


_MARKER = 90.0  # points squared

_STANDS_OUT = 4.0
"""Errors that the largest S(q) lies above the mean at least, to be marked: of hundreds of equal values the
largest lies 3 above."""


def _along(axes: Any, q: np.ndarray, factor: Json, label: str) -> None:
    """S(q) of a chain."""
    along = q[:, int(len(np.unique(q[:, 0].round(9))) == 1)]
    order = np.argsort(along)
    _curve(axes, along[order], factor, order, label)
    axes.set_xlabel(r"$q/\pi$ along the chain")


def _curve(axes: Any, x: np.ndarray, factor: Json, index: np.ndarray, label: str) -> None:
    """S(q) at some of the points, with error bars."""
    mean, error = (as_array(factor[key])[index] for key in ("mean", "error"))
    style.grid(axes)
    axes.errorbar(
        x, mean, np.nan_to_num(error), fmt="o-", ms=4, lw=1.2, capsize=2, color=style.BLUE
    )
    axes.set_ylabel(label)


def _zone(figure: Any, axes: Any, q: np.ndarray, factor: Json, label: str) -> None:
    """Cells centred on the points; those at q = pi are repeated at -pi, the dashes are the zone."""
    from matplotlib.ticker import MultipleLocator

    mean = as_array(factor["mean"])
    (across, columns), (down, rows) = (
        np.unique(q[:, axis].round(9), return_inverse=True) for axis in (0, 1)
    )
    values = np.full((len(down), len(across)), np.nan)
    values[rows, columns] = mean
    shifted = len(mean) < values.size  # rows of q, on a torus whose rows are
    if _in_zone(factor) and abs(across[-1] - 1) < _CLOSE:
        across, values = np.append(-1, across), np.concatenate([values[:, -1:], values], axis=1)
    if _in_zone(factor) and abs(down[-1] - 1) < _CLOSE:
        down, values = np.append(-1, down), np.concatenate([values[-1:], values], axis=0)
    low, high = span(mean, as_array(factor["error"]))
    look = {"cmap": style.SEQUENTIAL, "shading": "nearest", "vmin": low, "vmax": high}
    if shifted:
        look.pop("shading")
        cells = axes.scatter(*q.T, c=mean, marker="h", s=_MARKER, edgecolors="none", **look)
    else:
        cells = axes.pcolormesh(across, down, values, edgecolors="face", lw=0.2, **look)
    if _in_zone(factor):
        axes.plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color="white", lw=1, ls="--")
    if (top := maximum(factor)) is not None:
        value, error, where = top
        if value - float(np.nanmean(mean)) > _STANDS_OUT * largest_error([error]):
            axes.plot(*peak(factor) / np.pi, "o", ms=11, mfc="none", mec=style.VERMILION, mew=1.8)
        title = f"largest: {with_error(value, error)} {where}"
        axes.set_title(title, fontweight="normal")
    axes.set_aspect("equal")
    for axis, name in ((axes.xaxis, "x"), (axes.yaxis, "y")):
        axis.set_major_locator(MultipleLocator(0.5))
        axis.set_label_text(rf"$q_{name}/\pi$")
    axes.spines[:].set_visible(False)
    style.colour_bar(figure, cells, axes, label)


def _path(q: np.ndarray) -> list[tuple[float, int]]:
    """(length along Gamma-X-M-Gamma, index) of the points on it; empty where X or M is no point."""
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 0]], dtype=float)
    found, start = [], 0.0
    for begin, end in pairwise(corners):
        length = float(np.hypot(*(end - begin)))
        along = (q - begin) @ (end - begin) / length
        off = np.abs((q - begin) @ np.array([begin[1] - end[1], end[0] - begin[0]])) / length
        near = (off < _CLOSE) & (along > -_CLOSE) & (along < length + _CLOSE)
        if not any(np.allclose(q[i], end, atol=_CLOSE) for i in np.flatnonzero(near)):
            return []
        found += [(start + float(along[i]), int(i)) for i in np.flatnonzero(near)]
        start += length
    return sorted(set(found))
