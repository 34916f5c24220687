"""Collective calls of several ranks: all make them, rank 0 carries them out with the help of the
others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from tnvmc.backend.ranks import in_use, using_ranks

C = TypeVar("C", bound=Callable[..., Any])


def collective(method: C) -> C:
    """Let rank 0 carry a method out; the others help, and have its result, state and errors at the
    end.

    All ranks call it, with arguments that need not be the same: those of rank 0 count.  What is
    printed, written or warned of is so by rank 0.  The object has `ranks` and a `state`.
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
    """Send the other ranks what a method ended with, and the state, which no rank then has a part
    of.
    """
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
