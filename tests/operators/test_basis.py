"""The basis and its numbering against itertools."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles import all_configs, config_index
from tnvmc.operators import Basis, basis, smallest_magnetisation
from tnvmc.operators.basis import count_states


@st.composite
def sectors(draw) -> tuple[int, int, int | None]:
    n_sites, local_dim = draw(st.sampled_from([(n, d) for n in range(1, 7) for d in (2, 3, 4)]))
    highest = n_sites * (local_dim - 1)
    steps = draw(st.one_of(st.none(), st.integers(0, highest)))
    return n_sites, local_dim, None if steps is None else highest - 2 * steps


@settings(deadline=None)
@given(sectors())
def test_basis_is_lexicographic_and_complete(sector: tuple[int, int, int | None]) -> None:
    states = Basis(*sector)
    expected = all_configs(*sector)
    found = basis(*sector)
    assert found.dtype == np.int8
    assert np.array_equal(found, expected)
    assert states.dimension == len(expected)
    assert states.codes.tolist() == [config_index(config, sector[1]) for config in expected]
    assert np.array_equal(states.positions(states.codes), np.arange(states.dimension))
    shuffled = np.random.default_rng(0).permutation(states.dimension)
    assert np.array_equal(states.positions(states.codes[shuffled]), shuffled)


@pytest.mark.parametrize(("n_sites", "dimension"), [(16, 12870), (20, 184756), (24, 2704156)])
def test_dimension_of_zero_magnetisation(n_sites: int, dimension: int) -> None:
    states = Basis(n_sites, 2, 0)
    assert states.dimension == dimension
    if n_sites < 24:
        assert len(states.codes) == dimension
        assert np.all(np.diff(states.codes) > 0)
        assert np.all(states.configs(states.codes).sum(axis=1) == n_sites // 2)


def test_counting_is_exact_beyond_any_float() -> None:
    assert Basis(2000, 2).dimension == 2**2000
    assert count_states(200, 2, 100) == 90548514656103281165404177077484163874504589675413336841320
    assert count_states(3, 2, 4) == 0
    assert count_states(3, 2, -1) == 0


@pytest.mark.parametrize(("n_sites", "local_dim", "smallest"), [(4, 2, 0), (5, 2, 1), (5, 3, 0)])
def test_smallest_magnetisation(n_sites: int, local_dim: int, smallest: int) -> None:
    assert smallest_magnetisation(n_sites, local_dim) == smallest
    assert Basis(n_sites, local_dim, smallest).dimension > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((9, 2, 0), "9 sites of local dimension 2: 2 Sz is always odd there. Take 1, or an even"),
        ((4, 2, 1), "always even there. Take 0"),
        ((4, 2, 6), "reach -4..4"),
        ((4, 2, -6), "reach -4..4"),
    ],
)
def test_impossible_sectors_are_refused(arguments: tuple[int, int, int], said: str) -> None:
    with pytest.raises(ValueError) as caught:
        basis(*arguments)
    assert said in str(caught.value)


def test_codes_beyond_their_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit the 62 bits"):
        basis(63, 2, 1)
