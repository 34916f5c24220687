"""What can keep a run from Python in a folder: steps as they are made, and what is measured."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, cast

from tnvmc.vmc.measurement import Measured, MeasurementPlan
from tnvmc.vmc.state import StepRecord

if TYPE_CHECKING:
    from tnvmc.vmc.driver import VMC

RECORDER = "tnvmc.app.recording"
"""The module that keeps.  It stands on a higher level, so it is known here by its name and by `Recorder`."""

Out = str | PathLike[str] | None


@dataclass(frozen=True)
class Given:
    """What a VMC was told of its start, which its parts do not show."""

    theta: bool  #: whether parameters were given, rather than made for the Hamiltonian
    configs: bool  #: whether walkers were
    moves: Any = None  #: names, a table, or None


class Recorder(Protocol):
    """Keeps runs in folders, as the command line does."""

    def steps(
        self, vmc: VMC, out: str | PathLike[str], steps: int
    ) -> AbstractContextManager[Callable[[StepRecord], None]]:
        """Keep the steps of a block, which tells of each."""

    def result(
        self, vmc: VMC, out: str | PathLike[str], plan: MeasurementPlan
    ) -> AbstractContextManager[Callable[[Measured], None]]:
        """Keep what a block measures, which tells it once."""


class Nowhere:
    """Keeps nothing."""

    def steps(
        self, vmc: VMC, out: Out, steps: int
    ) -> AbstractContextManager[Callable[[StepRecord], None]]:
        """Take note of nothing."""
        return nullcontext(lambda record: None)

    def result(
        self, vmc: VMC, out: Out, plan: MeasurementPlan
    ) -> AbstractContextManager[Callable[[Measured], None]]:
        """Take note of nothing."""
        return nullcontext(lambda measured: None)


def recorder(out: Out) -> Recorder:
    """Give what keeps a run in a folder, or what keeps nothing."""
    if out is None:
        return cast(Recorder, Nowhere())
    return cast(Recorder, importlib.import_module(RECORDER))
