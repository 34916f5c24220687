"""Several starts from the command line: which one is taken, and how they go on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.compare_files import strict_json
from tests.sector_files import SETTINGS as WITH_SECTORS
from tnvmc.app import series as app
from tnvmc.app.cli import main
from tnvmc.app.run import run_file
from tnvmc.report.figures import style
from tnvmc.series.machine import STARTS, held_series, new_series
from tnvmc.session.vmc import VMC
from tnvmc.settings.problems import ConfigError
from tnvmc.storage.run_files import measured_hash
from tnvmc.storage.seals import sealed_json, unsealed_json
from tnvmc.vmc.step import OptimisationFailed

SETTINGS = WITH_SECTORS[: WITH_SECTORS.index("[[sector]]")] + "starts = 3\n"
SETTINGS = SETTINGS.replace("D = 2", 'D = 2\ninit = "random"')


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the file; pictures, which take their time, are left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(style, "encode", lambda *_: style.MADE_BY.encode())
    Path("small.toml").write_text(SETTINGS)
    return tmp_path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What three starts leave when nothing stops them; to be copied, not changed."""
    path = tmp_path_factory.mktemp("whole")
    (path / "small.toml").write_text(SETTINGS)
    assert main(["run", str(path / "small.toml"), "--out", str(path / "out")]) == 0
    return path / "out"


def table(folder: str | Path = "out") -> dict[str, Any]:
    return strict_json(Path(folder) / "starts.json")


def test_the_lowest_of_the_starts_is_measured_again(whole: Path) -> None:
    found = table(whole)
    results = {name: strict_json(whole / f"start-{name}/result.json") for name in (1, 2, 3)}
    assert [each["energy"] for each in found["starts"]] == [r["energy"] for r in results.values()]
    assert [each["seed"] for each in found["starts"]] == [5, 6, 7]
    lowest = min(results, key=lambda name: results[name]["energy"])
    assert found["lowest"] == f"start-{lowest}" and found["left_out"] == []
    again, measured = whole / f"again-{lowest}", found["measured"]
    assert measured["name"] == again.name and measured["seed"] == 1005
    assert measured["energy"] == strict_json(again / "result.json")["energy"]
    assert measured["energy"] != results[lowest]["energy"]  # other samples
    assert measured["steps"] == 0 and measured_hash(again) == measured_hash(
        whole / f"start-{lowest}"
    )
    assert (whole / "pictures/energy.png").stat().st_size


def test_the_same_state_has_the_same_energy(whole: Path) -> None:
    """Within five errors of both: the samples are independent."""
    found = table(whole)
    (first,) = (each for each in found["starts"] if each["name"] == found["lowest"])
    error = (first["energy_error"] ** 2 + found["measured"]["energy_error"] ** 2) ** 0.5
    assert abs(first["energy"] - found["measured"]["energy"]) < 5 * error
    assert first["above"] is None
    assert all(each["above"] >= 0 for each in found["starts"] if each is not first)


@pytest.mark.whole
def test_one_start_is_one_run() -> None:
    assert main(["run", "small.toml", "--out", "out", "--set", "run.starts=1"]) == 0
    assert Path("out/result.json").is_file() and not Path("out/starts.toml").exists()


