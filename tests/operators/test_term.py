"""Terms and operators against dense matrices built by kron."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles import all_configs, config_index, dense_hamiltonian, embed
from tnvmc.lattice import chain, from_bonds, square
from tnvmc.operators import Operator, Term, exchange_matrix, heisenberg, kron, spin_matrices, tfim
from tnvmc.operators.spin import NUMBER, SIGMA_X, SIGMA_Y, SIGMA_Z

ROUNDING = 1e-12  # a few hundred additions of numbers of order one


def random_hermitian(rng: np.random.Generator, size: int, kind: str) -> np.ndarray:
    matrix = rng.normal(size=(size, size))
    if kind == "complex":
        matrix = matrix + 1j * rng.normal(size=(size, size))
    if kind == "sparse":
        matrix = matrix * (rng.random((size, size)) < 0.3)
    return matrix + matrix.conj().T


@st.composite
def operators(draw) -> Operator:
    """Random sums of terms on 1 to 4 sites in any order, often several on the same sites."""
    local_dim = draw(st.sampled_from([2, 2, 3]))
    n_sites = draw(st.integers(1, 6 if local_dim == 2 else 4))
    kind = draw(st.sampled_from(["real", "complex", "sparse"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    terms = []
    for _ in range(draw(st.integers(0, 6))):
        k = draw(st.integers(1, min(4, n_sites)))
        sites = tuple(draw(st.permutations(range(n_sites)))[:k])
        terms.append((sites, random_hermitian(rng, local_dim**k, kind)))
    return Operator.from_terms(chain(n_sites), terms, local_dim=local_dim)


def matrix_from_tables(operator: Operator) -> np.ndarray:
    """<s|H|s'> from `diagonal` and `replacements`, configuration by configuration."""
    d = operator.local_dim
    configs = all_configs(operator.n_sites, d)
    matrix = np.diag(operator.diagonal(configs)).astype(complex)
    for row, config in enumerate(configs):
        for patch, replacement in operator.replacements.items():
            state = config_index(config[list(patch)], d)
            for target, element in zip(
                replacement.targets[state], replacement.elements[state], strict=True
            ):
                if target < 0:
                    assert element == 0
                    continue
                changed = config.copy()
                changed[list(patch)] = all_configs(len(patch), d)[target]
                matrix[row, config_index(changed, d)] += element
    return matrix


@settings(deadline=None, max_examples=60)
@given(operators())
def test_tables_and_sparse_matrix_equal_the_dense_sum_of_terms(operator: Operator) -> None:
    dense = dense_hamiltonian(operator)
    assert np.allclose(matrix_from_tables(operator), dense, atol=ROUNDING)
    assert np.allclose(operator.sparse().toarray(), dense, atol=ROUNDING)
    trace = np.trace(dense).real / len(dense)
    assert np.isclose(operator.infinite_temperature_energy, trace, atol=ROUNDING)
    for patch, replacement in operator.replacements.items():
        assert list(patch) == sorted(patch)
        assert replacement.targets.dtype == np.int64
        assert np.any(replacement.elements != 0)
        assert operator.targets[patch] is replacement.targets


@settings(deadline=None, max_examples=30)
@given(operators())
def test_diagonal_is_the_same_in_every_namespace(operator: Operator) -> None:
    configs = all_configs(operator.n_sites, operator.local_dim)
    there = operator.diagonal(strict.asarray(configs))
    assert there.dtype == strict.float64
    here = operator.diagonal(configs)
    assert here.dtype == np.float64
    assert here.shape == (len(configs),)
    assert np.allclose(np.asarray(there), here, atol=ROUNDING)
    assert np.allclose(here, np.diag(dense_hamiltonian(operator)).real, atol=ROUNDING)


def test_unsorted_sites_are_permuted_with_their_matrix() -> None:
    rng = np.random.default_rng(1)
    matrix = random_hermitian(rng, 8, "complex")
    term = Term((2, 0, 1), matrix).sorted()
    assert term.sites == (0, 1, 2)
    assert np.allclose(embed(term.matrix, term.sites, 3), embed(matrix, (2, 0, 1), 3))
    zx = Term((3, 1), kron(SIGMA_Z, SIGMA_X)).sorted()
    assert np.array_equal(zx.matrix, kron(SIGMA_X, SIGMA_Z))


