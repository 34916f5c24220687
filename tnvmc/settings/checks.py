"""Checks of settings that need the Hamiltonian, the lattice or the memory of the machine."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tnvmc.backend.process import memory_limit
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.settings.config import NOT_DRAWN, Settings, build_operator
from tnvmc.settings.model_settings import build_lattice
from tnvmc.settings.problems import ConfigError, ConfigProblem, conflict

_BUILT: dict[str, Operator | None] = {}
"""The last Hamiltonians, by their settings."""


def hamiltonian(settings: Settings) -> Operator | None:
    """Build the Hamiltonian; None where the couplings do not fit, which the run tells."""
    key = settings.lattice.model_dump_json() + settings.hamiltonian.model_dump_json()
    if key not in _BUILT:
        if len(_BUILT) > 3:
            _BUILT.pop(next(iter(_BUILT)))
        _BUILT[key] = None
        with contextlib.suppress(ValueError):
            _BUILT[key] = build_operator(settings)
    return _BUILT[key]


def sector_problems(settings: Settings) -> Iterator[ConfigProblem]:
    """Find a magnetisation that the Hamiltonian or a sum over symmetries lacks; builds H."""
    ansatz, sampled = settings.ansatz, settings.sampler.magnetisation
    if sampled is None or (operator := hamiltonian(settings)) is None:
        return
    if not operator.conserves_magnetisation:
        why = "this Hamiltonian does not conserve it, so that there is no such sector; leave it out"
        yield conflict("sampler.magnetisation", why, sampled)
        return
    for key in ("average", "symmetrise"):
        if sampled and "spin" in (getattr(ansatz, key, None) or ()):
            why = (
                f"spin inversion takes 2 Sz = {sampled} to {-sampled}, so that such a state has no "
                "sign under it; leave out 'spin', or take magnetisation = 0"
            )
            yield conflict(f"ansatz.{key}", why)


def type_problems(settings: Settings) -> Iterator[ConfigProblem]:
    """Find a real wave function for a complex Hamiltonian; builds H."""
    dtype = settings.ansatz.dtype
    if settings.ansatz.is_network or settings.ansatz.factors:
        return
    real = dtype in ("float64", "float32")
    if real and (operator := hamiltonian(settings)) is not None and operator.is_complex:
        why = (
            "the Hamiltonian is complex, its ground state has phases; take 'complex128', or leave "
            "it out"
        )
        yield conflict("ansatz.dtype", why, dtype)


def check_symmetries(settings: Settings, operator: Operator, direct: bool = False) -> None:
    """Refuse to measure by symmetries that the Hamiltonian lacks (ValueError), or by direct draws.

    `direct` says that samples are drawn directly whatever the settings say.
    """
    if not settings.measure.symmetrise:
        return
    symmetry_group(operator, settings.measure.symmetrise)
    if direct:
        raise ConfigError(conflict("measure.symmetrise", f"{NOT_DRAWN}; leave out --direct"))


def check_memory(settings: Settings, n_params: int, local_dim: int) -> None:
    """Raise `ConfigError` where the first parameters alone need more memory than there is.

    Simple update, and parameters that tensors share, need a tensor with all bonds of dimension D
    for each place of the grid; any start the parameters and their first update.
    """
    state = settings.ansatz.leading
    D: Any = getattr(state, "D", None)
    needed, what = 2 * n_params * np.dtype(state.dtype).itemsize, "its parameters and their update"
    if state.kind == "peps" and (state.init == "simple_update" or state.sharing):
        shape = build_lattice(settings.lattice).shape
        n_legs = 2 * sum(length > 1 for length in shape)
        padded = math.prod(shape) * local_dim * D**n_legs * np.dtype(float).itemsize
        needed, what = max(
            (needed, what), (padded, "its tensors" if state.sharing else "simple update")
        )
    if needed > (limit := memory_limit()):
        key = f"ansatz.D = {D}" if D else f"ansatz.kind = '{state.kind}'"
        raise ConfigError(
            f"{key}: not enough memory: {what} would take {needed / 2**30:,.0f} GiB of "
            f"{limit / 2**30:,.1f} GiB; take a smaller {'D' if D else 'network'}"
        )
