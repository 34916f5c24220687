"""`tnvmc archive`: what is kept of a run says what the run says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.run_files import read_json
from tnvmc import load_state
from tnvmc.app.cli import main
from tnvmc.app.measure import Asked, measure_run
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.storage.hdf5 import read_parameters
from tnvmc.vmc import measured_iterate
from tnvmc.vmc.controllers import MeanOfIterates
from tnvmc.vmc.core import Iterate, Method, State
from tnvmc.vmc.measured_iterate import CODES

SETTINGS = """
[lattice]
shape = [3, 2]
[hamiltonian]
model = "heisenberg"
[ansatz]
D = 2
sharing = false
[contraction]
chi = 2
[sampler]
n_walkers = 8
n_samples = 32
[optimizer]
steps = 12
[measure]
n_samples = 64
[run]
threads = 1
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(SETTINGS)
    assert main(["run", "small.toml", "--out", "r"]) == 0
    return "r"


@pytest.mark.whole
def test_an_archive_is_measured_as_the_run_is(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["archive", run, "kept/r"]) == 0
    result, kept = (read_json(Path(x, "result.json")) for x in ("r", "kept/r"))
    assert kept["config"]["run"].pop("out") == "r" == result["config"]["run"].pop("out")
    assert kept == result
    for folder in ("r", "kept/r"):
        assert main(["measure", folder, "--n-samples", "64", "--no-pairs"]) == 0
        assert main(["show", folder]) == 0
    found, expected = (
        read_json(Path(folder) / "observables.json")["energy"] for folder in ("kept/r", "r")
    )
    assert found == expected
    assert main(["converge", "kept/r", "--chi", "3", "--n-samples", "32"]) == 0
    assert main(["report", "kept/r"]) == 0
    before, after = (Path(x, "checkpoint.h5").stat().st_size for x in ("r", "kept/r"))
    assert after < before
    assert load_state("kept/r/checkpoint.h5")[1].shape == load_state("r/checkpoint.h5")[1].shape
    assert main(["archive", "kept/r", "again"]) == 0  # of an archive, the same
    assert read_json(Path("again/result.json"))["config"]["run"]["out"] == "again"
    assert main(["show", "again"]) == 0
    assert main(["archive", run, "kept/r"]) == 2
    capsys.readouterr()


@pytest.mark.whole
def test_an_archive_is_not_resumed(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["archive", run, "kept"]) == 0
    kept = {path.name: path.read_bytes() for path in Path("kept").iterdir()}
    capsys.readouterr()
    assert main(["run", "--resume", "kept", "--set", "optimizer.steps=14"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in Path("kept").iterdir()} == kept


STAGES = """
[[stage]]
steps = 11
[[stage]]
steps = 11
"""


@pytest.mark.whole
@pytest.mark.parametrize("stages", ["", STAGES])
def test_the_parameters_are_those_that_were_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stages: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(SETTINGS + stages)

    def another(method: Method, state: State) -> tuple[Iterate, tuple[()]]:
        iterates = state.controller(MeanOfIterates)
        assert iterates is not None
        return replace(state.here, theta=iterates.first), ()  # as another version might

    with monkeypatch.context() as patch:
        patch.setattr("tnvmc.vmc.measurement.measured_iterate", another)
        assert main(["run", "small.toml", "--out", "r"]) == 0
    _, measured = read_parameters(Path("r", "stage-2.h5" if stages else "measured.h5"))
    assert main(["archive", "r", "kept"]) == 0
    np.testing.assert_array_equal(read_parameters(Path("kept/checkpoint.h5"))[1], measured)
    assert (read_parameters(Path("r/checkpoint.h5"))[1] != measured).any()
    assert main(["archive", "kept", "again"]) == 0
    np.testing.assert_array_equal(read_parameters(Path("again/checkpoint.h5"))[1], measured)


@pytest.mark.whole
def test_a_run_that_went_on_after_its_result_is_refused(
    run: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tnvmc.app.run.measure", stopped)
        assert main(["run", "--resume", run, "--set", "optimizer.steps=14"]) == 130
    capsys.readouterr()
    assert main(["archive", run, "kept"]) == 2
    assert "not that of its last step" in capsys.readouterr().err
    assert not Path("kept").exists()


@pytest.mark.whole
def test_an_unfinished_run_is_refused(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("r/result.json").unlink()
    assert main(["archive", run, "kept"]) == 2
    assert "result.json is missing" in capsys.readouterr().err
    assert not Path("kept").exists()


@pytest.mark.whole
@pytest.mark.parametrize("stages", ["", STAGES])
def test_measuring_an_archive_says_again_which_parameters_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stages: str
) -> None:
    monkeypatch.chdir(tmp_path)

    def best(method: Any, iterates: Any, last: Any, *others: Any) -> Any:
        told = Diagnostic("measured_mean", "good", measured_iterate._compared(None, None))
        return (replace(last, theta=iterates.mean), (told,)) if stages else (last, ())

    monkeypatch.setattr(measured_iterate, "_best", best)
    Path("small.toml").write_text(SETTINGS + stages)
    assert main(["run", "small.toml", "--out", "r"]) == 0
    assert main(["archive", "r", "kept"]) == 0
    told = []
    for folder in ("r", "kept"):
        found = measure_run(folder, Asked(64, pair_samples=0))["diagnostics"]
        told.append([each for each in found if each["code"] in CODES])
    assert told[0] == told[1]
    assert bool(stages) == bool(told[0])
