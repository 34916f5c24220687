"""The sampling loop."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

from tests.drawing import enumerated, sample
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.product import ProductState
from tnvmc.ansatz.protocol import Execution, Snapshot
from tnvmc.backend.arguments import ArgumentWarning
from tnvmc.backend.namespace import to_host
from tnvmc.lattice import Lattice, chain, square
from tnvmc.operators import models
from tnvmc.operators.spin import exchange_matrix
from tnvmc.operators.term import Operator
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for
from tnvmc.sampling.workers import chunks


def run(
    sampler: Sampler, operator: Operator, theta: Any, ansatz: Any, step: int = 0, **more: Any
) -> tuple[Any, Snapshot, Any]:
    configs = more.pop("configs", None)
    if configs is None:
        configs = initial_configs(operator, sampler.n_walkers, seed=5)
    return sample(
        sampler, ansatz, (theta, configs), operator.targets, moves_for(operator), (7, step), **more
    )


def same(a: Snapshot, b: Snapshot) -> None:
    np.testing.assert_array_equal(a.configs, b.configs)
    np.testing.assert_array_equal(a.amplitude.log_abs, b.amplitude.log_abs)
    np.testing.assert_array_equal(a.amplitude.phase, b.amplitude.phase)
    for patch in a.ratios:
        np.testing.assert_array_equal(a.ratios[patch], b.ratios[patch])
    np.testing.assert_array_equal(a.jacobian.dense(), b.jacobian.dense())


def setting(lattice: Lattice, dtype: str = "float64", D: int = 2) -> tuple[Any, Any, Operator]:
    ansatz = PeriodicMPS(lattice, D, dtype)
    return ansatz, ansatz.random(3, noise=1.0), models.heisenberg(lattice)


def test_threads_walk_the_same_chain_bit_for_bit() -> None:
    ansatz, theta, operator = setting(square(3, 4), "complex128", D=5)
    sampler = Sampler(n_walkers=12, n_samples=36, n_thin=2, chunk=5, threads=1)
    one = run(sampler, operator, theta, ansatz)
    two = run(replace(sampler, threads=2), operator, theta, ansatz)
    same(one[1], two[1])
    np.testing.assert_array_equal(one[0], two[0])
    assert one[2].acceptance == two[2].acceptance


def test_chunks_change_nothing_but_rounding() -> None:
    ansatz, theta, operator = setting(square(2, 3))
    sampler = Sampler(n_walkers=6, n_samples=18, threads=1)
    whole = run(replace(sampler, chunk=6), operator, theta, ansatz)
    parts = run(replace(sampler, chunk=1), operator, theta, ansatz)
    np.testing.assert_array_equal(whole[1].configs, parts[1].configs)
    np.testing.assert_allclose(whole[1].jacobian.dense(), parts[1].jacobian.dense(), rtol=1e-9)


def test_strict_arrays_walk_the_chain_of_numpy() -> None:
    ansatz, theta, operator = setting(chain(4))
    sampler = Sampler(n_walkers=4, n_samples=8, threads=1)
    configs = initial_configs(operator, 4, seed=5)
    expected = run(sampler, operator, theta, ansatz, configs=configs)[1]
    found = run(sampler, operator, strict.asarray(theta), ansatz, configs=strict.asarray(configs))[
        1
    ]
    np.testing.assert_array_equal(to_host(found.configs), expected.configs)
    for patch, ratios in expected.ratios.items():
        np.testing.assert_allclose(to_host(found.ratios[patch]), ratios, rtol=1e-12)


def test_samples_are_draw_major_and_the_chain_goes_on() -> None:
    ansatz, theta, operator = setting(square(2, 3))
    sampler = Sampler(n_walkers=5, n_samples=13, n_burn=0, chunk=2)
    assert sampler.n_draws == 3
    last, snapshot, info = run(sampler, operator, theta, ansatz)
    assert snapshot.configs.shape == (15, 6) and info.n_draws == 3 and info.n_walkers == 5
    assert snapshot.jacobian.shape == (15, ansatz.n_params)
    np.testing.assert_array_equal(last, snapshot.configs[10:])
    fewer = run(replace(sampler, n_samples=10), operator, theta, ansatz)
    np.testing.assert_array_equal(fewer[1].configs, snapshot.configs[:10])
    np.testing.assert_array_equal(fewer[0], snapshot.configs[5:10])
    assert 0 < info.acceptance < 1 and info.seconds > 0


def test_snapshot_belongs_to_its_configurations() -> None:
    ansatz, theta, operator = setting(square(2, 3), "complex128")
    _, snapshot, _ = run(Sampler(n_walkers=4, n_samples=12, chunk=3), operator, theta, ansatz)
    walkers = ansatz.start(theta, snapshot.configs)
    same(snapshot, ansatz.measure(theta, walkers, operator.targets)[1])
    without = run(Sampler(4, 12, chunk=3), operator, theta, ansatz, jacobian=False)[1]
    assert without.jacobian is None
    np.testing.assert_array_equal(without.configs, snapshot.configs)


def test_steps_and_thinning_use_their_own_random_numbers() -> None:
    ansatz, theta, operator = setting(square(2, 3))
    sampler = Sampler(n_walkers=8, n_samples=16, n_burn=0)
    zero, one = (run(sampler, operator, theta, ansatz, step=step)[1] for step in (0, 1))
    assert (zero.configs != one.configs).any()
    burnt = run(replace(sampler, n_burn=1, n_samples=8), operator, theta, ansatz)[1]
    np.testing.assert_array_equal(burnt.configs, zero.configs[8:])
    thinned = run(replace(sampler, n_thin=2, n_samples=8), operator, theta, ansatz)[1]
    np.testing.assert_array_equal(thinned.configs, zero.configs[8:])


@pytest.mark.whole
@pytest.mark.parametrize("model", ["heisenberg", "tfim"])
def test_samples_follow_the_exact_distribution(model: str) -> None:
    """Frequencies of all configurations against |psi|^2, by chi squared of thinned chains."""
    lattice = chain(4, "periodic")
    ansatz = PeriodicMPS(lattice, 2, "complex128")
    theta = ansatz.random(2, noise=0.7)
    operator = getattr(models, model)(lattice)
    exact = enumerated(ansatz, theta, operator, jacobian=False)
    sampler = Sampler(n_walkers=256, n_samples=256 * 24, n_burn=5, n_thin=3)
    configs = run(sampler, operator, theta, ansatz, jacobian=False)[1].configs
    place = 2 ** np.arange(4)
    counts = np.bincount(configs @ place, minlength=16)[exact.configs @ place]
    assert counts.sum() == len(configs)
    expected = exact.weight * len(configs)
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    n = len(expected) - 1
    assert chi_squared < n + 5 * np.sqrt(2 * n)  # 5 sigma for independent samples


@pytest.mark.whole
def test_spin_one_reaches_its_whole_sector() -> None:
    """AKLT: H = sum S.S + (S.S)^2/3 has E = -2/3 per bond exactly, so E_loc is constant."""
    from tnvmc.estimate.observables import local_energy

    lattice = chain(6, "periodic")
    bond = exchange_matrix(3)
    terms = [(pair, bond + bond @ bond / 3) for pair in lattice.bonds["nearest"]]
    operator = Operator.from_terms(lattice, terms, local_dim=3)
    ansatz = PeriodicMPS(lattice, 2, local_dim=3)
    raising = np.array([[0.0, 1.0], [0.0, 0.0]])
    root = np.sqrt(2.0)
    aklt = np.stack([root * raising, np.diag([-1.0, 1.0]), -root * raising.T])
    theta = ansatz.flatten(np.tile(aklt, (6, 1, 1, 1)))
    exact = enumerated(ansatz, theta, operator, jacobian=False)
    inside = exact.weight > 0
    np.testing.assert_allclose(local_energy(operator, exact)[inside], -4.0, atol=1e-10)
    sampler = Sampler(n_walkers=64, n_samples=64 * 60, n_burn=30, n_thin=2)
    snapshot = run(sampler, operator, theta, ansatz, jacobian=False)[1]
    np.testing.assert_allclose(local_energy(operator, snapshot), -4.0, atol=1e-10)
    assert (snapshot.configs.sum(axis=1) == 6).all()
    assert len(np.unique(snapshot.configs, axis=0)) == inside.sum()


@pytest.mark.parametrize("local_dim", [2, 3])
def test_initial_configurations_lie_in_the_sector(local_dim: int) -> None:
    lattice = chain(6)
    bonds = lattice.bonds["nearest"]
    operator = Operator.from_terms(
        lattice, [(bond, exchange_matrix(local_dim)) for bond in bonds], local_dim=local_dim
    )
    configs = initial_configs(operator, 200, seed=1)
    assert configs.dtype == np.int8 and configs.shape == (200, 6)
    assert (configs.sum(axis=1) == 3 * (local_dim - 1)).all()
    assert set(np.unique(configs)) == set(range(local_dim))
    assert np.abs(configs.mean(axis=0) - (local_dim - 1) / 2).max() < 0.2
    up = initial_configs(operator, 3, seed=1, magnetisation=6 * (local_dim - 1))
    assert not up.any()
    np.testing.assert_array_equal(configs, initial_configs(operator, 200, seed=1))


def test_initial_configurations_without_conservation_are_free() -> None:
    configs = initial_configs(models.tfim(chain(5), h=1.0), 64, seed=0)
    assert len(np.unique(configs.sum(axis=1))) > 3


def test_impossible_sectors_are_refused() -> None:
    operator = models.heisenberg(chain(5))
    with pytest.raises(ValueError, match="even number of sites"):
        initial_configs(operator, 4, seed=0)
    assert (initial_configs(operator, 4, seed=0, magnetisation=1).sum(axis=1) == 2).all()
    with pytest.raises(ValueError, match="at most 5"):
        initial_configs(operator, 4, seed=0, magnetisation=7)


def test_bad_settings_are_refused() -> None:
    for name in ("n_walkers", "n_samples", "n_thin", "threads", "chunk"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            Sampler(**{name: 0})
    with pytest.raises(ValueError, match="n_burn must be at least 0"):
        Sampler(n_burn=-1)
    ansatz, theta, operator = setting(square(2, 3))
    with pytest.raises(ValueError, match=r"shape \(128, 6\), got \(3, 6\)"):
        run(Sampler(), operator, theta, ansatz, configs=np.zeros((3, 6), dtype=np.int8))


def test_walkers_that_never_find_the_support_are_reported() -> None:
    lattice = square(3, 4)
    ansatz, operator = ProductState(lattice), models.heisenberg(lattice)
    neel = np.indices((3, 4)).sum(axis=0).ravel() % 2
    with pytest.raises(ValueError, match="psi is still exactly 0 for .* n_burn = 1"):
        run(
            Sampler(n_walkers=4),
            operator,
            np.eye(ansatz.local_dim, dtype=ansatz.dtype)[neel].ravel(),
            ansatz,
        )
    started_inside = np.tile(neel.astype(np.int8), (4, 1))
    _, snapshot, info = run(
        Sampler(4, 8),
        operator,
        np.eye(ansatz.local_dim, dtype=ansatz.dtype)[neel].ravel(),
        ansatz,
        configs=started_inside,
    )
    assert info.acceptance == 0 and (snapshot.configs == neel).all()


def test_default_chunks_leave_work_for_two_threads() -> None:
    ansatz, _, _ = setting(square(2, 3))
    assert list(map(len, chunks(64, ansatz))) == [32, 32]
    assert list(map(len, chunks(300, ansatz))) == [64, 64, 64, 64, 44]
    assert list(map(len, chunks(9, ansatz, size=4))) == [4, 4, 1]


@pytest.mark.parametrize(("n", "fit", "found"), [(128, 41, 4 * [32]), (128, 64, [64, 64]), (300, 64, 6 * [50]), (3, 64, [2, 1]), (1, 64, [1])])  # fmt: skip
def test_default_chunks_are_as_many_for_each_of_two_workers(
    n: int, fit: int, found: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    peps = PEPS(square(4, 4), 2)
    monkeypatch.setattr(PEPS, "execution", Execution(fit, apart=True))
    assert list(map(len, chunks(n, peps))) == found


@pytest.mark.parametrize(("asked", "told"), [(10, 1), (128, 0), (1000, 1), (1024, 0)])
def test_samples_that_are_no_whole_draws_are_told(asked: int, told: int) -> None:
    with warnings.catch_warnings(record=True) as seen:
        Sampler(128, asked).warn_if_rounded("n_samples")
    assert [each.category for each in seen] == [ArgumentWarning] * told
