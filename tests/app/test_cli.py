"""The command line: what a run leaves behind, how it goes on, and what it says to bad input."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import tnvmc
from tests.run_files import read_history
from tnvmc.app import run as session
from tnvmc.app.cli import main
from tnvmc.app.command_line import warning_line
from tnvmc.backend.arguments import ArgumentWarning
from tnvmc.estimate.diagnostic import Diagnostic, UnreliableWarning
from tnvmc.report.plots import energy_picture
from tnvmc.report.show import describe
from tnvmc.shown import sentence
from tnvmc.storage import run_folder
from tnvmc.storage.hdf5 import read_parameters
from tnvmc.storage.run_folder import RunFolder

SETTINGS = """
[lattice]
kind = "chain"
shape = 4
boundary = "periodic"

[hamiltonian]
model = "tfim"

[ansatz]
kind = "periodic_mps"
D = 2
init = "random"

[sampler]
n_walkers = 4
n_samples = 16

[optimizer]
steps = 6

[measure]
n_samples = 64

[run]
threads = 1
"""

RESULT_KEYS = [
    "energy",
    "energy_error",
    "energy_per_site",
    "energy_per_site_error",
    "variance",
    "v_score",
    "tau",
    "r_hat",
    "acceptance",
    "closure_spread",
    "n_sites",
    "n_parameters",
    "n_samples",
    "wall_time_s",
    "seconds_per_sample",
    "units",
    "seed",
    "version",
    "config",
]


def strict_json(path: Path) -> Any:
    return json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))


TIMES = ("seconds", "compile_seconds")


def history(folder: Path) -> list[dict[str, Any]]:
    lines = read_history(folder)
    return [{k: v for k, v in line.items() if k not in TIMES} for line in lines]


def outcome(folder: Path) -> tuple[Any, ...]:
    """All that two equal runs share: history, parameters, result; not times and places."""
    result = strict_json(folder / "result.json")
    timing = ("seconds", "seconds_per_sample", "wall_time_s", "config", "checksum", "provenance")
    _, theta = read_parameters(folder / "checkpoint.h5")
    return history(folder), theta.tobytes(), {k: v for k, v in result.items() if k not in timing}


def complaint(capsys: pytest.CaptureFixture[str], status: int, *arguments: object) -> str:
    """Run, expect one line on stderr and this exit status; before the first step nothing else."""
    try:
        found = main([str(argument) for argument in arguments])
    except SystemExit as exit_:
        found = int(exit_.code or 0)
    shown, error = capsys.readouterr()
    assert found == status, error
    assert status != 2 or not shown or "\nstep" in shown
    assert error.startswith("tnvmc")
    assert error.count("\n") == 1
    assert "Traceback" not in error
    return error


@pytest.mark.whole
def test_a_run_leaves_all_its_files(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tnvmc.report.plots.energy_picture", energy_picture)
    assert main(["run", "study.toml"]) == 0
    folder = file.parent / "runs" / "study"
    assert sorted(os.listdir(folder)) == [
        "checkpoint.h5", "config.toml", "energy.png", "history.jsonl", "result.json",
    ]  # fmt: skip
    result = strict_json(folder / "result.json")
    assert set(RESULT_KEYS) <= set(result)
    assert result["units"] == "Pauli"
    assert result["version"] == tnvmc.__version__
    assert result["n_samples"] == 64
    assert [line["step"] for line in history(folder)] == list(range(6))
    shown = capsys.readouterr().out
    for word in ("energy per site", "exact", "relative error", "variance per site", "V-score",
                 "tau", "R-hat", "acceptance", "walltime"):  # fmt: skip
        assert word in shown
    assert "\x1b" not in shown


@pytest.mark.whole
def test_the_written_settings_give_the_same_run(file: Path) -> None:
    assert main(["run", "study.toml"]) == 0
    assert main(["run", "runs/study/config.toml", "--out", "again"]) == 0
    assert outcome(file.parent / "runs" / "study") == outcome(file.parent / "again")


@pytest.mark.whole
@pytest.mark.parametrize("stop_after", [0, 2, 3])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stop_after: int
) -> None:
    assert main(["run", "study.toml", "--out", "whole"]) == 0
    capsys.readouterr()
    append = RunFolder.append

    def interrupted(self: RunFolder, record: Any) -> None:
        append(self, record)
        if record["step"] == stop_after:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "append", interrupted)
        line = complaint(capsys, 130, "run", "study.toml", "--out", "parts")
    assert f"stopped after {stop_after + 1} steps" in line
    assert "tnvmc run --resume parts" in line
    assert main(["run", "--resume", "parts"]) == 0
    assert outcome(file.parent / "whole") == outcome(file.parent / "parts")


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_folder_that_is_gone_is_told(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    interrupted: bool,
) -> None:
    """Removed under the run, which then saves: because of Ctrl-C, or in its turn."""
    append = RunFolder.append

    def removed(self: RunFolder, record: Any) -> None:
        append(self, record)
        if record["step"] == 2:
            shutil.rmtree(self.path)
            if interrupted:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(RunFolder, "append", removed)
    line = complaint(capsys, 2, "run", "study.toml", "--out", "gone")
    assert "gone: the folder is gone, and the run with it; start again" in line


@pytest.mark.whole
def test_a_killed_run_goes_on_bit_for_bit(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after SIGKILL in step 5: the history is ahead of the checkpoint, its last line torn."""
    assert main(["run", "study.toml", "--out", "whole"]) == 0
    append = RunFolder.append

    class Killed(BaseException):
        """Nothing catches this."""

    def killed(self: RunFolder, record: Any) -> None:
        if record["step"] == 5:
            raise Killed
        append(self, record)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(RunFolder, "append", killed)
        main(["run", "study.toml", "--out", "parts"])
    with open("parts/history.jsonl", "a") as torn:
        torn.write('{"step": 5, "energy": -1')
    assert len(history(file.parent / "whole")) == 6
    assert main(["run", "--resume", "parts"]) == 0
    assert outcome(file.parent / "whole") == outcome(file.parent / "parts")


