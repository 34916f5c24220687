"""How numbers and tables are written: in every text, table and picture."""

import math
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from typing import Any

from tnvmc.shown import fixed, signed, with_error


def per_site(held: Mapping[str, Any], n_sites: int | None) -> str | None:
    """Write the "energy" and "energy_error" (totals) of a step, a stage or a result per site.

    None where the energy is not finite or the number of sites is not known.
    """
    energy, error = held.get("energy"), held.get("energy_error")
    if energy is None or not n_sites:
        return None
    return with_error(energy / n_sites, math.nan if error is None else error / n_sites)


def known_energy(value: float, error: float | None) -> str:
    """Write an energy to compare with: with its error, or ten digits where it has none."""
    return with_error(value, error) if error else fixed(value, 10)


def relative_error(result: Mapping[str, Any]) -> str | None:
    """Write how far a result lies from the energy to compare with, in parts of it, if known."""
    size, error = result.get("relative_error"), result.get("relative_error_error")
    if size is None:
        return None
    error = math.nan if error is None else error
    return signed(result.get("signed_error", size), error, 1.0)


Lines = Sequence[Sequence[str]]


def in_columns(lines: Lines) -> list[str]:
    """Write a table, its head first, in columns: the first to the left, others to the right.

    Columns beyond the width of the terminal (or COLUMNS) stand below, with the first one again.
    """
    width = get_terminal_size((0, 0)).columns or None  # None where the output goes elsewhere
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    written: list[str] = []
    for columns in _within(width, widths):
        head, *rows = (
            "  ".join(f"{line[k]:{'>' if k else '<'}{widths[k]}}" for k in columns).rstrip()
            for line in lines
        )
        rule = "-" * max(map(len, (head, *rows)))
        written += [*([""] if written else []), head, rule, *rows]
    return written


def _within(width: int | None, widths: Sequence[int]) -> list[list[int]]:
    """Group columns, each time after the first one, no wider than `width`; none is cut."""
    groups, used = [[0]], widths[0]
    for column, own in enumerate(widths[1:], 1):
        used += _BETWEEN + own
        if width is not None and used > width and len(groups[-1]) > 1:
            groups.append([0])
            used = widths[0] + _BETWEEN + own
        groups[-1].append(column)
    return groups


_BETWEEN = 2  # spaces between columns


def in_markdown(lines: Lines) -> list[str]:
    """Write the same as Markdown."""
    head, *rows = lines
    ruled = [head, (":--", *["--:"] * (len(head) - 1)), *rows]
    return ["| " + " | ".join(line) + " |" for line in ruled]