def test_elements_are_rows_of_the_matrix() -> None:
    """elements[a, r] = <a|h|targets[a, r]>, which matters where h is complex."""
    operator = Operator.from_terms(chain(1), [((0,), SIGMA_Y)])
    table = operator.replacements[(0,)]
    assert table.targets.tolist() == [[1], [0]]
    assert table.elements.tolist() == [[-1j], [1j]]


def test_terms_on_one_patch_are_merged_and_what_cancels_is_dropped() -> None:
    swap = exchange_matrix()
    lattice = chain(3)
    merged = Operator.from_terms(lattice, [((0, 1), swap), ((1, 0), 2 * swap), ((1, 2), swap)])
    assert list(merged.replacements) == [(0, 1), (1, 2)]
    assert merged.replacements[(0, 1)].elements.max() == 1.5
    nothing = Operator.from_terms(
        lattice, [((0, 1), 0.1 * swap), ((0, 1), 0.2 * swap), ((0, 1), -0.3 * swap)]
    )
    assert nothing.replacements == {}
    around = Operator.from_terms(lattice, [((0,), SIGMA_Y), ((0,), SIGMA_X - SIGMA_Y)])
    assert not around.is_complex
    assert around.replacements[(0,)].elements.dtype == np.float64


def test_an_exchange_is_one_replacement_per_antiparallel_pair() -> None:
    for replacement in heisenberg(square(3, 3)).replacements.values():
        assert replacement.targets.tolist() == [[-1], [2], [1], [-1]]
        assert replacement.elements.tolist() == [[0.0], [0.5], [0.5], [0.0]]


@pytest.mark.parametrize(
    ("matrix", "local_dim", "conserved"),
    [
        (kron(SIGMA_Z, SIGMA_Z), 2, True),
        (exchange_matrix(), 2, True),
        (kron(SIGMA_X, SIGMA_X), 2, False),
        (kron(SIGMA_X, SIGMA_Y) - kron(SIGMA_Y, SIGMA_X), 2, True),
        (exchange_matrix(3), 3, True),
        (exchange_matrix(3) @ exchange_matrix(3), 3, True),
        (kron(spin_matrices(3)[0], np.eye(3)), 3, False),
    ],
)
def test_conservation_of_the_magnetisation(
    matrix: np.ndarray, local_dim: int, conserved: bool
) -> None:
    operator = Operator.from_terms(chain(2), [((0, 1), matrix)], local_dim=local_dim)
    assert operator.conserves_magnetisation is conserved
    sz = spin_matrices(local_dim)[2]
    total = embed(sz, (0,), 2, local_dim) + embed(sz, (1,), 2, local_dim)
    dense = dense_hamiltonian(operator)
    assert np.allclose(total @ dense, dense @ total) is conserved


def test_algebra_is_the_algebra_of_matrices() -> None:
    lattice = chain(3)
    a, b = heisenberg(lattice), tfim(lattice, h=0.3)
    dense = {name: dense_hamiltonian(o) for name, o in (("a", a), ("b", b))}
    assert np.allclose(dense_hamiltonian(a + b), dense["a"] + dense["b"])
    assert np.allclose(dense_hamiltonian(a - 2 * b), dense["a"] - 2 * dense["b"])
    assert np.allclose(dense_hamiltonian(sum([a, b, b])), dense["a"] + 2 * dense["b"])
    assert np.allclose(dense_hamiltonian(np.float64(0.5) * -a), -0.5 * dense["a"])
    assert np.allclose(dense_hamiltonian(a * 0), 0)
    assert (a + a).units == "S.S"
    assert (a + b).units == "custom"
    assert (2 * a).couplings is None
    with pytest.raises(ValueError, match="same lattice"):
        a + heisenberg(chain(3, "periodic"))
    with pytest.raises(TypeError):
        a * "twice"  # type: ignore[operator]
    with pytest.raises(TypeError):
        a + "1"


