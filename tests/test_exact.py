"""Exact ground states: the table of reference energies, dense oracles, refusals."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests import oracles
from tests.magnets import along_z, bosons, correlated_hopping, folded_xxz
from tests.oracles import dense_hamiltonian, dense_sector
from tnvmc import exact
from tnvmc import lattice as lattices
from tnvmc.app.cli import main
from tnvmc.backend import host, progress
from tnvmc.exact import (
    TooLargeError,
    estimate_bytes,
    exact_ground_state,
    exact_levels,
    symmetric_levels,
)
from tnvmc.lattice import Lattice, chain, from_bonds, honeycomb, kagome, square, triangular
from tnvmc.operators import (
    Basis,
    Operator,
    exchange_matrix,
    heisenberg,
    j1j2,
    kron,
    models,
    rydberg,
    tfim,
    xxz,
)
from tnvmc.operators.assembly import Blocks, splits, spread
from tnvmc.operators.spin import SIGMA_X, SIGMA_Y, SIGMA_Z
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.settings import rules

LAST_DIGIT = 1e-12  # of the reference totals

TABLE = [
    (heisenberg(square(2, 2)), -2.0),
    (heisenberg(square(3, 3)), -4.749327258553),
    (heisenberg(square(3, 4)), -6.691680193515),
    (heisenberg(square(4, 4)), -9.189207065192),
    (j1j2(square(4, 4)), -7.505556950081),
    (heisenberg(triangular(3, 4)), -5.672661733906),
    (heisenberg(honeycomb(3, 4)), -5.458061668028),
    (heisenberg(kagome(4, 4)), -4.713302847694),
    (tfim(square(4, 4), h=3.0), -50.186623882778),
    (rydberg(square(4, 4)), -7.254611338546),
    (models.shastry_sutherland(lattices.shastry_sutherland(4, 4, "periodic")), -6.0),
    (j1j2(chain(8, "periodic")), -3.0),  # Majumdar-Ghosh: -3/8 per site
]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("operator", "energy"), TABLE, ids=[f"{o.name}-{o.lattice.shape}" for o, _ in TABLE]
)
def test_reference_energies(operator: Operator, energy: float) -> None:
    result = exact_ground_state(operator)
    assert abs(result.energy - energy) < LAST_DIGIT * max(1, abs(energy))
    assert result.energy_per_site == result.energy / operator.n_sites
    assert result.units == operator.units


def test_published_per_site_energies() -> None:
    periodic = exact_ground_state(j1j2(square(4, 4, "periodic"))).energy_per_site
    assert abs(periodic - -0.5286202) < 5e-8  # rounding of the published number
    varbench_style = 4 * exact_ground_state(heisenberg(square(4, 4))).energy_per_site
    assert abs(varbench_style - 4 * -0.5743254416) < 4 * 5e-11


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lattice", "dimension", "energy"),
    [
        (square(4, 5), 184_756, -11.651570835158),
        (square(6, 4), 2_704_156, -14.129146864447),
        (square(6, 4, "cylinder"), 2_704_156, -15.728450971521),
    ],
    ids=str,
)
def test_larger_lattices(lattice: Lattice, dimension: int, energy: float) -> None:
    result = exact_ground_state(heisenberg(lattice))
    assert result.dimension == dimension
    assert abs(result.energy - energy) < LAST_DIGIT * abs(energy)


TWIST = kron(SIGMA_X, SIGMA_Y) - kron(SIGMA_Y, SIGMA_X)


def twisted(lattice: Lattice) -> Operator:
    """Heisenberg with a Dzyaloshinskii-Moriya term: complex, keeps the magnetisation."""
    terms = [(bond, 0.2 * TWIST) for bond in lattice.bonds["nearest"]]
    return heisenberg(lattice) + Operator.from_terms(lattice, terms, units="S.S")


ODD_BONDS = from_bonds(10, sorted({(i, j) for i in range(10) for j in range(i) if i * j % 7 == 2}))
MIXED = [
    heisenberg(square(2, 5), J=np.random.default_rng(0).normal(size=13)),
    twisted(square(2, 5)),
    twisted(square(2, 2)),
    tfim(square(2, 5), h=0.4),
    rydberg(square(3, 3), V=2.0),
    xxz(ODD_BONDS, 0.5, 1.5),
    Operator.from_terms(chain(6), [((i, i + 1), exchange_matrix(3)) for i in range(5)], local_dim=3),
]  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("operator", MIXED, ids=lambda o: f"{o.name}-{o.lattice.shape}")
def test_levels_and_vector_equal_the_dense_ones(operator: Operator) -> None:
    result = exact_ground_state(operator, vector=True)
    if result.sector is None:
        matrix = dense_hamiltonian(operator)
    else:
        matrix = dense_sector(operator, result.sector)
    levels = np.linalg.eigvalsh(matrix)
    assert result.dimension == len(matrix)
    assert np.isclose(result.energy, levels[0], atol=1e-10)
    assert np.allclose(exact_levels(operator, 2), levels[:2], atol=1e-8)
    assert result.vector.shape == (len(matrix),)
    assert np.isclose(np.linalg.norm(result.vector), 1)
    assert np.allclose(matrix @ result.vector, result.energy * result.vector, atol=1e-7)


EITHER = [
    (heisenberg(chain(10)), -1),  # Marshall: (-1)^(N/2)
    (heisenberg(chain(8)), 1),
    (tfim(chain(9), h=0.4), 1),
    (-1.0 * heisenberg(chain(10)), 1),  # a multiplet of the largest spin
    (xxz(chain(10), 1.0, -0.3), -1),
    (twisted(square(2, 5)), None),  # complex, and not kept by turning over
]


@pytest.mark.whole
@pytest.mark.parametrize(("operator", "sign"), EITHER, ids=lambda o: getattr(o, "name", str(o)))
@pytest.mark.parametrize("kernels", [True, False])
def test_blocks_of_spin_inversion(
    operator: Operator, sign: int | None, kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Energies, vector and sign against all eigenvalues of the dense matrix."""
    monkeypatch.setattr(exact, "DENSE_DIMENSION", 50)
    monkeypatch.setattr(host, "available", lambda: kernels)
    sector = exact_ground_state(operator).sector
    dense = dense_hamiltonian(operator) if sector is None else dense_sector(operator, sector)
    levels = np.linalg.eigvalsh(dense)
    alone = exact_ground_state(operator)
    assert abs(alone.energy - levels[0]) < 1e-11
    assert alone.inversion == sign
    assert np.abs(levels - alone.energy).min() <= alone.residual + 1e-12
    assert np.allclose(exact_levels(operator, 2), levels[:2], atol=1e-8)
    both = exact_ground_state(operator, vector=True)
    assert np.allclose(dense @ both.vector, both.energy * both.vector, atol=1e-7)
    assert np.isclose(np.linalg.norm(both.vector), 1)
    if sign is not None:
        assert np.allclose(both.vector[::-1], sign * both.vector, atol=1e-12)


