"""Figures of a run: each function gives a figure, or one line saying what it has no data for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tnvmc.report.figures import convergence, extrapolations, maps, momentum, pairs, style
from tnvmc.report.figures.history import PANELS, draw_histories, history_of
from tnvmc.storage.run_files import Run

STATES: Mapping[str, Callable[[Run], Any]] = {
    "lattice": maps.lattice,
    "correlations": pairs.correlations,
    "structure_factor": momentum.structure_factor,
    "chi": extrapolations.chi,
    "zero_variance": partial(extrapolations.extrapolation, "variance"),
    "bond_dimension": partial(extrapolations.extrapolation, "bond_dimension"),
}
"""Figures of one run."""

HISTORIES = (*PANELS, convergence.NAME)
"""Figures that can hold several runs."""

NAMES = (*HISTORIES, *STATES)
COMPARED = ("energy", "relative_error", "variance")
"""What several runs are compared in where nothing else is asked for."""


@dataclass(frozen=True)
class Figures:
    """Figures by name, and one line for each that has no data."""

    figures: Mapping[str, Any]
    left_out: tuple[str, ...]


def draw(
    runs: Sequence[Run], names: Sequence[str], site: int | None = None, against: str | None = None
) -> Figures:
    """Draw figures of one run, or those in `HISTORIES` of several runs on the same axes.

    `site` is the one whose correlations are shown; `against` what all histories are drawn against,
    "step" or "seconds".
    """
    figures: dict[str, Any] = {}
    left_out: list[str] = []
    histories = [found for run in runs if (found := history_of(run)) is not None and found.lines]
    states = dict(STATES) | {"correlations": partial(pairs.correlations, site=site)}
    for name in names:
        with style.styled():
            if name == convergence.NAME:
                made = convergence.draw_convergence(histories, against)
                left_out += convergence.not_shown(histories)
            elif name in HISTORIES:
                made = draw_histories(name, histories, against)
            else:
                made = "shows one run, not several" if len(runs) > 1 else states[name](runs[0])
        if isinstance(made, str):
            left_out.append(f"{name} is left out: {made}")
        else:
            figures[name] = made
    return Figures(figures, tuple(left_out))
