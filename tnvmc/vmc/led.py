"""Methods that rank 0 carries out, with the help of the other ranks, and that give all of them the result."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from tnvmc.backend.ranks import in_use, using_ranks
from tnvmc.vmc.state import on_one_rank

C = TypeVar("C", bound=Callable[..., Any])


def led(method: C) -> C:
    """Let rank 0 carry a method out; the others help, and have its result, state and errors at the end.

    All ranks call it, with arguments that need not be the same: those of rank 0 count.  What is printed,
    written or warned of is so by rank 0.
    """

    @wraps(method)
    def call(self: Any, /, *given: Any, **named: Any) -> Any:
        ranks = self.ranks
        if ranks.size == 1 or in_use() is ranks:
            return method(self, *given, **named)
        if ranks.rank:
            return _followed(self, ranks, method.__name__)
        try:
            with using_ranks(ranks):
                value = method(self, *given, **named)
        except BaseException as error:
            _told(self, ranks, method.__name__, None, error)
            raise
        _told(self, ranks, method.__name__, value, None)
        return value

    return cast(C, call)


def _told(vmc: Any, ranks: Any, name: str, value: Any, error: BaseException | None) -> None:
    """Give the other ranks what a method ended with: all of the state, which no rank needs the others for then."""
    try:
        vmc.state = on_one_rank(vmc.state)
        ranks.end((name, value, vmc.state, error))
    except Exception as cannot:  # noqa: BLE001 (it cannot be pickled; they wait for something)
        told = error if error is not None else cannot
        failed = RuntimeError(f"{name} on rank 0 ended with what cannot be sent: {told!r}")
        ranks.end((name, None, vmc.state, failed))


def _followed(vmc: Any, ranks: Any, name: str) -> Any:
    """Help rank 0 with a method; its result, state and error."""
    called, value, vmc.state, error = ranks.follow()
    if called != name:
        raise RuntimeError(
            f"rank {ranks.rank} called VMC.{name}, and rank 0 VMC.{called}: all ranks make the same calls"
        )
    if error is not None:
        raise error
    return value
