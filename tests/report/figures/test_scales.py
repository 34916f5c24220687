"""Axes of pictures can be read: few labels, no absurd steps, and rounding is called rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.run_files import N, history, result, write_history, write_json, write_run
from tnvmc.report.figures import draw, style
from tnvmc.report.figures.series import draw_comparison
from tnvmc.storage.run_files import Run, read_run

ROUNDING = "exact to rounding: nothing above 1e-12"


def changed(tmp_path: Path, changes: dict[int, dict[str, Any]], n_steps: int = 40) -> Run:
    """A run of some steps, some of which say something else."""
    folder = write_run(tmp_path / "run")
    lines = [line | changes.get(line["step"], {}) for line in history(n_steps, stages=False)]
    write_history(folder, lines)
    return read_run(folder)


def concluded(tmp_path: Path, part: str, value: Any) -> Run:
    """A run with another part of its convergence."""
    folder = write_run(tmp_path / "run")
    found = result()
    found["convergence"][part] = value
    write_json(folder / "result.json", found)
    return read_run(folder)


def entries(figure: Any) -> list[str]:
    return figure.axes[0].get_legend_handles_labels()[1]


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


@pytest.mark.whole
@pytest.mark.parametrize("which", ["x", "y"])
@pytest.mark.parametrize("limits", [(0.011, 0.4), (0.026, 0.041), (3.1e-2, 3.9e-2), (1.0, 9.0)])
def test_labels_of_a_logarithm_are_two_at_least_and_do_not_overprint(
    which: str, limits: tuple[float, float]
) -> None:
    """Neighbours are a factor 2 apart at least; before, (0.026, 0.041) had labels at 3 and 4."""
    figure = style.new_figure()
    axes = figure.subplots()
    axes.plot(limits, limits)
    style.logarithmic(axes, which)
    figure.canvas.draw()
    axis = getattr(axes, f"{which}axis")
    low, high = axis.get_view_interval()
    at = sorted(
        tick.get_loc()
        for minor in (False, True)
        for tick in (axis.get_minor_ticks() if minor else axis.get_major_ticks())
        if tick.label1.get_text() and low <= tick.get_loc() <= high
    )
    assert low <= limits[0] and limits[1] <= high
    assert len(at) >= 2
    assert np.min(np.divide(at[1:], at[:-1])) > 1.99


@pytest.mark.whole
def test_labels_of_ordinary_numbers_have_no_powers() -> None:
    """Before, 2 x 10^-1 stood beside 10^-1."""
    for limits, powers in (((0.07, 0.37), False), ((0.001, 0.02), True), ((0.02, 900.0), True)):
        figure = style.new_figure()
        axes = figure.subplots()
        axes.plot(limits, limits)
        style.logarithmic(axes, "y")
        figure.canvas.draw()
        told = [text.get_text() for text in axes.get_yticklabels(which="both") if text.get_text()]
        assert told and all(("10^" in label) == powers for label in told), told


def test_a_far_step_is_no_part_of_the_axis_and_the_picture_says_so(tmp_path: Path) -> None:
    far = {"energy": -1.6e22, "energy_error": 1e21, "variance": 1.6e44}
    run = changed(tmp_path, {12: far})  # not early, so that no limit of a start hides it
    figures = draw([run], ("energy", "relative_error", "variance")).figures
    heights = {"energy": -1e21, "relative_error": 1e21 / (9.189207065192 / N), "variance": 1e43}
    for name, figure in figures.items():
        (axes,) = figure.axes
        assert np.abs(axes.get_ylim()).max() < 10
        told = f"1 step beyond the axis, at {heights[name]:.2g}"
        assert told in entries(figure)
        (mark,) = (line for line in axes.lines if line.get_label() == told)
        assert mark.get_xdata().tolist() == [13]  # from 1 on
        assert mark.get_marker() == ("v" if name == "energy" else "^")  # where it leaves


def test_several_runs_say_which_has_the_far_step(tmp_path: Path) -> None:
    first = changed(tmp_path / "a", {3: {"energy": 1.6e22}})
    second = changed(tmp_path / "b", {})
    for name in ("energy", "relative_error"):
        (figure,) = draw([first, second], (name,)).figures.values()
        for axes in figure.axes:
            assert axes.get_ylim()[1] < 10
        assert any(entry.startswith("run: 1 step beyond") for entry in entries(figure))
    figures = draw_comparison([first, second])
    assert figures["relative_error"].axes[0].get_ylim()[1] < 10
    assert any("1 step beyond the axis" in entry for entry in entries(figures["relative_error"]))


def test_what_is_large_for_long_or_small_is_not_absurd() -> None:
    falling = 10.0 ** np.linspace(4, -6, 40)
    assert not style.absurd(falling).any()
    assert not style.absurd([1e22] * 5 + [1e-3] * 25).any()  # more than a tenth
    assert not style.absurd([0.5] + [1e-9] * 9).any()  # a log axis shows it well
    assert style.absurd([1e22, 1e9] + [1e-3, 2e-3] * 10).tolist() == [True, True] + [False] * 20
    assert not style.absurd([1e22, 1.0]).any()


def test_a_spread_of_rounding_is_called_that(tmp_path: Path) -> None:
    noise = {step: {"closure_spread": 1e-15 + 1e-17 * step} for step in range(40)}
    run = changed(tmp_path, noise)
    for runs in ([run], [run, run]):
        for axes in draw(runs, ("closure_spread",)).figures["closure_spread"].axes:
            assert texts(axes) == [ROUNDING]
            low, high = axes.get_ylim()
            assert high / low > 1e8
    seen = changed(tmp_path / "seen", noise | {30: {"closure_spread": 1e-6}})
    assert not texts(draw([seen], ("closure_spread",)).figures["closure_spread"].axes[0])
    none = changed(tmp_path / "none", {step: {"closure_spread": 0.0} for step in range(40)})
    assert texts(draw([none], ("closure_spread",)).figures["closure_spread"].axes[0]) == [ROUNDING]


def test_a_spread_of_rounding_against_chi_is_called_that(tmp_path: Path) -> None:
    rungs = [rung | {"closure_spread": 1.1e-15} for rung in result()["convergence"]["chi"]]
    _, below = draw([concluded(tmp_path, "chi", rungs)], ("chi",)).figures["chi"].axes
    assert texts(below) == [ROUNDING]
    assert below.lines[0].get_ydata().tolist() == [1.1e-15] * 3


def test_many_points_have_two_labels(tmp_path: Path) -> None:
    def point(number: int) -> dict[str, Any]:
        label = f"steps {4 * number} to {4 * number + 3}"
        variance = 0.2 / (1 + number)
        return {
            "label": label, "variance": variance, "energy": -9.19 + variance, "energy_error": 0.01
        }  # fmt: skip

    for count, shown in ((12, ["steps 0 to 3", "steps 44 to 47"]), (2, None)):
        fit = {
            "points": [point(n) for n in range(count)], "energy": -9.19, "energy_error": 0.01, "slope": 1.0,
        }  # fmt: skip
        run = concluded(tmp_path / str(count), "variance", fit)
        (axes,) = draw([run], ("zero_variance",)).figures["zero_variance"].axes
        labels = [point["label"] for point in fit["points"]]  # type: ignore[index, attr-defined]
        assert sorted(texts(axes)) == sorted(shown or labels)
