"""States summed over a group by settings: whole runs that go on bit for bit, files, refusals."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.settings.complaints import told
from tnvmc import PEPS, SRC, VMC, Sampler, load_run, load_state
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.app.archive import archive_run
from tnvmc.app.cli import main
from tnvmc.app.measure import Asked, measure_run
from tnvmc.app.run import resume_run, run_file
from tnvmc.exact import symmetric_levels
from tnvmc.lattice import square
from tnvmc.operators.models import heisenberg
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.series.machine import COMPARISON
from tnvmc.settings.build import build_ansatz
from tnvmc.settings.config import build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.described import described
from tnvmc.settings.load import validate
from tnvmc.settings.problems import ConfigError
from tnvmc.storage.hdf5 import StateFileError

FILE = """
[lattice]
shape = [2, 4]
[hamiltonian]
model = "heisenberg"
[ansatz]
D = 2
symmetrise = ["spin"]
characters = { "spin inversion" = -1 }
[sampler]
n_walkers = 16
n_samples = 32
[optimizer]
steps = 4
[measure]
n_samples = 64
[run]
threads = 1
"""
TRIPLET = -3.522860114711  # exact_ground_state(heisenberg(square(2, 4)), 2)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "odd.toml"
    path.write_text(FILE)
    return path


@pytest.mark.whole
def test_the_lowest_odd_state_by_enumeration(file: Path) -> None:
    """Without noise the energy of the sum goes to the exact triplet, and never below it."""
    result = run_file(file, "odd", ["sampler.kind=enumerate", "optimizer.steps=40", "ansatz.D=3"])
    assert result["exact_energy"] == pytest.approx(TRIPLET, abs=1e-8)
    lines = [json.loads(line) for line in Path("odd/history.jsonl").read_text().splitlines()]
    assert min(line["energy"] for line in lines) > TRIPLET - 1e-9
    assert result["energy"] == pytest.approx(TRIPLET, rel=2e-3)


@pytest.mark.whole
def test_a_run_goes_on_bit_for_bit_and_is_measured(file: Path) -> None:
    whole = run_file(file, "whole")
    run_file(file, "part", ["optimizer.steps=2"])
    assert resume_run("part", ["optimizer.steps=4"])["energy"] == whole["energy"]
    run = load_run("whole")
    assert isinstance(run.ansatz, Symmetrised) and isinstance(run.ansatz.ansatz, PEPS)
    assert run.vmc.measure(n_samples=64).energy == whole["energy"]
    observed = measure_run("whole", Asked(n_samples=64))
    assert observed["measured"]["samples"]["effective_samples"] <= 64
    archive_run("whole", "kept")
    assert np.array_equal(load_run("kept").vmc.theta, run.vmc.measured_theta())
    for verb in (["show", "whole"], ["converge", "whole"], ["report", "whole"], ["plot", "whole"]):
        assert main(verb) == 0


@pytest.mark.whole
def test_another_group_is_another_state(file: Path, capsys: pytest.CaptureFixture) -> None:
    run_file(file, "odd")
    even = file.with_name("even.toml")
    even.write_text(FILE.replace("-1", "1"))
    assert main(["run", "--resume", "odd", "--set", 'ansatz.characters={"spin inversion"=1}']) != 0
    assert "group" in capsys.readouterr().err
    with pytest.raises(ValueError, match="symmetris"):
        measure_run("odd", Asked(overrides=("measure.symmetrise=['point']",)))
    with pytest.raises(ValueError, match="already"):
        load_run("odd").vmc.measure(symmetries=["point"])
    with pytest.raises(StateFileError, match="Symmetrised"):
        load_state("odd/checkpoint.h5")
    started = run_file(even, "even", ["ansatz.init=./odd", "optimizer.steps=0"])
    assert started["steps"] == 0
    assert np.array_equal(load_run("even").vmc.theta, load_run("odd").vmc.theta)


def test_python_writes_the_same_settings(file: Path) -> None:
    operator = heisenberg(square(2, 4))
    group = symmetry_group(operator, ["spin", "point"], {"spin inversion": -1})
    state = Symmetrised(PEPS(operator.lattice, 2, scheme=SRC(4)), group)
    vmc = VMC(operator, state, Sampler(n_walkers=16, n_samples=32, threads=1))
    vmc.run(1, out="python")
    content = tomllib.loads(Path("python/config.toml").read_text())
    assert "python" not in content
    assert content["ansatz"]["symmetrise"] == ["spin", "point"]
    own = described(vmc, "x", 1)
    settings = complete(validate({k: v for k, v in own.items() if k != "python"}))
    built: Any = build_ansatz(settings, operator)
    assert set(built.group.elements) == set(group.elements)


@pytest.mark.whole
def test_stages_grow_the_state_within(file: Path) -> None:
    file.write_text(FILE + "[[stage]]\nD = 2\nsteps = 1\n[[stage]]\nD = 3\nsteps = 1\n")
    result = run_file(file, "staged")
    assert [stage["D"] for stage in result["stages"]] == [2, 3]
    assert load_run("staged").vmc.ansatz.description()["D"] == 3


def data(**ansatz: Any) -> dict[str, Any]:
    return {
        "lattice": {"shape": [2, 3]}, "hamiltonian": {"model": "heisenberg"},
        "ansatz": {"D": 2, **ansatz},
    }  # fmt: skip


SPIN = {"symmetrise": ["spin"], "characters": {"spin inversion": -1}}


@pytest.mark.parametrize(
    ("ansatz", "override", "found"),
    [
        ({"characters": {"spin inversion": -1}}, "run.seed=1",
         ("ansatz.characters", "conflict", {"spin inversion": -1})),
        ({"reweight": False}, "run.seed=1", ("ansatz.reweight", "unknown_key")),
        (SPIN, "sampler.kind=direct", ("sampler.kind", "conflict", "direct")),
        (SPIN, "sampler.power=0.5", ("sampler.power", "conflict", 0.5)),
        (SPIN, "measure.symmetrise=['point']", ("measure.symmetrise", "conflict")),
        ({"symmetrise": ["translation"]}, "run.seed=1", ("ansatz.symmetrise", "conflict")),
        ({}, "measure.symmetrise=['translation']", ("measure.symmetrise", "conflict")),
        ({"symmetrise": ["spni"]}, "run.seed=1", ("ansatz.symmetrise", "not_allowed", ["spni"])),
        ({**SPIN, "characters": {"spin inversion": 2}}, "run.seed=1",
         ("ansatz.characters", "not_allowed", {"spin inversion": 2})),
    ],
)  # fmt: skip
def test_what_does_not_go_together(ansatz: Any, override: str, found: tuple[Any, ...]) -> None:
    assert told(data(**ansatz), [override]) == [found]


def test_another_magnetisation_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        complete(validate(data(**SPIN), ["sampler.magnetisation=2"]))
    assert [each.key for each in refused.value.problems] == ["ansatz.symmetrise"]
    operator = heisenberg(square(2, 3))
    state = Symmetrised(PEPS(operator.lattice, 2), symmetry_group(operator, ["spin"]))
    with pytest.raises(ValueError, match="2 Sz = 2"):
        VMC(operator, state, magnetisation=2)


@pytest.mark.parametrize(
    ("ansatz", "part"),
    [
        ({"symmetrise": ["spin"]}, '"spin inversion" = -1'),  # three pairs: the ground state is odd
        ({"symmetrise": ["spin"], "characters": {"inversion": -1}}, "spin inversion"),
        ({"symmetrise": ["point"],
          "characters": {"half turn": -1, "left-right reflection": 1, "up-down reflection": 1}},
         "contradict"),
    ],
)  # fmt: skip
def test_characters_that_cannot_be(ansatz: Any, part: str) -> None:
    settings = complete(validate(data(**ansatz)))
    with pytest.raises(ValueError, match=r"ansatz\.symmetrise: ") as refused:
        build_ansatz(settings, build_operator(settings))
    assert part in str(refused.value)


@pytest.mark.whole
def test_too_large_a_group_is_told_with_its_price() -> None:
    torus = {"shape": [10, 10], "boundary": "periodic"}
    found = complete(validate(data(symmetrise=["translation", "point"]) | {"lattice": torus}))
    with pytest.raises(ValueError, match="make 800 elements"):
        build_ansatz(found, build_operator(found))


def test_a_comparison_has_one_reference() -> None:
    states = [{"name": "even", "D": 2, **SPIN, "characters": {"spin inversion": 1}}]
    shared = {key: value for key, value in data().items() if key != "ansatz"}
    asked = {**shared, "compare": {"steps": 8}, "ansatz": states}
    with pytest.raises(ConfigError) as refused:
        COMPARISON.expand(asked, "study")
    assert "characters" in refused.value.problems[0].key


def test_exact_levels_of_the_file() -> None:
    operator = heisenberg(square(2, 4))
    group = symmetry_group(operator, ["spin"], {"spin inversion": -1})
    assert symmetric_levels(operator, group, 0)[0] == pytest.approx(TRIPLET, abs=1e-8)


@pytest.mark.slow
def test_an_open_peps_on_a_torus(tmp_path: Path) -> None:
    """D = 2 over 16 translations: within 2e-3 of the exact energy, where the PEPS alone is 3e-2 above it."""
    example = Path(__file__).parents[2] / "scripts" / "torus_4x4.toml"
    result = run_file(example, tmp_path / "torus")
    above, error = result["energy"] - result["exact_energy"], result["energy_error"]
    print(f"E - exact = {above:.4f} +- {error:.4f}")
    assert abs(above) < 2e-3 * 11.23 + 4 * error
    assert error < 1e-3 * 11.23
    assert result["effective_samples"] > 0.9 * result["n_samples"]
