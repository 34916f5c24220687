"""The exact energies of sectors, against dense diagonalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sector_files import data
from tnvmc.lattice.grids import square
from tnvmc.operators.basis import Basis
from tnvmc.operators.models import heisenberg
from tnvmc.series.level_checks import sector_references
from tnvmc.series.machine import SECTORS

ODD = {"symmetrise": ["spin"], "characters": {"spin inversion": -1}}
EVEN = {"symmetrise": ["spin"], "characters": {"spin inversion": 1}}


def energies(shape: list[int], *tables: dict[str, Any]) -> list[float | None]:
    content = data() | {"lattice": {"shape": shape}, "sector": list(tables)}
    return [each.energy for each in sector_references(SECTORS.expand(content, "sectors")).values()]


def levels(shape: list[int], sector: int, sign: int = 0) -> np.ndarray:
    """All levels of a sector, of one sign under spin inversion, which turns the basis round."""
    states = Basis(shape[0] * shape[1], 2, sector)
    matrix = heisenberg(square(*shape)).sparse(sector).toarray()
    turned = np.eye(states.dimension)[::-1]
    if sign:
        values, vectors = np.linalg.eigh(turned)
        kept = vectors[:, np.sign(values) == sign]
        matrix = kept.T @ matrix @ kept
    return np.linalg.eigvalsh(matrix)


def test_lowest_levels() -> None:
    found = energies([2, 3], {}, {"magnetisation": 2}, ODD)
    lowest = [levels([2, 3], 0)[0], levels([2, 3], 2)[0], levels([2, 3], 0, -1)[0]]
    assert found == pytest.approx(lowest)


def test_levels_above_others() -> None:
    below = [{"name": "a"}, {"name": "b", "orthogonal_to": ["a"]}]
    found = energies([2, 3], *below, {"name": "c", "orthogonal_to": ["a", "b"]})
    assert found == pytest.approx(levels([2, 3], 0)[:3])


def test_levels_are_counted_within_their_quantum_numbers() -> None:
    """From 1; a state of other characters is none of them, and takes no number."""
    content = data() | {"lattice": {"shape": [2, 3]}}
    content["sector"] = [
        {"name": "a"},
        {"name": "b", "orthogonal_to": ["a"]},
        {"name": "c", "orthogonal_to": ["a", "b"]},
        EVEN | {"name": "even", "orthogonal_to": ["a"]},
        ODD | {"name": "odd", "orthogonal_to": ["a"]},
    ]
    found = sector_references(SECTORS.expand(content, "sectors"))
    numbers = {name: (each.source or "").split()[-1] for name, each in found.items()}
    assert {name: numbers[name] for name in ("b", "c", "even", "odd")} == {
        "b": "2", "c": "3", "even": "1", "odd": "2",
    }  # fmt: skip


def test_a_level_of_other_characters_takes_none_away() -> None:
    """The ground state has +1 or -1; what is orthogonal to it leaves the levels as they are."""
    even, odd = levels([2, 3], 0, 1), levels([2, 3], 0, -1)
    found = energies(
        [2, 3], {"name": "a"}, EVEN | {"orthogonal_to": ["a"]}, ODD | {"orthogonal_to": ["a"]}
    )
    lowest = min(even[0], odd[0])
    expected = [next(e for e in each if e > lowest + 1e-6) for each in (even, odd)]
    assert found == pytest.approx([lowest, *expected])


def test_a_degenerate_level_of_both_characters_gives_no_reference() -> None:
    """2 x 2 spins have E = 0 for a singlet (+1) and triplets (-1): the third may be any mixture."""
    assert np.isclose(levels([2, 2], 0), 0).sum() > 1
    tables = [
        {"name": "a"},
        {"name": "b", "orthogonal_to": ["a"]},
        {"name": "c", "orthogonal_to": ["a", "b"]},
    ]
    found = energies([2, 2], *tables, EVEN | {"orthogonal_to": ["a", "c"]})
    assert found[:3] == pytest.approx([-2, -1, 0], abs=1e-12) and found[3] is None


def test_a_state_from_elsewhere_gives_no_reference() -> None:
    content = data() | {"orthogonal": [{"run": "runs/another"}]}
    assert {
        each.energy for each in sector_references(SECTORS.expand(content, "sectors")).values()
    } == {None}
