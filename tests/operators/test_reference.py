"""Known energies: found where they should be, agreeing with diagonalisation where that is cheap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tnvmc import lattice as lattices
from tnvmc.exact import exact_ground_state
from tnvmc.lattice import chain, square, triangular
from tnvmc.operators import Operator, heisenberg, j1j2, known_energy, models, rydberg, tfim, xxz
from tnvmc.operators.reference import published
from tnvmc.trust.reference import find_reference


@pytest.mark.parametrize(
    ("operator", "per_site", "error", "source", "method"),
    [
        (heisenberg(square(6, 6)), -0.6035218345, 1e-10, "VarBench", "exact"),
        (heisenberg(square(8, 8)), -0.6190371, 2e-7, "Sandvik", "QMC"),
        (heisenberg(square(10, 10), J=2.0), -1.2573122, 4e-7, "2601.20189", "QMC"),
        (heisenberg(square(32, 32)), -0.6563289, 4e-7, "Sandvik", "QMC"),
        (xxz(square(8, 8), 0.5, 0.5), -0.30951855, 1e-7, "Sandvik", "QMC"),
        (j1j2(square(8, 8), J2=0), -0.6190371, 2e-7, "Sandvik", "QMC"),
        (heisenberg(square(10, 10, "periodic")), -0.67155266, 1e-8, "reference list", "QMC"),
        (heisenberg(square(8, 4, "cylinder")), -21.194178 / 32, 1.2e-5 / 32, "Sandvik", "QMC"),
        (j1j2(square(6, 4, "cylinder"), J2=0.5), -12.439961500201 / 24, 1e-12, "diagonal", "exact"),
        (j1j2(square(6, 6, "periodic")), -0.503810, 1e-6, "Schulz", "exact"),
        (j1j2(square(10, 10, "periodic")), -0.497715, None, "Heyl", "variational"),
        (heisenberg(triangular(6, 6)), -17.9675 / 36, 1.5e-3 / 36, "own DMRG", "extrapolated"),
        (heisenberg(triangular(12, 12)), -296.677327 / 576, None, "VarBench", "variational"),
        (tfim(square(20, 20), h=3), -1272.788 / 400, 8e-3 / 400, "VarBench", "variational"),
        (tfim(chain(32, "periodic")), -40.76003249419223 / 32, 1e-13, "Pfeuty", "exact"),
    ],
)
def test_published_numbers_are_found(operator, per_site, error, source, method) -> None:
    known = known_energy(operator)
    assert known is not None
    assert np.isclose(known.energy_total / operator.n_sites, per_site, rtol=1e-13)
    assert known.error is None if error is None else known.error / operator.n_sites < 1.01 * error
    assert source in known.source
    assert known.method == method


def test_energies_belong_to_their_sector() -> None:
    operator = heisenberg(square(6, 6), J=2.0)
    triplet, ground = known_energy(operator, 2), known_energy(operator)
    assert triplet is not None and ground is not None
    assert triplet == known_energy(operator, -2) and triplet.method == "extrapolated"
    assert 0.29 < (triplet.energy_total - ground.energy_total) / 2 < 0.30  # J = 2
    assert known_energy(operator, 4) is None
    assert find_reference(operator, 2).energy == triplet.energy_total
    dimers = models.shastry_sutherland(lattices.shastry_sutherland(4, 4, "periodic"), 0.6, 1.2)
    assert known_energy(dimers) is not None and known_energy(dimers, 2) is None


def test_a_reference_is_not_that_of_the_same_terms_on_fewer_sites() -> None:
    terms = [("Sx Sx + Sy Sy + Sz Sz", [(0, 1), (1, 2), (2, 3)]), ("Sz", [0, 1, 2, 3], 2.0)]
    for n_sites in (4, 8):
        operator = Operator.from_products(chain(n_sites), terms)
        exact = exact_ground_state(operator, 0).energy
        assert find_reference(operator, 0).energy == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize(
    ("operator", "sector"),
    [
        (heisenberg(square(6, 6)), 1),
        (heisenberg(square(6, 6)), 38),
        (heisenberg(square(3, 3)), 0),
        (heisenberg(square(6, 6)), 0.5),
        (heisenberg(square(6, 6)), 2.0),
        (heisenberg(square(6, 6)), "x"),
        (tfim(chain(8)), 0),
    ],
)
def test_a_sector_that_there_is_not_is_refused(operator, sector) -> None:
    with pytest.raises(ValueError, match="magnetisation|2 Sz"):
        known_energy(operator, sector)


def test_of_an_odd_number_of_spins_the_smallest_sector_is_meant() -> None:
    found = [known_energy(heisenberg(square(3, 3)), sector) for sector in (None, 1, -1, 3)]
    assert found[0] == found[1] == found[2] is not None and found[3] is None


SMALL = [
    heisenberg(square(2, 2)),
    heisenberg(square(3, 3), J=0.25),
    heisenberg(square(4, 3)),
    heisenberg(square(4, 4)),
    heisenberg(square(4, 4, "cylinder")),
    j1j2(square(4, 4), J1=2.0, J2=1.0),
    j1j2(square(4, 4, "periodic")),
    models.shastry_sutherland(lattices.shastry_sutherland(4, 4, "periodic"), 0.6, 1.2),
    *(tfim(chain(n, b), J=0.5, h=h) for n in (3, 6, 7) for h in (0.2, 0.5, 2.0)
      for b in ("open", "periodic")),
    *(tfim(chain(n, "periodic"), h=-0.8) for n in (3, 4, 5)),
    tfim(chain(2), h=0.7),
]  # fmt: skip


@pytest.mark.parametrize("operator", SMALL, ids=lambda o: f"{o.name}-{o.lattice.shape}")
def test_known_energies_agree_with_diagonalisation(operator) -> None:
    known = known_energy(operator)
    assert known is not None
    exact = exact_ground_state(operator).energy
    assert abs(known.energy_total - exact) < max(2 * known.error, 1e-12 * abs(exact))


@pytest.mark.parametrize(
    "operator",
    [
        heisenberg(square(5, 7)),
        heisenberg(square(8, 8, "cylinder")),
        heisenberg(square(4, 8, "cylinder")),  # the other way round it is known
        heisenberg(square(8, 8), J=-1.0),
        heisenberg(square(8, 8), J=0.0),
        heisenberg(square(2, 2), J=[1, 1, 1, 2]),
        j1j2(square(6, 6, "periodic"), J2=0.5001),
        2 * heisenberg(square(8, 8)),
        heisenberg(square(8, 8)) + heisenberg(square(8, 8)),
        tfim(square(4, 4), h=2.9),
        tfim(chain(2, "periodic")),
        tfim(chain(8), 1.0, 0.0),  # free fermions have no sector of Sz
        rydberg(square(4, 4), V=7.1),
        models.shastry_sutherland(lattices.shastry_sutherland(4, 4, "periodic"), 0.7, 1.0),
        models.shastry_sutherland(lattices.shastry_sutherland(4, 4), 0.5, 1.0),
        heisenberg(chain(64)),
        # of whole lattices they are known
        heisenberg(square(4, 4, vacant=[0, 5])),
        tfim(square(4, 4, vacant=[0, 5]), h=3.0),
        models.shastry_sutherland(
            lattices.shastry_sutherland(4, 4, "periodic", vacant=[0]), 0.3, 1.0
        ),
    ],
)
def test_nothing_is_made_up(operator) -> None:
    assert known_energy(operator) is None


def _fewer_bonds() -> Operator:
    lattice = square(4, 4)
    lattice.bonds["nearest"] = lattice.bonds["nearest"][1:]
    return heisenberg(lattice)


def _other_coupling() -> Operator:
    operator = heisenberg(square(4, 4))
    operator.couplings["J"] = 2.0
    return operator


def test_a_name_alone_is_no_model() -> None:
    """Bonds, couplings or terms that were changed behind the name of a model had its energy."""
    plain = heisenberg(square(4, 4))
    renamed = Operator(plain.lattice, plain.terms[1:], 2, "S.S", "heisenberg", {"J": 1.0})
    bonds = {"nearest": plain.lattice.bonds["nearest"][1:]}
    of_fewer = heisenberg(replace(plain.lattice, bonds=bonds))
    assert known_energy(plain) is not None
    for operator in (_fewer_bonds(), _other_coupling(), renamed, of_fewer):
        assert known_energy(operator) is None
    assert known_energy(replace(plain, terms=plain.terms[1:])) is None
    for name, couplings in (("heisenberg", {"J": 1.0, "K": 0.5}), ("place", {"J": 1.0})):
        strange = Operator(plain.lattice, plain.terms, 2, "S.S", name, couplings)
        assert known_energy(strange) is None


def test_dimer_singlets_are_no_more_than_a_bound_where_small_lattices_leave_them() -> None:
    lattice = lattices.shastry_sutherland(4, 4, "periodic")
    operator = models.shastry_sutherland(lattice, 0.674, 1.0)
    known = known_energy(operator)
    assert known is not None and known.method == "variational"
    assert exact_ground_state(operator).energy < known.energy_total - 0.07


def test_every_number_has_a_source_and_is_found_once() -> None:
    keys = [
        (t.model, *t.ratios, t.lattice, shape, t.boundary, t.magnetisation)
        for t in published()
        for shape in t.energies
    ]
    assert len(keys) == len(set(keys))
    assert all(table.source for table in published())
    for table in published():
        if table.method in ("exact", "QMC"):
            assert all(len(found) == 2 for found in table.energies.values())
