"""One Lanczos step, to (1 + alpha H)|psi>, from the moments of H in psi.

Samples have values (M, 4), whose means (4,) are <(H - c)^n> for n = 1, 2, 3, 4.  Source: Sorella,
Phys. Rev. B 64, 024512 (2001); Hu, Becca, Parola and Sorella, Phys. Rev. B 88, 060402 (2013).
"""

import math
from collections.abc import Callable

import numpy as np

from tnvmc.ansatz.protocol import Snapshot
from tnvmc.backend.namespace import to_host
from tnvmc.estimate.observables import connected
from tnvmc.operators.term import Operator

NAMES = ("before", "variance_before", "energy", "alpha", "variance", "gain", "at_zero_variance")
"""What `step_of` gives, in this order."""

_EIGENSTATE = 1e-20  # variance over energy^2: nothing but rounding, and no other state to go to


def step_of(means: np.ndarray, centre: float) -> np.ndarray:
    """Give `NAMES`, (7,); at zero variance the end of the line through both states, if it falls.

    psi + g (H - c) psi with g = alpha / (1 + alpha c) is the state; g = 0 for an eigenstate.
    """
    m1, m2, m3, m4 = map(float, means)
    before, variance_before, g, p = centre + m1, m2 - m1**2, 0.0, m3 - m1 * m2
    if variance_before > _EIGENSTATE * centre**2:  # where the derivative of the energy is 0
        g = -2 * variance_before / (p + math.sqrt(p**2 + 4 * (m2**2 - m1 * m3) * variance_before))
    norm = 1 + 2 * g * m1 + g**2 * m2
    change = (m1 + 2 * g * m2 + g**2 * m3) / norm
    energy, variance = centre + change, (m2 + 2 * g * m3 + g**2 * m4) / norm - change**2
    gain, fall = before - energy, variance_before - variance
    at_zero = energy - variance * gain / fall if fall > 0 else math.nan
    alpha = g / (1 - g * centre)
    return np.array([before, variance_before, energy, alpha, variance, gain, at_zero])


def sampled_values(
    operator: Operator,
    snapshot: Snapshot,
    ask: Callable[[np.ndarray], np.ndarray],
    uniforms: np.ndarray | None,
    known: tuple[np.ndarray, float],
) -> tuple[np.ndarray, float]:
    """Give the values of samples, and the part of them with some s' where psi = 0 exactly.

    They are d, |d|^2, d* G and |G|^2 with d = E_loc - c and G(s) = ((H - c)^2 psi)(s) / psi(s), the
    sum of <s|H - c|s'> psi(s') / psi(s) d(s').  Real parts count.

    Args:
        operator: the Hamiltonian.
        snapshot: of M samples, with ratios; those without weight lead nowhere.
        ask: gives E_loc of some s' (K, N).
        uniforms: numbers (M, n) by which n of the s' of each sample are drawn, by the size of their
            part in E_loc; |G|^2 is made of two different ones, so it has no bias.  None: all s'.
        known: E_loc of the samples (M,), and c, near the energy.
    """
    parts = [*connected(operator, snapshot)]
    if not parts:  # H is diagonal
        parts = [(np.zeros(0, int), to_host(snapshot.configs)[:0, :], np.zeros(0), np.zeros(0))]
    rows, configs, ratios, elements = (np.concatenate(each) for each in zip(*parts, strict=True))
    local, centre = known
    weight = np.ones(len(local)) if snapshot.weight is None else to_host(snapshot.weight)
    factors = np.where(weight[rows] > 0, elements * ratios, 0.0)
    nothing = len(np.unique(rows[(ratios == 0) & (weight[rows] > 0)])) / len(local)
    sizes = np.abs(factors)
    chosen, n, sums = np.flatnonzero(factors), 1, np.bincount(rows, sizes, len(local))
    if uniforms is not None:
        order, n = np.argsort(rows, kind="stable"), uniforms.shape[1]
        at = (np.cumsum(sums) - sums)[:, None] + uniforms * sums[:, None]
        places = np.searchsorted(np.cumsum(sizes[order]), at[sums > 0].ravel(), side="right")
        chosen = order[np.minimum(places, len(order) - 1)]
        factors = factors / np.where(sizes > 0, sizes, 1.0) * sums[rows] / n
    rows, d = rows[chosen], local - centre
    own = (np.asarray(to_host(operator.diagonal(snapshot.configs))) - centre) * d
    each, total = factors[chosen] * (ask(configs[chosen]) - centre), np.zeros(len(d), complex)
    np.add.at(total, rows, each)
    square = np.abs(total) ** 2
    if n > 1:
        square = (square - np.bincount(rows, np.abs(each) ** 2, len(d))) * n / (n - 1)
    fourth = np.abs(own) ** 2 + 2 * (own.conj() * total).real + square
    values = [d.real, np.abs(d) ** 2, (d.conj() * (own + total)).real, fourth]
    return np.stack(values, axis=1), nothing
