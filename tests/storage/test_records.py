"""The folder of a run: what is written, what is cut, what is refused."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import tomllib
from pathlib import Path

import pytest

from tnvmc.report.plots import energy_picture
from tnvmc.storage import run_folder as records
from tnvmc.storage.files import write_atomically
from tnvmc.storage.run_files import Run
from tnvmc.storage.run_folder import SERIES, FolderError, RunFolder
from tnvmc.vmc.results import StepRecord

SETTINGS = {"ansatz": {"D": 3}, "run": {"seed": 1}}


def record(step: int, energy: float = -9.0, undone: bool = False) -> StepRecord:
    return StepRecord(
        step, energy, 0.1, 0.5, 1.0, 1.01, 0.4, None, 0.05, 0.2, undone, (), {}, seconds=0.1
    )


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "a" / "b", SETTINGS) as folder:
        for step in range(3):
            folder.append(record(step).as_dict())
        folder.write_result({"energy": -9.0})
        assert [line["step"] for line in folder.history()] == [0, 1, 2]
        assert folder.read_result() == {"energy": -9.0}
        assert tomllib.loads((folder.path / "config.toml").read_text()) == SETTINGS


def test_strict_json_has_null_where_a_number_is_not_finite(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", SETTINGS) as folder:
        folder.append(record(0, energy=math.nan).as_dict())
        text = (folder.path / "history.jsonl").read_text()
    assert json.loads(text, parse_constant=lambda name: pytest.fail(name))["energy"] is None


def test_a_folder_with_a_run_is_refused_and_stays(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", SETTINGS).close()
    with pytest.raises(FolderError, match="holds a run already.*--resume"):
        RunFolder.create(tmp_path / "run", {"other": {"x": 1}})
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text()) == SETTINGS
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(FolderError, match="is a file"):
        RunFolder.create(file, SETTINGS)
    assert file.read_text() == "mine"


def test_a_folder_with_other_files_is_fine(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    RunFolder.create(tmp_path, SETTINGS).close()
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_reopening_cuts_the_history(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", SETTINGS) as folder:
        for step in range(6):
            folder.append(record(step).as_dict())
    with open(tmp_path / "run" / "history.jsonl", "ab") as file:
        file.write(b'{"step": 6, "ene')
    with RunFolder.reopen(tmp_path / "run", next_step=4) as folder:
        folder.append(record(4, energy=-9.5).as_dict())
        lines = folder.history()
    assert [line["step"] for line in lines] == [0, 1, 2, 3, 4]
    assert lines[-1]["energy"] == -9.5


def test_reopening_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="no run to resume"):
        RunFolder.reopen(tmp_path, 0)
    assert os.listdir(tmp_path) == []


def test_two_processes_cannot_write_one_run(tmp_path: Path) -> None:
    with (
        RunFolder.create(tmp_path / "run", SETTINGS),
        pytest.raises(FolderError, match="another process"),
    ):
        RunFolder.reopen(tmp_path / "run", 0)
    RunFolder.reopen(tmp_path / "run", 0).close()


def test_a_full_disk_at_the_start_leaves_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(records, "write_atomically", full)
    with pytest.raises(OSError, match="No space"):
        RunFolder.create(tmp_path / "run", SETTINGS)
    monkeypatch.undo()
    RunFolder.create(tmp_path / "run", SETTINGS).close()


@pytest.mark.whole
@pytest.mark.parametrize("exact", [None, -0.57])
@pytest.mark.parametrize("n_steps", [0, 1, 30])
def test_the_picture_is_drawn(exact: float | None, n_steps: int) -> None:
    history = [
        record(step, energy=-9 - 0.1 * (step % 7), undone=step == 5).as_dict()
        for step in range(n_steps)
    ]
    history += [record(n_steps, energy=math.inf, undone=True).as_dict()]
    result = {
        "n_sites": 16, "units": "S.S", "exact_energy_per_site": exact, "energy_per_site": -0.57,
        "energy_per_site_error": 0.001,
    }  # fmt: skip
    picture = energy_picture(Run(Path("run"), {}, tuple(history), result), "t")
    assert picture.startswith(b"\x89PNG")


def test_a_missing_a_doubled_and_a_changed_line_are_found(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", SETTINGS) as folder:
        for step in range(6):
            folder.append(record(step).as_dict())
    path = tmp_path / "run" / "history.jsonl"
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    for bad, words in (
        (lines[:2] + lines[3:], "line 3 is damaged"),
        (lines[:3] + lines[2:], "line 4 is damaged"),
        ([*lines[:3], lines[3].replace(b"-9.0", b"-9.1"), *lines[4:]], "line 4 is damaged"),
        (lines[:4], "tells of 4 steps, the checkpoint of 5"),
        ([*lines[:3], b"null\n", *lines[4:]], "line 4 is damaged"),
        ([], "tells of 0 steps"),
    ):
        path.write_bytes(b"".join(bad))
        with pytest.raises(FolderError, match=words):
            RunFolder.reopen(tmp_path / "run", next_step=5)
        assert path.read_bytes() == b"".join(bad)
    path.write_bytes(content)
    RunFolder.reopen(tmp_path / "run", next_step=5).close()
    assert path.read_bytes() == b"".join(lines[:5])
    path.unlink()
    with pytest.raises(FolderError, match=r"history\.jsonl is missing"):
        RunFolder.reopen(tmp_path / "run", next_step=5)
    path.mkdir()
    with pytest.raises(FolderError, match="Is a directory"):
        RunFolder.reopen(tmp_path / "run", next_step=5)


def test_a_run_killed_before_its_settings_can_be_started_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "history.jsonl").touch()
    with pytest.raises(FolderError, match="stopped before it began: start it again"):
        RunFolder.reopen(run, 0)
    with RunFolder.create(run, SETTINGS) as folder:
        folder.append(record(0).as_dict())
    with pytest.raises(FolderError, match="holds a run already"):
        RunFolder.create(run, SETTINGS)


def test_settings_that_were_changed_are_refused(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", SETTINGS).close()
    path = tmp_path / "run" / "config.toml"
    records.check_run_folder(tmp_path / "run")
    path.write_text(path.read_text().replace("seed = 1", "seed = 3"))
    with pytest.raises(FolderError, match="its checksum is another one"):
        records.check_run_folder(tmp_path / "run")


@pytest.mark.parametrize("anew", [True, False])
def test_a_folder_that_was_replaced_is_not_written(tmp_path: Path, anew: bool) -> None:
    run = tmp_path / "run"
    with RunFolder.create(run, SETTINGS) as folder:
        folder.append(record(0).as_dict())
        shutil.rmtree(run)
        if anew:
            RunFolder.create(run, {"other": {"x": 1}}).close()
        words = "another folder has taken its place" if anew else "the folder is gone"
        for write in (
            lambda: folder.append(record(1).as_dict()),
            lambda: folder.write_result({"energy": 1.0}),
            lambda: folder.write_settings(SETTINGS),
            folder.sync,
        ):
            with pytest.raises(FolderError, match=words):
                write()
    assert sorted(run.glob("*")) == [run / "config.toml", run / "history.jsonl"][: 2 * anew]


def test_a_result_that_was_changed_is_none(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", SETTINGS) as folder:
        for content in ({"energy": -9.0}, [1], None, "x"):
            (folder.path / "result.json").write_text(json.dumps(content))
            assert folder.read_result() is None
        folder.write_result({"energy": -9.0})
        path = folder.path / "result.json"
        path.write_text(path.read_text().replace("-9.0", "-9.5"))
        assert folder.read_result() is None


def test_what_dead_processes_left_is_cleared(tmp_path: Path) -> None:
    """Of an hour ago: one that is younger may be of a process that lives."""
    dead, living, other = (tmp_path / name for name in (".tnvmc.1.tmp", ".tnvmc.2.tmp", ".1.tmp"))
    for path in (dead, living, other):
        path.write_bytes(b"x")
    os.utime(dead, (0, 0))
    os.utime(other, (0, 0))
    RunFolder.create(tmp_path, SETTINGS).close()
    assert not dead.exists() and living.exists() and other.exists()
    os.utime(living, (0, 0))
    RunFolder.reopen(tmp_path, 0).close()
    assert other.exists() and not living.exists()
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / ".tnvmc.3.tmp").touch()
    os.utime(tmp_path / "pictures" / ".tnvmc.3.tmp", (0, 0))
    write_atomically(tmp_path / "pictures" / "energy.png", b"x")
    assert os.listdir(tmp_path / "pictures") == ["energy.png"]


def test_a_name_may_be_as_long_as_the_system_takes(tmp_path: Path) -> None:
    write_atomically(tmp_path / ("n" * 255), b"x")
    with pytest.raises(OSError, match="too long"):
        write_atomically(tmp_path / ("n" * 300), b"x")
    assert os.listdir(tmp_path) == ["n" * 255]


@pytest.mark.parametrize("name", sorted(SERIES))
def test_a_run_is_not_put_where_several_are(name: str, tmp_path: Path) -> None:
    """Nothing but the series was found in that folder again."""
    (tmp_path / name).write_text("")
    with pytest.raises(FolderError, match="holds (a|an|several) "):
        RunFolder.create(tmp_path, {})
