"""Level 8: ready callbacks of `VMC.run`, which write steps down or stop a run.

>>> from tnvmc import JsonLines, StopAfter, StopOnPlateau
>>> vmc.run(500, [JsonLines("steps.jsonl"), StopOnPlateau(30), StopAfter(3600)])  # doctest: +SKIP

One of your own is a function of a `StepRecord`; where it gives True the run stops after that step.
"""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

from tnvmc.backend.arguments import as_path, positive, whole
from tnvmc.estimate.line_fit import reached
from tnvmc.vmc.results import StepRecord


class JsonLines:
    """Appends each step to a file, a line of strict JSON each (`StepRecord.as_dict`).

    A file that exists is continued if its last line is of the step before, as by a restored run.
    Lines have no checksum.

    Args:
        path: the file; its folder exists.

    Raises:
        ValueError: (from the run) the file ends with another step, or in the middle of a line.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = as_path("JsonLines", path)
        self._last: int | None = None

    def __call__(self, record: StepRecord) -> None:
        """Append a step."""
        if self._last is None or record.step != self._last + 1:
            self._check(record.step)
        line = json.dumps(record.as_dict(), allow_nan=False) + "\n"
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line)
        self._last = record.step

    def _check(self, step: int) -> None:
        """Refuse a file whose lines this step does not follow."""
        if not self.path.exists() or not self.path.stat().st_size:
            return
        text = self.path.read_text(encoding="utf-8", errors="replace")
        line = text.splitlines()[-1] + ("" if text.endswith("\n") else " ...")
        try:
            last = int(json.loads(line)["step"])
        except (ValueError, KeyError, TypeError):
            raise ValueError(
                f"{self.path}: its last line is not that of a step ({line[:60]!r}); a process may "
                "have been killed while it wrote: take that line away, or write to another file"
            ) from None
        if last + 1 != step:
            raise ValueError(
                f"{self.path}: ends with step {last}, and step {step} does not follow it; it is "
                "of another run, or of steps after the checkpoint: write to another file, or take "
                f"away the lines from step {step} on"
            )


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
