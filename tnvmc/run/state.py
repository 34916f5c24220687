"""What survives a step, and what a step reports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tnvmc.run.guard import Recent

Array = Any


@dataclass(frozen=True)
class Point:
    """A place the optimisation can go on from."""

    theta: Array  #: (P,)
    configs: Array  #: (W, N)
    optimizer: Mapping[str, Any]


@dataclass(frozen=True)
class State:
    """All that survives a step.  Random numbers are keyed by (seed, step), so this is complete."""

    step: int
    here: Point
    good: Point | None = None  #: where to go back to; None when `here` itself was found good
    recent: Recent = field(default_factory=Recent)


@dataclass(frozen=True)
class StepRecord:
    """What one step reports: one line of history.jsonl.

    `energy` and `variance` are totals of the state that the step found, before its update.
    `note` says in words when the step was undone, shortened or skipped.
    """

    step: int
    energy: float
    energy_error: float
    variance: float
    tau: float | None
    r_hat: float | None
    acceptance: float | None
    closure_spread: float | None
    learning_rate: float
    step_norm: float  #: norm of the change of theta, 0 when there was none
    undone: bool
    note: str | None
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Give a dict for strict JSON: None where a number is not finite."""
        return finite_or_none({f.name: getattr(self, f.name) for f in fields(self)})


def finite_or_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace numbers that strict JSON does not know (NaN, infinities) by None."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in values.items()
    }
