"""The picture of an optimisation: its panels, and what they are drawn against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.run_files import N, history, write_history, write_run
from tnvmc.report.figures import draw
from tnvmc.report.figures.convergence import NAME
from tnvmc.report.plots import plot_runs
from tnvmc.storage.run_files import read_run

ROUNDING = 1e-12


def drawn(folder: Path, lines: list[dict[str, Any]] | None = None, **options: Any) -> Any:
    """The figure of a run, with these lines as its history."""
    write_run(folder)
    if lines is not None:
        write_history(folder, lines)
    return draw([read_run(folder)], (NAME,), **options).figures[NAME]


def labels(figure: Any) -> list[str]:
    return [axes.get_ylabel().replace("\n", " ") for axes in figure.axes]


def full() -> list[dict[str, Any]]:
    """Steps at the energies of the run made by hand, with all that a picture can show."""
    return [
        line | {"energy": -9.19 + 0.5 / (1 + line["step"]), "energy_error": 1e-3, "variance": 0.5}
        | {"effective_samples": 200.0 - line["step"], "power": 0.6, "seconds": 0.5, "undone": False}
        for line in history(60, stages=False)
    ]  # fmt: skip


def test_a_run_from_before_has_its_energies_alone(tmp_path: Path) -> None:
    figure = drawn(tmp_path / "run")
    assert labels(figure) == ["energy per site (S.S units)"]
    (axes,) = figure.axes
    passed = np.cumsum([line["seconds"] for line in history()])
    (steps,) = (line for line in axes.lines if line.get_label() == "each step")
    assert np.allclose(steps.get_xdata(), np.delete(passed, 7), rtol=ROUNDING)
    stages = [text.xy[0] for text in axes.texts]  # where their first steps begin
    assert np.allclose(stages, [0, passed[19]], atol=ROUNDING)


def test_the_start_leaves_the_axis(tmp_path: Path) -> None:
    lines = full()
    lines[0] = lines[0] | {"seconds": 40.0}
    axes = drawn(tmp_path / "run", lines).axes[0]
    (steps,) = (line for line in axes.lines if line.get_label() == "each step")
    assert np.allclose(steps.get_xdata(), 0.5 * np.arange(1, 61), rtol=ROUNDING)
    assert axes.get_xlim()[0] == 0 and axes.get_xlim()[1] < 34
    told = {"code": "starts_tried", "status": "good", "values": {}}
    lines[0] |= {"diagnostics": [told]}  # work that a budget of seconds counts
    axes = drawn(tmp_path / "tried", lines).axes[0]
    (steps,) = (line for line in axes.lines if line.get_label() == "each step")
    assert np.allclose(steps.get_xdata(), 39.5 + 0.5 * np.arange(1, 61), rtol=ROUNDING)


def test_all_panels(tmp_path: Path) -> None:
    lines = full()
    lines = [line | {"learning_rate": 0.02 * (1 + line["step"])} for line in lines]
    figure = drawn(tmp_path / "run", lines)
    told = ["energy per site (S.S units)", "effective samples"]
    assert labels(figure) == [*told, r"power of $|\psi|^2$", "learning rate"]
    columns = ("effective_samples", "power", "learning_rate")
    for axes, key in zip(figure.axes[1:], columns, strict=True):
        assert np.allclose(axes.lines[0].get_ydata(), [line[key] for line in lines])
        assert axes.get_ylim()[0] == 0
    assert figure.axes[-1].get_xlabel() == "seconds of optimisation"


def test_where_the_steps_point_is_drawn_if_they_do(tmp_path: Path) -> None:
    lines = [
        line | {"energy": -9.2 + 0.3 * line["variance"] + 1e-3 * (-1) ** line["step"]}
        | {"energy_error": 1e-3, "undone": False}
        for line in history(60, stages=False)
    ]  # fmt: skip
    (axes,) = drawn(tmp_path / "run", lines).axes
    (line,) = (line for line in axes.lines if str(line.get_label()).startswith("steps, at zero"))
    assert np.allclose(line.get_ydata(), -9.2 / N, atol=1e-4)
    (axes, *_) = drawn(tmp_path / "short", lines[:3]).axes
    assert not any(str(line.get_label()).startswith("steps, at zero") for line in axes.lines)


@pytest.mark.parametrize("against", ["step", None])
def test_it_is_against_steps_where_asked_and_where_no_time_is_known(
    against: str | None, tmp_path: Path
) -> None:
    lines = full()
    if against is None:
        lines = [{k: v for k, v in line.items() if k != "seconds"} for line in lines]
    figure = drawn(tmp_path / "run", lines, against=against)
    assert figure.axes[-1].get_xlabel() == "step"
    assert np.array_equal(figure.axes[2].lines[0].get_xdata(), range(1, 61))


def test_time_passes_in_steps_without_an_energy(tmp_path: Path) -> None:
    lines = full()
    lines[1]["energy"] = None
    x = drawn(tmp_path / "run", lines).axes[2].lines[0].get_xdata()
    assert np.allclose(x, 0.5 * np.delete(np.arange(1, 61), 1))


@pytest.mark.whole
def test_several_runs_share_its_axes(tmp_path: Path) -> None:
    one, other = (write_run(tmp_path / name) for name in ("one", "other"))
    write_history(other, full())
    figure = draw([read_run(one), read_run(other)], (NAME,)).figures[NAME]
    assert [axes.get_legend() is not None for axes in figure.axes] == [True, False, False]
    written = plot_runs([one, other], tmp_path, "png", "convergence,energy", against="step")
    assert [path.name for path in written.files] == [
        "compared_convergence.png", "compared_energy.png",
    ]  # fmt: skip
