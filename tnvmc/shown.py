"""Level 0: how results show themselves: digits, tables in text and HTML, data frames.

A result says what its table holds (`Shown`); no sentence is made here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

LARGE = 1e9
"""Numbers beyond it are written with a power of ten."""


def fixed(value: float, places: int) -> str:
    """Write a number with so many decimals; with a power of ten where too few digits are left."""
    plain = value == 0 or 10.0 ** (2 - places) <= abs(value) < LARGE or not math.isfinite(value)
    return f"{value:.{places}f}" if plain else f"{value:.{places}e}"


def with_error(value: float, error: float) -> str:
    """Write a number with its error in brackets, as -0.60352(12), two digits of error at most."""
    if not math.isfinite(value) or not math.isfinite(error):
        return f"{value:.6g} +- {error:.2g}"
    if abs(value) >= LARGE:
        return f"{value:.8e}" if error <= 0 else f"{value:.6e} +- {error:.1e}"
    if error <= 0:
        return fixed(value, 8)
    places = max(0, 1 - math.floor(math.log10(error)))
    digits = round(error * 10**places)
    if places == 0 or digits >= 100:
        return f"{value:.{max(places - 1, 0)}f}({round(error * 10 ** max(places - 1, 0))})"
    return f"{value:.{places}f}({digits})"


def scientific(value: float | None, error: float | None) -> str:
    """Write a number with its error as 3.20(49)e-5, "-" where there is none."""
    if value is None:
        return "-"
    size = max(abs(value), error or 0.0)
    if not size:
        return "0"
    power = math.floor(math.log10(size))
    scaled = value / 10**power
    return f"{with_error(scaled, error / 10**power) if error else f'{scaled:.1f}'}e{power}"


@dataclass(frozen=True)
class Table:
    """What a result shows of itself: a title, rows of texts under named columns, and notes."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[object] = ()  #: texts and diagnostics, which HTML shows as sentences

    def html(self) -> str:
        """Give a <table>, everything in it escaped, for a notebook."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        notes = "".join(f"<div>{escape(_sentence(note))}</div>" for note in self.notes)
        headed = f"<thead><tr>{head}</tr></thead>" if any(self.columns) else ""
        return (
            f'<div class="tnvmc"><table><caption>{escape(self.title)}</caption>'
            f"{headed}<tbody>{body}</tbody></table>{notes}</div>"
        )

    def __str__(self) -> str:
        lines = [list(self.columns), *map(list, self.rows)] if any(self.columns) else self.rows
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        rows = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join([self.title, *rows, *map(str, self.notes)])


class Shown:
    """Base of results that notebooks show as a table."""

    def _table(self) -> Table:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._table().html()


def data_frame(columns: Mapping[str, Any]) -> Any:
    """Give columns as a pandas DataFrame.

    Raises:
        ImportError: pandas is not installed; tnvmc does not need it otherwise.
    """
    try:
        from pandas import DataFrame
    except ImportError:
        raise ImportError(
            "to_dataframe: pandas is missing; install the extra 'notebook', or: pip install pandas"
        ) from None
    return DataFrame(dict(columns))


_find_sentences: Callable[[], Any] | None = None


def tell_with(find: Callable[[], Any]) -> None:
    """Say once what makes sentences of diagnostics, for notebooks and warnings; as `draw_with`."""
    global _find_sentences
    _find_sentences = find


def _sentence(note: object) -> str:
    """A text as it is, a diagnostic as a line of output where something makes sentences."""
    if isinstance(note, str) or _find_sentences is None:
        return str(note)
    return str(_find_sentences().line(note))


def coded(found: object) -> str:
    """Write a diagnostic with its code, and its sentence where something makes sentences."""
    return str(found) if _find_sentences is None else str(_find_sentences().coded(found))


_find_plot: Callable[[], Any] | None = None


def draw_with(find: Callable[[], Any]) -> None:
    """Say once what draws results, so that `history.plot()` works and no lower level imports it."""
    global _find_plot
    _find_plot = find


def drawn(picture: str, subject: Any, ax: Any = None, **options: Any) -> Any:
    """Draw a result into axes by the function of `tnvmc.plot` with this name; gives the axes."""
    assert _find_plot is not None, "tnvmc/__init__.py says what draws"
    return getattr(_find_plot(), picture)(subject, ax=ax, **options)
