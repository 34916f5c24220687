"""`tnvmc examples`: copies that can be run, and nothing of anybody's overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tnvmc.app import examples
from tnvmc.app.cli import main

SCRIPTS = Path(__file__).parents[2] / "scripts"
NAMES = sorted(path.name for path in SCRIPTS.glob("*.toml"))
COPIED = [*NAMES, "my_nets.py"]
"""With the networks that one of them names."""


def test_examples_are_copied_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["examples"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told == [str(Path("examples", name)) for name in COPIED]
    assert all(Path("examples", n).read_bytes() == (SCRIPTS / n).read_bytes() for n in COPIED)
    Path("examples", NAMES[0]).unlink()
    assert main(["examples", "examples"]) == 0
    assert capsys.readouterr().out.split() == [str(Path("examples", NAMES[0]))]
    assert main(["examples"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_file_that_differs_is_kept_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    mine = tmp_path / NAMES[-1]
    mine.write_text("mine")
    assert main(["examples", str(tmp_path)]) == 2
    found = capsys.readouterr()
    (line,) = found.err.splitlines()
    assert line.startswith(f"tnvmc: {mine}: differs") and found.out == ""
    assert [path.name for path in tmp_path.iterdir()] == [NAMES[-1]]
    assert mine.read_text() == "mine"


def test_a_file_in_the_place_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "examples").write_text("mine")
    assert main(["examples", str(tmp_path / "examples")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert (tmp_path / "examples").read_text() == "mine"


def test_the_list_says_what_each_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["examples", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    assert all(len(line) <= 120 and "  " in line for line in lines)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_first_line_is_a_sentence(name: str) -> None:
    first = (SCRIPTS / name).read_text().splitlines()[0]
    assert first.startswith("# ") and first.endswith(".")


def test_an_installed_package_has_them_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "one.toml").write_text("# A model.\n")
    monkeypatch.setattr(examples, "_PACKAGE", tmp_path)
    (file,) = examples.example_files()
    assert (file.name, examples.description(file)) == ("one.toml", "A model")
