"""Step time and efficiency on many ranks: measured on 1 and 2, predicted for up to 4,096.

    python benchmarks/scaling.py [--quick] [--json FILE]

Three parts.  (1) What a step sends, on 2 and on 4 ranks, phase by phase, against the formulas of
scaling_model.py; and what it takes on 2 ranks.  (2) The constants of this machine: seconds of a sample, of products with slices, of
a Gram matrix, of a solution, latency and bandwidth between two ranks.  (3) Step times for 10x10 with D = 8 and 16x16 with D = 10 on a
cluster: the arithmetic of this machine's cores, and a network given by --latency and --bandwidth.

Needs mpi4py and mpiexec.  The machine should be idle: 4 ranks on 2 cores are counted, not timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from scaling_model import (
    Machine,
    Problem,
    Step,
    memory,
    seconds,
    sent,
    step_by_iterations,
    step_by_matrix,
)
from threadpoolctl import threadpool_limits

from tnvmc import PEPS, SRC, heisenberg, square
from tnvmc.ansatz.jacobian import SliceJacobian
from tnvmc.ansatz.peps.views import Views
from tnvmc.backend.process import using_threads
from tnvmc.backend.random import uniforms
from tnvmc.optimize.solve import Cholesky
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for

HERE = Path(__file__).parent
CHECKED = {"L": 8, "D": 4, "chi": 8, "walkers": 128, "samples": 1024, "steps": 3}
QUICK = {"L": 6, "D": 3, "chi": 9, "walkers": 32, "samples": 128, "steps": 2}
TARGETS = ((10, 8, 16), (16, 10, 20))
RANKS = (1, 4, 16, 64, 256, 1024, 4096)
OF_A_RANK = 64  # samples, where their number grows with the ranks
IN_ALL = 4096  # samples, where it does not
ITERATIONS = 110  # of conjugate gradients; 8x8, D = 4, 1,024 samples, relative shift 1e-2
PHASES = {"_Share": "samples", "_exchange": "exchange", "norms": "norms", "adjoint": "adjoint",
          "terms": "apply", "_gram": "gram"}  # fmt: skip


def ranks(n: int, *arguments: object) -> Any:
    """What scaling_ranks.py prints on n ranks."""
    command = [
        "mpiexec",
        "-n",
        str(n),
        sys.executable,
        str(HERE / "scaling_ranks.py"),
        *map(str, arguments),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def median_time(task: Callable[[], object], repeats: int = 3) -> float:
    """Median of seconds, after one call that is not counted."""
    task()
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        task()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def sample_seconds(L: int, D: int, chi: int, n_walkers: int) -> tuple[float, float]:
    """One sample on one core, and its sweep alone; the state is random, which times do not depend on."""
    operator = heisenberg(square(L, L))
    peps = PEPS(square(L, L), D, scheme=SRC(chi))
    theta = peps.initial(operator, kind="random")
    moves = moves_for(operator)
    walkers = [peps.start(theta, initial_configs(operator, n_walkers, seed=0))]
    u = uniforms(0, (0, 0), range(n_walkers), len(moves))

    def sweep() -> None:
        walkers[0], _ = peps.sweep(theta, walkers[0], moves, u)

    def measure() -> None:
        walkers[0], _ = peps.measure(theta, walkers[0], operator.targets)

    swept = median_time(sweep, 1) / n_walkers
    return swept + median_time(measure, 1) / n_walkers, swept


def arithmetic(n_samples: int, widths: tuple[int, ...]) -> dict[str, float]:
    """Constants of products, Gram matrix and solution, from random slices; one thread."""
    rng = np.random.default_rng(0)
    slices = [rng.normal(size=(n_samples, width)) for width in widths]
    jacobian = SliceJacobian(slices, rng.integers(2, size=(n_samples, len(widths)), dtype=np.int8))
    entries, u = sum(widths), rng.normal(size=n_samples)
    with threadpool_limits(1), using_threads(1):
        gram = jacobian.gram()
        seconds_of = {
            "product": median_time(lambda: jacobian.adjoint(u)) / (n_samples * entries),
            "gram": median_time(jacobian.gram) / (n_samples**2 * entries),
            "solve": median_time(lambda: Cholesky()(gram, u, 1e-2 * gram[0, 0])) / n_samples**3,
        }
    return seconds_of


def view_seconds(L: int, D: int, chi: int) -> float:
    """Of the two views of a theta."""
    peps = PEPS(square(L, L), D, scheme=SRC(chi))
    theta = peps.initial(heisenberg(square(L, L)), kind="random")

    def both() -> None:
        views = Views(peps.tensors(theta), peps.filling, peps.scheme)
        views.layers(by_columns=False), views.layers(by_columns=True)

    return median_time(both, 1)


def network() -> tuple[float, float]:
    """Latency and bandwidth between two ranks of this machine."""
    times = ranks(2, "messages")
    latency = times[0][1]
    size, of_largest = times[-1]
    return latency, size / (of_largest - latency)


def traffic(
    found: Any, problem: Problem, n: int, arguments: dict[str, int]
) -> list[dict[str, Any]]:
    """Bytes that the first rank, and the busiest of the others, sent in a step, by phase, beside the model's."""
    model = step_by_matrix(replace(FREE, request=0.0), problem, n, arguments["samples"])
    rows = []
    for name, phase in PHASES.items():
        counts = [of_rank["phases"].get(name, {}) for of_rank in found["ranks"]]
        measured = [float(each.get("sent", 0.0)) for each in counts]
        rows.append(
            {"ranks": n, "phase": phase, "first": measured[0], "others": max(measured[1:]),
             "model_first": model[phase].by_first, "model_others": model[phase].by_others,
             "messages": max(each.get("messages", 0.0) for each in counts)}
        )  # fmt: skip
    return rows


