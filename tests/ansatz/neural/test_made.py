"""The masked dense network against the checks of all autoregressive networks."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from flax import nnx

from tests.ansatz.neural.autoregressive_checks import check_autoregressive, noisy
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.made import MADE, MaskedLinear
from tnvmc.lattice.grids import chain, square


@pytest.mark.whole
def test_made_is_autoregressive() -> None:
    """Widths that no degree divides evenly, one of them below the number of degrees."""
    make = partial(MADE, square(3, 4), features=(25, 7), output="complex")
    check_autoregressive(noisy(lambda: make(rngs=nnx.Rngs(0))), totals=(7,))


@pytest.mark.whole
def test_larger_local_dimension_in_a_sector() -> None:
    make = partial(MADE, chain(5), features=(9,), local_dim=3, magnetisation=2)
    check_autoregressive(noisy(lambda: make(rngs=nnx.Rngs(2))))


@pytest.mark.whole
def test_conformance() -> None:
    """Of a real output; complex ones are made by what all autoregressive networks share."""
    make = partial(MADE, square(2, 2), features=(5,), output="real")
    ansatz = FlaxAnsatz(square(2, 2), lambda rngs: make(rngs=rngs))
    check_ansatz(ansatz, 3 * ansatz.random(1))


def test_every_unit_sees_all_it_may() -> None:
    layer = MaskedLinear(np.array([0, 1, 2]), np.array([-1, 0, 2, 2]), rngs=nnx.Rngs(0))
    expected = [[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]
    assert np.array_equal(np.asarray(layer.kernel[...]) != 0, np.array(expected, dtype=bool))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": ()}, "features = \\(\\)"),
        ({"features": (4, 0)}, "features = \\(4, 0\\)"),
        ({"output": "phase"}, "output = 'phase'"),
    ],
)
def test_bad_settings_are_told(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MADE(square(2, 2), rngs=nnx.Rngs(0), **settings)
