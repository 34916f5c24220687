"""States go to quimb and come back with their amplitudes."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from tests.oracles import all_configs, dense_amplitude, dense_state
from tnvmc import from_quimb
from tnvmc.ansatz.peps.starts.tensors import random_positive
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.quimb import grid_from_quimb, grid_to_quimb
from tnvmc.contraction.double_layer import log_amplitude
from tnvmc.lattice.grids import chain, square

ROUNDING = 1e-12

quimb = pytest.importorskip("quimb")
qtn = pytest.importorskip("quimb.tensor")


def random_state(shape, dtype="complex128", D=3, local_dim=2):
    lattice = square(*shape)
    return random_positive(lattice, D, dtype, seed=1, local_dim=local_dim)


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (3, 3), (4, 1), (1, 5)])
def test_amplitudes_agree_and_tensors_come_back(shape):
    tensors = random_state(shape)
    state = grid_to_quimb(tensors, shape)
    for config in np.random.default_rng(0).integers(0, 2, size=(6, len(tensors))):
        rows = config.reshape(shape)
        names = {
            (f"k{r},{c}" if shape[0] > 1 else f"k{c}"): int(rows[r, c])
            for r, c in np.ndindex(shape)
        }
        amplitude = state.isel(names).contract(all, optimize="greedy")
        assert abs(amplitude - dense_amplitude(tensors, shape, config)) < ROUNDING
    _, back = grid_from_quimb(state)
    assert all(np.array_equal(old, new) for old, new in zip(tensors, back, strict=True))


def test_quimb_may_permute_legs():
    tensors = random_state((3, 3), D=2)
    state = grid_to_quimb(tensors, (3, 3))
    rng = np.random.default_rng(5)
    for tensor in state.tensors:
        tensor.transpose_(*rng.permutation(tensor.inds))
    _, back = grid_from_quimb(state)
    assert all(np.array_equal(old, new) for old, new in zip(tensors, back, strict=True))


def test_states_made_by_quimb():
    state = qtn.PEPS.rand(3, 4, bond_dim=2, phys_dim=3, seed=3)
    lattice, tensors = grid_from_quimb(state)
    assert (lattice.shape, lattice.boundary) == ((3, 4), "open")
    assert tensors[0].shape == (3, 1, 1, 2, 2)
    assert tensors[5].shape == (3, 2, 2, 2, 2)
    norm = state.make_norm().contract(all, optimize="greedy")
    psi = dense_state(grid_from_quimb(qtn.PEPS.rand(2, 2, 2, seed=4))[1], (2, 2), all_configs(4))
    small = qtn.PEPS.rand(2, 2, 2, seed=4).to_dense().ravel()
    assert np.allclose(psi, small, atol=ROUNDING)
    assert norm > 0


def test_mps_with_an_exponent_split_off():
    state = qtn.MPS_rand_state(6, 4, seed=2)
    dense = state.to_dense().ravel()
    state.multiply_(1e3)
    state.equalize_norms_(1.0)
    psi = dense_state(grid_from_quimb(state)[1], (1, 6), all_configs(6))
    assert np.allclose(psi, 1e3 * dense, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 4), (4, 1), (1, 5), (1, 1)])
def test_a_state_and_its_theta_go_and_come_back(shape, dtype):
    peps = PEPS(chain(shape[1]) if shape[0] == 1 else square(*shape), 3, dtype, local_dim=3)
    theta = peps.flatten(random_state(shape, dtype, local_dim=3))
    back, theta_back = from_quimb(peps.to_quimb(theta))
    assert back.lattice == peps.lattice
    assert (back.dtype, back.local_dim) == (peps.dtype, 3)
    assert np.array_equal(theta_back, theta) or prod(shape) == 1  # one site has D = 1


@pytest.mark.whole
def test_a_state_that_quimb_evolved_has_its_amplitudes():
    """Simple update of quimb on 3x4: unequal bonds, a gauge and an exponent of its own."""
    edges = tuple(qtn.edges_2d_square(3, 4))
    hamiltonian = qtn.LocalHam2D(3, 4, {edge: quimb.ham_heis(2) for edge in edges})
    update = qtn.SimpleUpdate(qtn.PEPS.rand(3, 4, 2, seed=1), hamiltonian, D=3, progbar=False,
                              compute_energy_final=False, ordering=edges)  # fmt: skip
    update.evolve(5, tau=0.1)
    state = update.get_state()
    peps, theta = from_quimb(state)
    assert (peps.lattice.shape, peps.D, peps.local_dim) == ((3, 4), 3, 2)
    configs = np.random.default_rng(2).permuted(np.tile([0, 1], (4, 6)), axis=1)
    phase, log_abs = log_amplitude(peps.tensors(theta), (3, 4), configs)
    for config, value in zip(configs, phase * np.exp(log_abs), strict=True):
        names = {f"k{r},{c}": int(config[4 * r + c]) for r, c in np.ndindex(3, 4)}
        amplitude = state.isel(names).contract(all, optimize="greedy")
        assert np.isclose(value, amplitude, rtol=1e-9, atol=0)


def test_bonds_of_unequal_size_are_filled_up():
    state = qtn.MPS_rand_state(5, 4, seed=3, dtype="complex128")  # bonds 2, 4, 4, 2
    peps, theta = from_quimb(state)
    assert (peps.lattice.kind, peps.D, peps.dtype) == ("chain", 4, np.complex128)
    psi = dense_state(peps.tensors(theta), (1, 5), all_configs(5))
    assert np.allclose(psi, state.to_dense().ravel(), atol=ROUNDING)


def test_errors():
    with pytest.raises(ValueError, match="periodic"):
        grid_from_quimb(qtn.MPS_rand_state(6, 3, cyclic=True, seed=0))
    two_tensors = grid_to_quimb(random_state((2, 2), D=2), (2, 2))
    two_tensors |= two_tensors["I0,0"].copy()
    with pytest.raises(ValueError, match="has 2 tensors"):
        grid_from_quimb(two_tensors)
    untagged = qtn.PEPS.rand(2, 2, 2)
    untagged.drop_tags("I0,1")
    with pytest.raises(ValueError, match=r"site \(0, 1\) has 0 tensors"):
        grid_from_quimb(untagged)
    unequal = grid_to_quimb(
        [t[:2] if site else t for site, t in enumerate(random_state((2, 2), local_dim=3))], (2, 2)
    )
    with pytest.raises(ValueError, match="physical dimension 2"):
        grid_from_quimb(unequal)


@pytest.mark.parametrize("make", [lambda: qtn.PEPO.rand(2, 2, 2), lambda: qtn.MPO_rand(3, 2),
                                  lambda: qtn.PEPS3D.rand(2, 2, 2, 2), lambda: np.ones(3)])  # fmt: skip
def test_what_is_no_state_on_a_grid_is_refused(make):
    with pytest.raises(TypeError, match="neither a PEPS nor a MatrixProductState"):
        from_quimb(make())
