"""The settings of several sectors: what their runs are, and which cannot be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.sector_files import data
from tnvmc.series.kind import Series
from tnvmc.series.machine import COMPARISON, SECTORS
from tnvmc.settings.defaults import load
from tnvmc.settings.load import with_overrides
from tnvmc.settings.problems import ConfigError

Json = dict[str, Any]


def sectors(content: Json, overrides: Sequence[str] = (), default_name: str = "sectors") -> Series:
    return SECTORS.expand(with_overrides(content, overrides), default_name)


def test_every_table_becomes_a_run() -> None:
    asked = sectors(data(), default_name="study")
    ground, triplet = asked.runs.values()
    assert asked.out == Path("runs/study") and ground.run.out == "runs/study/ground"
    assert (ground.sampler.magnetisation, triplet.sampler.magnetisation) == (0, 2)
    assert (ground.optimizer.steps, triplet.optimizer.steps) == (4, 6)
    assert ground.contraction.chi == triplet.contraction.chi == 4  # completed
    assert all("sector" not in run.as_dict() for run in asked.runs.values())


def test_samples_of_sectors_are_independent() -> None:
    """Errors of a gap are added in quadrature: no two runs may have the same random numbers."""
    assert [run.run.seed for run in sectors(data()).runs.values()] == [5, 6]


def test_names_and_quantum_numbers_have_defaults() -> None:
    settings = data() | {"sector": [{}, {"magnetisation": -2}]}
    settings["sampler"]["magnetisation"] = 4
    asked = sectors(settings)
    assert list(asked.runs) == ["sector-1", "sector-2"]
    assert [run.sampler.magnetisation for run in asked.runs.values()] == [4, -2]


def test_settings_are_changed_on_the_command_line() -> None:
    asked = sectors(data(), ["sector.2.magnetisation=4", "ansatz.D=3", "sector.1.name=lowest"])
    assert list(asked.runs) == ["lowest", "triplet"]
    assert asked.runs["triplet"].sampler.magnetisation == 4
    assert [run.ansatz.D for run in asked.runs.values()] == [3, 3]


ODD = {"symmetrise": ["spin"], "characters": {"spin inversion": -1}}


def test_symmetries_and_other_sectors_go_into_the_run() -> None:
    settings = data()
    settings["sector"] += [
        {"name": "odd", **ODD},
        {"name": "excited", "orthogonal_to": ["ground"], "penalty": 3.0},
    ]
    asked = sectors(settings, default_name="study")
    odd, excited = asked.runs["odd"], asked.runs["excited"]
    assert (odd.ansatz.symmetrise, odd.ansatz.characters) == (("spin",), {"spin inversion": -1})
    (kept,) = excited.orthogonal
    assert (kept.run, kept.penalty) == ("runs/study/ground", 3.0)
    assert asked.runs["ground"].orthogonal is None and asked.details.orthogonal_to["excited"] == (
        "ground",
    )


def test_symmetries_of_a_sector_take_the_place_of_those_of_all() -> None:
    settings = data() | {"lattice": {"shape": [2, 2]}}
    settings["ansatz"] |= ODD
    settings["sector"] = [
        {},
        {"symmetrise": ["spin"]},
        {"symmetrise": [], "orthogonal_to": ["sector-1"]},
    ]
    first, second, third = sectors(settings).runs.values()
    assert first.ansatz.characters == {"spin inversion": -1}
    assert second.ansatz.symmetrise == ("spin",) and second.ansatz.characters is None
    assert not third.ansatz.symmetrise and third.ansatz.characters is None


def table(number: int, **keys: Any) -> Callable[[Json], Any]:
    return lambda settings: settings["sector"][number].update(keys)


def section(name: str, **keys: Any) -> Callable[[Json], Any]:
    return lambda settings: settings.update({name: {**settings.get(name, {}), **keys}})


PROBLEMS: list[tuple[Callable[[Json], Any], str, str]] = [
    (table(1, magnetisation=0), "sector 'triplet'", "conflict"),
    (
        table(1, magnetisation=1),
        "sector 'triplet': magnetisation",
        "conflict",
    ),  # of an odd number of sites
    (
        table(1, magnetisation=8),
        "sector 'triplet': magnetisation",
        "conflict",
    ),  # six spins have 6 at most
    (table(0, magnetisation=-2), "sector 'triplet'", "conflict"),  # mirrors 2 Sz = 2
    (table(1, magnetisation=2.0), "sector.2.magnetisation", "not_allowed"),
    (table(1, magnetization=2), "sector.2.magnetization", "unknown_key"),
    (section("hamiltonian", model="tfim"), "sector 'triplet': magnetisation", "conflict"),
    (table(1, symmetrise=["spin"]), "sector 'triplet': symmetrise", "conflict"),
    (table(0, characters={"spin inversion": 1}), "sector 'ground': characters", "conflict"),
    (table(0, characters={"spin inversion": 2}), "sector.1.characters", "not_allowed"),
    (table(0, symmetrise=["spin"], characters={"spn": 1}), "sector 'ground'", "conflict"),
    (table(1, orthogonal_to=["ground"]), "sector 'triplet': orthogonal_to", "conflict"),
    (table(1, orthogonal_to="ground"), "sector.2.orthogonal_to", "not_allowed"),
    (table(1, orthogonal_to=["triplet"]), "sector 'triplet': orthogonal_to", "conflict"),
    (table(0, orthogonal_to=["triplet"]), "sector 'ground': orthogonal_to", "conflict"),
    (table(1, penalty=2.0), "sector 'triplet': penalty", "conflict"),
    (table(1, orthogonal_to=["ground"], penalty=0), "sector.2.penalty", "not_allowed"),
    (table(1, name="a/b"), "sector.2.name", "not_allowed"),
    (table(1, name="pictures"), "sector.2.name", "not_allowed"),
    (table(1, name="Ground"), "sector.2.name", "conflict"),
    (table(1, steps=-1), "sector.2.steps", "not_allowed"),
    (lambda s: s.update(stage=[{"steps": 2}]), "sector 'triplet': steps", "conflict"),
    (lambda s: s["ansatz"].pop("D"), "sector 'ground': ansatz.D", "missing"),
    (section("ansatz", init="nowhere.h5"), "sector 'ground'", "conflict"),
    (lambda s: s.pop("sector"), "sector", "missing"),
    (lambda s: s.update(sector=[]), "sector", "not_allowed"),
    (lambda s: s.update(sector={"name": "a"}), "sector", "not_allowed"),
]


@pytest.mark.parametrize(("change", "key", "code"), PROBLEMS, ids=range(len(PROBLEMS)))
def test_problems_are_told_by_sector(change: Callable[[Json], Any], key: str, code: str) -> None:
    settings = data()
    change(settings)
    with pytest.raises(ConfigError) as caught:
        sectors(settings)
    problem = caught.value.problems[0]
    assert (problem.key, problem.code) == (key, code)


def test_other_commands_refuse_a_file_of_sectors(tmp_path: Path) -> None:
    from tests.sector_files import SETTINGS

    path = tmp_path / "sectors.toml"
    path.write_text(SETTINGS)
    with pytest.raises(ConfigError):
        load(path)
    block = {"ansatz": [{"name": "a", "D": 2}], "compare": {"steps": 2}}
    with pytest.raises(ConfigError) as caught:
        COMPARISON.expand(data() | block, "comparison")
    assert caught.value.problems[0].key == "[[sector]]"
