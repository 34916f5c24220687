"""States of rings and Hamiltonians of quimb; the oracle is quimb's own dense vector or matrix."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from tests.oracles import all_configs, dense_hamiltonian, embed
from tnvmc import PEPS, VMC, Enumerate, Operator, chain, from_quimb, heisenberg, j1j2, square
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.lattice import Lattice

qu = pytest.importorskip("quimb")
qtn = pytest.importorskip("quimb.tensor")
qop = pytest.importorskip("quimb.operator")

ROUNDING = 1e-12  # of amplitudes and elements of order 1


def amplitudes(ansatz: Any, theta: np.ndarray) -> np.ndarray:
    configs = all_configs(ansatz.lattice.n_sites, ansatz.local_dim)
    found = ansatz.log_amplitude(theta, configs)
    return np.asarray(found.phase * np.exp(found.log_abs))


@pytest.mark.parametrize(("local_dim", "dtype"), [(2, "float64"), (3, "complex128")])
def test_a_ring_goes_and_comes_back(local_dim: int, dtype: str) -> None:
    ring = PeriodicMPS(chain(5, "periodic"), 3, dtype, local_dim)
    theta = ring.random(seed=1)
    state = ring.to_quimb(theta)
    assert state.cyclic
    psi = amplitudes(ring, theta)
    assert np.abs(state.to_dense().ravel() - psi).max() < ROUNDING * np.abs(psi).max()
    back, same = from_quimb(state)
    assert (type(back), back.D, back.local_dim) == (PeriodicMPS, 3, local_dim)
    assert back.lattice == ring.lattice
    assert np.array_equal(same, theta)


def test_rings_that_quimb_made() -> None:
    state = qtn.MPS_rand_state(4, 3, cyclic=True, seed=2, dtype="complex128")
    exact = 1e3 * state.to_dense().ravel()
    state.multiply_(1e3)
    state.equalize_norms_(1.0)
    for tensor in state.tensors:
        tensor.transpose_(*reversed(tensor.inds))
    ring, theta = from_quimb(state)
    assert state.exponent != 0
    assert np.abs(amplitudes(ring, theta) - exact).max() < ROUNDING * np.abs(exact).max()
    narrow = qtn.MatrixProductState(
        [np.random.default_rng(s).normal(size=(a, b, 2)) for s, (a, b) in enumerate([(1, 2), (2, 3), (3, 1)])],
        shape="lrp",
    )  # fmt: skip
    ring, theta = from_quimb(narrow)
    assert ring.D == 3
    assert np.abs(amplitudes(ring, theta) - narrow.to_dense().ravel()).max() < ROUNDING


@pytest.mark.parametrize(
    "state", [qtn.MPS_rand_state(5, 3, seed=1), qtn.PEPS.rand(2, 3, bond_dim=2, seed=1)]
)
def test_open_states_are_a_peps(state: Any) -> None:
    peps, theta = from_quimb(state)
    assert isinstance(peps, PEPS)
    psi = amplitudes(peps, theta)
    assert np.abs(psi - state.to_dense().ravel()).max() < ROUNDING * np.abs(psi).max()
    assert np.allclose(peps.to_quimb(theta).to_dense(), state.to_dense())


def test_what_is_no_ring_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 3"):
        PeriodicMPS(chain(2), 2).to_quimb(np.ones(16))
    with pytest.raises(TypeError, match="neither a PEPS"):
        from_quimb(qtn.MPO_ham_heis(4))


def theirs(terms: Any, number: Any, n_sites: int, local_dim: int = 2) -> np.ndarray:
    """Sum of terms {sites: matrix} by quimb's meaning: kron in the order of the key."""
    return sum(
        embed(np.asarray(matrix), [number(site) for site in sites], n_sites, local_dim)
        for sites, matrix in terms.items()
    )


def dense(operator: Any) -> np.ndarray:
    if isinstance(operator, Operator):
        return dense_hamiltonian(operator)
    return np.asarray(dense(operator.real) + 1j * dense(operator.imaginary))


ZX = np.kron(qu.pauli("z"), qu.pauli("x"))
YX = np.kron(qu.pauli("y"), qu.pauli("x"))


