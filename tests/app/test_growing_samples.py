"""Runs whose samples grow: what their folders tell, in stages, after a stop, and from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.made_runs import made_run
from tests.run_files import read_history, read_json
from tnvmc import PEPS, VMC, Sampler, heisenberg, load_run, square
from tnvmc.app.run import resume_run
from tnvmc.report import describe
from tnvmc.storage.hdf5 import read_parameters
from tnvmc.storage.run_files import read_run
from tnvmc.vmc import controllers
from tnvmc.vmc.controllers import GrowingSamples

SETTINGS = """
[lattice]
shape = [2, 2]
[hamiltonian]
model = "heisenberg"
[ansatz]
D = 2
sharing = false
[sampler]
n_walkers = 8
n_samples = "auto"
[optimizer]
steps = 8
[measure]
n_samples = 16
n_burn = 1
[run]
threads = 1
"""
STAGES = (
    SETTINGS + "[[stage]]\nsteps = 8\n[[stage]]\nsteps = 1\n[[stage]]\nsteps = 1\nn_samples = 8\n"
)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples grow within a few steps."""
    for name, value in (("AGAINST", 0.01), ("FEWEST_SAMPLES", 8), ("MOST_SAMPLES", 32)):
        monkeypatch.setattr(controllers, name, value)


def run(folder: Path, text: str = SETTINGS, *changes: str) -> Path:
    return made_run(folder, text, *changes)


def drawn(folder: Path) -> list[int]:
    return [line["n_samples"] for line in read_history(folder)]


@pytest.mark.whole
def test_a_run_tells_when_its_samples_have_grown(tmp_path: Path) -> None:
    folder = run(tmp_path)
    numbers = drawn(folder)
    assert numbers[0] == 8 and numbers[-1] > 8
    assert f"8 to {numbers[-1]} samples" in describe.facts(read_run(folder))["optimizer"]


@pytest.mark.whole
def test_a_run_that_was_stopped_goes_on_alike(tmp_path: Path) -> None:
    whole, parts = run(tmp_path / "whole"), run(tmp_path / "parts", SETTINGS, "optimizer.steps=5")
    resume_run(parts, ["optimizer.steps=8"])
    assert drawn(parts) == drawn(whole)
    ends = [read_parameters(each / "checkpoint.h5")[1] for each in (whole, parts)]
    assert np.array_equal(*ends)
    assert load_run(whole).vmc.state.controller(GrowingSamples) is not None


@pytest.mark.whole
def test_stages_go_on_with_the_samples_of_the_one_before(tmp_path: Path) -> None:
    folder = run(tmp_path, STAGES)
    numbers = drawn(folder)
    assert numbers[8] >= numbers[7] > 8 and numbers[9] == 8
    records = read_json(folder / "result.json")["stages"]
    assert [each["n_samples"] >= numbers[8] for each in records] == [True, True, False]


def test_a_run_from_python_is_described_by_it(tmp_path: Path) -> None:
    hamiltonian = heisenberg(square(2, 2))
    vmc = VMC(hamiltonian, PEPS(hamiltonian.lattice, 2), Sampler(8, threads=1), n_samples="auto")
    vmc.run(8, out=tmp_path / "run")
    loaded = load_run(tmp_path / "run")
    assert loaded.settings is not None and loaded.settings.sampler.n_samples == "auto"
    assert loaded.own == [] and loaded.vmc.state.controllers[1] == vmc.state.controllers[1]


@pytest.mark.whole
def test_samples_grow_from_a_given_number_of_the_stage_before(tmp_path: Path) -> None:
    text = SETTINGS + "[[stage]]\nsteps = 2\nn_samples = 20\n[[stage]]\nsteps = 1\n"
    folder = run(tmp_path, text)
    assert drawn(folder) == [24, 24, 24]
    assert read_json(folder / "result.json")["stages"][1]["n_samples"] == 24


def test_a_stage_is_announced_with_growing_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, SETTINGS + "[[stage]]\nsteps = 1\n")
    assert "growing samples, 1 steps" in capsys.readouterr().out


def test_settings_of_a_run_from_python_hold_the_samples_that_were_measured(tmp_path: Path) -> None:
    hamiltonian = heisenberg(square(2, 2))
    vmc = VMC(hamiltonian, PEPS(hamiltonian.lattice, 2), Sampler(8, threads=1), n_samples="auto")
    vmc.run(2, out=tmp_path / "run")
    measured = vmc.measure(out=tmp_path / "run")
    result = read_json(tmp_path / "run" / "result.json")
    assert result["config"]["measure"]["n_samples"] == measured.n_samples == 8
