"""`load_run`: what a folder says, and its state, which measures as the run did."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest

from tests.run_files import read_history, read_json, write_json, write_run
from tnvmc import VMC, FolderError, History, load_run
from tnvmc.app.archive import archive_run
from tnvmc.app.measure import Asked, measure_run
from tnvmc.app.run import run_file
from tnvmc.estimate.diagnostic import UnreliableWarning

SETTINGS = """
[lattice]
shape = [3, 2]
[hamiltonian]
model = "heisenberg"
[ansatz]
D = 2
[contraction]
chi = 2
[sampler]
n_walkers = 8
n_samples = 32
[measure]
n_samples = 64
chi = 4
[run]
threads = 1
"""
STAGES = "[[stage]]\nD = 1\nsteps = 2\n[[stage]]\nD = 2\nsteps = 2\n"


@pytest.fixture(scope="module", params=["plain", "stages", "mps"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    text = SETTINGS + (STAGES if request.param == "stages" else "[optimizer]\nsteps = 4\n")
    if request.param == "stages":
        text = text.replace("D = 2\n[contraction]", "[contraction]", 1)
    if request.param == "mps":
        text = text.replace("[3, 2]", "[1, 6]").replace("D = 2", 'kind = "mps"\nD = 2')
        text = text.replace("[contraction]\nchi = 2\n", "").replace("chi = 4\n", "")
    (folder / "small.toml").write_text(text)
    run_file(folder / "small.toml", folder / "r")
    measure_run(folder / "r", Asked(pair_samples=0))
    return folder / "r"


@pytest.mark.whole
def test_it_gives_what_the_files_say_and_measures_as_the_run_did(run: Path) -> None:
    found = load_run(run)
    assert found.result == read_json(run / "result.json") and found.finished
    assert found.observables == read_json(run / "observables.json")
    lines = read_history(run)
    assert isinstance(found.history, History)
    assert [record.energy for record in found.history] == [line["energy"] for line in lines]
    assert found.history.n_sites == found.operator.n_sites == 6
    assert found.settings.sampler.n_walkers == 8
    assert isinstance(found.vmc, VMC) and found.vmc is found.vmc
    assert found.ansatz is found.vmc.ansatz and found.ansatz.n_params == len(found.vmc.theta)
    asked = found.settings.measure
    again = found.vmc.measure(asked.n_samples, asked.chi, asked.n_burn, asked.n_thin)
    result = found.result
    assert result is not None
    assert (again.energy, again.energy_error) == (result["energy"], result["energy_error"])


def test_it_shows_itself(run: Path) -> None:
    found = load_run(run)
    per_site = found.result["energy_per_site"]  # type: ignore[index]
    for text in (repr(found), found._repr_html_()):
        assert f"{per_site:.2f}"[:5] in text and "heisenberg" in text
    assert str(run) in repr(found) and "\n" not in repr(found)


@pytest.mark.whole
def test_an_archive_is_loaded_as_the_run_is(run: Path, tmp_path: Path) -> None:
    archive_run(run, tmp_path / "kept")
    found, before = load_run(tmp_path / "kept"), load_run(run)
    assert found.result is not None and before.result is not None
    assert found.result["energy"] == before.result["energy"] and found.finished
    assert found.history == before.history
    asked = (64, found.settings.measure.chi)
    assert found.vmc.measure(*asked).energy == before.vmc.measure(*asked).energy
    steps = found.vmc.run(1)  # of a rule that begins anew
    assert steps[0].step == 4 and before.vmc.state.step == 4


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path / "nothing", tmp_path):
        with pytest.raises(FolderError):
            load_run(place)
    made = write_run(tmp_path / "by hand")
    with pytest.raises(FolderError, match="ansatz.D"):
        load_run(made, ["ansatz.D=4"])
    found = load_run(made, ["run.threads=1"])
    assert len(found.history) == 40
    assert found.history.column("stage")[-1] == 2
    with pytest.raises(FolderError, match=r"checkpoint\.h5 is missing"):
        _ = found.vmc
    (made / "checkpoint.h5").write_bytes(b"no state")
    with pytest.raises(FolderError):
        _ = load_run(made).vmc


def test_what_is_damaged_or_old_is_left_out_with_a_warning(tmp_path: Path) -> None:
    made = write_run(tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_run(made)
    damaged = tmp_path / "damaged"
    shutil.copytree(made, damaged)
    (damaged / "result.json").write_text("{}")
    with pytest.warns(UnreliableWarning, match=r"result\.json"):
        found = load_run(damaged)
    assert found.result is None and not found.finished and len(found.history) == 40
    old = read_json(made / "result.json") | {"steps": 30}
    write_json(made / "result.json", old)
    with pytest.warns(UnreliableWarning, match="30 steps"):
        found = load_run(made)
    assert not found.finished and "earlier step" in repr(found)
