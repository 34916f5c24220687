"""Files of several sectors from the command line: gaps, warnings, and how they go on."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.compare_files import strict_json
from tests.sector_files import SETTINGS
from tnvmc.app import series as app
from tnvmc.app.cli import main
from tnvmc.exact import exact_ground_state, exact_levels
from tnvmc.lattice.grids import square
from tnvmc.operators.models import heisenberg, tv
from tnvmc.report.figures import style

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the file; pictures, which take their time, are left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app, "draw_series", lambda _: {"levels": None})
    monkeypatch.setattr(style, "encode", lambda *_: style.MADE_BY.encode())
    Path("study.toml").write_text(SETTINGS)
    return tmp_path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a file of sectors leaves when nothing stops it; to be copied, not changed."""
    path = tmp_path_factory.mktemp("whole")
    (path / "study.toml").write_text(SETTINGS)
    assert main(["run", str(path / "study.toml"), "--out", str(path / "out")]) == 0
    return path / "out"


@pytest.mark.whole
def test_sectors_leave_runs_a_table_and_a_picture(whole: Path) -> None:
    found = strict_json(whole / "sectors.json")
    ground, triplet = found["levels"]
    assert (ground["name"], triplet["name"]) == ("ground", "triplet") and found["left_out"] == []
    results = [strict_json(whole / level["name"] / "result.json") for level in found["levels"]]
    assert [level["energy"] for level in found["levels"]] == [r["energy"] for r in results]
    assert [level["magnetisation"] for level in found["levels"]] == [0, 2]
    assert [level["steps"] for level in found["levels"]] == [4, 6]
    gap = triplet["gap"]
    assert gap["energy"] == triplet["energy"] - ground["energy"] and ground["gap"] is None
    assert gap["error"] == math.hypot(ground["energy_error"], triplet["energy_error"])
    assert (whole / "pictures/levels.png").stat().st_size
    assert (whole / "sectors.md").read_text().count("| triplet |") == 1


def test_gaps_stand_beside_exact_ones(whole: Path) -> None:
    operator = heisenberg(square(2, 3))
    exact = [exact_ground_state(operator, sector).energy for sector in (0, 2)]
    levels = strict_json(whole / "sectors.json")["levels"]
    assert [level["exact"]["energy"] for level in levels] == pytest.approx(exact)
    assert levels[1]["exact_gap"] == pytest.approx(exact[1] - exact[0])
    gap = levels[1]["gap"]
    assert levels[1]["gap_sigmas"] == pytest.approx(
        (gap["energy"] - exact[1] + exact[0]) / gap["error"]
    )
    assert abs(levels[1]["gap_sigmas"]) < 6  # a few steps on six sites


