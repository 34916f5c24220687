"""What is the same for all kinds of several runs: made, stopped, resumed, drawn, refused."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.compare_files import SETTINGS as COMPARED
from tests.compare_files import strict_json
from tests.sector_files import SETTINGS as WITH_SECTORS
from tnvmc.app import series as app
from tnvmc.app.cli import main
from tnvmc.app.run import run_file
from tnvmc.report.figures import style
from tnvmc.series.machine import KINDS, held_series, kind_of_folder
from tnvmc.session.vmc import VMC
from tnvmc.storage.run_folder import SERIES, RunFolder
from tnvmc.vmc.step import OptimisationFailed

ONE_STATE = WITH_SECTORS[: WITH_SECTORS.index("[[sector]]")].replace("[run]\n", "[run]\nEXTRA")
SCANNED = """
[scan]
key = "hamiltonian.J"
values = [0.5, 1.0, 1.5]
observables = ["SzSz"]
"""
AVERAGED = """
[average]
runs = 2
random = { J = [0.5, 1.5] }
"""


@dataclass(frozen=True)
class Case:
    """A file of seconds, and what its kind is called in files and on the command line."""

    name: str
    settings: str
    runs: tuple[str, ...]
    command: str = "run"
    rows: str = "rows"
    bad: str = "ansatz.D=0"  #: a setting that no run can have

    def write(self, folder: Path = Path()) -> str:
        (folder / "study.toml").write_text(self.settings)
        return str(folder / "study.toml")


CASES = {
    "comparison": Case(
        "comparison", COMPARED, ("product", "PEPS D=2", "drawn"), "compare", bad="ansatz.2.D=0"
    ),
    "sectors": Case("sectors", WITH_SECTORS, ("ground", "triplet"), rows="levels"),
    "starts": Case(
        "starts", ONE_STATE.replace("EXTRA", "starts = 2\n"), ("start-1", "start-2"), rows="starts"
    ),
    "average": Case("average", ONE_STATE.replace("EXTRA", "") + AVERAGED, ("seed=5", "seed=6")),
    "scan": Case("scan", ONE_STATE.replace("EXTRA", "") + SCANNED, ("J=0.5", "J=1", "J=1.5")),
}
MADE: dict[str, Path] = {}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory; files of pictures, which take their time, are not encoded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(style, "encode", lambda *_: style.MADE_BY.encode())


@pytest.fixture
def whole(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a file leaves when nothing stops it; to be copied, not changed."""
    if case.name not in MADE:
        path = tmp_path_factory.mktemp(case.name)
        assert main([case.command, case.write(path), "--out", str(path / "out")]) == 0
        MADE[case.name] = path / "out"
    return MADE[case.name]


def energies(folder: str | Path, case: Case) -> list[float]:
    return [row["energy"] for row in strict_json(Path(folder, f"{case.name}.json"))[case.rows]]


