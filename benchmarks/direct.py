"""Direct draws beside the Markov chain: evenness of weights, time, and the same energy.

    python benchmarks/direct.py [--rows L,D,chi ...] [--draws N] [--checkpoint FILE]

For the simple-update state of the open L x L Heisenberg model (or the parameters of a checkpoint)
and several bonds (chi, chi_mpo) of the boundaries that are drawn with: effective share of the
draws over all configurations and in the sector, milliseconds per draw beside those of a sweep over
all bonds, and the energy both ways.  The `chi` of a row is that of the amplitudes.  One core.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from states import heisenberg_state
from tnvmc import PEPS, SRC, DirectSampler, Sampler, heisenberg, square
from tnvmc.backend.process import keep_freed_memory
from tnvmc.backend.random import uniforms
from tnvmc.estimate.local import local_energy
from tnvmc.estimate.statistics import effective_samples, estimate, weighted_estimate
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.problem import Point, Problem

ROWS = [(4, 3, 9), (6, 3, 9), (8, 4, 12)]  # L, D, chi


def free_share(peps: PEPS, theta: Any, chi: int, chi_mpo: int, n: int) -> tuple[float, float]:
    """Effective share of draws over all configurations, and seconds per draw."""
    drawer = peps.drawer(theta, chi, chi_mpo)
    size, logs, seconds = peps.execution.chunk, [], 0.0
    for begin in range(0, n, size):
        numbers = uniforms(1, (0, 0), range(begin, min(begin + size, n)), peps.lattice.n_sites)
        began = time.perf_counter()
        configs, log_prob = drawer(numbers)
        seconds += time.perf_counter() - began
        logs.append(2 * peps.log_amplitude(theta, configs).log_abs - log_prob)
    log = np.concatenate(logs)
    return effective_samples(np.exp(log - log.max())) / n, seconds / n


def row(L: int, D: int, chi: int, n: int, theta: Any) -> None:
    """One state: the chain, then direct draws with growing bonds."""
    operator = heisenberg(square(L, L))
    peps = PEPS(operator.lattice, D, scheme=SRC(chi))
    theta = heisenberg_state(L, D)[1] if theta is None else theta
    sampler = Sampler(n_walkers=64, n_samples=n, n_burn=20, threads=1)
    problem = Problem.of(operator, peps)
    point = Point(theta, initial_configs(operator, 64, seed=0))
    walkers = peps.start(theta, point.configs[: peps.execution.chunk])
    began = time.perf_counter()
    for k in range(5):
        numbers = uniforms(0, (0, k), range(len(walkers.configs)), len(problem.moves))
        walkers = peps.sweep(theta, walkers, problem.moves, numbers)[0]
    sweep = (time.perf_counter() - began) / 5 / len(walkers.configs)
    snapshot, _, _ = sampler.draw(problem, point, 0, jacobian=False)
    chain = estimate(local_energy(operator, snapshot), 64)
    print(f"{L}x{L}, D = {D}, chi = {chi}: chain {chain} (tau {chain.tau:.1f}), "
          f"{1e3 * sweep:.2f} ms a sweep")  # fmt: skip
    bonds = [(2, 4), (D, 2 * D), (D, 8), (D, 16), (D, 32), (2 * D, 16)]
    for chi_draw, chi_mpo in dict.fromkeys(bonds):
        share, seconds = free_share(peps, theta, chi_draw, chi_mpo, min(n, 256))
        shares = []
        for n_pilot in (0, 128):
            direct = DirectSampler(n, chi_draw, chi_mpo, n_pilot=n_pilot, threads=1)
            drawn, _, _ = direct.draw(problem, point, 0, jacobian=False)
            shares.append(effective_samples(drawn.weight) / n)
        found = weighted_estimate(local_energy(operator, drawn), drawn.weight, n)
        sigmas = (found.mean - chain.mean) / np.hypot(found.error, chain.error)
        print(f"  draw with chi {chi_draw:>2}, chi_mpo {chi_mpo:>2}: {1e3 * seconds:6.2f} ms a draw, "
              f"effective {share:.4f} of all configurations, in the sector {shares[0]:.2f} masked, "
              f"{shares[1]:.2f} looking ahead; {found} ({sigmas:+.1f} sigma)", flush=True)  # fmt: skip


def main() -> None:
    """Run the rows asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", nargs="*", metavar="L,D,chi")
    parser.add_argument("--draws", type=int, default=1024)
    parser.add_argument("--checkpoint", type=Path, help="parameters of a run, for one row")
    args = parser.parse_args()
    theta = None
    if args.checkpoint:
        import h5py

        with h5py.File(args.checkpoint) as file:
            theta = file["here/theta"][()]
    rows = [tuple(map(int, text.split(","))) for text in args.rows] if args.rows else ROWS
    keep_freed_memory()
    with threadpool_limits(1):
        for L, D, chi in rows:
            row(L, D, chi, args.draws, theta)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
