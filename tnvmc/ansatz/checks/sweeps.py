"""The part of the conformance suite that looks at sweeps, tempered ones, walks and draws."""

from typing import Any

import numpy as np

from tnvmc.ansatz.checks.case import (
    MAX_STATES,
    Case,
    all_configs,
    close,
    measured,
    require,
    same_amplitude,
)
from tnvmc.ansatz.generic import amplitude_sweep
from tnvmc.ansatz.metropolis import CAP, acceptance, local_states, replaced
from tnvmc.ansatz.protocol import MOVE_KINDS, Walkers
from tnvmc.backend.namespace import to_host, to_namespace
from tnvmc.lattice.lattice import Patch

Array = Any


def check_sweep(case: Case) -> None:
    """Sweeps are functions of their arguments and keep amplitude and cache up to date."""
    ansatz, theta, moves = case.ansatz, case.theta, case.moves
    first = ansatz.start(theta, case.configs)
    before = to_host(first.configs).copy()
    numbers = case.uniforms(before.shape[0], len(moves))
    moved, info = ansatz.sweep(theta, first, moves, numbers)
    require(np.array_equal(to_host(first.configs), before), "sweep: changed its input in place")
    again, _ = ansatz.sweep(theta, ansatz.start(theta, case.configs), moves, numbers)
    require(
        np.array_equal(to_host(moved.configs), to_host(again.configs)),
        "sweep: the same walkers and uniforms gave different configurations",
    )
    proposed, accepted = (to_host(x).sum(axis=1) for x in (info.proposed, info.accepted))
    require(
        bool(np.all((accepted >= 0) & (accepted <= proposed) & (proposed <= len(moves)))),
        f"sweep: accepted {accepted} of {proposed} proposals, out of {len(moves)} moves",
    )
    walkers = moved
    for turn in ("sweep", "sweep, measure, sweep"):
        states = to_host(walkers.configs)
        require(
            bool(np.all((states >= 0) & (states < ansatz.local_dim))),
            f"{turn}: a configuration has local states outside 0..{ansatz.local_dim - 1}",
        )
        expected = case.psi(walkers.configs)
        same_amplitude(f"amplitudes after {turn}", walkers.amplitude, expected, case.rtol)
        walkers, snapshot = ansatz.measure(theta, walkers, case.tables)
        fresh = measured(case, walkers.configs)
        for patch in case.tables:
            where = f"ratios of patch {patch} after {turn}, against those of fresh walkers"
            close(where, snapshot.ratios[patch], fresh.ratios[patch], case.rtol)
        walkers, _ = ansatz.sweep(theta, walkers, moves, case.uniforms(len(states), len(moves)))


def check_acceptance(case: Case) -> None:
    """A single move is taken below `metropolis.acceptance` and left above, walker by walker."""
    d, configs, old = case.ansatz.local_dim, case.configs, case.psi(case.configs)
    for patch, table in case.tables.items():
        n_columns = table.shape[1]
        states = local_states(configs, patch, d)
        column = int(case.rng.integers(n_columns))
        target = case.xp.take(table, states, axis=0)[:, column]
        possible = to_host(target) >= 0
        trial = replaced(configs, patch, case.xp.where(target < 0, states, target), d)
        threshold = np.where(possible, to_host(acceptance(case.psi(trial), old)), 0.0)
        for side, expected in ((1 - 1e2 * case.rtol, True), (1 + 1e2 * case.rtol, False)):
            remainder = np.minimum(threshold * side, 1 - 1e-6)
            decided = possible & (threshold > 1e-12) & ((remainder > threshold) != expected)
            numbers = to_namespace(((column + remainder) / n_columns)[:, None], case.xp)
            walkers = case.ansatz.start(case.theta, configs)
            moved, info = case.ansatz.sweep(case.theta, walkers, {patch: table}, numbers)
            goal = to_host(trial if expected else configs)
            wrong = decided & np.any(to_host(moved.configs) != goal, axis=1)
            wrong |= ~possible & np.any(to_host(moved.configs) != to_host(configs), axis=1)
            proposed = to_host(info.proposed).sum(axis=1)
            wrong |= proposed != possible
            require(
                not wrong.any(),
                f"sweep with the one move {patch}: walker {np.flatnonzero(wrong)[:1]} with "
                f"remainder {remainder[wrong][:1]} of its uniform number and acceptance "
                f"{threshold[wrong][:1]} went from {to_host(configs)[wrong][:1]} to "
                f"{to_host(moved.configs)[wrong][:1]}; 'possible' was {possible[wrong][:1]} and "
                f"'proposed' {proposed[wrong][:1]}. Accept when the remainder is "
                "below `ansatz.metropolis.acceptance`; count possible moves as proposed",
            )


