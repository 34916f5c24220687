"""The table of several starts, as text for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tnvmc.analysis.starts import Start, StartTable
from tnvmc.report.describe import facts
from tnvmc.report.tables import in_columns, in_markdown
from tnvmc.report.texts import line, sentence
from tnvmc.shown import with_error
from tnvmc.storage.run_files import Run

_HEAD = ("start", "seed", "energy", "per site", "variance per site", "errors above")


def headline(table: StartTable) -> str:
    """Write in a line what the starts are of."""
    about = table.about
    told = facts(Run(Path(), {key: about[key] for key in ("hamiltonian", "lattice")}))
    return f"{told['model']}; {told['lattice']}; energies in {about['units']} units"


def plain_text(table: StartTable, width: int | None = None) -> str:
    """Write the table in columns, with the energy to quote and what is to be noted below it."""
    return "\n".join([*in_columns(_lines(table), ">", width), *_below(table)])


def markdown(table: StartTable) -> str:
    """Write the content of starts.md."""
    below = [f"- {told}" for told in _below(table)]
    page = [headline(table), "", *in_markdown(_lines(table), ">"), "", *below]
    return "\n".join(page).rstrip() + "\n"


def _lines(table: StartTable) -> list[tuple[str, ...]]:
    """Head and rows."""
    return [_HEAD, *map(_row, table.starts), *([_row(table.measured)] if table.measured else [])]


def _row(start: Start) -> tuple[str, ...]:
    n = start.n_sites
    return (
        start.name,
        str(start.seed),
        with_error(start.energy, start.energy_error),
        with_error(start.energy / n, start.energy_error / n),
        f"{start.variance / n:.2e}",
        "-" if start.above is None else f"{start.above:+.1f}",
    )


def _below(table: StartTable) -> Iterator[str]:
    yield from (f"not in the table: {name}: {sentence(why)}" for name, why in table.left_out)
    if table.measured is not None:
        n, found = table.measured.n_sites, table.measured
        per_site = with_error(found.energy / n, found.energy_error / n)
        yield f"measured again, the state of {table.lowest} has the energy {per_site} per site ({found.name}): the one to quote"
    elif table.lowest is not None:
        yield f"the energy of {table.lowest} is the lowest of several, so it is too low on average; measure its state again"
    yield from map(line, table.diagnostics)
    for each in [*table.starts, *([table.measured] if table.measured else [])]:
        quoted = each is table.measured or (table.measured is None and each.name == table.lowest)
        yield from (f"{each.name}: {line(x)}" for x in (each.diagnostics if quoted else each.wrong))
