"""Quantum numbers: which states two runs share."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tnvmc.exact import symmetric_levels
from tnvmc.lattice.grids import square
from tnvmc.lattice.permutations import NotSymmetric, Symmetry, SymmetryGroup
from tnvmc.operators.models import heisenberg
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.settings.build import QuantumNumbers, quantum_numbers
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate

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


@pytest.mark.parametrize(
    ("one", "other", "rotations", "expected"),
    [
        (ANY, ANY, False, True),
        (ANY, spin(-1), False, True),
        (spin(-1), ANY, True, False),
        (ANY, SINGLE_FLIP, True, True),
        (ANY, SINGLE_FLIP, False, False),
        (SINGLE_FLIP, ANY, True, False),
        (spin(1), SINGLE_FLIP, True, False),  # a triplet of six spins is even, a quintet is not
        (QuantumNumbers(-2), SINGLE_FLIP, True, True),
    ],
)
def test_which_lowest_states_are_in_order(
    one: QuantumNumbers, other: QuantumNumbers, rotations: bool, expected: bool
) -> None:
    assert one.lies_below(other, rotations) == expected


def test_the_order_holds_for_exact_levels() -> None:
    """Of all pairs of sectors of six spins, with signs of the point group."""
    group = {
        sign: symmetry_group(OPERATOR, ["point"], {"left-right reflection": sign})
        for sign in (1, -1)
    }
    numbers = [QuantumNumbers(m, g) for m in (0, 2, 4) for g in (None, *group.values())]
    one = SymmetryGroup((Symmetry("identity", tuple(range(6))),))
    lowest = [
        float(symmetric_levels(OPERATOR, each.group or one, each.magnetisation, 1)[0])
        for each in numbers
    ]
    pairs = list(product(zip(numbers, lowest, strict=True), repeat=2))
    ordered = [(a, b) for (x, a), (y, b) in pairs if x.lies_below(y, rotations=True)]
    assert len(ordered) > len(numbers) and all(a <= b + 1e-9 for a, b in ordered)


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
