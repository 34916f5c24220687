"""Comparisons from the command line: what they leave behind, how they fail, stop and go on."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tests.compare_files import SETTINGS, history, strict_json
from tnvmc.app import recording
from tnvmc.app import series as app
from tnvmc.app.cli import main
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.optimize.rule import Cosine
from tnvmc.report.console import RunConsole
from tnvmc.series import comparison as kinds
from tnvmc.shown import sentence
from tnvmc.storage.run_folder import FolderInUse
from tnvmc.vmc import step
from tnvmc.vmc.core import Method
from tnvmc.vmc.results import StepRecord
from tnvmc.vmc.step import OptimisationFailed

NAMES = ("product", "PEPS D=2", "drawn")
PICTURES = ("relative_error", "variance", "v_score")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the file; pictures, which take their time, are left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app, "draw_series", lambda _: {})
    Path("study.toml").write_text(SETTINGS)
    return tmp_path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a comparison leaves when nothing stops it; to be copied, not changed."""
    path = tmp_path_factory.mktemp("whole")
    (path / "study.toml").write_text(SETTINGS)
    assert main(["compare", str(path / "study.toml"), "--out", str(path / "out")]) == 0
    return path / "out"


def outcome(path: Path) -> list[tuple[float, float, float, int]]:
    """What two equal comparisons share."""
    results = [strict_json(path / name / "result.json") for name in NAMES]
    return [(r["energy"], r["energy_error"], r["variance"], r["steps"]) for r in results]


@pytest.mark.whole
def test_a_comparison_leaves_runs_a_table_and_pictures(whole: Path) -> None:
    table = strict_json(whole / "comparison.json")
    rows = table["rows"]
    assert {row["name"] for row in rows} == set(NAMES) and table["left_out"] == []
    assert [row["energy"] for row in rows] == sorted(row["energy"] for row in rows)
    assert table["budget"] == {"steps": 4} and table["measured_samples"] == 64
    for row in rows:
        result = strict_json(whole / row["name"] / "result.json")
        seconds = sorted(line["seconds"] for line in history(whole / row["name"]))
        assert row["energy"] == result["energy"] and row["v_score"] == result["v_score"]
        assert row["relative_error"] == result["signed_error"] is not None
        assert row["parameters"] == result["n_parameters"] and row["steps"] == 4
        assert row["seconds_per_step"] == pytest.approx(sum(seconds[1:3]) / 2)
    assert all((whole / f"pictures/{name}.{end}").stat().st_size for name in PICTURES
               for end in ("png", "pdf"))  # fmt: skip
    page = (whole / "comparison.md").read_text().splitlines()
    assert [line.split("|")[1].strip() for line in page[4:7]] == [row["name"] for row in rows]


def test_the_table_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    only = SETTINGS[: SETTINGS.index('[[ansatz]]\nname = "PEPS')]
    Path("study.toml").write_text(only)
    assert main(["compare", "study.toml", "--set", "compare.steps=1"]) == 0
    shown = capsys.readouterr().out
    for words in ("[1/1] product", "1 steps for each ansatz", "with 64 samples", "s / eff. sample"):
        assert words in shown


@pytest.mark.whole
def test_a_state_of_several_seeds_is_their_mean(capsys: pytest.CaptureFixture[str]) -> None:
    only = SETTINGS[: SETTINGS.index('[[ansatz]]\nname = "drawn')]
    Path("study.toml").write_text(only)
    assert main(["compare", "study.toml", "--out", "out", "--set", "compare.seeds=2"]) == 0
    assert main(["compare", "--resume", "out", "--set", "compare.seeds=3"]) == 0
    table = strict_json(Path("out/comparison.json"))
    assert table["seeds"] == 3 and len(table["rows"]) == 6
    for state in table["states"]:
        name = state["name"]
        runs = [name, f"{name}, seed=1", f"{name}, seed=2"]
        results = [strict_json(Path("out") / run / "result.json") for run in runs]
        energies = [each["energy"] for each in results]
        assert state["energy"] == pytest.approx(np.mean(energies))
        assert state["scatter_per_site"] == pytest.approx(np.std(energies, ddof=1) / 6)
        by_samples = np.hypot.reduce([each["energy_error"] for each in results]) / 3
        by_seeds = 1.6 * np.std(energies, ddof=1) / np.sqrt(3)  # of three values
        assert state["energy_error"] == pytest.approx(max(by_samples, by_seeds))
        exact = results[0]["exact_energy"]
        assert state["relative_error"] == pytest.approx(state["energy"] / abs(exact) + 1)
    capsys.readouterr()
    assert main(["compare", "--resume", "out", "--set", "compare.seeds=1"]) == 2


