"""Settings: what is accepted, what is filled in, and what the complaints say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from tnvmc.settings.load import ConfigError, complete, load, read_toml, validate

MINIMAL: dict[str, Any] = {
    "lattice": {"shape": [4, 4]},
    "hamiltonian": {"model": "heisenberg"},
    "ansatz": {"D": 3},
}


def complaints(*overrides: str, data: dict[str, Any] = MINIMAL) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        complete(validate(data, overrides))
    return list(caught.value.lines)


def test_lattice_model_and_D_are_enough() -> None:
    settings = complete(validate(MINIMAL), default_name="study").as_dict()
    assert settings["lattice"] == {"kind": "square", "shape": [4, 4], "boundary": "open"}
    assert settings["hamiltonian"] == {"model": "heisenberg", "J": 1.0}
    assert settings["ansatz"]["init"] == "simple_update"
    assert settings["measure"]["n_samples"] > settings["sampler"]["n_samples"]
    assert settings["measure"]["chi"] > settings["contraction"]["chi"] >= 3
    assert settings["run"]["out"].endswith("study")
    assert "threads" not in settings["run"]  # those of the machine it runs on


def test_completed_settings_are_a_fixed_point(tmp_path: Path) -> None:
    first = complete(validate(MINIMAL, ["optimizer.schedule=cosine"])).as_dict()
    file = tmp_path / "config.toml"
    file.write_text(tomli_w.dumps(first))
    assert load(file).as_dict() == first


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("ansatz.D=5", "D", 5),
        ("ansatz.kind='product'", "kind", "product"),
        ("ansatz.kind=periodic_mps", "kind", "periodic_mps"),
        ("ansatz.init=runs/first/checkpoint.h5", "init", "runs/first/checkpoint.h5"),
        ('ansatz.dtype = "complex128"', "dtype", "complex128"),
    ],
)
def test_override(override: str, key: str, value: object) -> None:
    data = {**MINIMAL, "ansatz": {}} if "product" in override else MINIMAL
    assert validate(data, [override]).as_dict()["ansatz"][key] == value


def test_learning_rates_by_stage() -> None:
    settings = complete(validate(MINIMAL, ["optimizer.learning_rate=[0.1, 0.05]"]))
    assert settings.optimizer.schedule == "stages"
    assert settings.optimizer.stages == [50, 50]


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("ansatz.d=3", "ansatz.d: unknown key; did you mean 'D'?"),
        ("ansatz.chi=8", "ansatz.chi: unknown key; it belongs to [contraction]"),
        ("sampling.n_walkers=8", "[sampling]: unknown section; did you mean 'sampler'?"),
        ("ansatz.D=-3", "ansatz.D = -3: must be an integer >= 1"),
        ("ansatz.D='4'", "ansatz.D = '4': must be an integer >= 1"),
        ("ansatz.D=true", "ansatz.D = true: must be an integer >= 1"),
        ("sampler.n_samples=1.5", "sampler.n_samples = 1.5: must be an integer >= 1"),
        ("guard.enabled=1", "guard.enabled = 1: must be true or false"),
        (
            "hamiltonian.J2=0.5",
            "hamiltonian.J2: model 'heisenberg' has no such coupling; it takes J",
        ),
        ("lattice.shape=[4]", "lattice.shape = [4]: kind 'square' needs [n_rows, n_cols]"),
        ("lattice.bonds=[[0, 1]]", "lattice.bonds: goes with kind = 'bonds', and only with it"),
        (
            "lattice.kind=bonds",
            "kind = 'bonds' needs lattice.bonds, a list like [[0, 1], [1, 2]]",
        ),
        (
            "optimizer.stages=[5]",
            "optimizer.learning_rate: stages need a list, one learning rate for each",
        ),
    ],
)
def test_each_complaint_is_one_line_of_its_own(override: str, line: str) -> None:
    assert complaints(override) == [line]


def test_numbers_are_finite() -> None:
    (line,) = complaints("guard.energy_jump=nan")
    assert line.startswith("guard.energy_jump = nan: must be a number > 0")


def test_settings_that_would_have_no_effect_are_refused() -> None:
    assert complaints("optimizer.kind=adam", "optimizer.momentum=0.5") == [
        "optimizer.momentum: goes with kind = 'sr' only"
    ]
    assert complaints("optimizer.final_learning_rate=0.01", "optimizer.schedule=constant") == [
        "optimizer.final_learning_rate: goes with schedule 'exponential' or 'cosine' only"
    ]


def test_the_nearest_known_value_is_named() -> None:
    (line,) = complaints("hamiltonian.model=heisenburg")
    assert line.endswith("did you mean 'heisenberg'?")
    (line,) = complaints("ansatz.kind=PEPS")
    assert line.endswith("did you mean 'peps'?")


def test_all_problems_are_told_at_once() -> None:
    assert len(complaints("ansatz.D=0", "run.seed=-1", "sampler.n_walkers='x'")) == 3


def test_what_is_missing_is_named() -> None:
    assert complaints(data={"ansatz": {"D": 2}}) == [
        "[lattice]: section missing; it must hold shape",
        "[hamiltonian]: section missing; it must hold model",
    ]
    assert complaints(data={**MINIMAL, "ansatz": {}}) == [
        "ansatz.D: missing; must be the bond dimension, an integer >= 1"
    ]
    assert complaints(data={**MINIMAL, "ansatz": 3}) == ["ansatz = 3: must be a section, [ansatz]"]


@pytest.mark.parametrize("override", ["ansatz=3", "D=3", "ansatz.D", "ansatz.D=", "a.b.c=1"])
def test_overrides_that_cannot_be_read(override: str) -> None:
    (line,) = complaints(override)
    assert line.startswith(f"--set {override}: ")


def test_a_comparison_is_told_from_a_run(tmp_path: Path) -> None:
    file = tmp_path / "several.toml"
    file.write_text('[lattice]\nshape = 4\n[[ansatz]]\nname = "one"\n[[ansatz]]\nname = "two"\n')
    with pytest.raises(ConfigError, match="a comparison .*; use tnvmc compare .*several.toml"):
        load(file, ["ansatz.D=3"])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("[lattice]\nshape = [4,\nkind 3\n")
    with pytest.raises(ConfigError, match="line 3"):
        read_toml(broken)
    with pytest.raises(ConfigError, match="no such file"):
        read_toml(tmp_path / "absent.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_toml(tmp_path)
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not a text file"):
        read_toml(broken)
