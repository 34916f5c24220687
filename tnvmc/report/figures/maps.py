"""The lattice: energies of the bonds and a field on the sites."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tnvmc.lattice.lattice import nearest_images
from tnvmc.report.figures import places as on_lattice
from tnvmc.report.figures import style
from tnvmc.report.figures.places import Places, clear, coloured, places_of
from tnvmc.report.observables import written
from tnvmc.storage.run_files import Json, Run, as_array

_FIELDS = {
    "Sz": r"$\langle S^z_i\rangle$",
    "n": r"$\langle n_i\rangle$",
    "Sx": r"$\langle S^x_i\rangle$",
}
"""By name; the first that is measured is drawn."""

_WIDTH, _BAR, _BELOW = 5.6, 1.9, 1.0  # inches: of the figure, of its bars beside and below
_ROOM = 46.0  # points between sites that a value with its error takes

Points = list[tuple[float, float]]


def lattice(run: Run) -> Any:
    """Draw bond energies as widths and colours, <Sz> (or <n>) on the sites; see `draw_lattice`."""
    _require_bonds(run)
    places = places_of(run)
    width, height = places.extent
    inches = min(_WIDTH - _BAR, 8.0 * width / height)
    size = (inches + _BAR, max(2.4, inches * height / width + _BELOW))
    if _is_flat(places):
        inches = 6.6
        size = (7.0, inches * height / width + 2 * _BELOW)
    figure = style.new_figure(*size)
    draw_lattice(figure.subplots(), run, 72 * inches / width)
    return figure


def draw_lattice(axes: Any, run: Run, unit: float | None = None) -> None:
    """Draw bond energies and a field on the sites into axes, with their colour bars beside these.

    What is not `clear` of 0 is white (a site) or dashed (a bond), and colours span many errors, so
    that noise is not taken for order.  Long bonds of a grid are counted below the picture; those
    around a periodic boundary are stubs.  `unit` is the distance of two sites in points.
    """
    observables = _require_bonds(run)
    places = places_of(run)
    unit = places.unit(axes) if unit is None else unit
    hidden, unclear = _bonds(axes, observables, places, unit)
    _sites(axes, observables, places, unit)
    places.show(axes)
    told = [f"{hidden} longer bonds are not drawn"] if hidden else []
    if unclear:
        told.append(f"dashed bonds: {unclear}")
    axes.set_xlabel("; ".join(told), fontsize=8)


def _is_flat(places: Places) -> bool:
    """Whether there is more room above the lattice than beside it."""
    width, height = places.extent
    return height < 0.4 * width


def _require_bonds(run: Run) -> Json:
    """Give the observables of a run, with bond energies."""
    if run.observables is None or not run.observables.get("bonds"):
        raise style.Lacking("no bond energies are measured (tnvmc measure)")
    return run.observables


def _bonds(axes: Any, observables: Json, places: Places, unit: float) -> tuple[int, str]:
    """Draw the bonds; give the number of those left out, and what is said of any not clear of 0."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection
    from matplotlib.colors import ListedColormap, Normalize

    segments, values, errors, hidden = [], [], [], 0
    for bond in observables["bonds"]:
        if len(bond["sites"]) != 2 or bond["mean"] is None:
            continue
        pieces = _pieces(bond["sites"], places)
        hidden += not pieces
        segments += pieces
        values += [float(bond["mean"])] * len(pieces)
        errors += [bond.get("error")] * len(pieces)
    if not segments:
        return hidden, ""
    energies, error = np.array(values), as_array(errors)
    seen = clear(energies, error)
    strength = np.where(seen, np.abs(energies) / (np.abs(energies).max() or 1.0), 0.0)
    without_its_light_end = ListedColormap(colormaps[style.SEQUENTIAL](np.linspace(0, 0.9, 256)))
    colours = without_its_light_end.with_extremes(bad="#9aa1ab")
    lines = LineCollection(
        segments, array=coloured(energies, error), cmap=colours, zorder=1,
        norm=Normalize(*on_lattice.span(energies, error)),
        linewidths=0.8 + min(9.0, 0.17 * unit) * strength,
        linestyles=["-" if each else (0, (2.5, 1.5)) for each in seen],
        capstyle="round" if seen.all() else "butt",
    )  # fmt: skip
    axes.add_collection(lines)
    told = f"energy of the bond ({observables['units']} units)", on_lattice.errors_text(error)
    if _is_flat(places):
        style.colour_bar(axes, lines, ", ".join(told), location="top", pad=0.02, aspect=40)
    else:
        style.colour_bar(axes, lines, "\n".join(told))
    return hidden, "" if seen.all() else on_lattice.unclear_text(energies)


