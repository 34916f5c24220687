"""Effective samples per second of sweeps: rules of acceptance, and sets of moves.

    python benchmarks/mixing.py [--systems NAME ...] [--sweeps T] [--sets | --exact] [--json FILE]

Theta is that of simple update and stays; walkers burn in under the rule that is measured.  For the
local energy and for a slow observable (staggered Sz, or n, in the z basis) it prints the integrated
autocorrelation time tau of one sweep and 1 / (2 tau) per second of a sample (sweep and measurement
of the energy), over that of Metropolis acceptance.  Errors of the ratios are about 3 % at T = 200.
"--sets" compares sets of moves under the rule of the package.  "--exact" walks on exact ground
states of 4x4, looked up, where many sweeps cost little: also moves in random order, a new one for
each sweep (a pass over the rows of a PEPS has its order); in place of the energy, which is
constant, its diagonal part.  Last: how many of the 512 configurations of 9 spins one walker visits
in 3000 sweeps of flips where psi is constant.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.sparse.linalg import eigsh
from threadpoolctl import threadpool_limits

from tnvmc import PEPS, SRC, chain, heisenberg, j1j2, rydberg, square, tfim
from tnvmc.ansatz.generic import amplitude_sweep
from tnvmc.ansatz.metropolis import CAP
from tnvmc.ansatz.protocol import LogAmplitude, Walkers
from tnvmc.backend.random import uniforms
from tnvmc.estimate.observables import local_energy
from tnvmc.operators.basis import Basis
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import exchanges, flips, joined, moves_for, pair_flips

STATES = Path(__file__).parent / "results" / "states"

Rule = Callable[[np.ndarray], np.ndarray]


def capped(cap: float) -> Rule:
    """min(1, r) min(1, cap / (1 + min(r, 1/r))) of ln r."""
    return lambda gap: np.exp(np.minimum(gap, 0)) * np.minimum(cap / (1 + np.exp(-abs(gap))), 1)


def lazy(skipped: float) -> Rule:
    """Metropolis, but each move is skipped with this probability."""
    return lambda gap: (1 - skipped) * np.exp(np.minimum(gap, 0))


RULES: dict[str, Rule] = {
    "metropolis": lazy(0.0),
    "barker": capped(1.0),
    "cap 1.5": capped(1.5),
    "cap 1.75": capped(1.75),
    "lazy 1/8": lazy(0.125),
}

SYSTEMS: dict[str, tuple[Any, int, int | None]] = {  # operator, D, chi
    "heisenberg 6x6": (lambda: heisenberg(square(6, 6)), 4, 8),
    "j1j2 4x4": (lambda: j1j2(square(4, 4), J2=0.5), 4, 16),
    "tfim 4x4 h=3": (lambda: tfim(square(4, 4), h=3.0), 3, 9),
    "rydberg 4x4": (lambda: rydberg(square(4, 4)), 3, 9),
    "chain 20": (lambda: heisenberg(chain(20)), 16, None),
}


@contextmanager
def accepted_by(rule: Rule | None) -> Iterator[None]:
    """Let sweeps accept by a rule; None is that of the package."""
    if rule is None:
        yield
        return

    def acceptance(new: LogAmplitude, old: LogAmplitude, power: float = 1.0) -> np.ndarray:
        dead = (new.phase == 0) | (old.phase == 0)
        gap = np.where(dead, 0.0, new.log_abs) - np.where(dead, 0.0, old.log_abs)
        return np.where(new.phase == 0, 0.0, np.where(old.phase == 0, 1.0, rule(2 * power * gap)))

    places = ("ansatz.metropolis",)
    patches = [patch(f"tnvmc.{place}.acceptance", acceptance) for place in places]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def state(name: str) -> tuple[Any, PEPS, np.ndarray]:
    """Operator, state and theta of a system; simple update is kept in a folder."""
    make, D, chi = SYSTEMS[name]
    operator = make()
    peps = PEPS(operator.lattice, D)
    peps = peps if chi is None else peps.with_scheme(SRC(chi))
    if chi is None:
        from tnvmc import Exact

        peps = peps.with_scheme(Exact())
    path = STATES / f"{name.replace(' ', '_')}_D{D}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, peps.initial(operator))
    return operator, peps, np.load(path)


def series(
    operator: Any, peps: PEPS, theta: np.ndarray, moves: Any, n_sweeps: int, seed: int
) -> tuple[dict[str, np.ndarray], float, float]:
    """Energies and the slow observable (T, B), seconds per sample, acceptance."""
    n_walkers = 64
    signs = 1.0 - 2.0 * (np.indices(operator.lattice.shape).sum(axis=0).ravel() % 2)
    if operator.name == "tfim":
        signs = np.ones_like(signs)
    walkers = peps.start(theta, initial_configs(operator, n_walkers, seed))
    energies, slow, seconds, counts = [], [], [], np.zeros(2)
    for sweep in range(-30, n_sweeps):
        numbers = uniforms(seed, (0, sweep + 30), range(n_walkers), len(moves))
        began = time.process_time()
        walkers, info = peps.sweep(theta, walkers, moves, numbers)
        walkers, snapshot = peps.measure(theta, walkers, operator.targets, jacobian=False)
        energy = local_energy(operator, snapshot)
        if sweep >= 0:
            seconds.append(time.process_time() - began)
            energies.append(np.real(energy))
            slow.append(np.asarray(walkers.configs) @ signs)
            counts += info.accepted.sum(), info.proposed.sum()
    found = {"energy": np.array(energies), "slow": np.array(slow)}
    return found, float(np.median(seconds)) / n_walkers, float(counts[0] / counts[1])


def autocorrelation_time(values: np.ndarray) -> float:
    """Integrated tau of chains (T, B), 1/2 for independent draws, windowed at 6 tau."""
    n = len(values)
    spectrum = np.abs(np.fft.rfft(values - values.mean(), 2 * n, axis=0)) ** 2
    rho = np.fft.irfft(spectrum, axis=0)[:n].sum(axis=1) / np.arange(n, 0, -1)
    sums = np.cumsum(rho / rho[0]) - 0.5
    window = np.arange(n) >= np.maximum(6 * sums, 4)
    return float(max(sums[int(np.argmax(window))], 0.05))


def row(name: str, label: str, moves: Any, rule: Rule | None, n_sweeps: int) -> dict[str, Any]:
    """What one rule and one set of moves gives on one system."""
    operator, peps, theta = state(name)
    with accepted_by(rule):
        found, seconds, acceptance = series(operator, peps, theta, moves, n_sweeps, seed=1)
    tau = {key: autocorrelation_time(values) for key, values in found.items()}
    return {
        "system": name, "label": label, "acceptance": acceptance, "ms_per_sample": 1e3 * seconds,
        "tau": tau, "ess_per_sample": {key: 0.5 / value for key, value in tau.items()},
    }  # fmt: skip


def sets_of_moves(operator: Any) -> dict[str, Any]:
    """Sets of moves that reach everything."""
    lattice, bonds = operator.lattice, operator.lattice.bonds["nearest"]
    alone, swaps = flips(lattice), exchanges(lattice, bonds)
    found = {"default": moves_for(operator)}
    if not operator.conserves_magnetisation:
        found["flips"] = alone
        found["flips, exchanges"] = joined([alone, swaps], 2)
        found["flips, exchanges, pair_flips"] = joined(
            [alone, swaps, pair_flips(lattice, bonds)], 2
        )
    return found


def visited(rule: Rule | None, n_sweeps: int = 3000) -> int:
    """Configurations of 9 spins that one walker visits at psi = const."""

    def constant(configs: np.ndarray) -> LogAmplitude:
        return LogAmplitude(np.ones(len(configs)), np.zeros(len(configs)))

    moves, configs = flips(square(3, 3)), np.zeros((1, 9), np.int8)
    walkers, seen = Walkers(configs, constant(configs)), set()
    with accepted_by(rule):
        for sweep in range(n_sweeps):
            numbers = uniforms(0, (1, sweep), range(1), 9)
            walkers, _ = amplitude_sweep(constant, 2, walkers, moves, numbers)
            seen.add(walkers.configs.tobytes())
    return len(seen)


def looked_up(name: str, moves: Any, rule: Rule | None, in_order: bool, n_sweeps: int) -> Any:
    """The diagonal energy and the slow observable of chains on an exact ground state."""
    operator = SYSTEMS[name][0]()
    sector = 0 if operator.conserves_magnetisation else None
    weights = 2 ** np.arange(15, -1, -1)
    vector = np.zeros(2**operator.n_sites)
    vector[Basis(operator.n_sites, 2, sector).codes] = eigsh(
        operator.sparse(sector), k=1, which="SA"
    )[1][:, 0]
    with np.errstate(divide="ignore"):
        logs, signs = np.log(np.abs(vector)), np.sign(vector)

    def psi(configs: np.ndarray) -> LogAmplitude:
        codes = configs @ weights
        return LogAmplitude(signs[codes], logs[codes])

    stagger = 1.0 - 2.0 * (np.indices((4, 4)).sum(axis=0).ravel() % 2)
    configs = initial_configs(operator, 256, 0)
    walkers, rng, found = Walkers(configs, psi(configs)), np.random.default_rng(0), []
    patches = list(moves)
    with accepted_by(rule):
        for sweep in range(-50, n_sweeps):
            order = patches if in_order else [patches[k] for k in rng.permutation(len(patches))]
            numbers = uniforms(0, (2, sweep + 50), range(256), len(moves))
            tried = {each: moves[each] for each in order}
            walkers, _ = amplitude_sweep(psi, 2, walkers, tried, numbers)
            found.append((operator.diagonal(walkers.configs), walkers.configs @ stagger))
    energy, slow = (np.array(series) for series in zip(*found[50:], strict=True))
    return {"energy": autocorrelation_time(energy), "slow": autocorrelation_time(slow)}


def exact_rows(n_sweeps: int) -> list[dict[str, Any]]:
    """Rules in the order of the table and in random order, on exact ground states."""
    rows = []
    print(f"{'exact state':>15} {'rule, order':>29} {'tau E_z':>8} {'slow':>8}")
    for name in ("j1j2 4x4", "tfim 4x4 h=3", "rydberg 4x4"):
        moves = moves_for(SYSTEMS[name][0]())
        for label, rule in RULES.items():
            for order in ("fixed", "random"):
                tau = looked_up(name, moves, rule, order == "fixed", n_sweeps)
                rows.append({"system": name, "label": label, "order": order, "tau": tau})
                print(f"{name:>15} {f'{label}, {order}':>29} {tau['energy']:>8.3f} "
                      f"{tau['slow']:>8.3f}", flush=True)  # fmt: skip
    return rows


def show(rows: list[dict[str, Any]], shared_time: bool) -> None:
    """Print rows of one system, over the first; rules share one time, since they cost the same."""
    first = rows[0]
    common = float(np.median([r["ms_per_sample"] for r in rows]))
    for r in rows:
        r["ms_used"] = common if shared_time else r["ms_per_sample"]
    for r in rows:
        r["relative_ess_per_second"] = {
            key: r["ess_per_sample"][key] / first["ess_per_sample"][key]
            * first["ms_used"] / r["ms_used"]
            for key in r["tau"]
        }  # fmt: skip
        ratio, tau = r["relative_ess_per_second"], r["tau"]
        print(f"{r['system']:>15} {r['label']:>29} {r['acceptance']:>5.2f} {r['ms_per_sample']:>7.3f} "
              f"{tau['energy']:>7.3f} {tau['slow']:>7.3f} {ratio['energy']:>7.2f} "
              f"{ratio['slow']:>7.2f}", flush=True)  # fmt: skip


def main() -> None:
    """Run what is asked for, print the tables, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--systems", nargs="*", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--sets", action="store_true", help="sets of moves in place of rules")
    parser.add_argument(
        "--exact", action="store_true", help="exact ground states, and random order"
    )
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    report: dict[str, Any] = {"sweeps": args.sweeps, "cap": CAP, "rows": []}
    if args.exact:
        report["rows"] = exact_rows(args.sweeps)
        args.systems = []
    print(f"{'system':>15} {'':>29} {'acc':>5} {'ms':>7} {'tau E':>7} {'slow':>7} "
          f"{'ESS/s E':>7} {'slow':>7}")  # fmt: skip
    with threadpool_limits(1):
        for name in args.systems:
            operator = SYSTEMS[name][0]()
            if args.sets:
                asked = [(label, m, None) for label, m in sets_of_moves(operator).items()]
            else:
                asked = [(label, moves_for(operator), rule) for label, rule in RULES.items()]
            rows = [row(name, label, m, rule, args.sweeps) for label, m, rule in asked]
            show(rows, shared_time=not args.sets)
            report["rows"] += rows
        if not (args.sets or args.exact):
            rules: dict[str, Rule | None] = {**RULES, "the package": None}
            report["visited_of_512"] = {label: visited(rule) for label, rule in rules.items()}
            print("visited of 512 at psi = const:", report["visited_of_512"])
    kind = "_sets" if args.sets else "_exact" if args.exact else ""
    where = args.json or Path(f"benchmarks/results/mixing{kind}.json")
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
