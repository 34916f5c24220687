"""``tnvmc converge``, and the scan of chi at the end of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.run_files import read_json
from tnvmc.app.cli import main
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.shown import line
from tnvmc.storage.run_folder import RunFolder
from tnvmc.trust.finished_run import diagnostics_of

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
n_samples = 16
[optimizer]
steps = 2
[measure]
n_samples = 64
[run]
threads = 1
"""


def result_of(folder: str) -> dict[str, Any]:
    return read_json(Path(folder) / "result.json")


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    error = capsys.readouterr().err
    assert error.startswith("tnvmc: ")
    assert error.count("\n") == 1
    return error


@pytest.mark.whole
def test_a_run_scans_chi_and_converge_replaces_it_and_nothing_else(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(file), "--out", "r"]) == 0
    assert "converged in" in capsys.readouterr().out
    before = result_of("r")
    history = Path("r/history.jsonl").read_bytes()
    assert [point["chi"] for point in before["convergence"]["chi"]] == [2, 3, 4]
    assert set(before["convergence"]) == {
        "chi", "double_layer", "variance", "bond_dimension", "diagnostics",
    }  # fmt: skip
    assert before["convergence"]["double_layer"] is None  # that is for `converge`
    assert main(["converge", "r", "--chi", "2", "--chi", "6", "--n-samples", "32"]) == 0
    shown = capsys.readouterr().out
    after = result_of("r")
    assert "32 samples drawn at chi 6" in shown
    assert [point["chi"] for point in after["convergence"]["chi"]] == [2, 4, 6]
    assert after["convergence"]["double_layer"]["magnetisation"] == 0
    assert "energy by the double layer" in shown and "sector 2 Sz = 0" in shown
    for diagnostic in diagnostics_of(after):
        assert line(diagnostic) in shown
    assert {**after, "convergence": 0} == {**before, "convergence": 0}
    assert Path("r/history.jsonl").read_bytes() == history
    assert main(["converge", "r"]) == 0
    assert [point["chi"] for point in result_of("r")["convergence"]["chi"]] == [2, 3, 4]


@pytest.mark.whole
def test_warnings_of_the_measurement_are_told_again(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(file), "--out", "r"]) == 0
    doubt = {"code": "heavy_tail", "status": "warning", "values": {"share": 0.9, "raise": []}}
    result = result_of("r")
    result["diagnostics"].append(doubt)
    with RunFolder.reopen(Path("r")) as folder:
        folder.write_result(result)
    capsys.readouterr()
    assert main(["converge", "r", "--chi", "2", "--n-samples", "32", "--double-layer", "no"]) == 0
    told = line(Diagnostic.from_dict(doubt))
    assert capsys.readouterr().out.count(told) == 1
    after = result_of("r")
    assert [found["code"] for found in after["diagnostics"]].count("heavy_tail") == 1
    assert "heavy_tail" not in [found["code"] for found in after["convergence"]["diagnostics"]]


@pytest.mark.whole
def test_the_double_layer_is_asked_as_one_likes(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(file), "--out", "r"]) == 0
    assert main(["converge", "r", "--double-layer", "no"]) == 0
    assert result_of("r")["convergence"]["double_layer"] is None
    assert main(["converge", "r", "--double-layer", "yes"]) == 0
    found = result_of("r")["convergence"]
    assert found["double_layer"]["points"][-1]["uncut"]
    assert found["double_layer"]["truncation"] == 0
    codes = [each["code"] for each in found["diagnostics"]]
    assert "double_layer_agrees" in codes
    capsys.readouterr()


@pytest.mark.whole
def test_a_symmetrised_measurement_has_no_double_layer(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", str(file), "--out", "r", "--set", 'measure.symmetrise=["spin"]']
    assert main(run) == 0
    capsys.readouterr()
    content = Path("r/result.json").read_bytes()
    assert "double layer" in complaint(capsys, "converge", "r", "--double-layer", "yes")
    assert Path("r/result.json").read_bytes() == content
    assert main(["converge", "r"]) == 0
    assert "the layers of a Symmetrised are not contracted" in capsys.readouterr().out
    left_out = result_of("r")["convergence"]["double_layer"]["left_out"]
    assert left_out == {"reason": "state", "state": "Symmetrised"}


@pytest.mark.whole
def test_folders_that_cannot_converge(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such folder" in complaint(capsys, "converge", "nowhere")
    assert "is a file" in complaint(capsys, "converge", str(file))
    Path("empty").mkdir()
    assert "holds no run" in complaint(capsys, "converge", "empty")
    assert main(["run", str(file), "--out", "r"]) == 0
    capsys.readouterr()
    content = Path("r/result.json").read_bytes()
    assert "at least 1" in complaint(capsys, "converge", "r", "--chi", "0")
    assert "n_samples is 0" in complaint(capsys, "converge", "r", "--n-samples", "0")
    assert "two different" in complaint(capsys, "converge", "r", "--chi", "4")
    assert Path("r/result.json").read_bytes() == content
    Path("r/checkpoint.h5").rename("kept")
    assert "checkpoint.h5 is missing" in complaint(capsys, "converge", "r")
    Path("kept").rename("r/checkpoint.h5")
    Path("r/result.json").write_text("[1")
    assert "damaged" in complaint(capsys, "converge", "r")
    Path("r/result.json").unlink()
    assert "tnvmc run --resume r" in complaint(capsys, "converge", "r")


def test_a_state_without_chi_cannot_converge_in_it(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(SETTINGS.replace("chi = 2", 'scheme = "exact"'))
    assert main(["run", str(file), "--out", "r"]) == 0
    capsys.readouterr()
    assert "no chi to converge in" in complaint(capsys, "converge", "r", "--chi", "4")
