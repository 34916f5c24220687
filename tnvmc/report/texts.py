"""Sentences of diagnostics, from `templates/sentences.toml`: there alone a code becomes words."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.report.numbers import duration, short
from tnvmc.shown import with_error

Values = Mapping[str, Any]

_FILE = tomllib.loads((files("tnvmc.report") / "templates/sentences.toml").read_text("utf-8"))
TEMPLATES: Mapping[str, str] = _FILE["sentences"]
PHRASES: Mapping[str, str] = _FILE["phrases"]
PHASES: Mapping[str, str] = _FILE["phases"]


def sentence(found: Diagnostic | Mapping[str, Any]) -> str:
    """Write a diagnostic as a sentence, without capital and full stop.

    One of another version, whose code or values are not known here, is shown as it stands.

    Args:
        found: the diagnostic, or its dict as JSON files hold it.
    """
    from jinja2 import UndefinedError

    diagnostic = found if isinstance(found, Diagnostic) else Diagnostic.from_dict(found)
    try:
        return _render(TEMPLATES[diagnostic.code], diagnostic.status, diagnostic.values)
    except (KeyError, TypeError, ValueError, UndefinedError):
        return str(diagnostic)


def line(diagnostic: Diagnostic) -> str:
    """Write a diagnostic as a line of output, a warning with "warning: " before it."""
    warns = diagnostic.status in ("warning", "error")
    return f"warning: {sentence(diagnostic)}" if warns else sentence(diagnostic)


def coded(diagnostic: Diagnostic) -> str:
    """Write a diagnostic with its code before its sentence, as warnings of Python are told."""
    told = sentence(diagnostic)
    if told == str(diagnostic):
        return told.removeprefix(f"{diagnostic.status}: ")
    return f"{diagnostic.code}: {told}"


def step_sentence(diagnostics: Iterable[Diagnostic | Mapping[str, Any]], undone: bool) -> str:
    """Write what happened to a step; empty where nothing did."""
    told = "; ".join(map(sentence, diagnostics))
    return f"{told}: step undone, next ones shorter" if told and undone else told


def phase_name(phase: str) -> str:
    """Name what is computed; one that is not known here as it stands."""
    return PHASES.get(phase, phase)


def listed(value: Any) -> str:
    """Write names with commas, "none" for none; a single value as it is."""
    return (", ".join(value) or "none") if isinstance(value, list | tuple) else str(value)


@cache
def _templates() -> Any:
    """Make the environment of the sentences; names that are no value stand for phrases."""
    from jinja2 import Environment, StrictUndefined, pass_context
    from jinja2.runtime import Context, missing

    class WithPhrases(Context):
        def resolve_or_missing(self, key: str) -> Any:
            found = super().resolve_or_missing(key)
            if found is missing and key in PHRASES:
                return _render(PHRASES[key], self["status"], self["values"])
            return found

    @pass_context
    def sentence_of(context: Any, code: str) -> str:
        return _render(TEMPLATES[code], context["status"], context["values"])

    templates = Environment(undefined=StrictUndefined)
    templates.context_class = WithPhrases
    filters = {
        "as": format, "short": short, "moved": _moved, "with_error": with_error, "listed": listed,
        "sentence_of": sentence_of, "duration": duration,
    }  # fmt: skip
    templates.filters.update(filters)
    return templates


def _render(text: str, status: str, values: Values) -> str:
    context = {**values, "status": status, "values": values}
    return str(_templates().from_string(text).render(context))


def _moved(v: Values) -> str:
    """Write how far an energy moves: "3.2 sigma (1.1e-4 per site)"."""
    per_site = f"{short(v['per_site'])} per site"
    return per_site if v["sigmas"] is None else f"{v['sigmas']:.1f} sigma ({per_site})"
