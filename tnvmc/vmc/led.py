"""Methods that rank 0 carries out, with the help of the other ranks, and that give all of them the result."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from tnvmc.backend.ranks import in_use, using_ranks

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
            value, self.state, error = ranks.follow()
            if error is not None:
                raise error
            return value
        try:
            with using_ranks(ranks):
                value = method(self, *given, **named)
        except BaseException as error:
            ranks.end((None, self.state, error))
            raise
        ranks.end((value, self.state, None))
        return value

    return cast(C, call)
