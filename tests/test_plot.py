"""`tnvmc.plot`: axes in, axes out, and in them the numbers that were given."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

import tnvmc
from tests.run_files import EXACT, N, exact_correlations, observables, result, write_run
from tnvmc import plot
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.estimate.diagnostic import UnreliableWarning
from tnvmc.lattice.grids import square
from tnvmc.operators.models import heisenberg, tfim
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.vmc import VMC
from tnvmc.storage.run_files import read_run
from tnvmc.vmc.history import History
from tnvmc.vmc.results import Measurement, StepRecord

ROUNDING = 1e-12


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    matplotlib.use("agg")
    from matplotlib import pyplot

    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("plot") / "run")


@pytest.fixture
def history() -> History:
    steps = [
        StepRecord(
            n, -9.0 - 0.02 * n, 0.02, 0.5, 1.0, 1.01, 0.4, None, 0.05, 0.2, n == 2, (), {}, 0.5
        )
        for n in range(6)
    ]
    return History(steps, N, "S.S")


_BACKEND = """
import matplotlib
from matplotlib.backends.backend_agg import FigureCanvas
matplotlib.interactive(True)  # as that of notebooks
"""

_TWO_PICTURES = """
import matplotlib
from tnvmc import plot
from tnvmc.vmc.results import Measurement
plot.energy(Measurement(-1, 0.1, 0, 0, None, None, None, None, 4, 1, 8, 1.0, "S.S"))
assert matplotlib.is_interactive() and matplotlib.rcParams["axes.titleweight"] == "normal"
"""


@pytest.mark.whole
def test_what_the_backend_sets_outlives_the_first_picture(tmp_path: Path) -> None:
    """Else a notebook shows the first picture and no other."""
    (tmp_path / "asks.py").write_text(_BACKEND)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    environment = os.environ | {"MPLBACKEND": "module://asks", "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", _TWO_PICTURES], check=True, env=environment)


def test_a_history_into_given_axes_and_into_new_ones(history: History) -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert plot.history(history, axes) is axes
    line = axes.lines[0]
    kept = np.array([0, 1, 3, 4, 5])
    assert np.array_equal(line.get_xdata(), kept + 1)  # from 1 on
    assert np.allclose(line.get_ydata(), (-9.0 - 0.02 * kept) / N, rtol=ROUNDING)
    assert "per site" in axes.get_ylabel() and axes.get_xlabel() == "step"
    timed = history.plot(against="seconds", quantity="variance")
    assert timed is not axes and timed.lines[0].get_xdata()[-1] == pytest.approx(3.0)
    assert timed.lines[0].get_ydata()[0] == pytest.approx(0.5 / N)
    far = plot.history(history, quantity="relative_error", exact_energy=-10.0)
    assert far.lines[0].get_ydata()[0] == pytest.approx(0.1)


def test_several_histories_have_labels(history: History, folder: Path) -> None:
    axes = plot.history({"mine": history, "other": folder})
    labels = axes.get_legend_handles_labels()[1]
    assert {"mine", "other"} <= set(labels)
    assert "run 1" in plot.history([history, folder]).get_legend_handles_labels()[1]


def test_a_measurement_lies_in_the_picture_of_its_history(history: History) -> None:
    found = Measurement(
        -9.2, 0.08, 0.1, 0.01, 0.5, 1.0, 0.4, None, N, 10, 100, 1.0, "S.S"
    )  # fmt: skip
    axes = history.plot()
    assert found.plot(axes) is axes
    (line,) = [line for line in axes.lines if line.get_label() == "measured"]
    assert np.allclose(line.get_ydata(), -9.2 / N, rtol=ROUNDING)
    assert "per site" in found.plot().get_ylabel()


def test_pictures_of_observables(folder: Path) -> None:
    loaded = SimpleNamespace(files=read_run(folder))  # as `load_run` gives it
    for found in (folder, str(folder), loaded, observables()):
        axes = plot.correlations(found, site=5)
        heights = np.concatenate([bars.lines[0].get_ydata() for bars in axes.containers])
        expected = np.abs(np.delete(exact_correlations()[5], 5))
        assert np.allclose(np.sort(heights), np.sort(expected), rtol=ROUNDING)
    assert plot.correlation_map(folder).collections
    assert len(plot.lattice(folder).collections) == 2
    zone = plot.structure_factor(folder)
    assert "q_x" in zone.get_xlabel()


def test_the_energy_at_several_chi(folder: Path) -> None:
    axes = plot.chi(folder)
    points = result()["convergence"]["chi"]
    x, y = axes.containers[0].lines[0].get_data()
    assert np.array_equal(x, [point["chi"] for point in points])
    assert np.allclose(y, [point["difference"] / N for point in points], rtol=ROUNDING)
    assert axes.get_xlabel()
    hamiltonian = heisenberg(square(2, 2))
    vmc = VMC(hamiltonian, PEPS(hamiltonian.lattice, D=2), Enumerate())
    found = vmc.converge(chis=(1, 2), double_layer=False)
    drawn = found.plot()
    assert np.allclose(
        drawn.containers[0].lines[0].get_ydata(),
        [point.difference / 4 for point in found.points],
        rtol=ROUNDING,
    )


def test_what_cannot_be_drawn_says_why(folder: Path, history: History, tmp_path: Path) -> None:
    from matplotlib import pyplot

    bare = write_run(tmp_path / "bare", finished=False, measured=False)
    before = pyplot.get_fignums()
    for picture in (plot.lattice, plot.correlations, plot.structure_factor, plot.chi):
        with pytest.raises(ValueError, match=r"plot\.\w+: no "):
            picture(bare)
    with pytest.raises(ValueError, match=r"sites 0\.\.15"):
        plot.correlations(folder, site=16)
    for site in (-1, 2.5):
        with pytest.raises(ValueError, match="site"):
            plot.correlation_map(folder, site=site)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="quantity"):
        plot.history(history, quantity="energie")
    with pytest.raises(ValueError, match="no exact"):
        plot.history(history, quantity="relative_error")
    with pytest.raises(ValueError, match="no steps"):
        plot.history(history[:0])
    with pytest.raises(TypeError, match="float"):
        plot.chi(1.0)
    assert pyplot.get_fignums() == before


def test_damage_is_not_drawn_over_in_silence(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "observables.json").write_text("{}")
    with pytest.warns(UnreliableWarning, match="observables.json"):
        plot.history(run)


def test_the_module_is_at_the_front_door() -> None:
    assert tnvmc.plot is plot and EXACT < 0


def test_runs_in_different_units_have_no_axis_in_common() -> None:
    records = [
        VMC(model, PEPS(model.lattice, D=1), Sampler(8, 16)).run(2)
        for model in (heisenberg(square(2, 2)), tfim(square(2, 2)))
    ]
    with pytest.raises(ValueError, match="units"):
        plot.history(records)
