"""Energies of a PEPS from all its amplitudes, for at most 16 spins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tnvmc.contraction.double_layer import log_amplitude
from tnvmc.operators.basis import Basis
from tnvmc.operators.term import Operator

AT_ONCE = 4096  # amplitudes, for memory


def exact_energy(
    tensors: Sequence[np.ndarray], operator: Operator, magnetisation: int | None = None
) -> float:
    """<psi|H|psi> / <psi|psi> of psi, or of its component in a sector."""
    basis = Basis(operator.n_sites, operator.local_dim, magnetisation)
    configs = basis.configs(basis.codes)
    parts = np.split(configs, range(AT_ONCE, len(configs), AT_ONCE))
    found = [log_amplitude(tensors, operator.lattice.shape, part) for part in parts]
    phase, log_abs = (np.concatenate(each) for each in zip(*found, strict=True))
    psi = phase * np.exp(log_abs - log_abs.max())
    return float(
        np.vdot(psi, operator.sparse(basis.magnetisation) @ psi).real / np.vdot(psi, psi).real
    )
