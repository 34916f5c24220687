"""Level 0: how results show themselves: digits, sentences, tables in text and HTML, data frames.

A result says what its table holds (`Shown`).  Sentences of diagnostics stand in `sentences.toml`:
there alone a code becomes words.
"""

import math
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

LARGE = 1e9
"""Numbers beyond it are written with a power of ten."""

ROUNDING = 1e-13
"""Part of a number up to which what differs from it does so by rounding alone."""

_DIGITS, _SMALL = 15, 1e-3
"""Digits of a number in double precision, errors beyond which are rounding; numbers below which so
many decimals are written with a power of ten."""


def fixed(value: float, places: int) -> str:
    """Write a number with so many decimals; with a power of ten where too few digits are left."""
    plain = value == 0 or 10.0 ** (2 - places) <= abs(value) < LARGE or not math.isfinite(value)
    return f"{value:.{places}f}" if plain else f"{value:.{places}e}"


def with_error(value: float, error: float) -> str:
    """Write a number with its error in brackets, as -0.60352(12); nan for one that is unknown."""
    if math.isfinite(value) and math.isnan(error):
        return f"{fixed(value, 6)} +- unknown"
    if not math.isfinite(value) or not math.isfinite(error):
        return f"{value:.6g} +- {error:.2g}"
    if abs(value) >= LARGE:
        digits = max(6, math.ceil(math.log10(abs(value) / error)) + 1) if error > 0 else 8
        return f"{value:.{digits}e}" + (f" +- {error:.1e}" if error > 0 else "")
    if error <= 0:
        return fixed(value, 8)
    places = max(0, 1 - math.floor(math.log10(error)))
    size = max(abs(value), error)
    if places + math.floor(math.log10(size)) >= _DIGITS:  # an error of nothing but rounding
        return fixed(value, 8)
    if places > _DIGITS - 3 and size < _SMALL:
        return scientific(value, error)
    digits = round(error * 10**places)
    if places == 0 or digits >= 100:
        return f"{value:.{max(places - 1, 0)}f}({round(error * 10 ** max(places - 1, 0))})"
    return f"{value:.{places}f}({digits})"


def scientific(value: float | None, error: float | None) -> str:
    """Write a number with its error as 3.20(49)e-5, "-" where there is none."""
    if value is None:
        return "-"
    size = max(abs(value), 0.0 if error in (None, math.inf) else error)
    if not size:
        return "0"
    power = math.floor(math.log10(size))
    scaled = value / 10**power
    if error is not None and not math.isfinite(error):
        return f"{scaled:.1f}e{power} +- unknown"
    return f"{with_error(scaled, error / 10**power) if error else f'{scaled:.1f}'}e{power}"


def signed(value: float, error: float | None, of: float = 0.0) -> str:
    """Write a difference with sign and error as +3.20(49)e-5; "0" for what is rounding `of`."""
    nothing = max(abs(value), error or 0.0) <= ROUNDING * abs(of)
    return "0" if nothing else ("+" if value >= 0 else "") + scientific(value, error)


def short(value: float) -> str:
    """Write a small number with two digits: 1.1e-4."""
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}" if value else "0"


def quoted(path: Any) -> str:
    """Write a path as a shell takes it."""
    return shlex.quote(str(path))


