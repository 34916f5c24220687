"""Tables of texts: in columns for a terminal, as Markdown for a page."""

from __future__ import annotations

from collections.abc import Sequence

Lines = Sequence[Sequence[str]]


def in_columns(lines: Lines, last: str = "<") -> list[str]:
    """Write a table, its head first, in columns: the first to the left, others to the right.

    `last` is the side of the last column.
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = ("<", *">" * (len(widths) - 2), last)
    first, *others = (
        "  ".join(map("{:{}{}}".format, line, sides, widths)).rstrip() for line in lines
    )
    rule = "-" * max(map(len, (first, *others)))
    return [first, rule, *others]


def in_markdown(lines: Lines, last: str = "<") -> list[str]:
    """Write the same as Markdown."""
    head, *rows = lines
    end = ":--" if last == "<" else "--:"
    ruled = [head, (":--", *["--:"] * (len(head) - 2), end), *rows]
    return ["| " + " | ".join(line) + " |" for line in ruled]
