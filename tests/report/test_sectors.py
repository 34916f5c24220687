"""The table of several sectors, as it is printed and written."""

from __future__ import annotations

from typing import Any

from tnvmc.analysis.gaps import Gap
from tnvmc.analysis.reference import Reference
from tnvmc.analysis.sectors import Level, SectorTable
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.report.figures.levels import draw_levels
from tnvmc.report.sectors import headline, markdown, plain_text

ABOUT = {
    "hamiltonian": {"model": "heisenberg", "J": 1.0},
    "lattice": {"kind": "square", "shape": [2, 3], "boundary": "open"},
    "n_sites": 6, "units": "S.S", "first": "ground",
}  # fmt: skip


def level(name: str, energy: float, **changes: Any) -> Level:
    values: dict[str, Any] = {
        "magnetisation": 0, "symmetrise": (), "characters": {}, "orthogonal_to": (), "energy": energy,
        "energy_error": 0.003, "variance": 0.01, "v_score": 2e-3, "steps": 4, "n_samples": 64, "n_sites": 6,
        "units": "S.S",
    }  # fmt: skip
    return Level(name, **values | changes)


def table() -> SectorTable:
    small = Diagnostic(
        "gap_bias_small", "good", {"residual": 1e-4, "residual_below": 2e-4, "bias": -1e-4}
    )
    gap = Gap(0.8123, 0.004, 1e-4, 2e-4, "S.S", (small,))
    dmrg = Reference(-2.31, "somebody", "extrapolated", 0.002)
    rows = (
        level("ground", -3.129, exact=Reference(-3.129385, "diagonalisation", "exact"), sigmas=0.13),
        level("triplet", -2.3167, magnetisation=2, gap=gap, exact=dmrg, exact_gap=0.819385, gap_sigmas=-1.6),
    )  # fmt: skip
    return SectorTable(rows, (("odd", Diagnostic("sector_unfinished", "error")),), ABOUT)


def test_text_and_markdown_say_the_same() -> None:
    shown, page = plain_text(table()), markdown(table())
    for part in (shown, page):
        for word in ("-3.1290(30)", "0.8123(40)", "0.819385", "-1.6", "not in the table: odd",
                     "-2.3100(20) (somebody)", "E: errors off", "gap: errors off"):  # fmt: skip
            assert word in part, word
        assert "bias" not in part  # which is small
        assert "symmetry" not in part and "orthogonal to" not in part  # columns of nothing
    assert page.startswith(headline(table())) and "'ground'" in headline(table())
    lines = shown.splitlines()
    assert len({line.index("e-03") for line in lines[2:4]}) == 1  # columns stand below each other


def test_symmetries_and_overlaps_are_shown_where_there_are_any() -> None:
    even = level(
        "even", -2.3, symmetrise=("spin",), characters={"spin inversion": 1}, orthogonal_to=("ground",),
        overlaps=({"squared": 0.001, "error": 0.002},),
    )  # fmt: skip
    page = markdown(SectorTable((*table().levels, even), (), ABOUT))
    assert "| spin (spin inversion +1) | ground |" in page
    assert "even: squared overlap with ground: 0.0010(20)" in page


def test_levels_are_drawn_at_their_gaps() -> None:
    (axes,) = draw_levels(table().levels).axes
    heights = sorted(y for group in axes.collections for (_, y), *_ in group.get_segments())
    assert heights.count(0.8123) >= 1 and heights.count(0.819385) == 1 and heights.count(0.0) >= 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["measured", "reference"]


def test_a_picture_of_levels_tells_sectors_of_one_magnetisation_apart() -> None:
    rows = (
        level("ground", -3.1),
        level("next", -2.3, orthogonal_to=("ground", "triplet")),
        level("odd", -2.0, symmetrise=("spin",), characters={"spin inversion": -1}),
        level("sum", -3.1, symmetrise=("spin", "point")),
    )
    (axes,) = draw_levels(rows).axes
    told = [text.get_text().split("\n") for text in axes.get_xticklabels()]
    assert [lines[:2] for lines in told] == [[row.name, "2 Sz = 0"] for row in rows]
    assert len({tuple(lines[2:]) for lines in told}) == len(rows)
    assert "ground, triplet" in told[1][2] and "spin inversion −1" in told[2]
    assert "spin, point" in told[3][2]


def test_exact_levels_are_seen_behind_energies_that_agree() -> None:
    gap = Gap(0.8, 0.004, 1e-4, 2e-4, "S.S", ())
    (axes,) = draw_levels((level("a", -3.1), level("b", -2.3, gap=gap, exact_gap=0.8))).axes
    widths = {
        group.get_zorder(): group.get_linewidth()[0]
        for group in axes.collections
        if any(segment[0][1] == 0.8 and segment[0][0] < 1 < segment[1][0] for segment in group.get_segments())
    }  # fmt: skip
    behind, before = (widths[order] for order in sorted(widths))
    assert behind > 2 * before


def test_a_notebook_shows_energies_and_gaps() -> None:
    shown = table()
    assert "triplet -2.3167(30), gap 0.8123(40)" in repr(shown) and "odd" in repr(shown)
    html = shown._repr_html_()
    assert "0.8123(40)" in html and "the bias of the gap" in html
    gap = shown.gaps["triplet"]
    assert "0.8123(40)" in repr(gap) and "0.8123(40)" in gap._repr_html_()
