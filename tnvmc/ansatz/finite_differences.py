"""Log-derivatives of a wave function that knows its amplitudes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.backend.namespace import array_namespace

Array = Any


def central_differences(
    log_amplitude: Callable[[Array, Array], LogAmplitude], theta: Array, configs: Array
) -> Array:
    """Give O_k(s) = d ln psi(s) / d theta_k by central differences in theta.

    With f = ln psi and a step h the error is h^2 |f'''| / 6 from the truncated series and at most
    eps |f| / h from rounding.  For f and f''' of order 1 their sum is least at h = (3 eps)^(1/3);
    taken is h = eps^(1/3) max(1, |theta_k|), with which both are some eps^(2/3): 4e-11 in double
    precision, 2e-5 in single.  Parameters on which psi depends over lengths far below 1 want
    derivatives of their own.

    Args:
        log_amplitude: of theta (P,) and configs (B, N).
        theta: (P,) real, or complex where psi is holomorphic in it: steps are taken along the real
            axis alone.
        configs: (B, N).

    Returns:
        (B, P), complex where phases are; zero where psi = 0, at theta or after a step.

    Cost: 2 P amplitudes per configuration.
    """
    xp = array_namespace(theta, configs)
    alive = log_amplitude(theta, configs).phase != 0
    sizes = xp.maximum(xp.abs(theta), xp.ones_like(xp.abs(theta)))
    steps = float(xp.finfo(theta.dtype).eps) ** (1 / 3) * sizes
    columns = []
    for k in range(theta.shape[0]):
        above, below = xp.asarray(theta, copy=True), xp.asarray(theta, copy=True)
        above[k], below[k] = theta[k] + steps[k], theta[k] - steps[k]
        distance = above[k] - below[k]  # as it was rounded
        columns.append(_logarithm(log_amplitude(above, configs), log_amplitude(below, configs)))
        columns[-1] = xp.where(alive, columns[-1] / distance, xp.zeros_like(columns[-1]))
    return xp.stack(columns, axis=1)


def _logarithm(new: LogAmplitude, old: LogAmplitude) -> Array:
    """ln(psi'/psi) (B,) of amplitudes near each other, 0 where one vanishes.

    Real where phases are: psi then has not changed its sign within a step.
    """
    xp = array_namespace(new.phase)
    dead = (new.phase == 0) | (old.phase == 0)
    nothing = xp.zeros_like(new.log_abs)
    gap = xp.where(dead, nothing, new.log_abs) - xp.where(dead, nothing, old.log_abs)
    if not xp.isdtype(new.phase.dtype, "complex floating"):
        return gap
    turned = xp.where(dead, xp.ones_like(new.phase), new.phase * xp.conj(old.phase))
    angle = xp.atan2(xp.imag(turned), xp.real(turned))
    return gap + 1j * angle
