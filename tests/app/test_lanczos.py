"""`tnvmc measure --lanczos`: the step that Python makes, and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.test_converge import SETTINGS
from tnvmc import Enumerate, lanczos_step, load_run
from tnvmc.app.cli import main
from tnvmc.shown import with_error


@pytest.mark.whole
def test_the_command_makes_the_step_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file.toml").write_text(SETTINGS)
    assert main(["run", "file.toml", "--out", "r"]) == 0
    before = {path.name: path.read_bytes() for path in Path("r").iterdir()}
    capsys.readouterr()
    assert main(["measure", "r", "--lanczos", "--enumerate"]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()[-9:]}
    found = lanczos_step(load_run("r").vmc, sampler=Enumerate(threads=1))
    assert rows["energy"] == [with_error(found.energy, 0.0), with_error(found.energy / 6, 0.0)]
    assert main(["measure", "r", "--lanczos", "--n-samples", "32", "--direct"]) == 0
    assert "alpha" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in Path("r").iterdir()} == before
    for wrong in (["--no-pairs"], ["--n-samples", "0"], ["--operator", "file.toml"]):
        assert main(["measure", "r", "--lanczos", *wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1
