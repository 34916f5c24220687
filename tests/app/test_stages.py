"""Runs in stages: what is kept, how they stop, grow, and go on after they were stopped."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.oracles import all_configs, dense_state
from tests.run_files import read_history, read_json
from tnvmc import load_state
from tnvmc.ansatz.peps.starts import other_sizes
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.peps.symmetries import sharing
from tnvmc.app import stages
from tnvmc.app.run import Interrupted, resume_run, run_file
from tnvmc.app.stages import StagedRun
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.lattice import square
from tnvmc.operators.models import heisenberg
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import ConfigError, validate
from tnvmc.storage.hdf5 import StateFileError, opened, read_parameters, read_stages
from tnvmc.storage.run_folder import FolderError, RunFolder, stage_file
from tnvmc.vmc import checkpoint, measured_iterate

ROUNDING = 1e-12

SETTINGS = """
[lattice]
shape = [2, 3]

[hamiltonian]
model = "heisenberg"

[sampler]
n_walkers = 8
n_samples = 16
chunk = 8

[measure]
n_samples = 32
n_burn = 1

[run]
threads = 1

[ansatz]
init = "simple_update"

[[stage]]
D = 1
steps = 0

[[stage]]
D = 1
steps = 3

[[stage]]
D = 2
steps = 40
learning_rate = 0.1
plateau = 5

[[stage]]
D = 2
steps = 3
n_samples = 32
learning_rate = 0.1
"""

ALONE = (
    SETTINGS[: SETTINGS.index("[[stage]]")]
    + """
D = 2
sharing = false
[optimizer]
steps = 4
"""
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    """What the run leaves when nothing stops it."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "study.toml").write_text(SETTINGS)
    run_file(folder / "study.toml", folder / "run")
    return outcome(folder / "run")


