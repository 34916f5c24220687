"""The networks that benchmarks run on, and steps of them by this code: one place for their sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tnvmc import SR, VMC, Sampler, j1j2, square
from tnvmc.ansatz.neural import NETWORKS
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.operators.term import Operator

N_SAMPLES, SHIFT, RATE = 1024, 0.01, 0.02

SIZES: dict[str, dict[str, Any]] = {
    "rbm": {"alpha": 1, "form": "log_cosh", "dtype": "float64"},
    "cnn": {"features": [8, 8], "kernel": 3, "output": "real"},
    "vit": {"width": 24, "heads": 4, "patch": 2, "output": "real"},
}
"""Real ones: NetKet and this code treat complex ones alike, at twice the cost."""


def hamiltonian() -> Operator:
    """The open 4x4 J1-J2 model at J2 = 0.5: 42 bonds."""
    return j1j2(square(4, 4), J2=0.5)


def network(kind: str, operator: Operator) -> FlaxAnsatz:
    """A network of `SIZES` on the lattice of an operator."""
    lattice, module = operator.lattice, NETWORKS[kind].load()
    return FlaxAnsatz(lattice, lambda rngs: module(lattice, rngs=rngs, **SIZES[kind]))


def steps_of(kind: str, n_walkers: int) -> Callable[[int], Any]:
    """Make a function that makes steps: draws from |psi|^2, SR, fixed rate."""
    operator = hamiltonian()
    ansatz = network(kind, operator)
    sampler = Sampler(n_walkers, N_SAMPLES, n_burn=0, power=1.0)
    theta = ansatz.random(0)
    return VMC(operator, ansatz, sampler, SR(SHIFT), theta=theta, learning_rate=RATE).run