@pytest.mark.parametrize("local_dim", [2, 3, 4])
def test_spin_matrices_obey_the_commutation_relations(local_dim: int) -> None:
    x, y, z = spin_matrices(local_dim)
    spin = (local_dim - 1) / 2
    assert np.allclose(x @ y - y @ x, 1j * z)
    assert np.allclose(x @ x + y @ y + z @ z, spin * (spin + 1) * np.eye(local_dim))
    assert z[0, 0] == spin  # state 0 is up


def test_pauli_matrices_are_twice_the_spin_and_cannot_be_changed() -> None:
    for sigma, s in zip((SIGMA_X, SIGMA_Y, SIGMA_Z), spin_matrices(), strict=True):
        assert np.allclose(sigma, 2 * s)
    assert np.array_equal(NUMBER, (np.eye(2) - SIGMA_Z) / 2)
    with pytest.raises(ValueError, match="read-only"):
        SIGMA_X[0, 0] = 1
    with pytest.raises(ValueError, match="local dimension"):
        spin_matrices(1)


def test_tables_do_not_change_when_the_callers_matrix_does() -> None:
    matrix = np.array([[1.0, 0.0], [0.0, -1.0]])
    operator = Operator.from_terms(chain(1), [((0,), matrix)])
    matrix[0, 0] = 7
    assert operator.diagonal(np.array([[0]])) == [1.0]


SKEW = np.array([[0.0, 1.0], [2.0, 0.0]])


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Term((0,), SKEW), "h[0, 1] = 1 but h[1, 0] = 2"),
        (lambda: Term((0,), 1j * SIGMA_Z), "not Hermitian"),
        (lambda: Term((0, 0), np.eye(4)), "different sites"),
        (lambda: Term((), np.eye(1)), "one site, or"),
        (lambda: Term(tuple(range(11)), np.eye(2048)), "at most 1024 wide, which is 10"),
        (lambda: Term((0, 1), np.eye(6)), "6 wide does not fit 2"),
        (lambda: Term((0,), np.eye(1)), "does not fit"),
        (lambda: Term((0,), np.zeros((0, 0))), "does not fit"),
        (lambda: Term((0,), np.ones((2, 3))), "not square"),
        (lambda: Term((0,), np.ones(4)), "not square"),
        (lambda: Term((0,), np.full((2, 2), np.nan)), "finite numbers"),
        (lambda: Term((0,), np.array([["a", "b"], ["c", "d"]])), "finite numbers"),
        (lambda: Term((-1,), SIGMA_X), "whole number from 0"),
        (lambda: Term((0.5,), SIGMA_X), "whole number from 0"),  # type: ignore[arg-type]
        (lambda: Operator.from_terms(chain(2), [((2,), SIGMA_X)]), "sites 0..1 only"),
        (lambda: Operator.from_terms(chain(2), [((0,), np.eye(3))]), "Pass local_dim=3"),
        (lambda: heisenberg(chain(3)).diagonal(np.zeros((2, 4))), "expected (B, 3)"),
        (lambda: heisenberg(chain(3)).diagonal(np.zeros(3)), "expected (B, 3)"),
    ],
)
def test_bad_input_is_told_what_is_wrong(build, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        build()
    assert said in str(caught.value)


def test_almost_hermitian_is_accepted_to_rounding_only() -> None:
    matrix = 1e6 * exchange_matrix()
    matrix[1, 2] += 1e-7
    Term((0, 1), matrix)
    matrix[1, 2] += 1e-5
    with pytest.raises(ValueError, match="not Hermitian"):
        Term((0, 1), matrix)


def test_empty_operators_are_zero() -> None:
    operator = Operator(from_bonds(3, []), ())
    assert operator.diagonal(np.zeros((2, 3), dtype=np.int8)).tolist() == [0, 0]
    assert operator.replacements == {}
    assert operator.conserves_magnetisation
    assert not operator.is_complex
    assert operator.infinite_temperature_energy == 0


def test_matrices_of_an_operator_cannot_be_written() -> None:
    operator = heisenberg(chain(3))
    for found in (operator, operator @ operator):
        with pytest.raises(ValueError, match="read-only"):
            next(iter(found.matrices.values()))[:] = 0
