"""Random and grown tensors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracles import all_configs, dense_state
from tnvmc.ansatz.peps.starts.tensors import bond_sizes, grow, product_starts, random_positive
from tnvmc.lattice import chain, honeycomb, kagome, square
from tnvmc.lattice.embedding import embedding

GRID = square(2, 3)
ROUNDING = 1e-12


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("D", [1, 3])
def test_shapes_and_dtypes(dtype, D):
    for tensors in (
        random_positive(GRID, D, dtype, seed=1, local_dim=3),
        grow(random_positive(GRID, 1, dtype, local_dim=3), embedding(GRID), D),
    ):
        assert [t.shape for t in tensors] == [
            (3, *sizes) for sizes in bond_sizes(embedding(square(2, 3)), D)
        ]
        assert all(t.dtype == dtype for t in tensors)


def test_bond_sizes():
    assert bond_sizes(embedding(square(2, 2)), 5)[1] == (1, 5, 5, 1)
    assert bond_sizes(embedding(chain(3)), 5) == [(1, 1, 1, 5), (1, 5, 1, 5), (1, 5, 1, 1)]
    assert bond_sizes(embedding(honeycomb(2, 3)), 5)[:3] == [
        (1, 1, 5, 5),
        (1, 5, 1, 5),
        (1, 5, 5, 1),
    ]
    # of the row of odd index the middle place is vacant
    assert bond_sizes(embedding(kagome(2, 3)), 5) == [
        (1, 1, 5, 5), (1, 5, 1, 5), (1, 5, 5, 1), (5, 1, 1, 1), (5, 1, 1, 1),
    ]  # fmt: skip


def test_random_positive_amplitudes():
    configs = all_configs(6)
    psi = dense_state(random_positive(GRID, 2, seed=3), (2, 3), configs)
    assert psi.min() > 0
    again = dense_state(random_positive(GRID, 2, seed=3), (2, 3), configs)
    other = dense_state(random_positive(GRID, 2, seed=4), (2, 3), configs)
    assert np.array_equal(psi, again)
    assert not np.allclose(psi, other)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_growing_changes_amplitudes_by_the_noise_only(dtype):
    configs = all_configs(6)
    small = random_positive(GRID, 2, dtype, seed=2)
    psi = dense_state(small, (2, 3), configs)
    same = dense_state(grow(small, embedding(GRID), 4, noise=0.0), (2, 3), configs)
    assert np.allclose(psi, same, rtol=ROUNDING)
    changes = []
    for noise in (1e-2, 1e-3):
        grown = grow(small, embedding(GRID), 4, noise=noise, seed=5)
        for old, new in zip(small, grown, strict=True):
            assert np.array_equal(new[tuple(map(slice, old.shape))], old)
            added = np.linalg.norm(new) ** 2 - np.linalg.norm(old) ** 2
            assert np.isclose(np.sqrt(added), noise * np.linalg.norm(old), rtol=1e-6)
        moved = dense_state(grown, (2, 3), configs)
        changes.append(np.linalg.norm(moved - psi) / np.linalg.norm(psi))
    assert changes[0] < 1e-2
    assert changes[1] < changes[0] / 10  # a new bond needs both its ends: second order


def test_bad_input():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        random_positive(GRID, 0)
    with pytest.raises(ValueError, match="leaves room for"):
        grow(random_positive(GRID, 3), embedding(GRID), 2)
    with pytest.raises(ValueError, match="6 tensors"):
        grow(random_positive(GRID, 2), embedding(square(3, 3)), 3)


def test_product_starts_are_normalised() -> None:
    starts = product_starts(square(2, 3), 3)
    assert set(starts) >= {"neel x", "neel z", "uniform x", "row stripes z"}
    for vectors in starts.values():
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)
