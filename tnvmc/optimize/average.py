"""The covariance of stochastic reconfiguration, averaged over steps.

S changes slowly from step to step, the force quickly, and both are noisy.  Where samples are about as
many as parameters the noise of S is the worse: its small eigenvalues come out near zero, and what
the noise of the force puts there is blown up (the peak at the interpolation threshold, Hastie et
al., Ann. Stat. 50, 949 (2022)).  An average over the last steps has the samples of all of them for S.
"""

from __future__ import annotations

from typing import Any

from tnvmc.backend.namespace import array_namespace
from tnvmc.optimize.rule import State

Array = Any

MOST_PARAMETERS = 4096
"""Up to so many parameters S is kept from step to step: 64 MiB of float32."""

LEAST_SHIFT = 1e-4
"""Least shift, in units of the mean diagonal, above the rounding of single precision: the direction
moves by 1e-4 with 1e-6, by 1e-2 with 1e-8, and without a shift it is rounding alone."""

LEAST_TRACE = 1e-25
"""Of S; smaller ones vanish in single precision."""


def empty(theta: Array) -> State:
    """State before the first step: a sum of nothing."""
    xp = array_namespace(theta)
    dtype = xp.complex64 if xp.isdtype(theta.dtype, "complex floating") else xp.float32
    n = theta.shape[0]
    return {"covariance": xp.zeros((n, n), dtype=dtype), "averaged": 0}


def add(state: State, covariance: Array, memory: float) -> tuple[float, State]:
    """Give what the sum is to be divided by, and the state with one more covariance (P, P).

    The covariance of k steps ago counts memory^k.  The sum is kept in single precision: a relative
    change of 1e-7 is far below both the noise and the shift.
    """
    kept = state["covariance"]
    total = array_namespace(covariance).astype(covariance, kept.dtype, copy=False)
    if steps := int(state["averaged"]):
        total += memory * kept
    norm = steps + 1 if memory == 1 else (1 - memory ** (steps + 1)) / (1 - memory)
    return norm, {"covariance": total, "averaged": steps + 1}


def effective_steps(memory: float, steps: int) -> float:
    """As how many equal ones `steps` weighted by powers of the memory count (Kish)."""
    return (1 + memory) / (1 - memory) * (1 - memory**steps) / (1 + memory**steps)
