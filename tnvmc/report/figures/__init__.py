"""Pictures of a run: each function gives a figure, or one line saying what it has no data for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tnvmc.report.figures import convergence, course, maps, momentum, style
from tnvmc.report.figures.course import Course, course_of
from tnvmc.storage.run_files import Run

COURSES: Mapping[str, Callable[[Sequence[Course]], Any]] = {
    "energy": course.energy,
    "relative_error": course.relative_error,
    "variance": course.variance,
    "acceptance": course.acceptance,
    "closure_spread": course.closure_spread,
}
"""Pictures that can hold several runs."""

STATES: Mapping[str, Callable[[Run], Any]] = {
    "lattice": maps.lattice,
    "correlations": maps.correlations,
    "structure_factor": momentum.structure_factor,
    "chi": convergence.chi,
    "zero_variance": convergence.zero_variance,
    "bond_dimension": convergence.bond_dimension,
}
"""Pictures of one run."""

NAMES = (*COURSES, *STATES)
COMPARED = ("energy", "relative_error", "variance")
"""What several runs are compared in where nothing else is asked for."""


@dataclass(frozen=True)
class Pictures:
    """Figures by name, and one line for each picture that has no data."""

    figures: Mapping[str, Any]
    left_out: tuple[str, ...]


def draw(runs: Sequence[Run], names: Sequence[str], site: int | None = None) -> Pictures:
    """Draw pictures of one run, or the pictures in `COURSES` of several runs on the same axes.

    `site` is the one whose correlations are shown.
    """
    figures: dict[str, Any] = {}
    left_out: list[str] = []
    courses = [found for run in runs if (found := course_of(run)) is not None]
    for name in names:
        with style.styled():
            if name in COURSES:
                made = COURSES[name](courses) if courses else "no step has been written yet"
            elif len(runs) > 1:
                made = "shows one run, not several"
            elif name == "correlations":
                made = maps.correlations(runs[0], site)
            else:
                made = STATES[name](runs[0])
        if isinstance(made, str):
            left_out.append(f"{name} is left out: {made}")
        else:
            figures[name] = made
    return Pictures(figures, tuple(left_out))
