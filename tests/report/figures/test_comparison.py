"""Pictures of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.run_files import EXACT, read_json, write_json, write_run
from tnvmc.report.figures.series import draw_comparison
from tnvmc.report.figures.style import CYCLE
from tnvmc.storage.run_files import Run, read_run


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Eight runs, one more than there are colours, with their own V-scores and variances."""
    found = []
    for number in range(8):
        folder = write_run(tmp_path / f"state {number}", measured=False, seed=number)
        result = read_json(folder / "result.json")
        result |= {"v_score": 10.0 ** -(number % 3) / (1 + number), "variance": 0.1 / (1 + number)}
        write_json(folder / "result.json", result)
        found.append(read_run(folder))
    return found


def looks(lines: Any) -> set[tuple[str, str]]:
    return {
        (line.get_color(), line.get_linestyle()) for line in lines if line.get_label()[0] != "_"
    }


@pytest.mark.whole
def test_pictures_with_a_reference(runs: list[Run]) -> None:
    figures = draw_comparison(runs)
    assert list(figures) == ["relative_error", "variance", "v_score"]
    steps, seconds = figures["relative_error"].axes
    assert (steps.get_xlabel(), seconds.get_xlabel()) == ("step", "seconds of optimisation")
    assert all(tick == int(tick) for tick in steps.get_xticks())
    assert steps.get_yscale() == "log" and steps.get_ylabel() == "relative error of the energy"
    of_runs = [line for line in steps.lines if not line.get_label().startswith(("below", "steps"))]
    assert len(looks(of_runs)) == 8 and len(CYCLE) == 7  # the eighth has other dashes
    (legend,) = figures["relative_error"].legends
    assert [text.get_text() for text in legend.get_texts()][:8] == [run.name for run in runs]
    (variance,) = figures["variance"].axes
    assert variance.get_xscale() == variance.get_yscale() == "log"


@pytest.mark.whole
def test_the_measured_energies_are_where_they_belong(runs: list[Run]) -> None:
    result = runs[2].result
    assert result is not None
    figures = draw_comparison(runs[2:4])
    steps, _ = figures["relative_error"].axes
    found = steps.containers[0].lines[0].get_xydata()
    off = abs(result["energy_per_site"] / result["exact_energy_per_site"] - 1)
    np.testing.assert_allclose(found, [[len(runs[2].history) + 1, off]])
    (variance,) = figures["variance"].axes
    found = variance.containers[0].lines[0].get_xydata()
    np.testing.assert_allclose(found, [[result["variance"] / result["n_sites"], off]])


@pytest.mark.whole
def test_a_step_that_crosses_the_exact_energy_does_not_stretch_the_axis(runs: list[Run]) -> None:
    """Its relative error is below all that the axis holds."""
    kept, crossing = runs[:2]
    for run in (kept, crossing):
        for line in run.history:
            line.update(energy=EXACT * (1 - 1e-2), undone=False)  # type: ignore[attr-defined]
        run.result["energy_per_site"] = EXACT / 16 * (1 - 1e-2)  # type: ignore[index]
    crossing.history[5]["energy"] = EXACT * (1 - 1e-9)  # type: ignore[index]
    for figure in list(draw_comparison([kept, crossing]).values())[:2]:
        assert all(axes.get_ylim()[0] > 1e-9 for axes in figure.axes)


def test_energies_where_no_reference_is_known(runs: list[Run]) -> None:
    for run in runs:
        run.result.update(exact_energy_per_site=None, exact_method=None)  # type: ignore[union-attr]
    figures = draw_comparison(runs)
    assert list(figures) == ["energy", "variance", "v_score"]
    steps, _ = figures["energy"].axes
    assert steps.get_yscale() == "linear" and steps.get_ylabel().startswith("energy per site")


def test_v_scores_are_points_in_their_order(runs: list[Run]) -> None:
    (axes,) = draw_comparison(runs)["v_score"].axes
    lengths = [float(line.get_xdata()[0]) for line in axes.lines]
    assert lengths == sorted(lengths, reverse=True)  # the smallest on top
    assert not axes.patches
    scores = sorted(run.result["v_score"] for run in runs if run.result)
    np.testing.assert_allclose(lengths[::-1], scores)


def test_runs_without_steps_or_noise_leave_pictures_away(runs: list[Run]) -> None:
    result = dict(runs[0].result or {}) | {"v_score": 0.0}
    assert draw_comparison([Run(Path("none"), runs[0].config, (), result)]) == {}
