"""Metropolis sweeps of a network, compiled as one loop: no return to Python between moves.

Each walker goes through the moves in their order by itself and skips those that are impossible for
it (an exchange of equal spins), so that hardly an amplitude is evaluated in vain: a sweep over n
exchanges costs about n/2 amplitudes per walker instead of n.  What a walker does depends on no
other walker.  Several sweeps go into one call, and blocks of walkers, whose size depends on their
number and on the network, run side by side.
"""

import warnings
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from functools import cached_property, lru_cache, partial, partialmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tnvmc.ansatz.metropolis import PlainSweep, acceptance, kind_table
from tnvmc.ansatz.neural.batches import (
    MOST_IN_BLOCK,
    ONE_THREAD,
    beside,
    called,
    even,
    from_jax,
    padded,
    padded_size,
    side_by_side,
    to_jax,
)
from tnvmc.ansatz.protocol import MOVE_KINDS, LogAmplitude, SweepInfo, Targets, Walkers
from tnvmc.backend.namespace import array_namespace, is_cupy, to_host

Array = Any

LogPsi = Callable[[Array], tuple[Array, Array]]
"""Configurations (B, N) to phase (B,) and ln|psi| (B,)."""

_AHEAD = 4
"""Moves that a walker looks through at a time for one that is possible: half of the exchanges are,
and fifteen in sixteen walkers find one in four."""


class MovePlan(NamedTuple):
    """The moves of a sweep as arrays, each padded to one size.

    Sizes are rounded up, so that lists of about the same length share one compilation.  A patch of
    fewer than k sites has its last one several times, which is always in one state.  What a move
    does is one number: at few walkers the time of a sweep is the number of gathers.
    """

    n_moves: Array  #: ()
    local_dim: Array  #: () d
    sites: Array  #: (n + ahead, k)
    widths: Array  #: (n,) R of each table
    digits: Array  #: (d^k, k) of each local state of a patch of k sites
    outcomes: (
        Array  #: (n + ahead, d^k or more, R) kind of the move + len(MOVE_KINDS) * target; -1: none
    )


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
    k = max([2, *map(len, patches)])
    n_states, width = max(4, local_dim**k), max([1, *(shape[1] for shape, _, _ in keys)])
    sites = np.zeros((n_rows + _AHEAD, k), dtype=np.int32)
    widths = np.ones(n_rows, dtype=np.int32)
    outcomes = np.full((n_rows + _AHEAD, n_states, width), -1, dtype=np.int32)
    digits = np.indices((local_dim,) * k, dtype=np.int8).reshape(k, -1).T
    for move, (patch, (shape, dtype, content)) in enumerate(zip(patches, keys, strict=True)):
        table = np.frombuffer(content, dtype).reshape(shape)
        repeated = k - len(patch)
        sites[move], widths[move] = (*patch, *patch[-1:] * repeated), shape[1]
        alike = np.all(digits[:, len(patch) :] == digits[:, len(patch) - 1, None], axis=1)
        own = np.flatnonzero(alike)  # of k sites, by the local state of the patch
        kinds = np.take_along_axis(kind_table(len(patch), local_dim), np.maximum(table, 0), axis=1)
        packed = np.where(table >= 0, kinds + len(MOVE_KINDS) * own[table], -1)
        outcomes[move, own, : shape[1]] = packed
    sizes = np.array(n_moves, np.int32), np.array(local_dim, np.int32)
    return MovePlan(*sizes, sites, widths, digits, outcomes)


