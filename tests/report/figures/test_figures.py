"""Figures hold the numbers of the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection, QuadMesh
from matplotlib.colors import to_hex

from tests.run_files import (
    EXACT,
    N,
    exact_correlations,
    history,
    observables,
    write_history,
    write_json,
    write_run,
)
from tnvmc.estimate.momenta import momenta, symmetric_points, zone_of
from tnvmc.estimate.statistics import of_many
from tnvmc.lattice import GRIDS, square
from tnvmc.report.figures import HISTORIES, NAMES, Figures, draw, style
from tnvmc.report.figures.history import history_of
from tnvmc.report.figures.maps import _pieces
from tnvmc.report.figures.places import Places, clear, span, symmetric
from tnvmc.storage.run_files import Run, read_run

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


@pytest.mark.whole
def test_every_picture_is_drawn(pictures: Figures) -> None:
    assert tuple(pictures.figures) == tuple(name for name in NAMES if name != "evolution")
    assert len(pictures.left_out) == 1
    for name, figure in pictures.figures.items():
        assert all(axes.has_data() for axes in figure.axes), name


def test_energies_per_site_with_undone_step_and_final_measurement(pictures: Figures) -> None:
    axes = pictures.figures["energy"].axes[0]
    kept = [line for line in history() if not line["undone"]]
    x, y = labelled(axes, "each step")
    assert np.array_equal(x, [line["step"] + 1 for line in kept])
    assert np.allclose(y, [line["energy"] / N for line in kept], rtol=ROUNDING)
    assert labelled(axes, "step undone")[0].tolist() == [8]
    assert np.allclose(labelled(axes, "exact")[1], EXACT / N, rtol=ROUNDING)
    x, y = labelled(axes, "measured at the end")
    assert (x[0], y[0]) == (41, -9.18771 / N)
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
    assert np.array_equal(labelled(axes, "below exact")[0], below + 1)


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
    # Bonds that symmetry makes equal differ in their last bits, so the order of two bonds counts
    # only where their energies differ by more than rounding.
    widths = np.array(lines.get_linewidths())
    stronger = np.abs(energies)[:, None] > np.abs(energies) * (1 + ROUNDING)
    assert stronger.any() and (widths[:, None] > widths)[stronger].all()
    begin, end = lines.get_segments()[0]
    assert (tuple(begin), tuple(end)) == ((0, 0), (1, 0))
    dots = next(item for item in axes.collections if item is not lines)
    assert dots.get_offsets()[4].tolist() == [0, 1]
    # No field is clear of 0 by errors of 0.005: all are white, and the scale reaches eight errors.
    assert np.isnan(np.ma.filled(dots.get_array(), np.nan)).all()
    assert dots.get_clim() == (-0.04, 0.04)
    texts = [text.get_text() for text in axes.texts]
    assert len(texts) == N and all(text.endswith(("(50)", "(5)")) for text in texts)


def painted(sites: tuple[float, float], bonds: tuple[float, float], folder: Path) -> Any:
    """Axes of a lattice where all fields and all bonds have one value and error."""
    held = observables()
    mean, error = sites
    held["sites"]["Sz"] = {"mean": [mean] * N, "error": [error] * N}
    same = dict(zip(("mean", "error"), bonds, strict=True))
    held["bonds"] = [bond | same for bond in held["bonds"]]
    run = write_run(folder, measured=False)
    write_json(run / "observables.json", held)
    axes = draw([read_run(run)], ["lattice"]).figures["lattice"].axes
    lines, dots = axes[0].collections
    return axes, lines, dots


def test_order_is_painted_and_noise_is_not(tmp_path: Path) -> None:
    axes, lines, dots = painted((0.45, 0.01), (-0.4, 0.002), tmp_path / "order")
    assert np.array_equal(dots.get_array(), [0.45] * N)
    assert dots.get_clim() == (-0.45, 0.45)
    assert lines.get_clim()[1] - lines.get_clim()[0] >= 8 * 0.002
    assert not axes[0].get_xlabel() and "white" not in axes[2].get_xlabel()
    assert "0.01" in axes[2].get_xlabel() and "0.002" in axes[1].get_ylabel()
    # The largest of 16 values lies 2.6 errors from 0 by chance.
    axes, lines, dots = painted((0.026, 0.01), (0.005, 0.002), tmp_path / "noise")
    assert np.isnan(np.ma.filled(dots.get_array(), np.nan)).all()
    assert np.isnan(np.ma.filled(lines.get_array(), np.nan)).all()
    assert all(dashes is not None for _, dashes in lines.get_linestyle())
    assert "dashed" in axes[0].get_xlabel() and "white" in axes[2].get_xlabel()
    # Just clear of noise: painted, and pale.
    axes, lines, dots = painted((0.033, 0.01), (-0.4, 0.002), tmp_path / "little")
    assert np.array_equal(dots.get_array(), [0.033] * N)
    assert dots.get_clim() == (-0.08, 0.08)


def test_a_value_without_error_is_not_told_from_zero() -> None:
    mean, error = [0.1, 0.1, np.nan, 0.0], [np.nan, 0.01, 0.01, 0.0]
    assert clear(mean, error).tolist() == [False, True, False, False]
    assert span([1.0, 1.1], [0.1, np.inf]) == (pytest.approx(0.65), pytest.approx(1.45))
    assert symmetric([0.0], [0.0]) == 1.0


PATCH = {
    "shape": [2, 3], "n_sites": 6, "boundary": "open", "units": "S.S",
    "coordinates": [[-0.87, 0.5], [0, 1], [0.87, 0.5], [-0.87, -0.5], [0, -1], [0.87, -0.5]],
    "bonds": [{"sites": [i, j], "kind": "nearest", "mean": -0.4, "error": 0.01}
              for i, j in ((0, 1), (1, 2), (2, 5), (4, 5), (3, 4), (0, 3))],
    "sites": {"Sz": {"mean": [0.3, -0.3] * 3, "error": [0.01] * 6}},
    "correlations": {"SS": {"mean": (0.1 * np.eye(6)).tolist(), "error": [[0.01] * 6] * 6}},
}  # fmt: skip


def test_coordinates_of_a_list_of_bonds_are_drawn() -> None:
    run = Run(Path(), observables=PATCH)
    made = draw([run], ["lattice", "correlations"], site=0).figures
    lines, dots = made["lattice"].axes[0].collections
    assert np.allclose(dots.get_offsets(), PATCH["coordinates"])
    assert np.allclose(lines.get_segments()[2], [[0.87, 0.5], [0.87, -0.5]])  # drawn as given
    low, high = made["lattice"].axes[0].get_ylim()
    assert low < high  # y upwards
    chart, decay = made["correlations"].axes[:2]
    hatched = chart.collections[1]
    assert len(hatched.get_offsets()) == 5 and hatched.get_hatch()
    (limits,) = (line for line in decay.lines if line.get_marker() == "v")
    assert np.allclose(limits.get_ydata(), 0.01 * of_many(2.0, 6))
    assert limits.get_xdata().max() == pytest.approx(2.0, abs=0.01)  # across the hexagon


@pytest.mark.parametrize("coordinates", [None, [[0, 0], [1, 0], [0.5, 0.8], [1.5, 0.8]]])
def test_momenta_point_up(coordinates: list[list[float]] | None) -> None:
    """Rows of a grid run down, coordinates of one's own up; q_y always points up."""
    q = np.pi * np.array([[x, y] for y in (-0.5, 0, 0.5, 1) for x in (-0.5, 0, 0.5, 1)])
    factor = {"zone": "plane" if coordinates else "square", "q": q.tolist(), **_flat(16)}
    given = {} if coordinates is None else {"coordinates": coordinates}
    held = {
        "shape": [2, 2],
        "correlations": {"SS": _flat(4, 4)},
        "structure_factor": {"SS": factor},
    }
    made = draw([Run(Path(), observables=held | given)], ["correlations", "structure_factor"])
    limits = [made.figures[name].axes[0].get_ylim() for name in made.figures]
    assert [low < high for low, high in limits] == [coordinates is not None, True]


