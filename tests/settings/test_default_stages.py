"""Which states grow in stages by default, and what a file says that makes one stage of them."""

from __future__ import annotations

from typing import Any

import pytest

from tnvmc.optimize.average import most_parameters
from tnvmc.series.machine import COMPARISON
from tnvmc.settings.build import build_ansatz, build_operator
from tnvmc.settings.config import Settings
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate
from tnvmc.settings.stages import stages_of


def settings(shape: list[int], D: int, *overrides: str, **more: Any) -> Settings:
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
def test_states_of_which_more_samples_average_s(
    shape: list[int], D: int, wanted: list[tuple[int, int, int]]
) -> None:
    assert plan(settings(shape, D)) == wanted


@pytest.mark.parametrize(
    ("shape", "D"), [([8, 8], 5), ([8, 8], 6), ([10, 10], 5), ([4, 4], 8), ([10, 10], 4)]
)
def test_every_stage_averages_s(shape: list[int], D: int) -> None:
    for stage in stages_of(settings(shape, D)):
        n_params = build_ansatz(stage.settings, build_operator(stage.settings)).n_params
        assert n_params <= most_parameters(stage.settings.sampler.n_samples, shared=True)


def test_a_small_d_gets_the_samples_alone() -> None:
    found = settings([20, 20], 3, "hamiltonian.model=tfim")
    assert plan(found) == [(3, found.optimizer.steps, 2048)]


@pytest.mark.parametrize(
    "change",
    [
        "optimizer.steps=100", "optimizer.learning_rate=0.1", "optimizer.schedule=cosine", "optimizer.seconds=60",
        "optimizer.momentum=0.9", "optimizer.kind=adam", "sampler.n_samples=512", "ansatz.init=product", "ansatz.sharing=false",
        "ansatz.init_noise=0.1",
    ],
)  # fmt: skip
def test_a_file_with_a_plan_of_its_own_makes_one_stage(change: str) -> None:
    found = settings([8, 8], 6, change)
    assert found.stage is None and settings([8, 8], 6).stage is not None


def test_other_settings_are_those_of_every_stage() -> None:
    found = settings([8, 8], 6, "contraction.chi=8", "run.seed=3", "optimizer.diag_shift=0.02")
    assert [each.chi for each in found.stage or ()] == [8, 8, 8]
    assert found.run.seed == 3 and found.optimizer.diag_shift == 0.02
    assert plan(found) == plan(settings([8, 8], 6))
    assert found.measure.n_samples == 4096
    assert settings([8, 8], 6, "measure.n_samples=64").measure.n_samples == 64


def test_completed_settings_are_complete() -> None:
    found = settings([8, 8], 6)
    assert complete(validate(found.as_dict())) == found


@pytest.mark.parametrize(("budget", "steps"), [({"samples": 5000}, 9), ({"steps": 5}, 5)])
def test_a_comparison_gives_every_state_one_stage(budget: dict[str, int], steps: int) -> None:
    blocks = [{"name": f"D = {D}", "kind": "peps", "D": D} for D in (4, 6)]
    data = {
        "lattice": {"shape": [8, 8]}, "hamiltonian": {"model": "heisenberg"}, "compare": budget, "ansatz": blocks,
    }  # fmt: skip
    for run in COMPARISON.expand(data, "study").runs.values():
        assert (run.stage, run.optimizer.steps, run.sampler.n_samples) == (None, steps, 512)
