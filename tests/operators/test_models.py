"""Model Hamiltonians against matrices written out with kron, and their couplings."""

from __future__ import annotations

from itertools import combinations

import array_api_strict as strict
import numpy as np
import pytest

from tests.oracles import all_configs, dense_hamiltonian, embed
from tnvmc import lattice as lattices
from tnvmc.lattice import Lattice, chain, from_bonds, kagome, square
from tnvmc.operators import heisenberg, j1j2, models, rydberg, tfim, xxz
from tnvmc.operators.spin import NUMBER, SIGMA_X, SIGMA_Y, SIGMA_Z
from tnvmc.operators.term import Operator

ROUNDING = 1e-12
GRID = square(2, 3)
DIMERS = lattices.shastry_sutherland(2, 4)


def pauli(lattice: Lattice, sigma: np.ndarray, *sites: int) -> np.ndarray:
    """Product of the same matrix on some sites, in the full space."""
    n = lattice.n_sites
    product = np.eye(2**n, dtype=complex)
    for site in sites:
        product = product @ embed(sigma, (site,), n)
    return product


def dot(lattice: Lattice, i: int, j: int) -> np.ndarray:
    return sum(pauli(lattice, s, i, j) for s in (SIGMA_X, SIGMA_Y, SIGMA_Z)) / 4


def test_heisenberg() -> None:
    written = sum(0.7 * dot(GRID, *bond) for bond in GRID.bonds["nearest"])
    assert np.allclose(dense_hamiltonian(heisenberg(GRID, J=0.7)), written, atol=ROUNDING)


def test_xxz() -> None:
    written = sum(
        0.3 * (pauli(GRID, SIGMA_X, *b) + pauli(GRID, SIGMA_Y, *b)) / 4
        + 1.7 * pauli(GRID, SIGMA_Z, *b) / 4
        for b in GRID.bonds["nearest"]
    )
    assert np.allclose(dense_hamiltonian(xxz(GRID, J=0.3, Jz=1.7)), written, atol=ROUNDING)


def test_j1j2() -> None:
    written = sum(dot(GRID, *bond) for bond in GRID.bonds["nearest"])
    written = written + 0.4 * sum(dot(GRID, *bond) for bond in GRID.bonds["diagonal"])
    assert np.allclose(dense_hamiltonian(j1j2(GRID, J2=0.4)), written, atol=ROUNDING)


def test_tfim() -> None:
    written = -0.9 * sum(pauli(GRID, SIGMA_Z, *bond) for bond in GRID.bonds["nearest"])
    written = written - 3.0 * sum(pauli(GRID, SIGMA_X, site) for site in range(6))
    assert np.allclose(dense_hamiltonian(tfim(GRID, J=0.9, h=3.0)), written, atol=ROUNDING)