def _flat(*shape: int) -> dict[str, Any]:
    return {"mean": np.full(shape, 0.25).tolist(), "error": np.full(shape, 0.01).tolist()}


def test_without_coordinates_pictures_say_what_is_lacking() -> None:
    reason = {"observable": "structure_factor", "reason": "coordinates"}
    told = {"code": "observable_left_out", "status": "open", "values": reason}
    run = Run(Path(), observables=PATCH | {"coordinates": None, "diagnostics": [told]})
    made = draw([run], ["lattice", "correlations", "structure_factor"])
    assert not made.figures
    assert all("no coordinates" in line for line in made.left_out)


def factor_picture(zone: str, values: list[float], q: np.ndarray) -> Any:
    held = {"zone": zone, "mean": values, "error": [0.01] * len(values), "q": q.tolist()}
    run = Run(Path(), observables={"shape": [1, len(values)], "structure_factor": {"SS": held}})
    return draw([run], ["structure_factor"]).figures["structure_factor"].axes


def test_a_chain_has_a_curve_and_a_plane_no_zone() -> None:
    q = np.stack([np.pi * np.array([-0.5, 0, 0.5, 1]), np.zeros(4)], axis=1)
    (axes,) = factor_picture("chain", [1, 2, 3, 4], q)
    assert "along the chain" in axes.get_xlabel()
    assert np.allclose(axes.containers[0].lines[0].get_xdata(), [-0.5, 0, 0.5, 1])
    ticks = np.arange(-2, 3) * np.pi
    plane = np.stack([each.ravel() for each in np.meshgrid(ticks, ticks)], axis=1)
    values = [0.25] * 25
    zone = factor_picture("plane", values, plane)[0]
    (cells,) = (item for item in zone.collections if isinstance(item, QuadMesh))
    assert cells.get_array().shape == (5, 5) and not zone.lines  # no zone, and nothing stands out
    assert cells.get_clim() == (pytest.approx(0.21), pytest.approx(0.29))
    values[12] = 1.0
    assert factor_picture("plane", values, plane)[0].lines[0].get_xdata()[0] == 0


