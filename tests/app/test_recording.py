"""When checkpoints are written, by a clock that the test turns."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tnvmc.app import recording
from tnvmc.app.recording import Recorder


class Clock:
    """Seconds that pass only where something takes them."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Run:
    """Steps that take as long as a test says, and so do checkpoints."""

    def __init__(self, clock: Clock, a_step: float, a_checkpoint: float) -> None:
        self.clock, self.a_step, self.a_checkpoint = clock, a_step, a_checkpoint
        self.vmc: Any = SimpleNamespace(state=SimpleNamespace(step=0))
        self.saved: list[float] = []

    def save(self, path: Path, provenance: Any = None) -> None:
        self.clock.now += self.a_checkpoint
        self.saved.append(self.clock.now)

    def step(self) -> Any:
        self.clock.now += self.a_step
        self.vmc.state.step += 1
        return SimpleNamespace(as_dict=dict)


def saved_within(
    monkeypatch: pytest.MonkeyPatch, steps: int, a_step: float, a_checkpoint: float
) -> list[float]:
    clock = Clock()
    monkeypatch.setattr(recording, "monotonic", clock)
    run = Run(clock, a_step, a_checkpoint)
    folder: Any = SimpleNamespace(
        path=Path(), provenance=None, append=lambda _: None, sync=lambda: None
    )
    monkeypatch.setattr(recording, "EVERY", 1000)
    kept = Recorder(run, folder)
    kept.save()
    for _ in range(steps):
        kept.step(run.step())
    return run.saved


def test_every_minute_where_one_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = saved_within(monkeypatch, 100, 10.0, 0.0)
    assert saved == [70.0 * i for i in range(15)]  # the first step after each minute


def test_seldom_where_one_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a step of 30 s that takes 6 s to write, every minute would be a twelfth of the time."""
    saved = saved_within(monkeypatch, 100, 30.0, 6.0)
    between = [after - before - 6.0 for before, after in pairwise(saved)]
    assert set(between) == {210.0}  # the first step after thirty times six seconds
