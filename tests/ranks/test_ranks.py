"""One program on several ranks gives what one process gives, in every bit; and how it ends when a rank does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.pictures import composed_only
from tnvmc.app.cli import main
from tnvmc.backend.mpi import ranks_of as ranks_in_use
from tnvmc.backend.process import launched, shares

pytest.importorskip("mpi4py")

MPIEXEC = Path(sys.executable).parent / "mpiexec"
WAITS_ASLEEP = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1", "MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
"""For MPICH: ranks that wait leave the cores to others, of which there are more than cores."""
needs_mpiexec = pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec beside Python")

SETTINGS = """
[lattice]
shape = [2, 4]
[hamiltonian]
model = "heisenberg"
[ansatz]
D = 2
[sampler]
n_walkers = 8
n_samples = 16
[optimizer]
steps = 4
[measure]
n_samples = 32
[run]
"""


def environment() -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **WAITS_ASLEEP}


def on_ranks(n: int, *arguments: str) -> list[str]:
    return [str(MPIEXEC), "-n", str(n), sys.executable, *arguments]


def finished(n: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        on_ranks(n, *arguments), check=False, capture_output=True, text=True, timeout=600,
        env=environment(),
    )  # fmt: skip


def results(group: str, n: int, folder: Path) -> dict[str, Any]:
    """What the cases of a group give on n ranks."""
    script, file = str(Path(__file__).parent / "cases.py"), folder / f"{n}.json"
    done = finished(n, script, group, str(file))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(file.read_text())
    return found


@pytest.mark.whole
@needs_mpiexec
def test_three_ranks_give_the_bits_of_one(tmp_path: Path) -> None:
    assert results("default", 3, tmp_path) == results("default", 1, tmp_path)


@needs_mpiexec
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("n", [2, 4])
def test_other_numbers_and_states_and_rules(tmp_path: Path, n: int) -> None:
    pytest.importorskip("flax")
    assert results("more", n, tmp_path) == results("more", 1, tmp_path)


@dataclass(frozen=True)
class Told:
    """What all ranks said of one command."""

    statuses: list[int]
    output: str
    errors: str


def commands(n: int, folder: Path, *each: Sequence[str]) -> list[Told]:
    """Commands on n ranks in one launch, which ends with the status of the last."""
    folder.mkdir()
    (folder / "commands.json").write_text(json.dumps(each))
    done = finished(n, str(Path(__file__).parent / "commands.py"), str(folder))
    assert (folder / "0.json").exists(), done.stderr
    of_ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(n)]
    found = [
        Told([*statuses], "".join(outputs), "".join(errors))
        for statuses, outputs, errors in (zip(*of_one) for of_one in zip(*of_ranks))
    ]
    assert done.returncode == found[-1].statuses[0], done.stderr
    return found


@pytest.mark.whole
@needs_mpiexec
def test_commands_on_ranks_write_one_folder_and_complain_once(tmp_path: Path) -> None:
    """A run is resumed on another number of ranks, and is then the run of one process; so is a comparison."""
    run, compare = compared_files(tmp_path)

    def out(name: str) -> tuple[str, str]:
        return "--out", str(tmp_path / name)

    begun, again, compared, few = commands(
        2, tmp_path / "two ranks",
        ["run", run, *out("a"), "--set", "optimizer.steps=2"],
        ["run", run, *out("a")],
        ["compare", compare, *out("of two")],
        ["run", run, *out("c"), "--set", "sampler.n_walkers=1"],
    )  # fmt: skip
    assert begun.statuses == [0, 0], begun.errors
    assert begun.output.count("written to") == 1
    assert again.statuses == [2, 2]
    assert again.errors.count("holds a run already") == 1
    assert compared.statuses == [0, 0], compared.errors
    assert compared.output.count("[2/2] product") == 1
    assert few.statuses == [2, 2]
    assert few.errors.count("tnvmc: ") == 1
    assert not (tmp_path / "c").exists()
    resume = ["run", "--resume", str(tmp_path / "a"), "--set", "optimizer.steps=4"]
    [resumed] = commands(3, tmp_path / "three ranks", resume)
    assert resumed.statuses == [0, 0, 0], resumed.errors
    with composed_only():
        assert main(["run", run, *out("b")]) == main(["compare", compare, *out("of one")]) == 0
    assert energies(tmp_path / "a") == energies(tmp_path / "b")
    one, two = (rows(tmp_path / name) for name in ("of one", "of two"))
    assert one == two and len(one) == 2


def compared_files(folder: Path) -> tuple[str, str]:
    """Settings of a run, and of a comparison with a product state."""
    run, compare = folder / "run.toml", folder / "compare.toml"
    run.write_text(SETTINGS)
    compare.write_text(
        "[compare]\nsteps = 2\n"
        + SETTINGS.replace("[ansatz]", '[[ansatz]]\nname = "peps"').replace("steps = 4", "")
        + '[[ansatz]]\nname = "product"\nkind = "product"\n'
    )
    return str(run), str(compare)


def rows(folder: Path) -> list[tuple[Any, ...]]:
    """Names, energies and steps of a comparison."""
    found = json.loads((folder / "comparison.json").read_text())["rows"]
    return [(row["name"], row["energy"], row["steps"]) for row in found]


def energies(folder: Path) -> list[Any]:
    lines = (folder / "history.jsonl").read_text().splitlines()
    result = json.loads((folder / "result.json").read_text())
    return [*(json.loads(line)["energy"] for line in lines), result["energy"]]


@needs_mpiexec
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_ends_the_run_and_leaves_a_good_checkpoint(tmp_path: Path, rank: int) -> None:
    """The launcher notices; what is resumed is the run that was not killed."""
    out = tmp_path / "a"
    ranks_end_by(tmp_path, lambda pids: os.kill(pids[rank], signal.SIGKILL))
    done = finished(1, "-m", "tnvmc", "run", "--resume", str(out), "--set", "optimizer.steps=60")
    assert done.returncode == 0, done.stderr
    file = str(tmp_path / "run.toml")
    whole = ("run", file, "--out", str(tmp_path / "b"), "--set", "optimizer.steps=60")
    done = finished(1, "-m", "tnvmc", *whole)
    assert done.returncode == 0, done.stderr
    assert energies(out) == energies(tmp_path / "b")


@needs_mpiexec
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_any_rank_stops_the_run_with_a_checkpoint(
    tmp_path: Path, number: signal.Signals
) -> None:
    status = ranks_end_by(tmp_path, lambda pids: os.kill(pids[2], number))
    assert status == 128 + number
    assert (tmp_path / "a" / "checkpoint.h5").exists()


def ranks_end_by(folder: Path, end: Callable[[list[int]], None]) -> int:
    """Start a long run on three ranks, end it after some steps, and wait: half a minute at most."""
    file = folder / "run.toml"
    file.write_text(SETTINGS.replace("steps = 4", "steps = 60"))
    command = ("-m", "tnvmc", "run", str(file), "--out", str(folder / "a"))
    more = ("--set", "optimizer.steps=100000")
    with subprocess.Popen(
        on_ranks(3, *command, *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=environment(),
    ) as running:  # fmt: skip
        history, until = folder / "a" / "history.jsonl", time.monotonic() + 300
        while not history.exists() or history.read_bytes().count(b"\n") < 3:
            assert time.monotonic() < until
            time.sleep(0.02)
        end(sorted(ranks_of(running.pid)))
        return running.wait(30)


def ranks_of(launcher: int) -> list[int]:
    """Processes of Python below a launcher; they are started in the order of ranks."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (entry / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        parents[int(entry.name)] = (int(rest.split()[1]), name)

    def below(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid][0]
            if pid == launcher:
                return True
        return False

    return [pid for pid, (_, name) in parents.items() if below(pid) and name.startswith("python")]


def test_a_run_that_each_process_makes_by_itself_is_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    told = []
    for rank in (0, 1):
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", str(rank))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ranks_in_use(None)
        told.append([each.filename for each in caught])
    assert [len(each) for each in told] == [1, 0]
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranks_in_use(None)


def test_a_launcher_is_known_by_what_it_says() -> None:
    assert launched({}) == (0, 1)
    assert launched({"PMI_SIZE": "4", "PMI_RANK": "2"}) == (2, 4)
    assert launched({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}) == (0, 2)
    assert launched({"SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "7"}) == (7, 8)
    assert launched({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}) == (0, 1)  # of the script, not srun


@pytest.mark.parametrize(("sizes", "n"), [([4] * 6, 4), ([4, 16, 16, 4], 2), ([1, 1], 3), ([], 2)])
def test_shares_hold_each_part_once(sizes: list[int], n: int) -> None:
    dealt = shares(sizes, n)
    assert len(dealt) == n
    assert [part for share in dealt for part in share] == [*range(len(sizes))]


def test_shares_are_even() -> None:
    assert [sum([4, 16, 16, 4][i] for i in share) for share in shares([4, 16, 16, 4], 2)] == [
        20,
        20,
    ]
