"""Chains that sample powers of |psi|^2, with weights that restore it.

A chain of the plain |psi|^2 hardly visits configurations where psi is small, so their signs stay
those of the start; one that samples |psi|^(2 p) with p < 1 does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Ansatz, LogAmplitude
from tnvmc.backend.namespace import array_namespace, to_host

Array = Any


def require_tempered(ansatz: Ansatz) -> None:
    """Raise ValueError for a state whose sweeps sample |psi|^2 alone."""
    if not ansatz.tempered:
        raise ValueError(
            f"sampler.power: the sweeps of a {type(ansatz).__name__} sample |psi|^2 alone, "
            "so it cannot be tempered; take power = 1"
        )


SHARE = 0.5
"""Effective samples, of all samples, that "auto" keeps.  Tried: 0.25 to 1, see docs/decisions."""

SMALLEST = 0.2
"""Least power that "auto" takes."""


def flattened(amplitude: LogAmplitude, weight: Array | None, power: float) -> tuple[Array, float]:
    """Weights (M,) of samples of |psi|^(2 power), |psi|^(2 - 2 power), over the exponential of a
    number.

    The largest would not fit otherwise; with the number, weights of several draws have one scale.
    `weight` is |psi / psi_1|^2 where psi_1 was walked on in its place.
    """
    xp = array_namespace(amplitude.log_abs)
    log_abs = xp.astype(amplitude.log_abs, xp.float64)
    finite = xp.where(xp.isfinite(log_abs), log_abs, xp.full_like(log_abs, -xp.inf))
    largest = float(xp.max(finite))
    found = xp.exp((2 - 2 * power) * (finite - largest))
    return found if weight is None else found * weight**power, (2 - 2 * power) * largest


def followed(amplitude: LogAmplitude, power: float) -> float:
    """Power for the next draw, from samples (M,) of |psi|^(2 power).

    Half way from the present one to that at which `SHARE` of the samples would be effective (Kish),
    by these samples reweighted: so a step does not follow what few of them say.  Stays as it is
    where psi vanishes in all of them.
    """
    log_abs = to_host(amplitude.log_abs).astype(np.float64)
    log_prob = 2 * log_abs[np.isfinite(log_abs)]
    if log_prob.size == 0:
        return power
    log_prob = log_prob - log_prob.max()
    low, high = SMALLEST, 1.0
    if _effective_share(log_prob, power, low) >= SHARE:
        high = low
    while high - low > 1e-3:  # the share rises with the power
        middle = (low + high) / 2
        if _effective_share(log_prob, power, middle) < SHARE:
            low = middle
        else:
            high = middle
    return (power + high) / 2


def _effective_share(log_prob: np.ndarray, power: float, other: float) -> float:
    """Effective share of samples of |psi|^(2 other), judged by those of |psi|^(2 power).

    With l = ln |psi|^2 and w = e^((1 - other) l) it is <w>^2 / <w^2>, and a mean over the samples
    of the one is <e^((other - power) l) ...> / <e^((other - power) l)> over those of the other.
    """
    mean = [_log_mean(share * log_prob) for share in (1 - power, other - power, 2 - power - other)]
    return float(np.exp(2 * mean[0] - mean[1] - mean[2]))


def _log_mean(values: np.ndarray) -> float:
    largest = float(values.max())
    return largest + float(np.log(np.mean(np.exp(values - largest))))
