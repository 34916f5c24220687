"""The table of times that are kept fast, against the last one that was written.

    python benchmarks/track.py [--rows NAME ...] [--repeats N] [--threads] [--write] [--json FILE]

Rows: a whole sample of a PEPS (sweep over all bonds, local energy, log-derivatives) by L, D, chi; a
step of an RBM, a CNN and a ViT, 1024 samples; covariance and solve of stochastic reconfiguration,
2048 samples of 8x8 at D = 4.  float64, BLAS at one thread, CPU time of all threads.

The unit is CPU milliseconds times the rate of a batched matrix product that is measured before and
after each repetition: MFLOP-equivalents, which a slower clock or a busy machine changes little.
Given are medians, and the standard error of each by the spread of the repetitions.  That error
knows nothing of what stays the same within a run: other programs slow products and samples down by
different factors.  How much, the product tells: its rate beside what it was in the last table, and
its scatter.  Both are added to the error.  A row is slower (or faster) where the ratio to the last
table is off 1 by more than three such errors and by more than FLOOR.  Where the error exceeds
WORST, or other programs keep the processor busy, the verdict is "cannot tell": run it again when
the machine is idle.  Compared is with the last entry from the same processor, else with the last.

--write appends the table to benchmarks/results/track.json, a list: its history; not where it
cannot tell.  --threads also gives the speed of two threads over one, by the clock.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from threadpoolctl import threadpool_limits

from meter import cpu_name, gemm_rate
from states import WholeSample, heisenberg_state
from tnvmc import SR, SRC, Sampler, __version__, heisenberg, square
from tnvmc.backend.process import keep_freed_memory
from tnvmc.estimate.observables import local_energy
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.problem import Point, Problem

HISTORY = Path(__file__).parent / "results" / "track.json"

FLOOR = 0.05
"""Smallest change that is told: medians of two runs of one program differ by so much on a shared
machine, whatever the spread within a run."""

WORST = 0.1
"""Relative error of a ratio beyond which nothing is said: no change that matters would show."""

BUSY = 0.5
"""Share of the cores that other programs take from which on nothing is said."""

N_ERRORS = 3
N_SR = 2048

Task = Callable[[], Any]


def peps_row(L: int, D: int, chi: int, dtype: str = "float64") -> tuple[Task, int]:
    """A whole sample, and how many one call makes."""
    sample = WholeSample(L, D, chi, dtype)
    return sample, sample.n_walkers


def network_row(kind: str) -> tuple[Task, int]:
    """A step of a network with 256 walkers."""
    from networks import steps_of  # imports JAX

    run = steps_of(kind, 256)
    run(3)  # compiles
    return lambda: run(1), 1


def sr_row() -> tuple[Task, int]:
    """Covariance and solve of SR on samples of 8x8 at D = 4."""
    peps, theta = heisenberg_state(8, 4)
    operator = heisenberg(square(8, 8))
    problem = Problem.of(operator, peps.with_scheme(SRC(8)))
    sampler, rule = Sampler(128, N_SR, n_burn=4, power=1.0, threads=1), SR(0.01)
    point = Point(theta, initial_configs(operator, sampler.n_walkers, seed=0))
    snapshot, _, _ = sampler.draw(problem, point, 0)
    local = local_energy(operator, snapshot)
    state = rule.init(theta)
    return lambda: rule.direction(theta, snapshot.jacobian, local, None, state), 1


ROWS: dict[str, Callable[[], tuple[Task, int]]] = {
    **{
        f"{L},{D},{chi}": lambda sizes=(L, D, chi): peps_row(*sizes)
        for L, D, chi in ((6, 3, 9), (8, 4, 8), (8, 4, 16), (10, 6, 12), (8, 8, 16))
    },
    **{
        f"8,4,8,{dtype}": lambda dtype=dtype: peps_row(8, 4, 8, dtype)
        for dtype in ("float32", "complex128")
    },
    **{kind: lambda kind=kind: network_row(kind) for kind in ("rbm", "cnn", "vit")},
    "sr": sr_row,
}


def measured(make: Callable[[], tuple[Task, int]], repeats: int) -> dict[str, float]:
    """Median of one row in MFLOP-equivalents, its standard error, and what it is made of."""
    task, n_each = make()
    task()
    costs, seconds, rates = [], [], [gemm_rate()]
    for _ in range(repeats):
        began = time.process_time()
        task()
        seconds.append((time.process_time() - began) / n_each)
        rates.append(gemm_rate())
        costs.append(1e3 * seconds[-1] * (rates[-2] + rates[-1]) / 2)
    quarter, median, three_quarters = np.quantile(costs, (0.25, 0.5, 0.75))
    # Of normal numbers: sigma = IQR / 1.35, and the median has 1.25 times the error of the mean.
    error = 1.25 * (three_quarters - quarter) / 1.35 / len(costs) ** 0.5
    return {
        "mflop": float(median),
        "error": float(error),
        "ms": 1e3 * statistics.median(seconds),
        "gflops_gemm": statistics.median(rates),
        "scatter_gemm": scatter(rates),
        "busy": others(),
    }


def two_threads(L: int, D: int, chi: int, repeats: int) -> float:
    """Speed of two threads over one on the same walkers, by turns: the median of the ratios."""
    peps, theta = heisenberg_state(L, D)
    peps = peps.with_scheme(SRC(chi))
    problem = Problem.of(heisenberg(square(L, L)), peps)
    n = 4 * peps.execution.chunk
    point = Point(theta, initial_configs(problem.operator, n, seed=0))
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(repeats + 1):
        for n_threads in (1, 2):
            sampler = Sampler(n_walkers=n, n_samples=2 * n, n_burn=0, threads=n_threads)
            began = time.perf_counter()
            sampler.draw(problem, point, 0)
            times[n_threads].append(time.perf_counter() - began)
    return statistics.median(one / two for one, two in zip(times[1][1:], times[2][1:], strict=True))


def scatter(rates: Sequence[float]) -> float:
    """Standard deviation of rates over their median, by the quartiles."""
    quarter, median, three_quarters = np.quantile(rates, (0.25, 0.5, 0.75))
    return float((three_quarters - quarter) / 1.35 / median)


def others() -> float:
    """Share of the cores that other programs take: the load of the last minute without this one."""
    return max(0.0, os.getloadavg()[0] - 1) / (os.cpu_count() or 1)


def change(now: Mapping[str, float], before: Mapping[str, float]) -> tuple[float, float, str]:
    """Ratio to an earlier row, its error, and "slower", "faster", "same" or "cannot tell"."""
    ratio = now["mflop"] / before["mflop"]
    parts = [row["error"] / row["mflop"] for row in (now, before)]
    parts += [row.get("scatter_gemm", 0.0) for row in (now, before)]
    parts.append(now["gflops_gemm"] / before["gflops_gemm"] - 1)  # another clock, or a busy memory
    error = float(np.hypot.reduce(parts))
    if error > WORST or now.get("busy", 0.0) > BUSY:
        return ratio, ratio * error, "cannot tell"
    if abs(ratio - 1) <= max(N_ERRORS * ratio * error, FLOOR):
        return ratio, ratio * error, "same"
    return ratio, ratio * error, "slower" if ratio > 1 else "faster"


def last_of(history: list[dict[str, Any]], name: str, cpu: str) -> dict[str, Any] | None:
    """The last entry that has a row, from the same processor where there is one."""
    having = [entry for entry in history if name in entry["rows"]]
    here = [entry for entry in having if entry["cpu"] == cpu]
    return (here or having or [None])[-1]


def read_history(path: Path) -> list[dict[str, Any]]:
    """The entries of a file; none where there is no file."""
    if not path.exists():
        return []
    try:
        found = json.loads(path.read_text())
        if not all(isinstance(entry["rows"], dict) and entry["cpu"] for entry in found):
            raise ValueError("an entry has no rows")
    except (ValueError, TypeError, KeyError) as error:
        sys.exit(f"track.py: {path} is no history of this script ({error}); name another one")
    return list(found)


def commit() -> str:
    """Short name of the commit, with "+" where files differ from it."""

    def git(*words: str) -> str:
        place = Path(__file__).parent
        return subprocess.run(
            ("git", *words), cwd=place, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def main() -> None:
    """Measure the rows, print them beside the last table, say what got slower."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="NAME",
                        help=f"of {' '.join(ROWS)}; default: all")  # fmt: skip
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--threads", action="store_true", help="also two threads against one")
    parser.add_argument("--write", action="store_true", help="append the table to the history")
    parser.add_argument("--json", type=Path, default=HISTORY, help="the history")
    args = parser.parse_args()
    if args.repeats < 3:
        parser.error(f"--repeats must be 3 at least, for a spread; got {args.repeats}")
    history, cpu = read_history(args.json), cpu_name()
    keep_freed_memory()
    rows, slower, untold = {}, [], []
    print(f"{'row':>8} {'MFLOP-eq.':>10} {'+-':>7} {'CPU ms':>8} {'GEMM':>5} {'ratio':>6}  against")
    with threadpool_limits(1, user_api="blas"):
        for name in args.rows:
            try:
                rows[name] = row = measured(ROWS[name], args.repeats)
            except ModuleNotFoundError as missing:
                print(f"{name:>8} left out: needs {missing.name}")
                continue
            told, earlier = "no earlier table", last_of(history, name, cpu)
            if earlier is not None:
                ratio, error, verdict = change(row, earlier["rows"][name])
                other = "" if earlier["cpu"] == cpu else f", {earlier['cpu']}"
                told = f"{ratio:6.2f}  {earlier['date']} {earlier['commit']}{other}: {verdict}"
                if verdict == "cannot tell":
                    told += f" (error {error:.2f}, others {row['busy']:.0%} of the cores)"
                    untold.append(name)
                if verdict == "slower":
                    slower.append(
                        f"{name}: {ratio:.2f}({round(100 * error)}) of {earlier['commit']}"
                    )
            print(f"{name:>8} {row['mflop']:>10.4g} {row['error']:>7.2g} {row['ms']:>8.2f} "
                  f"{row['gflops_gemm']:>5.1f} {told}", flush=True)  # fmt: skip
        for sizes in ((8, 4, 8), (8, 4, 16)) if args.threads else ():
            print(f"two threads, {sizes}: {two_threads(*sizes, args.repeats):.2f} of one's speed")
    print("slower: " + ("; ".join(slower) or "nothing that can be told"))
    if untold:
        print(f"cannot tell: {', '.join(untold)}; run it again on an idle machine")
    if args.write and untold:
        sys.exit("not written: later tables would be compared with it")
    if args.write:
        today = datetime.date.today().isoformat()
        entry = {
            "date": today,
            "version": __version__,
            "commit": commit(),
            "cpu": cpu,
            "rows": rows,
        }
        args.json.write_text(json.dumps([*history, entry], indent=1) + "\n")


if __name__ == "__main__":
    main()
