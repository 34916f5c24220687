"""Codes of basis states, and sparse matrices against dense blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles import all_configs, config_index, dense_hamiltonian, dense_sector
from tnvmc.exact import exact_ground_state
from tnvmc.lattice import chain, square
from tnvmc.operators import (
    Basis,
    Operator,
    exchange_matrix,
    heisenberg,
    j1j2,
    kron,
    rydberg,
    smallest_magnetisation,
    tfim,
    xxz,
)
from tnvmc.operators.basis import count_elements, count_states
from tnvmc.operators.spin import SIGMA_X, SIGMA_Y


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
    found = states.configs(states.codes)
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
    assert (
        count_states(200, (0, 1), 100)
        == 90548514656103281165404177077484163874504589675413336841320
    )
    assert count_states(3, (0, 1), 4) == 0
    assert count_states(3, (0, 1), -1) == 0


@pytest.mark.parametrize(("n_sites", "local_dim", "smallest"), [(4, 2, 0), (5, 2, 1), (5, 3, 0)])
def test_smallest_magnetisation(n_sites: int, local_dim: int, smallest: int) -> None:
    assert smallest_magnetisation(n_sites, local_dim) == smallest
    assert Basis(n_sites, local_dim, smallest).dimension > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((9, 2, 0), "|2 Sz| is odd here and at most 9. Take such a magnetisation, or use an even"),
        ((4, 2, 1), "|2 Sz| is even here"),
        ((4, 2, 6), "even here and at most 4"),
        ((4, 2, -6), "even here and at most 4"),
    ],
)
def test_impossible_sectors_are_refused(arguments: tuple[int, int, int], said: str) -> None:
    with pytest.raises(ValueError) as caught:
        Basis(*arguments)
    assert said in str(caught.value)


def test_codes_beyond_their_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit the 62 bits"):
        _ = Basis(63, 2, 1).codes


ROUNDING = 1e-12

TWIST = kron(SIGMA_X, SIGMA_Y) - kron(SIGMA_Y, SIGMA_X)  # Dzyaloshinskii-Moriya: complex
LATTICE = square(2, 4)
SPIN_ONE = Operator.from_terms(
    chain(5), [((i, i + 1), exchange_matrix(3)) for i in range(4)], local_dim=3
)
RING = Operator.from_terms(
    LATTICE, [((0, 1, 4, 5), kron(exchange_matrix(), exchange_matrix())), ((0, 1), TWIST)]
)
CONSERVING = {
    "heisenberg": heisenberg(LATTICE),
    "xxz": xxz(LATTICE, J=0.3, Jz=-1.2),
    "j1j2": j1j2(LATTICE),
    "spin one": SPIN_ONE,
    "complex, four sites": RING,
    "sum": heisenberg(LATTICE) + 0.7 * RING,
}


@pytest.mark.parametrize("name", CONSERVING)
def test_sector_blocks_equal_the_dense_ones(name: str) -> None:
    operator = CONSERVING[name]
    highest = operator.n_sites * (operator.local_dim - 1)
    for magnetisation in range(-highest, highest + 1, 2):
        block = operator.sparse(magnetisation)
        expected = dense_sector(operator, magnetisation)
        assert block.format == "csr"
        assert np.allclose(block.toarray(), expected, atol=ROUNDING)


@pytest.mark.parametrize("operator", [tfim(LATTICE, h=0.7), rydberg(LATTICE), RING, SPIN_ONE])
def test_full_space_equals_the_dense_matrix(operator: Operator) -> None:
    assert np.allclose(operator.sparse().toarray(), dense_hamiltonian(operator), atol=ROUNDING)


@pytest.mark.parametrize("name", CONSERVING)
@pytest.mark.parametrize("magnetisation", [None, 0, 4])
def test_elements_are_counted_beforehand(name: str, magnetisation: int | None) -> None:
    operator = CONSERVING[name]
    states = Basis(operator.n_sites, operator.local_dim, magnetisation)
    stored = operator.sparse(magnetisation).nnz
    counted = count_elements(operator.replacements, states)
    if name in ("complex, four sites", "sum"):  # two patches connect the same states
        assert stored <= counted <= 2 * stored
    else:
        assert stored == counted


def test_a_sector_of_an_operator_that_leaves_it_is_refused() -> None:
    with pytest.raises(ValueError, match="tfim does not conserve the magnetisation"):
        tfim(LATTICE).sparse(0)
    with pytest.raises(ValueError, match="an even number of sites"):
        heisenberg(square(3, 3)).sparse(0)


@given(sectors())
@settings(deadline=None)
def test_a_sector_of_few_states_needs_no_tables(sector: tuple[int, int, int | None]) -> None:
    class Few(Basis):
        tabled = False

    states, few = Basis(*sector), Few(*sector)
    assert np.array_equal(few.codes, states.codes)
    assert np.array_equal(few.positions(states.codes[::-1]), states.positions(states.codes[::-1]))


@pytest.mark.parametrize(("n_sites", "local_dim"), [(60, 2), (38, 3)])
def test_one_magnon_on_many_sites_takes_no_memory(n_sites: int, local_dim: int) -> None:
    """The tables of the halves had 2^30 and 3^19 entries, of a sector with as many states as
    sites; the magnon hops by S and has the energy -S for each bond of its site."""
    spin = (local_dim - 1) / 2
    hop = np.diag(np.full(n_sites - 1, spin), 1)
    ends = np.r_[1, np.full(n_sites - 2, 2), 1]
    magnon = np.linalg.eigvalsh(hop + hop.T - spin * np.diag(ends))[0]
    bonds = chain(n_sites).bonds["nearest"]
    terms = [(bond, exchange_matrix(local_dim)) for bond in bonds]
    operator = Operator.from_terms(chain(n_sites), terms, local_dim=local_dim)
    found = exact_ground_state(operator, n_sites * (local_dim - 1) - 2).energy
    assert found == pytest.approx(magnon + (n_sites - 1) * spin**2, abs=1e-10)
