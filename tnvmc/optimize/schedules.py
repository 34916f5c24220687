"""Schedules: frozen objects that give a learning rate for each step.

Steps count from 0.  A schedule is a function of the step alone, so a resumed run finds its place;
any function of the step can stand for one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tnvmc.backend.arguments import positive, real, whole

Schedule = Callable[[int], float]


@dataclass(frozen=True)
class Cosine:
    """From `start` to `end` along half a cosine over `steps` steps; `end` from then on."""

    start: float
    end: float
    steps: int

    def __post_init__(self) -> None:
        positive("Cosine", "start", self.start)
        real("Cosine", "end", self.end, 0.0)
        whole("Cosine", "steps", self.steps)

    def __call__(self, step: int) -> float:
        """Value at a step."""
        progress = min(1.0, step / max(1, self.steps - 1))
        share = 0.5 * (1.0 + math.cos(math.pi * progress))
        return self.end + (self.start - self.end) * share


@dataclass(frozen=True)
class Rates:
    """The learning rate of each step, as it was given; a function is asked at each, and checked."""

    given: float | Callable[[int], float]

    def __call__(self, step: int) -> float:
        """Learning rate of a step; ValueError for what is no finite number, or below 0."""
        if not callable(self.given):
            return self.given
        return real("VMC", f"learning_rate({step})", self.given(step), 0.0)
