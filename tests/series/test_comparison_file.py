"""The settings of a comparison: what its runs are, and what is said of those that cannot be."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.compare_files import data
from tnvmc.series import comparison as compare_file
from tnvmc.series import expansion
from tnvmc.series.expansion import MOST_STEPS, measured_samples
from tnvmc.series.kind import Series
from tnvmc.series.machine import COMPARISON
from tnvmc.settings.load import read_toml, with_overrides
from tnvmc.settings.problems import ConfigError, ConfigProblem

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]


def comparison(
    content: Json, overrides: Sequence[str] = (), default_name: str = "comparison"
) -> Series:
    return COMPARISON.expand(with_overrides(content, overrides), default_name)


def test_every_block_becomes_a_run() -> None:
    compared = comparison(data(), default_name="study")
    product, peps, drawn = compared.runs.values()
    assert compared.out == Path("runs/study")
    assert peps.run.out == "runs/study/PEPS D=2"
    assert (product.ansatz.kind, peps.ansatz.D, peps.contraction.chi) == ("product", 2, 4)
    assert (drawn.contraction.scheme, drawn.sampler.kind) == ("exact", "direct")
    assert [run.sampler.n_samples for run in compared.runs.values()] == [16, 16, 20]
    assert [run.optimizer.steps for run in compared.runs.values()] == [4, 4, 4]


def test_all_are_measured_with_the_same_samples() -> None:
    """Default: 8 times what the shared section draws in a step, whole draws of all walkers."""
    settings = data()
    del settings["measure"]["n_samples"]
    settings["sampler"]["n_samples"] = 17  # 24 with 8 walkers
    compared = comparison(settings)
    assert compared.details.n_samples == 136  # 8 * 17, a multiple of 8
    for run in compared.runs.values():
        assert measured_samples(run, compared.operator) == 136
        assert run.measure.n_thin == 1


def test_each_state_has_a_run_for_each_seed() -> None:
    compared = comparison(data(), ["compare.seeds=3", "run.seed=5"])
    peps = [f"PEPS D=2{end}" for end in ("", ", seed=6", ", seed=7")]
    assert list(compared.details.states["PEPS D=2"]) == peps and len(compared.runs) == 9
    assert [compared.runs[name].run.seed for name in peps] == [5, 6, 7]
    assert compared.runs[peps[2]].ansatz == compared.runs[peps[0]].ansatz
    assert compared.details.budget.limits == {"steps": 4}


def test_a_name_that_a_seed_needs_is_refused() -> None:
    content = data()
    content["ansatz"][1]["name"] = "product, seed=1"
    assert len(comparison(content).runs) == 3
    with pytest.raises(ConfigError):
        comparison(content, ["compare.seeds=2"])


def test_samples_do_not_grow_in_a_comparison() -> None:
    with pytest.raises(ConfigError) as found:
        comparison(data(), ["sampler.n_samples=auto"])
    assert {each.key for each in found.value.problems} == {
        f"ansatz '{name}': sampler.n_samples" for name in ("product", "PEPS D=2")
    }


def test_a_budget_of_seconds_limits_the_time() -> None:
    settings = data() | {"compare": {"seconds": 0.5}, "optimizer": {"kind": "adam"}}
    settings["ansatz"][0]["optimizer"] = {"steps": 7}
    product, peps, _ = comparison(settings).runs.values()
    assert (product.optimizer.steps, product.optimizer.seconds) == (7, 0.5)
    assert (peps.optimizer.steps, peps.optimizer.seconds) == (MOST_STEPS, 0.5)
    assert product.optimizer.kind == "adam"


def test_settings_are_changed_on_the_command_line() -> None:
    changes = ["compare.steps=9", "sampler.n_samples=32", "ansatz.2.D=3", "ansatz.2.name=large"]
    compared = comparison(data(), changes)
    assert list(compared.runs) == ["product", "large", "drawn"]
    assert compared.runs["large"].ansatz.D == 3
    assert compared.runs["large"].sampler.n_samples == 32
    assert compared.runs["large"].optimizer.steps == 9


def test_networks_take_no_part_in_what_is_shared_of_contractions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        compare_file.expansion, "check_alike", lambda *_: None
    )  # it would build them, by JAX
    settings = data() | {"contraction": {"scheme": "src"}}
    settings["measure"]["chi"] = 6
    settings["ansatz"][0] = {"name": "RBM", "kind": "rbm"}
    rbm, peps, _ = comparison(settings).runs.values()
    assert (rbm.contraction.scheme, rbm.measure.chi) == (None, None)
    assert (peps.contraction.scheme, peps.measure.chi) == ("src", 6)


def test_threads_do_not_hold_back_tensor_networks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX takes all cores, so it matters where networks share a budget of seconds."""
    monkeypatch.setattr(compare_file.expansion, "check_alike", lambda *_: None)
    monkeypatch.setattr(expansion, "available_cores", lambda: 4)
    settings = data() | {"compare": {"seconds": 9}, "run": {"threads": 3}}
    comparison(settings)
    settings["ansatz"][0] = {"name": "RBM", "kind": "rbm"}
    assert found(settings) == [("run.threads", "conflict")]
    comparison(settings, ["run.threads=4"])
    comparison(settings | {"compare": {"steps": 9}})


