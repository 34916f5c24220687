"""Ready callbacks: lines of JSON, stops on a plateau and on time; and how a run is stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tnvmc import PEPS, VMC, Enumerate, StopAfter, StopOnPlateau, heisenberg, square
from tnvmc.session.arguments import as_callbacks
from tnvmc.vmc.results import StepRecord

OPERATOR = heisenberg(square(2, 2))
RECORD = StepRecord(
    step=0, energy=-3.0, energy_error=0.1, variance=0.2, tau=None, r_hat=None, acceptance=0.5,
    closure_spread=None, learning_rate=0.1, step_norm=0.1, undone=False, diagnostics=(),
    optimizer={}, seconds=6.0,
)  # fmt: skip


def study() -> VMC:
    return VMC(OPERATOR, PEPS(OPERATOR.lattice, D=2), Enumerate(), learning_rate=0.1)


def records(energies: list[float], **values: Any) -> Iterator[StepRecord]:
    for step, energy in enumerate(energies):
        yield replace(RECORD, step=step, energy=energy, **values)


@pytest.mark.parametrize("true", [True, np.bool_(True)])
def test_true_stops_a_run_after_its_step(true: Any) -> None:
    vmc, seen = study(), []

    def stop(record: StepRecord) -> Any:
        return true if record.step == 2 else None

    found = vmc.run(9, [stop, lambda record: seen.append(record.step)])
    assert [record.step for record in found] == seen == [0, 1, 2]
    assert vmc.state.step == 3
    assert len(vmc.run(2, stop)) == 2


@pytest.mark.whole
@pytest.mark.parametrize("other", [1, "yes", [0], False, None])
def test_all_else_goes_on(other: Any) -> None:
    assert len(study().run(2, lambda record: other)) == 2


def test_what_cannot_be_called_is_refused() -> None:
    vmc = study()
    with pytest.raises(TypeError, match="progress=True"):
        vmc.run(2, True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got 3"):
        vmc.run(2, [print, 3])  # type: ignore[list-item]
    assert vmc.state.step == 0


def test_a_stopped_run_goes_on_as_one_that_was_not() -> None:
    whole, parts, lines = study(), study(), list[str]()

    def write(record: StepRecord) -> None:
        lines.append(json.dumps(record.as_dict(), allow_nan=False))

    whole.run(4)
    parts.run(4, [write, lambda record: record.step == 1])
    parts.run(2, write)
    assert np.array_equal(whole.theta, parts.theta)
    assert [json.loads(line)["step"] for line in lines] == [0, 1, 2, 3]


def test_a_plateau_stops() -> None:
    falling = [-float(step) for step in range(6)]
    stop = StopOnPlateau(4)
    assert [stop(record) for record in records(falling + [-5.0] * 3, energy_error=0.1)] == [
        False, False, False, False, False, False, False, False, True,
    ]  # fmt: skip


def test_a_plateau_is_of_one_run_and_of_steps_that_count() -> None:
    stop = StopOnPlateau(3)
    assert not any(map(stop, records([-1.0, -1.0])))
    assert not any(map(stop, records([-1.0, -1.0], undone=True)))
    assert [*map(stop, records([np.nan, -1.0, -1.0, -1.0]))] == [False, False, False, True]


def test_time_stops_with_the_step_that_passes_it() -> None:
    stop = StopAfter(15)
    assert [*map(stop, records([-1.0] * 4))] == [False, False, True, True]
    assert stop.used == 24


def test_windows_and_times_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="window must be at least 2"):
        StopOnPlateau(1)
    with pytest.raises(ValueError, match="seconds must be above 0"):
        StopAfter(0)


def test_a_class_is_no_callback() -> None:
    """Called with the record of a step, it would make a callback and stop nothing."""
    with pytest.raises(TypeError, match="the class StopOnPlateau"):
        as_callbacks(StopOnPlateau)
