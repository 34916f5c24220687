"""The table of several runs, as text for a terminal and as Markdown."""

from __future__ import annotations

from pathlib import Path

from tnvmc.report.describe import facts
from tnvmc.report.tables import in_columns, in_markdown
from tnvmc.report.texts import line, sentence
from tnvmc.series.kind import SeriesTable
from tnvmc.storage.run_files import Run


def headline(table: SeriesTable) -> str:
    """Write in a line what the runs are of."""
    shared = {key: table.about[key] for key in ("hamiltonian", "lattice")}
    words = facts(Run(Path(), shared))
    parts = [words[name] for name in ("model", "lattice") if name in words]
    return "; ".join([*parts, table.kind.headline(table)])


def plain_text(table: SeriesTable, width: int | None = None) -> str:
    """Write headline and table in columns, with what is to be noted below it."""
    lines = in_columns(table.cells(), _side(table), width) if table.every_row else []
    below = notes(table)
    return "\n".join([headline(table), *([""] if lines or below else []), *lines, *below])


def markdown(table: SeriesTable) -> str:
    """Write the content of the table's page."""
    lines = in_markdown(table.cells(), _side(table)) if table.every_row else []
    page = [headline(table), "", *lines, "", *(f"- {note}" for note in notes(table))]
    return "\n".join(page).rstrip() + "\n"


def notes(table: SeriesTable) -> list[str]:
    """Write what is left out of a table, and what is to be noted of it."""
    found = [f"not in the table: {name}: {sentence(reason)}" for name, reason in table.left_out]
    found += map(line, table.diagnostics)
    for name, note in table.kind.notes(table):
        text = note if isinstance(note, str) else sentence(note)
        found.append(f"{name}: {text}" if name else text)
    return found


def _side(table: SeriesTable) -> str:
    return "<" if table.kind.columns(table)[-1].left else ">"
