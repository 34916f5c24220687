"""The tables and the pictures of several runs, as they are printed, written and drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.report.figures.series import draw_series
from tnvmc.report.show import headline, markdown, plain_text
from tnvmc.series.comparison import ComparedRun
from tnvmc.series.kind import SeriesTable
from tnvmc.series.level_checks import SectorRow
from tnvmc.series.machine import COMPARISON, KINDS, SCAN, SECTORS, STARTS
from tnvmc.series.scan import ScanRow
from tnvmc.series.several_starts import StartRow, StartTable
from tnvmc.trust.gaps import Gap
from tnvmc.trust.reference import Reference

LATTICE = {"kind": "square", "shape": [2, 3], "boundary": "open"}
HEISENBERG = {"model": "heisenberg", "J": 1.0}
MEASURED = {
    "energy_error": 0.003, "variance": 0.01, "v_score": 2e-3, "steps": 4, "n_samples": 64,
    "n_sites": 6, "units": "S.S",
}  # fmt: skip
FAILED = Diagnostic("run_failed", "error", {"reason": "no luck"})


def side_by_side(shown: str, text: str, rows: slice) -> bool:
    """Whether a text stands at the same place in these lines of a table, below its headline."""
    return len({line.index(text) for line in shown.splitlines()[2:][rows]}) == 1


# Comparisons.

COMPARED = {
    "hamiltonian": HEISENBERG, "lattice": LATTICE, "n_sites": 6, "units": "S.S",
    "magnetisation": None, "budget": {"steps": 10}, "measured_samples": 64, "symmetrise": [],
    "reference": {"energy": -3.0, "source": "somebody", "method": "QMC"},
}  # fmt: skip


def compared(name: str, energy: float, **changes: Any) -> ComparedRun:
    values: dict[str, Any] = {
        "sampler": "metropolis", "parameters": 96, "energy_error": 0.012, "energy_per_site": energy / 6,
        "energy_per_site_error": 0.002,
        "relative_error": 1e-3, "relative_error_error": 1e-4, "variance": 0.3, "v_score": 0.02,
        "seconds_per_step": 0.25, "seconds_per_effective_sample": None,
        "seconds": 1.0,
    }  # fmt: skip
    return ComparedRun(name=name, energy=energy, **MEASURED | values | changes)


def test_a_comparison_in_text_and_markdown() -> None:
    disagree = Diagnostic("walkers_disagree", "warning", {"r_hat": 1.3})
    rows = (compared("PEPS D=2", -3.0), compared("x", -2.9, diagnostics=(disagree,)))
    table = SeriesTable(COMPARISON, rows, (("ViT", FAILED),), COMPARED)
    shown, page = plain_text(table), markdown(table)
    for part in (shown, page):
        for word in ("-0.5000(20)", "1.00(10)e-3", "5.00e-02", "x: R-hat is 1.300: the walkers",
                     "distance to QMC", "not in the table: ViT: failed: no luck"):  # fmt: skip
            assert word in part, word
        assert part.startswith(headline(table))
    assert page.startswith("heisenberg, J = 1; square, 2 x 3 sites, open; 10 steps for each ans")
    assert "QMC energy per site -0.5000000000" in page
    assert side_by_side(shown, "-0.", slice(2, 4))


# Sectors.

SECTORS_ABOUT = {
    "hamiltonian": HEISENBERG, "lattice": LATTICE, "n_sites": 6, "units": "S.S", "first": "ground",
}  # fmt: skip


def level(name: str, energy: float, **changes: Any) -> SectorRow:
    return SectorRow(name=name, energy=energy, **MEASURED | {"magnetisation": 0} | changes)


def sector_table(*more: SectorRow) -> SeriesTable:
    values = {"residual": 1e-4, "residual_below": 2e-4, "bias": -1e-4}
    small = Diagnostic("gap_bias_small", "good", values)
    gap = Gap(0.8123, 0.004, 1e-4, 2e-4, "S.S", (small,))
    dmrg = Reference(-2.31, "somebody", "extrapolated", 0.002)
    exact = Reference(-3.129385, "diagonalisation", "exact")
    above = {"gap": gap, "exact": dmrg, "exact_gap": 0.819385, "gap_sigmas": -1.6}
    rows = (
        level("ground", -3.129, exact=exact, sigmas=0.13),
        level("triplet", -2.3167, magnetisation=2, **above),
    )
    missing = (("odd", Diagnostic("sector_unfinished", "error")),)
    return SeriesTable(SECTORS, (*rows, *more), missing, SECTORS_ABOUT)


def levels_drawn(*rows: SectorRow) -> Any:
    """The axes of the picture of a table."""
    table = SeriesTable(SECTORS, rows, (), SECTORS_ABOUT)
    return draw_series(SECTORS.picture(None, table))["levels"].axes[0]


def test_sectors_in_text_and_markdown() -> None:
    table = sector_table()
    shown, page = plain_text(table), markdown(table)
    for part in (shown, page):
        for word in ("-3.1290(30)", "0.8123(40)", "0.819385", "-1.6", "not in the table: odd",
                     "-2.3100(20) (somebody)", "E: errors off", "gap: errors off"):  # fmt: skip
            assert word in part, word
        assert "bias" not in part  # which is small
        assert "symmetry" not in part and "orthogonal to" not in part  # columns of nothing
        assert part.startswith(headline(table))
    assert "'ground'" in headline(table) and side_by_side(shown, "e-03", slice(2, 4))


def test_symmetries_and_overlaps_are_shown_where_there_are_any() -> None:
    even = level(
        "even", -2.3, symmetrise=("spin",), characters={"spin inversion": 1},
        orthogonal_to=("ground",), overlaps=({"squared": 0.001, "error": 0.002},),
    )  # fmt: skip
    page = markdown(sector_table(even))
    assert "| spin (spin inversion +1) | ground |" in page
    assert "even: squared overlap with ground: 0.0010(20)" in page


def test_levels_are_drawn_at_their_gaps() -> None:
    axes = levels_drawn(*sector_table().rows)
    heights = sorted(y for group in axes.collections for (_, y), *_ in group.get_segments())
    assert heights.count(0.8123) >= 1 and heights.count(0.819385) == 1 and heights.count(0.0) >= 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["measured", "reference"]


def test_a_level_without_a_gap_is_not_drawn() -> None:
    axes = levels_drawn(level("ground", -3.1), level("not orthogonal", 1.1))
    assert len(axes.get_xticklabels()) == 1


def test_a_picture_of_levels_tells_sectors_of_one_magnetisation_apart() -> None:
    gap: Any = {"gap": Gap(0.8, 0.01, 0.0, 0.0, "S.S", ())}
    rows = (
        level("ground", -3.1),
        level("next", -2.3, orthogonal_to=("ground", "triplet"), **gap),
        level("odd", -2.0, symmetrise=("spin",), characters={"spin inversion": -1}, **gap),
        level("sum", -3.1, symmetrise=("spin", "point"), **gap),
    )
    labels = [text.get_text().split("\n") for text in levels_drawn(*rows).get_xticklabels()]
    assert [lines[:2] for lines in labels] == [[row.name, "2 Sz = 0"] for row in rows]
    assert len({tuple(lines[2:]) for lines in labels}) == len(rows)
    assert "ground, triplet" in labels[1][2] and "spin inversion −1" in labels[2]
    assert "spin, point" in labels[3][2]


def test_exact_levels_are_seen_behind_energies_that_agree() -> None:
    gap = Gap(0.8, 0.004, 1e-4, 2e-4, "S.S", ())
    axes = levels_drawn(level("a", -3.1), level("b", -2.3, gap=gap, exact_gap=0.8))
    widths = {
        group.get_zorder(): group.get_linewidth()[0]
        for group in axes.collections
        if any(left[1] == 0.8 and left[0] < 1 < right[0] for left, right in group.get_segments())
    }  # fmt: skip
    behind, before = (widths[order] for order in sorted(widths))
    assert behind > 2 * before


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_table_without_rows_names_what_is_missing(kind: Any) -> None:
    about = COMPARED | SECTORS_ABOUT | {"key": "hamiltonian.J", "values": [1.0, 2.0]}
    about |= {"random": {"J": (0.5, 1.5)}, "runs": 2}
    table = SeriesTable if kind is not STARTS else StartTable
    empty = table(kind, (), (("x", FAILED),), about)
    assert "x: failed: no luck" in plain_text(empty) and "x: failed: no luck" in markdown(empty)
    assert "run_failed" in repr(empty) and "no luck" in empty._repr_html_()
    with pytest.raises(KeyError):
        empty["x"]


def test_a_notebook_shows_energies_and_gaps() -> None:
    shown = sector_table()
    assert "triplet -2.3167(30)" in repr(shown) and "odd" in repr(shown)
    html = shown._repr_html_()
    assert "0.8123(40)" in html and "sector_unfinished" not in html
    gap = shown["triplet"].gap
    assert "0.8123(40)" in repr(gap) and "0.8123(40)" in gap._repr_html_()


# Starts.

STARTS_ABOUT = {
    "hamiltonian": HEISENBERG,
    "lattice": {"kind": "square", "shape": [4, 4], "boundary": "cylinder"}, "n_sites": 16,
    "units": "S.S",
}  # fmt: skip
ALONE = Diagnostic(
    "lowest_alone", "warning", {"n_starts": 2, "near": 1, "within": 3.0, "spread_per_site": 1e-3}
)
FAR = Diagnostic("walkers_few", "warning", {})
BELOW = Diagnostic(
    "below_reference",
    "warning",
    {"sigmas": 9.0, "relative": 1e-2, "method": "exact", "raise": ["chi"]},
)
FIRST = StartRow(
    name="start-1", seed=0, energy=-9.88, above=4.1, diagnostics=(FAR,),
    **MEASURED | {"energy_error": 0.004, "variance": 1.28, "n_sites": 16},
)  # fmt: skip
LOWEST = replace(FIRST, name="start-2", seed=1, energy=-9.9, above=None)
AGAIN = replace(LOWEST, name="again-2", seed=1001, energy=-9.896)


def start_table(measured: StartRow | None = AGAIN, first: StartRow = FIRST) -> StartTable:
    unfinished = (("start-3", Diagnostic("start_unfinished", "error")),)
    rows = (first, LOWEST)
    return StartTable(STARTS, rows, unfinished, STARTS_ABOUT, (ALONE,), "start-2", measured)


def test_starts_in_text_and_markdown() -> None:
    table = start_table()
    for part in (plain_text(table), markdown(table)):
        for word in ("-9.8800(40)", "-0.61750(25)", "8.00e-02", "+4.1", "1001",
                     "not in the table: start-3", "-0.61850(25) per site (again-2)",
                     "run.starts"):  # fmt: skip
            assert word in part, word
        assert part.startswith(headline(table)) and "cylinder" in headline(table)


def test_the_energy_to_quote_is_the_one_of_new_samples() -> None:
    assert "-0.61875" in plain_text(start_table())  # in the row of the start
    assert "measured again, " not in plain_text(start_table(None))
    assert "too low on average" in plain_text(start_table(None))


def test_doubts_are_those_of_the_energy_to_quote_and_what_is_wrong_of_all() -> None:
    def doubted(shown: str) -> list[str]:
        return [
            line.split(":")[0]
            for line in shown.splitlines()
            if "walkers_few" in line or "error bars below" in line
        ]

    assert doubted(plain_text(start_table())) == ["again-2"]
    assert doubted(plain_text(start_table(None))) == ["start-2"]
    wrong = replace(FIRST, diagnostics=(BELOW,))
    assert doubted(plain_text(start_table(first=wrong))) == ["start-1", "again-2"]


def test_a_notebook_shows_the_starts() -> None:
    for name in ("start-1", "start-2", "again-2"):
        assert name in repr(start_table()) and name in start_table()._repr_html_()


# Scans.

SCAN_ABOUT = {
    "hamiltonian": {"model": "tfim", "J": 1.0}, "lattice": LATTICE, "n_sites": 6, "units": "Pauli",
    "key": "hamiltonian.h", "values": [2.0, 1.0, 0.5],
}  # fmt: skip


def scan_table() -> SeriesTable:
    rows = [
        ScanRow(name=f"h={h}", energy=-6 * h, value=h, **MEASURED | more)
        for h, more in (
            (2.0, {"exact_energy_per_site": -2.001, "exact_method": "exact"}),
            (1.0, {"observables": {"Sx": {"mean": 0.25, "error": 0.001}}}),
            (0.5, {"exact_energy_per_site": -0.6, "exact_method": "QMC"}),
        )
    ]
    missing = (("h=0", Diagnostic("run_not_begun", "error")),)
    return SeriesTable(SCAN, tuple(rows), missing, SCAN_ABOUT)


def test_a_scan_in_text_and_markdown() -> None:
    table = scan_table()
    for part in (plain_text(table), markdown(table)):
        for word in ("hamiltonian.h from 2 to 0.5", "-1.00000(50)", "0.2500(10)", "+2.0", "Sx",
                     "QMC", "not in the table: h=0: not begun"):  # fmt: skip
            assert word in part, word
    assert "h =" not in headline(table)  # it has no value of its own


def test_a_scan_is_drawn_with_its_observables_by_rising_values() -> None:
    series: Any = type("Series", (), {"observables": ("Sx",)})
    energies, magnetisations = draw_series(SCAN.picture(series, scan_table()))["scan"].axes
    (points,) = energies.containers
    assert points.lines[0].get_xydata().tolist() == [[0.5, -0.5], [1.0, -1.0], [2.0, -2.0]]
    assert [text.get_text() for text in energies.get_legend().get_texts()] == ["exact", "measured"]
    (points,) = magnetisations.containers
    assert points.lines[0].get_xydata().tolist() == [[1.0, 0.25]]
    assert magnetisations.get_xlabel() == "h"
