"""Energies at several chi from the same configurations, by reweighting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.backend.namespace import to_host
from tnvmc.estimate.statistics import Estimate, difference, effective_samples, estimate

Array = Any


@dataclass(frozen=True)
class Remeasured:
    """What one chi makes of M configurations that all chi share."""

    local: Array  #: (M,) local energies
    log_abs: Array  #: (M,) ln|psi|
    closure_spread: Array | None = None  #: (M,)


@dataclass(frozen=True)
class ChiPoint:
    """The energy at one chi, and how far it lies from that at the largest (totals)."""

    chi: int
    energy: float
    energy_error: float
    difference: float  #: to the largest chi, on the same configurations
    difference_error: float
    closure_spread: float | None
    effective_samples: float  #: (sum w)^2 / sum w^2; all of an enumeration


def chi_points(
    measured: Mapping[int, Remeasured], n_walkers: int, log_base: Array | float | None = None
) -> tuple[ChiPoint, ...]:
    """Compare energies at several chi on the same M configurations, smallest chi first.

    Configurations drawn from |psi_0|^2 stand for |psi_chi|^2 with weights
    w = |psi_chi|^2 / |psi_0|^2, which are self-normalised: E = sum w e / sum w.  What the
    configurations share cancels in a difference, so its error is that of
    w (e - E) / <w> at one chi minus the same at the other, by binning; the bias of order 1/M
    times the variance of w stays.

    Args:
        measured: chi -> local energies and amplitudes at that chi, samples in draw-major order.
        n_walkers: walkers that the samples come from.
        log_base: -2 ln|psi_0| of the draws, (M,).  None: the configurations are an
            enumeration, weights are |psi_chi|^2 and all errors 0.
    """
    exact = log_base is None
    base = 0.0 if log_base is None else _host(log_base)
    series, means, weights = {}, {}, {}
    for chi, found in measured.items():
        weight = _weights(base + 2.0 * _host(found.log_abs))
        local = np.where(weight > 0, np.real(to_host(found.local)), 0.0)
        means[chi] = _mean(local, weight)
        # Its mean is E, its scatter that of E: a sample's pull on the weighted mean.
        series[chi] = means[chi] + weight * (local - means[chi])
        weights[chi] = weight
    largest = max(measured)
    points = []
    for chi in sorted(measured):
        if exact:
            here = Estimate(means[chi], 0.0, 0.0, 0.5, 1.0, 0)
            gap = Estimate(means[chi] - means[largest], 0.0, 0.0, 0.5, 1.0, 0)
        else:
            here = estimate(series[chi], n_walkers)
            gap = difference(series[chi], series[largest], n_walkers)
        spread = measured[chi].closure_spread
        points.append(
            ChiPoint(
                chi,
                here.mean,
                here.error,
                gap.mean,
                gap.error,
                None if spread is None else _mean(_host(spread), weights[chi]),
                float(weights[chi].size) if exact else effective_samples(weights[chi]),
            )
        )
    return tuple(points)


def _host(values: Array | float) -> np.ndarray:
    return np.asarray(to_host(values), dtype=np.float64)


def _weights(logs: np.ndarray) -> np.ndarray:
    """exp of logarithms of weights, with mean 1."""
    with np.errstate(under="ignore"):
        weight = np.exp(logs - logs.max())
    return np.asarray(weight / weight.mean())


def _mean(values: np.ndarray, weight: np.ndarray) -> float:
    anchor = float(values[np.argmax(weight)])
    return anchor + float(weight @ (values - anchor)) / weight.size
