"""Figures hold the numbers of the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import to_hex

from tests.run_files import (
    EXACT,
    N,
    exact_correlations,
    history,
    observables,
    write_history,
    write_run,
)
from tnvmc.report.figures import HISTORIES, NAMES, Figures, draw, style
from tnvmc.report.figures.history import history_of
from tnvmc.report.figures.maps import _pieces
from tnvmc.storage.run_files import read_run

ROUNDING = 1e-12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("plots") / "run")


@pytest.fixture(scope="module")
def pictures(folder: Path) -> Figures:
    return draw([read_run(folder)], NAMES, site=5)


def labelled(axes: Any, label: str) -> tuple[np.ndarray, np.ndarray]:
    """x and y of the line with a label; of the container's line for error bars."""
    lines = {line.get_label(): line for line in axes.lines}
    lines |= {bars.get_label(): bars.lines[0] for bars in axes.containers}
    x, y = lines[label].get_data()
    return np.asarray(x, float), np.asarray(y, float)


def test_every_picture_is_drawn(pictures: Figures) -> None:
    assert tuple(pictures.figures) == NAMES
    (told,) = pictures.left_out  # the energies made by hand do not follow the variance
    assert told.startswith("convergence: ") and "slope" in told
    for name, figure in pictures.figures.items():
        assert all(axes.has_data() for axes in figure.axes), name


def test_energies_per_site_with_undone_step_and_final_measurement(pictures: Figures) -> None:
    axes = pictures.figures["energy"].axes[0]
    kept = [line for line in history() if not line["undone"]]
    x, y = labelled(axes, "each step")
    assert np.array_equal(x, [line["step"] for line in kept])
    assert np.allclose(y, [line["energy"] / N for line in kept], rtol=ROUNDING)
    assert labelled(axes, "step undone")[0].tolist() == [7]
    assert np.allclose(labelled(axes, "exact")[1], EXACT / N, rtol=ROUNDING)
    x, y = labelled(axes, "measured at the end")
    assert (x[0], y[0]) == (40, -9.18771 / N)
    assert {text.get_text() for text in axes.texts} == {"D = 2", "D = 3"}
    assert axes.get_ylabel() == "energy per site (S.S units)"


def test_relative_error_is_on_a_log_axis_and_marks_what_is_below(pictures: Figures) -> None:
    axes = pictures.figures["relative_error"].axes[0]
    assert axes.get_yscale() == "log"
    kept = [line for line in history() if not line["undone"]]
    off = np.array([(line["energy"] - EXACT) / abs(EXACT) for line in kept])
    assert np.allclose(labelled(axes, "each step")[1], np.abs(off), rtol=1e-9)
    below = np.array([line["step"] for line in kept])[off < 0]
    assert 0 < len(below) < len(kept)
    assert np.array_equal(labelled(axes, "below exact")[0], below)


@pytest.mark.parametrize(
    ("name", "key", "scale"),
    [("variance", "variance", N), ("acceptance", "acceptance", 1), ("closure_spread",) * 2 + (1,)],
)
def test_columns_of_the_history(pictures: Figures, name: str, key: str, scale: int) -> None:
    values = [line[key] / scale for line in history() if not line["undone"]]
    drawn = pictures.figures[name].axes[0].lines[0].get_ydata()
    assert np.allclose(drawn, values, rtol=ROUNDING)


def test_bonds_have_widths_and_colours_of_their_energies(pictures: Figures) -> None:
    axes = pictures.figures["lattice"].axes[0]
    (lines,) = (item for item in axes.collections if isinstance(item, LineCollection))
    energies = np.array([bond["mean"] for bond in observables()["bonds"]])
    assert np.array_equal(lines.get_array(), energies)
    assert np.array_equal(np.argsort(lines.get_linewidths()), np.argsort(np.abs(energies)))
    begin, end = lines.get_segments()[0]
    assert (tuple(begin), tuple(end)) == ((0, 0), (1, 0))
    dots = next(item for item in axes.collections if item is not lines)
    assert np.array_equal(dots.get_array(), observables()["sites"]["Sz"]["mean"])
    assert dots.get_offsets()[4].tolist() == [0, 1]
    # A field within its error stays pale: the scale reaches four errors at least.
    assert dots.get_clim() == (-0.02, 0.02)


