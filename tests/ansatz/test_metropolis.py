"""Ratios, acceptance and proposals of Metropolis sampling by an array library."""

from __future__ import annotations

from itertools import product

import numpy as np

from tnvmc.ansatz.metropolis import (
    CAP,
    acceptance,
    amplitude_ratio,
    local_states,
    propose,
    replaced,
)
from tnvmc.ansatz.protocol import LogAmplitude


def test_local_states_and_replaced_are_inverse() -> None:
    configs = np.array(list(product(range(3), repeat=4)), dtype=np.int8)
    patch = (0, 2, 3)
    states = local_states(configs, patch, 3)
    assert states.dtype == np.int64
    np.testing.assert_array_equal(states, configs[:, [0, 2, 3]] @ np.array([9, 3, 1]))
    np.testing.assert_array_equal(replaced(configs, patch, states, 3), configs)
    other = replaced(configs, patch, states[::-1], 3)
    np.testing.assert_array_equal(local_states(other, patch, 3), states[::-1])
    np.testing.assert_array_equal(other[:, 1], configs[:, 1])


def test_local_states_of_small_integers_do_not_overflow() -> None:
    configs = np.full((1, 4), 3, dtype=np.int8)
    assert local_states(configs, (0, 1, 2, 3), 4) == [255]


def test_propose_uses_one_uniform_for_choice_and_acceptance() -> None:
    table = np.array([[5, 6, -1], [7, 8, 9]])
    target, remainder = propose(table, np.array([0, 0, 1, 1]), np.array([0.0, 0.5, 0.9, 0.1]))
    np.testing.assert_array_equal(target, [5, 6, 9, 7])
    np.testing.assert_allclose(remainder, [0.0, 0.5, 0.7, 0.3])
    last, _ = propose(table, np.array([0]), np.array([1 - 2.0**-53]))
    assert last == [-1]


def test_acceptance_keeps_detailed_balance_and_is_nowhere_sure_at_ratio_one() -> None:
    one, gap = np.ones(101), np.linspace(-3, 3, 101)
    here, there = LogAmplitude(one, 0 * gap), LogAmplitude(one, gap)
    for power in (1.0, 0.4):
        forth, back = acceptance(there, here, power), acceptance(here, there, power)
        np.testing.assert_allclose(forth / back, np.exp(2 * power * gap), rtol=1e-12)
        assert ((forth > 0) & (forth <= 1)).all()
    forth = acceptance(there, here)
    assert forth[50] == CAP / 2 < 1
    far = np.abs(gap) > 0.5
    np.testing.assert_allclose(forth[far], np.exp(2 * np.minimum(gap, 0))[far])


def test_acceptance_and_ratio_where_psi_vanishes() -> None:
    zero = (0.0, -np.inf)
    old = LogAmplitude(*map(np.array, zip((1.0, 0.3), (-1.0, 0.0), zero, zero, strict=True)))
    new = LogAmplitude(*map(np.array, zip((-1.0, 0.2), zero, (1.0, 9.0), zero, strict=True)))
    expected = np.exp(-0.2) * CAP / (1 + np.exp(-0.2))
    np.testing.assert_allclose(acceptance(new, old), [expected, 0.0, 1.0, 0.5])
    np.testing.assert_allclose(amplitude_ratio(new, old), [-np.exp(-0.1), 0.0, 0.0, 0.0])


def test_ratios_of_tiny_amplitudes_stay_finite_when_squared() -> None:
    old = LogAmplitude(np.array([1.0]), np.array([-2000.0]))
    new = LogAmplitude(np.array([1.0]), np.array([0.0]))
    assert np.isfinite(amplitude_ratio(new, old) ** 2)
    assert acceptance(new, old) == [1.0]
    assert acceptance(old, new) == [0.0]


def test_a_ratio_that_is_no_number_stays_none() -> None:
    """It became the largest number there is, and an energy of 1e151."""
    one = LogAmplitude(np.ones(1), np.zeros(1))
    broken = LogAmplitude(np.ones(1), np.array([np.nan]))
    assert np.isnan(amplitude_ratio(broken, one)).all()
    assert np.isnan(amplitude_ratio(one, broken)).all()