def contents(folder: str) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def interrupted(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let the process be stopped after some steps, of all runs together."""
    step, made = VMC.step, []

    def stops(self: VMC, *given: Any) -> Any:
        made.append(1)
        if len(made) == after:
            raise KeyboardInterrupt
        return step(self, *given)

    monkeypatch.setattr(VMC, "step", stops)


def test_every_kind_is_tested_here() -> None:
    assert {kind.name for kind in KINDS} == set(CASES)
    assert {f"{kind.name}.toml": kind.title for kind in KINDS} == SERIES


@pytest.mark.whole
def test_it_leaves_runs_a_table_and_pictures(case: Case, whole: Path) -> None:
    table = strict_json(whole / f"{case.name}.json")
    assert {row["name"] for row in table[case.rows]} == set(case.runs) and table["left_out"] == []
    for row in table[case.rows]:
        result = strict_json(whole / row["name"] / "result.json")
        for key in ("energy", "energy_error", "variance", "v_score", "steps"):
            assert row[key] == result[key]
    page = (whole / f"{case.name}.md").read_text()
    assert all(f"| {name} |" in page or f"| {name.split('=')[-1]} |" in page for name in case.runs)
    assert {path.suffix for path in (whole / "pictures").iterdir()} == {".png", ".pdf"}


@pytest.mark.whole
def test_each_is_an_ordinary_run(case: Case, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(whole.parent)
    name = case.runs[-1]
    again = run_file(whole / name / "config.toml", Path.cwd() / f"again-{case.name}")
    assert again["energy"] == strict_json(whole / name / "result.json")["energy"]


@pytest.mark.whole
def test_the_table_is_shown_written_and_drawn_again(
    case: Case, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(whole, "out")
    before = Path("out", f"{case.name}.json").read_bytes()
    shutil.rmtree("out/pictures")
    for ending in ("json", "md"):
        Path("out", f"{case.name}.{ending}").unlink()
    assert main(["show", "out"]) == 0
    shown = capsys.readouterr().out
    assert all(name.split("=")[-1] in shown for name in case.runs)
    assert main(["report", "out"]) == 0
    assert Path("out", f"{case.name}.json").read_bytes() == before
    assert main(["plot", "out", "--format", "svg"]) == 0 and list(Path("out/pictures").iterdir())
    capsys.readouterr()
    for refused in (["plot", "out", "--what", "energy"], ["plot", "out", "--format", "gif"],
                    ["report", "out", "--out", "x.html"], ["measure", "out"]):  # fmt: skip
        assert main(refused) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.whole
@pytest.mark.parametrize("after", [2, 7])
def test_what_was_stopped_goes_on(
    after: int, case: Case, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """In the first run, or in the second."""
    with monkeypatch.context() as patch:
        interrupted(patch, after)
        assert main([case.command, case.write(), "--out", "out"]) == 130
    assert f"tnvmc {case.command} --resume out" in capsys.readouterr().err
    kind = kind_of_folder("out")
    assert kind is not None
    missing = held_series(kind, Path("out"))[1].left_out
    assert [reason.code.split("_", 1)[1] for _, reason in missing][:1] == ["unfinished"]
    assert {reason.code.split("_", 1)[1] for _, reason in missing[1:]} <= {"not_begun"}
    assert main([case.command, "--resume", "out"]) == 0
    assert energies("out", case) == energies(whole, case)


@pytest.mark.whole
def test_what_is_finished_is_kept_where_it_lies_now(case: Case, whole: Path) -> None:
    shutil.copytree(whole, "moved")
    results = {name: Path("moved", name, "result.json").stat().st_mtime_ns for name in case.runs}
    assert main([case.command, "--resume", "moved"]) == 0
    assert energies("moved", case) == energies(whole, case)
    for name, written in results.items():
        assert Path("moved", name, "result.json").stat().st_mtime_ns == written


@pytest.mark.whole
def test_nothing_is_overwritten(case: Case, whole: Path, capsys: Any) -> None:
    shutil.copytree(whole, "out")
    before = contents("out")
    assert main([case.command, case.write(), "--out", "out"]) == 2
    assert "--resume out" in capsys.readouterr().err and contents("out") == before
    Path("out", f"{case.name}.toml").unlink()
    assert main([case.command, "study.toml", "--out", "out"]) == 2
    assert main([case.command, "--resume", "out"]) == 2
    assert capsys.readouterr().err.count("\n") == 2


@pytest.mark.whole
def test_two_processes_do_not_share_out_the_runs(case: Case, whole: Path, capsys: Any) -> None:
    shutil.copytree(whole, "out")
    before = contents("out")
    with RunFolder.reopen(Path("out", case.runs[-1])):
        assert main([case.command, "--resume", "out"]) == 2
    assert "another process is writing" in capsys.readouterr().err and contents("out") == before


@pytest.mark.whole
def test_a_run_that_fails_is_named_and_tried_again(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = app.Runs.make

    def fails(runs: app.Runs, settings: Any, reference: Any) -> None:
        if Path(settings.run.out).name == case.runs[1]:
            raise OptimisationFailed("no luck")
        make(runs, settings, reference)

    with monkeypatch.context() as patch:
        patch.setattr(app.Runs, "make", fails)
        assert main([case.command, case.write(), "--out", "out"]) == 1
    left_out = strict_json(Path("out", f"{case.name}.json"))["left_out"]
    assert left_out[0]["name"] == case.runs[1] and left_out[0]["code"] == "run_failed"
    assert [each["code"] for each in left_out[1:]] == ["run_not_begun"] * (case.name == "scan")
    assert main([case.command, "--resume", "out"]) == 0
    assert len(energies("out", case)) == len(case.runs)


def test_what_cannot_be_is_refused_before_anything_is_written(case: Case, capsys: Any) -> None:
    for change in (case.bad, "hamiltonian.model=nothing", "nowhere.key=1"):
        assert main([case.command, case.write(), "--out", "out", "--set", change]) == 2
        errors = capsys.readouterr().err.splitlines()
        assert errors and all(line.startswith("tnvmc: ") for line in errors)
    assert not Path("out").exists()


def test_a_function_for_one_run_makes_no_several(case: Case) -> None:
    with pytest.raises(ValueError, match="several|comparison"):
        run_file(case.write(), "out")


@pytest.mark.whole
def test_a_table_that_is_damaged_is_made_again(case: Case, whole: Path) -> None:
    shutil.copytree(whole, "out")
    Path("out", f"{case.name}.json").write_text("{")
    assert main(["report", "out"]) == 0
    assert energies("out", case) == energies(whole, case)