def test_the_table_is_no_wider_than_the_terminal(
    whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {}
    for columns in ("200", "80"):
        monkeypatch.setenv("COLUMNS", columns)
        assert main(["show", str(whole)]) == 0
        shown = capsys.readouterr().out.splitlines()
        rows[columns] = [line for line in shown if line.startswith("ground ")]
    assert len(rows["200"]) == 1 and len(rows["200"][0]) > 80
    assert len(rows["80"]) == 2 and max(map(len, rows["80"])) <= 80
    assert sorted(" ".join(rows["80"]).split()) == sorted(f"ground {rows['200'][0]}".split())


@pytest.mark.whole
def test_more_steps_are_made_by_all(whole: Path) -> None:
    shutil.copytree(whole, "out")
    before = strict_json(Path("out/sectors.json"))["levels"]
    assert main(["run", "--resume", "out"]) == 0
    assert strict_json(Path("out/sectors.json"))["levels"] == before
    assert main(["run", "--resume", "out", "--set", "optimizer.steps=7"]) == 0
    after = strict_json(Path("out/sectors.json"))["levels"]
    assert [level["steps"] for level in after] == [7, 6]
    assert after[1]["energy"] == before[1]["energy"]


def test_a_run_keeps_its_quantum_numbers(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(whole, "out")
    assert main(["run", "--resume", "out", "--set", "sector.2.magnetisation=4"]) == 2
    assert "triplet" in capsys.readouterr().err


def enumerated(*tables: str, steps: int = 4) -> None:
    """Write a file without noise."""
    shared = SETTINGS[: SETTINGS.index("[[sector]]")].replace("steps = 4", f"steps = {steps}")
    shared = shared.replace("n_walkers = 16", 'kind = "enumerate"').replace("n_burn = 1", "")
    Path("study.toml").write_text(shared + "".join(f"\n[[sector]]\n{table}\n" for table in tables))


@pytest.mark.whole
def test_a_sector_above_another() -> None:
    """Without noise a state of 64 parameters finds the second of 20 levels."""
    excited = 'name = "excited"\northogonal_to = ["ground"]\ninit = "random"'
    enumerated('name = "ground"', excited, steps=60)
    assert main(["run", "study.toml", "--out", "out"]) == 0
    level = strict_json(Path("out/sectors.json"))["levels"][1]
    assert level["orthogonal_to"] == ["ground"] and len(level["overlaps"]) == 1
    assert abs(level["overlaps"][0]["squared"]) < 1e-2
    assert level["gap"]["energy"] == pytest.approx(level["exact_gap"], abs=0.02)
    assert (
        "ground |" in Path("out/sectors.md").read_text().splitlines()[5]
    )  # in a column of its own
    shutil.move("out", "elsewhere")
    assert main(["run", "--resume", "elsewhere"]) == 0
    assert main(["run", "--resume", "elsewhere", "--set", "sector.2.steps=61"]) == 0
    assert strict_json(Path("elsewhere/sectors.json"))["levels"][1]["steps"] == 61


@pytest.mark.whole
def test_what_is_not_orthogonal_has_no_gap() -> None:
    """A penalty far below the gap leaves the ground state: one warning, which names the key."""
    excited = 'name = "excited"\northogonal_to = ["ground"]\npenalty = 0.001'
    enumerated('name = "ground"', excited, steps=20)
    assert main(["run", "study.toml", "--out", "out"]) == 0
    level = strict_json(Path("out/sectors.json"))["levels"][1]
    (told,) = level["diagnostics"]
    assert told["code"] == "not_orthogonal" and told["values"]["key"] == "sector.2.penalty"
    assert level["overlaps"][0]["squared"] > 0.9
    assert level["gap"] is None and level["sigmas"] is None


def test_a_gap_that_is_not_converged_is_told() -> None:
    enumerated('name = "ground"', 'name = "triplet"\nmagnetisation = 2\nsteps = 0')
    assert main(["run", "study.toml", "--out", "out"]) == 0
    gap = strict_json(Path("out/sectors.json"))["levels"][1]["gap"]
    codes = [found["code"] for found in gap["diagnostics"]]
    assert codes == ["gap_bias", "gap_far_from_exact"]


@pytest.mark.whole
def test_an_energy_that_another_sector_bounds_is_told() -> None:
    """No triplet lies below the lowest state with 2 Sz = 0; one with signs of its own may."""
    odd = 'symmetrise = ["spin"]\ncharacters = {"spin inversion" = 1}\nsteps = 0'
    enumerated(
        'name = "ground"\nsteps = 0\ninit = "random"',
        'name = "triplet"\nmagnetisation = 2',
        f'name = "even"\n{odd}',
        steps=30,
    )
    assert main(["run", "study.toml", "--out", "out"]) == 0
    levels = strict_json(Path("out/sectors.json"))["levels"]
    assert levels[0]["energy"] > levels[1]["energy"]
    told = {
        level["name"]: [
            x["values"]["other"] for x in level["diagnostics"] if x["code"] == "not_lowest"
        ]
        for level in levels
    }
    assert told == {"ground": ["triplet"], "triplet": [], "even": []}


@pytest.mark.whole
def test_a_state_that_others_are_orthogonal_to_stays(capsys: pytest.CaptureFixture[str]) -> None:
    enumerated('name = "ground"', 'name = "excited"\northogonal_to = ["ground"]')
    assert main(["run", "study.toml", "--out", "out"]) == 0
    assert main(["run", "--resume", "out", "--set", "optimizer.steps=6"]) == 2
    assert "'ground'" in capsys.readouterr().err
    for change in ("sector.2.penalty=9.0", "sector.2.orthogonal_to=[]", "run.seed=9"):
        assert main(["run", "--resume", "out", "--set", change]) == 2


@pytest.mark.whole
def test_a_state_that_went_on_by_itself_is_told() -> None:
    """The sector kept orthogonal to the old state stays, with a note; so do further steps."""
    excited = 'name = "excited"\northogonal_to = ["ground"]\ninit = "random"'
    enumerated('name = "ground"', excited)
    assert main(["run", "study.toml", "--out", "out"]) == 0

    def notes() -> list[str]:
        level = strict_json(Path("out/sectors.json"))["levels"][1]
        return [found["code"] for found in level["diagnostics"]]

    assert "kept_changed" not in notes()
    assert main(["run", "--resume", "out/ground", "--set", "optimizer.steps=6"]) == 0
    assert main(["run", "--resume", "out"]) == 0
    assert "kept_changed" in notes()
    levels = strict_json(Path("out/sectors.json"))["levels"]
    assert [level["steps"] for level in levels] == [6, 4]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("hamiltonian.J=2.0", ("hamiltonian.J", "2.0", "1.0")),
        ("ansatz.D=3", ("ansatz.D", "3", "2")),
    ],
)
def test_another_problem_is_no_going_on(
    change: str, words: tuple[str, ...], whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(whole, "out")
    assert main(["run", "--resume", "out", "--set", change]) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in words)


