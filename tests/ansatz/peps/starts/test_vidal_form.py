"""Weights that gates of one leave as they are, and states that are cut by them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracles import all_configs, dense_state
from tnvmc.ansatz.peps.starts.tensors import bond_sizes, grow, random_positive
from tnvmc.ansatz.peps.starts.vidal_form import VidalPEPS, cut, equilibrate
from tnvmc.lattice import chain, honeycomb, square
from tnvmc.lattice.embedding import DOWN, RIGHT, Bonds, embedding
from tnvmc.lattice.lattice import Lattice

ROUNDING = 1e-12
FROM_A_CUT = 1e-6  #: of a norm: weights settle to 1e-8, and a cut loses what is not settled

GRIDS: list[tuple[Lattice, Bonds]] = [
    (square(2, 3), "open"), (square(2, 3, boundary="cylinder"), "periodic"), (chain(6), "open"), (honeycomb(2, 3), "open"),
]  # fmt: skip


def state_of(tensors: list[np.ndarray], lattice: Lattice) -> np.ndarray:
    """The 2^N amplitudes, of norm 1."""
    psi = dense_state(tensors, lattice.shape, all_configs(lattice.n_sites))
    return psi / np.linalg.norm(psi)


def signed(psi: np.ndarray) -> np.ndarray:
    """Without what a factor of norm 1 makes of all amplitudes."""
    largest = psi[np.argmax(np.abs(psi))]
    return psi * (abs(largest) / largest)


def cut_of(tensors, found, D):
    """Cut tensors (d, up, left, down, right)."""
    largest = max(D, *(max(tensor.shape[1:]) for tensor in tensors))
    return cut(VidalPEPS.from_peps(tensors, found, largest, is_complex=False), D)


def random_state(
    lattice: Lattice, D: int, dtype: str = "float64", bonds: Bonds = "open", seed: int = 0
) -> list[np.ndarray]:
    """Entries of both signs, whose loops matter."""
    rng = np.random.default_rng(seed)
    tensors = random_positive(lattice, D, dtype, seed, bonds=bonds)
    return [t + 0.3 * np.abs(t).max() * rng.normal(size=t.shape) for t in tensors]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(("lattice", "bonds"), GRIDS)
def test_settling_and_cutting_to_the_same_D_keep_the_state(
    lattice: Lattice, bonds: Bonds, dtype: str
) -> None:
    tensors, found = random_state(lattice, 3, dtype, bonds), embedding(lattice, bonds)
    kept, lost = cut_of(tensors, found, 3)
    assert lost == 0
    assert [t.shape[1:] for t in kept] == bond_sizes(found, 3)
    psi = [signed(state_of(each, lattice)) for each in (kept, tensors)]
    assert np.allclose(*psi, atol=ROUNDING)


@pytest.mark.parametrize(("lattice", "bonds"), GRIDS)
def test_what_has_grown_is_cut_back(lattice: Lattice, bonds: Bonds) -> None:
    """New entries are zero: weights of them are."""
    small, found = random_state(lattice, 2, bonds=bonds), embedding(lattice, bonds)
    kept, lost = cut_of(grow(small, found, 4, noise=0), found, 2)
    assert lost < ROUNDING
    psi = [signed(state_of(each, lattice)) for each in (kept, small)]
    assert np.allclose(*psi, atol=ROUNDING)


def test_on_a_chain_the_cut_is_that_of_schmidt() -> None:
    """Of one bond, the others being wide enough: the best state of that rank."""
    tensors = random_state(chain(6), 4)
    psi = state_of(tensors, chain(6)).reshape(8, 8)
    found = embedding(chain(6))
    state = VidalPEPS.from_peps(tensors, found, 4, is_complex=False)
    equilibrate(state)
    weights = state.weights[state.bond_at[2, 3]]
    assert np.allclose(weights, np.linalg.svd(psi)[1][:4], atol=FROM_A_CUT)
    narrow = [t.copy() for t in tensors]
    two, lost = cut_of(narrow, found, 2)
    best = np.sqrt(1 - np.sum(np.linalg.svd(psi)[1][2:] ** 2))
    overlap = abs(state_of(two, chain(6)) @ psi.ravel())
    assert overlap <= best + ROUNDING
    assert 1 - overlap < 6 * lost  # each of five bonds adds what it loses, at most


def test_a_cut_loses_less_than_leaving_entries_out() -> None:
    """With loops, where it is no more the best: small additions in another gauge go first."""
    lattice = square(3, 3)
    found = embedding(lattice)
    wide = grow(random_state(lattice, 2), found, 3, noise=0.05, seed=1)
    rng = np.random.default_rng(5)
    turned = list(wide)
    for site, other in ((0, 1), (4, 5), (7, 8)):
        x = np.eye(3) + 0.5 * rng.normal(size=(3, 3))
        turned[site] = np.einsum("supdr,rx->supdx", turned[site], x)
        turned[other] = np.einsum("sxpdr,yx->sypdr", turned[other].swapaxes(1, 2), np.linalg.inv(x))
        turned[other] = turned[other].swapaxes(1, 2)
    psi = state_of(turned, lattice)
    assert np.allclose(signed(psi), signed(state_of(wide, lattice)), atol=1e-10)
    kept, lost = cut_of(turned, found, 2)
    left_out = [t[(slice(None), *(slice(2),) * 4)] for t in turned]
    by_cut, by_hand = (1 - abs(state_of(t, lattice) @ psi) for t in (kept, left_out))
    assert 0 < by_cut < 0.2 * by_hand
    assert 0 < lost < 0.1


def test_tensors_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="6 tensors"):
        cut_of(random_positive(square(2, 3), 3), embedding(square(3, 3)), 2)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_a_state_that_is_none(value: float) -> None:
    tensors = random_positive(square(2, 3), 3)
    with pytest.raises(ValueError, match="site 4 is zero or not finite"):
        cut_of([*tensors[:4], tensors[4] * value, tensors[5]], embedding(square(2, 3)), 2)
    tensors[0] = tensors[0] * np.array([1.0, 0.0, 0.0])  # its bond to the right: one state,
    tensors[1] = tensors[1] * np.array([0.0, 1.0, 0.0])[:, None, None]  # and there another
    with pytest.raises(ValueError, match="the state vanishes"):
        cut_of(tensors, embedding(square(2, 3)), 2)


@pytest.mark.parametrize(("legs", "n_rows"), [((RIGHT,), 6), ((RIGHT, DOWN), 1)])
def test_padding_of_corners_makes_no_larger_factors(legs: tuple[int, ...], n_rows: int) -> None:
    """Else the factors of a pair of sites two bonds apart are D^4 times as many numbers."""
    lattice = square(2, 2)
    found = embedding(lattice)
    state = VidalPEPS.from_peps(random_state(lattice, 6), found, 6, is_complex=False)
    corner = np.array([0])
    q, r = state.split(corner, legs)
    assert r.shape[1] == n_rows
    before = state.tensors[0] / np.abs(state.tensors[0]).max()
    state.join(corner, legs, q, r)
    assert np.allclose(state.tensors[0], before, atol=ROUNDING)
