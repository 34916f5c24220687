"""Rows for the public leaderboard: from the files of a run, or a refusal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tnvmc.app.cli import main
from tnvmc.report.leaderboard import leaderboard_row
from tnvmc.report.page import ReportError
from tnvmc.storage.run_files import Run, read_run

RECORDS = Path(__file__).parents[2] / "records"


def changed(section: str, **values: Any) -> Run:
    run = read_run(RECORDS / "triangular_12x12")
    return replace(run, config={**run.config, section: {**run.config[section], **values}})


def test_a_record_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    """Totals of sigma.sigma are four times those of S.S, their variance sixteen times."""
    assert main(["report", str(RECORDS / "triangular_12x12"), "--row"]) == 0
    row = json.loads(capsys.readouterr().out)
    result = json.loads((RECORDS / "triangular_12x12/result.json").read_text())
    assert row["instance_id"] == "Heisenberg/triangular_144_O"
    assert row["energy"] == 4 * result["energy"] and row["sigma"] == 4 * result["energy_error"]
    assert row["energy_variance"] == 16 * result["variance"]
    assert (row["bound_type"], row["dof"], row["einf"]) == ("variational", 144, 0)
    assert row["compute"]["bond_dimension"] == 5 and row["compute"]["parameters"] == 135200


def test_what_a_check_speaks_against_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(RECORDS / "triangular_16x16"), "--row"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "closure_spread_large" in err


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("hamiltonian", {"model": "xxz", "Jz": 2.0}),
        ("hamiltonian", {"J": -1.0}),
        ("hamiltonian", {"J": [1.0, 2.0]}),
        ("lattice", {"kind": "honeycomb"}),
        ("lattice", {"kind": "kagome", "shape": [5, 5]}),
        ("hamiltonian", {"model": "tfim", "h": 1.0}),  # theirs has another sign: triangles differ
    ],
)
def test_what_the_leaderboard_lacks_has_none(section: str, values: dict[str, Any]) -> None:
    with pytest.raises(ReportError, match="no row"):
        leaderboard_row(changed(section, **values))


def test_other_levels_and_times_have_none() -> None:
    run = read_run(RECORDS / "triangular_12x12")
    result: Any = run.result
    with pytest.raises(ReportError, match="no row"):
        leaderboard_row(replace(run, result={**result, "magnetisation": 2}))
    with pytest.raises(ReportError, match="no row"):
        leaderboard_row(replace(run, config={**run.config, "orthogonal": [{"run": "x"}]}))
    with pytest.raises(ReportError, match="no row"):
        leaderboard_row(changed("optimizer", kind="time"))


@pytest.mark.parametrize("part", ["lattice", "hamiltonian", "orthogonal_to"])
def test_what_python_alone_describes_has_none(part: str) -> None:
    """A Hamiltonian of another size under the name of a model had a row below the ground state."""
    run = read_run(RECORDS / "triangular_12x12")
    with pytest.raises(ReportError, match="made in Python"):
        leaderboard_row(replace(run, config={**run.config, "python": {"own": [part]}}))
    assert leaderboard_row(replace(run, config={**run.config, "python": {"own": ["moves"]}}))


@pytest.mark.parametrize("section", ["ansatz", "measure"])
def test_characters_of_another_level_have_none(section: str) -> None:
    """The triplet of a chain of 20 sites had a row of the ground state."""
    with pytest.raises(ReportError, match="another level"):
        leaderboard_row(changed(section, characters={"spin inversion": -1}))
    assert leaderboard_row(changed(section, characters={"spin inversion": 1}))


def test_the_cost_of_a_part_is_not_that_of_the_whole() -> None:
    continued = leaderboard_row(read_run(RECORDS / "triangular_14x14_chi16"))["compute"]
    assert not {"wall_clock", "iterations", "cpu_core_hours"} & {*continued}
    assert leaderboard_row(read_run(RECORDS / "triangular_14x14"))["compute"]["iterations"] == 70


def test_units_and_names_are_theirs() -> None:
    ising: Any = changed("hamiltonian", model="tfim", J=2.0, h=6.0)
    config, result = (
        {**ising.config, "lattice": {"kind": "square", "shape": [12, 12]}},
        ising.result,
    )
    row = leaderboard_row(replace(ising, config=config))
    assert row["instance_id"] == "TFIsing/square_144_O_3"
    assert (
        row["energy"] == result["energy"] / 2 and row["energy_variance"] == result["variance"] / 4
    )
    rectangle = changed("lattice", kind="square", shape=[24, 6], boundary="periodic")
    assert leaderboard_row(rectangle)["instance_id"] == "Heisenberg/rectangular-6x24_144_P"
    for shape, name in [([8, 4], "4x8_32_PO"), ([4, 8], "4x8_32_OP")]:
        cylinder = changed("lattice", kind="square", shape=shape, boundary="cylinder")
        cylinder = replace(cylinder, result={**cylinder.result, "n_sites": 32})
        row = leaderboard_row(cylinder)
        assert row["instance_id"] == f"Heisenberg/rectangular-{name}"


def test_of_a_kagome_lattice_unit_cells_are_counted() -> None:
    row = leaderboard_row(changed("lattice", kind="kagome", shape=[6, 4], boundary="periodic"))
    assert row["instance_id"] == "Heisenberg/kagome-2x3_144_P"