@pytest.mark.whole
def test_a_finished_run_can_be_made_longer(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A cosine would end elsewhere: the longer run would not begin like the shorter one.
    constant = [
        "--set",
        "optimizer.learning_rate=0.1",
        "--set",
        "optimizer.final_learning_rate=0.1",
    ]
    assert (
        main(["run", "study.toml", "--out", "whole", "--set", "optimizer.steps=9", *constant]) == 0
    )
    assert main(["run", "study.toml", "--out", "parts", *constant]) == 0
    before = (file.parent / "parts" / "result.json").read_bytes()
    capsys.readouterr()
    assert main(["run", "--resume", "parts"]) == 0
    shown = capsys.readouterr().out
    assert "nothing to do: all 6 steps were made\n" in shown
    assert "going on" not in shown
    assert (file.parent / "parts" / "result.json").read_bytes() == before
    assert main(["run", "--resume", "parts", "--set", "optimizer.steps=9"]) == 0
    assert outcome(file.parent / "whole") == outcome(file.parent / "parts")


@pytest.mark.whole
def test_steps_that_were_made_are_not_taken_back(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "study.toml", "--out", "whole"]) == 0
    folder = file.parent / "whole"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    text = complaint(capsys, 2, "run", "--resume", "whole", "--set", "optimizer.steps=5")
    assert "optimizer.steps = 5: the run in whole has made 6 already" in text
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.whole
def test_energies_whose_squares_are_no_numbers(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 60 samples of +-4e200 and 0: with 64 of them the mean of the bonds may be 0
    huge = ["--set", "hamiltonian.J=1e200", "--set", "optimizer.steps=2"]
    huge += ["--set", "measure.n_samples=60"]
    assert main(["run", "study.toml", "--out", "huge", *huge]) == 0
    shown = capsys.readouterr().out
    assert " +- unknown  (Pauli units)" in shown
    assert max(map(len, shown.splitlines())) < 200
    result = strict_json(file.parent / "huge" / "result.json")
    assert abs(result["energy"]) > 1e190
    assert (result["energy_error"], result["v_score"]) == (None, None)
    found = {each["code"]: each for each in result["diagnostics"]}
    doubt = Diagnostic.from_dict(found["energy_without_error"])
    assert f"warning: {sentence(doubt)}" in shown
    assert main(["show", "huge"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) < 200


@pytest.mark.whole
def test_samples_of_a_stage_that_are_rounded_up_are_told(file: Path) -> None:
    with file.open("a") as text:
        text.write("[[stage]]\nD = 2\nsteps = 1\n[[stage]]\nD = 2\nsteps = 1\nn_samples = 10\n")
    file.write_text(file.read_text().replace("[optimizer]\nsteps = 6\n", ""))
    with pytest.warns(ArgumentWarning) as seen:
        assert main(["run", "study.toml"]) == 0
    assert [str(each.message).split(" are")[0] for each in seen] == ["sampler.n_samples = 10: 12"]


def test_enumeration_runs_on_the_same_path(file: Path) -> None:
    assert main(["run", "study.toml", "--set", "sampler.kind=enumerate"]) == 0
    result = strict_json(file.parent / "runs" / "study" / "result.json")
    assert result["energy_error"] == 0
    assert (result["tau"], result["acceptance"]) == (None, None)
    assert result["energy"] >= result["exact_energy"] - 1e-9


def test_exact(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Free fermions: -sum |e_k|, e_k = sqrt(2 + 2 cos k), k odd multiples of pi / 4.
    assert main(["exact", "study.toml"]) == 0
    assert "-5.226251859506" in capsys.readouterr().out
    file.write_text('[lattice]\nshape = [4, 4]\n[hamiltonian]\nmodel = "heisenberg"\n')
    assert main(["exact", "study.toml"]) == 0
    shown = capsys.readouterr().out
    assert "-9.18920706519" in shown
    assert "dimension 12870" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "needs a FILE.toml"),
        (["walk"], "no command 'walk'"),
        (["runn", "study.toml"], "did you mean 'run'?"),
        (["run", "study.toml", "--steps", "20"], "--set optimizer.steps=20"),
        (["run", "study.toml", "--n-samples=20"], "--set sampler.n_samples=20"),
        (["run", "study.toml", "--set", "lattice.shape=3,3"], "write lattice.shape=[3,3]"),
        (["settings", "vmc.energy"], "tnvmc settings lists all"),
        (["run", "absent.toml"], "no such file"),
        (["run", "study.toml", "--set", "ansatz.d=3"], "did you mean 'D'?"),
        (["run", "study.toml", "--set", "ansatz.D=-3"], "ansatz.D = -3: must be an integer >= 1"),
        (["run", "study.toml", "--set", "ansatz.D='x'"], "ansatz.D = 'x': must be an integer"),
        (["run", "study.toml", "--set", "sampler.n=3"], "sampler.n: unknown key"),
        (["run", "study.toml", "--set", "hamiltonian.h=[1.0]"], "coupling h"),
        (["run", "study.toml", "--set", "lattice.boundary=cylinder"], "open, periodic"),
        (["run", "study.toml", "--set", "lattice.shape=30", "--set", "sampler.kind=enumerate"],
         "sampler.kind = 'enumerate': 1073741824 configurations"),
        (["run", "study.toml", "--set", "hamiltonian.model=heisenberg", "--set", "lattice.shape=5"],
         "use an even number of sites"),
        (["run", "study.toml", "--set", "hamiltonian.model=heisenberg", "--set", "lattice.shape=6",
          "--set", "sampler.magnetisation=3"], "sampler.magnetisation = 3"),
        (["run", "study.toml", "--out", "study.toml"], "is a file"),
        (["run", "study.toml", "--out", "study.toml/x"], "cannot be written"),
        (["run", "study.toml", "--set", "ansatz.init=absent.h5"], "absent.h5: no such file"),
        (["run", "study.toml", "--set", "ansatz.init=study.toml"], "not a saved state"),
        (["run", "--resume", "absent"], "holds no run to resume"),
        (["run", "--resume", "a", "--out", "b"], "omit --out"),
        (["exact", "study.toml", "--set", "lattice.shape=64"], "exact diagonalisation"),
        (["exact"], "FILE.toml"),
    ],
)  # fmt: skip
def test_bad_input(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert words in complaint(capsys, 2, *arguments)
    assert os.listdir(file.parent) == ["study.toml"]
    assert file.read_text() == SETTINGS


def test_names_and_places_that_cannot_be(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Too long, a loop of links, a pipe that nobody writes, a device that never ends: one line each."""
    Path("loop").symlink_to("loop")
    os.mkfifo("pipe")
    before = sorted(os.listdir(file.parent))
    for place in ("n" * 300, "loop", "loop/x", "pipe", "/dev/zero", "study.toml/x"):
        complaint(capsys, 2, "run", place)
        complaint(capsys, 2, "exact", place)
        for command in (["run", "--resume"], ["show"], ["measure"], ["converge"], ["report"]):
            complaint(capsys, 2, *command, place)
    for place in ("n" * 300, "loop", "pipe", "/dev/null"):
        complaint(capsys, 2, "run", "study.toml", "--out", place)
    assert sorted(os.listdir(file.parent)) == before


@pytest.mark.whole
def test_files_of_a_run_that_are_something_else(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["run", "study.toml", "--out", "whole"]) == 0
    capsys.readouterr()
    resume = ("run", "--resume", "part", "--set", "optimizer.steps=8")
    for name in ("history.jsonl", "checkpoint.h5", "config.toml"):
        for content in (b"null\n", b"[]", b'{"step": null}\n', b"", "folder", "pipe", "link"):
            shutil.rmtree("part", ignore_errors=True)
            shutil.copytree("whole", "part")
            path = Path("part") / name
            path.unlink()
            if isinstance(content, bytes):
                path.write_bytes(content)
            elif content == "link":
                path.symlink_to(f"../whole/{name}")
            else:
                (Path.mkdir if content == "folder" else os.mkfifo)(path)
            kept = {p.name for p in Path("part").iterdir()}
            complaint(capsys, 2, *resume)
            assert {p.name for p in Path("part").iterdir()} == kept
    for content in (b"null", b"[]", b'{"energy": -1}', b""):  # the run goes on, and writes it anew
        Path("whole/result.json").write_bytes(content)
        complaint(capsys, 2, "converge", "whole")

    def not_ours(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(run_folder, "open", not_ours, raising=False)
    assert "Permission denied" in complaint(capsys, 2, "run", "--resume", "whole")


def test_toml_errors_name_the_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("[lattice]\nshape == 3\n")
    assert "line 2" in complaint(capsys, 2, "run", "study.toml")


@pytest.mark.whole
def test_a_run_is_never_overwritten(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "study.toml", "--out", "first"]) == 0
    capsys.readouterr()
    folder = file.parent / "first"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "holds a run already" in complaint(capsys, 2, "run", "study.toml", "--out", "first")
    for change, words in {
        "ansatz.D=3": "D 2 (now 3)",
        "sampler.n_walkers=8": "4 walkers (now 8)",
        "hamiltonian.h=0.5": "couplings",
        "optimizer.momentum=0.5": "keeps its own",
        "optimizer.kind=adam": "keeps its own",
        "ansatz.dtype=complex128": "dtype float64 (now complex128)",
    }.items():
        assert words in complaint(capsys, 2, "run", "--resume", "first", "--set", change)
    (folder / "checkpoint.h5").write_bytes(before["checkpoint.h5"][:900])
    assert "damaged" in complaint(capsys, 2, "run", "--resume", "first")
    (folder / "checkpoint.h5").write_bytes(before["checkpoint.h5"])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.whole
@pytest.mark.parametrize("where", ["fsync", "append"])
def test_a_full_disk_is_told_and_survived(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    assert main(["run", "study.toml", "--out", "whole"]) == 0
    capsys.readouterr()
    append = RunFolder.append

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def append_until_full(self: RunFolder, record: Any) -> None:
        append(self, record)
        if record["step"] == 3:
            patch.setattr(os if where == "fsync" else RunFolder, where, full)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "append", append_until_full)
        line = complaint(capsys, 2, "run", "study.toml", "--out", "parts")
    steps = 2 if where == "fsync" else 4
    assert f"No space left on device); the checkpoint after {steps} steps is good" in line
    assert "tnvmc run --resume parts" in line
    assert main(["run", "--resume", "parts"]) == 0
    assert outcome(file.parent / "whole") == outcome(file.parent / "parts")


def test_errors_of_the_program_keep_their_traceback(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a mistake in the program")

    with pytest.raises(ValueError, match="boundary"):
        main(["run", "study.toml", "--traceback", "--set", "lattice.boundary=cylinder"])
    monkeypatch.setattr(session, "build_operator", broken)
    with pytest.raises(KeyError):
        main(["run", "study.toml"])


@pytest.mark.parametrize("folder", ["replaced", "gone"])
def test_a_folder_that_was_made_anew_is_left_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    """As by a second run, started after the first one's folder was removed."""
    append = RunFolder.append

    def removed(self: RunFolder, record: Any) -> None:
        if record["step"] == 3:
            shutil.rmtree(self.path)
            if folder == "replaced":
                RunFolder.create(self.path, {"other": {"x": 1}}).close()
        append(self, record)

    monkeypatch.setattr(RunFolder, "append", removed)
    line = complaint(capsys, 2, "run", "study.toml", "--out", "run")
    assert "start again" in line
    held = sorted(os.listdir("run")) if Path("run").exists() else []
    assert held == (["config.toml", "history.jsonl"] if folder == "replaced" else [])


@pytest.mark.whole
def test_output_that_is_lost_stops_the_run_with_a_checkpoint(file: Path) -> None:
    """A reader that goes away, and a terminal that closes: nothing is told, all is kept."""
    ends = {"pipe": os.pipe(), "terminal": os.openpty()}
    with contextlib.ExitStack() as stack:
        runs = {}
        for name, (reads, writes) in ends.items():
            command = [*LONG_RUN, "--out", name, "--set", "optimizer.steps=2000"]
            begun = subprocess.Popen(command, stdout=writes, stderr=writes, start_new_session=True)
            runs[name] = stack.enter_context(begun)
            os.close(writes)
        for name, process in runs.items():
            await_steps(Path(name), process)
            os.close(ends[name][0])
        assert {name: process.wait(60) for name, process in runs.items()} == dict.fromkeys(
            ends, 141
        )
    for name in ends:
        shown = describe(name)
        assert f"checkpoint after {len(history(file.parent / name))}" in str(shown)
        assert shown.damage == ()


@pytest.mark.whole
def test_a_full_disk_for_the_output_is_no_traceback(file: Path) -> None:
    command = [sys.executable, "-m", "tnvmc", "exact", "study.toml"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, check=False, stdout=full, stderr=-1, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, "tnvmc: output: No space left on device\n")


LONG_RUN = [
    sys.executable, "-m", "tnvmc", "run", "study.toml",
    "--set", "optimizer.steps=100000",
]  # fmt: skip


def await_steps(folder: Path, process: Any) -> None:
    """Wait until a run has made some steps."""
    deadline = time.monotonic() + 60
    while not (
        (lines := folder / "history.jsonl").exists() and lines.read_bytes().count(b"\n") > 3
    ):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)


@pytest.mark.whole
@pytest.mark.usefixtures("hangup_heard")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_real_signals_to_a_real_process(file: Path, number: signal.Signals, status: int) -> None:
    with subprocess.Popen(LONG_RUN, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        folder = file.parent / "runs" / "study"
        await_steps(folder, process)
        process.send_signal(number)
        try:
            error = process.communicate(timeout=60)[1].decode()
        finally:
            process.kill()  # nothing to one that has ended
    assert process.returncode == status
    assert error.count("\n") == 1
    assert "checkpoint written; continue with: tnvmc run --resume" in error
    steps = len(history(folder))
    assert f"stopped after {steps} steps" in error


def test_what_python_is_warned_of_is_one_line() -> None:
    """And not a place in a file of the program."""
    found = UnreliableWarning("VMC.converge: few_walkers")
    assert warning_line(found, UnreliableWarning, "x.py", 3) == "tnvmc: VMC.converge: few_walkers\n"
    assert "x.py" in warning_line("other", UserWarning, "x.py", 3)


@pytest.mark.parametrize(
    ("magnetisation", "sector", "energies", "lower"),
    [("", "0", [-2.0, -2.0], 1), ("[sampler]\nmagnetisation = 2\n", "2", [-1.0, -1.0], 0)],
)
def test_exact_energies_of_a_scan_are_of_the_sector_of_its_runs(
    magnetisation: str, sector: str, energies: list[float], lower: int,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A ring of four, -2 and -1, in fields of which the second has its ground state at 2 Sz = 4;
    of a sector that was chosen nothing is said.
    """
    path = tmp_path / "settings.toml"
    path.write_text(f"""lattice = {{shape = [2, 2]}}
ansatz = {{D = 2}}
scan = {{key = "hamiltonian.term.2.coupling", values = [0.0, -3.0]}}
{magnetisation}[hamiltonian]
model = "terms"
term = [{{ops = "Sx Sx + Sy Sy + Sz Sz", bonds = "nearest"}}, {{ops = "Sz", sites = "all", coupling = 0.0}}]
""")
    assert main(["exact", str(path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = [words for words in lines if words[0].startswith("coupling=")]
    assert [words[1:5] for words in rows] == [["2", "Sz", "=", sector]] * 2
    field = -3.0 * int(sector) / 2  # of the second value
    assert [float(words[5]) for words in rows] == pytest.approx([energies[0], energies[1] + field])
    assert len([words for words in lines if words[0] == "lower"]) == lower


@pytest.mark.parametrize(
    ("hamiltonian", "told"),
    [('{model = "xxz", Jz = -4.0}', "lower"), ('{model = "heisenberg"}', None)],
)
def test_exact_tells_of_a_lower_sector(
    hamiltonian: str, told: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(f"lattice = {{shape = [2, 2]}}\nhamiltonian = {hamiltonian}\n")
    assert main(["exact", str(path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = [words for words in lines if words[0] == "lower"]
    assert bool(found) == bool(told)
    if found:
        assert float(found[0][1]) == pytest.approx(-1.0)  # four bonds of -4 / 4 on four sites
