"""A PEPS with shared tensors: its symmetry, its derivatives, and what it is as a plain PEPS."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import enumerated
from tests.oracles import all_configs
from tests.random_states import random_theta
from tnvmc import (
    PEPS,
    SRC,
    VMC,
    Enumerate,
    Exact,
    Operator,
    chain,
    heisenberg,
    honeycomb,
    j1j2,
    kagome,
    load_state,
    rydberg,
    sharing,
    square,
    symmetry_group,
    tfim,
    triangular,
    xxz,
)
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.initial import initial_parameters
from tnvmc.ansatz.peps.sharing import Sharing, bond_signs
from tnvmc.ansatz.peps.starts.other_sizes import grown
from tnvmc.ansatz.peps.symmetries import is_proven, signs_are_known
from tnvmc.backend.namespace import to_host
from tnvmc.exact import exact_ground_state
from tnvmc.storage.hdf5 import StateFileError

UNCUT = 10**4
ROUNDING = 1e-9  # of contractions of up to 16 tensors whose entries are of both signs

OPERATORS: dict[str, Operator] = {
    "square": heisenberg(square(4, 4)),
    "odd": heisenberg(square(3, 3)),
    "rectangle": heisenberg(square(2, 3)),
    "frustrated": j1j2(square(4, 4), J2=0.5),
    "stripes": j1j2(square(4, 4), J2=1.0),
    "field": tfim(square(3, 4), h=2.0),
    "atoms": rydberg(square(4, 4), V=7.0, delta=1.0, Omega=1.0),
    "triangular": heisenberg(triangular(3, 3)),
    "honeycomb": heisenberg(honeycomb(4, 4)),
    "cylinder": heisenberg(square(3, 4, "cylinder")),
    "ring": heisenberg(square(3, 4, "cylinder")),
    "chain": heisenberg(chain(6)),
}


def shared(name: str, D: int = 2, scheme: Any = None, dtype: str = "float64") -> PEPS:
    operator, bonds = OPERATORS[name], "periodic" if name == "ring" else "open"
    return PEPS(
        operator.lattice,
        D,
        dtype,
        scheme or Exact(),
        operator.local_dim,
        bonds,
        sharing(operator, bonds=bonds),
    )


def free(peps: PEPS) -> PEPS:
    """The same PEPS with all tensors its own."""
    return PEPS(peps.lattice, peps.D, peps.dtype.name, peps.scheme, peps.local_dim, peps.bonds)


def plain(peps: PEPS, theta: np.ndarray) -> np.ndarray:
    return to_host(free(peps).flatten(peps.tensors(theta)))


def half_filled(peps: PEPS, n: int = 12) -> np.ndarray:
    rng = np.random.default_rng(0)
    pattern = np.arange(peps.lattice.n_sites) % peps.local_dim
    return np.array([rng.permutation(pattern) for _ in range(n)], dtype=np.int8)


@pytest.mark.parametrize("name", OPERATORS)
def test_psi_has_the_symmetries_for_any_parameters(name: str) -> None:
    peps = shared(name)
    theta = random_theta(peps, seed=1)
    assert len(peps.sharing) > 1
    configs = half_filled(peps)
    here = peps.log_amplitude(theta, configs)
    for element in peps.sharing.elements:
        moved = np.zeros_like(configs)
        moved[:, list(element)] = configs
        there = peps.log_amplitude(theta, moved)
        np.testing.assert_allclose(there.log_abs, here.log_abs, atol=ROUNDING)
        phases = there.phase / here.phase
        np.testing.assert_allclose(phases, phases[0], atol=ROUNDING)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", ["square", "odd", "rectangle", "honeycomb", "ring", "chain"])
def test_derivatives_are_sums_of_those_of_the_plain_peps(name: str, dtype: str, xp: Any) -> None:
    peps = shared(name, dtype=dtype)
    other = free(peps)
    theta = random_theta(peps, seed=2)
    configs = half_filled(peps)
    wide = plain(peps, theta)
    columns = np.stack([plain(peps, unit) for unit in np.eye(peps.n_params, dtype=dtype)], axis=1)
    walkers = peps.start(xp.asarray(theta), xp.asarray(configs))
    _, found = peps.measure(xp.asarray(theta), walkers, {})
    _, wanted = other.measure(wide, other.start(wide, configs), {})
    expected = wanted.jacobian.dense() @ columns
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        to_host(found.jacobian.dense()), expected, atol=ROUNDING * scale, rtol=0
    )


@pytest.mark.parametrize("name", ["square", "odd", "field", "ring", "honeycomb"])
def test_tensors_and_parameters_go_both_ways(name: str) -> None:
    peps = shared(name, D=3)
    theta = random_theta(peps, seed=3)
    np.testing.assert_array_equal(peps.flatten(peps.tensors(theta)), theta)
    assert peps.n_params < free(peps).n_params / (len(peps.sharing) / 2)
    with pytest.raises(ValueError, match="without sharing"):
        peps.flatten(free(peps).tensors(random_theta(free(peps), seed=3)))


@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("rectangle", Exact()),
        ("rectangle", SRC(UNCUT)),
        ("odd", SRC(UNCUT)),
        ("field", Exact()),
        ("ring", SRC(UNCUT)),
        ("chain", SRC(UNCUT)),
    ],
)
def test_conformance(name: str, scheme: Any) -> None:
    peps = shared(name, scheme=scheme)
    check_ansatz(peps, random_theta(peps, 5, mean=1.0))


@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "D"), [("square", 2), ("odd", 2), ("field", 2), ("ring", 2), ("square", 3)]
)
def test_null_directions_are_those_of_the_metric(name: str, D: int) -> None:
    """The rank of all log-derivatives, one more parameter being fixed by the sector."""
    peps, operator = shared(name, D), OPERATORS[name]
    rng = np.random.default_rng(4)
    n, conserved = operator.n_sites, operator.conserves_magnetisation
    rows = [
        rng.permutation(np.arange(n) % 2) if conserved else rng.integers(0, 2, n)
        for _ in range(600 if D == 2 else 3000)
    ]
    configs = np.unique(np.array(rows, dtype=np.int8), axis=0)
    theta = random_theta(peps, seed=5)
    _, found = peps.measure(theta, peps.start(theta, configs), {})
    matrix = found.jacobian.dense()
    values = np.linalg.svd(matrix - matrix.mean(axis=0), compute_uv=False)
    rank = int((values > 1e-9 * values[0]).sum())
    assert rank == peps.n_params - peps.n_null - (1 if conserved else 0)


@given(
    st.lists(st.sampled_from([1, -1]), min_size=2, max_size=3), st.integers(1, 9), st.integers(1, 9)
)
def test_signs_of_a_larger_bond_go_on_where_those_of_a_smaller_end(
    of_pair: list[int], D: int, other: int
) -> None:
    of_pair[0] = 1
    few, many = sorted((D, other))
    np.testing.assert_array_equal(bond_signs(of_pair, many)[:few], bond_signs(of_pair, few))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("square", (1, -1)), ("field", (1, 1)), ("atoms", (1, -1)), ("frustrated", (1, -1))],
)
def test_signs_are_those_of_two_sites(name: str, expected: tuple[int, int]) -> None:
    found = sharing(OPERATORS[name])
    assert {signs for _, signs in found.signs} == {expected}


@pytest.mark.parametrize("field", [0.0, 1.0, 1.1, 3.0])
def test_a_field_that_is_constant_in_a_sector_changes_no_signs(field: float) -> None:
    """Above h = J two sites alone are polarised, and the network of their signs had no ground state in it."""
    couplings = [("Sx Sx + Sy Sy + Sz Sz", "nearest"), ("Sz", "all", -field)]
    operator = Operator.from_products(square(2, 4), couplings)
    assert {signs for _, signs in sharing(operator).signs} == {(1, -1)}


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (
            Operator.from_products(
                square(2, 4), [("Sx Sx + Sy Sy + Sz Sz", "nearest")], local_dim=3
            ),
            (1, -1, 1),
        ),
        (j1j2(square(2, 4), J1=0.0, J2=1.0), (1, -1)),
        (xxz(square(2, 4), J=0.0, Jz=1.0), (1, -1)),
    ],
)
def test_both_signs_are_there_where_the_pair_has_them_or_does_not_tell(
    operator: Operator, expected: tuple[int, ...]
) -> None:
    assert {signs for _, signs in sharing(operator).signs} == {expected}


@pytest.mark.parametrize(
    ("operator", "known"),
    [
        (heisenberg(square(2, 4)), True),
        (tfim(square(2, 4), h=1.0), True),
        (rydberg(square(2, 4), V=7.0, delta=1.0, Omega=1.0), True),
        (j1j2(square(2, 4), J1=0.0, J2=1.0), False),
    ],
)
def test_bonds_without_terms_tell_no_signs(operator: Operator, known: bool) -> None:
    assert signs_are_known(operator, sharing(operator)) is known


def test_sharing_of_another_hamiltonian_is_refused() -> None:
    lattice = square(2, 4)
    peps = PEPS(lattice, 2, sharing=sharing(heisenberg(lattice)))
    lopsided = Operator.from_products(lattice, [("Sz Sz", [(0, 1)]), ("Sx", "all")])
    with pytest.raises(ValueError, match="lacks"):
        VMC(lopsided, peps, Enumerate(threads=1))


def test_elements_that_are_no_group_are_refused() -> None:
    found = sharing(OPERATORS["square"])
    with pytest.raises(ValueError, match="no group"):
        Sharing(found.elements[1:2], found.colours)


def test_what_reverses_no_bond_needs_no_signs() -> None:
    assert sharing(OPERATORS["odd"]).signs == ()


@pytest.mark.parametrize(
    ("name", "proven"),
    [
        ("square", True),
        ("field", True),
        ("atoms", True),
        ("frustrated", False),
        ("triangular", False),
    ],
)
def test_the_symmetry_of_the_ground_state_is_proven_without_frustration(
    name: str, proven: bool
) -> None:
    operator = OPERATORS[name]
    assert is_proven(operator, sharing(operator)) is proven


def test_what_has_no_symmetry_is_refused() -> None:
    with pytest.raises(ValueError, match="leave sharing out"):
        sharing(heisenberg(kagome(3, 4)))


def test_stripes_keep_what_does_not_turn_them() -> None:
    """Row stripes of J2 = J1: a quarter turn makes columns of them."""
    assert len(sharing(OPERATORS["square"])) == 8
    assert len(sharing(OPERATORS["stripes"])) == 4


def test_couplings_that_break_a_symmetry_leave_the_others() -> None:
    lattice = square(4, 4)
    pairs = [((i, j), 1.0 if j - i == 1 else 0.5) for i, j in lattice.bonds["nearest"]]
    terms = heisenberg(lattice).terms
    scaled = [(term.sites, term.matrix * dict(pairs)[term.sites]) for term in terms]
    operator = Operator.from_terms(lattice, scaled)
    assert len(sharing(operator)) == 4
    lopsided = [*scaled[:-1], (scaled[-1][0], 3 * scaled[-1][1])]
    with pytest.raises(ValueError, match="leave sharing out"):
        sharing(Operator.from_terms(lattice, lopsided))


@pytest.mark.parametrize("kind", [None, "product", "random"])
@pytest.mark.parametrize("name", ["square", "atoms", "frustrated"])
def test_starts(name: str, kind: str | None) -> None:
    operator = OPERATORS[name]
    peps = shared(name)
    theta = initial_parameters(peps, operator, 3, kind)
    assert theta.shape == (peps.n_params,) and np.isfinite(theta).all()
    with pytest.raises(ValueError, match="simple_update"):
        initial_parameters(peps, operator, 3, "simple_update")


@pytest.mark.whole
def test_few_steps_come_near_the_ground_state() -> None:
    """3x4 Heisenberg, D = 2, from a product state: simple update begins 2e-2 above the exact energy."""
    operator = heisenberg(square(3, 4))
    peps = PEPS(operator.lattice, 2, scheme=Exact(), sharing=sharing(operator))
    vmc = VMC(operator, peps, Enumerate(threads=1), seed=1)
    vmc.run(25)
    exact = exact_ground_state(operator).energy
    above = (vmc.measure().energy - exact) / abs(exact)
    assert 0 < above < 1e-2


def test_growth_keeps_the_state_and_shares_its_noise() -> None:
    small, large = shared("square", 2), shared("square", 3)
    theta = random_theta(small, seed=6)
    same = grown(small.tensors(theta), large, OPERATORS["square"], noise=0.0)
    configs = half_filled(small)
    before, after = small.log_amplitude(theta, configs), large.log_amplitude(same, configs)
    np.testing.assert_allclose(after.log_abs, before.log_abs, atol=ROUNDING)
    noisy = grown(small.tensors(theta), large, OPERATORS["square"], noise=0.01)
    assert noisy.shape == (large.n_params,) and (noisy != 0).all()


def test_files_keep_what_is_shared(tmp_path) -> None:
    peps = shared("square")
    theta = random_theta(peps, seed=7)
    peps.save(tmp_path / "state.h5", theta)
    found, read = load_state(tmp_path / "state.h5")
    assert found.sharing == peps.sharing
    np.testing.assert_array_equal(read, theta)
    again, _ = load_state(tmp_path / "state.h5")
    assert again.sharing == peps.sharing
    assert Sharing.of(peps.sharing.told()) == peps.sharing


def test_a_file_starts_a_plain_state_and_a_larger_one_but_not_the_reverse(tmp_path) -> None:
    operator, peps = OPERATORS["square"], shared("square")
    theta = random_theta(peps, seed=8)
    peps.save(tmp_path / "shared.h5", theta)
    configs = half_filled(peps)
    wide = initial_parameters(free(peps), operator, kind=str(tmp_path / "shared.h5"))
    before, after = peps.log_amplitude(theta, configs), free(peps).log_amplitude(wide, configs)
    np.testing.assert_allclose(after.log_abs, before.log_abs, atol=ROUNDING)
    large = initial_parameters(shared("square", 3), operator, kind=str(tmp_path / "shared.h5"))
    assert large.shape == (shared("square", 3).n_params,)
    free(peps).save(tmp_path / "plain.h5", random_theta(free(peps), seed=9))
    with pytest.raises(StateFileError, match="shares"):
        initial_parameters(peps, operator, kind=str(tmp_path / "plain.h5"))


def test_characters_of_the_state_are_those_that_are_summed_over() -> None:
    """A sum over the group of a state that has its symmetry already is a multiple of it."""
    from tnvmc import Symmetrised

    operator, peps = OPERATORS["square"], shared("square")
    theta = random_theta(peps, seed=10)
    state = Symmetrised(peps, symmetry_group(operator, "point"))
    configs = half_filled(peps)
    difference = (
        state.log_amplitude(theta, configs).log_abs - peps.log_amplitude(theta, configs).log_abs
    )
    np.testing.assert_allclose(difference, difference[0], atol=ROUNDING)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"names": ()}, "known are"),
        ({"names": "spin"}, "known are"),
        ({"names": "colour"}, "known are"),
    ],
)
def test_unknown_names(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        sharing(OPERATORS["square"], **wrong)


def test_sharing_of_another_lattice_or_type_is_refused() -> None:
    with pytest.raises(ValueError, match="16 sites"):
        PEPS(square(4, 6), 2, sharing=sharing(OPERATORS["square"]))
    with pytest.raises(TypeError, match="sharing"):
        PEPS(square(4, 4), 2, sharing="point")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["square", "rectangle", "frustrated", "field", "atoms"])
def test_enumeration_by_orbits_is_that_of_all_configurations(name: str) -> None:
    operator = OPERATORS[name]
    state = shared(name, scheme=SRC(chi=4))
    theta = initial_parameters(state, operator, seed=1)
    found = []
    for by_orbit in (True, False):
        snapshot = enumerated(state, theta, operator, by_orbit=by_orbit)
        rows = to_host(snapshot.jacobian.dense())
        found.append((len(rows), snapshot.weight @ np.abs(rows) ** 2))
    assert found[0][0] < 0.75 * found[1][0]
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=ROUNDING, atol=ROUNDING)


def test_orbits_are_not_used_where_psi_is_truncated_or_the_operator_has_no_symmetry() -> None:
    configs, operator = all_configs(16), OPERATORS["square"]
    state = shared("square", scheme=SRC(chi=4))
    one_site = Operator.from_products(operator.lattice, [("Sz", 0, 1.0)])
    members, which = state.orbit_classes(configs, operator)
    assert len(members) == which.max() + 1 < len(configs)
    assert state.orbit_classes(configs, one_site) is None
    assert shared("square", scheme=SRC(chi=3)).orbit_classes(configs, operator) is None
    own = SimpleNamespace(absorb=SRC(chi=1).absorb)  # no chi that could tell what it truncates
    assert shared("square", scheme=own).orbit_classes(configs, operator) is None
    assert PEPS(operator.lattice, 2, sharing=None).orbit_classes(configs, operator) is None


def test_symmetries_that_exchange_signs_are_those_of_a_sector() -> None:
    lattice = square(2, 3)
    psi = PEPS(lattice, 2, sharing=sharing(heisenberg(lattice)))
    terms = [("Sx Sx + Sy Sy + Sz Sz", "nearest", 1.0), ("Sx", "all", 0.7)]
    with pytest.raises(ValueError, match="sublattices"):
        VMC(Operator.from_products(lattice, terms), psi)


def test_symmetries_of_other_bonds_or_another_grid_are_refused() -> None:
    """Compiled kernels read past tensors of other shapes: energies changed from call to call."""
    model = heisenberg(square(2, 4))
    with pytest.raises(ValueError, match="sharing"):
        PEPS(model.lattice, 2, bonds="snake", sharing=sharing(model))
    with pytest.raises(ValueError, match="sharing"):
        PEPS(square(4, 4, "periodic"), 2, sharing=sharing(heisenberg(square(2, 8))))
