"""Energies at several chi from the same configurations: two states whose energies are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tnvmc.trust.chi_scan import Remeasured, chi_points

RNG = np.random.default_rng
SIGMAS = 4.0  # chance alone fails a check once in 16 000 runs, and the seeds are fixed


def two_states(n: int = 64, apart: float = 0.05) -> tuple[np.ndarray, ...]:
    """Two wave functions that differ a little on n configurations, and their local energies."""
    rng = RNG(5)
    log_0 = rng.normal(size=n)
    log_1 = log_0 + apart * rng.normal(size=n)
    local_0 = rng.normal(size=n) - 3.0
    local_1 = local_0 + apart * rng.normal(size=n)
    return log_0, log_1, local_0, local_1


def expectation(log_abs: np.ndarray, local: np.ndarray) -> float:
    weight = np.exp(2 * log_abs)
    return float(weight @ local / weight.sum())


def test_an_enumeration_gives_exact_energies_without_errors() -> None:
    log_0, log_1, local_0, local_1 = two_states()
    low, high = chi_points(
        {8: Remeasured(local_1, log_1, np.full(64, 0.5)), 4: Remeasured(local_0, log_0)}, 1
    )
    assert (low.chi, high.chi) == (4, 8)
    assert low.energy == pytest.approx(expectation(log_0, local_0), abs=1e-13)
    assert high.energy == pytest.approx(expectation(log_1, local_1), abs=1e-13)
    assert low.difference == low.energy - high.energy
    assert (low.energy_error, low.difference_error, high.difference) == (0, 0, 0)
    assert low.closure_spread is None
    assert high.closure_spread == pytest.approx(0.5)


def test_a_configuration_where_psi_vanishes_counts_for_nothing() -> None:
    log_0, log_1, local_0, local_1 = two_states()
    log_1[7], local_1[7] = -np.inf, np.nan
    low, high = chi_points(
        {4: Remeasured(local_0, log_0), 8: Remeasured(local_1, log_1)}, 1, -2 * log_0
    )
    rest = np.arange(64) != 7
    assert math.isfinite(low.difference_error)
    ratio = np.exp(2 * (log_1 - log_0))[rest]
    assert high.energy == pytest.approx(float(ratio @ local_1[rest] / ratio.sum()))


def test_reweighted_draws_give_the_energy_of_the_other_state() -> None:
    """Drawn from the one, both energies and their difference come out right within errors."""
    log_0, log_1, local_0, local_1 = two_states()
    p = np.exp(2 * log_0)
    drawn = RNG(1).choice(64, size=40_000, p=p / p.sum())
    found = chi_points(
        {4: Remeasured(local_0[drawn], log_0[drawn]), 8: Remeasured(local_1[drawn], log_1[drawn])},
        1,
        -2 * log_0[drawn],
    )
    true = [expectation(log_0, local_0), expectation(log_1, local_1)]
    for point, energy in zip(found, true, strict=True):
        assert abs(point.energy - energy) < SIGMAS * point.energy_error
    low, high = found
    assert abs(low.difference - (true[0] - true[1])) < SIGMAS * low.difference_error
    # Shared fluctuations cancel: the difference is better known than either energy.
    assert low.difference_error < 0.3 * low.energy_error
    assert low.effective_samples == pytest.approx(40_000)
    assert 0.9 * 40_000 < high.effective_samples < 0.999 * 40_000


def test_the_error_of_a_difference_is_its_scatter() -> None:
    """Over 200 repetitions the scatter of the difference is the error that is given."""
    log_0, log_1, local_0, local_1 = two_states()
    p = np.exp(2 * log_0)
    rng = RNG(2)
    found = []
    for _ in range(200):
        drawn = rng.choice(64, size=400, p=p / p.sum())
        measured = {
            4: Remeasured(local_0[drawn], log_0[drawn]),
            8: Remeasured(local_1[drawn], log_1[drawn]),
        }
        found.append(chi_points(measured, 1, -2 * log_0[drawn])[0])
    scatter = float(np.std([point.difference for point in found], ddof=1))
    told = math.sqrt(np.mean([point.difference_error**2 for point in found]))
    assert scatter == pytest.approx(told, rel=SIGMAS / math.sqrt(2 * 199))  # of a scatter of 200
