"""Chains that walk on a cheaper contraction than the one that is measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.drawing import enumerated, sample
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.contraction.schemes import SRC, Exact
from tnvmc.estimate.observables import local_energy
from tnvmc.estimate.statistics import estimate_samples
from tnvmc.lattice import square
from tnvmc.operators.models import tfim
from tnvmc.sampling import chains
from tnvmc.sampling.chains import Sampler, walks_coarser
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for
from tnvmc.sampling.problem import Point

FEW_PER_SIGMA = 4


def random_state(shape: tuple[int, int], D: int, chi: int) -> tuple[PEPS, Any]:
    peps = PEPS(square(*shape), D, scheme=SRC(chi), sharing=None)
    return peps, np.random.default_rng(1).normal(0.4, 0.6, peps.n_params)


def drawn(peps: PEPS, theta: Any, sampler: Sampler, seed: int = 0) -> tuple[Any, Any, Any]:
    operator = tfim(peps.lattice)
    begun = theta, initial_configs(operator, sampler.n_walkers, seed=seed)
    return sample(sampler, peps, begun, operator.targets, moves_for(operator), (seed, 0))


@pytest.mark.parametrize(
    ("shape", "D", "chi", "half"),
    [((6, 6), 4, 8, 4), ((5, 6), 3, 9, 4), ((6, 6), 4, 6, 4), ((6, 6), 4, 4, None),
     ((4, 8), 4, 8, None), ((8, 4), 4, 8, None)],
)  # fmt: skip
def test_half_of_chi_where_that_saves_something(
    shape: tuple[int, int], D: int, chi: int, half: int | None
) -> None:
    coarser: Any = PEPS(square(*shape), D, scheme=SRC(chi)).coarser
    assert (coarser and coarser.scheme.chi) == half


def test_an_exact_contraction_has_no_cheaper_one() -> None:
    assert PEPS(square(5, 5), 2, scheme=Exact()).coarser is None


def test_walked_on_where_it_is_good_enough() -> None:
    peps, theta = random_state((5, 5), 3, 8)
    configs = initial_configs(tfim(peps.lattice), 32, seed=0)
    fine, coarse = (each.log_amplitude(theta, configs).log_abs for each in (peps, peps.coarser))
    gap = 2 * np.std(fine - coarse)
    near = peps.tensors(theta)  # towards a product state both agree
    flat = peps.flatten([1.0 + 1e-3 * tensor for tensor in near])
    assert gap > chains._GAP
    assert not walks_coarser(peps, Point(theta, configs), power=1)
    assert walks_coarser(peps, Point(flat, configs), power=1)
    assert walks_coarser(peps, Point(theta, configs), power=0.5) == (gap <= chains._GAP_OF_WEIGHTED)


def test_weights_restore_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crude contraction moves the energy by many errors; with its weights it does not."""
    peps, theta = random_state((3, 3), 3, 9)
    operator = tfim(peps.lattice)
    exact = enumerated(peps, theta, operator, jacobian=False)
    energy = exact.weight @ local_energy(operator, exact)
    monkeypatch.setattr(PEPS, "coarser", PEPS(square(3, 3), 3, scheme=SRC(1), sharing=None))
    monkeypatch.setattr(chains, "walks_coarser", lambda *_: True)
    sampler = Sampler(256, 256 * 40, n_burn=20, n_thin=2, power=0.8)
    _, seen, info = drawn(peps, theta, sampler)
    local = local_energy(operator, seen)
    weighted = estimate_samples(local, seen.weight, info)
    log_abs = seen.amplitude.log_abs
    of_power = np.exp(0.4 * (log_abs - log_abs.max()))
    without = estimate_samples(local, of_power, info)
    assert abs(weighted.mean - energy) < FEW_PER_SIGMA * weighted.error
    assert abs(without.mean - energy) > FEW_PER_SIGMA * without.error


def test_threads_and_chunks_walk_the_same_chain() -> None:
    peps, theta = random_state((5, 5), 2, 4)
    theta = 1.0 + 1e-2 * theta
    sampler = Sampler(16, 48, threads=1, power=0.7, chunk=8)
    one, two = (drawn(peps, theta, replace(sampler, threads=n)) for n in (1, 2))
    assert walks_coarser(peps, Point(theta, one[0]), 0.7)
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1].weight, two[1].weight)
    np.testing.assert_array_equal(one[1].jacobian.dense(), two[1].jacobian.dense())


def test_plain_chains_have_weights_where_some_sample_needs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rare configuration among all samples need not be one of the walkers that were tried."""
    monkeypatch.setattr(chains, "walks_coarser", lambda *_: True)
    peps, theta = random_state((5, 5), 3, 8)
    sampler = Sampler(16, 48, threads=1, power=1.0)
    one, two = (drawn(peps, theta, replace(sampler, chunk=n))[1].weight for n in (4, 16))
    assert one.max() > chains._EVEN * one.min()
    assert one.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(one, two, rtol=1e-9)
    assert drawn(peps, theta + 0.5, sampler)[1].weight is None
