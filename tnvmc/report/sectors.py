"""The table of several sectors, as text for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress
from pathlib import Path

from tnvmc.analysis.gaps import Gap
from tnvmc.analysis.sectors import Level, SectorTable
from tnvmc.report.describe import facts
from tnvmc.report.tables import in_columns, in_markdown
from tnvmc.report.texts import sentence
from tnvmc.shown import fixed, with_error
from tnvmc.storage.run_files import Run

_NONE = "-"


def headline(table: SectorTable) -> str:
    """Write in a line what the sectors are of."""
    about = table.about
    told = facts(Run(Path(), {key: about[key] for key in ("hamiltonian", "lattice")}))
    return (
        f"{told['model']}; {told['lattice']}; energies are totals in {about['units']} units, gaps count from "
        f"'{about['first']}'"
    )


def plain_text(table: SectorTable, width: int | None = None) -> str:
    """Write the table in columns, with what is left out and what is to be noted below it."""
    lines = in_columns(_lines(table), ">", width)
    return "\n".join([*lines, *_below(table)])


def markdown(table: SectorTable) -> str:
    """Write the content of sectors.md."""
    below = [f"- {line}" for line in _below(table)]
    page = [headline(table), "", *in_markdown(_lines(table), ">"), "", *below]
    return "\n".join(page).rstrip() + "\n"


def _lines(table: SectorTable) -> list[tuple[str, ...]]:
    """Head and rows, without columns that are empty."""
    head = (
        "sector", "2 Sz", "symmetry", "orthogonal to", "energy", "V-score", "exact", "E: errors off", "gap",
        "exact gap", "gap: errors off",
    )  # fmt: skip
    lines = [head, *map(_row, table.levels)]
    kept = [
        len(set(column[1:])) > 1 or column[1:] != (_NONE,) * len(column[1:])
        for column in zip(*lines, strict=True)
    ]
    return [tuple(compress(line, kept)) for line in lines]


def _row(level: Level) -> tuple[str, ...]:
    gap, exact = level.gap, level.exact.energy
    return (
        level.name,
        _NONE if level.magnetisation is None else str(level.magnetisation),
        _symmetry(level),
        ", ".join(level.orthogonal_to) or _NONE,
        with_error(level.energy, level.energy_error),
        f"{level.v_score:.1e}",
        _NONE if exact is None else fixed(exact, 6),
        _errors(level.sigmas),
        _NONE if gap is None else with_error(gap.energy, gap.error),
        _NONE if level.exact_gap is None else fixed(level.exact_gap, 6),
        _errors(level.gap_sigmas),
    )


def _symmetry(level: Level) -> str:
    """Write which symmetries a state has: "spin", "spin (spin inversion -1)"."""
    signs = ", ".join(f"{name} {sign:+d}" for name, sign in level.characters.items())
    return ", ".join(level.symmetrise) + (f" ({signs})" if signs else "") or _NONE


def _errors(sigmas: float | None) -> str:
    return _NONE if sigmas is None else f"{sigmas:+.1f}"


def _below(table: SectorTable) -> list[str]:
    told = [f"not in the table: {name}: {sentence(reason)}" for name, reason in table.left_out]
    told += [f"{level.name}: {text}" for level in table.levels for text in _notes(level)]
    return told


def _notes(level: Level) -> Iterator[str]:
    for other, each in zip(
        level.orthogonal_to, level.overlaps[-len(level.orthogonal_to) :], strict=False
    ):
        yield f"squared overlap with {other}: {with_error(each['squared'], each['error'])}"
    if level.exact.energy is not None and level.exact.method != "exact":
        value = with_error(level.exact.energy, level.exact.error or 0.0)
        yield f'"exact" is {level.exact.method}: {value} ({level.exact.source})'
    yield from map(sentence, level.diagnostics)
    if isinstance(level.gap, Gap):
        doubts = (found for found in level.gap.diagnostics if found.status != "good")
        yield from (f"gap: {sentence(found)}" for found in doubts)
