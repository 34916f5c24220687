"""No energy lies beyond the bound."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc.lattice.grids import square
from tnvmc.operators.basis import Basis
from tnvmc.operators.bounds import energy_bound
from tnvmc.operators.models import heisenberg, rydberg, tfim
from tnvmc.operators.sparse import sparse_matrix


def test_the_bound_is_not_below_the_largest_energy() -> None:
    """Of an Ising ferromagnet it is that energy; of all models no less."""
    ferromagnet = tfim(square(2, 3), h=0.0)
    assert energy_bound(ferromagnet) == pytest.approx(7.0)
    for operator in (heisenberg(square(2, 3)), tfim(square(2, 3)), rydberg(square(2, 3))):
        levels = np.linalg.eigvalsh(sparse_matrix(operator, Basis(6, 2)).toarray())
        assert np.abs(levels).max() <= energy_bound(operator)
