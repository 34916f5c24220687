"""Pictures of several runs, from what a kind of them says is to be drawn."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tnvmc.report.figures import draw, style
from tnvmc.report.figures.history import History, draw_histories, histories_of
from tnvmc.series.kind import Curve, Curves, Histories, Picture
from tnvmc.shown import short
from tnvmc.storage.run_files import Run, read_run

_HALF = 0.32  # of a column, that the line of an energy covers
_LETTER = 0.08  # inches of a letter below the axis
_EXACT = {"color": style.GREY, "alpha": 0.45, "lw": 4.5, "zorder": 1}
"""Of exact energies: broad lines behind the points, since two lines that agree hide each other."""


def draw_series(picture: Picture) -> Mapping[str, Any]:
    """Draw several runs: figures by the name of their file, none where there is nothing to draw."""
    if isinstance(picture, Histories):
        runs = [read_run(folder) for folder in picture.folders]
        if picture.final:
            return draw_comparison(runs)
        return draw(runs, ("energy",), None, "step").figures if runs else {}
    with style.styled():
        drawn = draw_levels if picture.labels else draw_curves
        return {picture.name: drawn(picture)} if picture.curves[0].x else {}


def draw_comparison(runs: Sequence[Run]) -> Mapping[str, Any]:
    """Draw finished runs of one Hamiltonian: figures by the name of their file.

    "relative_error" ("energy" where no reference is known) against steps and seconds, "variance"
    against it, and "v_score".
    """
    histories = histories_of(runs)
    results = {run.name: run.result for run in runs if run.result is not None}
    scores = {name: result["v_score"] for name, result in results.items()}
    figures: dict[str, Any] = {}
    with style.styled():
        if histories:
            name = "relative_error" if all(each.exact for each in histories) else "energy"
            figures[name] = draw_histories(name, histories)
        if histories and any(result.get("variance") for result in results.values()):
            figures["variance"] = _variances(histories, results)
        if any(scores.values()):
            figures["v_score"] = _v_scores(scores)
    return figures


def _variances(histories: Sequence[History], results: Mapping[str, Any]) -> Any:
    """Final energies against final variances; those below the exact one are hollow."""
    figure = style.new_figure(6.4, 4.0)
    axes = figure.subplots()
    for number, history in enumerate(histories):
        if history.measured and (variance := results[history.label].get("variance")):
            below = bool(history.exact and history.measured[0] < history.exact)
            look = {"color": style.line(number)["color"], "fmt": "o", "ms": 6, "capsize": 2}
            look |= {"mfc": "none"} if below else {}
            label = f"{history.label} (below)" if below else history.label
            axes.errorbar(variance / history.n_sites, *history.end, label=label, **look)
    style.grid(axes)
    style.logarithmic(axes, "x")
    if histories[0].exact:
        style.logarithmic(axes, "y", History.resolved(histories))
    units = histories[0].units
    axes.set_xlabel(f"variance of the local energy per site ({units} units squared)")
    axes.set_ylabel(histories[0].distance_label)
    figure.legend(loc="outside right upper")
    return figure


def _v_scores(scores: Mapping[str, float | None]) -> Any:
    """Points, the smallest V-score on top."""
    figure = style.new_figure(6.4, 0.9 + 0.36 * len(scores))
    axes = figure.subplots()
    colours = {name: style.line(number)["color"] for number, name in enumerate(scores)}
    known = sorted(((score, name) for name, score in scores.items() if score), reverse=True)
    for score, name in known:
        axes.plot([score], [name], "o", color=colours[name], ms=7)
        axes.annotate(short(score), (score, name), xytext=(8, 0), textcoords="offset points",
                      va="center", fontsize=8.5)  # fmt: skip
    axes.set_xlim(known[-1][0] / 2, known[0][0] * 4)
    axes.margins(y=0.15)
    style.logarithmic(axes, "x")
    axes.tick_params(axis="y", length=0)
    style.grid(axes)
    axes.set_xlabel("V-score (0 for an eigenstate)")
    return figure


def draw_levels(picture: Curves) -> Any:
    """Draw energies as points with errors, each before the exact one as a broad line."""
    (levels,), n = picture.curves, len(picture.labels)
    widest = max(len(line) for label in picture.labels for line in label)
    figure = style.new_figure(1.6 + max(1.3, _LETTER * widest) * n, 3.6)
    axes = figure.subplots()
    for place, height, error in zip(levels.x, levels.y, levels.error, strict=True):
        colour = style.line(int(place))["color"]
        axes.hlines(height, place - _HALF, place + _HALF, color=colour, lw=1.2)
        axes.errorbar(place, height, error, color=colour, capsize=3, marker="o", ms=5)
    known = _known(levels)
    if known:
        axes.plot([], [], "o-", color=style.INK, lw=1.2, ms=5, label="measured")
        places, heights = zip(*known, strict=True)
        ends = [[place + side * _HALF for place in places] for side in (-1, 1)]
        axes.hlines(heights, *ends, label=picture.exact, **_EXACT)
        style.legend(axes, loc="upper left")  # the first is the lowest, or nearly so
    axes.set_xticks(range(n), list(map("\n".join, picture.labels)))
    axes.set_xlim(-0.6, n - 0.4)
    axes.set_ylabel(levels.axis)
    style.grid(axes, "y")
    return figure


def draw_curves(picture: Curves) -> Any:
    """Draw curves below each other, measured points with errors before lines of exact values."""
    n = len(picture.curves)
    figure = style.new_figure(5.4, 0.9 + 2.3 * n)
    panels = np.atleast_1d(figure.subplots(n, 1, sharex=True))
    for number, (axes, curve) in enumerate(zip(panels, picture.curves, strict=True)):
        _draw_curve(axes, curve, style.line(number)["color"])
    panels[-1].set_xlabel(picture.axis)
    figure.align_ylabels()
    return figure


def _known(curve: Curve) -> list[tuple[float, float]]:
    return [(x, y) for x, y in zip(curve.x, curve.exact, strict=False) if y is not None]


def _draw_curve(axes: Any, curve: Curve, colour: str) -> None:
    known = _known(curve)
    if known:
        axes.plot(*zip(*known, strict=True), "-", label="exact", **_EXACT)
    axes.errorbar(curve.x, curve.y, curve.error, color=colour, lw=1.0, capsize=3, marker="o", ms=4,
                  label="measured" if known else None)  # fmt: skip
    axes.set_ylabel(curve.axis)
    style.grid(axes)
    style.legend(axes)
