"""The picture of several sectors: their energies above the first, beside the exact ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tnvmc.analysis.sectors import Level
from tnvmc.report.figures import style

_HALF = 0.32  # of a column, that the line of an energy covers
_EXACT = {"color": style.GREY, "alpha": 0.45, "lw": 4.5, "zorder": 1}
"""Of exact energies: broad lines behind the points, since two lines hide each other where they agree."""


def draw_levels(levels: Sequence[Level]) -> Any:
    """Draw the energy of each sector above that of the first, with its error, before the exact ones as broad lines.

    The first is drawn with the error of its energy, the others with that of their gap.  Exact energies
    count from the exact one of the first, where both are known.
    """
    with style.styled():
        labels = [_label(level) for level in levels]
        widest = max(len(line) for label in labels for line in label.splitlines())
        figure = style.new_figure(1.6 + max(1.3, _LETTER * widest) * len(levels), 3.6)
        axes = figure.subplots()
        for place, level in enumerate(levels):
            colour = style.line(place)["color"]
            height, error = (
                (0.0, level.energy_error)
                if level.gap is None
                else (level.gap.energy, level.gap.error)
            )
            axes.hlines(height, place - _HALF, place + _HALF, color=colour, lw=1.2)
            axes.errorbar(place, height, error, color=colour, capsize=3, marker="o", ms=5)
        known = [(place, each.exact_gap) for place, each in enumerate(levels)]
        known = [(0, 0.0), *((place, gap) for place, gap in known if gap is not None)]
        if len(known) > 1:
            axes.plot([], [], "o-", color=style.INK, lw=1.2, ms=5, label="measured")
            places, heights = zip(*known, strict=True)
            ends = [[place + side * _HALF for place in places] for side in (-1, 1)]
            axes.hlines(heights, *ends, label=_known(levels), **_EXACT)
            style.legend(axes, loc="upper left")  # the first is the lowest, or nearly so
        axes.set_xticks(range(len(levels)), labels)
        axes.set_xlim(-0.6, len(levels) - 0.4)
        axes.set_ylabel(f"E − E({levels[0].name}) ({levels[0].units} units)")
        style.grid(axes, "y")
    return figure


_LETTER = 0.08  # inches of a letter below the axis


def _known(levels: Sequence[Level]) -> str:
    methods = {each.exact.method for each in levels if each.exact.energy is not None}
    return "exact" if methods == {"exact"} else "reference"


def _label(level: Level) -> str:
    """Write on lines of its own what tells a sector from the others."""
    lines = [level.name]
    if level.magnetisation is not None:
        lines.append(f"2 Sz = {level.magnetisation}")
    lines += [name + (" +1" if sign > 0 else " −1") for name, sign in level.characters.items()]
    if level.symmetrise and not level.characters:
        lines.append("summed over " + ", ".join(level.symmetrise))
    if level.orthogonal_to:
        lines.append("orthogonal to " + ", ".join(level.orthogonal_to))
    return "\n".join(lines)
