"""One fact about the reliability of a number: a code, a status and the values it was judged by."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tnvmc.backend.arguments import level_of_caller
from tnvmc.shown import coded, line

Status = Literal["good", "open", "warning", "error"]
"""good: the check passed; open: not enough, or not known to be (more of something would tell);
warning: the number is less certain than it looks; error: it is no number to use."""


@dataclass(frozen=True)
class Diagnostic:
    """What a check found.  Code decides on `code` and `status`; `shown.sentence` writes it.

    `values` are plain numbers, strings, lists and None, as JSON holds them.
    """

    code: str  #: what was found, as "chi_enough" or "energy_jump"
    status: Status
    values: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Give a dict for JSON."""
        return {"code": self.code, "status": self.status, "values": dict(self.values)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> "Diagnostic":
        """Read `as_dict` back.  Raises KeyError where a key is missing."""
        return cls(str(found["code"]), found["status"], dict(found["values"]))

    def __str__(self) -> str:
        return line(self)


class UnreliableWarning(UserWarning):
    """A number is less certain than it looks, or none to use; the code says why."""


def warn_of(diagnostics: Iterable[Diagnostic], where: str) -> None:
    """Emit one `UnreliableWarning`, code and sentence, for each diagnostic that is a warning or an
    error.

    Args:
        diagnostics: any; those that are good or open are told in reports only.
        where: what was called, as "VMC.measure".
    """
    level = level_of_caller()
    for found in diagnostics:
        if found.status in ("warning", "error"):
            warnings.warn(UnreliableWarning(f"{where}: {coded(found)}"), stacklevel=level)