def test_exact_tells_the_level_of_each_sector(capsys: pytest.CaptureFixture[str]) -> None:
    excited = 'name = "excited"\northogonal_to = ["ground"]'
    enumerated('name = "ground"', 'name = "triplet"\nmagnetisation = 2', excited)
    assert main(["exact", "study.toml"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = {row[0]: float(row[-2]) for row in rows if row[0] in ("ground", "triplet", "excited")}
    operator = heisenberg(square(2, 3))
    lowest, second = exact_levels(operator, 2, 0)
    triplet = exact_ground_state(operator, 2).energy
    expected = {"ground": lowest, "triplet": triplet, "excited": second}
    assert found == pytest.approx(expected, abs=1e-9)


def test_exact_levels_of_fermions_are_those_of_their_particles(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The ground state of one particle lies between both levels of two."""
    Path("study.toml").write_text(
        "[lattice]\nshape = [2, 3]\n[hamiltonian]\nmodel = 'tv'\nV = 2.0\n[ansatz]\nD = 2\n"
        "[sampler]\nparticles = 2\n[[sector]]\nname = 'ground'\n"
        "[[sector]]\nname = 'excited'\northogonal_to = ['ground']\n"
    )
    assert main(["exact", "study.toml"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = [float(row[-2]) for row in rows if row[0] in ("ground", "excited")]
    levels = exact_levels(tv(square(2, 3), t=1.0, V=2.0, particles=2), 2)
    np.testing.assert_allclose(found, levels, atol=1e-9)


def test_exact_tells_the_level_of_a_sum_over_symmetries(capsys: pytest.CaptureFixture[str]) -> None:
    """Second neighbours that win: the ground state of four spins is odd under a reflection."""
    Path("sum.toml").write_text(
        "[lattice]\nshape = [2, 2]\n[hamiltonian]\nmodel = 'j1j2'\nJ2 = 1.5\n"
        "[ansatz]\nD = 2\nsymmetrise = ['point']\n"
    )
    assert main(["exact", "sum.toml"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [float(row[1]) for row in rows if row[0] == "symmetrised"] == pytest.approx([-1.25])
    with Path("sum.toml").open("a") as file:
        file.write("[scan]\nkey = 'hamiltonian.J2'\nvalues = [1.5, 1.6]\n")
    assert main(["exact", "sum.toml"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = [float(row[2]) for row in rows if row[0] == "symmetrised"]
    assert found[0] == pytest.approx(-1.25) and len(found) == 2


@pytest.mark.whole
def test_what_may_be_the_same_state_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Six spins: the ground state is odd under spin inversion."""
    odd = 'symmetrise = ["spin"]\ncharacters = {"spin inversion" = -1}'
    enumerated('name = "ground"', f'name = "odd"\n{odd}', steps=12)
    assert main(["run", "study.toml", "--out", "out"]) == 0
    level = strict_json(Path("out/sectors.json"))["levels"][1]
    assert level["symmetrise"] == ["spin"] and level["characters"] == {"spin inversion": -1}
    assert "same_state" in [found["code"] for found in level["diagnostics"]]
    assert level["exact_gap"] == 0
    assert "spin (spin inversion -1)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change", ["sector.2.magnetisation=0", "sector.2.magnetisation=1", "hamiltonian.model=tfim"]
)
def test_what_cannot_be_is_refused_in_a_line(
    change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "study.toml", "--out", "out", "--set", change]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and told.startswith("tnvmc: sector 'triplet'")
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["exact", "out"], "out/sectors.toml"),
        (["run", "--resume", "out/sectors.toml"], "as out"),
        (["run", "--resume", "out", "--set", "sector.triplet.steps=9"], "up to 2"),
        (["run", "study.toml", "--set", "sector.3.steps=9"], "up to 2"),
    ],
)
def test_what_is_meant_is_named(
    command: list[str], named: str, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(whole, "out")
    assert main(command) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and named in told


@pytest.mark.slow
def test_the_triplet_gap_of_the_example() -> None:
    """The first two sectors of the file: an error below 0.02 J, the exact gap within four."""
    text = (ROOT / "scripts/sectors_heisenberg_4x4.toml").read_text()
    Path("study.toml").write_text(text[: text.index('[[sector]]\nname = "even"')])
    assert main(["run", "study.toml", "--out", "out"]) == 0
    triplet = strict_json(Path("out/sectors.json"))["levels"][1]
    assert triplet["exact_gap"] == pytest.approx(0.502269586, abs=1e-8)
    assert triplet["gap"]["error"] < 0.02 and abs(triplet["gap_sigmas"]) < 4
