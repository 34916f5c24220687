"""Callbacks of a run: what they see, and how one stops it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tnvmc import PEPS, VMC, Enumerate, heisenberg, square
from tnvmc.session.arguments import as_callbacks
from tnvmc.vmc.results import StepRecord

OPERATOR = heisenberg(square(2, 2))


def study() -> VMC:
    return VMC(OPERATOR, PEPS(OPERATOR.lattice, D=2), Enumerate(), learning_rate=0.1)


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


class Recorder:
    def __call__(self, record: StepRecord) -> bool:
        return True


def test_a_class_is_no_callback() -> None:
    """Called with the record of a step, it would make a callback and stop nothing."""
    with pytest.raises(TypeError, match="the class Recorder"):
        as_callbacks(Recorder)