FREE = Machine(0.0, np.inf, 0.0, 0.0, 0.0, 0.0)


def predicted(machine: Machine, problem: Problem, weak: bool) -> list[dict[str, Any]]:
    """Steps for all numbers of ranks, by a matrix and by iterations."""

    def matrix(n: int, samples: int) -> Step:
        return step_by_matrix(machine, problem, n, samples)

    def iterations(n: int, samples: int) -> Step:
        return step_by_iterations(machine, problem, n, samples, ITERATIONS)

    rows = []
    for n in RANKS:
        samples = OF_A_RANK * n if weak else IN_ALL
        both = {"matrix": matrix(n, samples), "iterations": iterations(n, samples)}
        best = min(both, key=lambda name: seconds(both[name]))
        # What one rank would take, by the better of both.
        one = min(
            seconds(each(1, samples // n if weak else samples)) for each in (matrix, iterations)
        )
        rows.append(
            {"ranks": n, "samples": samples, "best": best,
             **{f"seconds_{name}": seconds(step) for name, step in both.items()},
             "efficiency": one / (seconds(both[best]) * (1 if weak else n)),
             "sent_MB": sent(both[best]) / 1e6,
             "memory_GiB": memory(problem, n, samples, BASE, best == "matrix") / 2**30,
             "phases": {name: {key: asdict(phase) for key, phase in step.items()} for name, step in both.items()}}
        )  # fmt: skip
    return rows


def helped(machine: Machine, problem: Problem) -> dict[str, dict[int, float]]:
    """Print, and give, the efficiencies that changes of the program would bring: 64 samples a rank."""
    single = replace(machine, gram=0.6 * machine.gram, product=0.8 * machine.product)
    ways: dict[str, Callable[[int, int], Step]] = {
        "as it is": lambda n, m: step_by_matrix(machine, problem, n, m),
        "slices in single precision": lambda n, m: step_by_matrix(
            single, replace(problem, itemsize=4), n, m
        ),
        "the same, solved by all ranks": lambda n, m: step_by_matrix(
            replace(single, solve=single.solve / n), replace(problem, itemsize=4), n, m
        ),
        "iterations": lambda n, m: step_by_iterations(machine, problem, n, m, ITERATIONS),
        "iterations in single, without rank 0": lambda n, m: step_by_iterations(
            replace(single, request=0.0), replace(problem, itemsize=4), n, m, ITERATIONS
        ),
    }
    counts = (64, 1024)
    one = seconds(ways["as it is"](1, OF_A_RANK))
    print(f"\n{'what helps':>38}" + "".join(f"{n:>8} ranks" for n in counts))
    found = {}
    for name, step in ways.items():
        found[name] = {n: one / seconds(step(n, OF_A_RANK * n)) for n in counts}
        print(f"{name:>38}" + "".join(f"{found[name][n]:>14.0%}" for n in counts))
    return found


BASE = 2.5e8  # bytes of a process before it has samples


def shown(title: str, rows: list[dict[str, Any]]) -> None:
    """Print one table of predictions."""
    print(f"\n{title}")
    print(f"{'ranks':>6} {'samples':>8} {'matrix, s':>10} {'iterations, s':>13} {'efficiency':>10} "
          f"{'sent, MB':>9} {'memory, GiB':>11}  largest parts of the faster one")  # fmt: skip
    for row in rows:
        phases = row["phases"][row["best"]]
        largest = sorted(phases, key=lambda name: -phases[name]["seconds"])[:3]
        told = ", ".join(f"{name} {phases[name]['seconds']:.2g} s" for name in largest)
        print(f"{row['ranks']:>6} {row['samples']:>8} {row['seconds_matrix']:>10.3g} "
              f"{row['seconds_iterations']:>13.3g} {row['efficiency']:>10.0%} {row['sent_MB']:>9.3g} "
              f"{row['memory_GiB']:>11.2f}  {told}")  # fmt: skip


def main() -> None:
    """Measure, check, predict."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small system, a minute in all")
    parser.add_argument("--latency", type=float, default=2e-6, help="of the cluster, s")
    parser.add_argument("--bandwidth", type=float, default=1e10, help="of one rank there, bytes/s")
    parser.add_argument(
        "--request", type=float, default=3e-5, help="of the program for each rank, s"
    )
    parser.add_argument("--json", type=Path, default=HERE / "results" / "scaling.json")
    args = parser.parse_args()
    arguments = QUICK if args.quick else CHECKED
    given = [part for name, value in arguments.items() for part in (f"--{name}", value)]
    report: dict[str, Any] = {"system": arguments}

    print("What a step sends, bytes")
    print(
        f"{'ranks':>6} {'phase':>9} {'first':>10} {'model':>10} {'others':>10} {'model':>10} {'messages':>8}"
    )
    small = Problem(arguments["L"], arguments["D"])
    steps = {n: ranks(n, "steps", *given) for n in (1, 2, 4)}
    report["traffic"] = [row for n in (2, 4) for row in traffic(steps[n], small, n, arguments)]
    for row in report["traffic"]:
        print(f"{row['ranks']:>6} {row['phase']:>9} {row['first']:>10.0f} {row['model_first']:>10.0f} "
              f"{row['others']:>10.0f} {row['model_others']:>10.0f} {row['messages']:>8.0f}")  # fmt: skip

    latency, bandwidth = network()
    machine = Machine(
        latency, bandwidth, args.request,
        **arithmetic(512 if args.quick else 2048, (512,) * 16),
    )  # fmt: skip
    system = arguments["L"], arguments["D"], arguments["chi"]
    sample, sweep = sample_seconds(*system, 64)
    draws = -(-arguments["samples"] // arguments["walkers"])
    small = replace(small, sample=sample, sweep=sweep, draws=draws, views=view_seconds(*system))
    report["machine"] = asdict(machine)
    print(f"\none rank: sample {1e3 * small.sample:.2f} ms, product {1e9 * machine.product:.2f} ns, Gram "
          f"{1e12 * machine.gram:.1f} ps, solution {1e12 * machine.solve:.1f} ps; two: {1e6 * latency:.1f} us, "
          f"{bandwidth / 1e9:.1f} GB/s")  # fmt: skip
    report["steps"] = []
    for n in (1, 2):
        model, found = (
            seconds(step_by_matrix(machine, small, n, arguments["samples"])),
            steps[n]["seconds"],
        )
        report["steps"].append({"ranks": n, "seconds": found, "model": model})
        print(f"step on {n}: {found:.3f} s, model {model:.3f} s")
    print(f"two ranks against one: {steps[1]['seconds'] / steps[2]['seconds']:.2f}")

    cluster = replace(machine, latency=args.latency, bandwidth=args.bandwidth)
    report["cluster"] = asdict(cluster)
    report["predicted"] = {}
    for L, D, chi in TARGETS[: 1 if args.quick else 2]:
        problem = Problem(L, D, *sample_seconds(L, D, chi, 8), views=view_seconds(L, D, chi))
        for weak in (True, False):
            title = f"{L}x{L}, D = {D}, chi = {chi}, {problem.sample:.3f} s a sample: "
            title += f"{OF_A_RANK} samples a rank" if weak else f"{IN_ALL} samples in all"
            rows = predicted(cluster, problem, weak)
            report["predicted"][title] = rows
            shown(title, rows)
        report["helps"] = {**report.get("helps", {}), f"{L}, {D}": helped(cluster, problem)}
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
