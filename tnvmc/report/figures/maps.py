"""Pictures on the lattice: bond energies and local fields, correlations with one site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.report.figures import scales, style
from tnvmc.storage.run_files import Json, Run, as_array

_FIELDS = {
    "Sz": r"$\langle S^z_i\rangle$",
    "n": r"$\langle n_i\rangle$",
    "Sx": r"$\langle S^x_i\rangle$",
}
_PAIRS = {
    "SS": r"$\langle \mathbf{S}_{%d}\cdot\mathbf{S}_r\rangle$",
    "nn": r"$\langle n_{%d} n_r\rangle$",
    "SzSz": r"$\langle S^z_{%d} S^z_r\rangle$",
}
"""By name; the first that is measured is drawn."""

Shape = tuple[int, int]


_NO_BONDS = "no bond energies are measured (tnvmc measure)"


def lattice(run: Run) -> Any | str:
    """Draw bond energies as widths and colours, and <Sz> (or <n>) on the sites; see `draw_lattice`."""
    if run.shape is None:
        return _NO_BONDS
    rows, columns = run.shape
    size = (7.0, 2.4) if rows == 1 else (5.6, min(9.0, max(3.0, 1.2 + 4.4 * rows / columns)))
    figure = style.new_figure(*size)
    unit = 72 * min((size[0] - 1.2) / (columns + 0.4), (size[1] - 1.0) / (rows + 0.4))
    return draw_lattice(figure.subplots(), run, unit) or figure


def draw_lattice(axes: Any, run: Run, unit: float) -> str | None:
    """Draw bond energies and a field on the sites into axes, with their colour bars beside these.

    Bonds longer than a diagonal are not drawn (on a chain: longer than two sites), and counted
    below the picture; bonds around a periodic boundary are drawn as stubs on both sides.

    Args:
        axes: of matplotlib.
        run: with observables.
        unit: distance of two sites in points, which sizes go by.

    Returns:
        What is lacking, None where nothing is.
    """
    if run.observables is None or run.shape is None or not run.observables.get("bonds"):
        return _NO_BONDS
    figure = axes.figure
    hidden = _bonds(figure, axes, run.observables, run.shape, unit)
    _sites(figure, axes, run.observables, run.shape, unit)
    style.bare_lattice(axes, run.shape)
    if hidden:
        axes.set_xlabel(f"{hidden} longer bonds are not drawn", fontsize=8)
    return None


def _bonds(figure: Any, axes: Any, observables: Json, shape: Shape, unit: float) -> int:
    """Draw the bonds and give the number of those left out."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection
    from matplotlib.colors import ListedColormap, Normalize

    segments, values, hidden = [], [], 0
    for bond in observables["bonds"]:
        if len(bond["sites"]) != 2 or bond["mean"] is None:
            continue
        pieces = _pieces(bond["sites"], shape, str(observables.get("boundary", "open")))
        hidden += not pieces
        segments += pieces
        values += [float(bond["mean"])] * len(pieces)
    if not segments:
        return hidden
    energies = np.array(values)
    strength = np.abs(energies) / (np.abs(energies).max() or 1.0)
    spread = 0.0 if np.ptp(energies) else abs(energies[0])
    without_its_light_end = ListedColormap(colormaps[style.SEQUENTIAL](np.linspace(0, 0.9, 256)))
    lines = LineCollection(
        segments, array=energies, cmap=without_its_light_end, capstyle="round", zorder=1,
        norm=Normalize(energies.min() - spread, energies.max() + spread),
        linewidths=0.6 + min(9.0, 0.17 * unit) * strength,
    )  # fmt: skip
    axes.add_collection(lines)
    style.colour_bar(figure, lines, axes, f"energy of the bond ({observables['units']} units)")
    return hidden


def _pieces(sites: Sequence[int], shape: Shape, boundary: str) -> list[list[tuple[float, float]]]:
    """Polylines (x, y) of a bond: one, two stubs around a boundary, or none for a long one."""
    (y, x), (to_y, to_x) = (divmod(int(site), shape[1]) for site in sites)
    right, down = to_x - x, to_y - y
    if shape[0] == 1 and abs(right) == 2:
        middle, radius = (x + to_x) / 2, abs(right) / 2
        angles = np.linspace(0, np.pi, 24)
        return [[(middle - radius * np.cos(t), -0.45 * np.sin(t)) for t in angles]]
    short_right = _around(right, shape[1], boundary != "open")
    short_down = _around(down, shape[0], boundary == "periodic")
    if max(abs(short_right), abs(short_down)) > 1:
        return []
    if (short_right, short_down) == (right, down):
        return [[(x, y), (to_x, to_y)]]
    half = (0.55 * short_right, 0.55 * short_down)
    return [[(x, y), (x + half[0], y + half[1])], [(to_x, to_y), (to_x - half[0], to_y - half[1])]]


