"""Parameters at which a state is nearly constant, so that a product with it starts as the other
factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from tnvmc.ansatz.files import probe_configs
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend.namespace import to_host

Array = Any

LARGEST = 0.02
"""Standard deviation of ln psi, over a few configurations, that counts as nearly constant.  With
0.05 a CNN with random phases raised the energy of an optimised PEPS by 5e-3 of itself."""

_HALVINGS = 20


def nearly_constant(ansatz: Ansatz, theta: np.ndarray) -> np.ndarray:
    """Halve parameters (P,) until ln psi differs by `LARGEST` at most between configurations.

    The deviation is that of ln psi over 16 configurations of one sector.  Of a network with a
    readout only the readout is halved: the layers before it keep the features that they start with,
    and log-derivatives with respect to the readout their size; where all weights are small, those
    of a deep network vanish to a high order. Else, or where this is not enough, all parameters are.
     Networks and Jastrow factors get there; not at 0 itself, where the log-derivatives of a network
     would vanish.  Parameters of a state that does not get there
    (tensors, or signs that are fixed) come back as they are: the product starts elsewhere then.
    """
    configs, readout = probe_configs(ansatz), ansatz.readout
    for which in ([] if readout is None else [readout]) + [np.ones(theta.shape, dtype=bool)]:
        smaller = theta
        for _ in range(_HALVINGS):
            if deviation(ansatz, smaller, configs) <= LARGEST:
                return smaller
            smaller = np.where(which, smaller / 2, smaller)
    return theta


def deviation(ansatz: Ansatz, theta: np.ndarray, configs: np.ndarray) -> float:
    """Give the standard deviation of ln psi, its phase relative to the first configuration."""
    amplitude = ansatz.log_amplitude(theta, configs)
    log_abs, phase = to_host(amplitude.log_abs), to_host(amplitude.phase)
    if not (np.isfinite(log_abs).all() and (phase != 0).all()):
        return float("inf")
    return float(np.std(log_abs + 1j * np.angle(phase / phase[0])))
