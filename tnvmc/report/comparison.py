"""The table of a comparison, as text for a terminal and as Markdown."""

from __future__ import annotations

from pathlib import Path

from tnvmc.analysis.comparison import ComparisonTable
from tnvmc.report.describe import facts, sector_text
from tnvmc.report.numbers import known_energy, scientific
from tnvmc.report.tables import in_columns, in_markdown
from tnvmc.report.texts import listed, sentence
from tnvmc.shown import with_error
from tnvmc.storage.run_files import Run


def headline(table: ComparisonTable) -> str:
    """Write in a line what was compared, and how it was measured."""
    about = table.about
    told = facts(Run(Path(), {key: about[key] for key in ("hamiltonian", "lattice")}))
    ((unit, amount),) = about["budget"].items()
    known = about["reference"]["energy"]
    reference = "no reference energy is known"
    if known is not None:
        method, source = about["reference"]["method"], about["reference"]["source"]
        error = (about["reference"].get("error") or 0.0) / about["n_sites"]
        digits = known_energy(known / about["n_sites"], error)
        reference = f"{method} energy per site {digits} ({source})"
    sector = sector_text(about)
    symmetries = f", symmetries {listed(about['symmetrise'])}" if about["symmetrise"] else ""
    return (
        f"{told['model']}; {told['lattice']}; {sector and sector + '; '}{amount:g} {unit} for each ansatz; "
        f"measured with {about['measured_samples']} samples{symmetries}; {reference}"
    )


def plain_text(table: ComparisonTable, width: int | None = None) -> str:
    """Write the table in columns, with what is left out and what is to be noted below it."""
    lines = in_columns(_lines(table), "<", width)
    return "\n".join([*lines, *_below(table)])


def markdown(table: ComparisonTable) -> str:
    """Write the content of comparison.md."""
    below = [f"- {line}" for line in _below(table)]
    page = [headline(table), "", *in_markdown(_lines(table)), "", *below]
    return "\n".join(page).rstrip() + "\n"


def _below(table: ComparisonTable) -> list[str]:
    told = [f"not in the table: {name}: {sentence(reason)}" for name, reason in table.left_out]
    return told + [
        f"{row.name}: {'; '.join(map(sentence, row.diagnostics))}"
        for row in table.rows
        if row.diagnostics
    ]


def _lines(table: ComparisonTable) -> list[tuple[str, ...]]:
    """Head and rows."""
    method, n = table.about["reference"]["method"], table.about["n_sites"]
    distance = "relative error" if method in (None, "exact") else f"distance to {method}"
    head = (
        "ansatz", "energy per site", distance, "var / N", "V-score", "parameters", "steps",
        "s / step", "s / eff. sample", "sampler",
    )  # fmt: skip
    rows = [
        (
            row.name,
            with_error(row.energy_per_site, row.energy_per_site_error),
            scientific(row.relative_error, row.relative_error_error),
            f"{row.variance / n:.2e}",
            f"{row.v_score:.2e}",
            str(row.parameters),
            str(row.steps),
            _short(row.seconds_per_step),
            _short(row.seconds_per_effective_sample),
            row.sampler,
        )
        for row in table.rows
    ]
    return [head, *rows]


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}" if value < 100 else f"{value:.0f}"
