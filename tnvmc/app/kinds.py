"""What a file or a folder of several runs is: sectors, or starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tnvmc.app import sectors, starts


@dataclass(frozen=True)
class SeveralKind:
    """How several runs of one kind are made, resumed, shown, drawn and written."""

    name: str  #: in the plural
    asked: Callable[[str, Sequence[str]], bool]  #: by a settings file, with overrides
    within: Callable[[str | Path], bool]  #: a folder
    make: Callable[..., Any]
    resume: Callable[..., Any]
    held: Callable[[Path], tuple[Any, Any]]
    text: Callable[[Any], str]
    redraw: Callable[..., Sequence[Path]]
    retabulate: Callable[[str | Path], Sequence[Path]]


_KINDS = (
    SeveralKind(
        "sectors",
        lambda path, _: sectors.is_sector_file(path),
        sectors.is_sectors, sectors.sectors_file, sectors.resume_sectors, sectors.held_sectors,
        sectors.sectors_text, sectors.redraw_sectors, sectors.retabulate_sectors,
    ),
    SeveralKind(
        "starts",
        starts.is_starts_file,
        starts.is_starts, starts.starts_file, starts.resume_starts, starts.held_starts,
        starts.starts_text, starts.redraw_starts, starts.retabulate_starts,
    ),
)  # fmt: skip


def kind_asked(
    file: str | None, resume: str | None, overrides: Sequence[str]
) -> SeveralKind | None:
    """Give what `tnvmc run` is asked for, by the folder to resume or else the file; None for one run."""
    if resume is not None:
        return kind_in(resume)
    assert file is not None
    return next((kind for kind in _KINDS if kind.asked(file, overrides)), None)


def kind_in(folder: str | Path) -> SeveralKind | None:
    """Give what a folder holds; None where that is one run, or none."""
    return next((kind for kind in _KINDS if kind.within(folder)), None)