def _around(offset: Any, length: int, wraps: bool) -> Any:
    """Offsets (of any shape) the shorter way round."""
    if not wraps or length <= 2:
        return offset
    far = 2 * np.abs(offset) > length
    return np.where(far, offset - length * np.sign(offset), offset)[()]


def _sites(figure: Any, axes: Any, observables: Json, shape: Shape, unit: float) -> None:
    """Draw the sites: a field within its error stays pale."""
    rows, columns = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    look = {"s": min(20.0, 0.36 * unit) ** 2, "edgecolors": style.INK, "zorder": 2}
    measured = observables.get("sites", {})
    name = next((name for name in _FIELDS if name in measured), None)
    if name is None:
        axes.scatter(columns, rows, color="white", **look)
        return
    mean, error = as_array(measured[name]["mean"]), as_array(measured[name]["error"])
    largest = float(np.nanmax(np.concatenate([np.abs(mean), 4 * error, [1e-12]])))
    colours = {"cmap": style.DIVERGING, "vmin": -largest, "vmax": largest}
    if name == "n":
        colours = {"cmap": style.DENSITY, "vmin": 0, "vmax": 1}
    dots = axes.scatter(columns, rows, c=mean, linewidths=0.9, **look, **colours)
    style.colour_bar(figure, dots, axes, _FIELDS[name], location="bottom", pad=0.02)


@dataclass(frozen=True)
class PairCorrelations:
    """The correlation of one site with all: means and errors (N,), and how it is called."""

    site: int
    shape: Shape
    boundary: str
    mean: np.ndarray
    error: np.ndarray
    label: str

    @property
    def others(self) -> np.ndarray:
        """True for all sites but the one: (N,)."""
        return np.arange(self.mean.size) != self.site

    @property
    def distance(self) -> np.ndarray:
        """How far each site lies, the shorter way round: (N,)."""
        (rows, columns), (row, column) = self.shape, divmod(self.site, self.shape[1])
        y, x = np.divmod(np.arange(self.mean.size), columns)
        return np.hypot(
            _around(x - column, columns, self.boundary != "open"),
            _around(y - row, rows, self.boundary == "periodic"),
        )


def pair_correlations(run: Run, site: int | None = None) -> PairCorrelations | str:
    """Give the correlation of a site, by default the central one, or a line saying what is lacking."""
    measured = (run.observables or {}).get("correlations") or {}
    name = next((name for name in _PAIRS if name in measured), None)
    if run.observables is None or run.shape is None or name is None:
        return "no correlations are measured (tnvmc measure)"
    rows, columns = run.shape
    site = rows // 2 * columns + columns // 2 if site is None else site
    mean, error = (as_array(measured[name][key])[site] for key in ("mean", "error"))
    boundary = str(run.observables.get("boundary", "open"))
    return PairCorrelations(site, run.shape, boundary, mean, error, _PAIRS[name] % site)


def correlations(run: Run, site: int | None = None) -> Any | str:
    """Draw the correlation of one site (by default the central one) with all others.

    Left on the lattice, right its size against the distance, with error bars; negative ones open.
    """
    found = pair_correlations(run, site)
    if isinstance(found, str):
        return found
    figure = style.new_figure(8.6, 3.9)
    chart, decay = figure.subplots(1, 2, width_ratios=(1, 1.05))
    draw_correlation_map(chart, found)
    draw_decay(decay, found)
    return figure


def draw_correlation_map(axes: Any, found: PairCorrelations) -> None:
    """Draw a correlation on the lattice, its site as a star, with a colour bar."""
    rows, columns = found.shape
    others = found.others
    known = np.abs(found.mean[others][np.isfinite(found.mean[others])])
    largest = float(known.max(initial=0.0)) or 1.0
    cells = axes.pcolormesh(
        np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5, found.mean.reshape(found.shape),
        cmap=style.DIVERGING, vmin=-largest, vmax=largest, edgecolors="white", linewidth=1.2,
    )  # fmt: skip
    row, column = divmod(found.site, columns)
    axes.plot(column, row, "*", color="white", mec=style.INK, ms=13, mew=0.8)
    style.bare_lattice(axes, found.shape)
    bar = {"extend": "max", "location": "bottom", "shrink": 0.8}
    style.colour_bar(axes.figure, cells, axes, found.label, **bar)


def draw_decay(axes: Any, found: PairCorrelations) -> None:
    """Draw the size of a correlation against the distance, with error bars; negative ones open."""
    style.grid(axes)
    for sign, colour, word in ((1, style.VERMILION, "positive"), (-1, style.BLUE, "negative")):
        at = found.others & (sign * found.mean > 0)
        if at.any():
            size = np.abs(found.mean[at])
            axes.errorbar(
                found.distance[at], size, scales.reach(size, found.error[at]), fmt="o", ms=4.5,
                color=colour, mfc=colour if sign > 0 else "none", lw=0.9, capsize=1.5, label=word,
            )  # fmt: skip
    scales.logarithmic(axes, "y")
    axes.set_xlabel("distance r (lattice constants)")
    axes.set_ylabel(f"|{found.label}|")
    style.legend(axes)
