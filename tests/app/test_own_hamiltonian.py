"""A Hamiltonian of products goes through every command: XYZ with a Dzyaloshinskii-Moriya term."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import oracles
from tests.run_files import read_json
from tnvmc.app.cli import main
from tnvmc.app.run import resume_run, run_file
from tnvmc.lattice import from_bonds
from tnvmc.operators.term import Operator
from tnvmc.storage.hdf5 import StateFileError

ROUNDING = 1e-10
BONDS = [[0, 1], [2, 1], [3, 4], [5, 4], [0, 3], [5, 2]]
XYZ, DM, D_Z = "Sx Sx + 0.8 Sy Sy + 0.6 Sz Sz", "Sx Sy - Sy Sx", 0.4
SETTINGS = f"""
[lattice]
kind = "bonds"
shape = [2, 3]
bonds = {BONDS}
[hamiltonian]
model = "terms"
[[hamiltonian.term]]
ops = "{XYZ}"
bonds = "nearest"
[[hamiltonian.term]]
ops = "{DM}"
bonds = "nearest"
coupling = {D_Z}
[ansatz]
D = 2
[contraction]
scheme = "exact"
[sampler]
kind = "enumerate"
[optimizer]
steps = 12
[run]
threads = 1
"""
FILE = f"""
[[term]]
ops = "{DM}"
bonds = {BONDS}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    (tmp_path / "mine.toml").write_text(SETTINGS)
    return tmp_path / "mine.toml"


def hamiltonian() -> Operator:
    bonds = [(i, j) for i, j in BONDS]
    return Operator.from_products(from_bonds((2, 3), bonds), [(XYZ, bonds), (DM, bonds, D_Z)])


@pytest.mark.whole
def test_every_command_takes_it(
    settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    lowest = float(np.linalg.eigvalsh(oracles.dense_hamiltonian(hamiltonian()))[0])
    run = tmp_path / "run"
    found = run_file(settings, run)
    assert found["exact_energy"] == pytest.approx(lowest, abs=ROUNDING)
    # a ring of bonds of dimension 2, without the bond of the grid that no term uses
    assert lowest - ROUNDING < found["energy"] < 0.92 * lowest
    (tmp_path / "dm.toml").write_text(FILE)
    assert main(["measure", str(run), "--operator", str(tmp_path / "dm.toml")]) == 0
    measured = read_json(run / "observables.json")
    assert measured["model"] == "terms"
    curl = measured["operators"]["dm"]["mean"]
    with_curl = lowest - ROUNDING < measured["energy"]["mean"]
    assert with_curl and curl < -0.1, "the term turns the spins"
    for command in (["exact", str(settings)], ["show", str(run)], ["report", str(run)]):
        capsys.readouterr()
        assert main(command) == 0
        shown = capsys.readouterr().out
        if command[0] == "exact":
            assert f"{lowest:.12f}"[:12] in shown
        if command[0] == "show":
            assert f"0.4 ({DM}) on nearest" in shown
    assert f"0.4 ({DM}) on nearest" in (run / "report.html").read_text()


@pytest.mark.whole
def test_a_resumed_run_knows_its_terms(settings: Path, tmp_path: Path) -> None:
    run, few = tmp_path / "run", ["optimizer.steps=2"]
    first = run_file(settings, run, few)
    assert resume_run(run, ["optimizer.steps=4"])["energy"] < first["energy"]
    other = tmp_path / "other.toml"
    other.write_text(SETTINGS.replace("coupling = 0.4", "coupling = 0.5"))
    before = contents(run)
    with pytest.raises(StateFileError, match="other terms or couplings"):
        resume_run(run, ["optimizer.steps=6"], other)
    assert contents(run) == before


def contents(run: Path) -> dict[str, Any]:
    return {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()}
