"""Files of several runs in one folder: each command tells, and changes nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.test_cli import complaint
from tests.run_files import hdf5_of, read_history, read_json
from tnvmc.app import measure
from tnvmc.app import run as session
from tnvmc.app.cli import main
from tnvmc.report.page import page_data
from tnvmc.storage.hdf5 import read_provenance
from tnvmc.storage.run_files import is_current, read_run
from tnvmc.storage.run_folder import RunFolder
from tnvmc.storage.seals import CHECK, PROVENANCE, json_object, next_check, sealed_json, sealed_toml

SETTINGS = """
[lattice]
kind = "chain"
shape = 4

[hamiltonian]
model = "heisenberg"

[ansatz]
kind = "peps"
D = 2
init = "random"

[sampler]
n_walkers = 4
n_samples = 8

[optimizer]
steps = 3

[measure]
n_samples = 16
n_burn = 1
chi = 4

[run]
threads = 1
"""
FILES = ("config.toml", "history.jsonl", "result.json", "observables.json", "checkpoint.h5")
COMMANDS = (
    ("run", "--resume", "one"),
    ("measure", "one", "--n-samples", "16", "--no-pairs"),
    ("converge", "one", "--chi", "3", "--n-samples", "8"),
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs: "one", "other" of another coupling, "again" with the settings of "one".

    "copy" is a copy of "one" before its end, which went on by itself.
    """
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        (place / "study.toml").write_text(SETTINGS)
        for name, more in (("one", 2), ("other", 3), ("again", 3)):
            changed = ["--set", "hamiltonian.J=3.0"] if name == "other" else []
            asked = ["--set", f"optimizer.steps={more}"]
            assert main(["run", "study.toml", "--out", name, *changed, *asked]) == 0
        shutil.copytree("one", "copy")
        shutil.copy("one/checkpoint.h5", "older.h5")
        for name in ("one", "copy"):
            assert main(["run", "--resume", name, "--set", "optimizer.steps=3"]) == 0
        for name in ("one", "other", "again", "copy"):
            assert main(["measure", name, "--n-samples", "16", "--no-pairs"]) == 0
    return place


@pytest.fixture
def folder(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of "one", beside the others, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("other", "again", "copy"):
        (tmp_path / name).symlink_to(runs / name)
    shutil.copy(runs / "older.h5", tmp_path)
    shutil.copytree(runs / "one", tmp_path / "one")
    return tmp_path / "one"


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.whole
def test_whole_folders_can_be_moved_copied_and_gone_on_with(folder: Path) -> None:
    moved = folder.rename(folder.parent / "moved")
    assert read_run(moved).damage == () and is_current(read_run(moved))
    for command in COMMANDS:
        assert main([word.replace("one", "moved") for word in command]) == 0
    assert main(["run", "--resume", "moved", "--set", "optimizer.steps=5"]) == 0
    run = read_run(moved)
    assert run.damage == () and is_current(run) and len(run.history) == 5
    assert read_run(folder.parent / "copy").damage == ()


@pytest.mark.whole
@pytest.mark.parametrize("source", ["other", "again", "copy"])
@pytest.mark.parametrize("file", FILES)
def test_a_file_of_another_run_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], file: str, source: str
) -> None:
    """One of another model, of the same settings, or of a copy that went another way."""
    ours, theirs = read_run(folder), read_run(folder.parent / source)
    shutil.copy(folder.parent / source / file, folder / file)
    before = content(folder)
    for command in COMMANDS:
        if file in ("config.toml", "result.json") and source == "copy":
            continue  # see below
        if file == "observables.json":
            continue  # which no command goes on from
        complaint(capsys, 2, *command)
        assert content(folder) == before
    found = read_run(folder)
    if file == "config.toml" and source == "copy":
        return
    assert found.damage
    for name, own, foreign in (
        ("result", ours.result, theirs.result), ("observables", ours.observables, theirs.observables),
    ):  # fmt: skip
        held = getattr(found, name)
        assert held is None or held == (foreign if file == "config.toml" else own)
    assert main(["show", "one"]) == 1
    assert file in capsys.readouterr().out.partition("DAMAGED")[2]
    words = page_data(found)["words"]
    assert any(file in text.lower() for status, text in words if status == "warning")


