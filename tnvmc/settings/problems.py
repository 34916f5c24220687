"""What is wrong with settings, as data, and the line that says so."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

NOTHING: Any = object()
"""Value of a key that is not given."""

_TEXTS = {  # others: foreign_key, conflict, override, file, other
    "unknown_section": "unknown section",
    "unknown_key": "unknown key",
    "missing_section": "section missing; it must hold {allowed}",
    "missing": "missing; must be {allowed}",
    "not_allowed": "must be {allowed}",
    "unknown_name": "{allowed} is neither a section nor a key",
}


@dataclass(frozen=True)
class ConfigProblem:
    """One problem of settings."""

    key: str  #: "ansatz.D", "[lattice]", or a file
    code: str  #: of which kind: a key of `_TEXTS`, or one of which `allowed` says all
    allowed: str = ""  #: what may stand there, or all that is said
    value: Any = NOTHING  #: that was given
    hint: str = ""  #: the nearest that is known

    def __str__(self) -> str:
        """One short line for a person."""
        given = "" if self.value is NOTHING else f" = {_shown(self.value)}"
        text = _TEXTS.get(self.code, "{allowed}").format(allowed=self.allowed)
        where = f"{self.key}{given}: " if self.key else ""
        return where + text + (f"; {self.hint}" if self.hint else "")


class ConfigError(ValueError):
    """Settings that cannot run; `problems` says why, `lines` holds one short line for each."""

    def __init__(self, *problems: ConfigProblem | str) -> None:
        given = [ConfigProblem("", "other", p) if isinstance(p, str) else p for p in problems]
        unlike = {str(problem): problem for problem in given}
        self.lines, self.problems = tuple(unlike), tuple(unlike.values())
        super().__init__("; ".join(self.lines))


def conflict(key: str, why: str, value: Any = NOTHING) -> ConfigProblem:
    """Give the problem of a key that is allowed, and does not go with another."""
    return ConfigProblem(key, "conflict", why, value)


def _shown(value: Any) -> str:
    """A value as it stands in a file, not too long."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(name: str, known: Iterable[str]) -> str:
    """Ask for the closest known name, whatever its case; nothing where none is close."""
    lowered = {word.lower(): word for word in known}
    close = difflib.get_close_matches(name.lower(), lowered, 1)
    return f"did you mean '{lowered[close[0]]}'?" if close else ""


@contextmanager
def errors_of(key: str, hint: str = "") -> Iterator[None]:
    """Name the key in what is raised of its value."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{key}: {error}{hint}") from None
