"""Pictures of a comparison: the same runs in the same colours in each."""

from collections.abc import Mapping, Sequence
from typing import Any

from tnvmc.report.figures import style
from tnvmc.report.figures.history import History, draw_histories, histories_of
from tnvmc.shown import short
from tnvmc.storage.run_files import Run


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
    """Final energies against final variances."""
    figure = style.new_figure(6.4, 4.0)
    axes = figure.subplots()
    for number, history in enumerate(histories):
        if history.measured and (variance := results[history.label].get("variance")):
            look = {"color": style.line(number)["color"], "fmt": "o", "ms": 6, "capsize": 2}
            axes.errorbar(variance / history.n_sites, *history.end, label=history.label, **look)
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