def sweeps(
    log_psi: LogPsi, chains: Chains, uniforms: Array, plan: MovePlan
) -> tuple[Moved, Chains]:
    """Visit all moves up to K times with uniform numbers (B, K, n); traceable.

    Returns what comes after every sweep, and the chains at the end.  No walker waits at the end of
    a sweep for another one.
    """
    configs, phase, log_abs, power, until = chains
    n_walkers, n_sweeps, n = uniforms.shape
    n_sites, k, width = configs.shape[1], plan.sites.shape[1], plan.outcomes.shape[2]
    walker, columns, ahead, sweep_numbers = (
        jnp.arange(size, dtype=jnp.int32) for size in (n_walkers, n_sites, _AHEAD, n_sweeps)
    )
    n_kinds = np.int32(len(MOVE_KINDS))
    kinds = jnp.arange(n_kinds, dtype=jnp.int32)
    first_number = walker * (n_sweeps * n)
    sites, outcomes = plan.sites.reshape(-1), plan.outcomes.reshape(-1)
    scaled = uniforms * plan.widths
    picks = jnp.minimum(jnp.floor(scaled), plan.widths - 1)  # single precision rounds up to 1
    chances, picks = (scaled - picks).reshape(-1), picks.astype(jnp.int32).reshape(-1)

    def outcome_of(configs: Array, walker: Array, at: Array, move: Array) -> Array:
        """What walkers (...) would do as a move of the sweep, the `at`-th of all; -1: nothing."""
        state = jnp.zeros_like(move)
        for j in range(k):
            place = walker * n_sites + _at(sites, move * k + j)
            state = state * plan.local_dim + _at(configs, place).astype(jnp.int32)
        state = move * plan.outcomes.shape[1] + state
        if width > 1:
            last = picks.shape[0] - 1
            state = state * width + _at(picks, jnp.minimum(walker * (n_sweeps * n) + at, last))
        return _at(outcomes, state)

    def visit(way: tuple[Array, Chains, Moved]) -> tuple[Array, Chains, Moved]:
        """Make the next move of each walker, `at` n * sweep + the place in the sweep."""
        at, before, moved = way
        sweep = at // n
        place = at - sweep * n
        flat = before.configs.reshape(-1)
        seen = outcome_of(flat, walker[:, None], at[:, None] + ahead, place[:, None] + ahead)
        first = jnp.min(jnp.where(seen >= 0, ahead, _AHEAD), axis=1)
        active = sweep < until
        found = active & (first < _AHEAD)
        move = jnp.where(found, place + first, 0)
        number = first_number + jnp.where(found, at + first, 0)
        outcome = outcome_of(flat, walker, at + first, move)
        kind, target = jax.lax.rem(outcome, n_kinds), jax.lax.div(outcome, n_kinds)
        trial = before.configs
        for j in range(k):
            site = jnp.where(found, _at(sites, move * k + j), -1)
            digit = _at(plan.digits.reshape(-1), target * k + j)
            trial = jnp.where(columns == site[:, None], digit[:, None].astype(trial.dtype), trial)
        new_phase, new_log = log_psi(trial)
        old = LogAmplitude(before.phase, before.log_abs)
        chance = acceptance(LogAmplitude(new_phase, new_log), old, power)
        taken = found & (_at(chances, number) < chance)
        configs = jnp.where(taken[:, None], trial, before.configs)
        phase = jnp.where(taken, new_phase, before.phase)
        log_abs = jnp.where(taken, new_log, before.log_abs)
        counted = found[:, None] & (kind[:, None] == kinds)
        now = sweep_numbers[:, None] == sweep  # of a sweep the last write stays
        moved = Moved(
            jnp.where(now[:, :, None], configs, moved.configs),
            jnp.where(now, phase, moved.phase),
            jnp.where(now, log_abs, moved.log_abs),
            moved.proposed + counted,
            moved.accepted + (counted & taken[:, None]),
        )
        place = place + jnp.where(found, first + 1, _AHEAD)
        after = jnp.where(place >= plan.n_moves, (sweep + 1) * n, sweep * n + place)
        chains = Chains(configs, phase, log_abs, power, until)
        return jnp.where(active, after, at), chains, moved

    nowhere = Moved(
        jnp.zeros((n_sweeps, *configs.shape), configs.dtype),
        jnp.zeros((n_sweeps, n_walkers), phase.dtype),
        jnp.zeros((n_sweeps, n_walkers), log_abs.dtype),
        *[jnp.zeros((n_walkers, kinds.shape[0]))] * 2,
    )
    way = jnp.zeros_like(until), chains, nowhere
    _, chains, moved = jax.lax.while_loop(lambda way: jnp.any(way[0] < until * n), visit, way)
    return moved, chains


def _at(flat: Array, places: Array) -> Array:
    """Entries of an array (n,) at places that are known to be in it."""
    return flat.at[places].get(mode="promise_in_bounds", wrap_negative_indices=False)


_TOGETHER = 16
"""Sweeps in one compiled loop.  Each visit of it looks at the configurations after all of them:
with 64 the loop of 16 walkers took 1.6 times as long."""


