"""The table of a comparison, as it is printed and written."""

from __future__ import annotations

from typing import Any

from tnvmc.analysis.comparison import ComparedRun, ComparisonTable
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.report.comparison import headline, markdown, plain_text

Json = dict[str, Any]


def row(name: str, energy: float, **changes: Any) -> ComparedRun:
    values: Json = {
        "kind": "peps", "sampler": "metropolis", "parameters": 96, "steps": 4, "undone": 0,
        "first_energy": None, "energy": energy,
        "energy_error": 0.012, "energy_per_site": energy / 6, "energy_per_site_error": 0.002,
        "relative_error": 1e-3, "relative_error_error": 1e-4, "variance": 0.3, "v_score": 0.02,
        "seconds_per_step": 0.25, "compile_seconds": None, "seconds_per_effective_sample": None, "seconds": 1.0,
        "samples": 64, "diagnostics": (),
    }  # fmt: skip
    return ComparedRun(name, **values | changes)


ABOUT = {
    "hamiltonian": {"model": "heisenberg", "J": 1.0},
    "lattice": {"kind": "square", "shape": [2, 3], "boundary": "open"}, "n_sites": 6,
    "budget": {"samples": 640}, "measured_samples": 64, "symmetrise": [],
    "reference": {"energy": -3.0, "source": "somebody", "method": "QMC"},
}  # fmt: skip


def test_text_and_markdown_say_the_same() -> None:
    disagree = Diagnostic("walkers_disagree", "warning", {"r_hat": 1.3})
    rows = (row("PEPS D=2", -3.0), row("x", -2.9, diagnostics=(disagree,)))
    failed = Diagnostic("run_failed", "error", {"reason": "no luck"})
    table = ComparisonTable(rows, (("ViT", failed),), ABOUT)
    shown, page = plain_text(table), markdown(table)
    for part in (shown, page):
        for word in ("-0.5000(20)", "1.00(10)e-3", "5.00e-02", "x: R-hat is 1.300: the walkers",
                     "distance to QMC", "not in the table: ViT: failed: no luck"):  # fmt: skip
            assert word in part, word
    assert page.startswith(headline(table))
    assert page.startswith("heisenberg, J = 1; square, 2 x 3 sites, open; 640 samples for each ans")
    assert "QMC energy per site -0.5000000000" in page
    lines = shown.splitlines()
    assert len({line.index("-0.") for line in lines[2:4]}) == 1  # columns stand below each other
