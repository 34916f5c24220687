"""The estimate of whatever was measured on samples: one place for chains, draws and enumerations."""

from __future__ import annotations

from typing import Any

from tnvmc.estimate.statistics import Estimate, estimate, weighted_estimate
from tnvmc.sampling.problem import SampleInfo

Array = Any


def estimate_samples(values: Array, weight: Array | None, info: SampleInfo) -> Estimate:
    """Estimate the mean of local values of samples, by how they were drawn.

    Args:
        values: (M,) local values, in draw-major order.
        weight: (M,) of the snapshot, to any common factor; None for equal weights.
        info: of the draw.  An enumeration has error 0; chains are binned (`estimate`), weights
            counted by the jackknife (`weighted_estimate`).

    Raises:
        ValueError: as these two.
    """
    if info.exact:
        return estimate(values, weight=weight)
    if weight is None:
        return estimate(values, info.n_walkers)
    return weighted_estimate(values, weight, info.n_walkers)