def check_order(case: Case) -> None:
    """Two moves in one sweep act one after the other, the second where the first has led."""
    n_walkers = case.configs.shape[0]
    for pair in _close_pairs(case):
        numbers = case.uniforms(n_walkers, 2)
        walkers = case.ansatz.start(case.theta, case.configs)
        moves = {patch: case.moves[patch] for patch in pair}
        moved, _ = case.ansatz.sweep(case.theta, walkers, moves, numbers)
        found = to_host(moved.configs)
        misses = min(
            int(np.any(found != _in_order(case, pair, order, numbers), axis=1).sum())
            for order in ((0, 1), (1, 0))
        )
        require(
            misses <= int(40 * case.rtol * n_walkers),
            f"sweep with moves {pair}: {misses} of {n_walkers} walkers end where the two moves, "
            "in whatever order, each accepted with the present |psi'/psi|^2, cannot bring them. "
            "Is an environment used that is older than the last accepted move? Does column j of "
            "the uniforms belong to the j-th patch?",
        )
        expected = case.psi(moved.configs)
        same_amplitude(
            f"amplitudes after a sweep with moves {pair}", moved.amplitude, expected, case.rtol
        )


def _close_pairs(case: Case) -> list[tuple[Patch, Patch]]:
    """Pairs of moves that may share an environment: up to 3 for each, 96 in all."""
    patches, pairs = list(case.moves), []
    for first in patches:
        near = [
            other
            for other in patches
            if other != first and other[-1] >= first[0] - 1 and other[0] <= first[-1] + 1
        ]
        pairs += [(first, near[k]) for k in case.rng.permutation(len(near))[:3]]
    return [pairs[k] for k in case.rng.permutation(len(pairs))[:96]]