def test_bonds_around_a_boundary_are_stubs_and_long_ones_are_counted(folder: Path) -> None:
    assert _pieces([0, 3], (4, 4), "open") == []
    stubs = _pieces([0, 3], (4, 4), "cylinder")
    assert [stub[1] for stub in stubs] == [(-0.55, 0), (3.55, 0)]
    assert _pieces([0, 12], (4, 4), "cylinder") == []
    assert len(_pieces([0, 12], (4, 4), "periodic")) == 2
    assert len(_pieces([1, 6], (4, 4), "open")) == 1
    arc = _pieces([0, 2], (1, 6), "open")[0]
    assert np.allclose(arc[0], (0, 0))
    assert np.allclose(arc[-1], (2, 0))


def test_correlations_with_the_site_that_was_asked_for(pictures: Figures) -> None:
    chart, decay = pictures.figures["correlations"].axes[:2]
    (cells,) = (item for item in chart.collections if isinstance(item, QuadMesh))
    pairs = exact_correlations()
    assert np.allclose(cells.get_array().ravel(), pairs[5], rtol=ROUNDING)
    star = chart.lines[0].get_data()
    assert (star[0][0], star[1][0]) == (1, 1)
    x, y = labelled(decay, "negative")
    rows, columns = np.divmod(np.arange(N), 4)
    odd = (rows + columns) % 2 == 1
    assert np.allclose(np.sort(y), np.sort(-pairs[5][odd]), rtol=ROUNDING)
    assert np.allclose(np.sort(x), np.sort(np.hypot(rows - 1, columns - 1)[odd]))


def test_structure_factor_has_its_peak_at_the_antiferromagnetic_point(pictures: Figures) -> None:
    zone, cut = pictures.figures["structure_factor"].axes[:2]
    (cells,) = (item for item in zone.collections if isinstance(item, QuadMesh))
    values = cells.get_array()
    signs = (-1.0) ** np.add(*np.divmod(np.arange(N), 4))
    peak = signs @ exact_correlations() @ signs / N
    assert values.shape == (5, 5)  # q = pi is repeated at -pi
    for corner in (values[0, 0], values[0, -1], values[-1, 0], values[-1, -1]):
        assert np.isclose(corner, peak, rtol=1e-9)
    assert abs(values[2, 2]) < ROUNDING  # a singlet at q = 0
    assert "(π, π)" in zone.get_title("left")
    x, y = cut.containers[0].lines[0].get_data()
    assert np.isclose(y[np.argmin(np.abs(np.asarray(x) - 2))], peak, rtol=1e-9)
    assert len(x) == 7


def test_convergence_pictures(pictures: Figures) -> None:
    top, below = pictures.figures["chi"].axes
    x, y = labelled(top, "same configurations")
    assert x.tolist() == [6, 9, 12]
    assert np.allclose(y, np.array([-0.00034, -0.00004, 0]) / N, rtol=1e-9)
    assert np.allclose(labelled(top, "double layer, no samples")[1], (-9.18790 + 9.18771) / N)
    assert below.lines[0].get_ydata().tolist() == [8e-4, 1e-4, 3e-5]
    for name, where in (
        ("zero_variance", [0.06 / N, 0.0121 / N]),
        ("bond_dimension", [1 / 2, 1 / 3]),
    ):
        axes = pictures.figures[name].axes[0]
        assert np.allclose(axes.containers[0].lines[0].get_xdata(), where)
        assert labelled(axes, "extrapolated")[0].tolist() == [0]
        line = next(line for line in axes.lines if line.get_linestyle() == "--")
        assert line.get_ydata()[0] == labelled(axes, "extrapolated")[1][0]


def test_several_runs_share_axes_against_steps_and_seconds(folder: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", finished=False, measured=False, seed=3)
    runs = [read_run(folder), read_run(other)]
    made = draw(runs, ("energy", "relative_error", "lattice"))
    assert made.left_out == ("lattice is left out: shows one run, not several",)
    for figure in made.figures.values():
        steps, seconds = figure.axes
        assert steps.get_xlabel() == "step"
        found = history_of(runs[1])
        assert found is not None
        assert found.exact == EXACT / N  # looked up: this run has no result
        assert len(labelled(steps, "other")[0]) == 11
        passed = np.cumsum([line["seconds"] for line in history()[:12]])
        assert np.allclose(labelled(seconds, "other")[0], np.delete(passed, 7))
        colours = {to_hex(line.get_color()) for line in steps.lines}
        assert {style.BLUE.lower(), style.VERMILION.lower()} <= colours


def test_an_undefined_energy_is_left_out_and_a_single_step_is_drawn(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", finished=False, measured=False)
    lines = history()[:2]
    lines[1]["energy"] = None
    write_history(run, lines)
    made = draw([read_run(run)], tuple(HISTORIES))
    assert labelled(made.figures["energy"].axes[0], "each step")[0].tolist() == [0]
