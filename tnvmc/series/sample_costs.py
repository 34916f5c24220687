"""What a sample costs that is worth an independent one."""

from __future__ import annotations

import math

import numpy as np

from tnvmc.limits import Json
from tnvmc.series.budget import samples_per_step
from tnvmc.settings.config import Settings
from tnvmc.storage.run_files import Run, as_array

INDEPENDENT = 0.5
"""Autocorrelation time of independent draws, and so the smallest there is."""


def seconds_per_effective_sample(run: Run, settings: Settings) -> float | None:
    """Give the median over the steps of what a sample costs that is worth an independent one.

    A step of M samples has M / (2 tau) of them.  tau is the larger of the step's own, which cannot
    exceed half its draws per walker, and that of the final measurement, which has more of them; at
    least 1/2.  The bias of chains that have not come to equilibrium is not in it.  Samples with
    weights are worth less by their share of effective ones: that of the step, and for direct draws
    that of the final measurement.  None under enumeration, or where no tau is known.
    """
    n = samples_per_step(settings.sampler)
    if not n or run.result is None:
        return None
    seconds = as_array([line.get("seconds") for line in run.history])
    if settings.sampler.kind == "direct":
        effective, measured = run.result.get("effective_samples"), run.result["n_samples"]
        return median(seconds / (n * (effective or measured) / measured))
    own = as_array([line.get("tau") for line in run.history])
    tau = np.fmax(np.maximum(own, INDEPENDENT), _measured_tau(run.result, settings))
    effective = as_array([line.get("effective_samples") for line in run.history])
    return median(seconds * 2 * tau / np.where(np.isnan(effective), n, effective))


def _measured_tau(result: Json, settings: Settings) -> float:
    """Give the autocorrelation time of the measurement in draws of a step; NaN where it has none.

    Correlations are taken to fall as rho^t, so that tau = (1 + rho) / (2 (1 - rho)).
    """
    tau = result.get("tau")
    if tau is None:
        return math.nan
    rho = max(0.0, (tau - INDEPENDENT) / (tau + INDEPENDENT))
    rho **= settings.sampler.n_thin / (settings.measure.n_thin or settings.sampler.n_thin)
    return (1 + rho) / (2 * (1 - rho))


def median(values: np.ndarray) -> float | None:
    """Give the median of the finite values; None where there are none."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else None
