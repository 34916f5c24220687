"""What is in a run and how far it got: finished, running, killed, damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.run_files import (
    CONFIG,
    read_history,
    read_json,
    tied,
    write_history,
    write_json,
    write_run,
    write_toml,
)
from tnvmc import PEPS, SR, VMC, Sampler, heisenberg, load_state, sharing, square
from tnvmc.app.cli import main
from tnvmc.report.page import report_html
from tnvmc.report.show import Description, describe
from tnvmc.storage.run_files import Damage, read_run
from tnvmc.storage.run_folder import FolderError, RunFolder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A checkpoint of a small study, after one step."""
    hamiltonian = heisenberg(square(2, 2))
    peps = PEPS(hamiltonian.lattice, 2)
    sampler = Sampler(n_walkers=4, n_samples=8, threads=1)
    vmc = VMC(hamiltonian, peps, sampler, SR(diag_shift=1e-2), learning_rate=0.05)
    vmc.run(1)
    path = tmp_path_factory.mktemp("checkpoint") / "checkpoint.h5"
    vmc.save(path)
    return path.read_bytes()


def run_with(folder: Path, checkpoint: bytes, **options: bool) -> Path:
    write_run(folder, **options)
    (folder / "checkpoint.h5").write_bytes(tied(checkpoint, folder))
    return folder


def told(description: Description) -> dict[str, str]:
    return dict(reversed(description.rows))  # of equal names the first


def test_warnings_of_the_measurement_stand_beside_its_energy(
    tmp_path: Path, checkpoint: bytes
) -> None:
    run = run_with(tmp_path / "run", checkpoint)
    result = read_json(run / "result.json")
    result["convergence"]["diagnostics"] = []
    write_json(run / "result.json", result)
    assert "warning" not in told(describe(run))
    walkers = {"n_walkers": 2, "draws": 8.0, "tau": 0.5}
    found = {"code": "few_walkers", "status": "warning", "values": walkers}
    write_json(run / "result.json", result | {"diagnostics": [found]})
    assert told(describe(run))["warning"].startswith("2 walkers")


def test_a_finished_run(tmp_path: Path, checkpoint: bytes) -> None:
    run = run_with(tmp_path / "run", checkpoint)
    description = describe(run)
    assert description.title == f"{run}: finished"
    assert description.damage == ()
    found = told(description)
    assert found["model"] == "heisenberg, J = 1"
    assert found["lattice"] == "square, 4 x 4 sites, open"
    assert found["state"] == "peps, D = 3, float64, 1056 parameters"
    assert found["contraction"] == "src, chi = 6 (measured at 12)"
    assert found["progress"] == "40 of 40 steps in 27.8 s; checkpoint after 1"
    assert found["measured"] == "energy per site -0.574232(26) (S.S units), 2048 samples"
    assert "relative error +1.63(46)e-4; exact -0.5743254416" in found["compared"]
    assert found["stages"].startswith(
        "stage 1 (D = 2) ended with its last step, after 20 steps: E/N -0.5675"
    )
    assert found["observables"] == "M^2, staggered: 0.2331(20)"
    assert ("observables", "correlations of SS, SzSz") in description.rows
    assert "tnvmc 0.1.0, last written 20" in found["version"]
    assert "config.toml" in found["files"]


def test_a_killed_and_a_running_run(tmp_path: Path, checkpoint: bytes) -> None:
    run = run_with(tmp_path / "run", checkpoint, finished=False, measured=False)
    description = describe(run)
    assert description.title == f"{run}: stopped; go on with: tnvmc run --resume {run}"
    found = told(description)
    assert found["progress"].startswith("12 of 40 steps")
    assert found["last steps"].startswith("step 10: energy per site -0.5")
    assert found["measured"] == "not yet"
    assert found["observables"].startswith("none; measure them with: tnvmc measure")
    with RunFolder.reopen(run, 12):
        assert describe(run).title == f"{run}: running"


def test_a_result_of_an_earlier_state_is_told(tmp_path: Path, checkpoint: bytes) -> None:
    run = run_with(tmp_path / "run", checkpoint)
    lines = read_history(run)
    write_history(run, [*lines, lines[-1] | {"step": 40}])
    description = describe(run)
    assert "stopped" in description.title
    assert told(description)["measured"].endswith("after 40 steps, not the last")


