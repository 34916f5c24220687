"""Quantum numbers: which states two runs share."""

from __future__ import annotations

from typing import Any

import pytest

from tnvmc.lattice.grids import square
from tnvmc.operators.models import heisenberg
from tnvmc.operators.symmetry import NotSymmetric, symmetry_group
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate
from tnvmc.settings.quantum_numbers import QuantumNumbers, quantum_numbers

OPERATOR = heisenberg(square(2, 3))
ANY, SINGLE_FLIP = QuantumNumbers(0), QuantumNumbers(2)


def spin(sign: int, *more: str) -> QuantumNumbers:
    group = symmetry_group(OPERATOR, ["spin", *more], {"spin inversion": sign})
    return QuantumNumbers(0, group)


@pytest.mark.parametrize(
    ("one", "other", "hold", "exclude"),
    [
        (ANY, ANY, True, False),
        (ANY, SINGLE_FLIP, False, True),
        (ANY, spin(1), True, False),
        (spin(1), ANY, False, False),
        (spin(1), spin(-1), False, True),
        (spin(1), spin(1, "point"), True, False),
        (spin(-1, "point"), spin(1), False, True),
    ],
)
def test_which_states_they_share(
    one: QuantumNumbers, other: QuantumNumbers, hold: bool, exclude: bool
) -> None:
    assert one.hold(other) == hold
    assert one.exclude(other) == other.exclude(one) == exclude


def settings(model: str = "heisenberg", **ansatz: Any) -> Any:
    shape = {"lattice": {"shape": [2, 3]}, "hamiltonian": {"model": model}}
    return complete(validate(shape | {"ansatz": {"D": 2, **ansatz}}))


def test_those_of_settings() -> None:
    odd = settings(symmetrise=["spin"], characters={"spin inversion": -1})
    assert quantum_numbers(odd, OPERATOR) == spin(-1)
    assert quantum_numbers(settings(), OPERATOR) == ANY
    from tnvmc.operators.models import tfim

    assert quantum_numbers(settings("tfim"), tfim(square(2, 3))).magnetisation is None
    with pytest.raises(NotSymmetric):
        quantum_numbers(settings(symmetrise=["spin"]), heisenberg(square(2, 3)) + _field())


def _field() -> Any:
    from tnvmc.operators.term import Operator

    return Operator.from_products(square(2, 3), [("Sz", "all", 0.1)])
