"""Metropolis sweeps compiled as one loop: no return to Python between moves.

Each walker goes through the moves in their order by itself and skips those that are impossible for
it (an exchange of equal spins), so that hardly an amplitude is evaluated in vain: a sweep over n
exchanges costs about n/2 amplitudes per walker instead of n.  What a walker does depends on no
other walker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tnvmc.ansatz.generic import CAP
from tnvmc.ansatz.protocol import MOVE_KINDS, Targets
from tnvmc.ansatz.tally import kind_table
from tnvmc.backend.namespace import to_host

Array = Any

LogPsi = Callable[[Array], tuple[Array, Array]]
"""Configurations (B, N) to phase (B,) and ln|psi| (B,)."""

_AHEAD = 4
"""Moves that a walker looks through at a time for one that is possible: half of the exchanges are,
and fifteen in sixteen walkers find one in four."""


class MovePlan(NamedTuple):
    """The moves of a sweep as arrays, each padded to one size.

    Sizes are rounded up, so that lists of about the same length share one compilation.  What belongs
    to a move stands in one row, and what a move does in one number: at few walkers the time of a
    sweep is the number of gathers.
    """

    n_moves: Array  #: ()
    rows: Array  #: (n, 2 k + 1) sites, weight of each site's digit (0: no site), width R
    digits: Array  #: (d^k, k) of each local state of a patch of k sites
    outcomes: Array  #: (n, d^k or more, R) kind of the move + len(MOVE_KINDS) * target; -1: none


class Chains(NamedTuple):
    """Walkers before a sweep."""

    configs: Array  #: (B, N)
    phase: Array  #: (B,)
    log_abs: Array  #: (B,)
    power: Array  #: (B,) of |psi|^2 that is sampled: 1 but for tempered chains
    n_sweeps: Array  #: (B,) how often each goes through the moves; 0: it rests


class Moved(NamedTuple):
    """Walkers after each of K sweeps; what comes after their last one is not theirs."""

    configs: Array  #: (K, B, N)
    phase: Array  #: (K, B)
    log_abs: Array  #: (K, B)
    proposed: Array  #: (B, kinds) float counts, of all sweeps
    accepted: Array


def plan_moves(moves: Targets, local_dim: int) -> MovePlan:
    """Put tables of moves into arrays; remembered, since a run asks again at every sweep."""
    tables = tuple(to_host(table) for table in moves.values())
    keys = tuple((table.shape, table.dtype.str, table.tobytes()) for table in tables)
    return _plan(tuple(moves), keys, local_dim)


@lru_cache(maxsize=64)
def _plan(patches: tuple[tuple[int, ...], ...], keys: tuple[Any, ...], local_dim: int) -> MovePlan:
    n_moves = len(patches)
    n_rows = max(16, 1 << (n_moves - 1).bit_length())
    k = max(2, *map(len, patches))
    width = max(1, *(shape[1] for shape, _, _ in keys))
    states = max(4, local_dim**k)
    rows = np.zeros((n_rows, 2 * k + 1), dtype=np.int32)
    rows[:, -1] = 1
    outcomes = np.full((n_rows, states, width), -1, dtype=np.int32)
    for move, (patch, (shape, dtype, content)) in enumerate(zip(patches, keys, strict=True)):
        table = np.frombuffer(content, dtype).reshape(shape)
        rows[move, : len(patch)] = patch
        rows[move, k : k + len(patch)] = local_dim ** np.arange(len(patch) - 1, -1, -1)
        rows[move, -1] = shape[1]
        kinds = np.take_along_axis(kind_table(len(patch), local_dim), np.maximum(table, 0), axis=1)
        last = local_dim ** (k - len(patch))  # a patch of fewer sites has digits 0 after its own
        packed = np.where(table >= 0, kinds + len(MOVE_KINDS) * last * table.astype(np.int64), -1)
        outcomes[move, : shape[0], : shape[1]] = packed
    digits = np.indices((local_dim,) * k, dtype=np.int8).reshape(k, -1).T
    return MovePlan(np.array(n_moves, np.int32), rows, digits, outcomes)


class _Way(NamedTuple):
    """Where walkers are on their way through the sweeps."""

    sweep: Array  #: (B,)
    place: Array  #: (B,) next move of the sweep
    configs: Array
    phase: Array
    log_abs: Array
    moved: Moved


def sweeps(
    log_psi: LogPsi, chains: Chains, uniforms: Array, plan: MovePlan
) -> tuple[Moved, Chains]:
    """Visit all moves up to K times with uniform numbers (B, K, n); traceable.

    Returns what comes after every sweep, and the chains at the end.  A move is accepted with the probability of `ansatz.generic.acceptance`.  No walker waits at the
    end of a sweep for another one.
    """
    configs, phase, log_abs, power, until = chains
    n_walkers, n_sweeps, _ = uniforms.shape
    walker, columns, ahead, stop = (
        jnp.arange(n, dtype=jnp.int32) for n in (n_walkers, configs.shape[1], _AHEAD, n_sweeps)
    )
    k, n_kinds = plan.rows.shape[1] // 2, len(MOVE_KINDS)

    def visit(way: _Way) -> _Way:
        seen = way.place[:, None] + ahead
        inside = (seen < plan.n_moves) & (way.sweep < until)[:, None]
        seen = jnp.where(inside, seen, 0)
        rows = plan.rows[seen]
        digits = way.configs[walker[:, None, None], rows[:, :, :k]].astype(jnp.int32)
        states = jnp.sum(digits * rows[:, :, k : 2 * k], axis=2, dtype=jnp.int32)
        scaled = uniforms[walker[:, None], way.sweep[:, None], seen] * rows[:, :, -1]
        pick = jnp.floor(scaled)
        outcomes = plan.outcomes[seen, states, pick.astype(jnp.int32)]
        possible = inside & (outcomes >= 0)
        found, first = jnp.any(possible, axis=1), jnp.argmax(possible, axis=1).astype(jnp.int32)
        outcome, row = outcomes[walker, first], rows[walker, first]
        kind, digits = outcome % n_kinds, plan.digits[outcome // n_kinds]
        trial = way.configs
        for j in range(k):
            here = (columns == row[:, j, None]) & (found & (row[:, k + j] > 0))[:, None]
            trial = jnp.where(here, digits[:, j, None].astype(trial.dtype), trial)
        new_phase, new_log = log_psi(trial)
        chance = _acceptance(new_phase, new_log, way.phase, way.log_abs, power)
        taken = found & ((scaled - pick)[walker, first] < chance)
        configs = jnp.where(taken[:, None], trial, way.configs)
        phase = jnp.where(taken, new_phase, way.phase)
        log_abs = jnp.where(taken, new_log, way.log_abs)
        counted = found[:, None] & (kind[:, None] == jnp.arange(n_kinds))
        now, moved = stop[:, None] == way.sweep, way.moved  # of a sweep the last write stays
        moved = Moved(
            jnp.where(now[:, :, None], configs, moved.configs),
            jnp.where(now, phase, moved.phase),
            jnp.where(now, log_abs, moved.log_abs),
            moved.proposed + counted,
            moved.accepted + (counted & taken[:, None]),
        )
        place = way.place + jnp.where(found, first + 1, _AHEAD)
        ends = place >= plan.n_moves
        sweep = way.sweep + (ends & (way.sweep < until))
        return _Way(sweep, jnp.where(ends, 0, place), configs, phase, log_abs, moved)

    zeros = jnp.zeros((n_walkers, n_kinds))
    nowhere = Moved(
        jnp.zeros((n_sweeps, *configs.shape), configs.dtype),
        jnp.zeros((n_sweeps, n_walkers), phase.dtype),
        jnp.zeros((n_sweeps, n_walkers), log_abs.dtype),
        zeros,
        zeros,
    )
    start = jnp.zeros_like(until)
    way = _Way(start, start, configs, phase, log_abs, nowhere)
    way = jax.lax.while_loop(lambda way: jnp.any(way.sweep < until), visit, way)
    return way.moved, Chains(way.configs, way.phase, way.log_abs, power, until)


def _acceptance(
    new_phase: Array, new_log: Array, old_phase: Array, old_log: Array, power: Array
) -> Array:
    """As `ansatz.generic.acceptance`: out of psi = 0 always, within psi = 0 half of the time."""
    new_zero, old_zero = new_phase == 0, old_phase == 0
    gap = 2.0 * power * jnp.where(new_zero | old_zero, 0.0, new_log - old_log)
    share = CAP / (1.0 + jnp.exp(-jnp.abs(gap)))
    chance = jnp.exp(jnp.minimum(gap, 0.0)) * jnp.minimum(share, 1.0)
    chance = jnp.where(new_zero, 0.0, chance)
    return jnp.where(old_zero, jnp.where(new_zero, 0.5, 1.0), chance)
