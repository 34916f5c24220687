"""Pictures of a comparison: the same runs in the same colours in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.report.figures import scales, style
from tnvmc.report.figures.history import GAP, History, history_of, limit
from tnvmc.storage.run_files import Run

_MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_BELOW = {"mfc": "white", "mew": 1.2}  # open markers, of what a logarithm would fold upward
_WINDOWS = 25  # of a history, over which its running median is taken
_MANY = 10.0  # ratio of the longest to the shortest history from which the axis is logarithmic


def draw_comparison(runs: Sequence[Run]) -> Mapping[str, Any]:
    """Draw finished runs of one Hamiltonian: figures by the name of their file.

    "relative_error" ("energy" where no reference is known) against steps and seconds,
    "variance" against it, and "v_score".  Nothing is drawn of runs without steps.  Relative
    errors are drawn by their size; markers of energies below the reference are open.
    """
    histories = [found for run in runs if (found := history_of(run)) is not None and found.lines]
    curves = [_Curve(history, number) for number, history in enumerate(histories)]
    results = {run.name: run.result for run in runs if run.result is not None}
    scores = {name: result["v_score"] for name, result in results.items()}
    figures: dict[str, Any] = {}
    with style.styled():
        if curves:
            name = "relative_error" if all(curve.exact for curve in curves) else "energy"
            figures[name] = _energies(curves)
            figures["variance"] = _variances(curves, results)
        if any(scores.values()):
            figures["v_score"] = _v_scores(scores)
    return figures


@dataclass(frozen=True)
class _Curve:
    """One run in the pictures: its history, and how it looks."""

    history: History
    number: int

    @property
    def exact(self) -> float | None:
        return self.history.exact

    @property
    def line(self) -> dict[str, str]:
        return style.line(self.number)

    @property
    def entry(self) -> dict[str, Any]:
        """What the legend shows."""
        marker = _MARKERS[self.number % len(_MARKERS)]
        return {"marker": marker, "mec": "white", "label": self.history.label}

    def off(self, energy: Any) -> Any:
        """Relative distance to the reference, or the energy per site where there is none."""
        return np.abs(energy / self.exact - 1) if self.exact else energy

    def absurd(self, energy: np.ndarray) -> np.ndarray:
        """Tell which energies would hide all others."""
        return scales.absurd(self.off(energy)) if self.exact else scales.absurd(energy, GAP)

    def below(self, energy: Any) -> Any:
        """Tell which energies are below the reference."""
        return energy < self.exact if self.exact else np.zeros(np.shape(energy), dtype=bool)

    def kept(self, values: np.ndarray) -> np.ndarray:
        """The running median over the steps that were not undone."""
        return _running_median(values[self.history.kept])

    def final(self, axes: Any, x: float) -> None:
        """Draw the measurement at the end."""
        if self.history.measured is None:
            return
        energy, error = self.history.measured
        y, size = self.off(energy), error / abs(self.exact) if self.exact else error
        colour = self.line["color"]
        look: Any = {"mec": "white", "mew": 0.8}
        axes.errorbar(
            x, y, scales.reach(y, size) if self.exact else size, fmt=self.entry["marker"], ms=6,
            capsize=2, color=colour, ecolor=colour, zorder=5,
            **(_BELOW | {"mec": colour} if self.below(energy) else look),
        )  # fmt: skip

    def open_below(self, axes: Any, x: np.ndarray, energy: np.ndarray) -> None:
        """Mark where a curve lies below the reference: at one point of each window."""
        below = np.flatnonzero(self.below(energy))
        _, first = np.unique(below * _WINDOWS // max(1, len(energy)), return_index=True)
        at = below[first]
        if at.size:
            look = _BELOW | {"mec": self.line["color"], "mew": 0.9}
            axes.plot(x[at], self.off(energy[at]), "o", ms=3.6, zorder=4, **look)


def _energies(curves: Sequence[_Curve]) -> Any:
    """Running medians over the faint values of the steps; the final measurements as points."""
    figure = style.new_figure(9.0, 4.2)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, against in zip(panels, ("steps", "seconds of optimisation"), strict=True):
        longest = []
        for curve in curves:
            history, line = curve.history, curve.line
            x = history.of("step") + 1 if against == "steps" else history.seconds
            longest.append(x[-1])
            x, energy = x[history.kept], history.energy[history.kept]
            gone = curve.absurd(energy)
            far = curve.off(energy[gone])
            scales.mark_beyond(axes, x[gone], far, line["color"], history.label)
            axes.plot(x, curve.off(scales.without(energy, gone)), **line, lw=0.8, alpha=0.22)
            middle = _running_median(energy)
            middle = scales.without(middle, curve.absurd(middle))
            axes.plot(x, curve.off(middle), **line, lw=1.7)
            curve.open_below(axes, x, middle)
            curve.final(axes, x[-1])
        if max(longest) > _MANY * min(longest):
            scales.logarithmic(axes, "x")
        _finish(axes, curves)
        axes.set_xlabel(against)
    panels[0].set_ylabel(_label(curves))
    for curve in curves:
        panels[0].plot([], [], **curve.line, **curve.entry)
    _explain_below(panels[0], curves)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
    return figure


def _label(curves: Sequence[_Curve]) -> str:
    history = curves[0].history
    return history.distance_label if history.exact else history.energy_label


def _explain_below(axes: Any, curves: Sequence[_Curve]) -> None:
    """Add a legend entry for open markers, where there are any."""
    for curve in curves:
        history = curve.history
        energies = curve.kept(history.energy)
        final = history.measured is not None and curve.below(history.measured[0])
        if final or curve.below(energies[~curve.absurd(energies)]).any():
            label = f"below the {history.exact_label} energy"
            axes.plot([], [], "o", ms=6, mec=style.INK, label=label, **_BELOW)
            return


def _finish(axes: Any, curves: Sequence[_Curve]) -> None:
    """Set the energy axis: logarithmic, and not below what the measurements can tell."""
    style.grid(axes)
    if curves[0].exact is None:
        limit(axes, [curve.history for curve in curves])
        return
    seen = [
        max(curve.off(curve.history.measured[0]), curve.history.measured[1] / abs(curve.exact))
        for curve in curves
        if curve.exact and curve.history.measured is not None
    ]
    scales.logarithmic(axes, "y", min(seen) / 5 if seen and min(seen) > 0 else None)


def _running_median(values: np.ndarray) -> np.ndarray:
    half = len(values) // (2 * _WINDOWS)
    padded = np.pad(values, half, mode="reflect") if half else values
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    return np.median(windows, axis=1)


def _variances(curves: Sequence[_Curve], results: Mapping[str, Any]) -> Any:
    """Final energies against final variances, on the way that the steps took there."""
    figure = style.new_figure(6.4, 4.6)
    axes = figure.subplots()
    for curve in curves:
        history, colour = curve.history, curve.line["color"]
        x = curve.kept(history.of("variance") / history.n_sites)
        energy = curve.kept(history.energy)
        gone = curve.absurd(energy) | scales.absurd(x)
        x, energy = scales.without(x, gone), scales.without(energy, gone)
        axes.plot(x, curve.off(energy), color=colour, lw=1.0, alpha=0.45)
        curve.open_below(axes, x, energy)
        if variance := results.get(history.label, {}).get("variance"):
            curve.final(axes, variance / history.n_sites)
        axes.plot([], [], color=colour, ms=6, **curve.entry)
        if gone.any():
            axes.plot([], [], "^", color=colour, label=f"steps beyond the axes: {gone.sum()}")
    _explain_below(axes, curves)
    scales.logarithmic(axes, "x")
    _finish(axes, curves)
    units = curves[0].history.units
    axes.set_xlabel(f"variance of the local energy per site ({units} units squared)")
    axes.set_ylabel(_label(curves))
    figure.legend(loc="outside right upper")
    return figure


def _v_scores(scores: Mapping[str, float | None]) -> Any:
    """Bars, the smallest V-score on top."""
    figure = style.new_figure(6.4, 0.9 + 0.36 * len(scores))
    axes = figure.subplots()
    known = {name: score for name, score in scores.items() if score}
    colours = {name: style.line(number)["color"] for number, name in enumerate(scores)}
    names = sorted(known, key=lambda name: -known[name])
    axes.barh(names, [known[n] for n in names], color=[colours[n] for n in names], height=0.62)
    axes.set_xlim(min(known.values()) / 4, max(known.values()) * 4)
    scales.logarithmic(axes, "x", nonpositive="clip")  # bars begin at 0
    for place, name in enumerate(names):
        axes.annotate(
            f"{known[name]:.1e}", (known[name], place), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=8.5,
        )  # fmt: skip
    axes.tick_params(axis="y", length=0)
    style.grid(axes, "x")
    axes.set_xlabel("V-score (0 for an eigenstate)")
    return figure
