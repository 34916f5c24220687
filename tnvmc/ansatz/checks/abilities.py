"""Whether what an ansatz offers beyond `Ansatz` keeps its promise."""

from __future__ import annotations

import numpy as np

from tnvmc.ansatz.checks.case import MAX_STATES, Case, all_configs, close, require
from tnvmc.ansatz.metropolis import CAP
from tnvmc.ansatz.protocol import MOVE_KINDS, Walkers
from tnvmc.backend.namespace import to_host, to_namespace


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
    if not _positive(case):
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
    same = [
        np.array_equal(to_host(a), b)
        for a, b in ((counts.proposed, tried), (counts.accepted, taken))
    ]
    require(all(same), "walk counts other moves than tempered_sweep")


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
    require(
        bool(np.all(np.isfinite(to_host(log_prob)))), "drawer: ln q of what was drawn is not finite"
    )
    if not ansatz.exact_draws or d**case.n_sites > MAX_STATES:
        return
    everything = to_namespace(all_configs(case.n_sites, d), case.xp)
    log_abs = to_host(case.psi(everything).log_abs)
    log_norm = 2 * log_abs.max() + np.log(np.sum(np.exp(2 * (log_abs - log_abs.max()))))
    expected = 2 * to_host(case.psi(configs).log_abs) - log_norm
    close("drawer: ln q against ln |psi|^2 / norm", log_prob, expected, 10 * case.rtol)


def _positive(case: Case) -> bool:
    """Whether psi vanishes nowhere, as far as all configurations of a small lattice tell."""
    d, n_sites = case.ansatz.local_dim, case.n_sites
    if d**n_sites > MAX_STATES:
        return False
    everything = to_namespace(all_configs(n_sites, d), case.xp)
    return bool(np.all(to_host(case.psi(everything).phase) != 0))
