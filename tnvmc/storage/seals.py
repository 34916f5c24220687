"""Checksums by which a changed file is known, and which run and step a file belongs to.

JSON carries the checksum of its content under the key "checksum", whatever its layout; a line of
history.jsonl under "check" that of itself and all lines before it; TOML in a last line, a comment.
Under them stands the random id of the run: in config.toml, the first line of history.jsonl, the
checkpoint and what is measured.  Two copies of a folder have one id and go different ways; the
checksum of the last line of the history tells those apart.
"""

import contextlib
import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

CHECKSUM, CHECK, RUN_ID = "checksum", "check", "run_id"
_LAST_LINE = "# sha256 "
_CUT_SHORT = "cut short"


class SealBroken(ValueError):
    """A file that was changed, or not written by tnvmc."""

    def __init__(self) -> None:
        super().__init__("its checksum is another one: it was changed after it was written")


def _digest(content: Any) -> str:
    """Hash what JSON makes of a value; NaN and infinities, which strict JSON lacks, are refused."""
    layout = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(layout.encode()).hexdigest()


def sealed_json(content: Mapping[str, Any], indent: int | None = None) -> bytes:
    """Give a JSON file, strict and with its checksum."""
    plain = json.loads(json.dumps(dict(content), allow_nan=False))  # keys become strings
    return (json.dumps({**plain, CHECKSUM: _digest(plain)}, indent=indent) + "\n").encode()


def unsealed_json(text: str) -> dict[str, Any]:
    """Read a JSON file of `sealed_json`; `SealBroken` for another checksum, or ValueError."""
    content = json_object(text)
    if content.pop(CHECKSUM, None) != _digest(content):
        raise SealBroken
    return content


def json_object(text: str) -> dict[str, Any]:
    """Read a JSON object; ValueError for anything else."""
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(content := json.loads(text), dict):
            return content
    raise ValueError("not a JSON object")


def sealed_toml(text: str) -> bytes:
    """Give a TOML file whose last line is its checksum, a comment."""
    return f"{text}{_LAST_LINE}{hashlib.sha256(text.encode()).hexdigest()}\n".encode()


def check_toml(content: bytes) -> None:
    """Raise `SealBroken` where a file is not as `sealed_toml` wrote it."""
    mark = f"\n{_LAST_LINE}".encode()
    text, found, digest = content.rpartition(mark)
    if not found or digest != (hashlib.sha256(text + b"\n").hexdigest() + "\n").encode():
        raise SealBroken


@dataclass(frozen=True)
class Lines:
    """What can be read of history.jsonl, from its beginning, and the first line that cannot."""

    records: tuple[dict[str, Any], ...]
    ends: tuple[int, ...]  #: offsets in the file behind each of them
    checks: tuple[str, ...]  #: their checksums
    run_id: str | None = None  #: in the first of them
    bad: int | None = None  #: number of the first bad line, from 1
    lost: int = 0  #: number of lines behind it
    why: str = ""

    @property
    def torn(self) -> bool:
        """Tell whether only the last line is bad, cut short: so a killed process ends."""
        return self.why == _CUT_SHORT


def next_check(check: str, record: Mapping[str, Any]) -> str:
    """Give the checksum of a line behind one with the checksum `check`, "" for the first."""
    return _digest([check, record])[:16]


def read_lines(content: bytes) -> Lines:
    """Read history.jsonl as far as it is whole: no line was changed, taken out or put in."""
    records: list[dict[str, Any]] = []
    ends, checks = [0], [""]
    lines = content.split(b"\n")
    rest = lines.pop()  # behind the last end of a line: nothing, or a line that was cut short
    bad: tuple[int | None, int, str] = (len(lines) + 1, 0, _CUT_SHORT) if rest else (None, 0, "")
    for number, line in enumerate(lines, 1):
        try:
            record = json_object(line.decode())
            claimed = record.pop(CHECK, None)
            check = next_check(checks[-1], record)
            if claimed != check:
                raise SealBroken
        except ValueError as error:
            why = "not a text" if isinstance(error, UnicodeDecodeError) else str(error)
            bad = number, len(lines) - number + bool(rest), why
            break
        records.append(record)
        checks.append(check)
        ends.append(ends[-1] + len(line) + 1)
    run_id = records[0].pop(RUN_ID, None) if records else None
    return Lines(tuple(records), tuple(ends[1:]), tuple(checks[1:]), run_id, *bad)


PROVENANCE = "provenance"  #: key in JSON, attribute in HDF5, comment in TOML
_COMMENT = f"# {PROVENANCE} "

Mismatch = Literal["other_run", "other_steps", "ahead"]
"""A file of another run; of this one, but of other steps; of steps that the history lacks."""


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
    """Give how a file, with `found` in it, does not fit a run; None where it does.

    `found` is None where it belongs to no run, `run_id` for an early version.
    """
    if (None if found is None else found.run_id) != run_id:
        return "other_run"
    if found is None or lines is None:
        return None
    if found.step > len(lines.checks):
        return "ahead" if lines.bad is None else None  # else the damage is what is to be told
    check = lines.checks[found.step - 1] if found.step else ""
    return None if check == found.check else "other_steps"
