"""States go to quimb and come back with their amplitudes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracles import all_configs, dense_amplitude, dense_state
from tnvmc.ansatz.initial.tensors import random_positive
from tnvmc.ansatz.peps.quimb import from_quimb, to_quimb
from tnvmc.lattice.grids import chain, square

ROUNDING = 1e-12

qtn = pytest.importorskip("quimb.tensor")


def random_state(shape, dtype="complex128", D=3, local_dim=2):
    lattice = square(*shape)
    return random_positive(lattice, D, dtype, seed=1, local_dim=local_dim)


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (3, 3), (4, 1), (1, 5)])
def test_amplitudes_agree_and_tensors_come_back(shape):
    tensors = random_state(shape)
    state = to_quimb(tensors, shape)
    for config in np.random.default_rng(0).integers(0, 2, size=(6, len(tensors))):
        rows = config.reshape(shape)
        names = {
            (f"k{r},{c}" if shape[0] > 1 else f"k{c}"): int(rows[r, c])
            for r, c in np.ndindex(shape)
        }
        amplitude = state.isel(names).contract(all, optimize="greedy")
        assert abs(amplitude - dense_amplitude(tensors, shape, config)) < ROUNDING
    back = from_quimb(state)
    assert all(np.array_equal(old, new) for old, new in zip(tensors, back, strict=True))


def test_quimb_may_permute_legs():
    tensors = random_state((3, 3), D=2)
    state = to_quimb(tensors, (3, 3))
    rng = np.random.default_rng(5)
    for tensor in state.tensors:
        tensor.transpose_(*rng.permutation(tensor.inds))
    back = from_quimb(state)
    assert all(np.array_equal(old, new) for old, new in zip(tensors, back, strict=True))


def test_states_made_by_quimb():
    state = qtn.PEPS.rand(3, 4, bond_dim=2, phys_dim=3, seed=3)
    tensors = from_quimb(state)
    assert tensors[0].shape == (3, 1, 1, 2, 2)
    assert tensors[5].shape == (3, 2, 2, 2, 2)
    norm = state.make_norm().contract(all, optimize="auto-hq")
    psi = dense_state(from_quimb(qtn.PEPS.rand(2, 2, 2, seed=4)), (2, 2), all_configs(4))
    small = qtn.PEPS.rand(2, 2, 2, seed=4).to_dense().ravel()
    assert np.allclose(psi, small, atol=ROUNDING)
    assert norm > 0


def test_mps_with_an_exponent_split_off():
    state = qtn.MPS_rand_state(6, 4, seed=2)
    dense = state.to_dense().ravel()
    state.multiply_(1e3)
    state.equalize_norms_(1.0)
    psi = dense_state(from_quimb(state), (1, 6), all_configs(6))
    assert np.allclose(psi, 1e3 * dense, rtol=1e-10, atol=1e-9)


def test_letters_of_complaint():
    with pytest.raises(ValueError, match="3 tensors for a grid"):
        to_quimb(random_positive(chain(3), 2), (2, 2))
    with pytest.raises(ValueError, match="Periodic"):
        from_quimb(qtn.MPS_rand_state(6, 3, cyclic=True, seed=0))
    two_tensors = to_quimb(random_state((2, 2), D=2), (2, 2))
    two_tensors |= two_tensors["I0,0"].copy()
    with pytest.raises(ValueError, match="has 2 tensors"):
        from_quimb(two_tensors)
