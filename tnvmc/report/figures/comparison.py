"""Pictures of a comparison: the same runs in the same colours in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tnvmc.report.figures import style
from tnvmc.report.figures.history import ABSCISSAS, History, histories_of, limit
from tnvmc.shown import short
from tnvmc.storage.run_files import Run

_MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_BELOW = {"mfc": "white", "mew": 1.2}  # open markers, of what a logarithm would fold upward
_WINDOWS = 25  # of a history, over which its running median is taken
_MANY = 10.0  # ratio of the longest to the shortest history from which the axis is logarithmic


def draw_comparison(runs: Sequence[Run]) -> Mapping[str, Any]:
    """Draw finished runs of one Hamiltonian: figures by the name of their file.

    "relative_error" ("energy" where no reference is known) against steps and seconds, "variance"
    against it, and "v_score".  Markers of energies below the reference are open.
    """
    histories = histories_of(runs)
    results = {run.name: run.result for run in runs if run.result is not None}
    scores = {name: result["v_score"] for name, result in results.items()}
    figures: dict[str, Any] = {}
    with style.styled():
        if histories:
            name = "relative_error" if all(each.exact for each in histories) else "energy"
            figures[name] = _energies(histories)
            figures["variance"] = _variances(histories, results)
        if any(scores.values()):
            figures["v_score"] = _v_scores(scores)
    return figures


def _marker(number: int) -> dict[str, Any]:
    """Give the markers of a run, in the colour of its line."""
    colour = style.line(number)["color"]
    return {"marker": _MARKERS[number % len(_MARKERS)], "color": colour, "mec": "white"}


def _energies(histories: Sequence[History]) -> Any:
    """Running medians over the faint values of the steps; the final measurements as points."""
    figure = style.new_figure(9.0, 4.2)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, against in zip(panels, ABSCISSAS, strict=True):
        for number, history in enumerate(histories):
            line, marker = style.line(number), _marker(number)
            every = history.x(against)
            x, energy = every[history.kept], history.energy[history.kept]
            gone, far = history.is_absurd(energy), history.distance(energy)
            style.mark_beyond(axes, x[gone], far[gone], line["color"], history.label)
            axes.plot(x, style.without(far, gone), **line, lw=0.8, alpha=0.22)
            middle = _running_median(energy)
            middle = style.without(middle, history.is_absurd(middle))
            axes.plot(x, history.distance(middle), **line, lw=1.7)
            _open_below(axes, history, x, middle, line["color"])
            _final(axes, history, every[-1], marker)
        ends = [history.x(against)[-1] for history in histories]
        if max(ends) > _MANY * min(ends):
            style.logarithmic(axes, "x")
        _finish(axes, histories)
        axes.set_xlabel(ABSCISSAS[against])
        style.whole_steps(axes, against)
    panels[0].set_ylabel(histories[0].distance_label)
    for number, history in enumerate(histories):
        panels[0].plot([], [], **style.line(number) | _marker(number), label=history.label)
    _explain_below(panels[0], histories)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
    return figure


def _final(axes: Any, history: History, x: float, marker: Mapping[str, Any]) -> None:
    """Draw the measurement at the end."""
    if history.measured is None:
        return
    energy, error = history.measured
    y, look = history.distance(energy), {**marker, "mew": 0.8}
    size = style.reach(y, error / abs(history.exact)) if history.exact else error
    if history.is_below(energy):
        look |= _BELOW | {"mec": marker["color"]}
    axes.errorbar(x, y, size, ls="none", ms=6, capsize=2, zorder=5, **look)


def _open_below(axes: Any, history: History, x: Any, energy: Any, colour: str) -> None:
    """Mark where a curve lies below the reference: at one point of each window."""
    below = np.flatnonzero(history.is_below(energy))
    _, first = np.unique(below * _WINDOWS // max(1, len(energy)), return_index=True)
    at = below[first]
    if at.size:
        y = history.distance(energy[at])
        axes.plot(x[at], y, "o", ms=3.6, mec=colour, zorder=4, **_BELOW | {"mew": 0.9})


def _explain_below(axes: Any, histories: Sequence[History]) -> None:
    """Add a legend entry for open markers, where there are any."""
    for history in histories:
        middle = _running_median(history.energy[history.kept])
        seen = np.append(middle[~history.is_absurd(middle)], (history.measured or ())[:1])
        if history.is_below(seen).any():
            label = f"below the {history.exact_label} energy"
            axes.plot([], [], "o", ms=6, mec=style.INK, label=label, **_BELOW)
            return


def _finish(axes: Any, histories: Sequence[History]) -> None:
    """Set the energy axis: logarithmic, and not below what the measurements can tell."""
    style.grid(axes)
    if histories[0].exact is None:
        limit(axes, histories)
        return
    seen = [
        max(history.distance(history.measured[0]), history.measured[1] / abs(history.exact))
        for history in histories
        if history.exact and history.measured is not None
    ]
    style.logarithmic(axes, "y", min(seen) / 5 if seen and min(seen) > 0 else None)


def _running_median(values: np.ndarray) -> np.ndarray:
    half = len(values) // (2 * _WINDOWS)
    padded = np.pad(values, half, mode="reflect") if half else values
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    return np.median(windows, axis=1)


def _variances(histories: Sequence[History], results: Mapping[str, Any]) -> Any:
    """Final energies against final variances, on the way that the steps took there."""
    figure = style.new_figure(6.4, 4.6)
    axes = figure.subplots()
    for number, history in enumerate(histories):
        marker = _marker(number)
        x = _running_median(history.of("variance")[history.kept] / history.n_sites)
        energy = _running_median(history.energy[history.kept])
        gone = history.is_absurd(energy) | style.absurd(x)
        x, energy = style.without(x, gone), style.without(energy, gone)
        axes.plot(x, history.distance(energy), color=marker["color"], lw=1.0, alpha=0.45)
        _open_below(axes, history, x, energy, marker["color"])
        if variance := results.get(history.label, {}).get("variance"):
            _final(axes, history, variance / history.n_sites, marker)
        axes.plot([], [], ms=6, **marker, label=history.label)
        if gone.any():
            label = f"steps beyond the axes: {gone.sum()}"
            axes.plot([], [], "^", color=marker["color"], label=label)
    _explain_below(axes, histories)
    style.logarithmic(axes, "x")
    _finish(axes, histories)
    units = histories[0].units
    axes.set_xlabel(f"variance of the local energy per site ({units} units squared)")
    axes.set_ylabel(histories[0].distance_label)
    figure.legend(loc="outside right upper")
    return figure


def _v_scores(scores: Mapping[str, float | None]) -> Any:
    """Points, the smallest V-score on top."""
    figure = style.new_figure(6.4, 0.9 + 0.36 * len(scores))
    axes = figure.subplots()
    markers = {name: _marker(number) for number, name in enumerate(scores)}
    known = sorted(((score, name) for name, score in scores.items() if score), reverse=True)
    for score, name in known:
        axes.plot([score], [name], **markers[name], ms=8, mew=0.8)
        axes.annotate(short(score), (score, name), xytext=(8, 0), textcoords="offset points",
                      va="center", fontsize=8.5)  # fmt: skip
    axes.set_xlim(known[-1][0] / 2, known[0][0] * 4)
    axes.margins(y=0.15)
    style.logarithmic(axes, "x")
    axes.tick_params(axis="y", length=0)
    style.grid(axes)
    axes.set_xlabel("V-score (0 for an eigenstate)")
    return figure