def _pieces(sites: Sequence[int], places: Places) -> list[Points]:
    """Polylines (x, y) of a bond: one, two stubs around a boundary, or none for a long one."""
    (x, y), (to_x, to_y) = ((float(x), float(y)) for x, y in places.xy[list(sites)])
    right, down = to_x - x, to_y - y
    if places.lattice is None:
        return [[(x, y), (to_x, to_y)]]
    if places.shape[0] == 1 and abs(right) == 2:
        middle, radius = (x + to_x) / 2, abs(right) / 2
        angles = np.linspace(0, np.pi, 24)
        return [[(middle - radius * np.cos(t), -0.45 * np.sin(t)) for t in angles]]
    near_y, near_x = map(float, nearest_images(np.array([down, right]), places.lattice))
    if np.hypot(near_x, near_y) > _NEIGHBOURS:
        return []
    if np.hypot(right, down) <= _NEIGHBOURS:
        return [[(x, y), (to_x, to_y)]]
    half = 0.55 * near_x, 0.55 * near_y
    return [[(x, y), (x + half[0], y + half[1])], [(to_x, to_y), (to_x - half[0], to_y - half[1])]]


_NEIGHBOURS = 1.5  # shortest distances; the next ones are sqrt(3)


def _sites(axes: Any, observables: Json, places: Places, unit: float) -> None:
    """Draw the sites: a field that is not told from 0 is white; values beside them on a grid."""
    from matplotlib import colormaps
    from matplotlib.patheffects import withStroke

    diameter = min(20.0, 0.36 * unit)
    look = {"s": diameter**2, "edgecolors": style.INK, "zorder": 2}
    measured = observables.get("sites", {})
    name = next((name for name in _FIELDS if name in measured), None)
    if name is None:
        axes.scatter(*places.xy.T, color="white", **look)
        return
    mean, error = (as_array(measured[name][key]) for key in ("mean", "error"))
    mean, error = (np.where(np.abs(x) < style.ROUNDING, 0.0, x) for x in (mean, error))
    largest = on_lattice.symmetric(mean, error)
    most = max(1.0, on_lattice.largest(mean))  # of bosons more
    lowest, largest = (0.0, most) if name == "n" else (-largest, largest)
    chosen = colormaps[style.DENSITY if name == "n" else style.DIVERGING]
    colours = chosen.with_extremes(bad="white")
    dots = axes.scatter(
        *places.xy.T, c=coloured(mean, error), linewidths=0.9, plotnonfinite=True, cmap=colours,
        vmin=lowest, vmax=largest, **look,
    )  # fmt: skip
    if places.on_grid and unit >= _ROOM:
        off = (0.5 * diameter + 1.5) * np.sqrt(0.5)
        for xy, *value in zip(places.xy, mean, error, strict=True):
            axes.annotate(
                written(*value).replace("-", "−"), xy, xytext=(off, -off), fontsize=6.5,
                textcoords="offset points", va="top", zorder=3,
                path_effects=[withStroke(linewidth=2, foreground="white")],
            )  # fmt: skip
    white = "" if clear(mean, error).all() else f"; white: {on_lattice.unclear_text(mean)}"
    label = f"{_FIELDS[name]}, {on_lattice.errors_text(error)}{white}"
    aspect = 40 if _is_flat(places) else 24
    style.colour_bar(axes, dots, label, location="bottom", pad=0.02, aspect=aspect)