@pytest.mark.whole
@pytest.mark.parametrize(
    ("make", "lattice"),
    [
        (lambda: qtn.ham_1d_heis(5, bz=0.2), chain(5)),
        (lambda: qtn.ham_1d_heis(5, cyclic=True), chain(5, "periodic")),
        (lambda: qtn.LocalHam2D(2, 3, qu.ham_heis(2), 0.3 * qu.pauli("y")), square(2, 3)),
        (lambda: qtn.LocalHam2D(2, 2, {None: qu.ham_heis(2), ((1, 0), (0, 1)): ZX}), None),
        (lambda: qtn.LocalHamGen({(0, 1): YX, (3, 1): ZX, (2, 3): ZX}), None),
        (lambda: qtn.ham_1d_heis(4, S=1), chain(4)),
    ],
)
def test_a_local_hamiltonian_has_the_matrix_of_quimb(make: Any, lattice: Lattice | None) -> None:
    ham = make()
    found = from_quimb(ham)
    assert isinstance(found, Operator)
    if lattice is not None:
        assert found.lattice == lattice
    cols, n_sites = found.lattice.n_cols, found.n_sites
    number = lambda site: site[0] * cols + site[1] if isinstance(site, tuple) else site
    expected = theirs(ham.terms, number, n_sites, found.local_dim)
    assert np.abs(dense(found) - expected).max() < ROUNDING


@pytest.mark.whole
def test_models_of_both_are_the_same() -> None:
    lattice = square(2, 3)
    assert np.allclose(dense(from_quimb(qtn.ham_2d_heis(2, 3))), dense(heisenberg(lattice)))
    vmc = VMC(qtn.ham_2d_j1j2(2, 3, 1.0, 0.5), PEPS(lattice, 2), Enumerate())
    assert np.allclose(dense(vmc.operator), dense(j1j2(lattice)))
    with pytest.raises(ValueError, match=r"on 2 x 3 sites, the lattice on 3 x 2"):
        VMC(qtn.ham_2d_heis(2, 3), PEPS(square(3, 2), 2))
    with pytest.raises(ValueError, match="on 1 x 4 sites, the lattice on 1 x 5"):
        from_quimb(qtn.ham_1d_heis(4), chain(5))


@pytest.mark.whole
def test_a_builder_of_sparse_operators() -> None:
    space = qop.HilbertSpace(4, sector=1, symmetry="U1")
    terms = [
        (1.5, ("+", 0), ("-", 2)), (1.5, ("-", 0), ("+", 2)), (0.3, ("z", 1)), (0.5, ("n", 3))
    ]  # fmt: skip
    builder = qop.SparseOperatorBuilder(terms, hilbert_space=space)
    found = from_quimb(builder, chain(4))
    assert (type(found), found.magnetisation) == (Operator, 2)
    full = qop.SparseOperatorBuilder(terms, hilbert_space=qop.HilbertSpace(4))
    assert np.abs(dense(found) - full.build_dense()).max() < ROUNDING
    parity = qop.HilbertSpace(4, sector="even", symmetry="Z2")
    with pytest.raises(ValueError, match="'Z2'"):
        from_quimb(qop.SparseOperatorBuilder(terms, hilbert_space=parity))


@pytest.mark.parametrize(
    "bonds", [((1, 2), (2, 3)), ((0, 2), (2, 4)), (((1, 1), (1, 2)), ((2, 1), (2, 2)))]
)
def test_sites_that_are_not_numbered_from_0_are_refused(bonds: Any) -> None:
    """Numbers that no term has were free sites: other energies per site, and another sector."""
    with pytest.raises(ValueError, match="number them from 0"):
        from_quimb(qtn.LocalHamGen(dict.fromkeys(bonds, np.diag([1.0, -1.0, -1.0, 1.0]))))


def test_a_hamiltonian_on_another_grid_is_told() -> None:
    """The energies are those of the chain, the kinds of bonds and sublattices those of the grid."""
    chain_of_6 = qtn.ham_1d_heis(6)
    with pytest.warns(UserWarning, match="two different lattices"):
        VMC(chain_of_6, PEPS(square(2, 3), 2), Enumerate())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VMC(chain_of_6, PEPS(chain(6), 2), Enumerate())


@pytest.mark.parametrize("cyclic", [False, True])
def test_an_operator_of_quimb_is_told_from_a_state(cyclic: bool) -> None:
    """Of a cyclic one it was said to take from_quimb."""
    with pytest.raises(TypeError, match="neither a PEPS.*operator is taken as LocalHam1D"):
        from_quimb(qtn.MPO_rand(4, 2, cyclic=cyclic))