def test_levels_that_meet_from_both_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two dimer coverings of a ring: ground states of both signs, equal energies."""
    monkeypatch.setattr(exact, "DENSE_DIMENSION", 10)
    operator = j1j2(chain(10, "periodic"))
    dense = np.linalg.eigvalsh(dense_sector(operator, 0))
    assert np.allclose(exact_levels(operator, 2), dense[:2], atol=1e-10)


def test_its_stages_are_told() -> None:
    told: list[tuple[str, float | None]] = []
    with progress.watched(lambda *each: told.append(each)):
        exact_ground_state(heisenberg(square(3, 4)))
        exact_ground_state(heisenberg(square(3, 4)), 2)
    names = ["matrix", "even", "odd", "even", "matrix", "level"]
    assert told == [(name, None) for name in names]


def test_the_operator_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "DENSE_DIMENSION", 10)
    lattice = chain(8)
    for operator in (0.0 * heisenberg(lattice), heisenberg(lattice) - heisenberg(lattice)):
        result = exact_ground_state(operator, vector=True)
        assert (result.energy, result.residual) == (0, 0)
        assert not exact_levels(operator, 2).any()
        assert np.isclose(np.linalg.norm(result.vector), 1)


def test_a_sector_in_which_all_elements_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "DENSE_DIMENSION", 10)
    total = Operator.from_products(chain(8), [("Sz", [(site,) for site in range(8)])])
    result = exact_ground_state(total, 0)
    assert abs(result.energy) < 1e-14
    assert exact_ground_state(total, 2).energy == pytest.approx(1)


@pytest.mark.parametrize("raised", [0.0, 4.5, 13.5, 3000.0])
def test_the_zero_of_energy_changes_nothing(raised: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ground state at 0 was missed: Lanczos stopped relative to the energy, which never came."""
    monkeypatch.setattr(exact, "DENSE_DIMENSION", 10)
    ring = j1j2(chain(12, "periodic"))  # dimers: E = -4.5
    constant = Operator.from_terms(ring.lattice, [((0,), raised * np.eye(2))])
    result = exact_ground_state(ring + constant)
    assert result.energy == pytest.approx(raised - 4.5, abs=1e-12 + 1e-14 * raised)
    assert result.residual <= 1e-9 * (raised + 13.5)
    assert exact_levels(ring + constant, 2)[0] == pytest.approx(result.energy, abs=1e-9)


