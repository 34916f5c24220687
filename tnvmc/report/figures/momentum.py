"""The structure factor on the Brillouin zone."""

from itertools import pairwise
from typing import Any

import numpy as np

from tnvmc.report.figures import style
from tnvmc.report.figures.places import chance, largest, left_out, span
from tnvmc.report.observables import maximum, peak
from tnvmc.shown import with_error
from tnvmc.storage.run_files import Json, Run, as_array

_LABELS = {"SS": r"$\mathbf{S}\cdot\mathbf{S}$", "nn": "$n\\,n$", "SzSz": "$S^zS^z$"}
"""By name; the first that is measured is drawn."""
_CLOSE = 1e-6  # of q / pi


def structure_factor(run: Run) -> Any:
    """Draw S(q) over the zone and, where points lie on it, along Gamma-X-M-Gamma or Gamma-M-K.

    Of several M that turns of the zone lead to, the path takes that where S(q) is largest: they are
    not alike on an open patch. A chain gets a curve against q.
    """
    factor, label, q = _measured(run)
    corners = _corners(factor, q)
    path = _path(q, corners)
    if not path or _is_chain(factor, q):
        figure = style.new_figure(4.6, 3.7, "compressed")
        draw_structure_factor(figure.subplots(), run)
        return figure
    figure = style.new_figure(8.8, 3.7, "compressed")
    figure.get_layout_engine().set(w_pad=0.12)  # between the colour bar and the curve
    zone, cut = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _zone(zone, factor, "", q)  # the curve beside it has the label
    where, index = (np.array(column) for column in zip(*path, strict=True))
    _curve(cut, where, factor, index, label)
    ticks = _ticks(factor, corners)
    cut.set_xticks([*ticks], [*ticks.values()])
    for tick in [*ticks][1:-1]:
        cut.axvline(tick, color=style.GREY, lw=0.9, ls=":")
    if (name := corners[1][0]) != "X":
        x, y = corners[1][1].round(2) + 0.0
        told = f"{name} ({x:.2f}π, {y:.2f}π): of all {name} the largest S(q)"
        cut.set_xlabel(told.replace("-", "−"), fontsize="small")
    cut.set_ylim(bottom=min(0.0, float(np.nanmin(as_array(factor["mean"])[index]))))
    return figure


def draw_structure_factor(axes: Any, run: Run) -> None:
    """Draw S(q) over the zone into axes, with a colour bar; of a chain a curve against q."""
    factor, label, q = _measured(run)
    if _is_chain(factor, q):
        _along(axes, q, factor, label)
    else:
        _zone(axes, factor, label, q)


def _measured(run: Run) -> tuple[Json, str, np.ndarray]:
    """The structure factor to draw, how it is called and its q / pi."""
    measured = (run.observables or {}).get("structure_factor") or {}
    name = next((name for name in _LABELS if name in measured), None)
    if name is None:
        why = left_out(run, "structure_factor")
        raise style.Lacking(why or "no structure factor is measured (tnvmc measure)")
    factor = measured[name]
    return factor, rf"$S(\mathbf{{q}})$ of {_LABELS[name]}", as_array(factor["q"]) / np.pi


def _is_chain(factor: Json, q: np.ndarray) -> bool:
    straight = 1 in (len(np.unique(q[:, axis].round(9))) for axis in (0, 1))
    return straight or factor.get("zone") == "chain"


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
        x, mean, np.nan_to_num(error), fmt="o-", ms=3, lw=1.1, capsize=3, color=style.BLUE
    )
    axes.set_ylabel(label)


def _zone(axes: Any, factor: Json, label: str, q: np.ndarray) -> None:
    """Cells centred on the points, and the largest value marked; the lines are the zones.

    q_y points up; it goes with y, which grows from row 0 on.
    """
    from matplotlib.ticker import MultipleLocator

    mean = as_array(factor["mean"])
    low, high = span(mean, as_array(factor["error"]))
    look = {"cmap": style.SEQUENTIAL, "edgecolors": "face", "clim": (low, high)}
    cells = (_hexagon if factor.get("zone") == "hexagon" else _grid)(axes, q, factor, look)
    if (top := maximum(factor)) is not None:
        value, error, where = top
        if value - float(np.nanmean(mean)) > chance(mean) * largest(error):
            ring = {"ms": 11, "mfc": "none", "mec": style.VERMILION, "mew": 1.8, "clip_on": False}
            axes.plot(*peak(factor) / np.pi, "o", **ring)
        title = f"largest: {with_error(value, error)} {where}"
        axes.set_title(title, fontweight="normal", fontsize=None if len(title) < 45 else "small")
    axes.set_aspect("equal")
    for axis, name in ((axes.xaxis, "x"), (axes.yaxis, "y")):
        axis.set_major_locator(MultipleLocator(0.5))
        axis.set_label_text(rf"$q_{name}/\pi$")
    axes.spines[:].set_visible(False)
    style.colour_bar(axes, cells, label)


def _grid(axes: Any, q: np.ndarray, factor: Json, look: dict[str, Any]) -> Any:
    """Cells of a grid or a plane; those at q = pi are repeated at -pi, dashes are the zone."""
    (across, columns), (down, rows) = (
        np.unique(q[:, axis].round(9), return_inverse=True) for axis in (0, 1)
    )
    values = np.full((len(down), len(across)), np.nan)
    values[rows, columns] = as_array(factor["mean"])
    if factor.get("zone", "square") == "square":
        if abs(across[-1] - 1) < _CLOSE:
            across, values = np.append(-1, across), np.concatenate([values[:, -1:], values], axis=1)
        if abs(down[-1] - 1) < _CLOSE:
            down, values = np.append(-1, down), np.concatenate([values[-1:], values], axis=0)
        axes.plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color="white", lw=1, ls="--")
    return axes.pcolormesh(across, down, values, shading="nearest", lw=0.2, **look)


