"""Scans: what the runs start from, what is measured at each value, and how energies are judged."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.compare_files import strict_json
from tnvmc.app.cli import main
from tnvmc.exact import exact_ground_state
from tnvmc.lattice.grids import square
from tnvmc.operators.models import tfim
from tnvmc.report.figures import style
from tnvmc.series import scan
from tnvmc.series.kind import Series
from tnvmc.series.machine import SCAN
from tnvmc.series.scan import ScanRow, concave, observed_value
from tnvmc.settings.load import with_overrides
from tnvmc.settings.problems import ConfigError

ROOT = Path(__file__).parents[2]
SETTINGS = """
[lattice]
shape = [2, 3]

[hamiltonian]
model = "tfim"

[ansatz]
D = 2

[sampler]
n_walkers = 16
n_samples = 32

[optimizer]
steps = 3

[measure]
n_samples = 128
n_burn = 1

[run]
threads = 1

[scan]
key = "hamiltonian.h"
values = [2.0, 1.0]
observables = ["Sx", "SzSz"]
"""


def expanded(*changes: str) -> Series:
    return SCAN.expand(with_overrides(tomllib.loads(SETTINGS), changes), "study")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(style, "encode", lambda *_: style.MADE_BY.encode())
    Path("study.toml").write_text(SETTINGS)


def test_each_run_starts_from_the_state_before_it() -> None:
    series = expanded("ansatz.init_noise=0.1")
    first, second = series.runs.values()
    assert list(series.runs) == ["h=2", "h=1"]
    assert (first.hamiltonian.h, second.hamiltonian.h) == (2.0, 1.0)
    assert (first.ansatz.init, first.ansatz.init_noise) == ("auto", 0.1)
    assert (second.ansatz.init, second.ansatz.init_noise) == ("runs/study/h=2", None)
    assert (first.run.seed, second.run.seed) == (0, 1)
    assert all(run.scan is None for run in series.runs.values())


def test_all_states_share_tensors_as_the_first() -> None:
    runs = expanded("ansatz.D=3", "lattice.shape=[4,4]").runs.values()
    assert [run.ansatz.sharing for run in runs] == [True, True]
    assert [run.ansatz.init for run in runs] == ["auto", "runs/study/h=2"]


def test_equal_steps_hold_both_ends_and_no_rounding() -> None:
    series = expanded("scan.values={start=0.4,stop=0.1,n=4}")
    assert list(series.runs) == ["h=0.4", "h=0.3", "h=0.2", "h=0.1"]


def test_an_order_parameter_is_a_column() -> None:
    names = ("neel_z", "dimer_columnar")
    assert expanded(f"scan.observables={list(names)}").observables == names
    held = {"operators": {"neel_z": {"mean": 0.1, "error": 0.01}}}
    assert observed_value(held, "neel_z") == {"mean": 0.1, "error": 0.01}
    assert observed_value(held, "dimer_columnar") is None


def test_a_size_starts_afresh_but_for_a_bulk_that_fits() -> None:
    size = ("scan.key=lattice.shape", "scan.values=[[6,6],[8,8]]", "scan.observables=[]")
    assert list(expanded(*size).runs) == ["shape=6x6", "shape=8x8"]
    assert [run.ansatz.init for run in expanded(*size).runs.values()] == ["auto"] * 2
    bulk = expanded(*size, "ansatz.sharing=true", "ansatz.edge=1").runs.values()
    assert [run.ansatz.init for run in bulk] == ["auto", "runs/study/shape=6x6"]


def test_a_coupling_of_a_term() -> None:
    data = tomllib.loads(SETTINGS)
    term = {"ops": "Sz Sz", "bonds": "nearest", "coupling": -1.0}
    field = {"ops": "Sx", "sites": "all", "coupling": 0.0}
    data["hamiltonian"] = {"model": "terms", "term": [term, field]}
    data["scan"]["key"] = "hamiltonian.term.2.coupling"
    runs = SCAN.expand(data, "study").runs
    assert list(runs) == ["coupling=2", "coupling=1"]
    assert [run.hamiltonian.term[1].coupling for run in runs.values()] == [2.0, 1.0]


@pytest.mark.parametrize(
    ("model", "key", "names"),
    [
        ("hubbard", "U", ["n", "Sz", "nupdn", "nn", "SS", "staggered_magnetisation_squared"]),
        ("tj", "J", ["n", "nn", "Sz", "SzSz"]),
    ],
)
def test_observables_of_fermions_are_those_that_are_measured(
    model: str, key: str, names: list[str]
) -> None:
    data = {
        "lattice": {"shape": [2, 2]},
        "hamiltonian": {"model": model},
        "ansatz": {"D": 2},
        "sampler": {"particles": [1, 1]},
        "scan": {"key": f"hamiltonian.{key}", "values": [1.0, 2.0], "observables": names},
    }
    assert list(SCAN.expand(data, "study").observables) == names
    data["scan"]["observables"] = ["Sx"]
    with pytest.raises(ConfigError):
        SCAN.expand(data, "study")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("scan.key=optimizer.steps", "scan.key"),
        ("scan.key=hamiltonian.model", "scan.key"),
        ("scan.key=hamiltonian.hh", "hamiltonian.hh"),
        ("scan.values=[1.0]", "scan.values"),
        ("scan.values=[1.0,1]", "scan.values"),
        ("scan.values={start=0,stop=1,n=1}", "scan.values"),
        ("scan.values=[-1.0,'a']", "scan.values"),
        ("scan.observables=['n']", "scan.observables"),
        ("scan.observables=['S']", "scan.observables"),
        ("scan.observables=['three_sublattice']", "scan.observables"),
        ("scan.vals=2", "scan.vals"),
        ("run.starts=2", "run.starts"),
        ("sampler.magnetisation=0", "run 'h=2': sampler.magnetisation"),
    ],
)
def test_what_cannot_be_scanned_is_named(change: str, key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        expanded(change)
    assert refused.value.problems[0].key == key


@pytest.mark.parametrize("section", ["stage", "sector", "orthogonal"])
def test_a_scan_has_one_run_of_one_stage_at_each_value(section: str) -> None:
    table = {"stage": {"steps": 2}, "sector": {}, "orthogonal": {"run": "elsewhere"}}[section]
    with pytest.raises(ConfigError) as refused:
        SCAN.expand(tomllib.loads(SETTINGS) | {section: [table]}, "study")
    assert refused.value.problems[0].key == f"[[{section}]]"


@pytest.mark.whole
def test_energies_and_observables_stand_at_each_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "study.toml", "--out", "out"]) == 0
    assert "from out/h=2" in capsys.readouterr().out
    table = strict_json(Path("out/scan.json"))
    for row, h in zip(table["rows"], (2.0, 1.0), strict=True):
        exact = exact_ground_state(tfim(square(2, 3), h=h)).energy_per_site
        assert row["value"] == h and row["exact_energy_per_site"] == pytest.approx(exact)
        held = strict_json(Path("out", row["name"], "observables.json"))
        assert row["observables"]["Sx"] == held["averages"]["sites"]["Sx"]
        assert row["observables"]["SzSz"]["mean"] == max(held["structure_factor"]["SzSz"]["mean"])
    first, second = (row["observables"]["Sx"]["mean"] for row in table["rows"])
    assert first > second  # the field turns the spins


@pytest.mark.whole
def test_values_are_added_and_steps_are_made_measured_again() -> None:
    assert main(["run", "study.toml", "--out", "out"]) == 0
    before = strict_json(Path("out/scan.json"))["rows"]
    longer = ["--set", "scan.values=[2.0,1.0,0.5]"]
    assert main(["run", "--resume", "out", *longer]) == 0
    after = strict_json(Path("out/scan.json"))["rows"]
    assert after[:2] == before and after[2]["value"] == 0.5
    assert main(["run", "--resume", "out", "--set", "optimizer.steps=4"]) == 0
    last = strict_json(Path("out/scan.json"))["rows"]
    assert [row["steps"] for row in last] == [4, 4, 4]
    assert all(row["observables"] for row in last) and last[0] != after[0]


@pytest.mark.whole
def test_another_problem_is_no_going_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "study.toml", "--out", "out"]) == 0
    capsys.readouterr()
    for change in (
        "hamiltonian.J=2.0",
        "scan.values=[2.0,1.5,1.0]",
        "scan.values=[3.0,1.0]",
        "ansatz.D=3",
    ):
        assert main(["run", "--resume", "out", "--set", change]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def rows(*energies: float, error: float = 0.01) -> list[ScanRow]:
    measured: dict[str, Any] = {
        "energy_error": error, "variance": 0.1, "v_score": 0.1, "steps": 4, "n_samples": 64,
        "n_sites": 6, "units": "Pauli",
    }  # fmt: skip
    return [
        ScanRow(name=f"h={h}", value=float(h), energy=energy, **measured)
        for h, energy in enumerate(energies)
    ]


def test_energies_that_are_not_concave_are_told() -> None:
    """The second lies a whole unit below the line between its neighbours."""
    found = concave(rows(-1.0, -3.0, -3.0))
    assert [[each.code for each in row.diagnostics] for row in found] == [[], ["not_concave"], []]
    values = found[1].diagnostics[0].values
    assert (values["left"], values["right"]) == ("h=0", "h=2")
    assert values["distance"] == pytest.approx(1 / 6)
    assert values["sigmas"] == pytest.approx(1 / (0.01 * 1.5**0.5))


def test_concave_energies_are_not_told() -> None:
    straight, within = (-1.0, -2.0, -3.0), (-1.0, -2.03, -3.0)
    for energies in (straight, within, (-1.0, -1.5, -3.0)):
        assert not any(row.diagnostics for row in concave(rows(*energies)))
    assert not any(row.diagnostics for row in concave(rows(-1.0, -2.000001, -3.0, error=0.0)))
    some = rows(-1.0, -3.0, -3.0)
    backwards = concave([replace(row, value=-row.value) for row in some])
    assert [len(row.diagnostics) for row in backwards] == [0, 1, 0]  # in any order of values


def test_an_observable_that_was_not_measured_is_none() -> None:
    missing = {"mean": [None], "error": [None]}
    for held in ({}, {"structure_factor": {"SS": missing}}, {"structure_factor": {}}):
        assert observed_value(held, "SS") is None and observed_value(held, "Sz") is None
    assert observed_value({"staggered_magnetisation_squared": None},
                          "staggered_magnetisation_squared") is None  # fmt: skip


@pytest.mark.slow
def test_the_example_crosses_the_transition() -> None:
    """Every energy within 1e-3 of the exact one; the order rises as the field falls."""
    file = str(ROOT / "scripts/scan_tfim_4x4.toml")
    assert main(["run", file, "--out", "out"]) == 0
    table = strict_json(Path("out/scan.json"))["rows"]
    assert len(table) == 13
    for row in table:
        exact = row["exact_energy_per_site"]
        assert abs(row["energy"] / 16 / exact - 1) < 2e-3
    order = [row["observables"]["SzSz"]["mean"] for row in table]
    assert order[0] < 0.6 and order[-1] > 3


def test_errors_off_know_the_error_of_the_reference() -> None:
    (row,) = rows(-1.0, error=0.03)
    known = replace(row, exact_energy_per_site=-1.1 / 6, exact_error=0.04)
    assert known.off == pytest.approx(2.0)


@pytest.mark.parametrize("number", ["0", "-1", "3"])
def test_terms_have_numbers_from_one_on(number: str) -> None:
    data = {"hamiltonian": {"term": [{"coupling": 1.0}, {"coupling": 2.0}]}}
    key = f"hamiltonian.term.{number}.coupling"
    with pytest.raises(ConfigError):
        scan.changed(data, key, 5.0)
