"""The lattice: energies of the bonds and a field on the sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.lattice.lattice import Lattice, nearest_images
from tnvmc.report.figures import places as on_lattice
from tnvmc.report.figures import style
from tnvmc.report.figures.places import Places, around, clear, coloured, places_of
from tnvmc.shown import with_error
from tnvmc.storage.run_files import Json, Run, as_array

_FIELDS = {
    "Sz": r"$\langle S^z_i\rangle$",
    "n": r"$\langle n_i\rangle$",
    "Sx": r"$\langle S^x_i\rangle$",
}
"""By name; the first that is measured is drawn."""

_NO_BONDS = "no bond energies are measured (tnvmc measure)"
_WIDTH, _BAR, _BELOW = 5.6, 1.9, 1.0  # inches: of the figure, of its bars beside and below
_ROOM = 46.0  # points between sites that a value with its error takes

Points = list[tuple[float, float]]


def lattice(run: Run) -> Any | str:
    """Draw bond energies as widths and colours, <Sz> (or <n>) on the sites; see `draw_lattice`."""
    places = places_of(run)
    if isinstance(places, str):
        return _lacking(run) or places
    width, height = places.extent
    inches = min(_WIDTH - _BAR, 8.0 * width / height)
    size = (inches + _BAR, max(2.4, inches * height / width + _BELOW))
    if _is_flat(places):
        inches = 6.6
        size = (7.0, inches * height / width + 2 * _BELOW)
    figure = style.new_figure(*size)
    return draw_lattice(figure.subplots(), run, 72 * inches / width) or figure


def draw_lattice(axes: Any, run: Run, unit: float | None = None) -> str | None:
    """Draw bond energies and a field on the sites into axes, with their colour bars beside these.

    What is not `CLEAR` errors from 0 is white (a site) or dashed (a bond), and colours span many
    errors, so that noise is not taken for order.  Bonds of a grid that are longer than a diagonal
    are not drawn (on a chain: longer than two sites), and counted below the picture; those around a
    periodic boundary are drawn as stubs on both sides.

    Args:
        axes: of matplotlib.
        run: with observables.
        unit: distance of two sites in points, which sizes go by; None: from the size of the axes.

    Returns:
        What is lacking, None where nothing is.
    """
    places, why = places_of(run), _lacking(run)
    if why is not None or isinstance(places, str) or run.observables is None:
        return why or str(places)
    unit = _unit(axes, places) if unit is None else unit
    figure = axes.figure
    hidden, unclear = _bonds(figure, axes, run.observables, places, unit)
    _sites(figure, axes, run.observables, places, unit)
    places.show(axes)
    told = [f"{hidden} longer bonds are not drawn"] if hidden else []
    if unclear:
        told.append(f"dashed bonds: within {on_lattice.CLEAR:g} errors of 0")
    axes.set_xlabel("; ".join(told), fontsize=8)
    return None


def _is_flat(places: Places) -> bool:
    """Whether there is more room above the lattice than beside it."""
    width, height = places.extent
    return height < _FLAT * width


_FLAT = 0.4


def _lacking(run: Run) -> str | None:
    return None if (run.observables or {}).get("bonds") else _NO_BONDS


def _unit(axes: Any, places: Places) -> float:
    box, (width, height) = axes.get_window_extent(), places.extent
    return 72 / axes.figure.dpi * min(0.8 * box.width / width, 0.8 * box.height / height)


def _bonds(
    figure: Any, axes: Any, observables: Json, places: Places, unit: float
) -> tuple[int, bool]:
    """Draw the bonds; give the number of those left out, and whether any is not told from 0."""
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
        return hidden, False
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
        style.colour_bar(figure, lines, axes, ", ".join(told), location="top", pad=0.02, aspect=40)
    else:
        style.colour_bar(figure, lines, axes, "\n".join(told))
    return hidden, not seen.all()


def _pieces(sites: Sequence[int], places: Places) -> list[Points]:
    """Polylines (x, y) of a bond: one, two stubs around a boundary, or none for a long one."""
    (x, y), (to_x, to_y) = ((float(x), float(y)) for x, y in places.xy[list(sites)])
    if places.lattice is not None:
        return _on_lattice(places.lattice, (x, y), (to_x, to_y))
    if not places.on_grid:
        return [[(x, y), (to_x, to_y)]]
    (n_rows, n_columns), (across, downwards) = places.shape, places.wraps
    right, down = to_x - x, to_y - y
    if n_rows == 1 and abs(right) == 2:
        middle, radius = (x + to_x) / 2, abs(right) / 2
        angles = np.linspace(0, np.pi, 24)
        return [[(middle - radius * np.cos(t), -0.45 * np.sin(t)) for t in angles]]
    short_right = float(around(right, n_columns, across))
    short_down = float(around(down, n_rows, downwards))
    if max(abs(short_right), abs(short_down)) > 1:
        return []
    if (short_right, short_down) == (right, down):
        return [[(x, y), (to_x, to_y)]]
    return _stubs((x, y), (to_x, to_y), (short_right, short_down))


def _on_lattice(
    lattice: Lattice, start: tuple[float, float], end: tuple[float, float]
) -> list[Points]:
    """A bond between neighbours; two stubs around a boundary, none for a longer one."""
    step = np.subtract(end, start)
    down, right = nearest_images(step[::-1], lattice)
    if np.hypot(down, right) > _NEIGHBOURS:
        return []
    if np.allclose(step, (right, down)):
        return [[start, end]]
    return _stubs(start, end, (float(right), float(down)))


_NEIGHBOURS = 1.5  # shortest distances; the next ones are sqrt(3)


def _stubs(
    start: tuple[float, float], end: tuple[float, float], step: tuple[float, float]
) -> list[Points]:
    (x, y), (to_x, to_y), half = start, end, (0.55 * step[0], 0.55 * step[1])
    return [[(x, y), (x + half[0], y + half[1])], [(to_x, to_y), (to_x - half[0], to_y - half[1])]]


def _sites(figure: Any, axes: Any, observables: Json, places: Places, unit: float) -> None:
    """Draw the sites: a field that is not told from 0 is white."""
    from matplotlib import colormaps

    diameter = min(20.0, 0.36 * unit)
    look = {"s": diameter**2, "edgecolors": style.INK, "zorder": 2}
    measured = observables.get("sites", {})
    name = next((name for name in _FIELDS if name in measured), None)
    if name is None:
        axes.scatter(*places.xy.T, color="white", **look)
        return
    mean, error = as_array(measured[name]["mean"]), as_array(measured[name]["error"])
    largest = on_lattice.symmetric(mean, error)
    lowest, largest = (0.0, 1.0) if name == "n" else (-largest, largest)
    chosen = colormaps[style.DENSITY if name == "n" else style.DIVERGING]
    colours = chosen.with_extremes(bad=on_lattice.NEUTRAL)
    dots = axes.scatter(
        *places.xy.T, c=coloured(mean, error), linewidths=0.9, plotnonfinite=True, cmap=colours,
        vmin=lowest, vmax=largest, **look,
    )  # fmt: skip
    if unit >= _ROOM:
        texts = [with_error(*each) for each in zip(mean, error, strict=True)]
        pairs = [bond["sites"] for bond in observables["bonds"] if len(bond["sites"]) == 2]
        lines = [np.array(line) for pair in pairs for line in _pieces(pair, places)]
        _values(axes, places, texts, _Room(unit, diameter, lines))
    white = "" if clear(mean, error).all() else f"; white: within {on_lattice.CLEAR:g} errors of 0"
    label = f"{_FIELDS[name]}, {on_lattice.errors_text(error)}{white}"
    aspect = 40 if _is_flat(places) else 24
    style.colour_bar(figure, dots, axes, label, location="bottom", pad=0.02, aspect=aspect)


@dataclass(frozen=True)
class _Room:
    """What values stand beside."""

    unit: float  #: points between neighbours
    diameter: float  #: of a site, in points
    lines: Sequence[np.ndarray]  #: bonds, (n, 2) in the coordinates of the sites


def _values(axes: Any, places: Places, texts: Sequence[str], room: _Room) -> None:
    """Write values with their errors beside the sites, where no bond is in the way."""
    from matplotlib.patheffects import withStroke

    off = 0.5 * room.diameter + 1.5
    for site, text in enumerate(texts):
        right, up = _free_side(places, site, len(text), room)
        axes.annotate(
            text.replace("-", "−"), places.xy[site], xytext=(off * right, off * up),
            fontsize=_SIZE,
            textcoords="offset points", zorder=3, va=_ALIGNED[round(up)][0],
            ha=_ALIGNED[round(right)][1],
            path_effects=[withStroke(linewidth=2, foreground="white")],
        )  # fmt: skip


_ALIGNED = {-1: ("top", "right"), 0: ("center", "center"), 1: ("bottom", "left")}
_SIDES = tuple(np.exp(1j * np.deg2rad([-45, 45, -135, 135, -90, 90, 0, 180])))
_SIZE, _WIDTH_OF_LETTER = 6.5, 0.56  # points; widths of digits over it


def _free_side(places: Places, site: int, n_letters: int, room: _Room) -> tuple[float, float]:
    """Direction (to the right, up) in which a text is farthest from all bonds; on a grid one for
    all.
    """
    chosen = _SIDES[0]
    if not places.on_grid and room.lines:
        upwards = np.array([1, 1 if places.listed else -1])
        steps = np.linspace(0, 1, 25)[:, None]
        marks = np.concatenate([line[0] + steps * (line[-1] - line[0]) for line in room.lines])
        away = (marks - places.xy[site]) * upwards * room.unit / places.spacing
        gaps = [_gap(away, side, n_letters, room) for side in _SIDES]
        chosen = _SIDES[int(np.argmax(np.round(gaps, 1)))]
    return float(chosen.real), float(chosen.imag)


def _gap(marks: np.ndarray, side: complex, n_letters: int, room: _Room) -> float:
    """Distance in points of a text on a side of a site from the nearest of marks (n, 2)."""
    size = np.array([n_letters * _WIDTH_OF_LETTER * _SIZE, _SIZE])
    direction = np.array([side.real, side.imag])
    middle = (0.5 * room.diameter + 1.5) * direction + 0.5 * size * np.round(direction)
    beyond = np.maximum(np.abs(marks - middle) - 0.5 * size, 0.0)
    return float(np.hypot(*beyond.T).min(initial=np.inf))
