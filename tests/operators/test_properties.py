"""Sectors and bounds of operators against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc.exact import exact_ground_state
from tnvmc.lattice import chain, square
from tnvmc.operators.basis import check_magnetisation
from tnvmc.operators.models import heisenberg, j1j2, rydberg, tfim, xxz
from tnvmc.operators.properties import energy_bound, flip_invariant, polarised, rotation_invariant
from tnvmc.operators.spin import exchange_matrix, spin_matrices
from tnvmc.operators.term import Operator

LATTICE = square(2, 3)


def field(*strengths: float, local_dim: int = 2) -> Operator:
    """-sum_i h_i Sz_i."""
    sz = spin_matrices(local_dim)[2]
    terms = [((site,), -h * sz) for site, h in enumerate(strengths)]
    return Operator.from_terms(LATTICE, terms, local_dim=local_dim)


@pytest.mark.parametrize(
    ("operator", "rotations", "flips"),
    [
        (heisenberg(LATTICE), True, True),
        (j1j2(LATTICE), True, True),
        (heisenberg(LATTICE, J=-1.0), True, True),
        (Operator.from_terms(LATTICE, [((1, 4), exchange_matrix(3))], local_dim=3), True, True),
        (xxz(LATTICE, Jz=1.1), False, True),
        (tfim(LATTICE), False, True),
        (rydberg(LATTICE), False, False),
        (heisenberg(LATTICE) + field(0, 0.1), False, False),
    ],
)
def test_symmetries(operator: Operator, rotations: bool, flips: bool) -> None:
    assert rotation_invariant(operator) == rotations
    assert flip_invariant(operator) == flips


def test_polarised_states_are_those_of_the_largest_sectors() -> None:
    operator = xxz(LATTICE, Jz=-2.0) + field(0.3, 0.1)
    for sector, energy in polarised(operator):
        assert abs(sector) == LATTICE.n_sites
        assert energy == pytest.approx(exact_ground_state(operator, sector).energy)


def test_small_terms_beside_large_ones_stay() -> None:
    """They were dropped without a word, and the model became a diagonal one."""
    flip = np.array([[0.0, 1.0], [1.0, 0.0]])
    terms = [((0,), np.diag([1.0, -1.0])), ((0,), 1e-15 * flip)]
    operator = Operator.from_terms(chain(2), terms)
    assert operator.replacements[(0,)].elements.max() == 1e-15
    assert not operator.conserves_magnetisation
    small = xxz(chain(4), J=1e-15, Jz=1.0)
    assert small.replacements and small.conserves_magnetisation
    assert xxz(chain(4), J=1.0, Jz=1e-15).diagonal(np.zeros((1, 4), np.int8))[0] == 3 * 1e-15 / 4
    parts = [((0,), 0.1 * flip), ((0,), 0.2 * flip), ((0,), -0.3 * flip)]
    cancels = Operator.from_terms(chain(2), parts)
    assert not cancels.replacements  # 5.6e-17 is rounding


def test_no_such_sector() -> None:
    check_magnetisation(3, 2, -3)
    for wrong in (0, 5):
        with pytest.raises(ValueError, match="2 Sz"):
            check_magnetisation(3, 2, wrong)


def test_the_bound_is_not_below_the_largest_energy() -> None:
    """Of an Ising ferromagnet it is that energy; of all models no less."""
    ferromagnet = tfim(square(2, 3), h=0.0)
    assert energy_bound(ferromagnet) == pytest.approx(7.0)
    for operator in (heisenberg(square(2, 3)), tfim(square(2, 3)), rydberg(square(2, 3))):
        levels = np.linalg.eigvalsh(operator.sparse().toarray())
        assert np.abs(levels).max() <= energy_bound(operator)