def test_nothing_is_overwritten_or_mixed(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(whole, "out")
    assert main(["run", "small.toml", "--out", "out"]) == 2
    for change in ("run.starts=2", "optimizer.steps=9", "run.seed=9", "ansatz.D=3"):
        capsys.readouterr()
        assert main(["run", "--resume", "out", "--set", change]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert table() == table(whole)


@pytest.mark.whole
def test_a_finished_folder_may_be_moved_and_get_more_starts(whole: Path) -> None:
    shutil.copytree(whole, "elsewhere")
    assert main(["run", "--resume", "elsewhere"]) == 0
    assert table("elsewhere") == table(whole)
    assert main(["run", "--resume", "elsewhere", "--set", "run.starts=4"]) == 0
    found = table("elsewhere")
    assert [each["seed"] for each in found["starts"]] == [5, 6, 7, 8]
    assert found["starts"][1]["energy"] == table(whole)["starts"][1]["energy"]


@pytest.mark.whole
def test_what_was_stopped_goes_on(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step, made = VMC.step, []

    def stops(self: VMC, *given: Any) -> Any:
        made.append(1)
        if len(made) == 7:  # within the second
            raise KeyboardInterrupt
        return step(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(VMC, "step", stops)
        assert main(["run", "small.toml", "--out", "out"]) == 130
    stopped = held_series(STARTS, Path("out"))[1]
    codes = [why.code for _, why in stopped.left_out]
    assert codes == ["start_unfinished", "start_not_begun"] and stopped.measured is None
    assert main(["run", "--resume", "out"]) == 0
    assert [each["energy"] for each in table()["starts"]] == [
        each["energy"] for each in table(whole)["starts"]
    ]
    assert table()["measured"]["energy"] == table(whole)["measured"]["energy"]


@pytest.mark.whole
def test_a_start_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    make = app.Runs.make

    def fails(runs: Any, settings: Any, reference: Any) -> None:
        if settings.run.seed == 6:
            raise OptimisationFailed("no luck")
        make(runs, settings, reference)

    monkeypatch.setattr(app.Runs, "make", fails)
    assert main(["run", "small.toml", "--out", "out"]) == 1
    assert [each["name"] for each in table()["starts"]] == ["start-1", "start-3"]
    assert [(each["name"], each["code"]) for each in table()["left_out"]] == [
        ("start-2", "run_failed")
    ]
    assert table()["measured"] is not None


def test_a_start_that_went_on_is_not_compared(whole: Path) -> None:
    shutil.copytree(whole, "out")
    lowest = table()["lowest"]
    assert main(["run", "--resume", f"out/{lowest}", "--set", "optimizer.steps=5"]) == 0
    found = held_series(STARTS, Path("out"))[1]
    assert [(name, why.code) for name, why in found.left_out] == [(lowest, "start_unlike")]
    assert found.lowest != lowest and found.measured is None
    assert main(["run", "--resume", "out"]) == 2  # of other settings than the others


def codes_left_out(folder: str = "out") -> list[tuple[str, str]]:
    return [(name, why.code) for name, why in held_series(STARTS, Path(folder))[1].left_out]


@pytest.mark.whole
def test_a_second_measurement_that_is_not_of_the_lowest_is_not_quoted(whole: Path) -> None:
    """It went on, it is of other samples' seed, or the start has lost what it measured."""
    shutil.copytree(whole, "out")
    lowest = table()["lowest"]
    again = lowest.replace("start", "again")
    assert main(["run", "--resume", f"out/{again}", "--set", "optimizer.steps=1"]) == 0
    assert codes_left_out() == [(again, "start_changed")]
    shutil.rmtree(f"out/{again}")
    shutil.copytree(f"out/{lowest}", f"out/{again}")
    assert codes_left_out() == [(again, "start_changed")]
    shutil.rmtree(f"out/{again}")
    shutil.copytree(whole / again, f"out/{again}")
    assert codes_left_out() == []
    for file in Path("out", lowest).glob("*.h5"):
        file.unlink()
    assert (again, "start_changed") in codes_left_out()


@pytest.mark.whole
def test_a_measurement_again_may_have_more_samples(whole: Path) -> None:
    shutil.copytree(whole, "out")
    again = table()["lowest"].replace("start", "again")
    assert main(["run", "--resume", f"out/{again}", "--set", "measure.n_samples=256"]) == 0
    measured = held_series(STARTS, Path("out"))[1].measured
    assert measured is not None and measured.n_samples == 256


def test_what_an_older_run_left_is_not_taken(whole: Path) -> None:
    """Only the second measurement is there: of which state nobody knows."""
    shutil.copytree(whole, "out")
    again = table()["lowest"].replace("start", "again")
    for each in (*Path("out").glob("start-*"), Path("out/pictures")):
        shutil.rmtree(each)
    Path("out/starts.toml").unlink()
    assert main(["run", "small.toml", "--out", "out"]) == 2
    assert sorted(each.name for each in Path("out").glob("*-*")) == [again]


def test_a_run_from_elsewhere_and_damage_are_left_out(whole: Path) -> None:
    shutil.copytree(whole, "out")
    lowest = table()["lowest"]
    others = [f"start-{k}" for k in (1, 2, 3) if f"start-{k}" != lowest]
    shutil.rmtree(f"out/{others[0]}")
    shutil.copytree(f"out/{lowest}", f"out/{others[0]}")  # of another seed
    result = Path("out", others[1], "result.json")
    result.write_text(result.read_text().replace('"energy"', '"Energy"', 1))
    assert codes_left_out() == [(others[0], "start_unlike"), (others[1], "run_unreadable")]
    Path("out/starts.json").write_text('{"a')
    assert codes_left_out() == [(others[0], "start_unlike"), (others[1], "run_unreadable")]


def test_starts_that_are_one_are_told() -> None:
    """A product start of sums over all configurations knows no seed."""
    text = SETTINGS.replace("n_walkers = 16\nn_samples = 32", 'kind = "enumerate"').replace(
        "n_burn = 1", ""
    )
    text = text.replace('D = 2\ninit = "random"', "D = 2").replace("starts = 3", "starts = 2")
    Path("small.toml").write_text(text)
    assert main(["run", "small.toml", "--out", "out", "--set", "optimizer.steps=1"]) == 0
    assert [found["code"] for found in table()["diagnostics"]] == ["starts_identical"]


@pytest.mark.parametrize(
    "change", ["run.starts=0", "run.starts=1001", "run.starts=many", "hamiltonian.model=tfim"]
)
def test_what_cannot_be_is_refused_in_a_line(
    change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = ["--set", change, "--set", "sampler.magnetisation=0"]
    assert main(["run", "small.toml", "--out", "out", *changes]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not Path("out").exists()


def test_starts_do_not_go_with_sectors_and_comparisons(capsys: pytest.CaptureFixture[str]) -> None:
    Path("sectors.toml").write_text(WITH_SECTORS)
    assert main(["run", "sectors.toml", "--out", "out", "--set", "run.starts=2"]) == 2
    named = SETTINGS.replace("[ansatz]", '[compare]\nsteps = 2\n\n[[ansatz]]\nname = "a"')
    Path("compare.toml").write_text(named)
    assert main(["compare", "compare.toml", "--out", "out"]) == 2
    told = capsys.readouterr().err
    assert told.count("run.starts") == 2 and not Path("out").exists()


def test_a_function_for_one_run_makes_no_several(whole: Path) -> None:
    with pytest.raises(ConfigError, match="run.starts"):
        run_file("small.toml", "out")
    shutil.copytree(whole / "start-1", "one")
    assert main(["run", "--resume", "one", "--set", "run.starts=3"]) == 2
    with pytest.raises(ConfigError, match="run.starts"):
        new_series(STARTS, Path("small.toml"), "out", ["run.starts=1"], app.Runs())
    with pytest.raises(ConfigError, match="one run"):
        app.series_file("small.toml", "out", ["run.starts=1"])


def test_an_energy_below_the_exact_one_is_not_taken(whole: Path) -> None:
    """The result of one start says so, as a run would write it."""
    shutil.copytree(whole, "out")
    lowest = table()["lowest"]
    result = Path("out", lowest, "result.json")
    content = unsealed_json(result.read_text())
    found = {"code": "below_reference", "status": "warning", "values": {"sigmas": 9.0}}
    content["diagnostics"] = [*(content.get("diagnostics") or ()), found]
    result.write_bytes(sealed_json(content, indent=2))
    held = held_series(STARTS, Path("out"))[1]
    assert held.lowest not in (None, lowest) and len(held.rows) == 3
