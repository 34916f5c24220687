"""Schedules: frozen objects that give a number (a learning rate, a shift) for each step.

Steps count from 0.  A schedule is a function of the step alone, so a resumed run finds its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tnvmc.backend.arguments import positive, real, whole

Schedule = Callable[[int], float]


@dataclass(frozen=True)
class Constant:
    """The same value at every step."""

    value: float

    def __post_init__(self) -> None:
        _require_positive("Constant", value=self.value)

    def __call__(self, step: int) -> float:
        """Value at a step."""
        return self.value


@dataclass(frozen=True)
class Exponential:
    """From `start` to `end` by the same factor at each of `steps` steps; `end` from then on."""

    start: float
    end: float
    steps: int

    def __post_init__(self) -> None:
        _require_positive("Exponential", start=self.start, end=self.end, steps=self.steps)

    def __call__(self, step: int) -> float:
        """Value at a step."""
        fall: float = (self.end / self.start) ** _progress(step, self.steps)
        return self.start * fall


@dataclass(frozen=True)
class Cosine:
    """From `start` to `end` along half a cosine over `steps` steps; `end` from then on."""

    start: float
    end: float
    steps: int

    def __post_init__(self) -> None:
        _require_positive("Cosine", start=self.start, steps=self.steps)
        real("Cosine", "end", self.end, 0.0)

    def __call__(self, step: int) -> float:
        """Value at a step."""
        share = 0.5 * (1.0 + math.cos(math.pi * _progress(step, self.steps)))
        return self.end + (self.start - self.end) * share


@dataclass(frozen=True)
class Piecewise:
    """One value or schedule after another, `lengths[i]` steps of `stages[i]`.

    A schedule inside a stage counts its steps from the start of the stage.  The last stage goes
    on for ever.
    """

    stages: tuple[float | Schedule, ...]
    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        object.__setattr__(self, "lengths", tuple(self.lengths))
        if not self.stages or len(self.stages) != len(self.lengths):
            raise ValueError(
                f"Piecewise: {len(self.stages)} stages and {len(self.lengths)} lengths; "
                "give one length per stage, and at least one stage"
            )
        for i, length in enumerate(self.lengths):
            _require_positive("Piecewise", **{f"lengths[{i}]": length})
        for i, stage in enumerate(self.stages):
            if not callable(stage):
                _require_positive("Piecewise", **{f"stages[{i}]": stage})

    def __call__(self, step: int) -> float:
        """Value at a step."""
        begin = 0
        for stage, length in zip(self.stages[:-1], self.lengths[:-1], strict=True):
            if step < begin + length:
                return _value(stage, step - begin)
            begin += length
        return _value(self.stages[-1], step - begin)


@dataclass(frozen=True)
class WarmUp:
    """Another schedule, approached linearly: times (step + 1) / `steps` over the first steps."""

    schedule: Schedule
    steps: int

    def __post_init__(self) -> None:
        _require_positive("WarmUp", steps=self.steps)

    def __call__(self, step: int) -> float:
        """Value at a step."""
        return self.schedule(step) * min(1.0, (step + 1) / self.steps)


def _value(stage: float | Schedule, step: int) -> float:
    return stage(step) if callable(stage) else stage


def _progress(step: int, steps: int) -> float:
    """0 at the first of `steps` steps, 1 at the last one and later."""
    return min(1.0, step / max(1, steps - 1))


def _require_positive(where: str, **values: float) -> None:
    for name, value in values.items():
        if name == "steps" or name.startswith("lengths"):
            whole(where, name, value)
        else:
            positive(where, name, value)
