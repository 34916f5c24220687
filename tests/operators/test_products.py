"""Operators from texts, against dense Kronecker products over the whole lattice."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracles
from tests.magnets import dzyaloshinskii_moriya, xyz
from tnvmc.backend.arguments import ArgumentWarning
from tnvmc.lattice import Lattice, chain, from_bonds, kagome, square, triangular
from tnvmc.operators.models import heisenberg, j1j2, rydberg, tfim, xxz
from tnvmc.operators.products import product_matrix
from tnvmc.operators.properties import fingerprint, rotation_invariant
from tnvmc.operators.spin import named_matrices
from tnvmc.operators.term import NonHermitian, Operator

ROUNDING = 1e-13
L = square(2, 2)
PATCH = from_bonds(4, [(0, 1), (1, 2), (2, 3)])


def dense(n_sites: int, local_dim: int, factors: dict[int, str]) -> np.ndarray:
    """One product over the whole lattice, first site most significant."""
    known = named_matrices(local_dim)
    return reduce(np.kron, [known[factors.get(site, "I")] for site in range(n_sites)])


def same(operator: Operator, expected: np.ndarray) -> None:
    assert np.abs(oracles.dense_hamiltonian(operator) - expected).max() < ROUNDING


NAMES = st.sampled_from(["Sx", "Sy", "Sz", "S+", "S-", "Sp", "Sm", "I"])
NUMBERS = st.sampled_from([1.0, -2.0, 0.25, 1e-3, 7.5])


@st.composite
def sums(draw: Any) -> tuple[int, tuple[int, ...], list[tuple[complex, list[str]]]]:
    local_dim, k = draw(st.sampled_from([(2, 1), (2, 2), (2, 3), (2, 4), (3, 1), (3, 2), (3, 3)]))
    sites = tuple(draw(st.permutations(range(4)))[:k])
    one = st.tuples(NUMBERS, st.booleans(), st.lists(NAMES, min_size=k, max_size=k))
    parts = draw(st.lists(one, min_size=1, max_size=3))
    return local_dim, sites, [(x * (1j if i else 1), names) for x, i, names in parts]


def written(parts: list[tuple[complex, list[str]]]) -> str:
    text = ""
    for number, names in parts:
        size = number.imag or number.real
        text += f" {'-' if size < 0 else '+'} {abs(size)!r}{'i' * bool(number.imag)} "
        text += " ".join(names)
    return text


@settings(max_examples=60, deadline=None)
@given(sums(), st.sampled_from([1.0, -0.5, 0.3 + 0.4j]))
def test_any_sum_of_products_is_the_dense_matrix(case: Any, coupling: complex) -> None:
    local_dim, sites, parts = case
    expected: Any = 0
    for number, names in parts:
        factors = dict(zip(sites, names, strict=True))
        expected = expected + coupling * number * dense(4, local_dim, factors)
    term = (written(parts), [sites], coupling)
    found = NonHermitian.from_products(L, [term], local_dim=local_dim)
    same(found.real, (expected + expected.conj().T) / 2)
    same(found.imaginary, (expected - expected.conj().T) / 2j)
    if np.array_equal(expected, expected.conj().T):
        same(Operator.from_products(L, [term], local_dim=local_dim), expected)
    elif np.abs(expected - expected.conj().T).max() > ROUNDING:
        with pytest.raises(ValueError, match="not Hermitian"):
            Operator.from_products(L, [term], local_dim=local_dim)


GRID = square(2, 3)
SPIN = "Sx Sx + Sy Sy + Sz Sz"


@pytest.mark.parametrize(
    ("products", "model"),
    [
        ([(SPIN, "nearest")], heisenberg(GRID)),
        ([("0.5 S+ S- + 0.5 S- S+", "nearest"), ("Sz Sz", "nearest")], heisenberg(GRID)),
        ([("1/2 S+S-", "nearest"), ("0.5 S-S+", "nearest"), ("Sz  Sz", "nearest")], heisenberg(GRID)),
        ([(SPIN, "nearest", 1.0), (SPIN, "next_nearest", 0.3)], j1j2(GRID, 1.0, 0.3)),
        ([("-Z Z", "nearest"), ("X", "all", -3.0)], tfim(GRID, 1.0, 3.0)),
        ([("Z Z", "nearest", -np.arange(7)), ("X", range(6), [-3.0] * 6)], tfim(GRID, np.arange(7), 3)),
        ([("Sx Sx + 0.9 Sy Sy + Sz Sz", "nearest")], xyz(GRID)),
        ([(SPIN, "nearest"), ("Sx Sy - Sy Sx", "nearest")], dzyaloshinskii_moriya(GRID)),
    ],
)  # fmt: skip
def test_models_as_products(products: Any, model: Operator) -> None:
    same(Operator.from_products(GRID, products), oracles.dense_hamiltonian(model))


def test_the_rydberg_number() -> None:
    pair = chain(2)
    found = Operator.from_products(
        pair, [("n n", [(0, 1)], 7.0), ("n", "all", -2.0), ("X", "all", -0.5)]
    )
    same(found, oracles.dense_hamiltonian(rydberg(pair, V=7.0, delta=2.0, Omega=1.0)))


def test_bonds_of_a_list_keep_their_direction() -> None:
    dm = "Sx Sy - Sy Sx"
    there, back = (Operator.from_products(PATCH, [(dm, [bond], 0.7)]) for bond in ((0, 2), (2, 0)))
    expected = dense(4, 2, {0: "Sx", 2: "Sy"}) - dense(4, 2, {0: "Sy", 2: "Sx"})
    same(there, 0.7 * expected)
    same(back, -0.7 * expected)


@pytest.mark.parametrize(
    ("lattice", "kinds", "shifts"),
    [
        (chain(5, "periodic"), ["nearest", "diagonal"], [(0, 1)]),
        (square(3, 4, "periodic"), ["nearest", "diagonal"], [(0, 1), (1, 0)]),
        (square(3, 3, "cylinder"), ["nearest", "diagonal"], [(0, 1)]),
        # one step of half a ring leads there the shorter way over the boundary
        (triangular(2, 6, "periodic"), ["next_nearest"], [(0, 1), (1, 0)]),
        (triangular(4, 4, "periodic"), ["nearest", "next_nearest"], [(0, 1), (1, 0)]),
        (kagome(4, 4, "periodic"), ["nearest", "next_nearest"], [(0, 2), (2, 0)]),
    ],
)
def test_a_product_with_a_direction_is_translation_invariant(
    lattice: Lattice, kinds: list[str], shifts: list[tuple[int, int]]
) -> None:
    places = np.stack(np.divmod(lattice.places, lattice.n_cols), axis=1)
    site = {place: number for number, place in enumerate(lattice.places)}
    for kind, shift in itertools.product(kinds, shifts):
        operator = Operator.from_products(lattice, [("Sx Sy - Sy Sx", kind, 1.0)])
        signs = {term.sites: np.sign(term.matrix[1, 2].imag) for term in operator.terms}
        rows, cols = ((places + shift) % lattice.shape).T
        shifted = [site[place] for place in (rows * lattice.n_cols + cols).tolist()]
        for (a, b), sign in signs.items():
            i, j = shifted[a], shifted[b]
            assert signs[min(i, j), max(i, j)] == (sign if i < j else -sign), (kind, shift)


def test_couplings_one_by_one_and_complex() -> None:
    bonds, phases = [(0, 1), (2, 1), (2, 3)], np.exp(1j * np.array([0.1, 0.7, -0.4]))
    hopping = [("S+ S-", bonds, phases), ("S- S+", bonds, phases.conj())]
    expected: Any = 0
    for (i, j), phase in zip(bonds, phases, strict=True):
        one = phase * dense(4, 2, {i: "S+", j: "S-"})
        expected = expected + one + one.conj().T
    operator = Operator.from_products(PATCH, hopping)
    same(operator, expected)
    assert operator.is_complex
    assert operator.conserves_magnetisation
    by_name = dict(zip(bonds, phases, strict=True))
    again = Operator.from_products(PATCH, [("S+ S-", bonds, by_name), hopping[1]])
    assert fingerprint(again) == fingerprint(operator)


def test_places_in_all_their_forms() -> None:
    for where in ([(0, 2)], (0, 2), [[0, 2]], np.array([[0, 2]]), np.array([0, 2])):
        same(Operator.from_products(L, [("Sx Sz", where)]), dense(4, 2, {0: "Sx", 2: "Sz"}))
    for where in (1, [1], [(1,)], np.array([1])):
        same(Operator.from_products(L, [("Sx", where)]), dense(4, 2, {1: "Sx"}))
    assert Operator.from_products(L, [("Sx Sx", [], 0.0)]).terms == ()


def test_sums_differences_and_multiples() -> None:
    exchange = heisenberg(L)
    field = Operator.from_products(L, [("Sz", "all", [1.0, -1.0, 0.5, 0.0])])
    h, f = oracles.dense_hamiltonian(exchange), oracles.dense_hamiltonian(field)
    same(exchange + 0.3 * field, h + 0.3 * f)
    same(exchange - field / 4, h - f / 4)
    same(np.float64(2) * -exchange + np.float32(0.5) * field, -2 * h + 0.5 * f)
    same(sum([exchange, field, field]), h + 2 * f)  # type: ignore[arg-type]
    both = exchange + 0.3 * field
    parts = [(SPIN, "nearest"), ("Sz", "all", 0.3 * np.array([1.0, -1.0, 0.5, 0.0]))]
    assert fingerprint(both) == fingerprint(Operator.from_products(L, parts))
    assert fingerprint(both) != fingerprint(exchange + 0.31 * field)
    assert rotation_invariant(exchange)
    assert not rotation_invariant(both)
    assert both.conserves_magnetisation
    assert not (both + Operator.from_products(L, [("Sx", "all")])).conserves_magnetisation
    assert both.couplings is None, "no reference energy of a part"
    for wrong in ("x", None):
        with pytest.raises(TypeError):
            exchange * wrong  # type: ignore[operator]
        with pytest.raises(TypeError):
            exchange - wrong  # type: ignore[operator]


def test_what_cancels_leaves_no_move() -> None:
    operator = Operator.from_products(L, [("S+ S-", "nearest"), ("S- S+", "nearest")])
    assert (operator - operator).targets == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Sx Sw", r"column 4: unknown operator 'Sw'; did you mean 'S.'.*there are Sx Sy"),
        ("sx", "did you mean 'Sx'"),
        ("Sx Sx + Sz", "on 1 and on 2 sites"),
        ("Sx -", "column 5: an operator is missing"),
        ("", "column 1: an operator is missing"),
        ("2", "an operator is missing"),
        ("Sx (Sy)", "column 4: cannot be read"),
        ("Sx 2 Sy", "column 4: a number stands first"),
        ("0.5.1 Sx", "column 1: cannot be read"),
        ("- - Sx", "column 3"),
        ("1/0 Sx", "divided by 0"),
        ("1e999 Sx", "infinite"),
        ("Sx Sx + 1e-14 Sz Sz", "pass for rounding"),
        (" ".join(11 * "I"), "at most 10"),
    ],
)
def test_a_text_that_cannot_be_read_is_told_with_its_column(text: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        product_matrix(text)


@pytest.mark.parametrize(
    ("product", "told"),
    [
        (("Sx Sx", "neerest"), "no bonds of kind 'neerest', only 'nearest'"),
        (("Sx Sx", "all"), "'all' sites are for a product on one site"),
        (("Sx", "nearest"), "join two sites"),
        (("Sx Sx", [(0, 4)]), r"sites 0\.\.3"),
        (("Sx Sx", [(0, -1)]), r"sites 0\.\.3"),
        (("Sx Sx", [(1, 1)]), "on 2 different sites"),
        (("Sx Sx", [(0, 1, 2)]), "on 2 different sites"),
        (("Sx Sx", [(0, 1.5)]), "no tuple of site indices"),
        (("Sx Sx", [(0, 1), (1, 0)]), "counted twice"),
        (("Sx Sy - Sy Sx", [(0, 1), (1, 0)]), "is nothing"),
        (("Sx", [2, 2]), "counted twice"),
        (("Sx", "all", [1.0, 2.0]), "for 4 sites"),
        (("Sx Sx", "nearest", {(0, 1): 1.0}), "2 of 3 bonds have none"),
        (("Sx", "all", np.nan), "infinite or undefined"),
        (("Sx", "all", "1"), "not a number"),
        (("Sx Sx",), "is no .text, where"),
        ("Sx Sx", "is no .text, where"),
    ],
)
def test_what_does_not_fit_the_lattice_is_told_with_its_term(product: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        Operator.from_products(PATCH, [("Sz", "all"), product])
    assert "term 2: " in str(caught.value)


def test_a_text_is_asked_for() -> None:
    with pytest.raises(TypeError, match="give a text"):
        product_matrix(3)  # type: ignore[arg-type]


def test_names_of_spin_half_are_told_for_spin_one() -> None:
    with pytest.raises(ValueError, match="X is for local dimension 2"):
        product_matrix("X", 3)


DM = "Sx Sy - Sy Sx"


def test_bonds_of_a_list_keep_the_directions_they_were_given() -> None:
    """By kind as by the list itself; reversed bonds give the opposite sign."""
    bonds = [(1, 0), (1, 2), (3, 2)]
    lattice = from_bonds(4, {"nearest": bonds, "far": [(3, 0)]})
    by_kind = Operator.from_products(lattice, [(DM, "nearest", 0.3), (DM, "far")])
    by_list = Operator.from_products(lattice, [(DM, bonds, 0.3), (DM, [(3, 0)])])
    assert fingerprint(by_kind) == fingerprint(by_list)
    turned = from_bonds(4, {"nearest": [(j, i) for i, j in bonds], "far": [(0, 3)]})
    opposite = Operator.from_products(turned, [(DM, "nearest", -0.3), (DM, "far", -1.0)])
    assert fingerprint(opposite) == fingerprint(by_kind)
    assert lattice == turned  # the bonds are the same


def test_directions_that_are_not_known_are_not_guessed() -> None:
    lattice = replace(PATCH, directions=None)
    with pytest.raises(ValueError, match="directions of this lattice's bonds are not known"):
        Operator.from_products(lattice, [(DM, "nearest")])


def test_powers_of_a_name() -> None:
    """A single-ion anisotropy of spin 1, and what is no power."""
    sz = named_matrices(3)["Sz"]
    np.testing.assert_array_equal(product_matrix("Sz^2", 3), sz @ sz)
    np.testing.assert_allclose(
        product_matrix("2 Sz^2 Sz - I Sz", 3), np.kron(2 * sz @ sz - np.eye(3), sz)
    )
    for text in ("Sz^0", "Sz^", "Sz ^2", "^2", "Sa^2"):
        with pytest.raises(ValueError, match="column"):
            product_matrix(text, 3)


@pytest.mark.parametrize("number", [0.5, np.array(0.5)])
@pytest.mark.parametrize(
    "build",
    [
        lambda J: j1j2(chain(3, "periodic"), J2=J),
        lambda J: j1j2(square(1, 4), J2=J),
        lambda J: heisenberg(chain(1), J),
        lambda J: xxz(chain(1), J=J, Jz=0),
        lambda J: tfim(chain(1), J),
        lambda J: Operator.from_products(square(2, 2), [("Sx Sx", "third", J)]),
        lambda J: Operator.from_products(from_bonds(4, {"far": []}), [("Sx Sx", "far", J)]),
    ],
)
def test_a_coupling_of_a_kind_without_bonds_is_told(
    build: Callable[[Any], Operator], number: Any
) -> None:
    with pytest.warns(ArgumentWarning) as told:
        build(number)
    assert len(told) == 1 and told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(0.0)
        build([])


@pytest.mark.parametrize(
    "build",
    [
        lambda: j1j2(chain(4, "periodic")),
        lambda: heisenberg(square(2, 4, "periodic")),
        lambda: Operator.from_products(square(4, 4, "periodic"), [("Sz Sz", "third")]),
        lambda: Operator.from_products(chain(4, "periodic"), [("Sx Sy - Sy Sx", "diagonal")]),
    ],
)
def test_an_operator_on_a_short_ring_says_that_each_pair_counts_once(
    build: Callable[[], Operator],
) -> None:
    with pytest.warns(ArgumentWarning, match="counts once") as told:
        build()
    assert len(told) == 1 and told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        j1j2(chain(5, "periodic"))
        heisenberg(square(4, 4, "periodic"))


def test_bosons_have_names() -> None:
    """Of at most three on a site."""
    lower, number = product_matrix("b", 4), product_matrix("n", 4)
    assert np.allclose(lower, np.diag(np.sqrt([1, 2, 3]), k=1))
    assert np.allclose(number, np.diag([0, 1, 2, 3]))
    assert np.allclose(product_matrix("b^", 4) @ lower, number)
    assert np.allclose(product_matrix("b^2", 4), lower @ lower)
    assert np.allclose(product_matrix("b^ b + b b^", 3).T, product_matrix("b^ b + b b^", 3))
    assert np.allclose(product_matrix("n^2 - n", 4), np.diag([0, 0, 2, 6]))
    assert np.allclose(product_matrix("b", 2), product_matrix("S+", 2))
