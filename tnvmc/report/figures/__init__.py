"""Figures of a run: each function gives a figure, or one line saying what it has no data for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tnvmc.report.figures import extrapolations, history, maps, momentum, scales, style
from tnvmc.report.figures.history import History, history_of
from tnvmc.storage.run_files import Run

HISTORIES: Mapping[str, Callable[[Sequence[History]], Any]] = {
    "energy": history.energy,
    "relative_error": history.relative_error,
    "variance": history.variance,
    "acceptance": history.column("acceptance", "acceptance of proposed moves", limits=(0, 1)),
    "closure_spread": history.column(
        "closure_spread", r"closure spread of $\ln|\psi|$", scales.ROUNDING
    ),
}
"""Figures that can hold several runs."""

STATES: Mapping[str, Callable[[Run], Any]] = {
    "lattice": maps.lattice,
    "correlations": maps.correlations,
    "structure_factor": momentum.structure_factor,
    "chi": extrapolations.chi,
    "zero_variance": extrapolations.zero_variance,
    "bond_dimension": extrapolations.bond_dimension,
}
"""Figures of one run."""

NAMES = (*HISTORIES, *STATES)
COMPARED = ("energy", "relative_error", "variance")
"""What several runs are compared in where nothing else is asked for."""


@dataclass(frozen=True)
class Figures:
    """Figures by name, and one line for each that has no data."""

    figures: Mapping[str, Any]
    left_out: tuple[str, ...]


def draw(runs: Sequence[Run], names: Sequence[str], site: int | None = None) -> Figures:
    """Draw figures of one run, or those in `HISTORIES` of several runs on the same axes.

    `site` is the one whose correlations are shown.
    """
    figures: dict[str, Any] = {}
    left_out: list[str] = []
    histories = [found for run in runs if (found := history_of(run)) is not None and found.lines]
    for name in names:
        with style.styled():
            if name in HISTORIES:
                made = HISTORIES[name](histories) if histories else "no step has been written yet"
            elif len(runs) > 1:
                made = "shows one run, not several"
            else:
                made = (
                    maps.correlations(runs[0], site)
                    if name == "correlations"
                    else STATES[name](runs[0])
                )
        if isinstance(made, str):
            left_out.append(f"{name} is left out: {made}")
        else:
            figures[name] = made
    return Figures(figures, tuple(left_out))
