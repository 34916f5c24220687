"""What happens while Numba compiles kernels: it is announced, and can be ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import event, types

from tnvmc.backend import progress


class Announcement(event.Listener):
    """Announces that the kernels of a PEPS are compiled, once for each type of numbers.

    Args:
        announce: takes the type of numbers.
    """

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._announced: set[str] = set()

    def on_start(self, event: Any) -> None:
        """Announce a kernel that walks over strips or rows; the others take a second or two."""
        kernel, dtype = event.data["dispatcher"].py_func, numbers_of(event.data["args"])
        ours = kernel.__module__.startswith(__package__)
        if ours and dtype is not None and dtype not in self._announced:
            self._announced.add(dtype)
            self._announce(dtype)

    def on_end(self, event: Any) -> None:
        """Do nothing."""


class Ended(event.Listener):
    """Ends a compilation in a thread for which nobody waits: the next call begins it again."""

    def on_start(self, event: Any) -> None:
        """Raise `Stopped` before a pass of the compiler, of which a kernel takes some hundred."""
        progress.raise_if_stopped()

    def on_end(self, event: Any) -> None:
        """Do nothing."""


def numbers_of(arguments: Any) -> str | None:
    """Name the type of the numbers in a `Strip` or an `Absorption`; None of other arguments."""
    first = arguments[0] if arguments else None
    if not isinstance(first, types.NamedTuple | types.NamedUniTuple) or "above" not in first.fields:
        return None
    return str(first.types[first.fields.index("above")].dtype)


def listen(announce: Callable[[str], None]) -> None:
    """Announce what is compiled from here on, and let it be ended."""
    event.register("numba:compile", Announcement(announce))
    event.register("numba:run_pass", Ended())
