"""Where the steps of an optimisation point."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trust.test_convergence import lines
from tnvmc.trust.steps import zero_variance

SIGMAS = 4.0


def test_the_steps_point_at_the_energy_of_zero_variance() -> None:
    line, _ = zero_variance(lines())
    assert line is not None
    assert abs(line.intercept + 10) < SIGMAS * line.intercept_error < 5e-3
    assert line.slope == pytest.approx(0.3, rel=0.02)


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        (lines(11), "steps"),
        ([each | {"variance": 0.3} for each in lines()], "tail"),
        ([each | {"energy": -10.0} for each in lines()], "slope"),
        ([each | {"energy": -10 - 0.3 * each["variance"]} for each in lines()], "slope"),
        ([each | {"energy": each["energy"] + each["variance"] ** 2} for each in lines()], "bend"),
    ],
)
def test_it_is_not_shown_where_it_means_nothing(history: list[Any], reason: str) -> None:
    line, (found,) = zero_variance(history)
    assert line is None
    assert (found.code, found.values["reason"]) == ("variance_line_not_shown", reason)
