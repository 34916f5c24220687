"""What a call of a VMC shows while it works, and keeps in the folder of a run.

The modules that show and keep are loaded when they are asked for: Rich and the settings of files
take longer to load than all else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from os import PathLike

from tnvmc.backend import host
from tnvmc.vmc.core import Made
from tnvmc.vmc.measurement import Measured, MeasurementPlan
from tnvmc.vmc.results import StepRecord

Out = str | PathLike[str] | None
"""A folder that keeps a run."""


def steps_kept(
    vmc: Made, out: Out, steps: int
) -> AbstractContextManager[Callable[[StepRecord], None]]:
    """Keep the steps of a block in a folder, if there is one."""
    if out is None:
        return nullcontext(lambda record: None)
    from tnvmc.app import python_run

    return python_run.steps(vmc, out, steps)


def result_kept(
    vmc: Made, out: Out, plan: MeasurementPlan
) -> AbstractContextManager[Callable[[Measured], None]]:
    """Keep what a block measures in the folder of the run, if there is one."""
    if out is None:
        return nullcontext(lambda measured: None)
    from tnvmc.app import python_run

    return python_run.result(vmc, out, plan)


def steps_shown(
    progress: bool, steps: int, n_sites: int
) -> AbstractContextManager[Callable[[StepRecord], None]]:
    """Show steps inside a block, where that is asked for; compilations are told of anyway."""
    host.announce_compilation(_compiling)
    if not progress:
        return nullcontext(lambda record: None)
    from tnvmc.report import live

    return live.steps(steps, n_sites)


def work_shown(progress: bool) -> AbstractContextManager[None]:
    """Show what a block computes, where asked for; compilations are told of anyway."""
    host.announce_compilation(_compiling)
    if not progress:
        return nullcontext()
    from tnvmc.report import live

    return live.work()


def _compiling(dtype: str) -> None:
    from tnvmc.report import live

    live.compiling(dtype)