@pytest.mark.whole
@pytest.mark.parametrize(
    "name",
    ["compare_j1j2_4x4", "states_heisenberg_6x6", "compare_product_6x6", "compare_tv_3x4", "docs"],
)
def test_the_examples_are_valid(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without building their networks, which takes JAX seconds."""
    monkeypatch.setattr(compare_file.expansion, "check_alike", lambda *_: None)
    if name == "docs":
        page = (ROOT / "docs/compare.md").read_text()
        example = tomllib.loads(page.split(":caption: three.toml")[1].split("```")[0])
    else:
        example = read_toml(ROOT / f"scripts/{name}.toml")
    compared = comparison(example)
    assert len(compared.runs) == len(example["ansatz"]) * example["compare"].get("seeds", 1)
    draws = {run.sampler.kind for run in compared.runs.values()}
    assert ("direct" in draws) == (name not in ("compare_product_6x6", "compare_tv_3x4"))


def block(number: int, **keys: Any) -> Callable[[Json], Any]:
    return lambda settings: settings["ansatz"][number].update(keys)


def section(name: str, **keys: Any) -> Callable[[Json], Any]:
    return lambda settings: settings.update({name: {**settings.get(name, {}), **keys}})


def found(settings: Json, overrides: list[str] | None = None) -> list[tuple[str, str]]:
    """Key and code of each problem."""
    with pytest.raises(ConfigError) as caught:
        comparison(settings, overrides or [])
    problems: tuple[ConfigProblem, ...] = caught.value.problems
    return [(problem.key, problem.code) for problem in problems]


PROBLEMS: list[tuple[Callable[[Json], Any], str, str]] = [
    (block(1, D=0), "ansatz 'PEPS D=2': D", "not_allowed"),
    (block(1, E=3), "ansatz 'PEPS D=2': E", "unknown_key"),
    (block(1, chi=0), "ansatz 'PEPS D=2': chi", "not_allowed"),
    (block(0, D=2), "ansatz 'product': D", "foreign_key"),
    (block(0, sampler={"kind": "direct"}), "ansatz 'product': sampler.kind", "conflict"),
    (block(0, sampler=3), "ansatz 'product': sampler", "not_allowed"),
    (block(0, sampler={"n_walkers": 48}), "ansatz 'product': sampler.n_walkers", "conflict"),
    (block(0, sampler={"magnetisation": 2}), "ansatz 'product': sampler.magnetisation", "conflict"),
    (block(0, optimizer={"steps": 3}), "ansatz 'product': optimizer.steps", "conflict"),
    (block(0, init="nowhere.h5"), "ansatz 'product'", "conflict"),
    (block(0, name="a/b"), "ansatz.1.name", "not_allowed"),
    (block(0, name="Pictures"), "ansatz.1.name", "not_allowed"),
    (block(0, name="peps d=2"), "ansatz.2.name", "conflict"),
    (lambda s: s["ansatz"][2].pop("name"), "ansatz.3.name", "missing"),
    (lambda s: s.update(ansatz={"D": 2}), "ansatz", "missing"),
    (lambda s: s.update(compare={}), "[compare]", "conflict"),
    (section("compare", seconds=3), "[compare]", "conflict"),
    (lambda s: s.update(compare={"steps": 1.5}), "compare.steps", "not_allowed"),
    (lambda s: s.update(compare={"seconds": 0}), "compare.seconds", "not_allowed"),
    (lambda s: s.update(compare={"samples": 18}), "[compare]", "conflict"),
    (section("optimizer", seconds=1), "ansatz 'product': optimizer.seconds", "conflict"),
    (section("sampler", n_sample=1), "sampler.n_sample", "unknown_key"),
    (section("measure", symmetrise=["spin"]), "ansatz 'drawn': measure.symmetrise", "conflict"),
    (lambda s: s.update(stage=[{"D": 2}]), "[[stage]]", "conflict"),
    (lambda s: s.pop("lattice"), "[lattice]", "missing_section"),
]


@pytest.mark.whole
@pytest.mark.parametrize(("change", "key", "code"), PROBLEMS, ids=range(len(PROBLEMS)))
def test_problems_are_told_by_block(change: Callable[[Json], Any], key: str, code: str) -> None:
    settings = data()
    change(settings)
    assert found(settings)[0] == (key, code)


def test_the_problems_of_all_blocks_are_told_at_once() -> None:
    settings = data()
    block(0, D=2)(settings)
    block(2, D="four")(settings)
    assert [key for key, _ in found(settings)] == ["ansatz 'product': D", "ansatz 'drawn': D"]


def test_a_problem_of_a_block_in_one_line() -> None:
    settings = data()
    block(1, D=0)(settings)
    with pytest.raises(ConfigError) as caught:
        comparison(settings)
    assert caught.value.lines == ("ansatz 'PEPS D=2': D = 0: must be an integer >= 1",)


@pytest.mark.parametrize("override", ["ansatz.D=3", "ansatz.4.D=3", "ansatz.x.D=3", "ansatz.0.D=3"])
def test_a_block_that_is_not_there_cannot_be_changed(override: str) -> None:
    assert found(data(), [override]) == [(f"--set {override}", "override")]
