"""Mixed precision: walk in single precision, measure in double, and weigh away the difference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tnvmc.ansatz.protocol import (
    Ansatz,
    Execution,
    LogAmplitude,
    Snapshot,
    SweepInfo,
    Targets,
    Walkers,
)
from tnvmc.ansatz.wrappers.base import Wrapper
from tnvmc.backend.namespace import array_namespace

Array = Any

SINGLE = {"float64": "float32", "complex128": "complex64"}
"""The type of half the length, by that of theta."""


class Mixed(Wrapper):
    """The same state, its chains walked in single precision and its snapshots taken in double.

    Args:
        ansatz: a state that has sweeps in single precision (`Abilities.single`).

    Chains draw s from |psi_1|^2, which differs from |psi|^2 by rounding, and a snapshot gives s
    the weight |psi(s) / psi_1(s)|^2: to the order of one over the number of samples, nothing of
    the rounding is left in a weighted mean.  What the weights change is the bias that they take
    away.  Configurations where rounding makes psi_1 vanish are never drawn.

    Cost: sweeps in single precision; for every measurement a `start` in double precision beside
    it, since boundaries left behind by a sweep are too coarse to measure with.  So it pays where
    sweeps are many for a measurement, or single precision is much the faster.

    Source: importance sampling as in Owen, chapter 9.2 (see `estimate.statistics`).

    What it does not do: direct draws, which need no sweeps; log-derivatives in single precision.

    Raises:
        ValueError: an ansatz that has no sweeps in single precision, or no others.
    """

    def __init__(self, ansatz: Ansatz) -> None:
        dtype, walker = str(ansatz.dtype), ansatz.single
        if dtype not in SINGLE or walker is None:
            raise ValueError(
                f"sampler.precision = 'single': a {type(ansatz).__name__} "
                + (
                    f"with dtype {dtype} is in single precision as it is"
                    if dtype in SINGLE.values()
                    else "has no sweeps in single precision"
                )
                + "; leave it out"
            )
        super().__init__(ansatz)
        self.walker = walker
        self.tempered = ansatz.tempered
        self._dtype = SINGLE[dtype]

    def _around(self, ansatz: Ansatz) -> Mixed:
        """Give the same of another state."""
        return Mixed(ansatz)

    @property
    def execution(self) -> Execution:
        """As the inner state, whose measurements are the larger part; memory in both precisions."""
        inner = super().execution
        in_all = inner.bytes_per_walker
        return replace(inner, bytes_per_walker=None if in_all is None else in_all * 3 // 2)

    def log_amplitude(self, theta: Array, configs: Array) -> LogAmplitude:
        """psi(s) for configurations (B, N), in double precision."""
        return self.ansatz.log_amplitude(theta, configs)

    def start(self, theta: Array, configs: Array) -> Walkers:
        """Walkers in single precision."""
        return self.walker.start(self.lowered(theta), configs)

    def sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array
    ) -> tuple[Walkers, SweepInfo]:
        """A sweep in single precision."""
        return self.walker.sweep(self.lowered(theta), walkers, moves, uniforms)

    def tempered_sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array, power: Array
    ) -> tuple[Walkers, SweepInfo]:
        """Make a `sweep` of walkers that sample |psi|^(2 power), with `power` (B,)."""
        return self.walker.tempered_sweep(self.lowered(theta), walkers, moves, uniforms, power)

    def measure(
        self, theta: Array, walkers: Walkers, replacements: Targets, *, jacobian: bool = True
    ) -> tuple[Walkers, Snapshot]:
        """Measure by `ansatz`, with the weights |psi / psi_1|^2; the walkers stay as they are."""
        again = self.ansatz.start(theta, walkers.configs)
        _, snapshot = self.ansatz.measure(theta, again, replacements, jacobian=jacobian)
        xp = array_namespace(theta)
        walked = xp.astype(walkers.amplitude.log_abs, xp.float64)
        alive = xp.isfinite(walked) & xp.isfinite(snapshot.amplitude.log_abs)
        nothing = xp.zeros_like(walked)
        off = xp.where(alive, snapshot.amplitude.log_abs, nothing) - xp.where(
            alive, walked, nothing
        )
        return walkers, replace(snapshot, weight=xp.where(alive, xp.exp(2 * off), nothing))

    def lowered(self, theta: Array) -> Array:
        """theta (P,) in single precision."""
        xp = array_namespace(theta)
        return xp.astype(theta, getattr(xp, self._dtype))
