"""Time of a whole sample: exchange sweep over all bonds, local energy, all log-derivatives.

    python benchmarks/sample.py [--rows L,D,chi ...] [--threads] [--json FILE]

Prints milliseconds per sample on one core, and of the same sample by NumPy alone the share of time in products,
decompositions and copies, the operations of its products, and their rate against that of a batched product measured
in the same run.  One core means: one thread, BLAS at one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from meter import Meter, gemm_rate
from states import WholeSample, heisenberg_state
from tnvmc import SRC, Sampler, heisenberg, square
from tnvmc.backend.process import keep_freed_memory
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.problem import Point, Problem

ROWS = [  # L, D, chi, dtype
    (6, 3, 9, "float64"),
    (8, 4, 8, "float64"),
    (8, 4, 16, "float64"),
    (10, 6, 12, "float64"),
    (8, 4, 8, "float32"),
    (8, 4, 8, "complex128"),
]


def one_core(
    L: int, D: int, chi: int, dtype: str, repeats: int, chunk: int | None
) -> dict[str, Any]:
    """Median over `repeats` of sweep + measurement of one chunk, and where the time goes."""
    sample = WholeSample(L, D, chi, dtype, chunk)
    n, seconds = sample.n_walkers, []
    for _ in range(repeats):
        began = time.perf_counter()
        info, snapshot = sample()
        seconds.append(time.perf_counter() - began)
    with Meter() as meter:
        began = time.perf_counter()
        for _ in range(3):
            sample()
        metered = (time.perf_counter() - began) / 3
    shares = {kind: value / 3 / metered for kind, value in meter.seconds.items()}
    return {
        "L": L, "D": D, "chi": chi, "dtype": dtype, "walkers": n,
        "ms_per_sample": 1e3 * statistics.median(seconds) / n,
        "ms_fastest": 1e3 * min(seconds) / n,
        "share": shares,
        "mflop_per_sample": meter.flop / 3 / n / 1e6,
        "gflops_products": meter.flop / meter.seconds["products"] / 1e9,
        "gflops_gemm": gemm_rate(dtype),
        "acceptance": float(info.accepted.sum() / info.proposed.sum()),
        "median_spread": float(np.median(snapshot.closure_spread)),
    }  # fmt: skip


def threads(L: int, D: int, chi: int, repeats: int) -> dict[str, Any]:
    """One thread and two over the same walkers, alternating; ratio of medians."""
    peps, theta = heisenberg_state(L, D)
    peps = peps.with_scheme(SRC(chi))
    problem = Problem.of(heisenberg(square(L, L)), peps)
    n = 4 * peps.execution.chunk
    point = Point(theta, initial_configs(problem.operator, n, seed=0))
    times: dict[int, list[float]] = {1: [], 2: []}
    for repeat in range(repeats + 1):
        for n_threads in (1, 2):
            sampler = Sampler(n_walkers=n, n_samples=2 * n, n_burn=0, threads=n_threads)
            began = time.perf_counter()
            sampler.draw(problem, point, 0)
            if repeat:
                times[n_threads].append(time.perf_counter() - began)
    ratios = [one / two for one, two in zip(times[1], times[2], strict=True)]
    return {"L": L, "D": D, "chi": chi, "speedup_two_threads": statistics.median(ratios),
            "speedup_best": min(times[1]) / min(times[2])}  # fmt: skip


def main() -> None:
    """Run the rows asked for, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", nargs="*", metavar="L,D,chi", help="only these, float64")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--chunk", type=int, help="walkers per batch (default: the ansatz's hint)")
    parser.add_argument("--threads", action="store_true", help="also two threads against one")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/sample.json"))
    args = parser.parse_args()
    rows = ROWS
    if args.rows:
        rows = [(*map(int, row.split(",")), "float64") for row in args.rows]  # type: ignore[misc]
    keep_freed_memory()
    report: dict[str, Any] = {"rows": [], "threads": []}
    print("one core, BLAS at one thread; ms per sample = sweep + local energy + log-derivatives")
    print(f"{'L, D, chi':>12} {'dtype':>10} {'B':>4} {'ms':>7} {'best':>7} "
          f"{'prod':>5} {'dec':>5} {'copy':>5} {'MFLOP':>6} {'GF/s':>5} {'GEMM':>5} {'acc':>5}")  # fmt: skip
    with threadpool_limits(1):
        for L, D, chi, dtype in rows:
            row = one_core(L, D, chi, dtype, args.repeats, args.chunk)
            report["rows"].append(row)
            share = row["share"]
            print(f"{f'{L}, {D}, {chi}':>12} {dtype:>10} {row['walkers']:>4} "
                  f"{row['ms_per_sample']:>7.2f} {row['ms_fastest']:>7.2f} "
                  f"{share['products']:>5.0%} {share['decompositions']:>5.0%} {share['copies']:>5.0%} "
                  f"{row['mflop_per_sample']:>6.1f} {row['gflops_products']:>5.1f} "
                  f"{row['gflops_gemm']:>5.1f} {row['acceptance']:>5.2f}", flush=True)  # fmt: skip
    if args.threads:
        for L, D, chi in ((8, 4, 8), (8, 4, 16)):
            row = threads(L, D, chi, args.repeats)
            report["threads"].append(row)
            print(f"two threads against one, {L}, {D}, {chi}: {row['speedup_two_threads']:.2f} "
                  f"(median of pairs), {row['speedup_best']:.2f} (fastest against fastest)")  # fmt: skip
    report["peak_memory_MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process: {report['peak_memory_MiB']:.0f} MiB")
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