def test_what_does_not_converge_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "WORST_RESIDUAL", 1e-17)
    with pytest.raises(RuntimeError, match="no eigenvalue"):
        exact_ground_state(heisenberg(square(3, 4)))


@pytest.mark.whole
@pytest.mark.parametrize("operator", MIXED, ids=lambda o: f"{o.name}-{o.lattice.shape}")
@pytest.mark.parametrize("kernels", [True, False])
def test_blocks_are_those_of_the_matrix(
    operator: Operator, kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "available", lambda: kernels)
    sector = exact_ground_state(operator).sector
    states = Basis(operator.n_sites, operator.local_dim, sector)
    whole = operator.sparse(sector).toarray()
    blocks = Blocks(operator, states)
    assert (len(blocks.signs) == 2) == splits(operator, states)
    for sign in (*blocks.signs, blocks.signs[0]):
        unit = np.eye(blocks.dimension, dtype=blocks.dtype)
        found = np.stack([blocks.operator(sign).matvec(x) for x in unit], axis=1)
        turned = np.stack([spread(x, sign) for x in unit], axis=1)
        assert np.allclose(found, turned.T @ whole @ turned, atol=1e-13)


def test_a_vector_is_given_only_when_asked_for() -> None:
    assert exact_ground_state(heisenberg(square(2, 2))).vector is None
    single = exact_ground_state(heisenberg(chain(2)), sector=2)
    assert (single.dimension, single.energy) == (1, 0.25)


@pytest.mark.parametrize(
    ("operator", "sector"),
    [
        (heisenberg(square(2, 2)), 0),
        (heisenberg(square(3, 3)), 1),
        (tfim(square(2, 2)), None),
        (tfim(square(2, 2), h=0), None),  # diagonal: nothing keeps a sampler in a sector
        (rydberg(square(2, 2), Omega=0), None),
    ],
)
def test_auto_sector(operator: Operator, sector: int | None) -> None:
    result = exact_ground_state(operator)
    assert result.sector == sector
    dense = np.linalg.eigvalsh(dense_hamiltonian(operator))[0]
    assert np.isclose(result.energy, dense, atol=1e-10)


def test_sectors_by_name() -> None:
    operator = xxz(chain(6), J=0.5, Jz=-1.0)  # easy-axis ferromagnet: ground state fully polarised
    full = exact_ground_state(operator, "full")
    assert full.sector is None
    assert np.isclose(full.energy, -1.25)
    assert np.isclose(exact_ground_state(operator, 6).energy, -1.25)
    assert exact_ground_state(operator, 0).energy > -1.25 + 0.1
    assert np.isclose(exact_ground_state(operator).energy, -1.25)
    assert np.isclose(exact_ground_state(operator, np.int64(-6)).energy, -1.25)


