"""Pictures of a comparison: the same runs in the same colours in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tnvmc.report.figures import scales, style
from tnvmc.report.figures.course import GAP, Course, course_of
from tnvmc.storage.run_files import Run

COLOURS = (*style.CYCLE, style.GREY)
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_BELOW = {"mfc": "white", "mew": 1.2}  # open markers, of what a logarithm would fold upward
_WINDOWS = 25  # of a course, over which its running median is taken
_MANY = 10.0  # ratio of the longest to the shortest course from which the axis is logarithmic


def draw_comparison(runs: Sequence[Run]) -> Mapping[str, Any]:
    """Draw finished runs of one Hamiltonian: figures by the name of their file.

    "relative_error" ("energy" where no reference is known) against steps and seconds,
    "variance" against it, and "v_score".  Nothing is drawn of runs without steps.  Relative
    errors are drawn by their size; markers of energies below the reference are open.
    """
    courses = [course for run in runs if (course := course_of(run)) is not None]
    results = {run.name: run.result for run in runs if run.result is not None}
    scores = {name: result["v_score"] for name, result in results.items()}
    figures: dict[str, Any] = {}
    with style.styled():
        if courses:
            name = "relative_error" if all(course.exact for course in courses) else "energy"
            figures[name] = _courses(courses)
            figures["variance"] = _variances(courses, results)
        if any(scores.values()):
            figures["v_score"] = _v_scores(scores)
    return figures


def _look(number: int) -> dict[str, Any]:
    turn = number // len(COLOURS)
    return {"color": COLOURS[number % len(COLOURS)], "ls": style.DASHES[turn % len(style.DASHES)]}


def _off(course: Course, energy: Any) -> Any:
    """Relative distance to the reference, or the energy per site where there is none."""
    return np.abs(energy / course.exact - 1) if course.exact else energy


def _absurd(course: Course, energy: Any) -> np.ndarray:
    """Tell which energies would hide all others."""
    return scales.absurd(_off(course, energy)) if course.exact else scales.absurd(energy, GAP)


def _label(course: Course) -> str:
    if not course.exact:
        return f"energy per site ({course.units} units)"
    if course.exact_label == "exact":
        return "relative error of the energy"
    return f"relative distance to the {course.exact_label} energy"


def _courses(courses: Sequence[Course]) -> Any:
    """Running medians over the faint values of the steps; the final measurements as points."""
    figure = style.new_figure(9.0, 4.2)
    panels = figure.subplots(1, 2, sharey=True)
    for place, axes in enumerate(panels):
        for number, course in enumerate(courses):
            x = (course.seconds if place else course.steps + 1)[course.kept]
            energy, look = course.energy[course.kept], _look(number)
            gone = _absurd(course, energy)
            far = _off(course, energy[gone])
            scales.mark_beyond(axes, x[gone], far, look["color"], course.label)
            faint = _off(course, scales.without(energy, gone))
            axes.plot(x, faint, **look | {"lw": 0.8, "alpha": 0.22})
            middle = _running_median(energy)
            middle = scales.without(middle, _absurd(course, middle))
            axes.plot(x, _off(course, middle), **look | {"lw": 1.7})
            _open_below(axes, course, x, middle, look["color"])
            if course.measured is not None:
                _final(axes, course, x[-1], look["color"], MARKERS[number % len(MARKERS)])
        longest = [(course.seconds if place else course.steps + 1)[-1] for course in courses]
        if max(longest) > _MANY * min(longest):
            scales.logarithmic(axes, "x")
        _finish(axes, courses)
        axes.set_xlabel("seconds of optimisation" if place else "steps")
    panels[0].set_ylabel(_label(courses[0]))
    for number, course in enumerate(courses):
        marker = MARKERS[number % len(MARKERS)]
        panels[0].plot([], [], **_look(number), marker=marker, mec="white", label=course.label)
    _explain_below(panels[0], courses)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
    return figure


def _final(axes: Any, course: Course, x: float, colour: str, marker: str) -> None:
    assert course.measured is not None
    energy, error = course.measured
    y, size = _off(course, energy), error / abs(course.exact) if course.exact else error
    # On a log axis an error bar may not reach down to zero.
    down = min(size, 0.9 * y) if course.exact else size
    look = _BELOW | {"mec": colour} if _is_below(course, energy) else {"mec": "white", "mew": 0.8}
    axes.errorbar(
        x, y, [[down], [size]], fmt=marker, ms=6, capsize=2, color=colour, ecolor=colour, zorder=5,
        **look,
    )  # fmt: skip


def _is_below(course: Course, energy: Any) -> Any:
    return energy < course.exact if course.exact else np.zeros(np.shape(energy), dtype=bool)


def _open_below(axes: Any, course: Course, x: Any, energy: Any, colour: str) -> None:
    """Mark where a course lies below the reference: at one point of each window."""
    below = np.flatnonzero(_is_below(course, energy))
    _, first = np.unique(below * _WINDOWS // max(1, len(energy)), return_index=True)
    at = below[first]
    if at.size:
        y = _off(course, energy[at])
        axes.plot(x[at], y, "o", ms=3.6, mec=colour, zorder=4, **_BELOW | {"mew": 0.9})


def _explain_below(axes: Any, courses: Sequence[Course]) -> None:
    """Add a legend entry for open markers, where there are any."""
    for course in courses:
        energies = _running_median(course.energy[course.kept])
        energies = energies[~_absurd(course, energies)]
        final = course.measured is not None and _is_below(course, course.measured[0])
        if final or _is_below(course, energies).any():
            axes.plot([], [], "o", ms=6, mec=style.INK, label=f"below the {course.exact_label} energy",
                      **_BELOW)  # fmt: skip
            return


def _finish(axes: Any, courses: Sequence[Course]) -> None:
    """Set the energy axis: logarithmic, and not below what the measurements can tell."""
    style.grid(axes)
    if courses[0].exact is None:
        _limit(axes, courses)
        return
    seen = [
        max(_off(course, energy), error / abs(course.exact))
        for course in courses
        if course.exact and course.measured is not None
        for energy, error in [course.measured]
    ]
    scales.logarithmic(axes, "y", min(seen) / 5 if seen and min(seen) > 0 else None)


def _limit(axes: Any, courses: Sequence[Course]) -> None:
    """Let the last three quarters of the courses fill the panel."""
    late = [course.energy[len(course.energy) // 4 :] for course in courses]
    values = np.concatenate([part[~scales.absurd(part, GAP)] for part in late])
    low, high = float(values.min()), float(values.max())
    margin = 0.08 * (high - low) or 0.01 * abs(high) or 1.0
    axes.set_ylim(low - margin, high + margin)


def _running_median(values: np.ndarray) -> np.ndarray:
    half = len(values) // (2 * _WINDOWS)
    padded = np.pad(values, half, mode="reflect") if half else values
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    return np.median(windows, axis=1)


def _variances(courses: Sequence[Course], results: Mapping[str, Any]) -> Any:
    """Final energies against final variances, on the way that the steps took there."""
    figure = style.new_figure(6.4, 4.6)
    axes = figure.subplots()
    for number, course in enumerate(courses):
        x = _running_median(course.of("variance")[course.kept] / course.n_sites)
        energy = _running_median(course.energy[course.kept])
        gone = _absurd(course, energy) | scales.absurd(x)
        x, energy = scales.without(x, gone), scales.without(energy, gone)
        colour, marker = _look(number)["color"], MARKERS[number % len(MARKERS)]
        axes.plot(x, _off(course, energy), color=colour, lw=1.0, alpha=0.45)
        _open_below(axes, course, x, energy, colour)
        if course.measured is not None and results[course.label]["variance"]:
            measured = results[course.label]["variance"] / course.n_sites
            _final(axes, course, measured, colour, marker)
        axes.plot([], [], color=colour, marker=marker, mec="white", ms=6, label=course.label)
        if gone.any():
            axes.plot([], [], "^", color=colour, label=f"steps beyond the axes: {gone.sum()}")
    _explain_below(axes, courses)
    scales.logarithmic(axes, "x")
    _finish(axes, courses)
    axes.set_xlabel(f"variance of the local energy per site ({courses[0].units} units squared)")
    axes.set_ylabel(_label(courses[0]))
    figure.legend(loc="outside right upper")
    return figure


def _v_scores(scores: Mapping[str, float | None]) -> Any:
    """Bars, the smallest V-score on top."""
    figure = style.new_figure(6.4, 0.9 + 0.36 * len(scores))
    axes = figure.subplots()
    known = {name: score for name, score in scores.items() if score}
    colours = {name: COLOURS[n % len(COLOURS)] for n, name in enumerate(scores)}
    names = sorted(known, key=lambda name: -known[name])
    axes.barh(names, [known[n] for n in names], color=[colours[n] for n in names], height=0.62)
    low, high = min(known.values()), max(known.values())
    axes.set_xlim(low / 4, high * 4)
    scales.logarithmic(axes, "x", nonpositive="clip")  # bars begin at 0
    for place, name in enumerate(names):
        axes.annotate(
            f"{known[name]:.1e}", (known[name], place), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=8.5,
        )  # fmt: skip
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=style.INK, alpha=0.13, lw=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("V-score (0 for an eigenstate)")
    return figure
