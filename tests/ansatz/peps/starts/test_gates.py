"""Terms sorted into gates, and one coupling of them changed."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc.ansatz.peps.starts.gates import plan_gates
from tnvmc.lattice import chain, embedding, honeycomb, square
from tnvmc.operators import models
from tnvmc.operators.spin import exchange_matrix, kron, spin_matrices
from tnvmc.operators.term import Operator, Term

ROUNDING = 1e-12


def test_where_terms_go() -> None:
    assert plan_gates(models.heisenberg(square(2, 3))).neighbours_only
    assert plan_gates(models.tfim(square(2, 3))).neighbours_only
    assert not plan_gates(models.j1j2(square(2, 2))).neighbours_only
    ring = plan_gates(models.heisenberg(chain(4, "periodic")))
    assert not ring.neighbours_only
    assert len(ring.far) == 1


def test_gates_follow_bonds_of_the_network() -> None:
    """Second neighbours of honeycomb go around the missing bond, or along a zigzag line."""
    lattice = honeycomb(3, 4)
    plan = plan_gates(models.heisenberg(lattice))
    assert plan.neighbours_only and sum(len(batch.sites) for batch in plan.pairs) == 13
    terms = tuple(Term(bond, exchange_matrix()) for bond in lattice.bonds["next_nearest"])
    plan = plan_gates(Operator(lattice, terms))
    found = embedding(lattice)
    assert not plan.far and sum(len(batch.sites) for batch in plan.pairs) == len(terms)
    for batch in plan.pairs:
        for sites in batch.sites.tolist():
            assert all(found.joins(s, leg) for s, leg in zip(sites, batch.legs, strict=False))


@pytest.mark.parametrize("d", [2, 3])
def test_one_component_is_changed_and_nothing_else(d: int) -> None:
    plan = plan_gates(models.heisenberg(square(2, 2), J=0.7))
    x, y, z = (np.real_if_close(s) for s in spin_matrices(d))
    (batch, *_) = plan.pairs
    if d == 3:  # the same plan with the gates of spin 1
        matrices = np.broadcast_to(0.7 * exchange_matrix(3), (len(batch.sites), 9, 9))
        plan = type(plan)(plan.fields, (type(batch)(batch.sites, batch.legs, matrices),), (), 1)
    changed = plan.with_coupling_of(x, 0.6).pairs[0].matrices
    expected = 0.7 * (0.6 * kron(x, x) + kron(y, y) + kron(z, z)).real
    assert np.allclose(changed, expected, atol=ROUNDING)
    same = plan.with_coupling_of(x, 1.0)
    assert np.array_equal(same.pairs[0].matrices, plan.pairs[0].matrices)