@pytest.mark.parametrize("boundary", ["open", "cylinder"])
@pytest.mark.parametrize("kind", ["triangular", "kagome"])
def test_a_hexagonal_zone_is_filled_and_cut_along_its_symmetric_points(
    kind: str, boundary: str
) -> None:
    lattice = GRIDS[kind](4, 6, boundary)
    q, points = momenta(lattice), symmetric_points(lattice)
    corner = [*points.values()][-1][0]
    values = 0.25 + np.isclose(q, corner).all(axis=1)
    held = {
        "zone": zone_of(lattice), "mean": values.tolist(), "error": [0.01] * len(q), "q": q.tolist(),
        "points": {name: each.tolist() for name, each in points.items()},
    }  # fmt: skip
    run = Run(Path(), observables={"shape": [4, 6], "structure_factor": {"SS": held}})
    zone, cut = draw([run], ["structure_factor"]).figures["structure_factor"].axes[:2]
    (cells,) = (item for item in zone.collections if isinstance(item, PolyCollection))
    middles = np.array([path.vertices[:-1].mean(axis=0) for path in cells.get_paths()])
    for place in (
        np.random.default_rng(0).dirichlet(np.ones(6), 20) @ [*points.values()][-1] / np.pi
    ):
        nearest = np.linalg.norm(middles - place, axis=1).argmin()
        assert cells.get_paths()[nearest].contains_point(place, radius=1e-6)
    (mark,) = (line for line in zone.lines if line.get_marker() == "o")
    assert np.allclose(np.ravel(mark.get_data()), corner / np.pi)
    names = [label.get_text() for label in cut.get_xticklabels()]
    outer = ["M", "K"] if kind == "triangular" else [r"M$_\mathrm{e}$", r"K$_\mathrm{e}$"]
    assert [name for name in names if name in outer] == outer
    if boundary == "open":
        assert cut.containers[0].lines[0].get_ydata().max() == 1.25


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["triangular", "kagome"])
def test_the_path_takes_the_middle_of_an_edge_that_the_title_names(kind: str) -> None:
    """An open patch has no turns by 60 degrees: S(q) differs between the M, and -q is as high as q."""
    lattice = GRIDS[kind](3, 3)
    q, points = momenta(lattice), symmetric_points(lattice)
    name = "M" if kind == "triangular" else "extended M"
    for top in points[name]:
        high = [np.isclose(q, sign * top, atol=1e-9).all(axis=1) for sign in (1, -1)]
        values = 0.25 + 2.0 * np.any(high, axis=0)
        held = {
            "zone": zone_of(lattice), "mean": values.tolist(), "error": [0.01] * len(q), "q": q.tolist(),
            "points": {name: each.tolist() for name, each in points.items()},
        }  # fmt: skip
        run = Run(Path(), observables={"shape": [3, 3], "structure_factor": {"SS": held}})
        figure = draw([run], ["structure_factor"]).figures["structure_factor"]
        zone, cut = figure.axes[:2]
        ticks = {text.get_text(): text.get_position()[0] for text in cut.get_xticklabels()}
        x, y = cut.containers[0].lines[0].get_data()
        drawn = "M" if kind == "triangular" else r"M$_\mathrm{e}$"
        assert y[np.argmin(np.abs(x - ticks[drawn]))] == max(y) == 2.25
        where = zone.get_title("left").split(" (")[-1]
        assert f"({where}" in cut.get_xlabel() and drawn in cut.get_xlabel()
        figure.canvas.draw()
        box = figure.get_tightbbox()  # inches
        assert (box.min >= 0).all() and (box.max <= figure.get_size_inches()).all()


