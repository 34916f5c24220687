"""What can show a computation from above: steps as they are made, and how far a measurement is."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, cast

from tnvmc.backend import host
from tnvmc.vmc.state import StepRecord

LIVE = "tnvmc.report.live"
"""The module that shows.  Its level is higher, so it is known here by its name and by `Display`."""


class Display(Protocol):
    """Shows what is under way; nothing that is computed depends on it, nor ends with it."""

    def steps(
        self, steps: int, n_sites: int
    ) -> AbstractContextManager[Callable[[StepRecord], None]]:
        """Show steps inside a block, which tells of each."""

    def work(self) -> AbstractContextManager[None]:
        """Show the phases of what is computed inside a block; see `tnvmc.backend.progress`."""


class Silent:
    """Shows nothing."""

    def steps(
        self, steps: int, n_sites: int
    ) -> AbstractContextManager[Callable[[StepRecord], None]]:
        """Take note of nothing."""
        return nullcontext(lambda record: None)

    def work(self) -> AbstractContextManager[None]:
        """Take note of nothing."""
        return nullcontext()


def _compiling(dtype: str) -> None:
    importlib.import_module(LIVE).compiling(dtype)


def displayed(progress: bool) -> Display:
    """Give what shows progress, or nothing; compilations are announced anyway."""
    host.announce_compilation(_compiling)
    return cast(Display, importlib.import_module(LIVE)) if progress else Silent()