def test_what_is_damaged_is_told_and_the_rest_is_shown(
    tmp_path: Path, checkpoint: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_with(tmp_path / "run", checkpoint)
    history = (run / "history.jsonl").read_text().splitlines()
    history[19] = history[19][:50]
    (run / "history.jsonl").write_text("\n".join(history))
    (run / "result.json").write_text('{"energy": 1}')
    (run / "observables.json").write_bytes(b"\xff\xfe")
    (run / "checkpoint.h5").write_bytes(checkpoint[: len(checkpoint) // 2])
    (run / "config.toml").unlink()
    assert main(["show", str(run)]) == 1
    out = capsys.readouterr().out
    assert "19 steps in" in out
    damage = describe(run).damage
    assert [(found.file, found.code) for found in damage] == [
        ("config.toml", "missing"), ("history.jsonl", "bad_line"), ("result.json", "bad_content"),
        ("observables.json", "not_text"), ("checkpoint.h5", "unreadable"),
    ]  # fmt: skip
    assert out.count("DAMAGED") == 5


def test_a_lost_history_is_told(tmp_path: Path, checkpoint: bytes) -> None:
    run = run_with(tmp_path / "run", checkpoint)
    (run / "history.jsonl").unlink()
    assert [(each.file, each.code) for each in describe(run).damage] == [
        ("history.jsonl", "missing")
    ]


def test_a_torn_last_line_and_a_lost_checkpoint(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", finished=False, measured=False)
    with open(run / "history.jsonl", "a") as file:
        file.write('{"step": 12, "ene')
    assert describe(run).damage == (
        Damage("history.jsonl", "bad_line", line=13),
        Damage("checkpoint.h5", "missing"),
    )


def test_a_single_checkpoint_and_a_saved_state(tmp_path: Path, checkpoint: bytes) -> None:
    path = tmp_path / "c.h5"
    path.write_bytes(checkpoint)
    found = told(describe(path))
    assert found["holds"] == "a checkpoint"
    assert found["model"].startswith("heisenberg (fingerprint ")
    assert found["lattice"] == "square, 2 x 2 places, open"
    assert found["state"] == "PEPS, D = 2, float64"
    assert found["progress"] == "1 steps done, 4 walkers"
    peps, theta = load_state(path)
    assert peps.D == 2
    peps.save(tmp_path / "state.h5", theta)
    found = told(describe(tmp_path / "state.h5"))
    assert found["holds"] == "a saved state"
    assert found["parameters"] == "32"
    alike = PEPS(peps.lattice, 2, sharing=sharing(heisenberg(peps.lattice)))
    alike.save(tmp_path / "shared.h5", np.ones(alike.n_params))
    found = told(describe(tmp_path / "shared.h5"))
    assert found["state"] == "PEPS, D = 2, float64, tensors shared by 8 symmetries"
    peps.save(tmp_path / "nan.h5", np.full(32, np.nan))
    with pytest.raises(ValueError, match="parameters are not finite"):
        describe(tmp_path / "nan.h5")


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for path, complaint in (
        (tmp_path / "none", "no such folder"),
        (tmp_path, "holds no run"),
        (tmp_path / "notes.txt", "not a saved state"),
    ):
        assert main(["show", str(path)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("tnvmc: ")
        assert error.count("\n") == 1
        assert complaint in error
    with pytest.raises(FolderError):
        describe(tmp_path)


def test_a_comparison_names_its_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "several"
    for name in ("rbm", "PEPS D=2"):
        write_run(folder / name)
    (folder / "comparison.toml").write_text("")
    one, other = folder / "PEPS D=2", folder / "rbm"
    verbs = (["converge"], ["run", "--resume"])
    for verb in verbs:
        assert main([*verb, str(folder)]) == 2
        error = capsys.readouterr().err
        assert error == f"tnvmc: {folder}: holds a comparison; try '{one}' or {other}\n"


@pytest.mark.whole
def test_what_is_out_of_the_ordinary_in_the_settings(tmp_path: Path) -> None:

    run = write_run(tmp_path / "run")
    drawn = CONFIG["sampler"] | {"power": 0.5}
    couplings = {"model": "xxz", "J": [1.0, 2.0], "Jz": 1.0, "h": [0.1, 0.2]}
    changed = {"sampler": drawn, "hamiltonian": couplings}
    write_toml(run / "config.toml", CONFIG | changed)
    found = told(describe(run))
    assert found["sampling"] == "steps drawn from |psi|^1"
    assert found["model"] == "xxz, J bond by bond, Jz = 1, h site by site"
    page = report_html(read_run(run))
    assert "steps drawn from |psi|^1" in page
    assert "J bond by bond" in page


@pytest.mark.whole
def test_an_excited_state_is_told_as_one(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    assert "orthogonal" not in told(describe(run))
    write_toml(run / "config.toml", CONFIG | {"orthogonal": [{"run": "runs/ground"}]})
    held = read_json(run / "result.json")
    overlap = {"squared": 0.0012, "error": 0.0013, "penalty": 3.0}
    write_json(run / "result.json", held | {"overlaps": [overlap]})
    assert told(describe(run))["orthogonal"] == "to runs/ground: squared overlap 0.0012(13)"
    page = report_html(read_run(run))
    assert "0.0012(13)" in page and "orthogonal to ground" in page


def test_an_error_that_is_not_known_is_not_zero(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    unknown = {"energy_error": None, "energy_per_site_error": None, "relative_error_error": None}
    held = read_json(run / "result.json")
    write_json(run / "result.json", held | unknown)
    found = told(describe(run))
    assert "-0.574232 +- unknown" in found["measured"]
    assert "+- unknown; exact -0.5743254416 (" in found["compared"]


def test_steps_of_all_stages_count(tmp_path: Path) -> None:

    run = write_run(tmp_path / "run", finished=False, measured=False)
    stages = [{"D": 2, "steps": 30}, {"D": 3}]
    write_toml(run / "config.toml", CONFIG | {"stage": stages})
    assert told(describe(run))["progress"].startswith("12 of 70 steps")


@pytest.mark.usefixtures("page_without_pictures")
def test_observables_of_an_earlier_step_are_told(tmp_path: Path, checkpoint: bytes) -> None:
    run = run_with(tmp_path / "run", checkpoint)
    file = run / "observables.json"
    held = read_json(file)
    write_json(file, held | {"step": 10})
    assert "those after 10 steps, the run has made 40" in str(describe(run))
    assert "those after 10 steps, the run has made 40" in report_html(read_run(run))
    write_json(file, held | {"step": 40})
    assert "those after" not in str(describe(run))
