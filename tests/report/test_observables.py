"""Rows of observables as data, and as ``tnvmc measure`` prints them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.run_files import observables
from tnvmc.report.observables import observed, place, print_observables, samples_text

DIMERS = {
    "reference": [5, 6], "bonds": [[6, 7], [1, 2], [8, 9]], "mean": [0.3, -0.02, 0.01],
    "error": [0.1, 0.001, 0.001],
}  # fmt: skip


def test_rows() -> None:
    held = observables() | {"dimers": DIMERS}
    rows = {row.name: row for row in observed(held)}
    assert list(rows) == [
        "M^2, staggered", "largest S(q), SS", "energy of a bond", "<Sz> of a site",
        "largest dimer, z", "left half",
    ]  # fmt: skip
    squared = held["staggered_magnetisation_squared"]
    assert (rows["M^2, staggered"].mean, rows["M^2, staggered"].error) == (squared["mean"], 0.002)
    peak = rows["largest S(q), SS"]
    assert (peak.mean, peak.where) == (pytest.approx(16 * squared["mean"]), "at q = (π, π)")
    means = [bond["mean"] for bond in held["bonds"]]
    bonds = rows["energy of a bond"]
    assert bonds.mean == pytest.approx(np.mean(means))
    assert bonds.extremes == (min(means), max(means))
    assert rows["largest dimer, z"].mean == -0.02  # the other one shares a site


def test_kinds_of_bonds_have_rows_of_their_own() -> None:
    bonds = [{"sites": [0, 1], "kind": kind, "mean": mean, "error": 0.1}
             for kind, mean in (("nearest", -0.3), ("diagonal", 0.1), ("nearest", -0.5))]  # fmt: skip
    found = {row.name: row.mean for row in observed({"bonds": bonds})}
    assert found == {"energy of a nearest bond": -0.4, "energy of a diagonal bond": 0.1}


def test_what_is_not_finite_is_told() -> None:
    held = {
        "operators": {"a": {"mean": None, "error": None}, "b": {"mean": 1.0, "error": None}},
        "sites": {"Sz": {"mean": [None, 0.1], "error": [None, 0.1]}},
        "dimers": DIMERS | {"bonds": [[5, 1], [6, 2], [5, 9]]},
    }
    rows = {row.name: row for row in observed(held)}
    assert math.isnan(rows["a"].mean) and math.isinf(rows["b"].error)
    assert rows["<Sz> of a site"].value == rows["a"].value == "not finite"
    assert rows["largest dimer, z"].where == "no bonds apart"


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_observables(observables() | {"dimers": DIMERS}, Path("runs/x"))
    shown = " ".join(capsys.readouterr().out.split())
    for text in (
        "energy per site -0.57433(12) (S.S units)",
        "variance per site 7.500e-04",
        "M^2, staggered 0.2331(20)",
        "largest S(q), SS 3.729(10) at q = (pi, pi)",
        "energy of a bond -0.38288 on average, from -0.46185 to -0.29947",
        "largest dimer, z -0.0200(10) between bonds (5, 6) and (1, 2)",
        "samples 2048 (worth 1890) at chi = 12",
        "written to runs/x/observables.json",
    ):
        assert text in shown


def test_samples() -> None:
    assert samples_text({"n_samples": 70, "drawn": "enumerate"}) == "all 70 configurations"
    pairs = {"n_samples": 64, "effective_samples": 64.0, "pair_samples": 32, "pair_chi": 8}
    assert samples_text(pairs) == "64; S.S of all pairs on 32 at chi = 8"


def test_places_in_the_zone() -> None:
    assert [place(np.array(q)) for q in ([0.5, -1], [0, -1.5])] == ["(π/2, −π)", "(0, −3π/2)"]
