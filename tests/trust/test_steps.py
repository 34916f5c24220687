"""Where the steps of an optimisation point."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trust.test_convergence import lines
from tnvmc.trust.steps import zero_variance

SIGMAS = 4.0


def test_the_steps_point_at_the_energy_of_zero_variance() -> None:
    line = zero_variance(lines())
    assert line is not None
    assert abs(line.intercept + 10) < SIGMAS * line.intercept_error < 5e-3
    assert line.slope == pytest.approx(0.3, rel=0.02)


@pytest.mark.parametrize(
    "history",
    [
        lines(11),  # too few
        [each | {"variance": 0.3} for each in lines()],
        [each | {"energy": -10.0} for each in lines()],
        [each | {"energy": -10 - 0.3 * each["variance"]} for each in lines()],
        [each | {"energy": each["energy"] + each["variance"] ** 2} for each in lines()],  # bent
    ],
)
def test_there_is_none_where_it_means_nothing(history: list[Any]) -> None:
    assert zero_variance(history) is None
