"""Expectation values of operators of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests import oracles
from tnvmc import (
    PEPS,
    VMC,
    DirectSampler,
    Enumerate,
    Exact,
    NonHermitian,
    Operator,
    Sampler,
    heisenberg,
    square,
    tfim,
    xxz,
)
from tnvmc.ansatz.protocol import Snapshot
from tnvmc.estimate.statistics import estimate, weighted_estimate
from tnvmc.lattice.permutations import checkerboard
from tnvmc.operators.products import product_matrix
from tnvmc.operators.spin import exchange_matrix, spin_matrices
from tnvmc.sampling.problem import SampleInfo
from tnvmc.vmc import measured_iterate, measurement

S_X, _, S_Z = spin_matrices(2)
ROUNDING = 1e-10
LATTICE = square(2, 3)
FAR = Operator.from_terms(LATTICE, [((0, 5), exchange_matrix(2)), ((1,), 0.3 * S_Z)])
FIELD = Operator.from_terms(LATTICE, [((0,), S_X), ((2, 3), np.kron(S_Z, S_X))])


def state(hamiltonian: Operator, sampler: Any) -> VMC:
    vmc = VMC(hamiltonian, PEPS(hamiltonian.lattice, 2), sampler)
    vmc.run(2)
    return vmc


def exact(vmc: VMC, operator: Operator) -> float:
    conserved = vmc.operator.conserves_magnetisation
    configs = oracles.all_configs(6, magnetisation=0 if conserved else None)
    amplitude = vmc.ansatz.log_amplitude(vmc.theta, configs)
    psi = np.zeros(2**6)
    psi[[oracles.config_index(s) for s in configs]] = amplitude.phase * np.exp(amplitude.log_abs)
    matrix = oracles.dense_hamiltonian(operator).real
    return float(psi @ matrix @ psi / (psi @ psi))


RING = Operator.from_products(LATTICE, [("X X X Z Z X", [(0, 1, 2, 5, 4, 3)])])


@pytest.mark.whole
@pytest.mark.parametrize("operator", [FAR, FIELD, RING, heisenberg(LATTICE) ** 2])
@pytest.mark.parametrize("model", [heisenberg, tfim])
def test_an_enumeration_gives_the_dense_value(model: Any, operator: Operator) -> None:
    vmc = state(model(LATTICE), Enumerate(threads=1))
    found = vmc.expect(operator)
    assert found.mean == pytest.approx(exact(vmc, operator), abs=ROUNDING)
    assert found.error == 0


@pytest.mark.whole
@pytest.mark.parametrize(
    "sampler", [Sampler(32, 64, threads=1), DirectSampler(64)], ids=["chains", "direct"]
)
def test_samples_give_it_within_their_error(sampler: Any) -> None:
    vmc = state(heisenberg(LATTICE), sampler)
    found = vmc.expect(FAR, n_samples=4096)
    assert found.n_samples >= 4096
    assert abs(found.mean - exact(vmc, FAR)) < 4.5 * found.error < 0.1


@pytest.mark.whole
@pytest.mark.parametrize("draws", [1, 3, 8])
def test_the_error_of_chains_knows_their_walkers_in_parts_of_any_size(
    draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = Sampler(32, 16 * 32, n_burn=5, threads=1, power=1)
    vmc = VMC(heisenberg(LATTICE), PEPS(LATTICE, 2), sampler)
    entries = 19 * draws * 32  # in parts of `draws` draws, of 16: the last one of 3 holds one
    monkeypatch.setattr(measurement, "_ENTRIES", entries)
    seen = [
        (snapshot, info)
        for snapshot, info in measurement.in_parts(
            vmc.method, vmc.state.here, FAR.targets, measurement.streams.EXPECT
        )
    ]
    assert [info.n_draws for _, info in seen] == [draws] * (16 // draws) + [1] * (16 % draws)
    total, terms = measurement.Total(), measurement.energy_terms(FAR)
    values = [np.asarray(terms.values(snapshot, FAR.targets)) for snapshot, _ in seen]
    for value, (snapshot, info) in zip(values, seen, strict=True):
        total.add(value, snapshot, info)
    whole = estimate(np.concatenate(values).sum(axis=1), n_walkers=32)
    assert total.estimate() == whole


def test_a_part_without_weights_counts_as_one_of_equal_weights() -> None:
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(3, 64)), rng.uniform(0.9, 1.1, (3, 64))
    weights[1] = 1.0
    info = SampleInfo(n_walkers=16, n_draws=4, seconds=0.0, acceptance=0.5, power=1.0)
    total = measurement.Total()
    for k in range(3):
        given = None if k == 1 else weights[k]
        snapshot = Snapshot(rng.integers(0, 2, (64, 6)), None, {}, weight=given)
        total.add(values[k, :, None], snapshot, info)
    found, expected = total.estimate(), weighted_estimate(values.ravel(), weights.ravel(), 16)
    assert (found.mean, found.error) == (expected.mean, expected.error)


@pytest.mark.whole
def test_the_hamiltonian_gives_the_energy_and_leaves_the_state() -> None:
    vmc = state(heisenberg(LATTICE), Sampler(32, 64, threads=1))
    before = vmc.state
    energy = vmc.expect(vmc.operator, n_samples=4096, chi=8)
    measured = vmc.measure(n_samples=4096, chi=8)
    error = np.hypot(energy.error, measured.energy_error)
    assert abs(energy.mean - measured.energy) < 4.5 * error
    assert energy.mean != measured.energy, "samples of its own"
    assert vmc.state is before


def test_an_operator_of_another_lattice_is_refused() -> None:
    vmc = state(heisenberg(LATTICE), Enumerate(threads=1))
    with pytest.raises(ValueError, match="heisenberg has 3 x 2 sites, the wave function 2 x 3"):
        vmc.expect(heisenberg(square(3, 2)))


@pytest.mark.slow
def test_walkers_from_random_places_leave_their_domains_before_they_are_measured() -> None:
    hamiltonian = xxz(square(4, 4), Jz=3.0)
    sign = 1.0 - 2.0 * checkerboard(hamiltonian.lattice)
    staggered = Operator.from_terms(
        hamiltonian.lattice, [((k,), sign[k] / 16 * S_Z) for k in range(16)]
    )
    ansatz = PEPS(hamiltonian.lattice, 2, scheme=Exact())
    vmc = VMC(hamiltonian, ansatz, Sampler(768, 768, threads=1))
    found = vmc.expect(staggered)  # after 10 sweeps it is 4.7 errors off
    every = VMC(hamiltonian, ansatz, Enumerate(threads=1), theta=vmc.theta)
    exact_value = every.expect(staggered).mean
    assert abs(found.mean - exact_value) < 3 * found.error < 0.01


def test_sweeps_before_the_first_draw() -> None:
    vmc = VMC(heisenberg(LATTICE), PEPS(LATTICE, 2), Sampler(16, 16, threads=1))
    method, here = vmc.method, vmc.state.here

    def n_burn(asked: int | None, step: int) -> int:
        plan = measurement.MeasurementPlan(n_burn=asked)
        sampler = plan.applied(method, here, step).sampler
        assert isinstance(sampler, Sampler)
        return sampler.n_burn

    assert n_burn(None, 0) == measurement.FRESH_BURN
    assert n_burn(None, 3) == measurement.FRESH_BURN - 3  # a step is a sweep at least
    assert n_burn(None, 100) == measured_iterate.BURN
    assert n_burn(7, 0) == n_burn(7, 3) == 7


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_what_is_not_hermitian_has_a_complex_mean(dtype: str) -> None:
    hamiltonian = tfim(LATTICE)
    products = [("0.3 S+ S-", [(0, 5)], 1 + 2j), ("Sx Sy Sz", [(2, 1, 4)], 0.7j), ("S+", "all")]
    vmc = VMC(hamiltonian, PEPS(LATTICE, 2, dtype), Enumerate(threads=1))
    vmc.run(1)
    found = vmc.expect(NonHermitian.from_products(LATTICE, products))
    psi = np.zeros(2**6, dtype=complex)
    configs = oracles.all_configs(6)
    amplitude = vmc.ansatz.log_amplitude(vmc.theta, configs)
    psi[[oracles.config_index(s) for s in configs]] = amplitude.phase * np.exp(amplitude.log_abs)
    matrix = sum(
        coupling * _dense(sites, product_matrix(text))
        for text, places, coupling in [
            (products[0][0], [(0, 5)], 1 + 2j),
            (products[1][0], [(2, 1, 4)], 0.7j),
            ("S+", [(site,) for site in range(6)], 1.0),
        ]
        for sites in places
    )
    expected = complex(np.vdot(psi, matrix @ psi) / np.vdot(psi, psi))
    assert abs(found.mean - expected) < ROUNDING
    assert found.real.error == found.imaginary.error == 0
    assert abs(expected.imag) > 1e-3


def _dense(sites: tuple[int, ...], matrix: np.ndarray) -> np.ndarray:
    """A matrix on some of 6 sites, over all of them."""
    k, n = len(sites), 6
    others = [site for site in range(n) if site not in sites]
    whole = np.kron(matrix, np.eye(2 ** (n - k))).reshape((2,) * (2 * n))
    place = np.argsort([*sites, *others])
    return whole.transpose([*place, *(n + place)]).reshape(2**n, 2**n)


def test_nothing_has_the_mean_zero() -> None:
    vmc = state(heisenberg(LATTICE), Enumerate(threads=1))
    found = vmc.expect(NonHermitian.from_products(LATTICE, [("Sz Sz", [(0, 1)])]))
    assert found.imaginary.mean == found.imaginary.error == 0
    assert found.real.mean != 0


def test_what_is_not_hermitian_is_no_hamiltonian() -> None:
    operator = NonHermitian.from_products(LATTICE, [("S+ S-", "nearest")], name="hops")
    with pytest.raises(TypeError, match=r"hops is a NonHermitian, an observable for VMC\.expect"):
        VMC(operator, PEPS(LATTICE, 2))  # type: ignore[arg-type]


def test_a_term_on_six_sites_is_sampled_and_followed_downhill() -> None:
    hamiltonian = heisenberg(LATTICE) + 0.5 * RING
    vmc = VMC(hamiltonian, PEPS(LATTICE, 2, scheme=Exact()), Enumerate(threads=1))
    history = vmc.run(5)
    assert history[-1].energy < history[0].energy
    found = vmc.measure()
    assert found.energy == pytest.approx(exact(vmc, hamiltonian), abs=ROUNDING)
    chains = VMC(hamiltonian, vmc.ansatz, Sampler(n_samples=512, threads=1), theta=vmc.theta)
    sampled = chains.measure(n_samples=2048)
    assert abs(sampled.energy - found.energy) < 5 * sampled.energy_error
