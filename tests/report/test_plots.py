"""Pictures as files: formats, what has no data, and nothing of others is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.run_files import write_run
from tnvmc.app.cli import main
from tnvmc.report import plots
from tnvmc.report.figures import style
from tnvmc.report.plots import PictureError, plot_runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("plots") / "run")


@pytest.mark.whole
def test_files_of_all_formats(folder: Path, tmp_path: Path) -> None:
    written = plot_runs([folder], tmp_path / "a" / "b", "png,pdf,svg", "energy")
    assert [path.name for path in written.files] == ["energy.png", "energy.pdf", "energy.svg"]
    contents = [path.read_bytes() for path in written.files]
    assert [content[:4] for content in contents] == [b"\x89PNG", b"%PDF", b"<?xm"]
    assert all(style.MADE_BY.encode() in content for content in contents)
    plot_runs([folder], tmp_path / "a" / "b", "png,pdf,svg", "energy")  # its own it replaces


def test_what_has_no_data_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", finished=False, measured=False)
    assert main(["plot", str(run), "--format", "svg", "--what", "acceptance,lattice,chi"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("lattice is left out: no bond energies are measured")
    assert said[1].startswith("chi is left out")
    assert said[2] == f"acceptance (svg) written to {run / 'pictures'}"
    assert [path.name for path in (run / "pictures").iterdir()] == ["acceptance.svg"]


def test_runs_of_different_units_are_not_drawn_together(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write_run(tmp_path / "other")
    units = {folder: "S.S", other: "n"}
    monkeypatch.setattr(plots, "units_of", lambda run: units[run.path])
    with pytest.raises(PictureError, match=r"S\.S and n"):
        plot_runs([folder, other], tmp_path, "png", "energy")


def test_a_file_of_somebody_else_stays(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "energy.pdf").write_text("mine")
    with pytest.raises(PictureError, match=r"energy.pdf: exists and was not made by tnvmc plot"):
        plot_runs([folder], tmp_path, "png,pdf", "energy")
    assert (tmp_path / "energy.pdf").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["energy.pdf"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--what", "enrgy"], "did you mean 'energy'?"),
        (["--what", ","], "names nothing"),
        (["--format", "gif"], "known are png, pdf, svg"),
        (["--site", "16"], "has the sites 0..15"),
        (["--site", "-1"], "has the sites 0..15"),
    ],
)
def test_bad_options_are_one_line(
    folder: Path, options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", str(folder), *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("tnvmc: ")
    assert error.count("\n") == 1
    assert complaint in error
    assert not (folder / "pictures").exists()


def test_bad_folders_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    bare = write_run(tmp_path / "bare", finished=False, measured=False)
    (bare / "history.jsonl").write_text("")
    for name, complaint in (
        ("none", "no such folder"), ("empty", "holds no run"), ("file", "is a file"),
        ("bare", "nothing to draw"),
    ):  # fmt: skip
        assert main(["plot", str(tmp_path / name)]) == 2
        error = capsys.readouterr().err
        assert complaint in error
        assert error.count("\n") == 1


def test_a_damaged_file_is_told_and_the_rest_is_drawn(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "observables.json").write_text("{}")
    written = plot_runs([run], None, "svg", "acceptance,lattice")
    assert "observables.json is damaged: its checksum is another one" in "".join(written.left_out)
    assert len(written.files) == 1
