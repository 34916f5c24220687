"""What surrounds a call of a VMC: the ranks that share it, what it shows, the folder that keeps it.

Rich and the settings of files, which take longer to load than all else, are loaded when they are
asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from os import PathLike
from typing import Any, TypeVar, cast

from tnvmc.backend import host
from tnvmc.backend.ranks import in_use, using_ranks
from tnvmc.trust.energies import judged
from tnvmc.vmc.core import Made
from tnvmc.vmc.measurement import Measured, MeasurementPlan
from tnvmc.vmc.results import StepRecord

Out = str | PathLike[str] | None
"""A folder that keeps a run."""

C = TypeVar("C", bound=Callable[..., Any])


def collective(method: C) -> C:
    """Let rank 0 carry a method out; the others help, and have its result, state and errors.

    All ranks call it; the arguments of rank 0 count, and it alone prints, writes and warns.
    """

    @wraps(method)
    def call(self: Any, /, *given: Any, **named: Any) -> Any:
        ranks = self.ranks
        if ranks.size == 1 or in_use() is ranks:
            return method(self, *given, **named)
        if ranks.rank:
            return _follow(self, method.__name__)
        try:
            with using_ranks(ranks):
                value = method(self, *given, **named)
        except BaseException as error:
            _end(self, method.__name__, None, error)
            raise
        _end(self, method.__name__, value, None)
        return value

    return cast(C, call)


def _end(of: Any, name: str, value: Any, error: BaseException | None) -> None:
    """Send the other ranks what a method ended with, and the state as a whole."""
    try:
        of.state = of.state.on_one_rank()
        of.ranks.end((name, value, of.state, error))
    except Exception as cannot:  # noqa: BLE001 (it cannot be pickled; they wait for something)
        cause = error if error is not None else cannot
        failed = RuntimeError(f"{name} on rank 0 ended with what cannot be sent: {cause!r}")
        of.ranks.end((name, None, of.state, failed))


def _follow(of: Any, name: str) -> Any:
    """Help rank 0 with a method; its result, state and error."""
    called, value, of.state, error = of.ranks.follow()
    if called != name:
        raise RuntimeError(
            f"rank {of.ranks.rank} called VMC.{name}, and rank 0 VMC.{called}: all ranks make the "
            "same calls"
        )
    if error is not None:
        raise error
    return value


def steps_recorded(
    vmc: Made, out: Out, steps: int
) -> AbstractContextManager[Callable[[StepRecord], None]]:
    """Keep the steps of a block in a folder, if there is one."""
    if out is None:
        return nullcontext(lambda record: None)
    from tnvmc.app import recording

    return recording.recorded_steps(vmc, out, steps)


def result_recorded(
    vmc: Made, out: Out, plan: MeasurementPlan
) -> AbstractContextManager[Callable[[Measured], Measured]]:
    """Judge what a block measures, and keep it in the folder of the run, if there is one."""
    if out is None:
        return nullcontext(lambda measured: judged(measured, vmc.method.orthogonal_to))
    from tnvmc.app import recording

    return recording.recorded_result(vmc, out, plan)


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
