"""What happens while Numba compiles kernels, for half a minute: it is told, and can be ended."""

from __future__ import annotations

import importlib
from typing import Any

from numba.core import event, types

from tnvmc.backend import progress

LIVE = "tnvmc.report.live"
"""The module that says it.  Its level is higher, so it is known here by its name."""


class Told(event.Listener):
    """Hears of all that Numba compiles; tells of the kernels of a PEPS, once for each type of numbers."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def on_start(self, event: Any) -> None:
        """Tell of a kernel that walks over strips or rows; the others take a second or two."""
        kernel, dtype = event.data["dispatcher"].py_func, numbers_of(event.data["args"])
        if dtype is None or dtype in self._told or not kernel.__module__.startswith(__package__):
            return
        self._told.add(dtype)
        importlib.import_module(LIVE).compiling(dtype)

    def on_end(self, event: Any) -> None:
        """Nothing."""


class Ended(event.Listener):
    """Ends a compilation in a thread for which nobody waits: the next call begins it again."""

    def on_start(self, event: Any) -> None:
        """Raise `Stopped` before a pass of the compiler, of which a kernel takes some hundred."""
        progress.raise_if_stopped()

    def on_end(self, event: Any) -> None:
        """Nothing."""


def numbers_of(arguments: Any) -> str | None:
    """Name the type of the numbers in a `Strip` or an `Absorption`; None of other arguments of a kernel."""
    first = arguments[0] if arguments else None
    if not isinstance(first, types.NamedTuple | types.NamedUniTuple) or "above" not in first.fields:
        return None
    return str(first.types[first.fields.index("above")].dtype)


def listen() -> None:
    """Tell of what is compiled from here on."""
    event.register("numba:compile", Told())
    event.register("numba:run_pass", Ended())
