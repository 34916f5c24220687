"""The covariance of stochastic reconfiguration, averaged over steps.

S changes slowly from step to step, the force quickly, and both are noisy.  Where samples are about
as many as parameters the noise of S is the worse: its small eigenvalues come out near zero, and
what the noise of the force puts there is blown up (the peak at the interpolation threshold, Hastie
et al., Ann. Stat. 50, 949 (2022)).  An average over the last steps has the samples of all of them
for S.
"""

import math
from typing import Any

import numpy as np

from tnvmc.backend.namespace import array_namespace, is_complex, to_host, to_namespace
from tnvmc.jacobian.centered import CenteredJacobian
from tnvmc.jacobian.covariance import Covariance, of_numbers, plus
from tnvmc.jacobian.tiles import n_stored, tiles_of
from tnvmc.optimize.rule import RuleState

Array = Any

LEAST_SHIFT = 1e-4
"""Least shift, in units of the mean diagonal, above the rounding of single precision: the direction
moves by 1e-4 with 1e-6, by 1e-2 with 1e-8, and without a shift it is rounding alone."""

LEAST_TRACE = 1e-25
"""Of S; smaller ones vanish in single precision."""


def empty(theta: Array) -> RuleState:
    """State before the first step: a sum of nothing."""
    xp = array_namespace(theta)
    dtype = xp.complex64 if is_complex(theta) else xp.float32
    n = theta.shape[0]
    return {
        "covariance": xp.zeros(n_stored(n) if xp is np else (n, n), dtype=dtype),
        "counted": 0.0,
        "squares": 0.0,
        "at": theta,
    }


def remembered(memory: float, distance: float) -> float:
    """Give what earlier covariances count for a state that has moved by some reaches.

    Its overlap with that one falls as 1 - distance^2 / 2, and S with it: an old S makes directions
    too long where S grows, as near a random start.
    """
    return memory * math.exp(-(distance**2))


def add(state: RuleState, a: CenteredJacobian, factor: float, theta: Array) -> RuleState:
    """Give the state with the covariance (P, P) of one more A, that at `theta`; earlier ones count
    `factor` less.

    The sum is kept in single precision: a relative change of 1e-7 is far below both the noise and
    the shift.  `counted` is the sum of the weights, which it is to be divided by, `squares` that of
    their squares.
    """
    counted, squares = float(state["counted"]), float(state["squares"])
    kept, factor = state["covariance"], factor if counted else 0.0
    if array_namespace(theta) is np:
        if not isinstance(kept, Covariance):  # of a file, or of no step yet
            kept = of_numbers(kept, len(theta))
        total = plus(kept, a, factor)
    else:
        total = factor * kept
        a.add_covariance(total)
    return {
        "covariance": total,
        "counted": 1.0 + factor * counted,
        "squares": 1.0 + factor**2 * squares,
        "at": theta,
    }


def in_form_of(found: Array, wanted: Array) -> Array:
    """Give an S of a file in the form of this version: half of it on processors, else all."""
    if len(found.shape) == len(wanted.shape):
        return found
    xp = array_namespace(found)
    if len(found.shape) == 2:
        return np.concatenate([found[tile, : tile.stop].ravel() for tile in tiles_of(len(found))])
    whole = of_numbers(to_host(found), wanted.shape[0]).dense()
    return to_namespace(whole, xp)
