"""Metropolis sampling by an array library: ratios, acceptance, one loop over the moves.

Compiled kernels have loops of their own with the same meaning (`backend.host.strips`,
`ansatz.neural.compiled_sweeps`).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from tnvmc.ansatz.protocol import MOVE_KINDS, LogAmplitude, SweepInfo, Sweeps, Targets, Walkers
from tnvmc.backend import kernels
from tnvmc.backend.namespace import array_namespace, is_cupy, to_namespace
from tnvmc.lattice.lattice import Patch

Array = Any

CAP = 1.75
"""Of `acceptance`: CAP / 2 of the moves are accepted where |psi| stays as it is."""


class Move(Protocol):
    """A patch that a sweep visits."""

    @property
    def asked(self) -> Patch:
        """Sites by which the table of the move is named."""

    @property
    def patch(self) -> Patch:
        """The same sites, as configurations are numbered during the sweep."""

    @property
    def index(self) -> int:
        """Column of the uniform numbers."""


@dataclass(frozen=True)
class SiteMove:
    """A `Move` whose configurations are those of the sites."""

    patch: Patch
    index: int

    @property
    def asked(self) -> Patch:
        """The patch itself."""
        return self.patch


@dataclass(frozen=True)
class Proposals:
    """What the moves of a sweep are drawn with and counted by."""

    moves: Targets
    uniforms: Array  #: (B, n_moves)
    power: Array | float  #: of |psi|^2 that is sampled, one number or (B,)
    counts: "MoveCounts"


@dataclass
class Chains:
    """B walkers on their way through a sweep; `metropolis` changes them."""

    configs: Array  #: (B, N)
    amplitude: LogAmplitude  #: (B,)


def metropolis(
    chains: Chains,
    moves: Iterable[Move],
    proposals: Proposals,
    close: Callable[[Any, Array, Array | None], LogAmplitude],
) -> None:
    """Propose every move once to all walkers, one move after another, and change the chains.

    ``close(move, trial, walkers)`` gives the amplitudes of the changed configurations (n, N) of the
    walkers at places (n,), None for all of them in order; the chains hold the present
    configurations while it is called.

    Cost: one amplitude for each walker and move that is possible; on a GPU for every one.
    """
    xp, counts = array_namespace(proposals.uniforms), proposals.counts
    for move in moves:
        configs, present = chains.configs, chains.amplitude
        states = local_states(configs, move.patch, counts.local_dim)
        uniforms = proposals.uniforms[:, move.index]
        target, remainder = propose(proposals.moves[move.asked], states, uniforms)
        possible = target >= 0
        target = xp.where(possible, target, states)
        movers = movable(possible)
        if movers is not None and movers.shape[0] == 0:
            continue
        trial = replaced(configs, move.patch, target, counts.local_dim)
        tried = trial if movers is None else xp.take(trial, movers, axis=0)
        after = _scattered(close(move, tried, movers), movers, present)
        moved = possible & (remainder < acceptance(after, present, proposals.power))
        chains.configs = xp.where(moved[:, None], trial, configs)
        chains.amplitude = LogAmplitude(
            xp.where(moved, after.phase, present.phase),
            xp.where(moved, after.log_abs, present.log_abs),
        )
        counts.add(len(move.patch), states, target, possible, moved)


def movable(possible: Array) -> Array | None:
    """Places of the walkers that can move, None for all of them.

    On a GPU always all: to find them would stop the device, and to gather their environments
    costs as much as to close them.
    """
    xp = array_namespace(possible)
    if xp is not np:
        return None
    movers = xp.nonzero(possible)[0]
    return None if movers.shape[0] == possible.shape[0] else movers


def _scattered(some: LogAmplitude, walkers: Array | None, others: LogAmplitude) -> LogAmplitude:
    """Amplitudes (B,): `some` for the selected walkers, those of `others` for the rest."""
    if walkers is None:
        return some
    xp = array_namespace(walkers)
    phase, log_abs = (xp.asarray(x, copy=True) for x in (others.phase, others.log_abs))
    phase[walkers], log_abs[walkers] = some.phase, some.log_abs
    return LogAmplitude(phase, log_abs)


def propose(table: Array, states: Array, uniforms: Array) -> tuple[Array, Array]:
    """Pick one replacement per walker, as `Ansatz.sweep` prescribes.

    Returns the new local state (B,), -1 where the move is impossible, and the remainder of the
    uniform number (B,), again uniform in [0, 1).  A move is accepted if the remainder is below
    `acceptance`.
    """
    xp = array_namespace(uniforms)
    table = xp.asarray(table)
    if table.shape[1] == 1:
        return xp.take(table[:, 0], states, axis=0), uniforms
    scaled = uniforms * table.shape[1]
    pick = xp.floor(scaled)
    places = states * table.shape[1] + xp.astype(pick, xp.int64)
    return xp.take(xp.reshape(table, (-1,)), places, axis=0), scaled - pick


def acceptance(new: LogAmplitude, old: LogAmplitude, power: Array | float = 1.0) -> Array:
    """min(1, r) min(1, CAP / (1 + min(r, 1/r))) per walker, (B,), with r = |psi'/psi|^(2 power).

    The second factor, the same there and back, keeps moves with r near 1, tried one after another,
    from being a map without chance (Hastings, Biometrika 57, 97 (1970); CAP = 1 is Barker's, CAP =
    2 that of Metropolis).  Where psi = 0 a move to psi' != 0 is always accepted and one to psi' = 0
    half of the time, so that a walker outside the support wanders until it gets inside.
    """
    xp = array_namespace(new.phase)
    if is_cupy(new.phase):
        pair = (new.phase, new.log_abs), (old.phase, old.log_abs)
        return kernels.acceptance(*pair, power, CAP)
    leaves_zero, enters_zero = old.phase == 0, new.phase == 0
    gap = 2.0 * power * _log_quotient(new, old)
    probability = xp.exp(xp.where(gap < 0, gap, xp.zeros_like(gap)))
    share = CAP / (1.0 + xp.exp(-xp.abs(gap)))
    probability = probability * xp.where(share < 1, share, xp.ones_like(share))
    probability = xp.where(enters_zero, xp.zeros_like(gap), probability)
    escape = xp.where(enters_zero, xp.full_like(gap, 0.5), xp.ones_like(gap))
    return xp.where(leaves_zero, escape, probability)


def amplitude_ratio(new: LogAmplitude, old: LogAmplitude) -> Array:
    """psi'/psi, shape (B,); 0 where psi = 0.

    Its modulus is cut at the square root of the largest float: only amplitudes below any
    weight that could be seen get there, and their |ratio|^2 must stay finite.
    """
    xp = array_namespace(new.phase)
    largest = largest_log_ratio(xp, new.log_abs.dtype)
    if is_cupy(new.phase):
        pair = (new.phase, new.log_abs), (old.phase, old.log_abs)
        return kernels.ratio(*pair, largest)
    gap = _log_quotient(new, old)
    size = xp.exp(xp.where(gap > largest, xp.full_like(gap, largest), gap))  # NaN stays NaN
    vanishes = old.phase == 0
    turn = new.phase / xp.where(vanishes, xp.ones_like(old.phase), old.phase)
    return xp.where(vanishes, xp.zeros_like(turn), turn * size)


@lru_cache
def largest_log_ratio(xp: Any, dtype: Any) -> float:
    """Where ln of the modulus of a ratio is cut, so that its square is finite."""
    return 0.49 * math.log(float(xp.finfo(dtype).max))


def _log_quotient(new: LogAmplitude, old: LogAmplitude) -> Array:
    """ln|psi'/psi|, with 0 in place of ln|psi| where a wave function vanishes."""
    xp = array_namespace(new.phase)

    def finite(amplitude: LogAmplitude) -> Array:
        log_abs = amplitude.log_abs
        return xp.where(amplitude.phase == 0, xp.zeros_like(log_abs), log_abs)

    return finite(new) - finite(old)


