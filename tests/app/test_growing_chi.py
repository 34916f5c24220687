"""Runs whose chi grows: what their folders tell, in stages, after a stop, and from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.made_runs import made_run
from tests.run_files import read_history, read_json
from tnvmc import PEPS, VMC, Sampler, heisenberg, load_run, square
from tnvmc.ansatz.protocol import chi_of
from tnvmc.app.converge import converge_run
from tnvmc.app.measure import Asked, measure_run
from tnvmc.app.run import resume_run
from tnvmc.contraction.schemes import SRC
from tnvmc.report import describe
from tnvmc.storage.hdf5 import read_parameters
from tnvmc.storage.run_files import read_run
from tnvmc.vmc import controllers

SETTINGS = """
[lattice]
shape = [4, 4]
[hamiltonian]
model = "heisenberg"
[ansatz]
D = 2
[contraction]
chi = "auto"
[sampler]
n_walkers = 8
n_samples = 64
[optimizer]
steps = 6
[measure]
n_samples = 16
n_burn = 1
[run]
threads = 1
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins where truncation is felt, and grows by one."""
    monkeypatch.setattr(controllers, "LEAST_CHI", 2)
    monkeypatch.setattr(controllers, "MORE_CHI", 1)
    monkeypatch.setattr(controllers, "closure_threshold", lambda *_: 1e-6)


def run(folder: Path, text: str = SETTINGS, *changes: str) -> Path:
    return made_run(folder, text, *changes)


def chis(folder: Path) -> list[int]:
    return [line["chi"] for line in read_history(folder)]


@pytest.mark.whole
def test_a_run_tells_its_chi(tmp_path: Path) -> None:
    folder = run(tmp_path)
    assert chis(folder) == [2, 3, 4, 4, 4, 4]
    result = read_json(folder / "result.json")
    assert result["chi"] == 8
    assert (
        result["config"]["contraction"]["chi"] == "auto"
        and "chi" not in result["config"]["measure"]
    )
    assert [point["chi"] for point in result["convergence"]["chi"]] == [4, 6, 8]
    assert describe.facts(read_run(folder))["contraction"] == "src, chi = 2 to 4 (measured at 8)"
    converge_run(folder, (12,), 16, double_layer=False)
    again = read_json(folder / "result.json")["convergence"]
    assert [point["chi"] for point in again["chi"]] == [8, 12]
    observables = measure_run(folder, Asked(n_samples=16))
    assert (observables["chi"], observables["pair_chi"]) == (8, 4)


@pytest.mark.whole
def test_a_run_that_was_stopped_goes_on_alike(tmp_path: Path) -> None:
    whole, parts = run(tmp_path / "whole"), run(tmp_path / "parts", SETTINGS, "optimizer.steps=2")
    assert read_json(parts / "result.json")["chi"] == 8
    resume_run(parts, ["optimizer.steps=6"])
    assert chis(parts) == chis(whole)
    ends = [read_parameters(each / "checkpoint.h5")[1] for each in (whole, parts)]
    assert np.array_equal(*ends)
    assert chi_of(load_run(whole).vmc.problem.ansatz) == 4


@pytest.mark.whole
def test_a_stage_goes_on_with_the_chi_of_the_same_state_and_begins_anew_with_another(
    tmp_path: Path,
) -> None:
    stages = "".join(
        f"[[stage]]\n{keys}\n"
        for keys in (
            "steps = 5",
            "steps = 1\nn_samples = 32",
            "steps = 2\nD = 3",
            "steps = 1\nD = 3\nchi = 5",
        )
    )
    folder = run(tmp_path, SETTINGS + stages)
    records, found = read_json(folder / "result.json")["stages"], chis(folder)
    assert (found[0], found[5], found[6:]) == (2, records[0]["chi"], [3, 4, 5])
    assert [each["chi"] for each in records[2:]] == [5, 5]
    assert [each["measured_chi"] for each in records] == [2 * each["chi"] for each in records]


@pytest.mark.whole
def test_a_number_ends_the_growth(tmp_path: Path) -> None:
    folder = run(tmp_path, SETTINGS, "optimizer.steps=2")
    resume_run(folder, ["contraction.chi=2", "optimizer.steps=3"])
    assert chis(folder) == [2, 3, 2]


@pytest.mark.whole
def test_a_sum_over_all_configurations_takes_the_limit(tmp_path: Path) -> None:
    changes = "sampler.kind=enumerate", "lattice.shape=[2, 3]"
    folder = run(tmp_path, SETTINGS, *changes)
    assert chis(folder) == [4] * 6
    assert read_json(folder / "result.json")["chi"] == 8


def test_a_run_from_python_is_described_by_it(tmp_path: Path) -> None:
    hamiltonian = heisenberg(square(4, 4))
    ansatz = PEPS(hamiltonian.lattice, 2, scheme=SRC(4))
    vmc = VMC(hamiltonian, ansatz, Sampler(8, threads=1), chi="auto")
    vmc.run(2, out=tmp_path / "run")
    loaded = load_run(tmp_path / "run")
    assert loaded.settings is not None and loaded.settings.contraction.chi == "auto"
    assert loaded.own == [] and chi_of(loaded.vmc.problem.ansatz) == chi_of(vmc.problem.ansatz)
    assert chi_of(loaded.vmc.ansatz) == 4
    measured = vmc.measure(out=tmp_path / "run")
    assert (
        read_json(tmp_path / "run" / "result.json")["chi"]
        == measured.chi
        == 2 * (chi_of(vmc.problem.ansatz) or 0)
    )