def _hexagon(axes: Any, q: np.ndarray, factor: Json, look: dict[str, Any]) -> Any:
    """Cells up to the rim of the extended zone; the dashes are the first zone."""
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Polygon

    points = _points(factor)
    rim, edges = (points.get(f"extended {name}", points[name]) for name in ("K", "M"))
    cell, mean = _cell(q), as_array(factor["mean"])
    # Cells of equal values beyond the rim reach into the zone.
    every = np.concatenate([q, *(q + 2 * edge for edge in edges)])
    near = (every @ edges.T <= edges[0] @ edges[0] + (edges @ cell.T).max()).all(axis=1)
    cells = PolyCollection(
        every[near, None] + cell, array=np.tile(mean, 1 + len(edges))[near], lw=0.2, **look
    )
    axes.add_collection(cells)
    cells.set_clip_path(axes.add_patch(Polygon(rim, fill=False, lw=0)))
    if rim is not points["K"]:
        axes.add_patch(Polygon(points["K"], fill=False, ec="white", lw=1, ls="--"))
    reach = 1.08 * np.abs(rim).max(axis=0)  # with room for the mark at its rim
    axes.set(xlim=(-reach[0], reach[0]), ylim=(-reach[1], reach[1]))
    return cells


def _points(factor: Json) -> dict[str, np.ndarray]:
    """Points of high symmetry, q / pi (n, 2) by name; of a hexagon in order around it."""
    return {name: as_array(q) / np.pi for name, q in (factor.get("points") or {}).items()}


def _cell(q: np.ndarray) -> np.ndarray:
    """Corners (n, 2) of the Wigner-Seitz cell of the lattice that q (n_q, 2) belong to."""
    from scipy.spatial import Voronoi

    by_length = q[np.argsort(np.hypot(*q.T).round(9), kind="stable")][1:]
    first = by_length[0]
    aside = np.abs(first[0] * by_length[:, 1] - first[1] * by_length[:, 0])
    second = by_length[int(np.argmax(aside > _CLOSE))]
    steps = np.stack(np.meshgrid(*2 * [np.arange(-2, 3)]), axis=-1).reshape(-1, 2)
    found = Voronoi(steps @ np.array([first, second]))
    region = found.point_region[int(np.flatnonzero(~steps.any(axis=1))[0])]
    return np.asarray(found.vertices[found.regions[region]])


Corners = list[tuple[str, np.ndarray]]  # names and q / pi of a path through the zone


def _corners(factor: Json, q: np.ndarray) -> Corners:
    """A path from Gamma to Gamma; empty over a plane, and where a corner is none of q."""
    centre = (r"$\Gamma$", np.zeros(2))
    if factor.get("zone", "square") == "square":
        ends = [("X", np.array([1.0, 0.0])), ("M", np.array([1.0, 1.0]))]
        return [centre, *ends, centre] if _all_on(q, ends) else []
    points = _points(factor)
    edge, corner = ("extended M", "extended K") if "extended K" in points else ("M", "K")
    if edge not in points:
        return []

    def height(m: np.ndarray) -> tuple[float, ...]:
        """S and the place to sort by, equal ones as `peak` does; what is none of q comes last."""
        away = np.abs(q - m).max(axis=1)
        value = as_array(factor["mean"])[away.argmin()] if away.min() < _CLOSE else np.nan
        return (float(f"{np.nan_to_num(value, nan=-np.inf):.8e}"), *m.round(9))

    for m in sorted(points[edge], key=height, reverse=True):
        for k in points[corner]:
            ends = [(_NAMES[edge], m), (_NAMES[corner], k)]
            if m @ k > m @ m * (1 - _CLOSE) and _all_on(q, ends):  # side by side
                return [centre, *ends, centre]
    return []


_NAMES = {"M": "M", "K": "K", "extended M": r"M$_\mathrm{e}$", "extended K": r"K$_\mathrm{e}$"}


def _all_on(q: np.ndarray, corners: Corners) -> bool:
    return all((np.abs(q - place).max(axis=1) < _CLOSE).any() for _, place in corners)


def _path(q: np.ndarray, corners: Corners) -> list[tuple[float, int]]:
    """(length along a path, index) of the q (n_q, 2) on it."""
    found, start = [], 0.0
    for (_, begin), (_, end) in pairwise(corners):
        length = float(np.hypot(*(end - begin)))
        along = (q - begin) @ (end - begin) / length
        off = np.abs((q - begin) @ np.array([begin[1] - end[1], end[0] - begin[0]])) / length
        near = (off < _CLOSE) & (along > -_CLOSE) & (along < length + _CLOSE)
        found += [(round(start + float(along[i]), 9), int(i)) for i in np.flatnonzero(near)]
        start += length
    return sorted(set(found))


def _ticks(factor: Json, corners: Corners) -> dict[float, str]:
    """Names of the corners of a path, and of points of the first zone on its way, by length."""
    points = _points(factor)
    named = [*((name, place) for name in ("M", "K") for place in points.get(name, ())), *corners]
    on_path = _path(np.array([place for _, place in named]), corners)
    return {length: named[index][0] for length, index in on_path}
