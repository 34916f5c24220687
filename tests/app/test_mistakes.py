"""Mistakes on the command line: one line on stderr, exit status 2, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tnvmc.app.cli import main

SETTINGS = """
lattice = { shape = [2, 2] }
hamiltonian = { model = "heisenberg" }
ansatz = { D = 2 }
optimizer = { steps = 2 }
"""
SET = """
ansatz.E=3 ansatz.D=0 ansatz.D=-1 ansatz.D=x ansatz.D=2.5 contraction.chi=0 contraction.chi=-3
lattice.shape=[0,2] lattice.shape=[2] lattice.shape=2x2 lattice.shape=[2,2,2] lattice.kind=kagomee
lattice.boundary=twisted hamiltonian.model=isng hamiltonian.J=strong hamiltonian.J=nan
hamiltonian.J=[1,2] sampler.magnetisation=1 sampler.magnetisation=10 sampler.n_samples=0
sampler.n_walkers=-4 optimizer.steps=-1 optimizer.kind=adm optimizer.learning_rate=-1 run.seed=-1
measure.symmetrise=["x"] run.threads=0 foo=1 foo.bar=1 ansatz.init=nofile.h5 ansatz run.device=tpu
"""
OTHERS = """
run missing.toml
run bad.toml
run binary.toml
run folder.toml
run
run good.toml --out file
run good.toml --out /proc/x
run good.toml --steps 3
run good.toml --out pictures
run --resume folder.toml
run --resume nowhere
measure folder.toml
show folder.toml
converge folder.toml
archive folder.toml x
exact missing.toml
plot x
"""
MISTAKES = [["run", "good.toml", "--set", each] for each in SET.split()]
MISTAKES += [["run", "good.toml", "--out", ""]]
MISTAKES += [each.split() for each in OTHERS.strip().splitlines()]


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_a_mistake_is_one_line(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.toml").write_text(SETTINGS)
    Path("bad.toml").write_text("[lattice\nshape = 1")
    Path("binary.toml").write_bytes(b"\0\1")
    Path("file").write_text("x")
    Path("folder.toml").mkdir()
    Path("pictures").mkdir()
    Path("pictures/energy.png").write_text("of the user's own")
    before = {path: path.is_file() and path.read_bytes() for path in Path().rglob("*")}
    try:
        status = main(arguments)
    except SystemExit as end:
        status = end.code  # type: ignore[assignment]
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert {path: path.is_file() and path.read_bytes() for path in Path().rglob("*")} == before
