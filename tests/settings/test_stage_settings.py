"""[[stage]] tables: what is filled in, and what the complaints say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from tnvmc.settings.config import Settings
from tnvmc.settings.load import ConfigError, complete, load, validate
from tnvmc.settings.stages import EVOLVE, NOISE, SIMPLE_UPDATE_STEPS, stages_of

BASE: dict[str, Any] = {"lattice": {"shape": [4, 4]}, "hamiltonian": {"model": "heisenberg"}}


def settings(*stages: dict[str, Any], overrides: tuple[str, ...] = (), **sections: Any) -> Settings:
    return complete(validate({**BASE, **sections, "stage": list(stages)}, overrides))


def complaint(*stages: Any, overrides: tuple[str, ...] = (), **sections: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        settings(*stages, overrides=overrides, **sections)
    (line,) = caught.value.lines
    assert "\n" not in line
    return line


def test_what_a_stage_leaves_out_comes_from_the_sections() -> None:
    found = settings(
        {"kind": "simple_update", "D": 2},
        {"steps": 7, "learning_rate": 0.3},
        {"D": 4, "chi": 9, "n_samples": 64, "schedule": "constant", "plateau": 8},
        ansatz={"D": 2},
        sampler={"n_samples": 128},
        optimizer={"steps": 20, "diag_shift": 0.05},
    )
    evolution, first, second = stages_of(found)
    assert (evolution.kind, evolution.evolve) == ("simple_update", SIMPLE_UPDATE_STEPS)
    assert evolution.settings.optimizer.steps == 0
    assert (first.D, first.settings.contraction.chi) == (2, 4)
    assert first.settings.sampler.n_samples == 128
    assert first.settings.optimizer.learning_rate == 0.3
    assert first.settings.optimizer.final_learning_rate == pytest.approx(0.03)
    assert first.noise == 0
    assert (second.D, second.settings.contraction.chi) == (4, 9)
    assert (second.noise, second.evolve) == (NOISE, EVOLVE)
    assert (second.plateau, second.settings.optimizer.plateau) == (8, 8)
    assert second.settings.optimizer.steps == 20
    assert second.settings.optimizer.schedule == "constant"
    assert second.settings.optimizer.final_learning_rate is None
    assert {s.settings.optimizer.diag_shift for s in (first, second)} == {0.05}


def test_the_sections_hold_the_last_stage() -> None:
    found = settings({"D": 2, "steps": 5}, {"D": 3, "chi": 7, "n_samples": 64})
    last = stages_of(found)[-1].settings
    for section in ("ansatz", "contraction", "sampler", "optimizer"):
        assert getattr(found, section) == getattr(last, section)
    assert (found.ansatz.D, found.contraction.chi, found.sampler.n_samples) == (3, 7, 64)
    assert found.measure.n_samples == 8 * 64
    assert found.measure.chi == 14


def test_completed_stages_are_a_fixed_point(tmp_path: Path) -> None:
    first = settings(
        {"kind": "simple_update", "D": 2}, {"D": 2, "schedule": "constant"}, {"D": 3, "plateau": 9}
    ).as_dict()
    file = tmp_path / "config.toml"
    file.write_text(tomli_w.dumps(first))
    assert load(file).as_dict() == first
    assert len(first["stage"]) == 3


def test_without_stages_nothing_is_added() -> None:
    found = complete(validate({**BASE, "ansatz": {"D": 3}}))
    assert "stage" not in found.as_dict()
    assert "plateau" not in found.as_dict()["optimizer"]
    (only,) = stages_of(found)
    assert only.settings is found


@pytest.mark.parametrize(
    ("stages", "line"),
    [
        ([{"D": 2, "step": 5}], "stage.1.step: unknown key; did you mean 'steps'?"),
        ([{"D": 2}, {"n_burn": 3}], "stage.2.n_burn: unknown key; it belongs to [sampler]"),
        ([{"D": 2}, {"D": "3"}], "stage.2.D = '3': must be an integer >= 1"),
        ([{"D": 2, "learning_rate": -1}], "stage.1.learning_rate = -1: must be a number > 0"),
        ([{"D": 2}, {"D": 3, "noise": -0.1}], "stage.2.noise = -0.1: must be a number >= 0"),
        ([{"D": 2}, 3], "stage.2 = 3: must be a table, headed [[stage]]"),
        ([], "stage = []: must be one table or more, each headed [[stage]]"),
        ([{"steps": 3}], "stage.1.D: missing, and so is ansatz.D; must be an integer >= 1"),
        (
            [{"D": 3}, {"D": 2}],
            "stage.2.D = 2: smaller than 3, the D of stage 1; a state grows, it is not cut",
        ),
        ([{"D": 2, "plateau": 3}], "stage.1.plateau = 3: must be 0 (off) or an integer >= 5"),
        (
            [{"D": 2}, {"D": 2, "kind": "simple_update"}],
            "stage.2.kind = 'simple_update': only the first stage can be",
        ),
        (
            [{"D": 2, "kind": "simple_update", "plateau": 9}],
            "stage.1.plateau: goes with kind = 'optimise' only",
        ),
        (
            [{"D": 2, "kind": "optimize"}],
            "stage.1.kind = 'optimize': must be one of optimise, simple_update (the first stage",
        ),
        (
            [{"D": 2, "noise": 0.1}],
            "stage.1.noise: goes with a D larger than that of the stage before only",
        ),
        (
            [{"D": 2, "schedule": "constant", "final_learning_rate": 0.1}],
            "stage.1.final_learning_rate: goes with schedule 'exponential' or 'cosine' only",
        ),
    ],
)
def test_each_complaint_about_a_stage_is_one_line(stages: list[Any], line: str) -> None:
    assert complaint(*stages).startswith(line)


def test_one_table_is_not_a_list_of_tables() -> None:
    with pytest.raises(ConfigError, match=r"must be one table or more, each headed \[\[stage\]\]"):
        validate({**BASE, "stage": {"D": 2}})


@pytest.mark.parametrize(
    ("sections", "stages", "line"),
    [
        ({"ansatz": {"kind": "product"}}, [{"D": 2}], "stage.1.D = 2: a product state has no"),
        (
            {"ansatz": {"kind": "periodic_mps"}},
            [{"D": 2}, {"D": 3}],
            "stage.2.D = 3: a periodic_mps cannot grow; keep D = 2",
        ),
        (
            {"ansatz": {"kind": "periodic_mps"}},
            [{"D": 2, "kind": "simple_update"}],
            "stage.1.kind = 'simple_update': a periodic_mps has no such start",
        ),
        (
            {"ansatz": {"init": "random"}},
            [{"D": 2, "kind": "simple_update"}],
            "ansatz.init = 'random': the first stage starts from simple update",
        ),
        (
            {"optimizer": {"learning_rate": [0.1, 0.2]}},
            [{"D": 2}],
            "optimizer.learning_rate: a list of them does not go with [[stage]]",
        ),
        (
            {"optimizer": {"kind": "adam"}},
            [{"D": 2, "diag_shift": 0.1}],
            "stage.1.diag_shift: goes with optimizer.kind = 'sr' only",
        ),
    ],
)
def test_clashes_with_other_sections(
    sections: dict[str, Any], stages: list[dict[str, Any]], line: str
) -> None:
    assert complaint(*stages, **sections).startswith(line)


def test_overrides_reach_into_stages() -> None:
    found = settings({"D": 2}, {"D": 3}, overrides=("stage.2.steps=9", "optimizer.steps=4"))
    assert [stage.settings.optimizer.steps for stage in stages_of(found)] == [4, 9]
    assert complaint({"D": 2}, overrides=("stage.2.D=3",)) == (
        "--set stage.2.D=3: no stage 2; the settings have 1"
    )
    assert complaint({"D": 2}, overrides=("stage.D=3",)).startswith("--set stage.D=3: must be")
    assert complaint({"D": 2, "steps": 3}, overrides=("optimizer.steps=9",)) == (
        "--set optimizer.steps=9: every stage has its own steps; change stage.1.steps, or another "
        "stage's"
    )


def test_a_plateau_for_a_run_without_stages() -> None:
    found = complete(validate({**BASE, "ansatz": {"D": 2}, "optimizer": {"plateau": 12}}))
    assert stages_of(found)[0].plateau == 12
    with pytest.raises(ConfigError, match=r"optimizer.plateau = 2: must be 0 \(off\) or"):
        validate({**BASE, "optimizer": {"plateau": 2}})
