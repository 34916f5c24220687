"""Energy against cost by fixed projectors and by SRC, for one state of Heisenberg or J1-J2.

    python benchmarks/fixed_projectors.py [--cases L,D,J2 ...] [--steps 60] [--json FILE]

A PEPS is optimised with SRC(2 D) and sampled with SRC(4 D).  Every scheme contracts it at the same configurations,
reweighted to the |psi|^2 that it makes of them, so that differences have small errors.  By fixed projectors
psi is one function of s: its energy is that of a wave function, which no truncation can bring below the
ground state's.  By SRC it is not, and where truncation is felt its energy may be off in either direction.

The time is process time of a sample on one core: a sweep, local energies and log-derivatives; projectors and
sketches, made once for each theta, stand beside it.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tnvmc import PEPS, SRC, VMC, Fixed, Sampler, j1j2, square
from tnvmc.backend.random import uniforms
from tnvmc.estimate.local import local_energy
from tnvmc.estimate.reweighting import Remeasured, chi_points
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for
from tnvmc.sampling.problem import Point, Problem
from tnvmc.sampling.snapshots import measure_configs

CASES = ("6,3,0", "6,4,0", "6,4,0.5", "8,4,0")
TIMES_D = (1, 2, 3, 4, 6)  # chi of fixed projectors
WALKERS = 64
Row = dict[str, Any]


def optimised(L: int, D: int, J2: float, steps: int, samples: int) -> VMC:
    """A state that is worth contracting."""
    operator = j1j2(square(L, L), J2=J2)
    sampler = Sampler(n_walkers=2 * WALKERS, n_samples=samples, threads=1)
    vmc = VMC(operator, PEPS(operator.lattice, D, scheme=SRC(2 * D)), sampler, learning_rate=0.05)
    vmc.run(steps)
    return vmc


def drawn(vmc: VMC, samples: int) -> Any:
    """Configurations of the state with little truncation, and what that makes of them."""
    peps = vmc.ansatz.with_scheme(SRC(4 * vmc.ansatz.D))
    problem = Problem.of(vmc.operator, peps)
    sampler = Sampler(2 * WALKERS, samples, 20, threads=1)
    start = Point(vmc.theta, initial_configs(vmc.operator, 2 * WALKERS, 0))
    return sampler.draw(problem, start, 0, False)[1].configs


def seconds_of_a_sample(vmc: VMC, peps: PEPS, configs: np.ndarray) -> tuple[float, float]:
    """Of a sample, and of what is made once for each theta."""
    moves, first = moves_for(vmc.operator), configs[:WALKERS]
    began = time.process_time()
    walkers = peps.start(vmc.theta, first)
    once = time.process_time() - began
    began = time.process_time()
    peps.start(vmc.theta, first)
    once -= time.process_time() - began
    times = []
    for number in range(3):
        u = uniforms(0, (0, number), range(WALKERS), len(moves))
        began = time.process_time()
        walkers, _ = peps.sweep(vmc.theta, walkers, moves, u)
        walkers, snapshot = peps.measure(vmc.theta, walkers, vmc.operator.targets)
        local_energy(vmc.operator, snapshot)
        times.append((time.process_time() - began) / WALKERS)
    return min(times), once


def compared(vmc: VMC, configs: np.ndarray, n_walkers: int) -> list[Row]:
    """All schemes at the same configurations."""
    D, n_sites = vmc.ansatz.D, vmc.operator.n_sites
    schemes = [
        *(("SRC", k * D, SRC(k * D)) for k in (1, 2, 3)),
        *(("fixed", k * D, Fixed(k * D)) for k in TIMES_D),
        ("SRC", 6 * D, SRC(6 * D)),  # the reference comes last
    ]
    found = {}
    for number, (_, _, scheme) in enumerate(schemes):
        seen = measure_configs(
            vmc.ansatz.with_scheme(scheme), vmc.theta, configs, vmc.operator.targets, threads=1
        )
        found[number] = Remeasured(local_energy(vmc.operator, seen), seen.amplitude.log_abs)
    base = measure_configs(
        vmc.ansatz.with_scheme(SRC(4 * D)), vmc.theta, configs, {}, threads=1
    ).amplitude.log_abs
    rows = []
    for point, (name, chi, scheme) in zip(
        chi_points(found, n_walkers, -2.0 * np.asarray(base)), schemes, strict=True
    ):
        sample, once = seconds_of_a_sample(vmc, vmc.ansatz.with_scheme(scheme), configs)
        rows.append({
            "scheme": name, "chi": chi, "energy": point.energy / n_sites,
            "energy_error": point.energy_error / n_sites,
            "difference": point.difference / n_sites,
            "difference_error": point.difference_error / n_sites,
            "effective_share": point.effective_samples / len(configs),
            "ms_sample": 1e3 * sample, "seconds_theta": once,
        })  # fmt: skip
    return rows


def show(row: Row) -> None:
    """One line of the table."""
    print(f"{row['scheme']:>6} {row['chi']:>4} {row['energy']:>11.6f} {row['difference']:>+11.2e} "
          f"{row['difference_error']:>8.1e} {row['effective_share']:>8.2f} {row['ms_sample']:>8.2f} "
          f"{row['seconds_theta']:>8.2f}", flush=True)  # fmt: skip


def main() -> None:
    """Print a table for each case, and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument(
        "--json", type=Path, default=Path(__file__).parent / "results" / "fixed_projectors.json"
    )
    options = parser.parse_args()
    results = []
    with threadpool_limits(1):
        for case in options.cases:
            L, D, J2 = (float(x) if "." in x else int(x) for x in case.split(","))
            vmc = optimised(int(L), int(D), float(J2), options.steps, 1024)
            print(f"{L}x{L}, D = {D}, J2 = {J2}: energy per site, difference to SRC({6 * D})")
            print("scheme  chi      energy  difference  +-       eff.share ms/sample s/theta")
            rows = compared(vmc, drawn(vmc, options.samples), 2 * WALKERS)
            for row in rows:
                show(row)
            results.append({"L": L, "D": D, "J2": J2, "steps": options.steps, "rows": rows})
    options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