def duration(seconds: float) -> str:
    """Write a time as "31.4 s", "2 min 5 s" or "1 h 3 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {round(seconds) % 60} s"
    return f"{minutes // 60} h {minutes % 60} min"


@cache
def templates() -> Mapping[str, Mapping[str, str]]:
    """Give the tables of `sentences.toml`."""
    return tomllib.loads((files("tnvmc") / "sentences.toml").read_text("utf-8"))


def sentence(diagnostic: Any) -> str:
    """Write a diagnostic as a sentence, without capital and full stop.

    One of another version, whose code or values are not known here, is shown as it stands.
    """
    from jinja2 import UndefinedError

    try:
        text = templates()["sentences"][diagnostic.code]
        return _render(text, diagnostic.status, diagnostic.values)
    except (KeyError, TypeError, ValueError, UndefinedError):
        told = ", ".join(f"{name} = {value}" for name, value in diagnostic.values.items())
        return diagnostic.code + (f" ({told})" if told else "")


def line(diagnostic: Any) -> str:
    """Write a diagnostic as a line of output, a warning with "warning: " before it."""
    warns = diagnostic.status in ("warning", "error")
    return f"warning: {sentence(diagnostic)}" if warns else sentence(diagnostic)


def coded(diagnostic: Any) -> str:
    """Write a diagnostic with its code before its sentence, as warnings of Python are told."""
    told = sentence(diagnostic)
    return told if told.startswith(diagnostic.code) else f"{diagnostic.code}: {told}"


def step_sentence(diagnostics: Iterable[Any], undone: bool) -> str:
    """Write what happened to a step; empty where nothing did that one should know."""
    told = "; ".join(sentence(each) for each in diagnostics if each.status != "good")
    return f"{told}: step undone, next ones shorter" if told and undone else told


def told_of(table: str, code: str, values: Mapping[str, Any]) -> str:
    """Write what a table of `sentences.toml` says of a code."""
    return _render(templates()[table][code], "", values)


def phase_name(phase: str) -> str:
    """Name what is computed; one that is not known here as it stands."""
    return templates()["phases"].get(phase, phase)


@cache
def _environment() -> Any:
    """Make the environment of the sentences; names that are no value stand for phrases."""
    from jinja2 import Environment, StrictUndefined, pass_context
    from jinja2.runtime import Context, missing

    class WithPhrases(Context):
        def resolve_or_missing(self, key: str) -> Any:
            found = super().resolve_or_missing(key)
            if found is missing and key in templates()["phrases"]:
                return _render(templates()["phrases"][key], self["status"], self["values"])
            return found

    @pass_context
    def sentence_of(context: Any, code: str) -> str:
        return _render(templates()["sentences"][code], context["status"], context["values"])

    environment = Environment(undefined=StrictUndefined)
    environment.context_class = WithPhrases
    environment.filters.update({
        "as": format, "short": short, "moved": _moved, "with_error": with_error, "listed": _listed,
        "sentence_of": sentence_of, "duration": duration, "signed": signed, "sigmas": _sigmas,
    })  # fmt: skip
    return environment


def _render(text: str, status: str, values: Mapping[str, Any]) -> str:
    context = {**values, "status": status, "values": values}
    return str(_environment().from_string(text).render(context))


def _listed(value: Any) -> str:
    """Write names with commas, "none" for none; a single value as it is."""
    return (", ".join(value) or "none") if isinstance(value, list | tuple) else str(value)


def _moved(v: Mapping[str, Any]) -> str:
    """Write how far an energy moves: "3.2 sigma (1.1e-4 per site)"."""
    if not v["per_site"]:
        return "nothing but rounding"
    per_site = f"{short(v['per_site'])} per site"
    return per_site if v["sigmas"] is None else f"{_sigmas(v['sigmas'])} sigma ({per_site})"


def _sigmas(number: float) -> str:
    return f"{number:.1f}" if number >= _LEAST_SIGMAS else "less than 0.1"


_LEAST_SIGMAS = 0.05  # that are written: below they would be 0.0


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
        notes = "".join(f"<div>{escape(text)}</div>" for text in map(_told, self.notes))
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
        return "\n".join([self.title, *rows, *map(_told, self.notes)])


def _told(note: Any) -> str:
    return note if isinstance(note, str) else line(note)


class Shown:
    """Base of results that notebooks show as a table."""

    def _table(self) -> Table:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._table().html()


class Result(Shown):
    """Base of results with diagnostics: a line, below which print tells what is not good."""

    diagnostics: Any

    def _line(self) -> str:
        raise NotImplementedError

    def _table(self) -> Table:
        return Table(type(self).__name__, ("",), [(self._line(),)], self.diagnostics)

    def __repr__(self) -> str:
        found = (x for x in self.diagnostics if x.status in ("warning", "error"))
        warned = "".join(f"; {each.status}: {each.code}" for each in found)
        return f"<{type(self).__name__}: {self._line()}{warned}>"

    def __str__(self) -> str:
        bad = (each for each in self.diagnostics if each.status != "good")
        return "\n".join([self._line(), *map(line, bad)])


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


_find_plot: Callable[[], Any] | None = None


def draw_with(find: Callable[[], Any]) -> None:
    """Say once what draws results, so that `history.plot()` works and no lower level imports it."""
    global _find_plot
    _find_plot = find


def drawn(picture: str, subject: Any, ax: Any = None, **options: Any) -> Any:
    """Draw a result into axes by the function of `tnvmc.plot` with this name; gives the axes."""
    assert _find_plot is not None, "tnvmc/__init__.py says what draws"
    return getattr(_find_plot(), picture)(subject, ax=ax, **options)