@pytest.mark.parametrize(
    ("operator", "lowest"),
    [
        (along_z(square(2, 4), 0.9), 2),
        (along_z(square(2, 4), -0.9), -2),
        (along_z(square(2, 4), 0.1), 0),
        (along_z(square(3, 3), 0.1), 1),
        (along_z(square(3, 3), -0.1), -1),
        (correlated_hopping(10), -2),
        (bosons(5), -5),
        (folded_xxz(10), 4),
        (xxz(square(3, 3), Jz=2.0), 1),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_without_a_sector_the_lowest_is_taken(operator: Operator, lowest: int) -> None:
    """That of the smallest Sz was, without a word."""
    found = exact_ground_state(operator)
    largest = operator.n_sites * (operator.local_dim - 1)
    every = {m: exact_ground_state(operator, m).energy for m in range(-largest, largest + 1, 2)}
    assert found.energy == every[found.sector] == pytest.approx(min(every.values()), abs=1e-12)
    assert found.sector == lowest
    assert exact_levels(operator, 1)[0] == pytest.approx(found.energy, abs=1e-9)


def test_the_same_call_gives_the_same_bits() -> None:
    operator = heisenberg(square(3, 4))
    first = exact_ground_state(operator, vector=True)
    second = exact_ground_state(operator, vector=True)
    assert first.energy == second.energy
    assert np.array_equal(first.vector, second.vector)


@pytest.mark.parametrize(
    ("operator", "sector", "said"),
    [
        (heisenberg(square(3, 3)), 0, "|2 Sz| is odd here"),
        (heisenberg(square(2, 2)), 6, "even here and at most 4"),
        (tfim(square(2, 2)), 0, "does not conserve the magnetisation"),
        (heisenberg(square(2, 2)), "zero", "sector is 'zero'"),
        (heisenberg(square(2, 2)), 0.5, "twice the total Sz as an integer"),
    ],
)
def test_impossible_sectors_are_refused(operator: Operator, sector, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        exact_ground_state(operator, sector)
    assert said in str(caught.value)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("operator", "parts"),
    [
        (heisenberg(square(6, 6)), ("9,075,135,300 (2 Sz = 0)", "MiB", "variational run")),
        (heisenberg(square(32, 32)), ("10^306 (2 Sz = 0)", "10^30", "variational run")),
        (tfim(square(40, 40)), ("10^481 (full space)", "smaller lattice")),
        (rydberg(square(6, 6)), ("68,719,476,736 (full space)", "MiB", "rydberg on 36 sites")),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_too_large_is_refused_before_anything_is_built(
    operator: Operator, parts: tuple[str, ...]
) -> None:
    with pytest.raises(TooLargeError) as caught:
        exact_ground_state(operator)
    assert all(part in str(caught.value) for part in parts)


def test_the_command_refuses_at_once_what_no_machine_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without building a million sites and their terms first."""
    monkeypatch.setattr("tnvmc.app.exact.build_operator", None)
    monkeypatch.setattr(rules, "build_lattice", None)
    file = tmp_path / "large.toml"
    file.write_text('[lattice]\nshape = [1000, 1000]\n[hamiltonian]\nmodel = "heisenberg"\n')
    assert main(["exact", str(file)]) == 2
    assert "1000000 sites" in capsys.readouterr().err
    for n_sites, local_dim in ((62, 2), (31, 4)):
        exact.check_size(n_sites, local_dim)
        with pytest.raises(TooLargeError):
            exact.check_size(n_sites + 1, local_dim)


def test_what_does_not_fit_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = heisenberg(square(4, 4))
    needed = estimate_bytes(operator, Basis(16, 2, 0)) / exact.MEMORY_SHARE
    monkeypatch.setattr(exact, "available_bytes", lambda: math.ceil(needed))
    assert exact_ground_state(operator).dimension == 12870
    with pytest.raises(TooLargeError, match="name a magnetisation sector"):
        exact_ground_state(operator, "full")
    monkeypatch.setattr(exact, "available_bytes", lambda: needed - 2)
    with pytest.raises(TooLargeError, match="12,870"):
        exact_ground_state(operator)


def test_available_memory_is_known_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2**20 < exact.available_bytes() < 2**50

    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", missing)
    assert 2**20 < exact.available_bytes() < 2**50


def test_the_estimate_bounds_what_is_allocated() -> None:
    """The matrix itself, without the work space of Lanczos."""
    operator = j1j2(square(4, 4))
    matrix = operator.sparse(0)
    held = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    assert held < estimate_bytes(operator, Basis(16, 2, 0)) < 5 * held


def test_field_along_z_moves_the_ground_state_out_of_zero_magnetisation() -> None:
    lattice = chain(4)
    field = Operator.from_terms(lattice, [((i,), 3.0 * SIGMA_Z) for i in range(4)])
    operator = heisenberg(lattice) + field
    dense = np.linalg.eigvalsh(dense_hamiltonian(operator))[0]
    assert np.isclose(exact_ground_state(operator, "full").energy, dense)
    assert np.isclose(exact_ground_state(operator, -4).energy, dense)
    assert exact_ground_state(operator, 0).energy > dense


def test_levels_close_together_are_found() -> None:
    """Nearly degenerate levels take more vectors of Lanczos than others."""
    n_sites = 9
    lattice = from_bonds((1, n_sites), [(i, i + 1) for i in range(n_sites - 1)])
    signs = np.random.default_rng(48).choice([-1.0, 1.0], size=(n_sites, n_sites))
    pairs = [(i, j) for i in range(n_sites) for j in range(i + 1, n_sites)]
    products = [("Sz Sz", [pair], float(signs[pair])) for pair in pairs]
    field = ("Sx", [(site,) for site in range(n_sites)], 1e-5)
    operator = Operator.from_products(lattice, [*products, field])
    dense = np.linalg.eigvalsh(operator.sparse().toarray())[0]
    assert exact_ground_state(operator, "full").energy == pytest.approx(dense, abs=1e-8)


def test_a_degenerate_ground_level_comes_twice() -> None:
    bonds = [(0, 7), (3, 8), (0, 6), (0, 2), (4, 7), (7, 8)]
    products = [
        ("Sx Sx", bonds, 0.3),
        ("Sx Sy - Sy Sx", bonds, 0.3),
        ("Sx Sx + Sy Sy", bonds, 0.65),
        ("Sx", [(6,), (4,), (5,)], 1e-3),
    ]
    lattice = from_bonds((1, 9), [(i, i + 1) for i in range(8)])
    first, second = exact_levels(Operator.from_products(lattice, products), 2, "full")
    assert second - first == pytest.approx(0.0, abs=1e-9)


def test_levels_are_those_of_the_dense_matrix_degenerate_ones_as_often_as_they_are_there() -> None:
    for operator, n in ((heisenberg(square(2, 3)), 25), (heisenberg(square(3, 4)), 6)):
        dense = np.linalg.eigvalsh(dense_sector(operator, 0))[:n]
        assert np.allclose(exact_levels(operator, n), dense, rtol=1e-9)
    assert len(exact_levels(heisenberg(square(2, 2)), 100)) == 6  # states of the sector


ROUNDING = 1e-10  # of energies of order 10


def projected(
    operator: Operator, names: tuple[str, ...], odd: tuple[str, ...], sector: int | None
) -> np.ndarray:
    """Levels of P H P where P = mean of chi(g) g is 1, by dense matrices of the full space."""
    group = symmetry_group(operator, names, dict.fromkeys(odd, -1))
    configs = oracles.all_configs(operator.n_sites)
    projector = np.zeros((len(configs), len(configs)))
    for g in group.elements:
        image = configs[:, list(g.sites)]
        image = 1 - image if g.inverts else image
        places = [oracles.config_index(config) for config in image]
        projector[places, np.arange(len(configs))] += g.character / len(group)
    if sector is not None:
        projector *= operator.n_sites - 2 * configs.sum(axis=1) == sector
    values, vectors = np.linalg.eigh((projector + projector.T) / 2)
    inside = vectors[:, values > 0.5]
    found: np.ndarray = np.linalg.eigvalsh(
        inside.T @ oracles.dense_hamiltonian(operator).real @ inside
    )
    return found


@pytest.mark.parametrize(
    ("operator", "names", "odd", "sector"),
    [
        (heisenberg(square(2, 3)), ("spin",), (), 0),
        (heisenberg(square(2, 3)), ("spin", "point"), ("left-right reflection",), 0),
        (heisenberg(square(3, 3)), ("point",), ("diagonal reflection",), 1),
        (heisenberg(chain(8, "periodic")), ("translation",), ("translation by (0, 1)",), 0),
        (tfim(square(2, 3), h=0.7), ("spin", "point"), ("spin inversion",), None),
    ],
)
def test_lowest_levels(
    operator: Operator, names: tuple[str, ...], odd: tuple[str, ...], sector: int | None
) -> None:
    group = symmetry_group(operator, names, dict.fromkeys(odd, -1))
    found = symmetric_levels(operator, group, sector, 3)
    assert np.abs(found - projected(operator, names, odd, sector)[:3]).max() < ROUNDING


def test_the_triplet_is_odd_under_inversion() -> None:
    """4 x 4 spins, eight pairs: S = 0 is even, and S = 1 at Sz = 0 has the energy of Sz = 1."""
    operator = heisenberg(square(4, 4))
    group = symmetry_group(operator, ["spin"], {"spin inversion": -1})
    (found,) = symmetric_levels(operator, group, 0)
    assert found == pytest.approx(-8.6869374791, abs=1e-8)  # exact_ground_state(operator, 2)


def test_no_state_has_such_characters() -> None:
    operator = heisenberg(chain(2))
    odd = {"spin inversion": -1, "left-right reflection": 1}
    group = symmetry_group(operator, ["spin", "point"], odd)
    with pytest.raises(ValueError, match="no state of 2 Sz = 0"):
        symmetric_levels(operator, group, 0)
