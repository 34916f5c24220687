"""Settings: what is accepted, what is filled in, and which problems are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from tests.settings.complaints import problems, told
from tnvmc.series.machine import KINDS
from tnvmc.settings.defaults import complete, load
from tnvmc.settings.load import read_toml, validate, with_out
from tnvmc.settings.problems import ConfigError

MINIMAL: dict[str, Any] = {
    "lattice": {"shape": [4, 4]},
    "hamiltonian": {"model": "heisenberg"},
    "ansatz": {"D": 3},
}


def test_lattice_model_and_D_are_enough() -> None:
    settings = complete(validate(MINIMAL), default_name="study").as_dict()
    assert settings["lattice"] == {"kind": "square", "shape": [4, 4], "boundary": "open"}
    assert settings["hamiltonian"] == {"model": "heisenberg", "J": 1.0}
    assert settings["ansatz"]["sharing"] is True
    assert settings["ansatz"]["init"] == "auto"
    assert settings["measure"]["n_samples"] > settings["sampler"]["n_samples"]
    assert settings["measure"]["chi"] > settings["contraction"]["chi"] >= 3
    assert settings["run"]["out"].endswith("study")
    assert "threads" not in settings["run"]  # those of the machine it runs on
    large = complete(validate({**MINIMAL, "ansatz": {"D": 5}})).as_dict()
    assert large["contraction"]["chi"] == "auto" and "chi" not in large["measure"]


def test_completed_settings_are_a_fixed_point(tmp_path: Path) -> None:
    first = complete(validate(MINIMAL, ["optimizer.final_learning_rate=0.01"])).as_dict()
    file = tmp_path / "config.toml"
    file.write_text(tomli_w.dumps(first))
    assert load(file).as_dict() == first


@pytest.mark.whole
@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "scripts").glob("*.toml")))
def test_the_scripts_are_valid_and_a_fixed_point(path: Path) -> None:
    if path.stem.startswith("compare"):
        return
    data = read_toml(path)
    kind = next((kind for kind in KINDS if kind.requested(data)), None)
    for run in [load(path)] if kind is None else kind.expand(data, path.stem).runs.values():
        first = run.as_dict()
        assert complete(validate(first)).as_dict() == first


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


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("ansatz.d=3", ("ansatz.d", "unknown_key")),
        ("ansatz.chi=8", ("ansatz.chi", "unknown_key")),
        ("sampling.n_walkers=8", ("[sampling]", "unknown_section")),
        ("ansatz.D=-3", ("ansatz.D", "not_allowed", -3)),
        ("ansatz.D='4'", ("ansatz.D", "not_allowed", "4")),
        ("ansatz.D=true", ("ansatz.D", "not_allowed", True)),
        ("sampler.n_samples=1.5", ("sampler.n_samples", "not_allowed", 1.5)),
        ("ansatz.sharing=1", ("ansatz.sharing", "not_allowed", 1)),
        ("sampler.n_thin=2", ("sampler.n_thin", "unknown_key")),
        ("hamiltonian.J2=0.5", ("hamiltonian.J2", "foreign_key")),
        ("lattice.shape=[4]", ("lattice.shape", "not_allowed", [4])),
        ("lattice.bonds=[[0, 1]]", ("lattice.bonds", "foreign_key")),
        ("optimizer.stages=[5]", ("optimizer.stages", "unknown_key")),
        ("guard.window=5", ("[guard]", "unknown_section")),
        ("optimizer.plateau=2", ("optimizer.plateau", "not_allowed", 2)),
        ("optimizer.plateau=false", ("optimizer.plateau", "not_allowed", False)),
    ],
)
def test_each_problem_is_found_once(override: str, found: tuple[Any, ...]) -> None:
    assert told(MINIMAL, [override]) == [found]


def test_numbers_are_finite() -> None:
    (found,) = problems(MINIMAL, ["optimizer.seconds=nan"])
    assert (found.key, found.code) == ("optimizer.seconds", "not_allowed")


def test_bonds_are_needed_where_they_are_the_lattice() -> None:
    assert told(MINIMAL, ["lattice.kind=bonds"]) == [("lattice.bonds", "missing")]


def test_settings_that_would_have_no_effect_are_refused() -> None:
    changes = ["optimizer.kind=adam", "optimizer.momentum=0.5"]
    assert told(MINIMAL, changes) == [("optimizer.momentum", "foreign_key")]
    changes = ["optimizer.learning_rate=auto", "optimizer.final_learning_rate=0.01"]
    assert told(MINIMAL, changes) == [("optimizer.final_learning_rate", "conflict")]


@pytest.mark.parametrize(
    ("override", "nearest"),
    [
        ("hamiltonian.model=heisenburg", "'heisenberg'"),
        ("ansatz.kind=PEPS", "'peps'"),
        ("ansatz.d=3", "'D'"),
        ("ansatz.chi=3", "[contraction]"),
        ("sampling.n=3", "'sampler'"),
        ("ansatz.symmetrise=spin", '["spin"]'),
    ],
)
def test_the_nearest_known_name_is_given(override: str, nearest: str) -> None:
    (found,) = problems(MINIMAL, [override])
    assert nearest in found.hint


def test_all_problems_are_told_at_once() -> None:
    assert len(problems(MINIMAL, ["ansatz.D=0", "run.seed=-1", "sampler.n_walkers='x'"])) == 3


def test_what_is_missing_is_named() -> None:
    assert [(p.key, p.code, p.allowed) for p in problems({"ansatz": {"D": 2}})] == [
        ("[lattice]", "missing_section", "shape"),
        ("[hamiltonian]", "missing_section", "model"),
    ]
    assert told({**MINIMAL, "ansatz": {}}) == [("ansatz.D", "missing")]
    assert told({**MINIMAL, "hamiltonian": {}}) == [("hamiltonian.model", "missing")]
    assert told({**MINIMAL, "ansatz": 3}) == [("ansatz", "not_allowed", 3)]


@pytest.mark.parametrize("override", ["ansatz=3", "D=3", "ansatz.D", "ansatz.D=", ".c=1"])
def test_overrides_that_cannot_be_read(override: str) -> None:
    assert told(MINIMAL, [override]) == [(f"--set {override}", "override")]


def test_a_comparison_is_told_from_a_run(tmp_path: Path) -> None:
    file = tmp_path / "several.toml"
    file.write_text('[lattice]\nshape = 4\n[[ansatz]]\nname = "one"\n[[ansatz]]\nname = "two"\n')
    with pytest.raises(ConfigError, match="tnvmc compare"):
        load(file, ["ansatz.D=3"])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("[lattice]\nshape = [4,\nkind 3\n")
    with pytest.raises(ConfigError, match="line 3"):
        read_toml(broken)
    broken.with_suffix(".txt").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "absent.toml", tmp_path, broken.with_suffix(".txt")):
        with pytest.raises(ConfigError) as caught:
            read_toml(path)
        assert [(p.key, p.code) for p in caught.value.problems] == [(str(path), "file")]


@pytest.mark.parametrize("scheme", ["src", "zipup"])
def test_a_measurement_takes_twice_the_chi(scheme: str) -> None:
    changes = [f"contraction.scheme={scheme}", "contraction.chi=6"]
    assert complete(validate(MINIMAL, changes)).measure.chi == 12


@pytest.mark.parametrize(
    ("section", "key", "given", "meant"),
    [
        ("lattice", "shape", "2x3", [2, 3]), ("hamiltonian", "J", "1.5", 1.5), ("ansatz", "D", "2", 2),
        ("measure", "observables", "energy", None), ("sampler", "n_samples", "many", None),
    ],
)  # fmt: skip
def test_a_hint_on_quotes_is_taken(section: str, key: str, given: str, meant: Any) -> None:
    """What is written as the hint says is no longer refused."""
    found = {**MINIMAL, section: {**MINIMAL.get(section, {}), key: given}}
    with pytest.raises(ConfigError) as error:
        validate(found)
    (problem,) = error.value.problems
    if meant is not None:
        assert problem.hint == f"write {key} = {meant}"
        validate({**found, section: {**found[section], key: meant}})


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "marked.toml"
    path.write_bytes(b"\xef\xbb\xbf" + tomli_w.dumps(MINIMAL).encode())
    assert read_toml(path) == MINIMAL


@pytest.mark.parametrize("name", ["run\N{GRINNING FACE}", 'a "b" \\ c\''])
def test_any_name_of_a_folder_is_taken(name: str) -> None:
    assert validate(MINIMAL, with_out([], name)).run.out == name


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError) as error:
        with_out([], b"l\xe4tin".decode(errors="surrogateescape"))
    assert [found.key for found in error.value.problems] == ["run.out"]
