"""Time evolution from a file: run, resumed, drawn, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.made_runs import made_run
from tests.run_files import read_history, read_json
from tnvmc import load_run
from tnvmc.app.run import resume_run
from tnvmc.report.plots import plot_runs
from tnvmc.settings.load import validate
from tnvmc.settings.problems import ConfigError
from tnvmc.storage.hdf5 import read_parameters

SETTINGS = """
[lattice]
shape = [2, 2]
[hamiltonian]
model = "tfim"
h = 2.0
[ansatz]
D = 2
dtype = "complex128"
[sampler]
n_walkers = 16
n_samples = 128
[time]
t = 0.2
step = 0.1
observables = ["Sx"]
product = "Sx"
[measure]
n_samples = 64
n_burn = 1
[run]
threads = 1
"""


def test_a_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    straight = made_run(tmp_path / "straight", SETTINGS)
    broken = made_run(tmp_path / "broken", SETTINGS, "time.t=0.1")
    resume_run(broken, ["time.t=0.2"])
    one, other = (read_parameters(each / "checkpoint.h5")[1] for each in (straight, broken))
    np.testing.assert_array_equal(one, other)
    times = [line["optimizer"]["time"] for line in read_history(broken)]
    assert times == pytest.approx([0, 0.1, 0.2])
    assert load_run(broken).history.column("Sx")[0] == pytest.approx(0.5)
    # A state on its way is no ground state that failed.
    result = read_json(straight / "result.json")
    told = [*result["diagnostics"], *result["convergence"]["diagnostics"]]
    codes = {each["code"] for each in told}
    assert result["exact_energy"] is None
    assert not codes & {"variance_large", "above_reference", "energy_rises", "energy_still_falls"}
    files = plot_runs([straight], what="evolution", formats="png").files
    assert (straight / "energy.png").is_file() and len(files) == 1


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        (["ansatz.D=1"], "warning"),
        (["ansatz.D=1", "time.observables=[]"], "warning"),
        (["ansatz.D=2"], "open"),
    ],
)
def test_how_far_a_mean_may_be_off_is_told_at_the_end(
    tmp_path: Path, changes: list[str], status: str
) -> None:
    """A product state does not move, though the exact <Sx> falls from 0.5 to 0.29."""
    changes = ["lattice.shape=[2,3]", "sampler.kind=enumerate", "time.t=0.5", *changes]
    run = made_run(tmp_path / "run", SETTINGS, *changes, "hamiltonian.h=1.5")
    found = read_json(run / "result.json")["convergence"]["diagnostics"]
    assert [each["status"] for each in found if each["code"] == "time_bound"] == [status]


def test_a_section_of_time_is_a_kind_of_optimizer() -> None:
    section = {"hamiltonian": {"model": "tfim"}, "lattice": {"shape": [2, 2]}}
    time = {"t": 1.0, "product": "Sx", "step": 0.25}
    one = validate({**section, "time": time}).optimizer
    assert one == validate({**section, "optimizer": {"kind": "time", **time}}).optimizer
    assert one.steps == 5


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"time": {"t": 1.0}}, "time"),  # no state to begin with
        ({"time": {"t": 1.0, "product": "Sx"}, "stage": [{"D": 2}]}, "time"),
        ({"time": {"t": 1.0, "product": "Sx"}, "run": {"starts": 2}}, "time"),
        ({"time": {"product": "Sx"}}, "optimizer.t"),
        ({"time": {"t": 1.0, "seconds": 3.0}}, "optimizer.seconds"),
        ({"time": {"t": 0.52, "step": 0.1, "product": "Sx"}}, "time.t"),
    ],
)
def test_what_does_not_go_with_time_is_refused(more: dict, key: str) -> None:
    section = {"hamiltonian": {"model": "tfim"}, "lattice": {"shape": [2, 2]}}
    with pytest.raises(ConfigError) as found:
        validate({**section, **more})
    assert key in [each.key for each in found.value.problems]


@pytest.mark.parametrize(
    "changes",
    [
        ["time.product=Sz"],  # psi = 0 for all configurations but one
        ["hamiltonian.model=xxz", "hamiltonian.Jz=0.3"],  # which conserves what Sx mixes
    ],
)
def test_products_that_chains_do_not_show_are_refused(tmp_path: Path, changes: list[str]) -> None:
    settings = SETTINGS.replace("h = 2.0\n", "") if len(changes) > 1 else SETTINGS
    with pytest.raises(ValueError, match="time.product"):
        made_run(tmp_path / "run", settings, *changes)
