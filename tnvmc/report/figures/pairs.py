"""The correlation of one site with all others: on the lattice, and against the distance."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.report.figures import places as on_lattice
from tnvmc.report.figures import style
from tnvmc.report.figures.places import Places, clear, coloured, places_of
from tnvmc.storage.run_files import Run, as_array

_PAIRS = {
    "SS": r"$\langle \mathbf{S}_{%d}\cdot\mathbf{S}_r\rangle$",
    "nn": r"$\langle n_{%d} n_r\rangle$",
    "SzSz": r"$\langle S^z_{%d} S^z_r\rangle$",
}
"""By name; the first that is measured is drawn."""


@dataclass(frozen=True, eq=False)
class PairCorrelations:
    """The correlation of one site with all: means and errors (N,), and how it is called."""

    site: int
    places: Places
    mean: np.ndarray
    error: np.ndarray
    label: str

    @property
    def others(self) -> np.ndarray:
        """True for all sites but the one: (N,)."""
        return np.arange(self.mean.size) != self.site


def pair_correlations(run: Run, site: int | None = None) -> PairCorrelations:
    """Give the correlation of a site, by default the central one."""
    measured = (run.observables or {}).get("correlations") or {}
    name = next((name for name in _PAIRS if name in measured), None)
    if run.shape is None or name is None:
        raise style.Lacking("no correlations are measured (tnvmc measure)")
    places = places_of(run)
    site = places.centre() if site is None else site
    mean, error = (as_array(measured[name][key])[site] for key in ("mean", "error"))
    return PairCorrelations(site, places, mean, error, _PAIRS[name] % site)


def correlations(run: Run, site: int | None = None) -> Any:
    """Draw the correlation of one site (by default the central one) with all others.

    Left on the lattice, right its size against the distance, with error bars; negative ones open.
    """
    found = pair_correlations(run, site)
    figure = style.new_figure(8.6, 3.9)
    chart, decay = figure.subplots(1, 2, width_ratios=(1, 1.05))
    draw_correlation_map(chart, found)
    draw_decay(decay, found)
    return figure


def draw_correlation_map(axes: Any, found: PairCorrelations) -> None:
    """Draw a correlation on the lattice, its site as a star; what is not told from 0 is hatched."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    others, places = found.others, found.places
    largest = on_lattice.symmetric(found.mean[others], found.error[others])
    colours = colormaps[style.DIVERGING].with_extremes(bad="white")
    look = {"cmap": colours, "vmin": -largest, "vmax": largest}
    values = coloured(found.mean, np.where(others, found.error, 0.0))
    unclear = np.flatnonzero(others & ~clear(found.mean, found.error))
    if places.on_grid:
        rows, columns = places.shape
        cells = axes.pcolormesh(
            np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5, values.reshape(places.shape),
            edgecolors="white", linewidth=1.2, **look,
        )  # fmt: skip
        pale: Any = {"fc": "none", "ec": "#b8bdc6", "lw": 0, "hatch": "////"}
        for x, y in places.xy[unclear]:
            axes.add_patch(Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, **pale))
    else:
        diameter = min(26.0, 0.6 * places.unit(axes))
        size = {"s": diameter**2, "linewidths": 0.6, "edgecolors": style.GREY}
        cells = axes.scatter(*places.xy.T, c=values, plotnonfinite=True, **size, **look)
        axes.scatter(*places.xy[unclear].T, facecolors="none", hatch="//////", **size)
    axes.plot(*places.xy[found.site], "*", color="white", mec=style.INK, ms=13, mew=0.8)
    places.show(axes)
    hatch = f"\nhatched: {on_lattice.unclear_text(found.mean)}" if len(unclear) else ""
    bar = {"extend": "max", "location": "bottom", "shrink": 0.8}
    style.colour_bar(axes, cells, found.label + hatch, **bar)


def draw_decay(axes: Any, found: PairCorrelations) -> None:
    """Draw the size of a correlation against the distance; of what is not told from 0 the limit."""
    style.grid(axes)
    seen, distance = clear(found.mean, found.error), found.places.distances(found.site)
    for sign, colour, word in ((1, style.VERMILION, "positive"), (-1, style.BLUE, "negative")):
        at = found.others & seen & (sign * found.mean > 0)
        if at.any():
            size = np.abs(found.mean[at])
            axes.errorbar(
                distance[at], size, style.reach(size, found.error[at]), fmt="o", ms=4.5,
                color=colour, mfc=colour if sign > 0 else "none", lw=0.9, capsize=1.5, label=word,
            )  # fmt: skip
    limit = on_lattice.chance(found.mean) * found.error
    at = found.others & ~seen & np.isfinite(limit) & (limit > 0)
    if at.any():
        word = f"{on_lattice.unclear_text(found.mean)}: below"
        axes.plot(distance[at], limit[at], "v", ms=5, mfc="none", color=style.GREY, label=word)
    style.logarithmic(axes, "y")
    axes.set_xlabel("distance r (lattice constants)")
    axes.set_ylabel(f"|{found.label}|")
    style.legend(axes, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, columnspacing=1.2)
