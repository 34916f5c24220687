"""The Hamiltonian that the other codes of a comparison are given is the one that this code has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.whole
def test_all_codes_have_the_same_bonds(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended with a KeyError once lattices had third neighbours."""
    pytest.importorskip("netket")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import against_netket

    operator = against_netket.hamiltonian()
    assert set(against_netket.couplings()) == set(operator.replacements)
    matrix = operator.matrices[next(iter(operator.lattice.bonds["diagonal"]))]
    assert (
        against_netket.couplings()[operator.lattice.bonds["diagonal"][0]] == 2 * matrix[1, 2].real
    )
    sys.modules.pop("against_netket")
