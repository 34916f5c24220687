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

    Sizes are rounded up, so that lists of about the same length share one compilation; site N is
    a place that belongs to no configuration.
    """

    n_moves: Array  #: ()
    sites: Array  #: (n, k)
    powers: Array  #: (n, k) weight of each site's digit in the local state; 0 where padded
    tables: Array  #: (n, d^k or more, R); -1 where there is no replacement
    widths: Array  #: (n,) R of each move
    kinds: Array  #: as `tables`: kind of the move, place in `MOVE_KINDS`


class Chains(NamedTuple):
    """Walkers before a sweep."""

    configs: Array  #: (B, N)
    phase: Array  #: (B,)
    log_abs: Array  #: (B,)
    power: Array  #: (B,) of |psi|^2 that is sampled: 1 but for tempered chains
    active: Array  #: (B,) bool; others rest


class Moved(NamedTuple):
    """Walkers after a sweep."""

    configs: Array  #: (B, N)
    phase: Array
    log_abs: Array
    proposed: Array  #: (B, kinds) float counts
    accepted: Array


def plan_moves(moves: Targets, n_sites: int, local_dim: int) -> MovePlan:
    """Put tables of moves into arrays; remembered, since a run asks again at every sweep."""
    tables = tuple(to_host(table) for table in moves.values())
    keys = tuple((table.shape, table.dtype.str, table.tobytes()) for table in tables)
    return _plan(tuple(moves), keys, n_sites, local_dim)


@lru_cache(maxsize=64)
def _plan(
    patches: tuple[tuple[int, ...], ...], keys: tuple[Any, ...], n_sites: int, local_dim: int
) -> MovePlan:
    n_moves = len(patches)
    rows = max(16, 1 << (n_moves - 1).bit_length())
    k = max(3, *map(len, patches))
    width = max(8, *(shape[1] for shape, _, _ in keys))
    states = max(8, local_dim**k)
    sites = np.full((rows, k), n_sites)
    powers = np.zeros((rows, k), dtype=np.int64)
    tables = np.full((rows, states, width), -1)
    widths = np.ones(rows, dtype=np.int64)
    kinds = np.zeros_like(tables)
    for move, (patch, (shape, dtype, content)) in enumerate(zip(patches, keys, strict=True)):
        table = np.frombuffer(content, dtype).reshape(shape)
        sites[move, : len(patch)] = patch
        powers[move, : len(patch)] = local_dim ** np.arange(len(patch) - 1, -1, -1)
        tables[move, : shape[0], : shape[1]] = table
        widths[move] = shape[1]
        targets = np.maximum(table, 0)
        of_patch = kind_table(len(patch), local_dim)
        kinds[move, : shape[0], : shape[1]] = np.take_along_axis(of_patch, targets, axis=1)
    return MovePlan(np.array(n_moves), sites, powers, tables, widths, kinds)


def sweep(
    log_psi: LogPsi, chains: Chains, uniforms: Array, plan: MovePlan, local_dim: int
) -> Moved:
    """Visit all moves once with uniform numbers (B, n); traceable.

    A move is accepted with the probability of `ansatz.generic.acceptance`.
    """
    configs, phase, log_abs, power, active = chains
    n_walkers, n_sites = configs.shape
    walker = jnp.arange(n_walkers)
    padded = jnp.concatenate([configs, jnp.zeros_like(configs[:, :1])], axis=1)
    ahead = jnp.arange(_AHEAD)

    def going(carry: Any) -> Array:
        return jnp.any(carry[0] < plan.n_moves)

    def visit(carry: Any) -> Any:
        place, padded, phase, log_abs, proposed, accepted = carry
        seen = place[:, None] + ahead
        inside = seen < plan.n_moves
        seen = jnp.where(inside, seen, 0)
        digits = padded[walker[:, None, None], plan.sites[seen]].astype(jnp.int64)
        states = jnp.sum(digits * plan.powers[seen], axis=2)
        scaled = uniforms[walker[:, None], seen] * plan.widths[seen]
        pick = jnp.floor(scaled)
        column = pick.astype(jnp.int64)
        target = plan.tables[seen, states, column]
        possible = inside & (target >= 0)
        first = jnp.argmax(possible, axis=1)
        found = possible[walker, first]
        move, state = seen[walker, first], jnp.maximum(target[walker, first], 0)
        powers = plan.powers[move]
        digits = (state[:, None] // jnp.maximum(powers, 1)) % local_dim
        old = padded[walker[:, None], plan.sites[move]]
        digits = jnp.where((powers > 0) & found[:, None], digits, old).astype(padded.dtype)
        trial = padded.at[walker[:, None], plan.sites[move]].set(digits)
        new_phase, new_log = log_psi(trial[:, :n_sites])
        chance = _acceptance(new_phase, new_log, phase, log_abs, power)
        remainder = (scaled - pick)[walker, first]
        taken = found & (remainder < chance)
        padded = jnp.where(taken[:, None], trial, padded)
        phase = jnp.where(taken, new_phase, phase)
        log_abs = jnp.where(taken, new_log, log_abs)
        place = place + jnp.where(found, first + 1, _AHEAD)
        kind = plan.kinds[seen, states, column][walker, first]
        here = found[:, None] & (kind[:, None] == jnp.arange(len(MOVE_KINDS)))
        counts = proposed + here, accepted + (here & taken[:, None])
        return place, padded, phase, log_abs, *counts

    place = jnp.where(active, 0, plan.n_moves)
    zeros = jnp.zeros((n_walkers, len(MOVE_KINDS)))
    carry = (place, padded, phase, log_abs, zeros, zeros)
    _, padded, phase, log_abs, proposed, accepted = jax.lax.while_loop(going, visit, carry)
    return Moved(padded[:, :n_sites], phase, log_abs, proposed, accepted)


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
