"""[[stage]] tables: what is filled in, and which problems are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from tests.settings.complaints import told
from tnvmc.jacobian.covariance import MOST_PARAMETERS
from tnvmc.optimize.rule import Cosine
from tnvmc.series.machine import COMPARISON
from tnvmc.settings.build import build_ansatz, build_schedule
from tnvmc.settings.config import Settings, build_operator
from tnvmc.settings.defaults import NOISE, complete, load
from tnvmc.settings.load import validate
from tnvmc.settings.stages import PER_SAMPLE, stages_of

BASE: dict[str, Any] = {"lattice": {"shape": [4, 4]}, "hamiltonian": {"model": "heisenberg"}}


def settings(*stages: dict[str, Any], overrides: tuple[str, ...] = (), **sections: Any) -> Settings:
    return complete(validate({**BASE, **sections, "stage": list(stages)}, overrides))


def found(*stages: Any, overrides: tuple[str, ...] = (), **sections: Any) -> tuple[Any, ...]:
    """Key, code and value of the one problem."""
    (problem,) = told({**BASE, **sections, "stage": list(stages)}, overrides)
    return problem


def test_what_a_stage_leaves_out_comes_from_the_sections() -> None:
    completed = settings(
        {"steps": 7, "learning_rate": 0.3},
        {"D": 4, "chi": 9, "n_samples": 64, "plateau": 8},
        ansatz={"D": 2, "sharing": False},
        sampler={"n_samples": 128},
        optimizer={"steps": 20, "diag_shift": 0.05, "learning_rate": 0.1},
    )
    first, second = stages_of(completed)
    assert (first.D, first.settings.contraction.chi) == (2, 4)
    assert first.settings.sampler.n_samples == 128
    assert first.settings.optimizer.learning_rate == 0.3
    rates = [build_schedule(each.settings.optimizer) for each in (first, second)]
    assert rates == [Cosine(0.3, 0.03, 7), Cosine(0.1, 0.01, 20)]
    assert first.noise == 0
    assert (second.D, second.settings.contraction.chi) == (4, 9)
    assert second.noise == NOISE
    assert (second.plateau, second.settings.optimizer.plateau) == (8, 8)
    assert second.settings.optimizer.steps == 20
    assert {s.settings.optimizer.diag_shift for s in (first, second)} == {0.05}


def test_the_sections_hold_the_last_stage() -> None:
    completed = settings({"D": 2, "steps": 5}, {"D": 3, "chi": 7, "n_samples": 64})
    last = stages_of(completed)[-1].settings
    for section in ("ansatz", "contraction", "sampler", "optimizer"):
        assert getattr(completed, section) == getattr(last, section)
    assert (completed.ansatz.D, completed.contraction.chi, completed.sampler.n_samples) == (
        3,
        7,
        64,
    )
    assert completed.measure.n_samples == 8 * 64
    assert completed.measure.chi == 14


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ({"learning_rate": 0.1}, {}),
        ({}, {"learning_rate": 0.1}),
        ({"learning_rate": 0.1}, {"learning_rate": 0.3}),
    ],
    ids=["rate that follows last", "rate that follows first", "two rates"],
)
def test_completed_stages_are_a_fixed_point(
    early: dict[str, Any], late: dict[str, Any], tmp_path: Path
) -> None:
    """Whichever rates they have."""
    first = settings({"D": 2, **early}, {"D": 3, "plateau": 9, **late}).as_dict()
    file = tmp_path / "config.toml"
    file.write_text(tomli_w.dumps(first))
    assert load(file).as_dict() == first
    assert len(first["stage"]) == 2


def test_a_stage_of_smaller_D_cuts_and_nothing_is_shared() -> None:
    cut, grown = (settings({"D": first}, {"D": last}) for first, last in ((4, 3), (3, 4)))
    assert (cut.ansatz.sharing, grown.ansatz.sharing) == (False, True)
    assert [stage.noise for stage in cut.stage or ()] == [None, None]
    refused = found({"D": 4}, {"D": 3}, ansatz={"sharing": True, "init": "product"})
    assert refused == ("stage.2.D", "conflict", 3)


def test_an_edge_grows_from_stage_to_stage() -> None:
    completed = settings({"D": 2, "edge": 1}, {"D": 2, "edge": 2}, {"D": 2})
    edges = [stage.settings.ansatz.edge for stage in stages_of(completed)]  # type: ignore[union-attr]
    assert (edges, completed.ansatz.sharing) == ([1, 2, None], True)
    assert complete(validate(completed.as_dict())).as_dict() == completed.as_dict()
    for edges, told_of in (([2, 1], 1), ([None, 3], 3)):
        tables = [{"D": 2, **({"edge": edge} if edge else {})} for edge in edges]
        assert found(*tables) == ("stage.2.edge", "conflict", told_of)
    assert found({"D": 2, "edge": 1}, {"D": 1})[:2] == ("stage.2.D", "conflict")
    problem = found({"D": 2, "edge": 1}, {"D": 2}, ansatz={"sharing": False})
    assert problem == ("stage.1.edge", "conflict", 1)


def test_without_stages_nothing_is_added() -> None:
    plain = complete(validate({**BASE, "ansatz": {"D": 3}}))
    assert "stage" not in plain.as_dict()
    assert "plateau" not in plain.as_dict()["optimizer"]
    (only,) = stages_of(plain)
    assert only.settings is plain


@pytest.mark.parametrize(
    ("stages", "problem"),
    [
        ([{"D": 2, "step": 5}], ("stage.1.step", "unknown_key")),
        ([{"D": 2}, {"n_burn": 3}], ("stage.2.n_burn", "unknown_key")),
        ([{"D": 2}, {"D": "3"}], ("stage.2.D", "not_allowed", "3")),
        ([{"D": 2, "learning_rate": -1}], ("stage.1.learning_rate", "not_allowed", -1)),
        ([{"D": 2}, {"D": 3, "noise": -0.1}], ("stage.2.noise", "not_allowed", -0.1)),
        ([{"D": 2}, 3], ("stage.2", "not_allowed", 3)),
        ([], ("stage", "not_allowed", [])),
        ([{"steps": 3}], ("stage.1.D", "conflict")),
        ([{"D": 3}, {"D": 2, "noise": 0.1}], ("stage.2.noise", "conflict")),
        ([{"D": 3}, {"D": 2, "evolve": 3}], ("stage.2.evolve", "unknown_key")),
        ([{"D": 2, "plateau": 3}], ("stage.1.plateau", "not_allowed", 3)),
        ([{"D": 2, "noise": 0.1}], ("stage.1.noise", "conflict")),
    ],
)
def test_each_problem_of_a_stage(stages: list[Any], problem: tuple[Any, ...]) -> None:
    assert found(*stages) == problem


def test_one_table_is_not_a_list_of_tables() -> None:
    assert told({**BASE, "stage": {"D": 2}}) == [("stage", "not_allowed", {"D": 2})]


@pytest.mark.parametrize(
    ("sections", "stages", "problem"),
    [
        ({"ansatz": {"kind": "product"}}, [{"D": 2}], ("stage.1.D", "conflict", 2)),
        ({"ansatz": {"kind": "periodic_mps"}}, [{"D": 2}, {"D": 3}], ("stage.2.D", "conflict", 3)),
        ({"optimizer": {"seconds": 1.0}}, [{"D": 2}], ("optimizer.seconds", "conflict")),
        (
            {"optimizer": {"kind": "adam"}},
            [{"D": 2, "diag_shift": 0.1}],
            ("stage.1.diag_shift", "conflict"),
        ),
    ],
)
def test_clashes_with_other_sections(
    sections: dict[str, Any], stages: list[dict[str, Any]], problem: tuple[Any, ...]
) -> None:
    assert found(*stages, **sections) == problem


def test_overrides_reach_into_stages() -> None:
    changed = settings({"D": 2}, {"D": 3}, overrides=("stage.2.steps=9", "optimizer.steps=4"))
    assert [stage.settings.optimizer.steps for stage in stages_of(changed)] == [4, 9]
    for override in ("stage.2.D=3", "stage.D=3", "optimizer.steps=9"):
        refused = found({"D": 2, "steps": 3}, overrides=(override,))
        assert refused == (f"--set {override}", "override")


def test_a_plateau_for_a_run_without_stages() -> None:
    plain = complete(validate({**BASE, "ansatz": {"D": 2}, "optimizer": {"plateau": 12}}))
    assert stages_of(plain)[0].plateau == 12


# Stages that a large state has by default.


def of_size(shape: list[int], D: int, *overrides: str, **more: Any) -> Settings:
    data = {"lattice": {"shape": shape}, "hamiltonian": {"model": "heisenberg"}, "ansatz": {"D": D}}
    return complete(validate({**data, **more}, overrides))


def plan(found: Settings) -> list[tuple[int | None, int | None, Any]]:
    return [(each.D, getattr(each, "steps", None), each.n_samples) for each in found.stage or ()]


@pytest.mark.parametrize(
    ("shape", "D", "wanted"),
    [
        ([8, 8], 6, [(3, 25, 512), (4, 60, 1024), (6, 45, 2048)]),
        ([8, 8], 5, [(3, 25, 512), (4, 60, 1024), (5, 45, 1024)]),
        ([10, 10], 4, [(3, 25, 1024), (4, 60, 1024)]),
        ([4, 4], 8, [(3, 25, 512), (4, 60, 512), (6, 45, 1024), (8, 45, 1024)]),
        ([8, 8], 4, []),  # 2756 parameters
        ([6, 6], 8, []),  # more than 16384
    ],
)
def test_large_states_have_stages_with_more_samples(
    shape: list[int], D: int, wanted: list[tuple[int, int, int]]
) -> None:
    assert plan(of_size(shape, D)) == wanted


@pytest.mark.parametrize(
    ("shape", "D"), [([8, 8], 5), ([8, 8], 6), ([10, 10], 5), ([4, 4], 8), ([10, 10], 4)]
)
def test_every_stage_has_samples_for_its_parameters(shape: list[int], D: int) -> None:
    for stage in stages_of(of_size(shape, D)):
        n_params = build_ansatz(stage.settings, build_operator(stage.settings)).n_params
        n_samples = int(stage.settings.sampler.n_samples or 0)
        assert n_params <= max(MOST_PARAMETERS, PER_SAMPLE * n_samples)


def test_a_small_d_gets_the_samples_alone() -> None:
    found = of_size([20, 20], 3, "hamiltonian.model=tfim")
    assert plan(found) == [(3, found.optimizer.steps, 2048)]


@pytest.mark.parametrize(
    "change",
    [
        "optimizer.steps=100", "optimizer.learning_rate=0.1", "optimizer.final_learning_rate=0.01", "optimizer.seconds=60",
        "optimizer.momentum=0.9", "optimizer.kind=adam", "sampler.n_samples=512", "ansatz.init=product", "ansatz.sharing=false",
        "ansatz.init_noise=0.1",
    ],
)  # fmt: skip
def test_a_file_with_a_plan_of_its_own_makes_one_stage(change: str) -> None:
    found = of_size([8, 8], 6, change)
    assert found.stage is None and of_size([8, 8], 6).stage is not None


def test_other_settings_are_those_of_every_stage() -> None:
    found = of_size([8, 8], 6, "contraction.chi=8", "run.seed=3", "optimizer.diag_shift=0.02")
    assert [each.chi for each in found.stage or ()] == [8, 8, 8]
    assert found.run.seed == 3 and found.optimizer.diag_shift == 0.02
    assert plan(found) == plan(of_size([8, 8], 6))
    assert found.measure.n_samples == 4096
    assert of_size([8, 8], 6, "measure.n_samples=64").measure.n_samples == 64


def test_completed_settings_are_complete() -> None:
    found = of_size([8, 8], 6)
    assert complete(validate(found.as_dict())) == found


@pytest.mark.parametrize(("budget", "steps"), [({"seconds": 60}, 100_000), ({"steps": 5}, 5)])
def test_a_comparison_gives_every_state_one_stage(budget: dict[str, int], steps: int) -> None:
    blocks = [{"name": f"D = {D}", "kind": "peps", "D": D} for D in (4, 6)]
    data = {
        "lattice": {"shape": [8, 8]}, "hamiltonian": {"model": "heisenberg"}, "compare": budget, "ansatz": blocks,
    }  # fmt: skip
    for run in COMPARISON.expand(data, "study").runs.values():
        assert (run.stage, run.optimizer.steps, run.sampler.n_samples) == (None, steps, 512)
