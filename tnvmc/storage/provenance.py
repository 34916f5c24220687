"""Which run a file belongs to, and after which step of it the file was written.

A run has a random id from its beginning.  config.toml, the first line of history.jsonl, the
checkpoint and what is measured carry it, each under its own checksum.  Two copies of a folder have
one id and go different ways; the checksum of the last line of the history tells those apart.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from tnvmc.storage.seals import Lines

PROVENANCE = "provenance"  #: key in JSON, attribute in HDF5, comment in TOML
_COMMENT = f"# {PROVENANCE} "

Mismatch = Literal["other_run", "other_steps", "ahead"]
"""A file of another run; of this one, but of steps that were made otherwise; of steps that the
history does not tell of."""


@dataclass(frozen=True)
class Provenance:
    """A run, and a step of it."""

    run_id: str
    step: int = 0  #: number of steps that were made
    check: str = ""  #: of the last line of history.jsonl then

    def as_dict(self) -> dict[str, Any]:
        """Give it for strict JSON."""
        return asdict(self)

    def as_comment(self) -> str:
        """Give it as a line of a TOML file."""
        return f"{_COMMENT}{json.dumps(self.as_dict())}\n"

    @classmethod
    def of(cls, content: Any) -> Self | None:
        """Read `as_dict` back; None where there is none, ValueError where it is something else."""
        if content is None:
            return None
        kinds = {"run_id": str, "step": int, "check": str}
        if not isinstance(content, Mapping) or {k: type(v) for k, v in content.items()} != kinds:
            raise ValueError(f"its {PROVENANCE} cannot be read")
        return cls(**content)


def new_run() -> Provenance:
    """Give the beginning of a run that no other has."""
    return Provenance(uuid.uuid4().hex)


def in_toml(text: str) -> Provenance | None:
    """Read `Provenance.as_comment` in a file, None where there is none."""
    lines = [line for line in text.split("\n") if line.startswith(_COMMENT)]
    return Provenance.of(json.loads(lines[-1].removeprefix(_COMMENT))) if lines else None


def mismatch(found: Provenance | None, run_id: str | None, lines: Lines | None) -> Mismatch | None:
    """Give how a file does not fit a run with this id and history; None where it does.

    Args:
        found: in the file; None in one that belongs to no run.
        run_id: of the run; None for a folder from before runs had one.
        lines: its history, if there is one.
    """
    if (None if found is None else found.run_id) != run_id:
        return "other_run"
    if found is None or lines is None:
        return None
    if found.step > len(lines.checks):
        return "ahead" if lines.bad is None else None  # else the damage is what is to be told
    check = lines.checks[found.step - 1] if found.step else ""
    return None if check == found.check else "other_steps"
