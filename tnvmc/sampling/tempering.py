"""Chains that sample powers of |psi|^2: ladders of parallel tempering, and draws with weights.

A chain of the plain |psi|^2 can get stuck where |psi|^2 has several separate maxima; one that
samples |psi|^(2 p) with a small power p walks between them.  Replica k of R in a ladder has the
power (R - k) / R, and after each sweep neighbours exchange their configurations with the
probability that keeps the distribution of the ladder (Hukushima and Nemoto, J. Phys. Soc. Jpn. 65,
1604 (1996)).  Only replica 0, of power 1, is measured.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Ansatz, LogAmplitude, Walkers
from tnvmc.backend.namespace import array_namespace, to_host

Array = Any


def powers(n_ladders: int, n_replicas: int, xp: Any) -> Array:
    """Power of each walker, (n_ladders * n_replicas,): 1 down to 1/R, ladder by ladder."""
    falling = xp.arange(n_replicas, 0, -1, dtype=xp.float64) / n_replicas
    return xp.tile(falling, (n_ladders,))


def tempered(ansatz: Ansatz, setting: str) -> Ansatz:
    """The ansatz, as one whose sweeps know powers; raises ValueError where they know 1 only."""
    if not ansatz.tempered:
        raise ValueError(
            f"sampler.{setting}: the sweeps of a {type(ansatz).__name__} sample |psi|^2 alone, "
            f"so it cannot be tempered; take {setting} = 1"
        )
    return ansatz


def exchanged(walkers: Walkers, n_replicas: int, odd: bool, uniforms: Array) -> Walkers:
    """Walkers (L * R) after neighbours in each ladder have exchanged configurations, or have not.

    Replicas (0, 1), (2, 3), ... meet, or (1, 2), (3, 4), ... when `odd`.  `uniforms` has shape
    (L * R, 1); that of the pair's first replica decides.  What an ansatz remembers of its walkers
    is not exchanged, so it must remember nothing.
    """
    xp = array_namespace(uniforms)
    n_walkers = walkers.configs.shape[0]
    log_abs = walkers.amplitude.log_abs
    place = xp.arange(n_walkers)
    replica = place % n_replicas
    first = (replica % 2 == int(odd)) & (replica < n_replicas - 1)
    above = xp.where(first, place + 1, place)
    # psi = 0 counts as the smallest amplitude: it is handed to the smaller power.
    lowest = float(xp.finfo(log_abs.dtype).min) / 4
    finite = xp.where(xp.isfinite(log_abs), log_abs, xp.full_like(log_abs, lowest))
    gain = 2.0 / n_replicas * (xp.take(finite, above, axis=0) - finite)
    swaps = first & (uniforms[:, 0] < xp.exp(xp.minimum(gain, xp.zeros_like(gain))))
    taken = xp.where(swaps, place + 1, place)
    given = xp.concat([xp.zeros((1,), dtype=xp.bool), swaps[:-1]])
    source = xp.where(given, place - 1, taken)
    phase, log_abs = (xp.take(part, source, axis=0) for part in (walkers.amplitude.phase, log_abs))
    return Walkers(xp.take(walkers.configs, source, axis=0), LogAmplitude(phase, log_abs))


def coldest(walkers: Walkers, n_replicas: int) -> Walkers:
    """The walkers of power 1, one of each ladder."""
    amplitude = walkers.amplitude
    return Walkers(
        walkers.configs[::n_replicas, :],
        LogAmplitude(amplitude.phase[::n_replicas], amplitude.log_abs[::n_replicas]),
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
