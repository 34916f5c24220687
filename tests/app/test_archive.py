"""`tnvmc archive`: what is kept of a run says what the run says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.run_files import read_json
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.app.cli import main

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
    assert PEPS.load("kept/r/checkpoint.h5")[1].shape == PEPS.load("r/checkpoint.h5")[1].shape
    assert main(["archive", "kept/r", "again"]) == 0  # of an archive, the same
    assert read_json(Path("again/result.json"))["config"]["run"]["out"] == "again"
    assert main(["show", "again"]) == 0
    assert main(["archive", run, "kept/r"]) == 2
    capsys.readouterr()


def test_an_archive_is_not_resumed(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["archive", run, "kept"]) == 0
    kept = {path.name: path.read_bytes() for path in Path("kept").iterdir()}
    capsys.readouterr()
    assert main(["run", "--resume", "kept", "--set", "optimizer.steps=14"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in Path("kept").iterdir()} == kept


def test_an_unfinished_run_is_refused(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("r/result.json").unlink()
    assert main(["archive", run, "kept"]) == 2
    assert "result.json is missing" in capsys.readouterr().err
    assert not Path("kept").exists()
