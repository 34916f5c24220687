"""What sees the steps of a run, and may stop it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tnvmc.vmc.state import StepRecord

Callback = Callable[[StepRecord], object]
"""Sees the record of a step; True stops the run after it, all else goes on."""


class Observers:
    """The callbacks of one run: all of them see every step.

    Args:
        callbacks: one, several, or none.

    Raises:
        TypeError: what cannot be called.
    """

    def __init__(self, callbacks: Callback | Sequence[Callback] | None) -> None:
        given = () if callbacks is None else callbacks
        self._callbacks = tuple(given) if isinstance(given, list | tuple) else (given,)
        self.keep: Callback | None = None  #: sees a step before they do, whatever they raise
        self.stop = False  #: whether one of them has asked for the end
        for each in self._callbacks:
            if not callable(each):
                raise TypeError(
                    f"VMC.run: callback must be a function of the record of a step, or a list of such "
                    f"functions, got {each!r}; to show progress write progress=True"
                )

    def __call__(self, record: StepRecord) -> None:
        """Let all of them see a step."""
        if self.keep is not None:
            self.keep(record)
        for each in self._callbacks:
            answer = each(record)
            # Nothing else that is true: a function that is written in one line gives back anything.
            if isinstance(answer, bool | np.bool_) and answer:
                self.stop = True
