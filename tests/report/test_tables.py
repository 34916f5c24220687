"""Tables of texts in columns, within the width of a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnvmc.report.numbers import in_columns

CELLS = st.text("abc-+.0123456789", min_size=1, max_size=30)
TABLES = st.integers(2, 8).flatmap(
    lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=2, max_size=5)
)


@given(TABLES, st.integers(20, 120))
def test_no_line_is_wider_than_the_terminal_and_nothing_is_lost(
    lines: list[list[str]], width: int
) -> None:
    """But where one column, with the first one before it, is wider already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        written = in_columns(lines)
    first = max(len(line[0]) for line in lines)
    widest = max(len(cell) for line in lines for cell in line[1:])
    assert max(map(len, written)) <= max(width, first + 2 + widest)
    blocks = "\n".join(written).split("\n\n")
    for number, line in enumerate(lines):
        rows = [block.split("\n")[number + (number > 0)] for block in blocks]  # below the rule
        assert all(row.split()[0] == line[0] for row in rows)
        assert [cell for row in rows for cell in row.split()[1:]] == line[1:]


def test_without_a_terminal_nothing_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [["name", "x" * 80], ["row", "y" * 80]]
    written = in_columns(lines)
    monkeypatch.setenv("COLUMNS", "200")
    assert in_columns(lines) == written
