"""Figures of a run: each function gives a figure, or raises `Lacking`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tnvmc.report.figures import (
    convergence,
    evolution,
    extrapolations,
    maps,
    momentum,
    pairs,
    style,
)
from tnvmc.report.figures.history import PANELS, draw_histories, histories_of
from tnvmc.storage.run_files import Run

STATES: Mapping[str, Callable[[Run], Any]] = {
    "lattice": maps.lattice,
    "correlations": pairs.correlations,
    "structure_factor": momentum.structure_factor,
    "evolution": evolution.evolution,
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
    histories = histories_of(runs)
    states: dict[str, Any] = {**STATES, "correlations": partial(pairs.correlations, site=site)}
    for name in names:
        try:
            with style.styled():
                if name == convergence.NAME:
                    figures[name] = convergence.draw_convergence(histories, against)
                elif name in HISTORIES:
                    figures[name] = draw_histories(name, histories, against)
                elif len(runs) > 1:
                    raise style.Lacking("shows one run, not several")
                else:
                    figures[name] = states[name](runs[0])
        except style.Lacking as lacking:
            left_out.append(f"{name} is left out: {lacking}")
    return Figures(figures, tuple(left_out))
