"""Sweeps of a network: several of them in one compiled loop, blocks of walkers side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from tnvmc.ansatz.metropolis import MoveCounts, PlainSweep
from tnvmc.ansatz.neural import metropolis
from tnvmc.ansatz.neural.batches import (
    MOST_IN_BLOCK,
    ONE_THREAD,
    even,
    padded,
    padded_size,
    side_by_side,
)
from tnvmc.ansatz.neural.dlpack import beside, called, from_jax, to_jax
from tnvmc.ansatz.protocol import LogAmplitude, SweepInfo, Targets, Walkers
from tnvmc.backend.namespace import array_namespace, is_cupy

if TYPE_CHECKING:
    from tnvmc.ansatz.neural.flax import FlaxAnsatz

Array = Any

_TOGETHER = 16
"""Sweeps in one compiled loop.  Each visit of it looks at the configurations after all of them: with 64
the loop of 16 walkers took 1.6 times as long."""


class CompiledSweeps(PlainSweep):
    """`sweep`, `tempered_sweep` and `walk` of a `FlaxAnsatz`; see `neural.metropolis`."""

    def tempered_sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array, power: Array
    ) -> tuple[Walkers, SweepInfo]:
        """`sweep` of walkers that sample |psi|^(2 power), with `power` (B,)."""
        return self.walk(theta, walkers, moves, uniforms[None, ...], power)

    def walk(
        self: Any,
        theta: Array,
        walkers: Walkers,
        moves: Targets,
        uniforms: Array,
        power: Array | float,
    ) -> tuple[Walkers, SweepInfo]:
        """K sweeps with uniforms (K, B, n_moves): the walkers after each, (K * B), sweep by sweep.

        Walkers move in blocks whose size depends on their number and on the network, and the blocks side
        by side.
        """
        ansatz: FlaxAnsatz = self
        xp = array_namespace(uniforms)
        n_sweeps, n_walkers, _ = uniforms.shape
        configs, amplitude = walkers.configs, walkers.amplitude
        if not moves:
            stay = [
                xp.concat([part] * n_sweeps)
                for part in (configs, amplitude.phase, amplitude.log_abs)
            ]
            info = MoveCounts(n_walkers, ansatz.local_dim, uniforms).info()
            return Walkers(stay[0], LogAmplitude(*stay[1:])), info
        plan, on_a_gpu = self._plan(moves, uniforms), is_cupy(configs)
        run = partial(
            called, partial(self._sweeps, block=ansatz.block(configs)), to_jax(theta), plan
        )
        power = power * xp.ones(n_walkers, dtype=uniforms.dtype)
        rows = (configs, amplitude.phase, amplitude.log_abs, power)
        numbers = _filled(uniforms, plan.widths.shape[0])
        most = MOST_IN_BLOCK // ansatz.averaging.n_images
        length = n_walkers if on_a_gpu else even(n_walkers, most)

        def block(begin: int) -> metropolis.Moved:
            own = slice(begin, min(begin + length, n_walkers))
            return _walked(run, [array[own, ...] for array in rows], numbers[own, ...], n_sweeps)

        blocks = side_by_side(block, range(0, n_walkers, length), on_a_gpu)
        configs, phase, log_abs, *counts = (
            _joined(parts, xp, axis)
            for parts, axis in zip(zip(*blocks, strict=True), (1, 1, 1, 0, 0), strict=True)
        )
        amplitude = LogAmplitude(xp.reshape(phase, (-1,)), xp.reshape(log_abs, (-1,)))
        return Walkers(xp.reshape(configs, (-1, configs.shape[2])), amplitude), SweepInfo(*counts)

    def _plan(self: Any, moves: Targets, uniforms: Array) -> metropolis.MovePlan:
        """The moves as JAX arrays, made once for all sweeps of a step."""
        if self._planned.get("moves") is not moves:
            made = metropolis.plan_moves(moves, self.local_dim)
            self._planned.update(moves=moves, plan=beside(made, uniforms))
        plan: metropolis.MovePlan = self._planned["plan"]
        return plan

    @cached_property
    def _planned(self) -> dict[str, Any]:
        return {}

    @cached_property
    def _sweeps(self: Any) -> Any:
        def run(
            theta: Array,
            plan: metropolis.MovePlan,
            chains: metropolis.Chains,
            uniforms: Array,
            block: int | None,
        ) -> tuple[metropolis.Moved, metropolis.Chains]:
            n_rows = chains.configs.shape[0]
            log_psi = partial(self._polar, theta, n_rows=n_rows, block=block)
            plan = jax.tree.map(jnp.asarray, plan)
            return metropolis.sweeps(log_psi, chains, uniforms, plan)

        return jax.jit(run, static_argnames="block", compiler_options=ONE_THREAD)


def _walked(run: Any, rows: list[Array], numbers: Array, n_sweeps: int) -> metropolis.Moved:
    """Walkers of a block (b, ...) after each of the sweeps with numbers (b, K', n)."""
    xp = array_namespace(numbers)
    n_walkers = numbers.shape[0]
    size = padded_size(n_walkers)
    active = xp.astype(xp.arange(size) < n_walkers, xp.int32)
    chains = metropolis.Chains._make([*(to_jax(padded(array, size)) for array in rows), active])
    length = min(numbers.shape[1], _TOGETHER)
    done = []
    for begin in range(0, n_sweeps, length):
        times = to_jax(min(length, n_sweeps - begin) * active)
        piece = to_jax(padded(numbers[:, begin : begin + length, :], size))
        moved, chains = run(chains._replace(n_sweeps=times), piece)
        done.append([from_jax(array, xp) for array in moved])
    configs, phase, log_abs = (
        _joined([each[k] for each in done], xp, 0)[:n_sweeps, :n_walkers, ...] for k in range(3)
    )
    proposed, accepted = (sum(each[k][:n_walkers, :] for each in done) for k in (3, 4))
    return metropolis.Moved(configs, phase, log_abs, proposed, accepted)


def _filled(uniforms: Array, n_rows: int) -> Array:
    """Numbers (B, K', n_rows) of (K, B, n_moves), K' >= K one of few: each is compiled."""
    xp = array_namespace(uniforms)
    n_sweeps, n_walkers, n_moves = uniforms.shape
    n_passes = min(1 << (n_sweeps - 1).bit_length(), -(-n_sweeps // _TOGETHER) * _TOGETHER)
    numbers = xp.zeros((n_walkers, n_passes, n_rows), dtype=uniforms.dtype)
    numbers[:, :n_sweeps, :n_moves] = xp.permute_dims(uniforms, (1, 0, 2))
    return numbers


def _joined(parts: Sequence[Array], xp: Any, axis: int) -> Array:
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=axis)
