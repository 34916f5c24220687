"""The GPU beside one core of its own machine: agreement, samples per second, a step in parts.

    python benchmarks/gpu.py [--quick] [--json FILE]

A sample is an exchange sweep over all bonds, the local energy and all log-derivatives (open
Heisenberg model, random tensors).  The rate of the arithmetic counts the products that the CPU
needs for the same samples, and stands beside the rate of batched products measured in the same
run.  Needs CuPy and a GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from meter import Meter
from tnvmc import PEPS, SR, SRC, VMC, Sampler, heisenberg, square
from tnvmc.ansatz.peps.starts.tensors import random_positive
from tnvmc.backend.device import DeviceError, describe, namespace_of
from tnvmc.backend.namespace import to_host, to_namespace
from tnvmc.backend.process import keep_freed_memory
from tnvmc.backend.random import uniforms
from tnvmc.estimate.observables import local_energy
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for
from tnvmc.sampling.workers import tables_in

ROWS = [  # L, D, chi, walkers on the GPU, walkers on the core
    (8, 4, 8, 32768, 128),
    (8, 4, 8, 4096, 128),
    (10, 6, 12, 4096, 32),
    (10, 8, 16, 4096, 8),
]


class Case:
    """A state, its walkers in one namespace, and the parts of a sample."""

    def __init__(self, L: int, D: int, chi: int, n_walkers: int, xp: Any) -> None:
        self.xp, self.n_walkers = xp, n_walkers
        self.operator = heisenberg(square(L, L))
        self.peps = PEPS(self.operator.lattice, D, scheme=SRC(chi))
        noise = np.random.default_rng(1).normal(size=self.peps.n_params)
        start = self.peps.flatten(
            random_positive(self.operator.lattice, D, self.peps.dtype, seed=3, local_dim=2)
        )
        self.theta = to_namespace(start * (1 + 0.3 * noise), xp)
        self.configs = to_namespace(initial_configs(self.operator, n_walkers, 0), xp)
        self.moves = tables_in(moves_for(self.operator), xp)
        self.targets = tables_in(self.operator.targets, xp)

    def wait(self) -> float:
        """The time when all work that was asked for is done."""
        if self.xp is not np:
            self.xp.cuda.Device().synchronize()
        return time.perf_counter()

    def sample(self, walkers: Any, number: int) -> tuple[Any, Any, dict[str, float]]:
        """A sweep and a measurement: walkers, (snapshot, local energies), seconds by part."""
        began = self.wait()
        chunk = range(self.n_walkers)
        numbers = uniforms(0, (0, number), chunk, len(self.moves), xp=self.xp)
        walkers, _ = self.peps.sweep(self.theta, walkers, self.moves, numbers)
        swept = self.wait()
        walkers, snapshot = self.peps.measure(self.theta, walkers, self.targets)
        measured = self.wait()
        local = local_energy(self.operator, snapshot)
        parts = {"sweep": swept - began, "measure": measured - swept}
        return walkers, (snapshot, local), parts | {"local energy": self.wait() - measured}

    def times(self, repeats: int) -> dict[str, float]:
        """Median seconds of each part and of the start."""
        walkers = self.peps.start(self.theta, self.configs)
        walkers, _, _ = self.sample(walkers, 0)  # compiles, fills the memory pool
        runs = []
        for number in range(1, repeats + 1):
            walkers, _, parts = self.sample(walkers, number)
            runs.append(parts)
        began = self.wait()
        self.peps.start(self.theta, self.configs)
        start = self.wait() - began
        return {part: statistics.median(r[part] for r in runs) for part in runs[0]} | {
            "start": start
        }


def agreement(xp: Any) -> dict[str, float]:
    """Largest differences to NumPy after one sweep of 64 walkers, 8x8, D = 4, chi = 8."""
    host, device = Case(8, 4, 8, 64, np), Case(8, 4, 8, 64, xp)
    results = []
    for case in (host, device):
        amplitude = case.peps.log_amplitude(case.theta, case.configs)
        _, (snapshot, local), _ = case.sample(case.peps.start(case.theta, case.configs), 0)
        arrays = (amplitude.log_abs, snapshot.configs, local, snapshot.jacobian.slices[27])
        results.append([to_host(array) for array in arrays])
    names = ("ln psi", "spins", "local energy", "log-derivatives")
    gaps = [float(np.abs(a * 1.0 - b).max()) for a, b in zip(*results, strict=True)]
    return dict(zip(names, gaps, strict=True))


def product_rates(xp: Any) -> dict[str, float]:
    """TFLOP/s of batched products of (n, n) matrices in double precision, and of one large one."""
    rates = {}
    for n, batch in ((32, 40000), (64, 12000), (128, 3000), (256, 760), (8192, 1)):
        a = xp.random.standard_normal((batch, n, n))
        seconds = _timed(lambda a=a: xp.matmul(a, a), xp)
        rates[str(n)] = 2 * batch * n**3 / seconds / 1e12
    return rates


def _timed(function: Callable[[], Any], xp: Any, repeats: int = 5) -> float:
    function()
    times = []
    for _ in range(repeats):
        xp.cuda.Device().synchronize()
        began = time.perf_counter()
        function()
        xp.cuda.Device().synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def row(L: int, D: int, chi: int, on_gpu: int, on_core: int, xp: Any) -> dict[str, Any]:
    """One line of the table."""
    gpu = Case(L, D, chi, on_gpu, xp).times(3)
    pool = xp.get_default_memory_pool()
    memory = pool.total_bytes() / 2**30
    pool.free_all_blocks()
    core = Case(L, D, chi, on_core, np)
    with threadpool_limits(1):
        cpu = core.times(3 if D < 6 else 1)
        with Meter() as meter:
            core.sample(core.peps.start(core.theta, core.configs), 9)
    flop = meter.flop / on_core

    def per_sample(times: dict[str, float], walkers: int) -> float:
        return sum(s for part, s in times.items() if part != "start") / walkers

    seconds, on_cpu = per_sample(gpu, on_gpu), per_sample(cpu, on_core)
    return {
        "L": L, "D": D, "chi": chi, "walkers": on_gpu, "ms_per_sample": 1e3 * seconds,
        "samples_per_second": 1 / seconds, "ms_on_one_core": 1e3 * on_cpu,
        "ratio": on_cpu / seconds, "mflop_per_sample": flop / 1e6,
        "tflops": flop / seconds / 1e12, "gigabytes": memory, "parts": gpu,
    }  # fmt: skip


def step(L: int, D: int, chi: int, n_samples: int, n_walkers: int) -> dict[str, Any]:
    """Seconds of a whole step of the optimisation, the second and third one."""
    case = Case(L, D, chi, 2, np)
    sampler = Sampler(n_walkers=n_walkers, n_samples=n_samples, n_burn=1)
    vmc = VMC(
        case.operator, case.peps, sampler, SR(), theta=case.theta, learning_rate=0.01, device="gpu"
    )
    vmc.run(1)
    records = vmc.run(2)
    return {"L": L, "D": D, "chi": chi, "samples": n_samples, "walkers": n_walkers,
            "seconds": [record.seconds for record in records],
            "solver": records[-1].optimizer.get("method")}  # fmt: skip


def main() -> None:
    """Print the tables and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="small cases only")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/gpu.json"))
    args = parser.parse_args()
    try:
        xp = namespace_of("gpu")
    except DeviceError as error:
        parser.exit(2, f"gpu.py: {error}\n")
    keep_freed_memory()
    report: dict[str, Any] = {"device": describe("gpu"), "cupy": xp.__version__}
    report["agreement"] = agreement(xp)
    print(report["device"], "| largest difference to NumPy:",
          ", ".join(f"{name} {gap:.1e}" for name, gap in report["agreement"].items()))  # fmt: skip
    report["tflops_of_products"] = product_rates(xp)
    print("batched products, float64, TFLOP/s by size:",
          ", ".join(f"{n}: {r:.1f}" for n, r in report["tflops_of_products"].items()))  # fmt: skip
    print(f"{'L, D, chi':>12} {'walkers':>8} {'ms':>8} {'one core':>9} {'ratio':>6} {'MFLOP':>8} "
          f"{'TFLOP/s':>8} {'GiB':>5}  parts (s)")  # fmt: skip
    report["rows"] = []
    for case in ROWS[1:2] if args.quick else ROWS:
        line = row(*case, xp)
        report["rows"].append(line)
        parts = ", ".join(f"{part} {s:.2f}" for part, s in line["parts"].items())
        print(f"{'{L}, {D}, {chi}'.format(**line):>12} {line['walkers']:>8} "
              f"{line['ms_per_sample']:>8.4f} {line['ms_on_one_core']:>9.2f} {line['ratio']:>6.0f} "
              f"{line['mflop_per_sample']:>8.0f} {line['tflops']:>8.2f} {line['gigabytes']:>5.1f}  "
              f"{parts}", flush=True)  # fmt: skip
    report["steps"] = []
    for settings in (
        ((8, 4, 8, 4096, 4096),) if args.quick else ((8, 4, 8, 4096, 4096), (10, 8, 16, 4096, 4096))
    ):
        line = step(*settings)
        report["steps"].append(line)
        print(f"step of {line['L']}x{line['L']}, D = {line['D']}, chi = {line['chi']}, "
              f"{line['samples']} samples, SR ({line['solver']}): "
              + ", ".join(f"{s:.2f} s" for s in line["seconds"]), flush=True)  # fmt: skip
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