def check_distribution(case: Case) -> None:
    """|psi|^2 is stationary: start all configurations with their weights, sweep, count.

    One sweep of K copies has the squared error sum_s w(s)^2 (1 - ...) / K at most; five
    standard deviations above it are allowed.
    """
    d, n_sites = case.ansatz.local_dim, case.n_sites
    if d**n_sites > MAX_STATES:
        return
    configs = all_configs(n_sites, d)
    log_abs = to_host(case.psi(to_namespace(configs, case.xp)).log_abs).astype(np.float64)
    weight = np.exp(2 * (log_abs - log_abs.max()))
    weight /= weight.sum()
    together = max(1, 2 * MAX_STATES // len(configs))
    n_sweeps = max(10, 40 // together)
    n_copies = n_sweeps * together
    place = d ** np.arange(n_sites - 1, -1, -1)
    counts = np.zeros(len(configs))
    copies = to_namespace(np.tile(configs, (together, 1)), case.xp)
    walkers = case.ansatz.start(case.theta, copies)
    for _ in range(n_sweeps):
        numbers = case.uniforms(len(configs) * together, len(case.moves))
        moved, _ = case.ansatz.sweep(case.theta, walkers, case.moves, numbers)
        ends = to_host(moved.configs).astype(np.int64) @ place
        np.add.at(counts, ends, np.tile(weight, together) / n_copies)
    expected_error = (weight**2).sum() / n_copies
    effective = (weight**2).sum() ** 2 / (weight**4).sum()
    error = ((counts - weight) ** 2).sum()
    worst = int(np.argmax(np.abs(counts - weight)))
    require(
        bool(error <= expected_error * (1 + 5 / np.sqrt(effective)) ** 2 + case.rtol**2),
        f"sweep does not keep |psi|^2: after one sweep of {n_copies} copies of all "
        f"{len(configs)} configurations the distance is {np.sqrt(error):.2e}, noise explains "
        f"{np.sqrt(expected_error):.2e}. Worst at {configs[worst]}: {counts[worst]:.4f} instead "
        f"of {weight[worst]:.4f}. Each move may be right alone and wrong after another one",
    )


def check_tempered(case: Case) -> None:
    """Tempered sweeps of power 1 are sweeps, and with power 0 every possible move is accepted."""
    ansatz, xp = case.ansatz, case.xp
    if not ansatz.tempered:
        return
    n_walkers = case.configs.shape[0]
    numbers = case.uniforms(n_walkers, len(case.moves))
    walkers = ansatz.start(case.theta, case.configs)
    plain, _ = ansatz.sweep(case.theta, walkers, case.moves, numbers)
    ones, zeros = (xp.full((n_walkers,), power, dtype=xp.float64) for power in (1.0, 0.0))
    same, _ = ansatz.tempered_sweep(case.theta, walkers, case.moves, numbers, ones)
    require(
        np.array_equal(to_host(plain.configs), to_host(same.configs)),
        "tempered_sweep with power 1 leaves other configurations than sweep",
    )
    d, n_sites = ansatz.local_dim, case.n_sites
    if d**n_sites > MAX_STATES:
        return
    everything = to_namespace(all_configs(n_sites, d), case.xp)
    if not np.all(to_host(case.psi(everything).phase) != 0):  # moves into a zero are refused
        return
    _, info = ansatz.tempered_sweep(case.theta, walkers, case.moves, numbers, zeros)
    taken, tried = (float(to_host(x).sum()) for x in (info.accepted, info.proposed))
    share = CAP / 2
    error = np.sqrt(share * (1 - share) / max(tried, 1.0))
    require(
        abs(taken / max(tried, 1.0) - share) < 5 * error,
        f"tempered_sweep with power 0 accepted {taken:.0f} of {tried:.0f} moves; |psi|^0 is the "
        f"same everywhere, so that a share of {share} is to be accepted",
    )


def check_walk(case: Case) -> None:
    """Several sweeps in one call are the same sweeps one after another."""
    ansatz, xp = case.ansatz, case.xp
    if not ansatz.walks:
        return
    n_walkers, n_sweeps = case.configs.shape[0], 3
    numbers = [case.uniforms(n_walkers, len(case.moves)) for _ in range(n_sweeps)]
    power = xp.full((n_walkers,), 0.7, dtype=xp.float64)
    start = ansatz.start(case.theta, case.configs)
    found, counts = ansatz.walk(case.theta, start, case.moves, xp.stack(numbers), power)
    walkers: Walkers = start
    tried = taken = np.zeros(len(MOVE_KINDS))
    for k in range(n_sweeps):
        walkers, info = ansatz.tempered_sweep(case.theta, walkers, case.moves, numbers[k], power)
        rows = slice(k * n_walkers, (k + 1) * n_walkers)
        require(
            np.array_equal(to_host(walkers.configs), to_host(found.configs)[rows]),
            f"walk leaves other configurations after sweep {k} than tempered_sweep",
        )
        close("walk: ln|psi|", found.amplitude.log_abs[rows], walkers.amplitude.log_abs, case.rtol)
        tried, taken = tried + to_host(info.proposed), taken + to_host(info.accepted)
    same = np.array_equal(to_host(counts.proposed), tried)
    same = same and np.array_equal(to_host(counts.accepted), taken)
    require(same, "walk counts other moves than tempered_sweep")


def check_draws(case: Case) -> None:
    """Draws are configurations, the same ones of the same numbers; exact ones have q = |psi|^2."""
    ansatz, d = case.ansatz, case.ansatz.local_dim
    if ansatz.exact_draws is None:
        return
    draw = ansatz.drawer(case.theta)
    numbers = case.uniforms(16, case.n_sites)
    configs, log_prob = draw(numbers, None)
    again, _ = draw(numbers, None)
    host = to_host(configs)
    require(
        host.shape == (16, case.n_sites) and bool(np.all((host >= 0) & (host < d))),
        f"drawer: configurations of shape {host.shape}, expected (16, {case.n_sites}) of "
        f"0..{d - 1}",
    )
    require(np.array_equal(host, to_host(again)), "drawer: the same numbers gave other draws")
    require(bool(np.all(np.isfinite(to_host(log_prob)))), "drawer: ln q of a draw is not finite")
    if not ansatz.exact_draws or d**case.n_sites > MAX_STATES:
        return
    everything = to_namespace(all_configs(case.n_sites, d), case.xp)
    log_abs = to_host(case.psi(everything).log_abs)
    log_norm = 2 * log_abs.max() + np.log(np.sum(np.exp(2 * (log_abs - log_abs.max()))))
    expected = 2 * to_host(case.psi(configs).log_abs) - log_norm
    close("drawer: ln q against ln |psi|^2 / norm", log_prob, expected, 10 * case.rtol)


def _in_order(
    case: Case, chosen: tuple[Patch, Patch], order: tuple[int, int], numbers: Array
) -> np.ndarray:
    """Configurations after two moves, with every ratio from two full amplitudes."""
    moves = {chosen[k]: case.moves[chosen[k]] for k in order}
    columns = case.xp.take(numbers, case.xp.asarray(order), axis=1)
    start = Walkers(case.configs, case.psi(case.configs))
    after, _ = amplitude_sweep(case.psi, case.ansatz.local_dim, start, moves, columns)
    return to_host(after.configs)
