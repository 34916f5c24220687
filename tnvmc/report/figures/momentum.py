"""The structure factor on the Brillouin zone."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from tnvmc.report.figures import style
from tnvmc.report.numbers import with_error
from tnvmc.storage.run_files import Json, Run, as_array

_ORDER = ("SS", "nn", "SzSz")
_CLOSE = 1e-6  # of q / pi


def preferred(observables: Json | None) -> tuple[str, Json] | None:
    """Give name and content of the structure factor to show first, or None."""
    measured = (observables or {}).get("structure_factor") or {}
    return next(((name, measured[name]) for name in _ORDER if name in measured), None)


def maximum(factor: Json) -> tuple[np.ndarray, float, float] | None:
    """Give q / pi (2,), value and error of the largest S(q), or None where none is finite."""
    mean, error = as_array(factor["mean"]), as_array(factor["error"])
    if not np.isfinite(mean).any():
        return None
    top = int(np.nanargmax(mean))
    return as_array(factor["q"])[top] / np.pi, float(mean[top]), float(error[top])


def structure_factor(run: Run) -> Any | str:
    """Draw S(q) over the zone and, where the points lie on it, along Gamma-X-M-Gamma.

    A chain gets a curve against q.
    """
    found = preferred(run.observables)
    if found is None:
        return "no structure factor is measured (tnvmc measure)"
    name, factor = found
    q, mean, error = (as_array(factor[key]) for key in ("q", "mean", "error"))
    q = q / np.pi
    label = rf"$S(\mathbf{{q}})$ of {_plain(name)}"
    if len(np.unique(q[:, 1].round(9))) == 1:
        return _curve(q[:, 0], mean, error, label)
    path = _path(q)
    figure = style.new_figure(8.6 if path else 4.6, 3.7)
    if not path:
        _zone(figure, figure.subplots(), q, factor, label)
        return figure
    zone, cut = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _zone(figure, zone, q, factor, "")  # the curve beside it has the label
    _along(cut, path, mean, error, label)
    return figure


def place(q: np.ndarray) -> str:
    """Write a point q / pi (2,) of the zone, as (π, π/2)."""
    return f"({_part(q[0])}, {_part(q[1])})"


def _part(value: float) -> str:
    fraction = Fraction(value).limit_denominator(64)
    sign = "−" if fraction < 0 else ""
    top, bottom = abs(fraction.numerator), fraction.denominator
    if not top:
        return "0"
    return sign + ("" if top == 1 else str(top)) + "π" + ("" if bottom == 1 else f"/{bottom}")


def _plain(name: str) -> str:
    return {"SS": r"$\mathbf{S}\cdot\mathbf{S}$", "SzSz": "$S^zS^z$"}.get(name, "$n\\,n$")


def _zone(figure: Any, axes: Any, q: np.ndarray, factor: Json, label: str) -> None:
    """Cells centred on the points; those at q = pi are repeated at -pi, the dashes are the zone."""
    mean = as_array(factor["mean"])
    across, down = (np.unique(q[:, axis].round(9)) for axis in (0, 1))
    values = np.full((len(down), len(across)), np.nan)
    columns = np.searchsorted(across, q[:, 0].round(9))
    rows = np.searchsorted(down, q[:, 1].round(9))
    values[rows, columns] = mean
    if abs(across[-1] - 1) < _CLOSE:
        across, values = np.append(-1, across), np.concatenate([values[:, -1:], values], axis=1)
    if abs(down[-1] - 1) < _CLOSE:
        down, values = np.append(-1, down), np.concatenate([values[-1:], values], axis=0)
    cells = axes.pcolormesh(
        _edges(across), _edges(down), values, cmap=style.SEQUENTIAL, edgecolors="face", lw=0.2
    )
    axes.plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color="white", lw=1, ls="--")
    top = maximum(factor)
    if top is not None:
        where, value, error = top
        axes.plot(*where, "o", ms=11, mfc="none", mec=style.VERMILION, mew=1.8)
        axes.set_title(
            f"largest: {with_error(value, error)} at {place(where)}",
            fontweight="normal",
        )
    axes.set_aspect("equal")
    for axis, name in ((axes.xaxis, "x"), (axes.yaxis, "y")):
        axis.set_major_locator(_halves())
        axis.set_label_text(rf"$q_{name}/\pi$")
    axes.spines[:].set_visible(False)
    style.colour_bar(figure, cells, axes, label)


def _halves() -> Any:
    from matplotlib.ticker import MultipleLocator

    return MultipleLocator(0.5)


def _edges(centres: np.ndarray) -> np.ndarray:
    step = centres[1] - centres[0] if len(centres) > 1 else 2.0
    return np.append(centres - step / 2, centres[-1] + step / 2)


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


def _along(
    axes: Any, path: list[tuple[float, int]], mean: np.ndarray, error: np.ndarray, label: str
) -> None:
    style.grid(axes)
    where, index = (np.array(column) for column in zip(*path, strict=True))
    axes.errorbar(
        where, mean[index], np.nan_to_num(error[index]), fmt="o-", ms=4, lw=1.2, capsize=2,
        color=style.BLUE,
    )  # fmt: skip
    corners = (0, 1, 2, 2 + np.sqrt(2))
    axes.set_xticks(corners, [r"$\Gamma$", "X", "M", r"$\Gamma$"])
    for corner in corners[1:3]:
        axes.axvline(corner, color=style.GREY, lw=0.9, ls=":")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=min(0.0, float(np.nanmin(mean[index]))))


def _curve(q: np.ndarray, mean: np.ndarray, error: np.ndarray, label: str) -> Any:
    figure = style.new_figure()
    axes = figure.subplots()
    style.grid(axes)
    order = np.argsort(q)
    axes.errorbar(
        q[order], mean[order], np.nan_to_num(error[order]), fmt="o-", ms=4, lw=1.2, capsize=2,
        color=style.BLUE,
    )  # fmt: skip
    axes.set_xlabel(r"$q/\pi$")
    axes.set_ylabel(label)
    return figure
