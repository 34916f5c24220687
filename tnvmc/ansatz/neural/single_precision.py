"""Sweeps of a network in single precision."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax

from tnvmc.ansatz.protocol import SweepInfo, Targets, Walkers
from tnvmc.backend.namespace import array_namespace

if TYPE_CHECKING:
    from tnvmc.ansatz.neural.flax import FlaxAnsatz

Array = Any

_BELOW_ONE = 1 - 2.0**-24
"""The largest single below 1: a uniform number must not be rounded up to it."""


class SinglePrecisionNetwork:
    """`start` and `sweep` of a network from a theta in single precision.

    JAX is told that there is no other: whatever a module asks for in double is given in single,
    so modules need not know.  Products are not rounded further (no TF32 on a GPU).  What it does
    not do: anything but to walk; see `wrappers.mixed`.
    """

    def __init__(self, ansatz: FlaxAnsatz) -> None:
        # Compiled functions and constants of its own: JAX keeps a NumPy array that it has met in
        # the precision it had then.
        plain = copy(ansatz)
        for kind in type(ansatz).__mro__:
            for name, value in vars(kind).items():
                if isinstance(value, cached_property):
                    vars(plain).pop(name, None)
        self.ansatz = deepcopy(plain)

    def start(self, theta: Array, configs: Array) -> Walkers:
        """Walkers at `configs` (B, N)."""
        with _single_precision():
            return self.ansatz.start(theta, configs)

    def sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array
    ) -> tuple[Walkers, SweepInfo]:
        """Propose every move once."""
        with _single_precision():
            return self.ansatz.sweep(theta, walkers, moves, _lowered(uniforms))

    def tempered_sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array, power: Array
    ) -> tuple[Walkers, SweepInfo]:
        """`sweep` of walkers that sample |psi|^(2 power), with `power` (B,)."""
        power = array_namespace(power).astype(power, array_namespace(power).float32)
        with _single_precision():
            return self.ansatz.tempered_sweep(theta, walkers, moves, _lowered(uniforms), power)


def _lowered(uniforms: Array) -> Array:
    xp = array_namespace(uniforms)
    return xp.astype(xp.minimum(uniforms, xp.full_like(uniforms, _BELOW_ONE)), xp.float32)


@contextmanager
def _single_precision() -> Iterator[None]:
    with (
        jax.enable_x64(False),
        jax.default_matmul_precision("float32"),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Explicitly requested dtype")
        yield
