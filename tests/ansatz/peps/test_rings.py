"""PEPS with periodic bonds on a cylinder against the dense contraction of its rings."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from tests import oracles
from tests.random_states import random_configs, random_theta
from tnvmc import (
    PEPS,
    SRC,
    VMC,
    Exact,
    Operator,
    Sampler,
    ZipUp,
    chain,
    heisenberg,
    initial_parameters,
    j1j2,
    load_state,
    square,
)
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.metropolis import MoveCounts, Proposals
from tnvmc.ansatz.peps.row_pass import RowBoundaries, RowPass
from tnvmc.ansatz.peps.starts.gates import plan_gates
from tnvmc.ansatz.peps.starts.other_sizes import grown
from tnvmc.ansatz.peps.starts.simple_update import simple_update
from tnvmc.ansatz.peps.starts.tensors import grow
from tnvmc.ansatz.peps.strip_engine import ArrayStrips, RingStrips
from tnvmc.ansatz.peps.windows import routes
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.backend.namespace import to_host
from tnvmc.backend.random import uniforms
from tnvmc.contraction.tensors import opened
from tnvmc.estimate.observables import local_energy
from tnvmc.exact import exact_ground_state
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.sampling.moves import moves_for
from tnvmc.trust.double_layer import LeftOut

ROUNDING = 1e-10  # relative: sums of D^2 paths around every ring may cancel
LOCAL_ENERGY = 1e-9  # as in test_state.py
UNCUT = 10**4


def ring(shape: tuple[int, int], D: int, dtype: str = "float64", scheme: Any = None) -> PEPS:
    return PEPS(square(*shape, "cylinder"), D, dtype, scheme or SRC(UNCUT), bonds="periodic")


def dense(peps: PEPS, theta: np.ndarray, configs: np.ndarray) -> np.ndarray:
    return oracles.dense_state(peps.tensors(theta), peps.lattice.shape, configs)


@pytest.mark.parametrize("scheme", [Exact(), SRC(UNCUT), ZipUp(UNCUT)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(
    ("shape", "D"), [((3, 3), 2), ((3, 3), 3), ((2, 4), 2), ((2, 4), 3), ((3, 4), 2), ((1, 5), 2)]
)
def test_amplitude_is_that_of_the_rings(shape, D, dtype, scheme, xp) -> None:
    peps = ring(shape, D, dtype, scheme)
    theta, configs = random_theta(peps), random_configs(4, peps.lattice.n_sites)
    found = peps.log_amplitude(xp.asarray(theta), xp.asarray(configs))
    psi = to_host(found.phase) * np.exp(to_host(found.log_abs))
    assert np.allclose(psi, dense(peps, theta, configs), rtol=ROUNDING, atol=0)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_amplitude_of_three_rings_of_four_with_three_states(dtype: str) -> None:
    peps = ring((3, 4), 3, dtype)
    theta, configs = random_theta(peps, 1), random_configs(3, 12)
    found = peps.log_amplitude(theta, configs)
    expected = dense(peps, theta, configs)
    assert np.allclose(found.phase * np.exp(found.log_abs), expected, rtol=ROUNDING, atol=0)


def _plaquettes(lattice: Any) -> Operator:
    """Four sites of two rings: in windows of two rows, which no source serves."""
    turn = np.zeros((16, 16))
    turn[0b0101, 0b1010] = turn[0b1010, 0b0101] = 1.0
    n_cols = lattice.n_cols
    corners = [
        tuple(sorted((c, (c + 1) % n_cols, n_cols + c, n_cols + (c + 1) % n_cols)))
        for c in range(n_cols)
    ]
    return Operator.from_terms(lattice, [(patch, turn) for patch in corners])


OPERATORS: dict[str, Any] = {
    "heisenberg": heisenberg,
    "j1j2": lambda lattice: j1j2(lattice, J2=0.7),
    "plaquettes": _plaquettes,
}


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(
    ("name", "shape", "D"),
    [
        ("heisenberg", (3, 3), 2),
        ("j1j2", (2, 4), 3),
        ("j1j2", (3, 3), 2),
        ("plaquettes", (2, 4), 2),
    ],
)
def test_local_energy_is_a_row_of_the_dense_operator(name, shape, D, dtype, xp) -> None:
    operator: Operator = OPERATORS[name](square(*shape, "cylinder"))
    peps = ring(shape, D, dtype)
    theta = random_theta(peps, 2)
    configs = oracles.all_configs(operator.n_sites)
    psi = dense(peps, theta, configs)
    chosen = np.random.default_rng(1).permutation(len(configs))[:20]
    expected = oracles.dense_local_energy(oracles.dense_hamiltonian(operator), psi)[chosen]
    targets = {patch: xp.asarray(t) for patch, t in operator.targets.items()}
    walkers = peps.start(xp.asarray(theta), xp.asarray(configs[chosen]))
    for _ in range(2):  # upward, then downward
        walkers, snapshot = peps.measure(xp.asarray(theta), walkers, targets, jacobian=False)
        found = to_host(local_energy(operator, snapshot))
        assert np.max(np.abs(found - expected) / np.maximum(1, np.abs(expected))) < LOCAL_ENERGY


def test_pairs_at_any_distance() -> None:
    peps = ring((3, 4), 2)
    theta, configs = random_theta(peps, 3), random_configs(3, 12)
    exchange = np.array([[-1], [2], [1], [-1]])
    asked = dict.fromkeys(combinations(range(12), 2), exchange)
    _, snapshot = peps.measure(theta, peps.start(theta, configs), asked, jacobian=False)
    before = dense(peps, theta, configs)
    for (i, j), ratios in snapshot.ratios.items():
        swapped = configs.copy()
        swapped[:, [i, j]] = configs[:, [j, i]]
        expected = np.where(configs[:, i] == configs[:, j], 0, dense(peps, theta, swapped) / before)
        assert np.allclose(ratios[:, 0], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_log_derivatives(dtype: str) -> None:
    peps = ring((3, 3), 2, dtype)
    theta, configs = random_theta(peps, 3), random_configs(4, 9)
    _, snapshot = peps.measure(theta, peps.start(theta, configs), {})
    found = snapshot.jacobian.dense()  # type: ignore[union-attr]
    expected = oracles.finite_difference_log(lambda t: dense(peps, t, configs), theta)
    assert np.max(np.abs(found - expected)) < 1e-7 * np.max(np.abs(expected))


@pytest.mark.parametrize("scheme", [SRC(3), ZipUp(2)])
def test_tensor_times_log_derivative_is_one_at_every_site(scheme: Any) -> None:
    peps = ring((4, 4), 2, "float64", scheme)
    theta, configs = random_theta(peps, 4), random_configs(6, 16)
    _, snapshot = peps.measure(theta, peps.start(theta, configs), {})
    jacobian = snapshot.jacobian.dense()  # type: ignore[union-attr]
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in peps.shapes)])
    for begin, end in pairwise(ends):
        assert np.allclose(jacobian[:, begin:end] @ theta[begin:end], 1, atol=1e-9)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("shape", "dtype", "scheme"),
    [((2, 3), "float64", SRC(16)), ((2, 3), "complex128", ZipUp(UNCUT)), ((1, 4), "float64", None)],
)
def test_conformance(shape, dtype, scheme) -> None:
    peps = ring(shape, 2, dtype, scheme)
    check_ansatz(peps, random_theta(peps, 5))


def test_sweeps_sample_the_born_distribution() -> None:
    """Chi-squared of the visits of rings of three against |psi|^2, on the sector of the moves."""
    operator = heisenberg(square(2, 3, "cylinder"))
    peps = ring((2, 3), 2)
    theta = np.abs(random_theta(peps, 6)) + 0.3
    moves = moves_for(operator)
    n_walkers, n_sweeps = 400, 60
    start = np.array([0, 1, 0, 1, 0, 1], dtype=np.int8)
    walkers = peps.start(theta, np.tile(start, (n_walkers, 1)))
    counts = np.zeros(2**6)
    powers = 2 ** np.arange(6)[::-1]
    for sweep in range(n_sweeps):
        numbers = uniforms(3, (sweep, 0), range(n_walkers), len(moves))
        walkers, _ = peps.sweep(theta, walkers, moves, numbers)
        if sweep >= 10 and sweep % 5 == 0:  # thinned, so that visits are nearly independent
            counts += np.bincount(walkers.configs @ powers, minlength=2**6)
    configs = oracles.all_configs(6, magnetisation=0)
    expected = oracles.exact_distribution(dense(peps, theta, configs)) * counts.sum()
    seen = counts[configs @ powers]
    assert seen.sum() == counts.sum()
    freedom = len(expected) - 1
    chi_squared = np.sum((seen - expected) ** 2 / expected)
    assert chi_squared < freedom + 5 * np.sqrt(2 * freedom)  # 5 sigma of the chi-squared law


@pytest.mark.parametrize("direction", ["down", "up"])
def test_moves_on_two_rings_are_judged_by_a_function_of_the_configuration(direction: str) -> None:
    """A pass knows psi before the moves of two rows from boundaries; it is that of a new closure."""
    peps = ring((4, 4), 2, scheme=SRC(3))
    theta, configs = np.abs(random_theta(peps)), random_configs(6, 16)
    ready = RowBoundaries.made(peps._views(theta), configs, by_columns=False)
    if direction == "up":
        turn = RowPass(ready, configs)
        assert list(turn.strips(())) == []
        ready = turn.boundaries()
    walk, engine, seen = RowPass(ready, configs), ready.views.rows, []
    moves = dict.fromkeys(combinations(range(16), 2), np.array([[-1], [2], [1], [-1]]))
    plan = routes(tuple(moves), peps.embedding, 2).rows
    counts = MoveCounts(6, 2, np.zeros((6, len(moves))))
    for strip in walk.strips(plan):
        if strip.n_rows == 2:
            anew = engine._two_rows(strip, strip.configs, None)
            present = strip.closed or anew  # which is not known at the edge
            seen.append(np.max(np.abs(anew.log_abs - present.log_abs)))
        numbers = uniforms(1, (len(seen), 0), range(6), len(moves))
        proposals = Proposals(moves, numbers, 1.0, counts)
        chains = engine.sample(strip, plan[strip.first, strip.n_rows], proposals)
        walk.configs, walk.closed = chains.configs, chains.amplitude
    assert len(seen) == 3
    assert max(seen) < ROUNDING
    assert np.any(ready.views.embedding.off_grid(walk.configs, False) != configs)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(("shape", "D", "chi"), [((4, 4), 2, 3), ((3, 6), 3, 5)])
def test_kernels_give_the_numbers_of_numpy(shape, D, chi, dtype) -> None:
    """Sweeps and ratios of rings that are cut, with windows within one ring and across two."""
    operator = j1j2(square(*shape, "cylinder"), J2=0.5)
    moves = moves_for(operator)
    peps = ring(shape, D, dtype, SRC(chi))
    theta, configs = random_theta(peps, 9), random_configs(11, operator.n_sites)  # 11: a part of 16
    numbers = uniforms(2, (0, 0), range(11), len(moves))
    found = []
    for engine in (
        peps._views(theta).rows,
        RingStrips(ArrayStrips(peps._views(theta).rows.layers)),
    ):
        peps._latest.views = replace(peps._views(theta), rows=engine)
        walkers, info = peps.sweep(theta, peps.start(theta, configs), moves, numbers)
        _, snapshot = peps.measure(theta, walkers, operator.targets)
        found.append((walkers.configs, info.accepted, *snapshot.ratios.values()))
        found[-1] += (snapshot.jacobian.dense(), snapshot.amplitude.log_abs)
    for compiled, reference in zip(*found, strict=True):
        assert np.allclose(compiled, reference, rtol=1e-9, atol=1e-9 * np.max(np.abs(reference)))


@pytest.mark.parametrize(("shape", "D"), [((3, 3), 2), ((2, 4), 2), ((2, 3), 3), ((1, 5), 2)])
def test_null_directions_are_counted(shape, D) -> None:
    peps = ring(shape, D)
    theta = random_theta(peps, 7)
    configs = oracles.all_configs(peps.lattice.n_sites)
    _, snapshot = peps.measure(theta, peps.start(theta, configs), {})
    jacobian = snapshot.jacobian.dense()  # type: ignore[union-attr]
    sizes = np.linalg.svd(jacobian - jacobian.mean(axis=0), compute_uv=False)
    rank = int(np.sum(sizes > 1e-9 * sizes[0]))
    assert rank == min(peps.n_params - peps.n_null, len(configs) - 1)


def test_open_rows_hold_the_same_state() -> None:
    peps = ring((2, 4), 2)
    theta, configs = random_theta(peps), oracles.all_configs(8)
    rows = opened(peps.tensors(theta), 4)
    assert [t.shape[1:] for t in rows[:4]] == [
        (1, 1, 2, 4),
        (1, 4, 2, 4),
        (1, 4, 2, 4),
        (1, 4, 2, 1),
    ]
    assert np.allclose(oracles.dense_state(rows, (2, 4), configs), dense(peps, theta, configs))


def test_simple_update_evolves_the_closing_bond() -> None:
    """The same energy for every bond of a ring; an open state treats the closing one differently."""
    operator = heisenberg(square(2, 4, "cylinder"))
    tensors = simple_update(operator, 2, bonds="periodic")
    peps = ring((2, 4), 2)
    theta = peps.flatten(tensors)
    configs = oracles.all_configs(8, magnetisation=0)
    psi = dense(peps, theta, configs)
    turned = configs.reshape(-1, 2, 4)[:, :, [1, 2, 3, 0]].reshape(-1, 8)[:, [*range(8)]]
    turned = 1 - turned  # the order alternates along a ring
    overlap = abs(np.vdot(psi, dense(peps, theta, turned))) / np.vdot(psi, psi).real
    assert overlap > 1 - 1e-3
    hamiltonian = oracles.dense_sector(operator, 0)
    energy = np.vdot(psi, hamiltonian @ psi) / np.vdot(psi, psi)
    open_psi = oracles.dense_state(simple_update(operator, 2), (2, 4), configs)
    open_energy = np.vdot(open_psi, hamiltonian @ open_psi) / np.vdot(open_psi, open_psi)
    exact = exact_ground_state(operator).energy
    assert exact < energy < open_energy


def test_diagonal_gates_lead_around_a_ring() -> None:
    operator = j1j2(square(2, 4, "cylinder"), J2=0.5)
    assert plan_gates(operator, "periodic").far == ()
    assert plan_gates(operator).far != ()


@pytest.mark.parametrize("bonds", ["open", "periodic"])
def test_a_state_grows_into_periodic_bonds(bonds: Any) -> None:
    operator = heisenberg(square(2, 3, "cylinder"))
    small = PEPS(operator.lattice, 2, bonds=bonds)
    large = PEPS(operator.lattice, 3, bonds="periodic")
    theta, configs = random_theta(small), oracles.all_configs(6)
    wide = large.flatten(grow(small.tensors(theta), large.embedding, 3, noise=0))
    assert np.allclose(dense(large, wide, configs), dense(small, theta, configs))
    evolved = grown(small.tensors(theta), large, operator)
    assert evolved.shape == (large.n_params,)


def test_a_file_names_its_bonds(tmp_path) -> None:
    peps = ring((2, 3), 2, scheme=SRC(4))
    theta = random_theta(peps)
    peps.save(tmp_path / "state.h5", theta)
    found, back = load_state(tmp_path / "state.h5")
    assert (found.bonds, found.D, found.scheme) == ("periodic", 2, SRC(4))
    assert np.array_equal(back, theta)
    operator = heisenberg(peps.lattice)
    open_state, path = PEPS(peps.lattice, 3), str(tmp_path / "state.h5")
    with pytest.raises(ValueError, match=r"periodic bonds, which one of open bonds"):
        initial_parameters(open_state, operator, kind=path)
    open_state.save(tmp_path / "open.h5", random_theta(open_state))
    wide = PEPS(peps.lattice, 3, bonds="periodic")
    started = initial_parameters(wide, operator, kind=str(tmp_path / "open.h5"))
    psi = dense(open_state, random_theta(open_state), oracles.all_configs(6))
    near = dense(wide, started, oracles.all_configs(6))
    assert np.linalg.norm(near - psi) < 0.1 * np.linalg.norm(psi)  # noise of 1e-2 on new bonds
    narrow = PEPS(peps.lattice, 2, bonds="periodic")
    started = initial_parameters(narrow, operator, kind=str(tmp_path / "open.h5"))
    assert np.count_nonzero(started) == started.size  # the bonds that close the rings as well
    cut = initial_parameters(PEPS(peps.lattice, 2), operator, kind=str(tmp_path / "open.h5"))
    psi = dense(PEPS(peps.lattice, 2), cut, oracles.all_configs(6))
    near = dense(narrow, started, oracles.all_configs(6))
    assert np.linalg.norm(near - psi) < 0.1 * np.linalg.norm(psi)
    product = PEPS(peps.lattice, 1)
    tensors = product.tensors(random_theta(product))
    padded = open_state.flatten(grow(tensors, open_state.embedding, open_state.D, noise=0))
    open_state.save(tmp_path / "padded.h5", padded)
    started = initial_parameters(narrow, operator, kind=str(tmp_path / "padded.h5"))
    assert np.count_nonzero(started) == started.size


def test_single_precision() -> None:
    peps = ring((3, 4), 2, "float32", SRC(8))
    theta, configs = np.abs(random_theta(peps)), random_configs(4, 12)
    psi = peps.log_amplitude(theta, configs)
    assert psi.log_abs.dtype == np.float32
    expected = np.log(dense(peps, theta.astype(np.float64), configs))
    assert np.allclose(psi.log_abs, expected, atol=1e-4)


def test_direct_draws_follow_their_probabilities() -> None:
    peps = ring((2, 3), 2)
    theta, configs = np.abs(random_theta(peps, 8)) + 0.2, oracles.all_configs(6)
    drawer = peps.drawer(theta, chi=64, chi_mpo=256)
    weight = oracles.exact_distribution(dense(peps, theta, configs))
    assert np.allclose(np.exp(drawer.log_prob(configs)), weight, rtol=1e-6)


def test_symmetrised_around_the_ring() -> None:
    operator = heisenberg(square(2, 3, "cylinder"))
    peps = ring((2, 3), 2)
    theta, configs = np.abs(random_theta(peps)), oracles.all_configs(6)
    group = symmetry_group(operator, ("translation",))
    found = Symmetrised(peps, group).log_amplitude(theta, configs)
    images = [dense(peps, theta, configs[:, list(g.sites)]) for g in group.elements]
    assert len(group) == 3
    assert np.allclose(found.phase * np.exp(found.log_abs), sum(images))


def test_the_double_layer_is_left_out() -> None:
    peps = ring((2, 3), 1)
    vmc = VMC(heisenberg(peps.lattice), peps, Sampler(n_walkers=8, n_samples=32))
    with pytest.raises(LeftOut, match="periodic bonds"):
        vmc.converge(double_layer=True)


@pytest.mark.parametrize(
    ("lattice", "bonds"),
    [
        (square(3, 3), "periodic"),
        (square(3, 3, "periodic"), "periodic"),
        (square(4, 2, "cylinder"), "periodic"),
        (chain(5, "periodic"), "periodic"),
        (square(3, 3, "cylinder"), "closed"),
    ],
)
def test_bonds_that_do_not_fit_are_refused(lattice: Any, bonds: Any) -> None:
    with pytest.raises(ValueError, match="bonds"):
        PEPS(lattice, 2, bonds=bonds)


def test_what_belongs_to_the_state_is_kept() -> None:
    peps = ring((3, 3), 2)
    for other in (peps.with_scheme(SRC(3)), peps._of_type("complex128")):
        assert other.bonds == "periodic"
    assert "periodic" in repr(peps)
    assert peps.description()["bonds"] == "periodic"
    assert "bonds" not in PEPS(peps.lattice, 2).description()
    with pytest.raises(ValueError, match="quimb"):
        peps.to_quimb(random_theta(peps))