def local_states(configs: Array, patch: Patch, local_dim: int) -> Array:
    """Local state (B,) of a patch in configurations (B, N); its first site is most significant."""
    xp = array_namespace(configs)
    states = xp.astype(configs[:, patch[0]], xp.int64)
    for site in patch[1:]:
        states = states * local_dim + configs[:, site]
    return states


def replaced(configs: Array, patch: Patch, states: Array, local_dim: int) -> Array:
    """Copies of configurations (B, N) with the patch set to local states (B,)."""
    xp = array_namespace(configs)
    copies = xp.asarray(configs, copy=True)
    for site in reversed(patch):
        copies[:, site] = xp.astype(states % local_dim, configs.dtype)
        states = states // local_dim
    return copies


class MoveCounts:
    """Counts of the moves of one sweep of B walkers, by kind."""

    def __init__(self, n_walkers: int, local_dim: int, like: Array) -> None:
        self.local_dim, self._xp = local_dim, array_namespace(like)
        self._kinds: list[Array] = []
        self._possible: list[Array] = []
        self._moved: list[Array] = []
        shape, xp = (n_walkers, len(MOVE_KINDS)), self._xp
        self.possible = xp.zeros(shape, dtype=xp.float64)  #: by kind, as kernels count
        self.moved = xp.zeros(shape, dtype=xp.float64)

    def add(
        self, n_sites: int, states: Array, targets: Array, possible: Array, moved: Array
    ) -> None:
        """Count one move of every walker.

        All are (B,): `states` before, those proposed, and whether a move was possible and accepted.
        """
        n_states = self.local_dim**n_sites
        table = _kinds_in(self._xp, n_sites, self.local_dim)
        self._kinds.append(self._xp.take(table, states * n_states + targets, axis=0))
        self._possible.append(possible)
        self._moved.append(moved)

    def info(self) -> SweepInfo:
        """All that was counted, (B, kinds)."""
        xp = self._xp
        possible_moves, moved_moves = self.possible, self.moved
        if self._kinds:
            kinds, possible, moved = map(xp.stack, (self._kinds, self._possible, self._moved))

            def counts(chosen: Array) -> Array:
                columns = [
                    xp.sum(xp.astype(chosen & (kinds == kind), xp.float64), axis=0)
                    for kind in range(len(MOVE_KINDS))
                ]
                return xp.stack(columns, axis=1)

            possible_moves, moved_moves = (
                possible_moves + counts(possible),
                moved_moves + counts(moved),
            )
        return SweepInfo(possible_moves, moved_moves)


