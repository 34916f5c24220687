"""[[orthogonal]]: an excited state as a run of its own, which goes on bit for bit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.compare_files import strict_json
from tests.run_files import read_history
from tnvmc.app.archive import archive_run
from tnvmc.app.cli import main
from tnvmc.app.load_run import load_run
from tnvmc.app.run import resume_run, run_file
from tnvmc.exact import exact_levels
from tnvmc.lattice import square
from tnvmc.operators.models import heisenberg
from tnvmc.settings.problems import ConfigError
from tnvmc.storage.hdf5 import StateFileError

SETTINGS = """
lattice = {shape = [2, 2]}
hamiltonian = {model = "heisenberg"}
ansatz = {D = 2}
sampler = {n_walkers = 8, n_samples = 32}
measure = {n_samples = 64}
run = {threads = 1}
optimizer = {steps = 3}
"""


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    """A finished run of the ground state, and the settings of an excited one."""
    (tmp_path / "ground.toml").write_text(SETTINGS)
    kept = f'[[orthogonal]]\nrun = "{tmp_path / "ground"}"\npenalty = 3.0\n'
    (tmp_path / "excited.toml").write_text(SETTINGS + kept)
    run_file(tmp_path / "ground.toml", tmp_path / "ground")
    return tmp_path


def excited(at: Path, *overrides: str, out: str = "excited") -> dict[str, Any]:
    """Run the excited state."""
    return run_file(at / "excited.toml", at / out, overrides)


def energies(folder: Path) -> list[float]:
    """Of the steps."""
    return [line["energy"] for line in read_history(folder)]


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::tnvmc.UnreliableWarning")
def test_an_excited_state_is_compared_with_its_own_level(ground: Path) -> None:
    found = excited(ground)
    (overlap,) = found["overlaps"]
    assert overlap["penalty"] == 3.0
    assert overlap["error"] > 0
    levels = exact_levels(heisenberg(square(2, 2)), 2)
    assert found["exact_energy"] == pytest.approx(levels[1], abs=1e-9)
    lines = read_history(ground / "excited")
    assert all(len(line["overlaps"]) == 1 for line in lines)
    assert load_run(ground / "excited").history[-1].overlaps[0].penalty == 3.0


@pytest.mark.whole
def test_it_goes_on_bit_for_bit_also_where_both_folders_were_moved(
    ground: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    excited(ground, "optimizer.steps=6")
    excited(ground, out="cut")
    moved = ground / "moved"
    moved.mkdir()
    for name in ("ground", "cut"):
        (ground / name).rename(moved / name)
    resume_run(moved / "cut", ["optimizer.steps=6"])
    assert energies(moved / "cut") == energies(ground / "excited")


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::tnvmc.UnreliableWarning")
def test_a_copy_keeps_to_its_own_states(
    ground: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kept run of a copy lies in it, whatever has become of the first one, and wherever the command is given."""
    excited(ground)
    copy = ground / "copy"
    for name in ("ground", "excited"):
        shutil.copytree(ground / name, copy / name)
    resume_run(ground / "ground", ["optimizer.steps=5"])
    monkeypatch.chdir(copy)
    energy = strict_json(copy / "excited/result.json")["energy"]
    (kept,) = load_run("excited").vmc.method.orthogonal_to
    assert (kept.point.theta == load_run("ground").vmc.measured_theta()).all()
    for command in (["measure"], ["converge"], ["run", "--resume"], ["show"]):
        assert main([*command, "excited"]) == 0
    assert "to ground:" in capsys.readouterr().out
    assert strict_json(copy / "excited/result.json")["energy"] == energy


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::tnvmc.UnreliableWarning")
def test_what_is_moved_alone_keeps_to_what_stayed(ground: Path) -> None:
    excited(ground)
    (ground / "alone").mkdir()
    (ground / "excited").rename(ground / "alone/excited")
    before = (ground / "alone/excited/result.json").read_bytes()
    resume_run(ground / "alone/excited")
    assert (ground / "alone/excited/result.json").read_bytes() == before  # nothing to do


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::tnvmc.UnreliableWarning")
def test_archives_lie_beside_each_other(ground: Path) -> None:
    excited(ground)
    archives = ground / "archives"
    for name in ("ground", "excited"):
        archive_run(ground / name, archives / name)
    for name in ("ground", "excited"):
        shutil.rmtree(ground / name)
    assert main(["measure", str(archives / "excited")]) == 0


@pytest.mark.whole
def test_another_kept_state_is_another_run(ground: Path) -> None:
    excited(ground)
    other = ground / "other"
    run_file(ground / "ground.toml", other, ["run.seed=5"])
    with pytest.raises(StateFileError, match="orthogonal"):
        resume_run(ground / "excited", [f"orthogonal.1.run={other}", "optimizer.steps=6"])


@pytest.mark.whole
@pytest.mark.parametrize(
    "override",
    ["orthogonal.1.run=nowhere", "sampler.magnetisation=2", "hamiltonian.J=0.5",
     "orthogonal.1.penalty=0", "orthogonal.1.run=OWN"],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused(
    ground: Path, override: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(ground / "excited")
    override = override.replace("OWN", out)
    command = ["run", str(ground / "excited.toml"), "--out", out, "--set", override]
    assert main(command) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "orthogonal" in told
    assert not (ground / "excited").exists()


@pytest.mark.whole
def test_a_run_that_is_not_finished_is_refused(ground: Path) -> None:
    (ground / "ground" / "result.json").unlink()
    with pytest.raises(ConfigError, match="--resume"):
        excited(ground)


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::tnvmc.UnreliableWarning")
def test_a_kept_run_that_went_on_is_named(ground: Path, capsys: pytest.CaptureFixture[str]) -> None:
    excited(ground)
    resume_run(ground / "ground", ["optimizer.steps=5"])
    for command in (["measure"], ["converge"], ["run", "--resume"]):
        capsys.readouterr()
        assert main([*command, str(ground / "excited")]) == 2
        told = capsys.readouterr().err
        assert str(ground / "ground") in told and "--out" in told


def test_a_state_that_is_kept_twice_is_refused(ground: Path) -> None:
    """It was counted as two levels, and the energy compared with none."""
    text = (ground / "excited.toml").read_text()
    shutil.copytree(ground / "ground", ground / "copy")
    for again in ("ground", "copy"):
        (ground / "twice.toml").write_text(f'{text}[[orthogonal]]\nrun = "{ground / again}"\n')
        with pytest.raises(ConfigError, match=r"orthogonal\.2\.run"):
            run_file(ground / "twice.toml", ground / "twice")
        assert not (ground / "twice").exists()


@pytest.mark.whole
def test_what_another_hamiltonian_differs_in_is_named(ground: Path) -> None:
    with pytest.raises(ConfigError, match=r"J 1\.0 \(now 0\.5\)"):
        excited(ground, "hamiltonian.J=0.5")


@pytest.mark.whole
def test_a_folder_of_sectors_names_its_runs(ground: Path) -> None:
    several = ground / "several"
    several.mkdir()
    (several / "sectors.toml").write_text("")
    (ground / "ground").rename(several / "ground")
    with pytest.raises(ConfigError, match=str(several / "ground")):
        excited(ground, f"orthogonal.1.run={several}")


def test_exact_tells_the_level_of_an_excited_run(
    ground: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["exact", str(ground / "excited.toml")]) == 0
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("level 2")]
    levels = exact_levels(heisenberg(square(2, 2)), 2)
    assert float(line.split()[2]) == pytest.approx(levels[1], abs=1e-9)
