"""A power of |psi|^2 that keeps a share of the samples effective."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.estimate.statistics import effective_samples
from tnvmc.sampling.power import SHARE, SMALLEST, flattened, followed

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