def test_no_energy_is_shown_under_the_name_of_another_model(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy("other/config.toml", folder / "config.toml")
    run = read_run(folder)
    assert run.config["hamiltonian"]["J"] == 3.0
    assert run.result is None and run.observables is None and run.history == () == run.stages
    error = complaint(capsys, 2, "plot", "one", "--format", "svg", "--what", "energy")
    assert "of another run" in error


def test_a_result_of_a_copy_that_went_on_is_measured_anew(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = (folder / "result.json").read_bytes()
    shutil.copy("copy/result.json", folder / "result.json")
    assert not is_current(read_run(folder))
    assert main(["run", "--resume", "one"]) == 0
    found, ours = read_json(folder / "result.json"), json_object(own.decode())
    assert found["energy"] == ours["energy"]
    assert is_current(read_run(folder)) and read_run(folder).damage == ()
    assert "result.json is damaged or not of this step" in capsys.readouterr().out


def test_a_damaged_result_is_not_replaced_without_a_word(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scan of `tnvmc converge` is in it too, and does not come back."""
    path = folder / "result.json"
    path.write_text(path.read_text().replace("energy", "enerGy", 1))
    assert main(["run", "--resume", "one"]) == 0
    assert "result.json is damaged" in capsys.readouterr().out
    assert is_current(read_run(folder)) and main(["run", "--resume", "one"]) == 0
    assert "is damaged" not in capsys.readouterr().out


def test_an_older_checkpoint_does_not_cut_the_history_behind_a_result(folder: Path) -> None:
    """The result is then of steps that are made again, and is measured again."""
    shutil.copy("older.h5", folder / "checkpoint.h5")
    assert main(["run", "--resume", "one"]) == 0
    run = read_run(folder)
    assert len(run.history) == 3 and is_current(run)
    assert [(each.file, each.code) for each in run.damage] == [("observables.json", "other_steps")]


def older_format(path: Path) -> None:
    """Make a file what an earlier version wrote, which did not tie files together."""
    if path.suffix == ".h5":
        with hdf5_of(path) as file:
            del file.attrs[PROVENANCE]
    elif path.suffix == ".json":
        held = json_object(path.read_text())
        held = {key: value for key, value in held.items() if key not in (PROVENANCE, "checksum")}
        path.write_bytes(sealed_json(held))
    elif path.suffix == ".toml":
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        path.write_bytes(sealed_toml("\n".join(lines) + "\n"))


@pytest.mark.whole
def test_a_folder_of_an_earlier_version_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_untied(folder, read_history(folder))
    for name in FILES:
        older_format(folder / name)
    before = content(folder)
    for command in COMMANDS:
        assert "an earlier version" in complaint(capsys, 2, *command)
    assert content(folder) == before
    run = read_run(folder)
    assert run.damage == () and run.result is not None and len(run.history) == 3
    older_format(folder / "result.json")
    held = json_object((folder / "result.json").read_text())
    held.pop("checksum")
    held["config"]["hamiltonian"]["J"] = 2.0
    (folder / "result.json").write_bytes(sealed_json(held))
    assert ("result.json", "other_model") in [(d.file, d.code) for d in read_run(folder).damage]
    assert read_run(folder).result is None
    init = ["--set", "ansatz.init=one/checkpoint.h5"]
    assert main(["run", "one/config.toml", "--out", "new", *init]) == 0


def write_untied(folder: Path, lines: list[dict[str, object]]) -> None:
    check, text = "", ""
    for line in lines:
        check = next_check(check, line)
        text += json.dumps({**line, CHECK: check}) + "\n"
    (folder / "history.jsonl").write_text(text)


def test_a_checkpoint_that_was_replaced_meanwhile_is_not_measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The observables would be of another state than the one that was looked at before."""
    at_two, before = read_provenance(Path("older.h5")), content(folder)
    assert at_two is not None and at_two.step == 2
    monkeypatch.setattr(measure, "check_tied", lambda _: at_two)
    assert "try again" in complaint(capsys, 2, *COMMANDS[1])
    assert content(folder) == before


def test_a_state_that_was_saved_elsewhere_is_no_checkpoint_of_a_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older_format(folder / "checkpoint.h5")
    for command in COMMANDS:
        assert "checkpoint.h5 is of no run" in complaint(capsys, 2, *command)


def interrupt_after(step: int) -> Callable[..., None]:
    append = RunFolder.append

    def stopped(self: RunFolder, record: dict[str, object]) -> None:
        append(self, record)
        if record["step"] == step:
            raise KeyboardInterrupt

    return stopped


def test_a_result_from_before_an_interrupted_resume_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "append", interrupt_after(4))
        assert main(["run", "--resume", "one", "--set", "optimizer.steps=6"]) == 130
    capsys.readouterr()
    run = read_run(folder)
    assert not is_current(run) and run.damage == ()
    page = page_data(run)
    assert any("measured after 3 steps" in label for _, label in page["headline"])
    assert any(status == "warning" and "after 3" in text for status, text in page["words"])
    error = complaint(capsys, 2, *COMMANDS[2])
    assert "not that of its last step" in error
    assert main(["run", "--resume", "one"]) == 0 and is_current(read_run(folder))


def test_a_result_of_settings_from_before_an_interrupted_resume_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No step was made, so that steps alone do not tell."""
    with monkeypatch.context() as patch:
        patch.setattr(session, "measure", raise_interrupt)
        assert main(["run", "--resume", "one", "--set", "measure.n_samples=32"]) == 130
    capsys.readouterr()
    assert not is_current(read_run(folder))
    assert main(["show", "one"]) == 0
    out = capsys.readouterr().out
    assert "stopped" in out and "with other settings" in out
    assert "not that of its last step" in complaint(capsys, 2, *COMMANDS[2])


def test_a_file_in_the_place_of_another_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the same run and step, so that only what it holds tells."""
    shutil.copy(folder / "observables.json", folder / "result.json")
    assert "result.json" in complaint(capsys, 2, *COMMANDS[2])
    assert [(each.file, each.code) for each in read_run(folder).damage] == [
        ("result.json", "bad_content")
    ]
    assert main(["run", "--resume", "one"]) == 0 and read_run(folder).damage == ()
    assert "result.json is damaged" in capsys.readouterr().out


def raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt
