"""Tables of texts: in columns for a terminal, as Markdown for a page."""

from __future__ import annotations

from collections.abc import Sequence
from shutil import get_terminal_size

Lines = Sequence[Sequence[str]]


def in_columns(lines: Lines, last: str = "<", width: int | None = None) -> list[str]:
    """Write a table, its head first, in columns: the first to the left, others to the right.

    Args:
        lines: texts, as many in each.
        last: side of the last column.
        width: of the terminal; columns beyond it stand below, with the first one again.
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = ("<", *">" * (len(widths) - 2), last)
    written: list[str] = []
    for columns in _within(width, widths):
        head, *rows = (
            "  ".join(f"{line[k]:{sides[k]}{widths[k]}}" for k in columns).rstrip()
            for line in lines
        )
        rule = "-" * max(map(len, (head, *rows)))
        written += [*([""] if written else []), head, rule, *rows]
    return written


def _within(width: int | None, widths: Sequence[int]) -> list[list[int]]:
    """Group columns so that each group, with the first column before it, is no wider than `width`; a column is never cut."""
    groups, used = [[0]], widths[0]
    for column, own in enumerate(widths[1:], 1):
        used += _BETWEEN + own
        if width is not None and used > width and len(groups[-1]) > 1:
            groups.append([0])
            used = widths[0] + _BETWEEN + own
        groups[-1].append(column)
    return groups


_BETWEEN = 2  # spaces between columns


def terminal_width() -> int | None:
    """Give the columns of the terminal (or COLUMNS); None where the output goes elsewhere."""
    return get_terminal_size((0, 0)).columns or None


def in_markdown(lines: Lines, last: str = "<") -> list[str]:
    """Write the same as Markdown."""
    head, *rows = lines
    end = ":--" if last == "<" else "--:"
    ruled = [head, (":--", *["--:"] * (len(head) - 2), end), *rows]
    return ["| " + " | ".join(line) + " |" for line in ruled]