def test_rydberg() -> None:
    written = np.zeros((64, 64), dtype=complex)
    for i, j in combinations(range(6), 2):
        r = np.hypot(i // 3 - j // 3, i % 3 - j % 3)
        written += 7 / r**6 * pauli(GRID, NUMBER, i, j)
    for site in range(6):
        written -= 1.3 * pauli(GRID, NUMBER, site) + 0.5 * 0.8 * pauli(GRID, SIGMA_X, site)
    operator = rydberg(GRID, V=7, delta=1.3, Omega=0.8)
    assert np.allclose(dense_hamiltonian(operator), written, atol=ROUNDING)
    assert np.isclose(operator.infinite_temperature_energy, np.trace(written).real / 64)
    assert all(np.all(r.elements <= 0) for r in operator.replacements.values())


def test_shastry_sutherland() -> None:
    written = 0.6 * sum(dot(DIMERS, *bond) for bond in DIMERS.bonds["nearest"])
    written = written + 1.1 * sum(dot(DIMERS, *bond) for bond in DIMERS.bonds["dimer"])
    operator = models.shastry_sutherland(DIMERS, J=0.6, J_dimer=1.1)
    assert np.allclose(dense_hamiltonian(operator), written, atol=ROUNDING)


@pytest.mark.parametrize(
    ("operator", "units", "couplings", "conserves", "trace"),
    [
        (heisenberg(GRID), "S.S", {"J": 1.0}, True, 0),
        (xxz(GRID, Jz=2), "S.S", {"J": 1.0, "Jz": 2.0}, True, 0),
        (j1j2(GRID), "S.S", {"J1": 1.0, "J2": 0.5}, True, 0),
        (tfim(GRID), "Pauli", {"J": 1.0, "h": 1.0}, False, 0),
        (rydberg(chain(2)), "n", {"V": 7.0, "delta": 1.0, "Omega": 1.0}, False, 7 / 4 - 1),
        (models.shastry_sutherland(DIMERS), "S.S", {"J": 0.5, "J_dimer": 1.0}, True, 0),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_a_model_says_of_itself(operator, units, couplings, conserves, trace) -> None:
    assert operator.units == units
    assert operator.couplings == couplings
    assert operator.conserves_magnetisation is conserves
    assert not operator.is_complex
    assert np.isclose(operator.infinite_temperature_energy, trace, atol=ROUNDING)
    assert operator.lattice.kind in repr(operator)
    assert len(repr(operator)) < 300


def test_couplings_per_bond_and_site() -> None:
    bonds = GRID.bonds["nearest"]
    values = np.random.default_rng(2).normal(size=len(bonds))
    written = sum(v * dot(GRID, *bond) for bond, v in zip(bonds, values, strict=True))
    by_array = heisenberg(GRID, J=values)
    by_name = heisenberg(GRID, J={(j, i): v for (i, j), v in zip(bonds, values, strict=True)})
    by_list = heisenberg(GRID, J=values.tolist())
    for operator in (by_array, by_name, by_list):
        assert np.allclose(dense_hamiltonian(operator), written, atol=ROUNDING)
        assert operator.couplings == {"J": values.tolist()}
    fields = np.arange(6.0)
    ramp = tfim(GRID, h=fields)
    written = dense_hamiltonian(tfim(GRID, h=0))
    written = written - sum(h * pauli(GRID, SIGMA_X, i) for i, h in enumerate(fields))
    assert np.allclose(dense_hamiltonian(ramp), written, atol=ROUNDING)
    assert (0,) not in ramp.replacements
    mapped = tfim(GRID, h=dict(enumerate(fields)))
    assert np.allclose(dense_hamiltonian(mapped), written, atol=ROUNDING)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: heisenberg(GRID, J=[1.0, 2.0]), "an array of shape (2,) for 7 bonds"),
        (lambda: heisenberg(GRID, J={(0, 1): 1.0}), "6 of 7 bonds have none (first: (0, 3))"),
        (lambda: tfim(chain(2), h={0: 1, 1: 1, 5: 1}), "name no site of this kind (first: 5)"),
        (lambda: heisenberg(chain(2), J={(0, 1): 1, (1, 0): 2}), "both directions"),
        (lambda: heisenberg(chain(2), J={0: 1}), "key 0 is not a bond"),
        (lambda: heisenberg(chain(2), J={(0, 1, 2): 1}), "is not a bond"),
        (lambda: heisenberg(GRID, J="strong"), "'strong' is not a real number"),
        (lambda: heisenberg(GRID, J=1j), "not a real number"),
        (lambda: heisenberg(GRID, J=None), "not a real number"),
        (lambda: heisenberg(GRID, J=True), "not a real number"),
        (lambda: tfim(GRID, h=np.inf), "coupling h: it holds an infinite"),
        (lambda: rydberg(GRID, V=[1.0, 2.0]), "coupling V"),
        (lambda: rydberg(from_bonds(2, [], [[1, 1], [1, 1]])), "sites 0 and 1 are at the same"),
        (lambda: models.shastry_sutherland(GRID), "no bonds of kind 'dimer', only 'nearest'"),
        (lambda: j1j2(kagome(4, 4)), "model = 'terms'"),
        (lambda: j1j2(from_bonds(3, [(0, 1)])), "no bonds of kind 'diagonal'"),
    ],
)
def test_bad_couplings_are_told_what_is_wrong(build, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        build()
    assert said in str(caught.value)


MASKED = np.ma.array(np.ones(4), mask=[True, False, False, False])


@pytest.mark.parametrize(
    "build",
    [
        lambda x: heisenberg(square(2, 2), J=x),
        lambda x: tfim(square(2, 2), h=x),
        lambda x: rydberg(square(2, 2), delta=x),
        lambda x: Operator.from_products(square(2, 2), [("Sz", "all", x)]),
        lambda x: Operator.from_terms(square(2, 2), [([0], x.reshape(2, 2))]),
        lambda x: from_bonds(2, [(0, 1)], x.reshape(2, 2) * [[1], [2]]),
    ],
)
def test_masked_numbers_are_refused(build) -> None:
    """What NumPy masks would count as if it were not."""
    with pytest.raises(ValueError, match="masked"):
        build(MASKED)
    build(np.ma.array(np.ones(4), mask=False))


def test_all_pairs_of_a_large_array_are_one_matrix_product() -> None:
    """10x10 Rydberg, 4950 pairs: nothing is left to a loop over patches."""
    operator = rydberg(square(10, 10))
    assert operator._diagonal.tables == {}
    configs = np.random.default_rng(3).integers(0, 2, (20_000, 100), dtype=np.int8)
    energies = operator.diagonal(configs)
    r = operator.lattice.distances()
    np.fill_diagonal(r, np.inf)
    for k in (0, 777, 19_999):
        n = configs[k].astype(float)
        assert np.isclose(energies[k], n @ (3.5 / r**6) @ n - n.sum(), rtol=1e-13)


def test_diagonal_of_every_model_under_the_strict_namespace() -> None:
    for operator in (heisenberg(GRID), j1j2(GRID), tfim(GRID), rydberg(GRID)):
        configs = all_configs(6)
        there = operator.diagonal(strict.asarray(configs))
        assert np.allclose(np.asarray(there), operator.diagonal(configs), atol=ROUNDING)
