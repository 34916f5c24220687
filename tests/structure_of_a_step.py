"""What a step passes through: files, functions, depth of calls, and files that call each other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tnvmc

PACKAGE = str(Path(tnvmc.__file__).parent)


@dataclass
class Structure:
    """Calls of functions of the package, in the thread that was watched."""

    functions: set[tuple[str, str, int]] = field(default_factory=set)  #: file, name, line
    calls: set[tuple[str, str]] = field(default_factory=set)  #: between two files
    depth: int = 0  #: most functions of the package that are open at once

    @property
    def files(self) -> set[str]:
        """Files with a function that was called."""
        return {file for file, _, _ in self.functions}

    @property
    def two_way(self) -> set[tuple[str, str]]:
        """Pairs of files each of which calls the other."""
        return {(a, b) for a, b in self.calls if a < b and (b, a) in self.calls}


def structure_of(call: Callable[[], Any]) -> Structure:
    """Watch one call, in this thread alone.

    A comprehension, a generator expression and a lambda belong to the function around them; code
    that no file of the package holds (what `dataclass` writes) does not count.
    """
    found, opened, known = Structure(), [], {}

    def file_of(code: CodeType) -> str | None:
        if code not in known:
            inside = code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<")
            known[code] = code.co_filename[len(PACKAGE) + 1 :] if inside else None
        return known[code]

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return") or (file := file_of(frame.f_code)) is None:
            return
        if event == "return":
            if opened:
                opened.pop()
            return
        found.functions.add((file, frame.f_code.co_qualname, frame.f_code.co_firstlineno))
        if opened and opened[-1] != file:
            found.calls.add((opened[-1], file))
        opened.append(file)
        found.depth = max(found.depth, len(opened))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found
