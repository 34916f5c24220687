"""Starts: what they are close to, what they refuse, what growing keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tnvmc import sharing
from tnvmc.ansatz.initial import initial_parameters
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.peps.starts.other_sizes import cut_to
from tnvmc.ansatz.peps.starts.tensors import grow
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.product import ProductState
from tnvmc.contraction.schemes import Exact
from tnvmc.lattice import chain, from_bonds, square, triangular
from tnvmc.operators.models import heisenberg, hubbard, tv
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.vmc import VMC
from tnvmc.storage.hdf5 import StateFileError

OPERATOR = heisenberg(square(2, 3))


def energy(ansatz: PEPS | ProductState, theta: np.ndarray) -> float:
    return VMC(OPERATOR, ansatz, Enumerate(), theta=theta).measure().energy


def peps(D: int, dtype: str = "float64") -> PEPS:
    return PEPS(OPERATOR.lattice, D, dtype, Exact())


@pytest.mark.whole
def test_energies_of_the_starts() -> None:
    found = {
        kind: energy(peps(2), initial_parameters(peps(2), OPERATOR, 1, kind))
        for kind in ("simple_update", "random", "product")
    }
    # Neel in the plane: -1/4 on each of the 7 bonds, and the sector Sz = 0 of it a little lower.
    assert -2.6 < found["product"] < -7 / 4 + 0.05
    assert found["simple_update"] < found["product"] - 0.5
    assert found["random"] > found["product"]
    product = ProductState(OPERATOR.lattice)
    theta = initial_parameters(product, OPERATOR, 1, "product")
    assert energy(product, theta) == pytest.approx(found["product"], abs=0.05)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_types_and_shapes(dtype: str) -> None:
    lattice = OPERATOR.lattice
    for ansatz in (
        peps(3, dtype),
        PeriodicMPS(lattice, 2, dtype),
        ProductState(lattice, dtype=dtype),
    ):
        theta = initial_parameters(ansatz, OPERATOR, 1, "random")
        assert theta.shape == (ansatz.n_params,)
        assert theta.dtype == dtype
    assert initial_parameters(peps(3, dtype), OPERATOR).dtype == dtype


def test_starts_are_functions_of_the_seed() -> None:
    for kind in ("simple_update", "random", "product"):
        first, again = (initial_parameters(peps(3), OPERATOR, 5, kind) for _ in range(2))
        assert np.array_equal(first, again)
        assert np.isfinite(first).all()


@pytest.mark.parametrize("D", [1, 2, 3])
def test_going_on_from_a_checkpoint(tmp_path: Path, D: int) -> None:
    vmc = VMC(OPERATOR, peps(2), Enumerate())
    vmc.save(tmp_path / "c.h5")
    theta = initial_parameters(peps(D), OPERATOR, 1, str(tmp_path / "c.h5"))
    assert theta.shape == (peps(D).n_params,)
    if D == 2:
        assert np.array_equal(theta, vmc.theta)
    # New bonds carry a little noise, and those of weight 0.4 at most (of squares) are cut.
    allowed = 0.05 if D > 1 else 0.7  # to the energy of a product state
    assert energy(peps(D), theta) == pytest.approx(energy(peps(2), vmc.theta), abs=allowed)


def test_what_a_checkpoint_of_larger_D_does_not_need_is_cut(tmp_path: Path) -> None:
    small, large = (peps(D) for D in (2, 3))
    theta = initial_parameters(small, OPERATOR)
    wide = large.flatten(grow(small.tensors(theta), large.embedding, large.D, noise=0))
    VMC(OPERATOR, large, Enumerate(), theta=wide).save(tmp_path / "c.h5")
    found = initial_parameters(small, OPERATOR, 1, str(tmp_path / "c.h5"))
    assert energy(small, found) == pytest.approx(energy(small, theta), abs=1e-10)
    middle = peps(2)
    single = initial_parameters(peps(1), OPERATOR)
    wide = large.flatten(grow(peps(1).tensors(single), large.embedding, large.D, noise=0))
    found, lost = cut_to(large.tensors(wide), middle, seed=3)
    assert lost == 0
    assert np.count_nonzero(found) == found.size  # what is zero would stay so
    assert energy(middle, found) == pytest.approx(energy(peps(1), single), abs=0.01)
    shared = PEPS(OPERATOR.lattice, 2, scheme=Exact(), sharing=sharing(OPERATOR))
    with pytest.raises(StateFileError, match="shares tensors is not cut"):
        initial_parameters(shared, OPERATOR, 1, str(tmp_path / "c.h5"))


@pytest.mark.parametrize("D", [2, 4, 6])
def test_fermions_go_on_with_another_D(tmp_path: Path, D: int) -> None:
    model = hubbard(square(2, 3), U=4.0, particles=(3, 3))
    of = {"local_dim": 4, "fermions": model.fermions, "sharing": None}
    first = VMC(model, PEPS(model.lattice, 4, **of), Enumerate())
    first.save(tmp_path / "c.h5")
    other = PEPS(model.lattice, D, **of)
    theta = initial_parameters(other, model, 1, str(tmp_path / "c.h5"))
    found = VMC(model, other, Enumerate(), theta=theta).measure().energy
    if D == 4:
        assert np.array_equal(theta, first.theta)
    # New bonds carry 1 % of noise; the cut of a start leaves more than half of the binding.
    allowed = 0.05 if D > 2 else 0.5
    assert found == pytest.approx(first.measure().energy, rel=allowed)


def test_checkpoints_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "c.h5"
    VMC(OPERATOR, peps(3), Enumerate()).save(path)
    other = heisenberg(chain(6))
    with pytest.raises(StateFileError, match=r"PEPS on \[2, 3\].*wanted is a PEPS on \[1, 6\]"):
        initial_parameters(PEPS(other.lattice, 3), other, 1, str(path))
    with pytest.raises(StateFileError, match="wanted is a PeriodicMPS"):
        initial_parameters(PeriodicMPS(OPERATOR.lattice, 3), OPERATOR, 1, str(path))
    ring = PeriodicMPS(OPERATOR.lattice, 3)
    VMC(OPERATOR, ring, Enumerate()).save(tmp_path / "ring.h5")
    with pytest.raises(StateFileError, match="D = 3, which cannot be turned into D = 2"):
        initial_parameters(PeriodicMPS(OPERATOR.lattice, 2), OPERATOR, 1, str(tmp_path / "ring.h5"))
    VMC(OPERATOR, peps(2, "complex128"), Enumerate()).save(path)
    with pytest.raises(StateFileError, match="a real state cannot hold it"):
        initial_parameters(peps(2), OPERATOR, 1, str(path))
    with pytest.raises(StateFileError, match="no such file"):
        initial_parameters(peps(3), OPERATOR, 1, "simple-update")


def test_a_start_that_a_state_does_not_have() -> None:
    with pytest.raises(ValueError, match="a PeriodicMPS has no such start; take 'random'"):
        initial_parameters(PeriodicMPS(OPERATOR.lattice, 2), OPERATOR, 1, "simple_update")


def test_tensors_joined_in_other_ways_are_no_start(tmp_path: Path) -> None:
    """Both are chains of 8 sites on 3 x 3 places with as many parameters, and tensors of other shapes."""
    bonds = [(i, i + 1) for i in range(7)]
    one, other = (from_bonds((3, 3), bonds, vacant=[place]) for place in (0, 8))
    operator = heisenberg(one)
    state = PEPS(one, 2)
    theta = state.initial(operator)
    assert state.n_params == PEPS(other, 2).n_params
    state.save(tmp_path / "x.h5", theta)
    same = initial_parameters(PEPS(one, 2), operator, kind=str(tmp_path / "x.h5"))
    assert np.array_equal(same, theta)
    for D in (2, 3):
        with pytest.raises(StateFileError, match="joined"):
            initial_parameters(PEPS(other, D), heisenberg(other), kind=str(tmp_path / "x.h5"))


def test_lattices_that_lie_on_the_grid_alike_start_each_other(tmp_path: Path) -> None:
    state = PEPS(square(3, 3), 2)
    theta = state.initial(heisenberg(square(3, 3)))
    state.save(tmp_path / "x.h5", theta)
    there = PEPS(triangular(3, 3), 2)
    found = initial_parameters(there, heisenberg(there.lattice), kind=str(tmp_path / "x.h5"))
    assert np.array_equal(found, theta)


def test_spins_are_no_start_of_fermions(tmp_path: Path) -> None:
    lattice = square(2, 3)
    VMC(OPERATOR, peps(2), Enumerate()).save(tmp_path / "spins.h5")
    model = tv(lattice, particles=3)
    state = PEPS(lattice, 2, fermions=model.fermions, sharing=None)
    with pytest.raises(StateFileError, match="other particles"):
        initial_parameters(state, model, 1, str(tmp_path / "spins.h5"))
