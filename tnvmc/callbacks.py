"""Level 8: ready callbacks of `VMC.run`, which stop it.

>>> from tnvmc import StopAfter, StopOnPlateau
>>> vmc.run(500, [StopOnPlateau(30), StopAfter(3600)])  # doctest: +SKIP

One of your own is a function of a `StepRecord`; where it gives True the run stops after that step.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from tnvmc.backend.arguments import positive, whole
from tnvmc.estimate.line_fit import reached
from tnvmc.vmc.results import StepRecord


class StopOnPlateau:
    """Stops once the energy of the last steps falls by less than its error.

    The rule of `[[stage]]` (`tnvmc.estimate.line_fit`).  An energy that falls slowly in much noise
    may stop too early: a plateau is no proof of convergence.  Steps that were undone do not count.
    It begins anew where steps do not follow each other, as with another `VMC`.

    Args:
        window: steps that are looked at, 2 at least.

    Raises:
        ValueError: no whole number, or one below 2.
    """

    def __init__(self, window: int = 20) -> None:
        self.window = whole("StopOnPlateau", "window", window, 2)
        self._lines: deque[dict[str, Any]] = deque(maxlen=self.window)
        self._last: int | None = None

    def __call__(self, record: StepRecord) -> bool:
        """Take note of a step; whether the energy has come to rest."""
        if self._last is not None and record.step != self._last + 1:
            self._lines.clear()
        self._last = record.step
        line = record.as_dict()
        if not line["undone"] and None not in (line["energy"], line["energy_error"]):
            self._lines.append(line)
        return reached(self._lines, self.window)


class StopAfter:
    """Stops once the steps have taken some time: with the first one that ends later.

    The time of all steps that it sees, those of an earlier run too, as `optimizer.seconds`; not
    that of other callbacks.  Where a run stops then depends on the machine.

    Args:
        seconds: above 0.

    Raises:
        ValueError: no number above 0.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = positive("StopAfter", "seconds", seconds)
        self.used = 0.0  #: seconds of the steps so far

    def __call__(self, record: StepRecord) -> bool:
        """Take note of a step; whether the time is up."""
        self.used += record.seconds
        return self.used >= self.seconds
