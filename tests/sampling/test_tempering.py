"""Draws from powers of |psi|^2: their weights restore it, and the power follows the state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.drawing import sample
from tnvmc import SRC
from tnvmc.ansatz.checks.case import all_configs
from tnvmc.ansatz.generic import GenericAnsatz
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.estimate.statistics import effective_samples, estimate, weighted_estimate
from tnvmc.lattice import Lattice, chain, square
from tnvmc.operators.models import heisenberg
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.sampling.chains import SHARE, SMALLEST, Sampler, flattened, followed
from tnvmc.sampling.moves import flips

N_SITES = 8
LATTICE = chain(N_SITES)


@dataclass(frozen=True)
class TwoHills(GenericAnsatz):
    """ln psi = theta |sum of spins|^2 / N: all up or all down, with a valley between."""

    lattice: Lattice = LATTICE
    local_dim: int = 2
    n_params: int = 1
    dtype: str = "float64"

    def log_amplitude(self, theta: Any, configs: Any) -> LogAmplitude:
        spins = np.sum(1.0 - 2.0 * configs, axis=1)
        return LogAmplitude(np.ones(len(configs)), theta[0] * spins**2 / N_SITES)

    def random(self, seed: int) -> Any:
        return np.ones(1)

    def log_derivatives(self, theta: Any, configs: Any) -> Any:
        return np.sum(1.0 - 2.0 * configs, axis=1)[:, None] ** 2 / N_SITES


@pytest.mark.whole
def test_samples_of_a_power_are_weighted_back() -> None:
    """|psi|^2 from samples of |psi|, which are spread wider."""
    theta, n_walkers = np.array([0.25]), 32
    sampler = Sampler(n_walkers, n_walkers * 400, n_burn=20, power=0.5)
    configs = np.zeros((n_walkers, N_SITES), dtype=np.int8)
    _, snapshot, _ = sample(
        sampler, TwoHills(), (theta, configs), {}, flips(LATTICE), jacobian=False
    )
    square = np.sum(1.0 - 2.0 * snapshot.configs, axis=1) ** 2
    found = weighted_estimate(square, snapshot.weight, n_walkers)
    values, ways = np.arange(-N_SITES, N_SITES + 1, 2.0), [1, 8, 28, 56, 70, 56, 28, 8, 1]
    weight = ways * np.exp(2 * theta[0] * values**2 / N_SITES)
    exact = float(weight @ values**2 / weight.sum())
    assert abs(found.mean - exact) < 4.5 * found.error < 0.1 * exact
    plain = estimate(square, n_walkers)
    assert plain.mean < exact - 20 * plain.error
    assert snapshot.weight is not None and snapshot.weight.sum() == pytest.approx(1)


def test_weights_of_a_power_do_not_overflow() -> None:
    """ln psi of +-2000, and psi = 0 by a weight of 0."""
    log_abs = np.array([2000.0, 1999.0, -2000.0, -np.inf])
    amplitude = LogAmplitude(np.array([1.0, 1.0, 1.0, 0.0]), log_abs)
    found, _ = flattened(amplitude, None, 0.5)
    np.testing.assert_allclose(found, [1.0, np.exp(-1.0), 0.0, 0.0], rtol=1e-12)
    walked, _ = flattened(amplitude, np.array([4.0, 1.0, 1.0, 0.0]), 0.5)
    np.testing.assert_allclose(walked, [2.0, np.exp(-1.0), 0.0, 0.0], rtol=1e-12)


def test_a_state_whose_sweeps_know_one_power_is_refused() -> None:
    """A symmetrised state is walked on by the sweeps of another."""
    lattice = chain(4)
    state = Symmetrised(PEPS(lattice, 2), symmetry_group(heisenberg(lattice), ["spin"]))
    configs, theta = np.zeros((4, 4), dtype=np.int8), np.ones(state.n_params)
    with pytest.raises(ValueError, match="power.*take power = 1"):
        sample(Sampler(4, 4, power=0.5), state, (theta, configs), {}, flips(lattice))


@pytest.mark.whole
def test_a_peps_can_be_tempered() -> None:
    """<SzSz> of each bond, by draws from a power, against all configurations."""
    lattice = square(2, 3)
    peps, moves, n_walkers = PEPS(lattice, 2, scheme=SRC(8)), flips(lattice), 32
    theta = np.random.default_rng(1).normal(size=peps.n_params)
    sampler = Sampler(n_walkers, n_walkers * 200, n_burn=10, power=0.5)
    configs = np.zeros((sampler.n_walkers, 6), dtype=np.int8)
    _, snapshot, _ = sample(sampler, peps, (theta, configs), {}, moves, jacobian=False)
    every = all_configs(6, 2)
    weight = np.exp(2 * peps.log_amplitude(theta, every).log_abs)
    left, right = np.array(lattice.bonds["nearest"]).T
    of_each = lambda found: np.sum((1.0 - 2 * found[:, left]) * (1 - 2 * found[:, right]), axis=1)
    exact = float(weight @ of_each(every) / weight.sum())
    values = of_each(snapshot.configs)
    assert snapshot.weight is not None
    found = weighted_estimate(values, snapshot.weight, n_walkers)
    assert abs(found.mean - exact) < 4.5 * found.error < 0.5


@pytest.mark.parametrize("power", [0.0, 1.5])
def test_powers_out_of_range_are_refused(power: float) -> None:
    with pytest.raises(ValueError, match="power must lie in 0 < power <= 1"):
        Sampler(power=power)


SPREAD = 3.0  # of ln |psi|^2
N_SAMPLES = 20_000


def drawn(power: float, seed: int = 0, spread: float = SPREAD) -> LogAmplitude:
    """Samples of |psi|^(2 power) where ln |psi|^2 of |psi|^2 itself is normal about spread^2."""
    rng = np.random.default_rng(seed)
    log_prob = spread * rng.normal(size=N_SAMPLES) + power * spread**2
    return LogAmplitude(np.ones(N_SAMPLES), log_prob / 2)


def test_follows_to_the_share_of_effective_samples() -> None:
    """Normal ln |psi|^2: exp(-(1 - p)^2 spread^2) of the samples are effective."""
    power = 1.0
    for step in range(12):
        power = followed(drawn(power, step), power)
    wanted = 1 - np.sqrt(-np.log(SHARE)) / SPREAD
    assert power == pytest.approx(wanted, abs=0.05)
    weight, _ = flattened(drawn(power, 99), None, power)
    assert effective_samples(weight) / N_SAMPLES == pytest.approx(SHARE, abs=0.05)


def test_goes_half_way_at_once() -> None:
    first = followed(drawn(1.0), 1.0)
    assert (1 + 1 - np.sqrt(-np.log(SHARE)) / SPREAD) / 2 == pytest.approx(first, abs=0.05)


def test_a_flat_state_takes_the_smallest() -> None:
    assert followed(drawn(1.0, spread=0.0), SMALLEST) == pytest.approx(SMALLEST)


def test_stays_where_psi_vanishes_everywhere() -> None:
    nothing = LogAmplitude(np.zeros(4), np.full(4, -np.inf))
    assert followed(nothing, 0.7) == 0.7
    some = LogAmplitude(np.array([1.0, 1.0, 0.0]), np.array([800.0, 799.0, -np.inf]))
    assert SMALLEST <= followed(some, 0.7) <= 1


def test_weights_of_two_draws_have_one_scale() -> None:
    """Each sample has the weight |psi|^(2 - 2 power), whatever else was drawn with it."""
    large = LogAmplitude(np.ones(2), np.array([1.0, 5.0]))
    small = LogAmplitude(np.ones(2), np.array([1.0, -5.0]))
    (a, scale_a), (b, scale_b) = (flattened(each, None, 0.3) for each in (large, small))
    assert a[0] * np.exp(scale_a) == pytest.approx(b[0] * np.exp(scale_b))