@pytest.mark.whole
def test_the_reference_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    find = recording.find_reference

    def counted(*asked: Any, **named: Any) -> Any:
        calls.append(asked)
        return find(*asked, **named)

    monkeypatch.setattr(kinds, "find_reference", counted)
    monkeypatch.setattr(recording, "find_reference", lambda *_: pytest.fail("once is enough"))
    assert main(["compare", "study.toml", "--out", "out", "--set", "compare.steps=1"]) == 0
    assert len(calls) == 1


def test_bad_blocks_are_told_before_anything_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "study.toml", "--set", "ansatz.2.D=0", "--out", "out"]) == 2
    assert capsys.readouterr().err.startswith("tnvmc: ansatz 'PEPS D=2': D = 0: must be")
    assert main(["compare"]) == 2
    assert not Path("out").exists()


@pytest.mark.whole
@pytest.mark.parametrize("kind", [OptimisationFailed, RuntimeError])
def test_a_block_that_fails_does_not_stop_the_others(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors of JAX (RESOURCE_EXHAUSTED, say) are RuntimeErrors."""
    run = app.new_run

    def failing(settings: Any, reference: Any) -> Any:
        if settings.ansatz.kind == "product":
            raise kind("step 3: the energy is infinite")
        return run(settings, reference)

    with monkeypatch.context() as patch:
        patch.setattr(app, "new_run", failing)
        assert main(["compare", "study.toml", "--out", "out", "--set", "compare.steps=1"]) == 1
    table = strict_json(Path("out/comparison.json"))
    assert {row["name"] for row in table["rows"]} == {"PEPS D=2", "drawn"}
    (left_out,) = table["left_out"]
    assert (left_out["name"], left_out["code"]) == ("product", "run_failed")
    assert left_out["values"] == {"reason": "step 3: the energy is infinite"}
    assert sentence(Diagnostic.from_dict(left_out)) in capsys.readouterr().out
    if kind is OptimisationFailed:
        assert main(["compare", "--resume", "out"]) == 0  # it is tried again
        assert len(strict_json(Path("out/comparison.json"))["rows"]) == 3


def test_a_run_that_another_process_takes_ends_the_comparison(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def taken(runs: Any, settings: Any, reference: Any) -> Any:
        raise FolderInUse(f"{settings.run.out}: another process is writing this run")

    monkeypatch.setattr(app.Runs, "make", taken)
    assert main(["compare", "study.toml", "--out", "out"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not Path("out", "comparison.json").exists()


@pytest.mark.whole
def test_a_run_of_another_comparison_has_no_row(
    whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files of one block in the folder of another."""
    shutil.copytree(whole, "out")
    shutil.copy(Path("out", NAMES[1], "result.json"), Path("out", NAMES[2]))
    assert main(["compare", "--resume", "out"]) == 1
    assert "of another run" in capsys.readouterr().out
    table = strict_json(Path("out", "comparison.json"))
    assert [row["name"] for row in table["rows"]] == [
        row["name"] for row in strict_json(whole / "comparison.json")["rows"]
        if row["name"] != NAMES[2]
    ]  # fmt: skip
    assert [each["code"] for each in table["left_out"]] == ["run_failed"]


@pytest.mark.whole
def test_a_comparison_is_drawn_again_from_its_runs(
    whole: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table too: a run that is not there any more has no row."""
    shutil.copytree(whole, "moved")
    monkeypatch.undo()  # pictures are drawn
    monkeypatch.chdir(folder)
    assert main(["plot", "moved", "--format", "svg", "--out", "drawn"]) == 0
    assert sorted(path.name for path in Path("drawn").iterdir()) == sorted(
        f"{name}.svg" for name in PICTURES
    )
    before = strict_json(Path("moved/comparison.json"))
    for name in ("comparison.json", "comparison.md"):
        Path("moved", name).unlink()
    assert main(["report", "moved"]) == 0
    assert strict_json(Path("moved/comparison.json")) == before
    Path("moved", NAMES[0], "result.json").unlink()
    assert main(["report", "moved"]) == 0
    (left,) = strict_json(Path("moved/comparison.json"))["left_out"]
    assert (left["name"], left["code"]) == (NAMES[0], "run_unfinished")
    assert main(["plot", "moved", "--site", "0"]) == 2
    assert main(["report", "moved", "--out", "x.html"]) == 2
    assert capsys.readouterr().err.count("holds a comparison, which has") == 2


@pytest.mark.whole
def test_a_finished_comparison_takes_more_steps(whole: Path) -> None:
    shutil.copytree(whole, "out")
    assert main(["compare", "--resume", "out", "--set", "compare.steps=5"]) == 0
    assert [steps for *_, steps in outcome(Path("out"))] == [5, 5, 5]
    assert strict_json(Path("out/comparison.json"))["budget"] == {"steps": 5}


@pytest.mark.parametrize(
    ("settings", "change", "told"),
    [
        (
            SETTINGS,
            ["compare.steps=3"],
            "compare.steps = 3: the comparison in out was begun with 4",
        ),
        (SETTINGS.replace("steps = 4", "seconds = 9"), [], "compare.seconds = 9: the comparison"),
        (SETTINGS.replace("steps = 4", "seconds = 64"), [], "begun with 4 steps"),
    ],
)
def test_a_budget_can_only_be_raised(
    settings: str, change: list[str], told: str, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(whole, "out")
    Path("study.toml").write_text(settings)
    changes = [word for key in change for word in ("--set", key)]
    before = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}
    assert main(["compare", "study.toml", "--resume", "out", *changes]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    assert all(path.read_bytes() == held for path, held in before.items())


@pytest.mark.whole
def test_a_budget_of_seconds_ends_each_and_bends_the_schedule(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a clock that ticks 0.1 s a step: six steps of 0.55 s; what the first compiles is free."""
    advance, begun = step.advance, set()

    def timed(method: Method, state: Any) -> Any:
        state, record = advance(method, state)
        own = repr(method.problem.ansatz), repr(method.rule)  # of each run
        seconds = 0.1 if own in begun else 100.0
        begun.add(own)
        return state, replace(record, seconds=seconds)

    monkeypatch.setattr(step, "advance", timed)
    monkeypatch.setattr("tnvmc.session.vmc.LEAST_STEPS", 10**9)  # the clock of the starts is real
    Path("study.toml").write_text(SETTINGS.replace("steps = 4", "seconds = 0.55"))
    changes = ["--set", "optimizer.steps=1000", "--set", "optimizer.learning_rate=0.1"]
    assert main(["compare", "study.toml", "--out", "out", *changes]) == 0
    shown = capsys.readouterr().out
    assert "sr, 0.55 s" in shown and "step    6  0.6/0.55 s  E/N" in shown
    schedule = Cosine(0.1, 0.01, 1000)
    for name in NAMES:
        lines = history(Path("out") / name)
        assert strict_json(Path("out") / name / "result.json")["stopped"] == "seconds"
        assert len(lines) == 6  # the sixth begins before the end
        used = [sum(line["seconds"] for line in lines[:n]) / 0.55 for n in range(6)]
        assert [line["learning_rate"] for line in lines] == [
            schedule(int(1000 * share)) for share in used
        ]
    assert main(["show", "out/drawn"]) == 0
    assert "6 steps in 0.6 s" in capsys.readouterr().out  # of no number that was asked for


def test_the_live_line_counts_seconds_where_they_are_the_limit() -> None:
    console = RunConsole(1000, 6, seconds=30.0)
    console.console = Console(file=io.StringIO(), force_terminal=True, width=120)
    console.used = 12.0
    record = StepRecord(
        step=3, energy=-3.0, energy_error=0.1, variance=0.2, tau=None, r_hat=None, acceptance=None,
        closure_spread=None, learning_rate=0.1, step_norm=0.1, undone=False, diagnostics=(),
        optimizer={}, seconds=6.0,
    )  # fmt: skip
    with console.live(3, None):
        console.expect(1000)
        console.step(record)
    assert "18/30" in console.console.file.getvalue()  # type: ignore[attr-defined]


ENUMERATED = """
[lattice]
shape = [2, 3]
[hamiltonian]
model = "heisenberg"
[sampler]
kind = "enumerate"
[compare]
steps = 2
[[ansatz]]
name = "shared"
kind = "peps"
D = 2
sharing = true
[[ansatz]]
name = "not shared"
kind = "peps"
D = 2
sharing = false
"""


def test_enumerated_states_count_all_configurations(folder: Path) -> None:
    """A state with symmetries is evaluated at one configuration of each orbit."""
    (folder / "all.toml").write_text(ENUMERATED)
    assert main(["compare", "all.toml", "--out", "all"]) == 0
    table = strict_json(Path("all/comparison.json"))
    assert [row["name"] for row in table["rows"]] != [] and table["left_out"] == []
    assert {row["n_samples"] for row in table["rows"]} == {20}
