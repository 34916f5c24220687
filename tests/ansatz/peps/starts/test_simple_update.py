"""Simple update against exact ground states of small lattices."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.drawing import enumerated
from tests.exact_peps import exact_energy
from tests.oracles import all_configs, dense_hamiltonian, dense_state, embed
from tnvmc.ansatz.peps.starts.simple_update import evolved, simple_update
from tnvmc.ansatz.peps.starts.tensors import (
    bond_sizes,
    product_starts,
    random_positive,
    start_vectors,
)
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.contraction.double_layer import log_amplitude
from tnvmc.contraction.schemes import SRC
from tnvmc.estimate.observables import local_energy
from tnvmc.estimate.statistics import exact_estimate
from tnvmc.lattice.embedding import embedding
from tnvmc.lattice.grids import chain, shastry_sutherland, square
from tnvmc.operators import models
from tnvmc.operators.term import Operator

EXACT_4X4 = {
    # totals of open lattices; Rydberg: V = 7, delta = Omega = 1; Ising: h = 3
    "heisenberg": 16 * -0.5743254416,
    "j1j2": -7.505556950081,
    "tfim": -50.186623882778,
    "rydberg": -7.254611338546,
}


def ground_energy(operator):
    return np.linalg.eigvalsh(dense_hamiltonian(operator))[0]


def projected_energy(tensors, operator):
    """Of the state that is sampled: projected on Sz = 0 where that is conserved."""
    magnetisation = 0 if operator.conserves_magnetisation else None
    configs = all_configs(operator.n_sites, magnetisation=magnetisation)
    parts = [
        log_amplitude(tensors, operator.lattice.shape, part) for part in np.array_split(configs, 16)
    ]
    phase, log_abs = (np.concatenate(part) for part in zip(*parts, strict=True))
    psi = phase * np.exp(log_abs - log_abs.max())
    return np.vdot(psi, operator.sparse(magnetisation) @ psi).real / np.vdot(psi, psi).real


def relative_error(operator, D, exact, **options):
    tensors = simple_update(operator, D, **options)
    return (projected_energy(tensors, operator) - exact) / abs(exact)


@cache
def heisenberg_4x4(D):
    return relative_error(models.heisenberg(square(4, 4)), D, EXACT_4X4["heisenberg"])


HOME = "tnvmc.ansatz.peps.starts.simple_update"


def begin_from(monkeypatch, name):
    """Let simple update begin from a product state of another name."""
    monkeypatch.setattr(
        f"{HOME}.start_vectors",
        lambda operator, seed: (product_starts(operator.lattice, operator.local_dim)[name], name),
    )


@pytest.mark.whole
def test_chain_is_solved_to_the_end(monkeypatch):
    """No loops: simple update is time-evolving block decimation, exact but for its time step."""
    operator = models.heisenberg(chain(8))
    monkeypatch.setattr(f"{HOME}.TAU", (0.3, 0.03))
    monkeypatch.setattr(f"{HOME}.TOLERANCE", 1e-5)
    tensors = simple_update(operator, 16, max_steps=400)
    assert abs(exact_energy(tensors, operator) - ground_energy(operator)) < 1e-4


@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "D", "bound"),
    [("heisenberg", 2, 1.5e-2), ("heisenberg", 4, 6e-4), ("tfim", 2, 1e-4), ("tfim", 3, 2e-5)],
)
def test_energies_4x4(name, D, bound):
    if name == "heisenberg":
        error = heisenberg_4x4(D)
    else:
        error = relative_error(models.tfim(square(4, 4), h=3), D, EXACT_4X4[name])
    assert 0 < error < bound


@pytest.mark.parametrize(("name", "D", "bound"), [("j1j2", 3, 7e-3), ("rydberg", 3, 6e-4)])
@pytest.mark.slow
def test_energies_4x4_beyond_neighbours(name, D, bound):
    operators = {"j1j2": models.j1j2(square(4, 4), J2=0.5), "rydberg": models.rydberg(square(4, 4))}
    error = relative_error(operators[name], D, EXACT_4X4[name])
    assert 0 < error < bound


def test_order_lies_where_the_model_wants_it():
    grid = square(2, 3)
    for operator, start in (
        (models.heisenberg(grid), "neel x"),
        (models.xxz(grid, Jz=0.5), "neel x"),
        (models.xxz(grid, Jz=2.0), "neel x"),
        (models.heisenberg(grid, J=-1.0), "uniform x"),
        (models.j1j2(square(4, 4), J1=0.1, J2=1.0), "row stripes x"),
        (models.tfim(grid, h=1.0), "positive"),
    ):
        assert start_vectors(operator)[1] == start


@pytest.mark.whole
@pytest.mark.parametrize("D", [2, 3])
@pytest.mark.parametrize("Jz", [1.2, 3.0])
def test_an_easy_axis_leaves_nothing_to_rounding(Jz, D):
    """From a Neel state along z psi is 0 on half of the sector, and rounding has energies there."""
    operator = models.xxz(square(3, 4, "cylinder"), Jz=Jz)
    peps = PEPS(operator.lattice, D, scheme=SRC(16))
    theta = peps.flatten(simple_update(operator, D))
    snapshot = enumerated(peps, theta, operator, jacobian=False)
    found = exact_estimate(local_energy(operator, snapshot), snapshot.weight)
    assert found.variance < 0.2 * operator.n_sites  # 0.06 to 0.10; along z 1e12 at D = 3


@pytest.mark.whole
def test_order_in_the_plane_gains_from_projection(monkeypatch):
    operator = models.heisenberg(square(3, 4))
    monkeypatch.setattr(f"{HOME}.COUPLING_FACTOR", 1.0)
    in_plane = simple_update(operator, 2)
    begin_from(monkeypatch, "neel z")
    along_z = simple_update(operator, 2)
    broken = exact_energy(in_plane, operator)
    assert np.isclose(broken, exact_energy(along_z, operator), rtol=1e-3)
    assert exact_energy(in_plane, operator, magnetisation=0) < broken - 0.1
    assert np.isclose(exact_energy(along_z, operator, magnetisation=0), broken, rtol=1e-3)


@pytest.mark.whole
@pytest.mark.parametrize(("D", "gain"), [(2, 1.15), (4, 1.8)])
def test_easing_the_ordered_component_gives_a_better_start(D, gain, monkeypatch):
    """Found: 1.46e-2 and 1.21e-2 (D = 2), 8.2e-4 and 4.1e-4 (D = 4)."""
    weakened = heisenberg_4x4(D)
    monkeypatch.setattr(f"{HOME}.COUPLING_FACTOR", 1.0)
    plain = heisenberg_4x4.__wrapped__(D)
    assert 0 < gain * weakened < plain


def test_only_neel_order_in_the_plane_of_neighbours_on_a_grid_is_weakened(monkeypatch):
    for operator, start in (
        (models.heisenberg(chain(6)), "neel x"),
        (models.j1j2(square(2, 3), J2=0.2), "neel x"),
        (models.tfim(square(2, 3)), None),
        (models.heisenberg(square(2, 3)), "neel z"),
    ):
        if start:
            begin_from(monkeypatch, start)
        else:
            monkeypatch.undo()
        found = []
        for factor in (1.0, 0.5):
            monkeypatch.setattr(f"{HOME}.COUPLING_FACTOR", factor)
            found.append(simple_update(operator, 2, max_steps=3))
        plain, weakened = found
        assert all(np.array_equal(a, b) for a, b in zip(plain, weakened, strict=True))


def test_evolving_by_nothing_is_another_gauge():
    grid = square(2, 3)
    configs = all_configs(6)
    for dtype in ("float64", "complex128"):
        small = random_positive(grid, 2, dtype, seed=3)
        wide = evolved(models.heisenberg(grid), small, 4, 0)
        assert [t.shape for t in wide] == [
            (2, *sizes) for sizes in bond_sizes(embedding(square(2, 3)), 4)
        ]
        psi = [dense_state(tensors, (2, 3), configs) for tensors in (small, wide)]
        overlap = abs(np.vdot(*psi)) / np.linalg.norm(psi[0]) / np.linalg.norm(psi[1])
        assert abs(overlap - 1) < 1e-12


@pytest.mark.whole
def test_a_few_steps_open_new_bonds_where_it_pays():
    """From D = 2 towards the start that D = 4 has from simple update itself."""
    operator = models.heisenberg(square(3, 4))
    small = simple_update(operator, 2)
    wide = simple_update(operator, 4)
    grown = [evolved(operator, small, 4, n) for n in (1, 3, 10)]
    energies = [projected_energy(tensors, operator) for tensors in (small, *grown, wide)]
    assert energies[0] > energies[1] > energies[2] > energies[3]
    assert energies[3] - energies[4] < 0.2 * (energies[0] - energies[4])


def test_what_evolves_fits_the_grid():
    operator = models.heisenberg(square(2, 2))
    for tensors, message in (
        (random_positive(square(2, 2), 3), "up to 3 .* D = 2"),
        (random_positive(square(2, 3), 2), "6 tensors"),
    ):
        with pytest.raises(ValueError, match=message):
            evolved(operator, tensors, 2, 1)


def test_diagonal_gates_form_dimers():
    operator = models.shastry_sutherland(shastry_sutherland(2, 2), J=0.0)
    error = relative_error(operator, 2, ground_energy(operator))
    assert abs(error) < 1e-5


@pytest.mark.whole
@pytest.mark.parametrize("sites", [(0, 1), (0, 2), (0, 3), (1, 2)])
def test_one_term_alone_is_projected_out(sites, monkeypatch):
    """exp(-tau h) for long enough gives the ground state of h, wherever on the plaquette it is."""
    rng = np.random.default_rng(0)
    h = rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4))
    h = h + h.conj().T
    operator = Operator.from_terms(square(2, 2), [(sites, h)])
    monkeypatch.setattr(f"{HOME}.TOLERANCE", 1e-12)
    tensors = simple_update(operator, 4, max_steps=300)
    psi = dense_state(tensors, (2, 2), all_configs(4))
    energy = np.vdot(psi, embed(h, sites, 4) @ psi).real / np.vdot(psi, psi).real
    assert abs(energy - np.linalg.eigvalsh(h)[0]) < 1e-8


def test_far_terms_are_fields(monkeypatch):
    up_up = np.diag([1.0, 0.0, 0.0, 0.0])
    pin = np.diag([-1.0, 0.0])
    operator = Operator.from_terms(chain(4), [((0, 3), 5 * up_up), ((0,), 2 * pin), ((3,), pin)])
    monkeypatch.setattr(f"{HOME}.start_vectors", lambda *_: (np.ones((4, 2)), "even"))
    tensors = simple_update(operator, 1)
    psi = dense_state(tensors, (1, 4), all_configs(4))
    density = np.sum(psi.reshape(2, 4, 2) ** 2, axis=1) / np.sum(psi**2)
    assert density[0, 1] > 0.99  # site 0 takes its pin, which keeps site 3 from taking its own


def test_what_comes_back():
    operator = models.heisenberg(square(3, 2))
    tensors = simple_update(operator, 3)
    assert [t.shape for t in tensors] == [
        (2, *sizes) for sizes in bond_sizes(embedding(square(3, 2)), 3)
    ]
    assert all(t.dtype == np.float64 for t in tensors)
    assert np.allclose([np.linalg.norm(t) for t in tensors], 1.0)
    again = simple_update(operator, 3)
    assert all(np.array_equal(a, b) for a, b in zip(tensors, again, strict=True))


@pytest.mark.whole
def test_complex_hamiltonians_give_complex_tensors():
    dm = np.zeros((4, 4), complex)
    dm[1, 2], dm[2, 1] = 0.5j, -0.5j
    grid = square(2, 2)
    operator = models.heisenberg(grid) + Operator.from_terms(
        grid, [(bond, dm) for bond in grid.bonds["nearest"]]
    )
    error = relative_error(operator, 4, ground_energy(operator))
    tensors = simple_update(operator, 2)
    assert all(np.iscomplexobj(t) for t in tensors)
    assert 0 <= error < 2e-2


def test_errors():
    with pytest.raises(ValueError, match="D must be at least 1"):
        simple_update(models.heisenberg(square(2, 2)), 0)
