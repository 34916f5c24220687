"""A run that is written down while it is made: every step to the history, now and then a checkpoint."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Protocol

from tnvmc.storage.provenance import Provenance
from tnvmc.storage.run_folder import CHECKPOINT, RunFolder
from tnvmc.vmc.core import Made
from tnvmc.vmc.results import StepRecord

EVERY = 10
"""Steps between checkpoints where nothing is said."""

_SECONDS_BETWEEN_CHECKPOINTS = 60.0

_TIMES_ITS_OWN = 30.0
"""Between two checkpoints that no number of steps asks for, in units of what one takes: with an averaged S it may
be a GiB and take as long as a step."""


class Savable(Protocol):
    """What is made: steps, whose state can be saved."""

    @property
    def vmc(self) -> Made:
        """What makes the present step."""

    def save(self, path: Path, provenance: Provenance | None = None) -> None:
        """Write a checkpoint, atomically."""


class Keeper:
    """Writes down what happens to a run.

    Args:
        run: what is made.
        folder: where it goes.
        every: steps between checkpoints; one is written every minute as well, or where one takes more than two
            seconds, after thirty times as long.
    """

    def __init__(self, run: Savable, folder: RunFolder, every: int = EVERY) -> None:
        self._run, self._folder, self._every = run, folder, every
        self.saved_step: int | None = None
        self._saved_at, self._took = 0.0, 0.0

    def step(self, record: StepRecord) -> None:
        """Append a step, and save where it is time."""
        self._folder.append(record.as_dict())
        due = self._run.vmc.state.step % self._every == 0
        wait = max(_SECONDS_BETWEEN_CHECKPOINTS, _TIMES_ITS_OWN * self._took)
        if due or monotonic() - self._saved_at > wait:
            self.save()

    def save(self) -> None:
        """Write a checkpoint, once the history is on the disk."""
        began = monotonic()
        self._folder.sync()
        self._run.save(self._folder.path / CHECKPOINT, self._folder.provenance)
        self.saved_step, self._saved_at = self._run.vmc.state.step, monotonic()
        self._took = self._saved_at - began
