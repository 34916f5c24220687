"""Pictures on the lattice: bond energies and local fields, correlations with one site."""

from __future__ import annotations

from typing import Any

import numpy as np

from tnvmc.report.figures import scales, style
from tnvmc.storage.run_files import Json, Run, as_array

_FIELDS = ("Sz", "n", "Sx")
_PAIRS = ("SS", "nn", "SzSz")
NAMES = {
    "Sz": r"$\langle S^z_i\rangle$",
    "Sx": r"$\langle S^x_i\rangle$",
    "n": r"$\langle n_i\rangle$",
    "SS": r"$\langle \mathbf{S}_i\cdot\mathbf{S}_j\rangle$",
    "SzSz": r"$\langle S^z_i S^z_j\rangle$",
    "nn": r"$\langle n_i n_j\rangle$",
}


def lattice(run: Run) -> Any | str:
    """Draw bond energies as widths and colours, and <Sz> (or <n>) on the sites.

    Bonds longer than a diagonal are not drawn (on a chain: longer than two sites), and counted
    below the picture; bonds around a periodic boundary are drawn as stubs on both sides.
    """
    observables = run.observables
    if observables is None or not observables.get("bonds"):
        return "no bond energies are measured (tnvmc measure)"
    shape = _shape(observables)
    figure = style.new_figure(*_size(shape))
    axes = figure.subplots()
    unit = _points_per_site(figure, shape)
    hidden = _bonds(figure, axes, observables, shape, unit)
    _sites(figure, axes, observables, shape, unit)
    _frame(axes, shape)
    if hidden:
        axes.set_xlabel(f"{hidden} longer bonds are not drawn", fontsize=8)
    return figure


def _shape(observables: Json) -> tuple[int, int]:
    rows, columns = observables["shape"]
    return int(rows), int(columns)


def _size(shape: tuple[int, int]) -> tuple[float, float]:
    rows, columns = shape
    if rows == 1:
        return 7.0, 2.4
    return 5.6, min(9.0, max(3.0, 1.2 + 4.4 * rows / columns))


def _points_per_site(figure: Any, shape: tuple[int, int]) -> float:
    width, height = figure.get_size_inches()
    return 72 * min((width - 1.2) / (shape[1] + 0.4), (height - 1.0) / (shape[0] + 0.4))


