"""Rows of observables as data, and as ``tnvmc measure`` prints them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.run_files import observables
from tnvmc.report.observables import (
    _where,
    maximum,
    observed,
    print_observables,
    samples_text,
    written,
)

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
    assert bonds.extremes == ((min(means), 0.002), (max(means), 0.002))
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
        "energy of a bond -0.3829 on average, from -0.4618(20) to -0.2995(20)",
        "largest dimer, z -0.0200(10) between bonds (5, 6) and (1, 2)",
        "samples 2048 (worth 1890) at chi = 12",
        "written to runs/x/observables.json",
    ):
        assert text in shown


def test_samples() -> None:
    whole = {"n_samples": 70, "drawn": "enumerate"}
    assert samples_text(whole) == "all 70 configurations"
    whole |= {"chi": 8, "pair_samples": 70, "pair_chi": 8}
    assert samples_text(whole) == "all 70 configurations at chi = 8"
    told = samples_text({**whole, "pair_chi": 4})
    assert told == "all 70 configurations at chi = 8; S.S of all pairs at chi = 4"
    pairs = {"n_samples": 64, "effective_samples": 64.0, "pair_samples": 32, "pair_chi": 8}
    assert samples_text(pairs) == "64; S.S of all pairs on 32 at chi = 8"


def test_places_in_the_zone() -> None:
    assert [_where({}, np.array(q)) for q in ([0.5, -1], [0, -1.5])] == ["(π/2, −π)", "(0, −3π/2)"]


def test_averages_are_written_with_their_errors() -> None:
    """Rounding is 0, and without an error of the average its digits are those that one value has."""
    held = observables() | {
        "averages": {
            "bonds": {"nearest": {"mean": -0.38288, "error": 0.00036}},
            "sites": {"Sz": {"mean": 2e-17, "error": 3e-18}},
        }
    }
    rows = {row.name: row for row in observed(held)}
    assert rows["energy of a bond"].value == "-0.38288(36)"
    assert rows["<Sz> of a site"].value == "0"
    assert "(50)" in rows["<Sz> of a site"].detail
    held["averages"]["sites"]["Sz"] = {"mean": 0.05555555555555447, "error": 1.1e-16}
    rows = {row.name: row for row in observed(held)}
    assert rows["<Sz> of a site"].value == "0.05555556"
    flat = {"sites": {"Sx": {"mean": [0.0, 0.0], "error": [0.0, 0.0]}}}
    (row,) = observed(flat)
    assert (row.value, row.detail) == ("0", "on average, all 0")


def test_where_the_largest_factor_lies() -> None:
    """A fraction of pi on a grid, one number along a chain, decimals over a plane, to the right."""
    q = (np.array([[-0.5, -0.25], [0.5, 0.25], [0.0, 0.0]]) * np.pi).tolist()
    factor = {"mean": [2.0, 2.0, 1.0], "error": [0.1] * 3, "q": q}
    for zone, expected in (("square", "(−π/2, −π/4)"), ("plane", "(0.50π, 0.25π)")):
        top = maximum(factor | {"zone": zone})
        assert top is not None and top[2] == f"at q = {expected}"
    points = {"points": {"M": q[1:2], "extended K": [[0.0, 0.0], *q[:1]]}, "zone": "hexagon"}
    assert maximum(factor | points)[2] == "at q = M (0.50π, 0.25π)"  # type: ignore[index]
    points["points"] = {"extended K": q}
    assert maximum(factor | points)[2].startswith("at q = K of the extended zone")  # type: ignore[index]
    along = {"mean": [1.0, 2.0], "error": [0.1] * 2, "q": [[0, 0], [np.pi, 0]], "zone": "chain"}
    assert maximum(along) == (2.0, 0.1, "at q = π along the chain")


def test_the_largest_of_many_may_be_noise() -> None:
    for n, told in ((1, False), (40, True)):  # -0.02 is 2.9 errors from 0
        bonds = [*DIMERS["bonds"], *([i, i + 1] for i in range(20, 20 + n))]
        dimers = {"reference": DIMERS["reference"], "bonds": bonds, "error": [0.007] * (3 + n)}
        (row,) = observed({"dimers": dimers | {"mean": [*DIMERS["mean"], *[0.0] * n]}})
        assert ("not told from 0" in row.where) == told
    for mean, told in ((0.021, True), (0.05, False)):
        values = {"mean": [0.0] * 15 + [mean], "error": [0.01] * 16}
        (row,) = observed({"sites": {"Sz": values}})
        assert ("told from 0" in row.detail) == told


def test_parts_that_were_measured_otherwise_are_told() -> None:
    record = {"n_samples": 64, "chi": 12}
    held = {"n_samples": 64, "chi": 12, "measured": {"operators": {"ring": record}}}
    assert samples_text(held) == "64 at chi = 12"
    held["measured"] = {"operators": {"ring": record | {"n_samples": 32, "chi": 8}}}
    assert samples_text(held) == "64 at chi = 12; ring on 32 at chi = 8"


def test_small_energies_are_not_nothing() -> None:
    bonds = [{"kind": "nearest", "mean": -3e-13, "error": 2e-14} for _ in range(2)]
    (row,) = observed({"energy": {"mean": -6e-13, "error": 3e-14}, "bonds": bonds})
    assert row.value != "0" and "0" not in row.detail.split()
    assert written(-1e-14, 0.0) == "0"