class CompiledSweeps(PlainSweep):
    """`sweep`, `tempered_sweep` and `walk` of a `FlaxAnsatz`; see `sweeps`."""

    @cached_property
    def coarser(self: Any) -> "SinglePrecision | None":
        """In single precision, in two thirds of the time; None for a module of the user's own."""
        return None if self.rebuild() is None else SinglePrecision(self)

    def tempered_sweep(
        self, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array, power: Array
    ) -> tuple[Walkers, SweepInfo]:
        """`sweep` of walkers that sample |psi|^(2 power), with `power` (B,)."""
        return self.walk(theta, walkers, moves, uniforms[None, ...], power)

    def walk(
        self: Any, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array,
        power: Array | float,
    ) -> tuple[Walkers, SweepInfo]:  # fmt: skip
        """K sweeps with uniforms (K, B, n_moves): walkers after each, (K * B), sweep by sweep."""
        xp = array_namespace(uniforms)
        n_sweeps, n_walkers, _ = uniforms.shape
        configs, amplitude = walkers.configs, walkers.amplitude
        plan, on_a_gpu = self._plan(moves, uniforms), is_cupy(configs)
        in_blocks = partial(self._sweeps, block=self._block(configs))
        run = partial(called, in_blocks, to_jax(theta), plan)
        power = power * xp.ones(n_walkers, dtype=uniforms.dtype)
        rows = (configs, amplitude.phase, amplitude.log_abs, power)
        numbers = _filled(uniforms, plan.widths.shape[0])
        most = MOST_IN_BLOCK // self.averaging.n_images
        length = n_walkers if on_a_gpu else even(n_walkers, most)

        def block(begin: int) -> Moved:
            own = slice(begin, min(begin + length, n_walkers))
            return _walked(run, [array[own, ...] for array in rows], numbers[own, ...], n_sweeps)

        blocks = side_by_side(block, range(0, n_walkers, length), on_a_gpu)
        configs, phase, log_abs, *counts = (
            _joined(parts, xp, axis)
            for parts, axis in zip(zip(*blocks, strict=True), (1, 1, 1, 0, 0), strict=True)
        )
        amplitude = LogAmplitude(xp.reshape(phase, (-1,)), xp.reshape(log_abs, (-1,)))
        return Walkers(xp.reshape(configs, (-1, configs.shape[2])), amplitude), SweepInfo(*counts)

    def _plan(self: Any, moves: Targets, uniforms: Array) -> MovePlan:
        """The moves as JAX arrays, made once for all sweeps of a step."""
        if self._planned.get("moves") is not moves:
            made = plan_moves(moves, self.local_dim)
            self._planned.update(moves=moves, plan=beside(made, uniforms))
        plan: MovePlan = self._planned["plan"]
        return plan

    @cached_property
    def _planned(self) -> dict[str, Any]:
        return {}

    @cached_property
    def _sweeps(self: Any) -> Any:
        def run(
            theta: Array, plan: MovePlan, chains: Chains, uniforms: Array, block: int | None
        ) -> tuple[Moved, Chains]:
            n_rows = chains.configs.shape[0]
            log_psi = partial(self._polar, theta, n_rows=n_rows, block=block)
            plan = jax.tree.map(jnp.asarray, plan)
            return sweeps(log_psi, chains, uniforms, plan)

        return jax.jit(run, static_argnames="block", compiler_options=ONE_THREAD)


class SinglePrecision:
    """A network in single precision, for chains to walk on (`Abilities.coarser`).

    JAX is told that there is no other: whatever a module asks for in double is given in single, so
    modules need not know.  Products are not rounded further (no TF32 on a GPU).
    """

    walks = True

    def __init__(self, ansatz: Any) -> None:
        self.ansatz, kind = copy(ansatz), type(ansatz)
        for name in vars(ansatz):
            if type(getattr(kind, name, None)) is cached_property:
                del vars(self.ansatz)[name]
        # Constants of its own: JAX keeps an array that it has met in the precision it had then.
        self.ansatz = deepcopy(self.ansatz)

    def _given(self, method: str, *arguments: Any) -> Any:
        exact = jax.enable_x64(False), jax.default_matmul_precision("float32")
        with exact[0], exact[1], warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Explicitly requested dtype")
            return getattr(self.ansatz, method)(*map(_lowered, arguments))

    log_amplitude = partialmethod(_given, "log_amplitude")
    start = partialmethod(_given, "start")
    walk = partialmethod(_given, "walk")


def _lowered(given: Any) -> Any:
    single = {"f": "float32", "c": "complex64"}.get(getattr(given, "dtype", np.dtype(bool)).kind)
    return given.astype(single) if single else given


def _walked(run: Any, rows: list[Array], numbers: Array, n_sweeps: int) -> Moved:
    """Walkers of a block (b, ...) after each of the sweeps with numbers (b, K', n)."""
    xp = array_namespace(numbers)
    n_walkers = numbers.shape[0]
    size = padded_size(n_walkers)
    active = xp.astype(xp.arange(size) < n_walkers, xp.int32)
    chains = Chains._make([*(to_jax(padded(array, size)) for array in rows), active])
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
    return Moved(configs, phase, log_abs, proposed, accepted)


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