class PlainSweep:
    """The sweep of an ansatz with tempered sweeps: that of power 1."""

    def sweep(
        self: Sweeps, theta: Array, walkers: Walkers, moves: Targets, uniforms: Array
    ) -> tuple[Walkers, SweepInfo]:
        """Propose every move once; see `Ansatz.sweep`."""
        return self.tempered_sweep(theta, walkers, moves, uniforms, 1.0)


def kind_table(n_sites: int, local_dim: int) -> np.ndarray:
    """Give the kind of each change of local states, (d^k, d^k), as a place in `MOVE_KINDS`.

    What changes decides, not the size of the patch: one site is a flip, two sites an exchange where
    their sum stays and a pair flip where it does not, more are terms.
    """
    digits = np.indices((local_dim,) * n_sites).reshape(n_sites, -1)
    n_changed = (digits[:, :, None] != digits[:, None, :]).sum(axis=0)
    total = digits.sum(axis=0)
    pair = np.where(total[:, None] == total, 1, 2)
    kinds: np.ndarray = np.where(n_changed <= 1, 0, np.where(n_changed == 2, pair, 3))
    return kinds


@lru_cache(maxsize=32)
def _kinds_in(xp: Any, n_sites: int, local_dim: int) -> Array:
    return to_namespace(kind_table(n_sites, local_dim).ravel().astype(np.int8), xp)