@pytest.fixture
def by_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bonds are opened without simple update."""
    monkeypatch.setattr(other_sizes, "EVOLVE", 0)


def history(folder: Path) -> list[dict[str, Any]]:
    return read_history(folder)


def outcome(folder: Path) -> tuple[Any, ...]:
    """All that two equal runs share: not times and places."""

    def timeless(values: Any) -> Any:
        if isinstance(values, dict):
            left = ("seconds", "seconds_per_sample", "wall_time_s", "config")
            return {key: timeless(value) for key, value in values.items() if key not in left}
        return [timeless(value) for value in values] if isinstance(values, list) else values

    files = sorted(path.name for path in folder.glob("*.h5"))
    parameters = [read_parameters(folder / name)[1].tobytes() for name in files]
    result = read_json(folder / "result.json")
    return timeless(history(folder)), files, parameters, timeless(result)


def interrupt(patch: pytest.MonkeyPatch, step: int) -> None:
    """Send Ctrl-C when a step is written down."""
    append = RunFolder.append

    def interrupted(self: RunFolder, record: Any) -> None:
        append(self, record)
        if record["step"] == step:
            signal.raise_signal(signal.SIGINT)

    patch.setattr(RunFolder, "append", interrupted)


@pytest.mark.whole
def test_what_a_run_in_stages_keeps(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_file(file, "whole")
    folder = file.parent / "whole"
    records = result["stages"]
    assert [record["stage"] for record in records] == [1, 2, 3, 4]
    assert [record["D"] for record in records] == [1, 1, 2, 2]
    assert [record["n_samples"] for record in records] == [16, 16, 16, 32]
    assert records[1]["steps"] == records[3]["steps"] == 3
    assert 5 <= records[2]["steps"] < 40
    assert [record["stopped"] for record in records[1:]] == ["steps", "plateau", "steps"]
    assert result["stopped"] == "steps"
    assert all(np.isfinite(r["energy"]) and r["energy_error"] > 0 for r in records)
    assert [record["measured_samples"] for record in records] == [64, 64, 64, 32]
    assert records[3]["energy"] == result["energy"]
    lines = history(folder)
    assert [line["step"] for line in lines] == list(range(result["steps"]))
    for number, D in ((2, 1), (3, 2), (4, 2)):
        own = [line for line in lines if line["stage"] == number]
        assert len(own) == records[number - 1]["steps"]
        assert {line["D"] for line in own} == {D}
    assert lines[-1]["learning_rate"] < lines[-3]["learning_rate"] == pytest.approx(0.1)
    for record in records:
        kept = folder / f"stage-{record['stage']}.h5"
        assert read_parameters(kept)[0]["D"] == record["D"]
        assert read_stages(kept)[-1] == record
    assert read_stages(folder / "checkpoint.h5") == records[:3]
    before = (folder / "result.json").read_bytes()
    resume_run("whole")  # nothing is left to do
    assert (folder / "result.json").read_bytes() == before
    shown = capsys.readouterr().out
    assert "stage 3 of 4: D = 2, chi = 4, 16 samples, 40 steps, or until the last 5" in shown
    assert "stage 3 (D = 2) ended on its plateau, after" in shown
    assert "3 in 4 stages" not in shown
    assert "46 steps in 4 stages" in shown


@pytest.mark.whole
@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_run_stopped_in_any_stage_goes_on_bit_for_bit(
    file: Path, monkeypatch: pytest.MonkeyPatch, whole: tuple[Any, ...], step: int
) -> None:
    """Within stage 2, with its last step, within stage 3."""
    with monkeypatch.context() as patch:
        interrupt(patch, step)
        with pytest.raises(Interrupted, match=f"stopped after {step + 1} steps"):
            run_file(file, "parts")
    resume_run("parts")
    assert outcome(file.parent / "parts") == whole


@pytest.mark.whole
@pytest.mark.parametrize("write", [1, 3, 5, 8])
def test_a_run_killed_between_two_files_goes_on_bit_for_bit(
    file: Path, monkeypatch: pytest.MonkeyPatch, whole: tuple[Any, ...], write: int
) -> None:
    """Whatever file was the last: within a stage, after its measurement, before the next."""
    save, written = checkpoint.save, []

    class Killed(BaseException):
        """Nothing catches this."""

    def killed(*arguments: Any) -> None:
        save(*arguments)
        written.append(arguments[0].name)
        if len(written) == write:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(checkpoint, "save", killed)
        run_file(file, "parts")
    resume_run("parts")
    assert outcome(file.parent / "parts") == whole


@pytest.mark.whole
def test_one_stage_is_the_same_run_as_none(file: Path) -> None:
    file.write_text(ALONE)
    alone = run_file(file, "alone")
    file.write_text(ALONE + "[[stage]]\n")
    staged = run_file(file, "staged")
    assert staged["energy"] == alone["energy"]
    assert "stages" not in alone
    own, other = (history(file.parent / name) for name in ("alone", "staged"))
    labels = {"stage": 1, "D": 2}
    timed = {"seconds": 0, "compile_seconds": 0}
    assert [{**a, **labels, **timed} for a in own] == [{**b, **timed} for b in other]
    assert not {"stage", "D"} & set(own[0])
    assert not list((file.parent / "alone").glob("stage-*"))


@pytest.mark.whole
def test_a_plateau_without_stages(file: Path) -> None:
    file.write_text(ALONE)
    overrides = [
        "optimizer.steps=60", "optimizer.plateau=5", "optimizer.learning_rate=0.1",
        "optimizer.final_learning_rate=0.1",
    ]  # fmt: skip
    result = run_file(file, "alone", overrides)
    assert result["stopped"] == "plateau"
    assert 5 <= result["steps"] < 60
    assert resume_run("alone")["steps"] == result["steps"]


@pytest.mark.whole
def test_a_finished_run_takes_more_steps_and_more_stages(file: Path) -> None:
    run_file(file, "first")
    before = read_stages(file.parent / "first" / "checkpoint.h5")
    longer = resume_run("first", ["stage.4.steps=5"])
    assert longer["stages"][:3] == before
    assert longer["stages"][3]["steps"] == 5
    file.write_text(SETTINGS.replace("steps = 3\nn_samples = 32", "steps = 5\nn_samples = 32")
                    + "\n[[stage]]\nD = 3\nsteps = 2\n")  # fmt: skip
    grown_on = resume_run("first", file=file)
    assert [record["D"] for record in grown_on["stages"]] == [1, 1, 2, 2, 3]
    assert grown_on["steps"] == longer["steps"] + 2


@pytest.mark.whole
def test_stages_cannot_be_taken_away(file: Path) -> None:
    run_file(file, "whole")
    file.write_text(SETTINGS[: SETTINGS.index("[[stage]]\nD = 2\nsteps = 3\n")])
    with pytest.raises(StateFileError, match="run is in stage 4, the settings have 3"):
        resume_run("whole", file=file)
    file.write_text(SETTINGS.replace("D = 2\nsteps = 3", "D = 3\nsteps = 3"))
    with pytest.raises(StateFileError, match=r"D 2 \(now 3\)"):
        resume_run("whole", file=file)


@pytest.mark.whole
def test_steps_of_stages_are_not_taken_back(file: Path) -> None:
    run_file(file, "whole")
    made = [record["steps"] for record in read_stages(file.parent / "whole" / "checkpoint.h5")]
    before = (file.parent / "whole" / "config.toml").read_bytes()
    for number, steps in ((3, made[2]), (4, 3)):
        with pytest.raises(ConfigError, match=f"stage.{number}.steps = 1: .* has made {steps} al"):
            resume_run("whole", [f"stage.{number}.steps=1"])
    assert (file.parent / "whole" / "config.toml").read_bytes() == before


def test_a_folder_with_the_end_of_a_stage_is_not_written_over(file: Path) -> None:
    (file.parent / "old").mkdir()
    (file.parent / "old" / "stage-2.h5").write_text("mine")
    with pytest.raises(FolderError, match=r"holds a run already \(stage-2.h5\)"):
        run_file(file, "old")


def staged(*tables: dict[str, Any]) -> StagedRun:
    data = {
        "lattice": {"shape": [2, 3]},
        "hamiltonian": {"model": "heisenberg"},
        "contraction": {"scheme": "exact"},
        "sampler": {"kind": "enumerate"},
        "stage": list(tables),
    }
    return StagedRun(complete(validate(data)), heisenberg(square(2, 3)))


@pytest.mark.usefixtures("by_noise")
def test_growth_without_noise_keeps_the_state(tmp_path: Path) -> None:
    last = {"D": 3, "noise": 0.0, "steps": 1, "learning_rate": 0.1}
    run = staged({"D": 1, "steps": 2}, last)
    run.optimise(lambda _: None)
    before = run.vmc
    record = run.next_stage(tmp_path)
    configs = all_configs(6)
    psi = []
    for vmc, D in ((before, 1), (run.vmc, 3)):
        assert isinstance(vmc.ansatz, PEPS)
        assert vmc.ansatz.D == D
        psi.append(dense_state(vmc.ansatz.tensors(vmc.theta), (2, 3), configs))
    assert np.allclose(psi[0] / np.linalg.norm(psi[0]), psi[1] / np.linalg.norm(psi[1]),
                       atol=ROUNDING)  # fmt: skip
    assert run.vmc.measure().energy == pytest.approx(record["energy"], abs=ROUNDING)
    assert run.vmc.state.step == 2
    assert run.vmc.method.schedule(2) == pytest.approx(0.1)


def test_a_wider_edge_keeps_the_state(tmp_path: Path) -> None:
    """Rows of the bulk get tensors of their own, all those of the stage before."""
    file = tmp_path / "edge.toml"
    text = SETTINGS[: SETTINGS.index("[[stage]]")].replace("[2, 3]", "[6, 6]")
    text = text.replace("simple_update", "product")
    text += "[[stage]]\nD = 2\nedge = 1\nsteps = 2\n[[stage]]\nD = 2\nsteps = 0\n"
    file.write_text(text)
    path = tmp_path / "edge"
    run_file(file, path)
    operator = heisenberg(square(6, 6))
    states = []
    for name, edge in ((stage_file(1), 1), ("checkpoint.h5", None)):
        described, theta = read_parameters(path / name)
        peps = PEPS(operator.lattice, 2, sharing=sharing(operator, edge=edge))
        assert described["sharing"] == json.loads(json.dumps(peps.sharing.told()))  # type: ignore[union-attr]
        states.append(peps.tensors(theta))
    for one, other in zip(*states, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.usefixtures("by_noise")
def test_a_state_that_needs_less_is_cut_as_it_is(tmp_path: Path) -> None:
    run = staged({"D": 1, "steps": 2}, {"D": 3, "noise": 0.0, "steps": 0}, {"D": 1})
    run.optimise(lambda _: None)
    before = run.next_stage(tmp_path)
    record = run.next_stage(tmp_path)
    assert isinstance(run.vmc.ansatz, PEPS)
    assert run.vmc.ansatz.D == 1
    assert "lost_weight" not in before
    assert record["lost_weight"] == pytest.approx(0, abs=ROUNDING)
    assert read_stages(tmp_path / "stage-2.h5")[1]["lost_weight"] == record["lost_weight"]
    assert run.vmc.measure().energy == pytest.approx(before["energy"], abs=ROUNDING)


@pytest.mark.whole
def test_a_run_that_cuts_goes_on_bit_for_bit(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = SETTINGS[: SETTINGS.index("[[stage]]")]
    file.write_text(head + "[[stage]]\nD = 3\nsteps = 3\n[[stage]]\nD = 2\nsteps = 3\n")
    result = run_file(file, "at_once")
    first, second = result["stages"]
    assert 0 < first["lost_weight"] < 0.1
    assert "lost_weight" not in second
    assert [point["D"] for point in result["convergence"]["bond_dimension"]["points"]] == [2, 3]
    for step in (2, 3):
        with monkeypatch.context() as patch:
            interrupt(patch, step)
            with pytest.raises(Interrupted):
                run_file(file, f"parts-{step}")
        resume_run(f"parts-{step}")
        assert outcome(file.parent / f"parts-{step}") == outcome(file.parent / "at_once")


@pytest.mark.whole
def test_growth_by_evolution_lowers_the_energy(tmp_path: Path) -> None:
    run = staged({"D": 1, "steps": 10}, {"D": 2, "steps": 1})
    run.optimise(lambda _: None)
    record = run.next_stage(tmp_path)
    assert run.vmc.measure().energy < record["energy"] - 0.1


@pytest.mark.usefixtures("by_noise")
def test_a_last_step_that_led_astray_is_not_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = staged({"D": 1, "steps": 3}, {"D": 2, "noise": 0.0})
    run.optimise(lambda _: None)
    state = run.vmc.state
    assert state.before_update is not None
    bad = np.random.default_rng(0).normal(size=state.here.theta.shape)
    run.vmc.state = stages.replace(state, here=stages.replace(state.here, theta=bad))
    record = run.next_stage(tmp_path)
    _, kept = read_parameters(tmp_path / "stage-1.h5")
    assert np.array_equal(kept, state.before_update.theta)
    assert run.vmc.measure().energy == pytest.approx(record["energy"], abs=ROUNDING)


@pytest.mark.whole
def test_direct_draws_may_differ_in_number_from_stage_to_stage(file: Path) -> None:
    text = file.read_text().replace("n_walkers = 8\n", 'kind = "direct"\n')
    text = text.replace("n_samples = 16\nchunk = 8", "n_samples = 16")
    file.write_text(text)
    run_file(file, "run")
    assert resume_run("run", ["stage.4.steps=4"])["steps"] > 0


@pytest.mark.whole
def test_what_would_be_lost_is_not_cut(file: Path) -> None:
    """A resume without its checkpoint, and a history with a damaged line in the middle."""
    run_file(file, "run")
    kept = Path("run/history.jsonl").read_bytes()
    moved = Path("run/checkpoint.h5").rename("kept.h5")
    with pytest.raises(FolderError, match=r"checkpoint\.h5 is missing"):
        resume_run("run", ["stage.4.steps=4"])
    moved.rename("run/checkpoint.h5")
    damaged = kept.replace(b"{", b"#", 1)
    Path("run/history.jsonl").write_bytes(damaged)
    with pytest.raises(FolderError, match="line 1 is damaged"):
        resume_run("run", ["stage.4.steps=4"])
    assert Path("run/history.jsonl").read_bytes() == damaged
    Path("run/history.jsonl").write_bytes(kept)
    Path("run/result.json").write_text("[1]")
    assert resume_run("run", ["stage.4.steps=4"])["steps"] > 0


@pytest.mark.whole
def test_the_state_that_was_measured_can_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The energy of the mean was reported, and all files held the last parameters."""

    def mean_is_best(_: Any, iterates: Any, last: Any, *__: Any) -> Any:
        told = Diagnostic("measured_mean", "good", measured_iterate._compared(None, None))
        return replace(last, theta=iterates.mean), (told,)

    monkeypatch.setattr(measured_iterate, "_best", mean_is_best)
    last = [*ALONE.splitlines(), 'learning_rate = "auto"', "memory = 0.9"]
    (tmp_path / "auto.toml").write_text("\n".join(last))
    folder = tmp_path / "run"
    result = run_file(tmp_path / "auto.toml", folder)
    assert not result["diagnostics"] and not (folder / "measured.h5").exists()
    result = resume_run(folder, ["optimizer.steps=12"])
    assert result["diagnostics"][0]["code"] == "measured_mean"
    with opened(folder / "checkpoint.h5") as file:
        mean = file["controllers/mean_of_iterates/mean"][()]
    _, measured = load_state(folder / "measured.h5")
    assert np.array_equal(measured, mean)
    assert not np.array_equal(measured, read_parameters(folder / "checkpoint.h5")[1])
