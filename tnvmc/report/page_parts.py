"""The web page around a report: typography, tables, figures.  One file, no scripts, no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tnvmc._version import __version__

MADE_BY = "tnvmc report"
"""What every page says of its origin, in its metadata."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2127; --soft: #5b6470; --line: #dfe3e8;
  --paper: #ffffff; --panel: #f6f7f9; --accent: #0b63a5; --warn: #a04400; --warn-bg: #fdf3ea;
  --good: #00694f; --good-bg: #eaf6f2; --line-blue: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --soft: #9aa4b1; --line: #333a44;
  --paper: #14171b; --panel: #1c2026; --accent: #6db9f2; --warn: #f3a266; --warn-bg: #2c2119;
  --good: #62cbac; --good-bg: #172622; --line-blue: #56b4e9; } }
* { box-sizing: border-box; }
html { font-size: 16px; -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.5rem 3rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .3rem; font-weight: 650; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .8rem; padding-bottom: .3rem; font-weight: 650;
  border-bottom: 1px solid var(--line); }
h3 { font-size: .95rem; margin: 1.5rem 0 .5rem; font-weight: 650; }
p { margin: .4rem 0; max-width: 46rem; }
.soft, figcaption, footer { color: var(--soft); }
.headline { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr));
  gap: 1px; background: var(--line); border: 1px solid var(--line); border-radius: .5rem;
  overflow: hidden; margin: 1.5rem 0; }
.headline div { background: var(--panel); padding: 1rem 1.2rem; }
.headline .first { grid-column: span 2; }
.headline b { display: block; font-size: 1.2rem; white-space: nowrap; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.headline .first b { font-size: 2.1rem; line-height: 1.2; color: var(--accent); }
.headline span { font-size: .82rem; color: var(--soft); }
ul.words { list-style: none; margin: 0; padding: 0; }
ul.words li { padding: .5rem .9rem; margin: .4rem 0; border-left: 4px solid var(--accent);
  background: var(--panel); border-radius: 0 .3rem .3rem 0; }
ul.words li.warning { border-color: var(--warn); background: var(--warn-bg); }
ul.words li.good { border-color: var(--good); background: var(--good-bg); }
ul.words li b { font-weight: 650; }
li.warning b { color: var(--warn); } li.good b { color: var(--good); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
th, td { text-align: left; padding: .34rem .8rem .34rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; font-variant-numeric: tabular-nums; }
thead th { font-weight: 600; color: var(--soft); font-size: .82rem; vertical-align: bottom; }
tbody th { font-weight: 500; color: var(--soft); white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; }
tr.own td, tr.own th { font-weight: 650; color: var(--ink); }
table.pairs { display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr));
  column-gap: 2.5rem; }
table.pairs tbody { display: contents; }
table.pairs tr { display: grid; grid-template-columns: 9rem 1fr; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(25rem, 1fr));
  gap: 1.2rem 2rem; margin-top: 1rem; align-items: start; }
figure { margin: 0; break-inside: avoid; }
figure.broad, figure.large { grid-column: 1 / -1; }
figure.large { max-width: 37rem; }
@media (prefers-color-scheme: dark) { @media screen { figure.broad svg, figure.large svg {
  background: #fff; color: #23272e; border-radius: .4rem; --line-blue: #0072b2; } } }
figure svg { width: 100%; height: auto; display: block; }
figcaption { font-size: .84rem; margin-top: .3rem; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: .4rem;
  padding: .8rem 1rem; overflow-x: auto; font-size: .82rem; line-height: 1.45;
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.columns { columns: 2 20rem; column-gap: 1.5rem; }
summary { cursor: pointer; color: var(--accent); font-size: .9rem; margin: .8rem 0 .4rem; }
footer { margin-top: 3rem; padding-top: .8rem; border-top: 1px solid var(--line);
  font-size: .82rem; }
@media (max-width: 40rem) { main { padding: 1.2rem 1rem; }
  .headline .first { grid-column: 1 / -1; } .figures, table.pairs { grid-template-columns: 1fr; } }
@media print { :root { --ink: #000; --soft: #444; --line: #bbb; --paper: #fff; --panel: #fff;
    --accent: #000; --warn: #8a3b00; --warn-bg: #fff; --good: #00573f; --good-bg: #fff;
    --line-blue: #0072b2; }
  @page { size: A4; margin: 16mm 15mm; }
  html { font-size: 10.5pt; } main { max-width: none; padding: 0; }
  .headline b { font-size: 1.05rem; } .headline .first b { font-size: 1.6rem; }
  .headline div { padding: .7rem .8rem; } table.pairs { grid-template-columns: 1fr 1fr; }
  h2 { margin-top: 1.6rem; break-after: avoid; } h3 { break-after: avoid; }
  tr, figure, .headline, li { break-inside: avoid; }
  .figures { grid-template-columns: 1fr 1fr; gap: .8rem 1.2rem; }
  pre { white-space: pre-wrap; } details:not([open]) { display: none; } }
"""


def page(title: str, body: str) -> str:
    """Put the sections of a report into a page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="{MADE_BY}, tnvmc {__version__}">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{body}\n</main>\n</body>\n</html>\n"
    )


def section(title: str, *parts: str) -> str:
    """A headed section; empty where all its parts are."""
    body = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>" if body else ""


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def pairs(rows: Sequence[tuple[str, str | None]]) -> str:
    """A table of names and values; rows without a value are left out."""
    lines = [
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in rows
        if value is not None
    ]
    return f'<table class="pairs"><tbody>{"".join(lines)}</tbody></table>' if lines else ""


def table(
    head: Sequence[str], rows: Sequence[Sequence[str | None]], *, words: int = 1, own: int = -1
) -> str:
    """A table whose first `words` columns are text and the others numbers; row `own` is bold."""
    if not rows:
        return ""

    def cells(row: Sequence[str | None], tag: str) -> str:
        return "".join(
            f"<{tag}{'' if i < words else ' class=number'}>{escape('–' if cell is None else cell)}</{tag}>"
            for i, cell in enumerate(row)
        )

    body = "".join(
        f"<tr{' class=own' if number == own else ''}>{cells(row, 'td')}</tr>\n"
        for number, row in enumerate(rows)
    )
    head_row = f"<thead><tr>{cells(head, 'th')}</tr></thead>"
    return f'<div class="wide"><table>{head_row}<tbody>\n{body}</tbody></table></div>'


def figure(svg: str, caption: str, kind: str = "") -> str:
    """A picture with its caption; a "broad" or "large" one shares its row with no other."""
    return f'<figure class="{kind}">\n{svg}\n<figcaption>{escape(caption)}</figcaption>\n</figure>'


def figures(drawn: Sequence[str]) -> str:
    """Pictures side by side where there is room."""
    return '<div class="figures">\n' + "\n".join(drawn) + "\n</div>" if drawn else ""


def words(lines: Sequence[tuple[str, str]]) -> str:
    """Sentences with their kind: "warning", "good" or "verdict"."""
    items = [
        f'<li class="{kind}"><b>{label}</b> {escape(text)}</li>'
        for kind, text in lines
        for label in [{"warning": "Warning.", "good": "Good.", "verdict": "Verdict."}[kind]]
    ]
    return f'<ul class="words">{"".join(items)}</ul>' if items else ""


def preformatted(text: str, kind: str = "") -> str:
    """Text as it stands in a file."""
    return f'<pre class="{kind}">{escape(text)}</pre>' if text else ""


def folded(summary: str, body: str) -> str:
    """A part that opens on a click, and is not printed while closed."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>" if body else ""