def test_bonds_around_a_boundary_are_stubs_and_long_ones_are_counted() -> None:
    def pieces(sites: list[int], shape: tuple[int, int], boundary: str) -> Any:
        lattice = square(*shape, boundary)
        return _pieces(sites, Places(lattice.positions().astype(float), shape, True, lattice))

    assert pieces([0, 3], (4, 4), "open") == []
    stubs = pieces([0, 3], (4, 4), "cylinder")
    assert [stub[1] for stub in stubs] == [(-0.55, 0), (3.55, 0)]
    assert pieces([0, 12], (4, 4), "cylinder") == []
    assert len(pieces([0, 12], (4, 4), "periodic")) == 2
    assert len(pieces([1, 6], (4, 4), "open")) == 1
    arc = pieces([0, 2], (1, 6), "open")[0]
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


def test_several_exact_energies_say_whose_they_are(folder: Path, tmp_path: Path) -> None:
    """Runs of other sectors have others; two diagonalisations of one level differ by rounding."""
    runs = [read_run(folder)]
    for name, energy in (("same", EXACT * (1 + 1e-15)), ("other", EXACT + 0.5)):
        run = read_run(write_run(tmp_path / name, measured=False))
        assert run.result is not None
        run.result["exact_energy_per_site"] = energy / N  # type: ignore[index]
        runs.append(run)
    for axes in draw(runs, ["energy"]).figures["energy"].axes:
        levels = {
            line.get_label(): (line.get_ydata()[0], line.get_color())
            for line in axes.lines if line.get_label().startswith("exact")
        }  # fmt: skip
        expected = {f"exact ({runs[0].name}, same)": EXACT, "exact (other)": EXACT + 0.5}
        assert {label: y for label, (y, _) in levels.items()} == pytest.approx(
            {label: energy / N for label, energy in expected.items()}
        )
        colours = [colour for _, colour in levels.values()]
        assert colours == [style.line(0)["color"], style.line(2)["color"]]
    assert (
        labelled(draw(runs[:2], ["energy"]).figures["energy"].axes[0], "exact")[1][0] == EXACT / N
    )


def test_an_undefined_energy_is_left_out_and_a_single_step_is_drawn(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", finished=False, measured=False)
    lines = history()[:2]
    lines[1]["energy"] = None
    write_history(run, lines)
    made = draw([read_run(run)], tuple(HISTORIES))
    assert labelled(made.figures["energy"].axes[0], "each step")[0].tolist() == [1]
