"""What a smaller chi does to local energies of a finished run, and what it saves: is the rule of growing chi right?

    python benchmarks/growing_chi.py [--rows RUN:N,CHI,CHI,... ...] [--samples 512] [--rounds 3] [--json FILE]

RUN is a folder of `records/` or any other, N the samples of a step of the rule.  Configurations are
drawn at the largest chi and measured again at each smaller one.  For each chi: the closure spread
s; its ratio to sqrt(sigma/|E'|), with sigma of N independent samples and the off-diagonal part E'
of the energy, above which the rule lets chi grow; the noise that truncation adds to local energies,
as a part of their variance; how far it moves their mean over |psi|^2 of the largest chi, per site,
in brackets its error; and the time of a sample, which is its part of a step of the run: sweeps, the
local energy and all log-derivatives; the median of rounds in which all chi take turns.  One core,
some minutes a row.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tnvmc import load_run
from tnvmc.ansatz.protocol import with_chi
from tnvmc.backend.process import keep_freed_memory
from tnvmc.estimate.diagnostic import UnreliableWarning
from tnvmc.estimate.observables import local_energy, off_diagonal_values
from tnvmc.estimate.reliability import closure_threshold
from tnvmc.estimate.statistics import Estimate, estimate_samples
from tnvmc.sampling.problem import Point, Problem
from tnvmc.sampling.workers import measure_configs
from tnvmc.vmc.measurement import MeasurementPlan, measure

RECORDS = Path(__file__).parents[1] / "records"
RESULTS = Path(__file__).parent / "results" / "growing_chi.json"
ROWS = (
    "heisenberg_6x6:512,4,5,6,7,8,12",
    "heisenberg_8x8:512,4,5,6,7,8,12",
    "tfim_12x12:4096,4,5,6,8,12",
    "heisenberg_8x8_d6:2048,6,7,8,9,10,12,18",
)
HEAD = f"{'chi':>4} {'s':>8} {'s/rule':>7} {'noise':>8} {'moved per site':>19} {'ms a sample':>12}"


class Row:
    """A state of a run, drawn from at the largest of some chi."""

    def __init__(self, name: str, n_samples: int, chis: list[int]) -> None:
        found = RECORDS / name
        vmc = load_run(found if found.is_dir() else name).vmc
        self.chis = chis
        plan = MeasurementPlan(n_samples, max(chis), n_thin=2)
        seen = measure(vmc.method, vmc.state, plan)
        self.problem, self.sampler = seen.problem, replace(vmc.method.sampler, threads=1)
        self.theta, self.configs = seen.point.theta, seen.observation.snapshot.configs
        self.weight, self.info = seen.observation.snapshot.weight, seen.observation.info

    def at(self, chi: int) -> Problem:
        """The same Hamiltonian with the state at this chi."""
        return replace(self.problem, ansatz=with_chi(self.problem.ansatz, chi))

    def energies(self, chi: int) -> tuple[np.ndarray, float, float]:
        """Local energies (M,) of the configurations, the off-diagonal energy and the mean closure spread."""
        problem = self.at(chi)
        snapshot = measure_configs(
            problem.ansatz, self.theta, self.configs, problem.operator.targets, threads=1
        )
        snapshot = replace(snapshot, weight=self.weight)
        assert snapshot.closure_spread is not None
        spread = float(np.average(snapshot.closure_spread, weights=self.weight))
        local = np.asarray(local_energy(problem.operator, snapshot)).real
        part = off_diagonal_values(problem.operator, snapshot, local)
        return local, float(np.average(part, weights=self.weight)), spread

    def estimate(self, values: np.ndarray) -> Estimate:
        """Of the mean over |psi|^2 of the largest chi."""
        return estimate_samples(values, self.weight, self.info)

    def milliseconds(self, rounds: int) -> dict[int, float]:
        """Median time of a sample, by chi."""
        walkers = self.configs[-self.info.n_walkers :]
        sampler = replace(self.sampler, n_walkers=len(walkers), n_samples=len(walkers), n_burn=0)
        times: dict[int, list[float]] = {chi: [] for chi in self.chis}
        for number in range(rounds + 1):
            for chi, found in times.items():
                problem, began = self.at(chi), time.perf_counter()
                point = Point(self.theta, walkers)
                snapshot, *_ = sampler.draw(problem, point, number, jacobian=True)
                local_energy(problem.operator, snapshot)
                if number:  # the first one compiles
                    found.append(1e3 * (time.perf_counter() - began) / len(walkers))
        return {chi: statistics.median(found) for chi, found in times.items()}


def lines(row: Row, n_of_step: int, rounds: int) -> list[dict[str, Any]]:
    """Figures of all chi, the largest one first."""
    times = row.milliseconds(rounds)
    n_sites = row.problem.operator.n_sites
    largest, part, _ = row.energies(max(row.chis))
    variance = row.estimate(largest).variance
    rule = closure_threshold(part, math.sqrt(variance / n_of_step))
    found = []
    for chi in sorted(row.chis, reverse=True):
        energies, _, spread = row.energies(chi)
        moved = row.estimate(energies - largest)
        found.append(
            {"chi": chi, "spread": spread, "of_rule": spread / rule, "noise": moved.variance / variance,
             "moved": moved.mean / n_sites, "moved_error": moved.error / n_sites, "ms_per_sample": times[chi]}
        )  # fmt: skip
    return found


def shown(line: dict[str, Any]) -> str:
    """One line of the table."""
    return (
        "{chi:>4} {spread:>8.1e} {of_rule:>7.2f} {noise:>8.1e} {moved:>+9.1e} ({moved_error:.0e}) "
        "{ms_per_sample:>12.2f}".format(**line)
    )


def main() -> None:
    """Print a table for each state and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", nargs="*", default=ROWS, metavar="RUN:N,CHI,...")
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=RESULTS)
    args = parser.parse_args()
    keep_freed_memory()
    warnings.simplefilter("ignore", UnreliableWarning)  # chi is too small on purpose
    report = []
    with threadpool_limits(1):
        for text in args.rows:
            name, numbers = text.rsplit(":", 1)
            n_of_step, *chis = map(int, numbers.split(","))
            print(f"{name}, {args.samples} samples, a step of the rule has {n_of_step}\n{HEAD}")
            found = lines(Row(name, args.samples, chis), n_of_step, args.rounds)
            print("\n".join(map(shown, found)), flush=True)
            report.append(
                {"run": name, "samples": args.samples, "of_step": n_of_step, "chi": found}
            )
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(report, indent=1) + "\n")
    print(f"written to {args.json}")


if __name__ == "__main__":
    main()
