"""What surrounds a call of a VMC: the ranks that share it, and what it shows."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, TypeVar, cast

from tnvmc.backend.process import in_use, using_ranks
from tnvmc.vmc.results import StepRecord

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
        ranks.meet(f"VMC.{method.__name__}")
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
        raise RuntimeError(f"all ranks make the same calls: rank 0 {called}, another {name}")
    if error is not None:
        raise error
    return value


def steps_shown(
    progress: bool, steps: int, n_sites: int
) -> AbstractContextManager[Callable[[StepRecord], None]]:
    """Show steps inside a block, where that is asked for."""
    return _live().steps(steps, n_sites) if progress else nullcontext(lambda record: None)


def work_shown(progress: bool) -> AbstractContextManager[None]:
    """Show what a block computes, where asked for."""
    return _live().working() if progress else nullcontext()


def _live() -> Any:
    from tnvmc.report import live  # it loads rich, which takes time

    return live
