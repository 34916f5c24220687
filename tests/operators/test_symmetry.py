"""Symmetries of Hamiltonians against dense matrices, and Marshall's signs."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

from tests import oracles
from tests.oracles import all_configs, config_index, dense_hamiltonian
from tnvmc.lattice import chain, shastry_sutherland, square
from tnvmc.lattice.permutations import NotSymmetric, Symmetry, SymmetryGroup
from tnvmc.operators.models import heisenberg, j1j2, rydberg, tfim, xxz
from tnvmc.operators.models import shastry_sutherland as shastry_sutherland_model
from tnvmc.operators.spin import spin_matrices
from tnvmc.operators.symmetry import (
    check_characters,
    has_ground_state,
    marshall_character,
    symmetry_group,
    which_commute,
)
from tnvmc.operators.term import Operator

COMMUTATOR = 1e-9


def dense_symmetry(g: Symmetry, local_dim: int = 2) -> np.ndarray:
    """U with (U psi)(s) = psi(g s)."""
    configs = all_configs(len(g.sites), local_dim)
    matrix = np.zeros((len(configs), len(configs)))
    for row, config in enumerate(configs):
        image = [config[site] for site in g.sites]
        if g.inverts:
            image = [local_dim - 1 - state for state in image]
        matrix[row, config_index(image, local_dim)] = 1
    return matrix


def _staggered(size: float) -> Operator:
    lattice = square(2, 3)
    z = spin_matrices(2)[2]
    field = [((i,), size * (-1) ** sum(divmod(i, 3)) * z) for i in range(6)]
    return heisenberg(lattice) + Operator.from_terms(lattice, field)


def _recut() -> Operator:
    """A uniform field along x hung on bonds unevenly, and a bond on three sites: same operator."""
    lattice = chain(4)
    x, one = spin_matrices(2)[0], np.eye(2)
    terms: list[Any] = [
        ((0, 1), np.kron(x, one) + np.kron(one, x)),
        ((2,), x),
        ((2, 3), np.kron(one, x)),
    ]
    terms += [((0, 1, 2), np.kron(np.kron(x, x), one)), ((2, 3), np.kron(x, x))]
    return Operator.from_terms(lattice, terms)


OPERATORS: dict[str, Any] = {
    "heisenberg": lambda: heisenberg(square(2, 3)),
    "square": lambda: j1j2(square(2, 2), J2=0.3),
    "torus": lambda: heisenberg(square(3, 3, "periodic")),
    "tfim": lambda: tfim(chain(5), h=0.7),
    "rydberg": lambda: rydberg(square(3, 3), V=7.0, delta=1.0, Omega=1.0),
    "staggered field": lambda: _staggered(0.1),
    "weak staggered field": lambda: _staggered(1e-6),
    "random couplings": lambda: heisenberg(chain(4), J=[1.0, 1.1, 1.2]),
    "recut": _recut,
    "dimers": lambda: shastry_sutherland_model(shastry_sutherland(3, 3), J=0.5, J_dimer=1.0),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", OPERATORS)
def test_commutes_as_the_dense_matrices_do(name: str) -> None:
    operator = OPERATORS[name]()
    hamiltonian = dense_hamiltonian(operator)
    for g in symmetry_group(heisenberg(operator.lattice), ["spin", "point"]).elements:
        u = dense_symmetry(g)
        expected = np.abs(u @ hamiltonian - hamiltonian @ u).max() < COMMUTATOR
        assert which_commute(operator, [g]) == [expected], g.name


def test_spin_one() -> None:
    x, _, z = spin_matrices(3)
    lattice = chain(3)
    bond = np.kron(z, z) + np.kron(x, x)
    even = Operator.from_terms(lattice, [((0, 1), bond), ((1, 2), bond)], local_dim=3)
    odd = even + Operator.from_terms(lattice, [((1,), z)], local_dim=3)
    flip = symmetry_group(even, ["spin"]).elements[1]
    assert flip.inverts and which_commute(even, [flip]) == [True]
    assert which_commute(odd, [flip]) == [False]
    for g in symmetry_group(even, ["spin", "point"]).elements:
        u, h = dense_symmetry(g, 3), dense_hamiltonian(even)
        assert np.abs(u @ h - h @ u).max() < COMMUTATOR


def test_products_are_products_of_matrices() -> None:
    group = symmetry_group(heisenberg(square(2, 2)), ["spin", "point"])
    by_key = {g.key: g for g in group.elements}
    for g in group.elements:
        for h in group.elements:
            product = dense_symmetry(by_key[g.after(h)])
            # psi(g h s) = (U_h U_g psi)(s)
            assert np.array_equal(dense_symmetry(h) @ dense_symmetry(g), product)


@pytest.mark.parametrize("name", ["staggered field", "random couplings", "rydberg"])
def test_what_a_hamiltonian_breaks_is_refused(name: str) -> None:
    names = ["spin"] if name == "rydberg" else ["spin", "point"]
    with pytest.raises(NotSymmetric, match="changes under"):
        symmetry_group(OPERATORS[name](), names)


def test_unknown_names() -> None:
    operator = heisenberg(chain(4))
    for names in (["rotation"], []):
        with pytest.raises(ValueError, match="known are spin, point, translation"):
            symmetry_group(operator, names)
    with pytest.raises(ValueError, match="must be -1 or"):
        symmetry_group(operator, ["spin"], {"spin inversion": 2})
    with pytest.raises(ValueError, match="spin inversion"):
        symmetry_group(operator, ["spin"], {"spin inverson": -1})
    assert symmetry_group(operator, "spin") == symmetry_group(operator, ["spin"])


def test_characters_spread_over_products() -> None:
    operator = heisenberg(square(3, 3))
    given = {"left quarter turn": -1, "spin inversion": -1}
    group = symmetry_group(operator, ["spin", "point"], given)
    chi = {g.name: g.character for g in group.elements}
    assert len(group) == 16 and sum(chi.values()) == 0
    assert chi["half turn"] == 1 and chi["right quarter turn"] == -1
    assert chi["half turn with spin inversion"] == -1
    assert chi["left quarter turn with spin inversion"] == 1


def one_dimensional(group: SymmetryGroup) -> list[tuple[int, ...]]:
    """All real representations of one dimension: those of products of every choice of signs that is one."""
    places = {g.key: place for place, g in enumerate(group.elements)}
    table = np.array([[places[g.after(h)] for h in group.elements] for g in group.elements])
    signs = np.array(list(itertools.product([1, -1], repeat=len(group))))
    kept = [chi for chi in signs if (chi[:, None] * chi[None, :] == chi[table]).all()]
    return [tuple(map(int, chi)) for chi in kept]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("operator", "names"),
    [
        (heisenberg(square(3, 3)), ["point"]),
        (heisenberg(square(2, 3)), ["spin", "point"]),
        (heisenberg(chain(6, "periodic")), ["translation"]),
        (heisenberg(chain(4, "periodic")), ["translation", "point"]),
    ],
    ids=str,
)
def test_characters_are_found_wherever_there_are_any(operator: Operator, names: list[str]) -> None:
    """Any one or two signs: those of a representation where one has them, else refused."""
    group = symmetry_group(operator, names)
    every = one_dimensional(group)
    elements = range(1, len(group))
    for places in [*itertools.combinations(elements, 1), *itertools.combinations(elements, 2)]:
        for given in itertools.product([1, -1], repeat=len(places)):
            fitting = [chi for chi in every if all(chi[p] == s for p, s in zip(places, given))]
            named = {group.names[place]: sign for place, sign in zip(places, given, strict=True)}
            if fitting:
                found = symmetry_group(operator, names, named)
                assert tuple(g.character for g in found.elements) in fitting
            else:
                with pytest.raises(NotSymmetric):
                    symmetry_group(operator, names, named)


def test_what_is_free_is_even() -> None:
    """Of the two representations with one odd reflection that in which the diagonal is even."""
    group = symmetry_group(heisenberg(square(3, 3)), ["point"], {"left-right reflection": -1})
    chi = {g.name: g.character for g in group.elements}
    assert chi["up-down reflection"] == -1 and chi["half turn"] == 1
    assert chi["diagonal reflection"] == 1 and chi["left quarter turn"] == -1


def test_characters_that_contradict_each_other() -> None:
    operator = heisenberg(square(3, 3))
    for given in (
        {"left quarter turn": 1, "right quarter turn": -1},
        {"left-right reflection": -1, "up-down reflection": 1},
        {"identity": -1},
    ):
        with pytest.raises(NotSymmetric, match="contradict"):
            symmetry_group(operator, ["point"], given)
    assert len(symmetry_group(heisenberg(chain(1), 0.0), ["point"])) == 1


def test_what_is_no_group() -> None:
    identity, shift = Symmetry("identity", (0, 1, 2)), Symmetry("shift", (1, 2, 0))
    for elements in ((identity, shift), (shift,), (identity, identity), ()):
        with pytest.raises(ValueError, match="SymmetryGroup"):
            SymmetryGroup(elements)


@pytest.mark.parametrize(
    ("operator", "order"),
    [
        (heisenberg(chain(6, "periodic")), 24),
        (j1j2(square(3, 3, "periodic"), J2=0.3), 144),
        (tfim(square(2, 3, "cylinder"), h=0.7), 12),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_translations_commute_with_the_dense_matrices(operator: Operator, order: int) -> None:
    names = ["translation", "point"] + ["spin"] * (operator.name != "tfim")
    group = symmetry_group(operator, names)
    assert len(group) == order
    hamiltonian = dense_hamiltonian(operator)
    for g in group.elements[:: max(1, order // 12)]:
        u = dense_symmetry(g)
        assert np.abs(u @ hamiltonian - hamiltonian @ u).max() < COMMUTATOR, g.name


def test_products_of_translations_are_products_of_matrices() -> None:
    group = symmetry_group(heisenberg(chain(4, "periodic")), ["translation", "point"])
    by_key = {g.key: g for g in group.elements}
    for g, h in itertools.product(group.elements, repeat=2):
        product = dense_symmetry(by_key[g.after(h)])
        assert np.array_equal(dense_symmetry(h) @ dense_symmetry(g), product)


def test_translations_that_couplings_break() -> None:
    lattice = chain(4, "periodic")
    with pytest.raises(NotSymmetric, match=r"changes under translation by \(0, 1\)"):
        symmetry_group(heisenberg(lattice, J=[1.0, 1.0, 1.0, 1.1]), ["translation"])
    assert len(symmetry_group(heisenberg(chain(4)), ["translation"])) == 1


def test_characters_of_translations() -> None:
    """Momentum pi: the sign alternates along the ring."""
    group = symmetry_group(
        heisenberg(chain(4, "periodic")), ["translation"], {"translation by (0, 1)": -1}
    )
    assert [g.character for g in group.elements] == [1, -1, 1, -1]
    with pytest.raises(NotSymmetric, match="contradict"):  # an odd ring has no such momentum
        symmetry_group(
            heisenberg(chain(3, "periodic")), ["translation"], {"translation by (0, 1)": -1}
        )


ROUNDING = 1e-10
"""Of eigenvectors of matrices of some tens of rows, with gaps of order 1."""


def ground_state(operator: Operator, magnetisation: int) -> tuple[np.ndarray, np.ndarray]:
    """Configurations (B, N) of a sector and the amplitudes (B,) of its lowest state."""
    configs = np.array(oracles.all_configs(operator.n_sites, magnetisation=magnetisation))
    index = [oracles.config_index(config) for config in configs]
    values, vectors = np.linalg.eigh(oracles.dense_hamiltonian(operator)[np.ix_(index, index)])
    assert values[1] - values[0] > 1e-3
    return configs, vectors[:, 0]


def image(element: Symmetry, configs: np.ndarray) -> np.ndarray:
    moved = configs[:, list(element.sites)]
    return 1 - moved if element.inverts else moved


def character(element: Symmetry, configs: np.ndarray, psi: np.ndarray) -> float:
    """<psi|g|psi>."""
    place = {tuple(config): k for k, config in enumerate(configs)}
    return float(psi @ psi[[place[tuple(config)] for config in image(element, configs)]])


@pytest.mark.parametrize(
    ("operator", "magnetisation", "names"),
    [
        (heisenberg(square(2, 3)), 0, ("point", "spin")),
        (heisenberg(square(2, 3)), 2, ("point",)),
        (j1j2(square(2, 3), J2=0.2), 0, ("point", "spin")),
        (heisenberg(chain(6, "periodic")), 0, ("point", "translation", "spin")),
        (heisenberg(chain(5)), 1, ("point",)),
        (xxz(chain(8, "periodic"), J=1.0, Jz=0.3), 2, ("translation",)),
    ],
)  # fmt: skip
def test_characters_of_ground_states(
    operator: Operator, magnetisation: int, names: tuple[str, ...]
) -> None:
    configs, psi = ground_state(operator, magnetisation)
    group = symmetry_group(operator, names)
    found = [character(g, configs, psi) for g in group.elements]
    told = [marshall_character(operator, g, magnetisation) for g in group.elements]
    assert np.allclose(found, np.array(told, dtype=float), atol=ROUNDING)
    if -1 in told:
        with pytest.raises(ValueError, match=re.escape(group.names[told.index(-1)])):
            check_characters(operator, group, magnetisation)
    else:
        check_characters(operator, group, magnetisation)


def test_no_rule_where_there_is_none() -> None:
    """Ferromagnets, lattices off the checkerboard, elements that mix its sublattices."""
    ring = chain(6, "periodic")
    for operator, magnetisation in (
        (heisenberg(ring, J=-1.0), 0), (xxz(ring, J=-1.0, Jz=1.0), 0),
        (heisenberg(chain(5, "periodic")), 1),
    ):  # fmt: skip
        check_characters(operator, symmetry_group(operator, ["translation"]), magnetisation)
    both = heisenberg(square(4, 4))  # characters are all +1 there
    check_characters(both, symmetry_group(both, ["point", "spin"]), 0)
    mixed = Symmetry("first two", (1, 0, 2, 3, 4, 5))
    assert marshall_character(heisenberg(ring), mixed, 0) is None
    whole = Symmetry("identity", tuple(range(6)))
    check_characters(heisenberg(ring), SymmetryGroup((whole, mixed)), 0)


@pytest.mark.parametrize(
    ("operator", "proven"),
    [
        (heisenberg(square(2, 4)), True),
        (heisenberg(square(2, 3)), False),  # six spins: odd under inversion
        (j1j2(square(2, 4), J2=-0.3), True),  # ferromagnetic on a sublattice
        (j1j2(square(2, 4), J2=0.3), None),  # both signs: Marshall's rule may fail
        (j1j2(chain(8, "periodic"), J2=1.2), None),
        (heisenberg(square(3, 6, "periodic")), None),  # odd rings
        (tfim(chain(6), h=1.0), True),
        (xxz(square(2, 4), J=1.0, Jz=-0.5), True),
    ],
)
def test_only_what_signs_prove_is_called_the_ground_states(
    operator: Operator, proven: bool | None
) -> None:
    group = symmetry_group(operator, ["spin"], {"spin inversion": 1})
    assert has_ground_state(operator, group, 0) is proven
    if proven is not None and operator.conserves_magnetisation:
        configs, psi = ground_state(operator, 0)
        found = [character(g, configs, psi) for g in group.elements]
        assert np.allclose(found, 1, atol=ROUNDING) is proven
