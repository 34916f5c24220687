"""Which run a file is of: what fits, what does not, and how it is written down."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tnvmc.storage.run_folder import FolderError, FolderInUse, RunFolder
from tnvmc.storage.seals import Lines, Provenance, in_toml, mismatch, new_run, read_lines


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    with RunFolder.create(tmp_path / "run", {"ansatz": {"D": 3}}) as folder:
        for step in range(3):
            folder.append({"step": step, "energy": -9.0})
    return folder


def lines_of(folder: RunFolder) -> Lines:
    return read_lines((folder.path / "history.jsonl").read_bytes())


def test_two_runs_have_two_ids_and_one_run_keeps_its_own(folder: RunFolder, tmp_path: Path) -> None:
    lines, here = lines_of(folder), folder.provenance
    assert (here.step, here.check) == (3, lines.checks[-1]) and lines.run_id == here.run_id
    assert "run_id" not in lines.records[0]
    with RunFolder.reopen(folder.path) as again:
        assert again.provenance == here
    with RunFolder.create(tmp_path / "other", {"ansatz": {"D": 3}}) as other:
        assert other.provenance.run_id != here.run_id
    assert new_run() != new_run()


def test_what_does_not_fit(folder: RunFolder) -> None:
    lines, here = lines_of(folder), folder.provenance
    run_id = here.run_id
    for step in range(4):
        check = lines.checks[step - 1] if step else ""
        assert mismatch(Provenance(run_id, step, check), run_id, lines) is None
    assert mismatch(None, None, lines) is None  # from before runs had an id
    for found in (None, replace(here, run_id="other")):
        assert mismatch(found, run_id, lines) == "other_run"
    assert mismatch(here, None, lines) == "other_run"
    assert mismatch(replace(here, step=2), run_id, lines) == "other_steps"
    assert mismatch(replace(here, step=0), run_id, lines) == "other_steps"
    assert mismatch(replace(here, step=4), run_id, lines) == "ahead"
    damaged = read_lines((folder.path / "history.jsonl").read_bytes() + b"x\n")
    assert mismatch(replace(here, step=4), run_id, damaged) is None
    assert mismatch(replace(here, step=4), run_id, None) is None


def test_it_is_read_back(folder: RunFolder) -> None:
    here = folder.provenance
    assert Provenance.of(here.as_dict()) == here
    assert in_toml(f"a = 1\n{here.as_comment()}# more\n") == here
    assert in_toml("a = 1\n") is None and Provenance.of(None) is None
    for bad in (
        [],
        "x",
        {"run_id": "x"},
        {**here.as_dict(), "step": "3"},
        here.as_dict() | {"x": 1},
    ):
        with pytest.raises(ValueError, match="provenance"):
            Provenance.of(bad)


def test_a_folder_killed_before_its_settings_were_written_anew_is_not_refused(
    folder: RunFolder,
) -> None:
    """Resumed from an older checkpoint: the history is cut, config.toml is still that of later."""
    with RunFolder.reopen(folder.path) as again:
        again.write_settings({"ansatz": {"D": 3}})
    RunFolder.reopen(folder.path, next_step=1).close()
    with RunFolder.reopen(folder.path, next_step=1) as again:
        assert again.provenance.step == 1


def test_two_processes_that_go_on_at_once_do_not_cut_each_other(folder: RunFolder) -> None:
    """The later one has read a checkpoint that the earlier has replaced before it let go."""
    from tnvmc.storage.files import write_atomically
    from tnvmc.storage.hdf5 import encoded

    later = replace(folder.provenance, step=3)
    write_atomically(folder.path / "checkpoint.h5", encoded({}, {"provenance": later.as_dict()}))
    earlier = Provenance(later.run_id, 1, lines_of(folder).checks[0])
    before = (folder.path / "history.jsonl").read_bytes()
    with pytest.raises(FolderInUse):
        RunFolder.reopen(folder.path, 1, earlier)
    assert (folder.path / "history.jsonl").read_bytes() == before
    assert issubclass(FolderInUse, FolderError)
