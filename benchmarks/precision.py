"""Double and single precision: time of a sample, and what rounding does to the energy.

    python benchmarks/precision.py [--device cpu|gpu] [--rows L,D,chi ...] [--json FILE]

States of the open Heisenberg model from simple update.  A sample is `thin` sweeps, the local energy
and all log-derivatives; times are medians of rounds in which both take turns, on one core of a CPU.

The bias is measured on configurations drawn from |psi|^2 in double precision, which stand for
|psi_1|^2, psi_1 being psi in single precision, with weights |psi_1/psi|^2: what they share cancels.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from states import heisenberg_state
from tnvmc import PEPS, SRC, Sampler, heisenberg, square
from tnvmc.backend.device import DeviceError, describe, namespace_of
from tnvmc.backend.namespace import to_host, to_namespace
from tnvmc.backend.process import keep_freed_memory
from tnvmc.estimate.observables import local_energy
from tnvmc.estimate.statistics import estimate
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.problem import Point, Problem
from tnvmc.sampling.workers import measure_configs

ROWS = [(6, 3, 9), (8, 4, 8), (8, 4, 16), (10, 6, 12)]
WAYS = ("double", "single")


class Case:
    """A state in both precisions, and samplers for it."""

    def __init__(self, ansatz: Any, theta: Any, L: int, n_walkers: int, xp: Any) -> None:
        self.xp, self.ansatz, self.operator = xp, ansatz, heisenberg(square(L, L))
        self.theta = to_namespace(theta, xp)
        self.configs = to_namespace(initial_configs(self.operator, n_walkers, 0), xp)
        self.n_walkers = n_walkers
        self.single = PEPS(ansatz.lattice, ansatz.D, "float32", ansatz.scheme)

    def run(self, way: str, n_samples: int, thin: int, jacobian: bool = True) -> Any:
        """Samples in one of the two precisions: configurations and a snapshot."""
        sampler = Sampler(self.n_walkers, n_samples, 0, thin, threads=1)
        ansatz, theta = self.ansatz, self.theta
        if way == "single":
            ansatz, theta = self.single, self.xp.astype(theta, self.xp.float32)
        problem = Problem.of(self.operator, ansatz)
        snapshot, point, _ = sampler.draw(problem, Point(theta, self.configs), 0, jacobian)
        return point.configs, snapshot

    def milliseconds(self, thin: int, rounds: int) -> dict[str, float]:
        """Median time of a sample, by way."""
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        for number in range(rounds + 1):
            for way, found in times.items():
                began = self.wait()
                _, snapshot = self.run(way, self.n_walkers, thin)
                local_energy(self.operator, snapshot)
                if number:  # the first one compiles and fills memory pools
                    found.append(1e3 * (self.wait() - began) / self.n_walkers)
        return {way: statistics.median(found) for way, found in times.items()}

    def wait(self) -> float:
        """The time when all work that was asked for is done."""
        if self.xp is not np:
            self.xp.cuda.Device().synchronize()
        return time.perf_counter()

    def bias(self, n_samples: int) -> dict[str, tuple[float, float]]:
        """What rounding changes in the energy per site, with its error."""
        self.configs, _ = self.run("double", self.n_walkers, 20, jacobian=False)
        _, drawn = self.run("double", n_samples, 2, jacobian=False)
        exact = to_host(local_energy(self.operator, drawn)).real
        theta = self.xp.astype(self.theta, self.xp.float32)
        again = measure_configs(self.single, theta, drawn.configs, self.operator.targets, threads=1)
        rounded = to_host(local_energy(self.operator, again)).real.astype(float)
        log_abs = again.amplitude.log_abs
        off = to_host(log_abs).astype(float) - to_host(drawn.amplitude.log_abs)
        weight = np.exp(2 * (off - off.mean()))
        weight /= weight.mean()
        return {"single": self._shift(weight, rounded, exact), "ln psi": (float(off.std()), 0.0)}

    def _shift(self, weight: Any, values: Any, exact: Any) -> tuple[float, float]:
        mean = float(weight @ values) / weight.size
        series = weight * (values - mean) - (exact - exact.mean())
        n = self.operator.n_sites
        return (mean - float(exact.mean())) / n, estimate(series, self.n_walkers).error / n


def line(name: str, case: Case, n_samples: int, rounds: int) -> dict[str, Any]:
    """One line of the table, printed as it is made."""
    times = {str(thin): case.milliseconds(thin, rounds) for thin in (1, 8)}
    bias = case.bias(n_samples)
    parts = [f"{name:<18}", f"{case.n_walkers:>6}"]
    for thin in ("1", "8"):
        parts += [f"{times[thin][way]:>8.3f}" for way in WAYS]
    parts.append(f"{bias['ln psi'][0]:>8.0e}")
    parts.append("{:>+9.0e} ({:.0e})".format(*bias["single"]))
    print(" ".join(parts), flush=True)
    return {"state": name, "walkers": case.n_walkers, "samples": n_samples,
            "ms_per_sample": times, "bias_per_site": bias}  # fmt: skip


def main() -> None:
    """Print the table and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--rows", nargs="*", default=[",".join(map(str, row)) for row in ROWS])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    try:
        xp = namespace_of(args.device)
    except DeviceError as error:
        parser.exit(2, f"precision.py: {error}\n")
    keep_freed_memory()
    print(describe(args.device))
    print(
        f"{'':<18} {'':>6} {'ms, thin = 1':>17} {'ms, thin = 8':>17} {'':>8} bias per site (error)"
    )
    print(f"{'state':<18} {'walk.':>6} " + 2 * "{:>8} {:>8} ".format(*WAYS)
          + f"{'ln psi':>8} {'single':>17}")  # fmt: skip
    report: dict[str, Any] = {"device": describe(args.device), "rows": []}
    with threadpool_limits(1):
        for row in args.rows:
            L, D, chi = map(int, row.split(","))
            peps, theta = heisenberg_state(L, D, "float64")
            peps = peps.with_scheme(SRC(chi))
            n_walkers = 4096 if args.device == "gpu" else 2 * peps.execution.chunk
            case = Case(peps, theta, L, n_walkers, xp)
            report["rows"].append(
                line(f"PEPS {L},{D},{chi}", case, max(1024, n_walkers), args.rounds)
            )
    path = args.json or Path(f"benchmarks/results/precision_{args.device}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