def _frame(axes: Any, shape: tuple[int, int]) -> None:
    axes.set_aspect("equal")
    axes.set_xlim(-0.75, shape[1] - 0.25)
    axes.set_ylim(shape[0] - 0.25, -0.75)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def _bonds(figure: Any, axes: Any, observables: Json, shape: tuple[int, int], unit: float) -> int:
    """Draw the bonds and give the number of those left out."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

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
    norm = Normalize(energies.min(), energies.max())
    if np.ptp(energies) == 0:
        norm = Normalize(energies[0] - abs(energies[0]), energies[0] + abs(energies[0]))
    lines = LineCollection(
        segments, array=energies, cmap=_without_its_light_end(), norm=norm, capstyle="round",
        linewidths=0.6 + min(9.0, 0.17 * unit) * strength, zorder=1,
    )  # fmt: skip
    axes.add_collection(lines)
    label = f"energy of the bond ({observables['units']} units)"
    style.colour_bar(figure, lines, axes, label)
    return hidden


def _without_its_light_end() -> Any:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps[style.SEQUENTIAL](np.linspace(0, 0.9, 256)))


def _pieces(
    sites: list[int], shape: tuple[int, int], boundary: str
) -> list[list[tuple[float, float]]]:
    """Polylines (x, y) of a bond: one, two stubs around a boundary, or none for a long one."""
    (y, x), (to_y, to_x) = (divmod(int(site), shape[1]) for site in sites)
    right, down = to_x - x, to_y - y
    if shape[0] == 1 and abs(right) == 2:
        turn = np.linspace(0, np.pi, 24)
        middle, radius = (x + to_x) / 2, abs(right) / 2
        return [[(middle - radius * np.cos(t), -0.45 * np.sin(t)) for t in turn]]
    short_right = _around(right, shape[1], boundary != "open")
    short_down = _around(down, shape[0], boundary == "periodic")
    if max(abs(short_right), abs(short_down)) > 1:
        return []
    if (short_right, short_down) == (right, down):
        return [[(x, y), (to_x, to_y)]]
    half = (0.55 * short_right, 0.55 * short_down)
    return [[(x, y), (x + half[0], y + half[1])], [(to_x, to_y), (to_x - half[0], to_y - half[1])]]


def _around(offset: int, length: int, wraps: bool) -> int:
    if not wraps or length <= 2 or 2 * abs(offset) <= length:
        return offset
    return offset - length if offset > 0 else offset + length


def _sites(figure: Any, axes: Any, observables: Json, shape: tuple[int, int], unit: float) -> None:
    """Draw the sites: a field within its error stays pale."""
    rows, columns = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    area = min(20.0, 0.36 * unit) ** 2
    measured = observables.get("sites", {})
    name = next((name for name in _FIELDS if name in measured), None)
    if name is None:
        axes.scatter(columns, rows, s=area, color="white", edgecolors=style.INK, zorder=2)
        return
    mean, error = as_array(measured[name]["mean"]), as_array(measured[name]["error"])
    if name == "n":
        colours: dict[str, Any] = {"cmap": style.DENSITY, "vmin": 0, "vmax": 1}
    else:
        largest = float(np.nanmax(np.concatenate([np.abs(mean), 4 * error, [1e-12]])))
        colours = {"cmap": style.DIVERGING, "vmin": -largest, "vmax": largest}
    dots = axes.scatter(
        columns, rows, c=mean, s=area, edgecolors=style.INK, linewidths=0.9, zorder=2, **colours
    )
    style.colour_bar(figure, dots, axes, NAMES[name], location="bottom", pad=0.02)


def correlations(run: Run, site: int | None = None) -> Any | str:
    """Draw the correlation of one site (by default the central one) with all others.

    Left on the lattice, right its size against the distance, with error bars; negative ones open.
    """
    measured = (run.observables or {}).get("correlations") or {}
    name = next((name for name in _PAIRS if name in measured), None)
    if run.observables is None or name is None:
        return "no correlations are measured (tnvmc measure)"
    shape = _shape(run.observables)
    if site is None:
        site = shape[0] // 2 * shape[1] + shape[1] // 2
    mean = as_array(measured[name]["mean"])[site]
    error = as_array(measured[name]["error"])[site]
    label = NAMES[name].replace("_i", f"_{{{site}}}").replace("_j", "_r")
    figure = style.new_figure(8.6, 3.9)
    chart, decay = figure.subplots(1, 2, width_ratios=(1, 1.05))
    _map(figure, chart, mean, shape, site, label)
    distance = _distances(shape, str(run.observables.get("boundary", "open")))[site]
    _decay(decay, distance, mean, error, site, label)
    return figure


def _map(
    figure: Any, axes: Any, mean: np.ndarray, shape: tuple[int, int], site: int, label: str
) -> None:
    others = np.delete(mean, site)
    largest = float(np.nanmax(np.abs(others))) if np.isfinite(others).any() else 1.0
    cells = axes.pcolormesh(
        np.arange(shape[1] + 1) - 0.5, np.arange(shape[0] + 1) - 0.5, mean.reshape(shape),
        cmap=style.DIVERGING, vmin=-(largest or 1.0), vmax=largest or 1.0,
        edgecolors="white", linewidth=1.2,
    )  # fmt: skip
    row, column = divmod(site, shape[1])
    axes.plot(column, row, "*", color="white", mec=style.INK, ms=13, mew=0.8)
    _frame(axes, shape)
    style.colour_bar(figure, cells, axes, label, extend="max", location="bottom", shrink=0.8)


def _decay(
    axes: Any, distance: np.ndarray, mean: np.ndarray, error: np.ndarray, site: int, label: str
) -> None:
    style.grid(axes)
    others = np.arange(len(mean)) != site
    for sign, colour, word in ((1, style.VERMILION, "positive"), (-1, style.BLUE, "negative")):
        chosen = others & (sign * mean > 0)
        if not chosen.any():
            continue
        size = np.abs(mean[chosen])
        reach = np.nan_to_num(error[chosen])
        axes.errorbar(
            distance[chosen], size, [np.minimum(reach, 0.9 * size), reach], fmt="o", ms=4.5,
            color=colour, mfc=colour if sign > 0 else "none", lw=0.9, capsize=1.5, label=word,
        )  # fmt: skip
    scales.logarithmic(axes, "y")
    axes.set_xlabel("distance r (lattice constants)")
    axes.set_ylabel(f"|{label}|")
    if axes.get_legend_handles_labels()[0]:
        axes.legend()


def _distances(shape: tuple[int, int], boundary: str) -> np.ndarray:
    """Distances (N, N) on the grid, the shorter way round where it wraps."""
    rows, columns = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    right = np.abs(columns[:, None] - columns)
    down = np.abs(rows[:, None] - rows)
    if boundary != "open":
        right = np.minimum(right, shape[1] - right)
    if boundary == "periodic":
        down = np.minimum(down, shape[0] - down)
    return np.hypot(right, down)
