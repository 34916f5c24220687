"""What a Hamiltonian, a wave function and its parameters must have in common."""

from __future__ import annotations

import math
from typing import Any

from tnvmc.ansatz.protocol import Ansatz, real_state
from tnvmc.backend.namespace import array_namespace
from tnvmc.operators.term import Operator
from tnvmc.vmc import step

Array = Any


def check_parameters(ansatz: Ansatz, theta: Array) -> None:
    """Raise ValueError for parameters of another number, or not finite."""
    if tuple(theta.shape) != (ansatz.n_params,):
        raise ValueError(
            f"VMC: theta has shape {tuple(theta.shape)}, the ansatz has {ansatz.n_params} "
            "parameters; were they made for another D or lattice?"
        )
    if not math.isfinite(step.norm(theta)):
        raise ValueError("VMC: theta holds numbers that are not finite")


def check_phases(operator: Operator, ansatz: Ansatz, theta: Array, configs: Array) -> None:
    """Raise ValueError for a complex Hamiltonian of a real wave function."""
    if not operator.is_complex:
        return
    phase = ansatz.log_amplitude(theta, configs[:1, :]).phase
    if not array_namespace(phase).isdtype(phase.dtype, "complex floating"):
        raise real_state(operator, f"{type(ansatz).__name__}, theta is {theta.dtype}")


def check_lattices(operator: Operator, ansatz: Ansatz) -> None:
    """Raise ValueError for a Hamiltonian and a wave function of two lattices or of other sites."""
    if operator.lattice.shape != ansatz.lattice.shape:
        there, here = (" x ".join(map(str, x.lattice.shape)) for x in (operator, ansatz))
        raise ValueError(
            f"VMC: the Hamiltonian has {there} sites, the wave function on {here}; make both "
            "from one lattice"
        )
    if operator.local_dim != ansatz.local_dim:
        raise ValueError(
            f"VMC: the Hamiltonian has {operator.local_dim} states a site, the wave function "
            f"{ansatz.local_dim}; give both the same local_dim"
        )
