"""Step time and efficiency on many ranks: measured on 1 and 2, predicted for up to 4,096.

    python benchmarks/scaling.py [--quick] [--json FILE]

Three parts.  (1) What a step sends, on 2 and on 4 ranks, phase by phase, against the formulas of
scaling_model.py; and what it takes on 2 ranks.  (2) The constants of this machine: seconds of a
sample, of products with slices, of a Gram matrix, of a solution, in seconds of the processor;
latency and bandwidth between two ranks.  (3) Step times for 10x10 with D = 8 and 16x16 with D = 10
on a cluster: the arithmetic of this machine's cores, and a network given by --latency and
--bandwidth.

Needs mpi4py and mpiexec.  The machine should be idle: 4 ranks on 2 cores are counted, not timed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
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
    ROWS,
    TOGETHER,
    Arithmetic,
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

from states import heisenberg_state
from tnvmc import PEPS, SRC, VMC, Sampler, heisenberg, square
from tnvmc.ansatz.peps.row_pass import Views, strip_engine
from tnvmc.backend.process import using_threads
from tnvmc.backend.random import uniforms
from tnvmc.estimate.observables import local_energy
from tnvmc.estimate.statistics import estimate_samples
from tnvmc.jacobian import exact_sums
from tnvmc.jacobian.gram_operator import GramOperator
from tnvmc.jacobian.pieces import NARROW, Pieces, SliceProducts
from tnvmc.jacobian.slices import SliceJacobian
from tnvmc.optimize import conjugate_gradients
from tnvmc.optimize.solve import Cholesky
from tnvmc.optimize.sr import APPLIED_FROM
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for

HERE = Path(__file__).parent
CHECKED = {"L": 8, "D": 4, "chi": 8, "walkers": 128, "samples": 1024, "steps": 3}
QUICK = {"L": 6, "D": 3, "chi": 9, "walkers": 32, "samples": 128, "steps": 2}
TARGETS = ((10, 8, 16), (16, 10, 20))
RANKS = (1, 4, 16, 64, 256, 1024, 4096)
OF_A_RANK = 64  # samples, where their number grows with the ranks
IN_ALL = 4096  # samples, where it does not
ITERATIONS = 37  # 8x8, D = 4, 4,096 samples, an eighth of the columns, relative shift 1e-2
WITH_MOST = 8 * conjugate_gradients.MOST_COLUMNS  # samples from which the columns are no more
GROWTH = 0.75  # exponent of samples from there: 25 to 70 for 1,024 to 4,096 with 256 columns, 38 to 110 with 128
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


def iterations_of(samples: int) -> int:
    """Of conjugate gradients with a preconditioner."""
    return math.ceil(ITERATIONS * max(1.0, samples / WITH_MOST) ** GROWTH)


def least_time(task: Callable[[], object], repeats: int = 5) -> float:
    """Least seconds of the processor, after one call that is not counted: other processes only add to them."""
    task()
    found = []
    for _ in range(repeats):
        began = time.process_time()
        task()
        found.append(time.process_time() - began)
    return min(found)


def sample_seconds(L: int, D: int, chi: int, n_walkers: int, real: bool) -> dict[str, float]:
    """One sample on one core, its sweep alone, and the start of a walker.

    Of a `real` state, from simple update, or a random one, of which moves are rejected more often.
    """
    operator, peps = heisenberg(square(L, L)), PEPS(square(L, L), D)
    theta = heisenberg_state(L, D)[1] if real else peps.initial(operator, kind="random")
    peps, moves = peps.with_scheme(SRC(chi)), moves_for(operator)
    configs = initial_configs(operator, n_walkers, seed=0)
    walkers, drawn = [peps.start(theta, configs)], [0]

    def sweep() -> None:
        drawn[0] += 1
        u = uniforms(0, (0, drawn[0]), range(n_walkers), len(moves))
        walkers[0], _ = peps.sweep(theta, walkers[0], moves, u)

    def measure() -> None:
        walkers[0], _ = peps.measure(theta, walkers[0], operator.targets)

    repeats = 5 if real else 1
    swept = least_time(sweep, repeats) / n_walkers
    started = least_time(lambda: peps.start(theta, configs), repeats) / n_walkers
    sample = swept + least_time(measure, repeats) / n_walkers
    return {"sample": sample, "sweep": swept, "start": started}


def alone_seconds(arguments: dict[str, int]) -> float:
    """Of rank 0 for each sample: local energies and their estimate."""
    peps, theta = heisenberg_state(arguments["L"], arguments["D"])
    n = arguments["samples"]
    vmc = VMC(
        heisenberg(square(arguments["L"], arguments["L"])), peps.with_scheme(SRC(arguments["chi"])),
        Sampler(n_walkers=arguments["walkers"], n_samples=n, threads=1), theta=theta,
    )  # fmt: skip
    snapshot, _, info = vmc.method.sampler.draw(vmc.problem, vmc.state.here, 0, False)

    def estimate() -> None:
        estimate_samples(local_energy(vmc.problem.operator, snapshot), snapshot.weight, info)

    return least_time(estimate) / n


def as_on_ranks(jacobian: SliceJacobian) -> SliceProducts:
    """Products with narrow pieces, each of which has memory of its own."""
    pieces = Pieces(tuple(x.shape[1] for x in jacobian.slices), 2, NARROW)
    own = [np.ascontiguousarray(piece) for piece in pieces.cut(jacobian.slices)]
    return SliceProducts(pieces, range(len(own)), own, jacobian.spins)


def arithmetic(n_samples: int, widths: tuple[int, ...]) -> dict[str, Any]:
    """Constants of products, Gram matrix and solution, from random slices; one thread."""
    rng, found = np.random.default_rng(0), {}
    slices = [rng.normal(size=(n_samples, width)) for width in widths]
    spins = rng.integers(2, size=(n_samples, len(widths)), dtype=np.int8)
    entries, u = sum(widths), rng.normal(size=n_samples)
    chosen = np.arange(0, n_samples, 8)
    with threadpool_limits(1), using_threads(1):
        for name, dtype in (("double", np.float64), ("single", np.float32)):
            jacobian = SliceJacobian([x.astype(dtype) for x in slices], spins)
            products, scales = as_on_ranks(jacobian), exact_sums.scales(jacobian.squared_norms())

            def cross(own: Any = products, scales: Any = scales) -> None:
                for begin in range(0, n_samples, TOGETHER * ROWS):
                    own.gram_block(slice(begin, begin + TOGETHER * ROWS), chosen, scales)

            def both(own: Any = products) -> None:
                own.gram_terms(u)

            found[name] = Arithmetic(
                gram=least_time(lambda p=products, s=scales: p.gram(s)) / (n_samples**2 * entries),
                cross=least_time(cross) / (n_samples * len(chosen) * entries),
                product=least_time(both) / 2 / (n_samples * entries),
            )
        gram = jacobian.gram()
        block, factor = gram[:, chosen].copy(), np.linalg.cholesky(gram[np.ix_(chosen, chosen)])

        def make() -> None:
            tall = GramOperator(products, 1, n_samples, np.float64, n_columns=len(chosen))
            tall.blocks = {i // ROWS: block[i : i + ROWS] for i in range(0, n_samples, ROWS)}
            tall.divide(factor), tall.square()

        of_block = n_samples * len(chosen)
        return {
            **found,
            "solve": least_time(lambda: Cholesky()(gram, u, 1e-2 * gram[0, 0])) / n_samples**3,
            "column": least_time(lambda: block @ u[: len(chosen)]) / of_block,
            "block": least_time(make) / (of_block * len(chosen)),
        }


def view_seconds(L: int, D: int, chi: int) -> float:
    """Of the two views of a theta."""
    peps = PEPS(square(L, L), D, scheme=SRC(chi))
    theta = peps.initial(heisenberg(square(L, L)), kind="random")

    def both() -> None:
        tensors, found = peps.tensors(theta), peps.embedding
        rows = strip_engine(tensors, found.shape, peps.scheme)
        Views(tensors, found, peps.scheme, rows).engine(by_columns=True)

    return least_time(both, 1)


def network() -> tuple[float, float]:
    """Latency and bandwidth between two ranks of this machine."""
    times = ranks(2, "messages")
    latency = times[0][1]
    size, of_largest = times[-1]
    return latency, size / (of_largest - latency)


def in_turn(seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Medians of what two ranks gain together, and of what the machine lets two gain that send nothing."""
    together = [a / b for a, b in zip(seconds["alone"], seconds["shared"], strict=True)]
    apart = [2 * a / b for a, b in zip(seconds["alone"], seconds["apart"], strict=True)]
    return {
        "together": statistics.median(together),
        "apart": statistics.median(apart),
        "seconds": seconds,
    }


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


NOTHING = Arithmetic(0.0, 0.0, 0.0)
FREE = Machine(0.0, np.inf, 0.0, NOTHING, NOTHING, 0.0, 0.0, 0.0)


def predicted(machine: Machine, problem: Problem, weak: bool) -> list[dict[str, Any]]:
    """Steps for all numbers of ranks, by a matrix and by iterations."""

    def matrix(n: int, samples: int) -> Step:
        return step_by_matrix(machine, problem, n, samples)

    def iterations(n: int, samples: int) -> Step:
        return step_by_iterations(machine, problem, n, samples, iterations_of(samples))

    rows = []
    for n in RANKS:
        samples = OF_A_RANK * n if weak else IN_ALL
        both = {"matrix": matrix(n, samples), "iterations": iterations(n, samples)}
        best = default(samples)
        alone = samples // n if weak else samples
        one = seconds((matrix if default(alone) == "matrix" else iterations)(1, alone))
        rows.append(
            {"ranks": n, "samples": samples, "best": best,
             **{f"seconds_{name}": seconds(step) for name, step in both.items()},
             "efficiency": one / (seconds(both[best]) * (1 if weak else n)),
             "sent_MB": sent(both[best]) / 1e6,
             "memory_GiB": memory(problem, n, samples, BASE, best == "matrix") / 2**30,
             "phases": {name: {key: asdict(phase) for key, phase in step.items()} for name, step in both.items()}}
        )  # fmt: skip
    return rows


def default(samples: int) -> str:
    """How the program solves for so many samples, whatever the ranks."""
    return "iterations" if samples >= APPLIED_FROM else "matrix"


def helped(machine: Machine, problem: Problem) -> dict[str, dict[int, float]]:
    """Print, and give, the efficiencies of other ways to solve: 64 samples a rank."""
    ways: dict[str, Callable[[int, int], Step]] = {
        "a matrix, solved by rank 0": lambda n, m: step_by_matrix(machine, problem, n, m),
        "a matrix, solved by all ranks": lambda n, m: step_by_matrix(
            replace(machine, solve=machine.solve / n), problem, n, m
        ),
        "iterations": lambda n, m: step_by_iterations(machine, problem, n, m, iterations_of(m)),
        "twice as many iterations": lambda n, m: step_by_iterations(
            machine, problem, n, m, 2 * iterations_of(m)
        ),
        "iterations, slices in double": lambda n, m: step_by_iterations(
            replace(machine, single=machine.double), problem, n, m, iterations_of(m)
        ),
    }
    counts = (64, 1024)
    one = seconds(step_by_matrix(machine, problem, 1, OF_A_RANK))
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
          f"{'sent, MB':>9} {'memory, GiB':>11}  largest parts of what is taken")  # fmt: skip
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
        **arithmetic(512 if args.quick else 4096, (512,) * 8),
    )  # fmt: skip
    system = arguments["L"], arguments["D"], arguments["chi"]
    small = replace(
        small, **sample_seconds(*system, 64, real=True), views=view_seconds(*system),
        draws=-(-arguments["samples"] // arguments["walkers"]), alone=alone_seconds(arguments),
    )  # fmt: skip
    report["machine"], report["sample"] = asdict(machine), small.sample
    double, single = machine.double, machine.single
    print(f"\none rank, seconds of the processor: sample {1e3 * small.sample:.2f} ms, product "
          f"{1e9 * double.product:.2f} ns (single {1e9 * single.product:.2f}), Gram {1e12 * double.gram:.1f} ps "
          f"({1e12 * single.gram:.1f}), columns {1e12 * double.cross:.1f} ps ({1e12 * single.cross:.1f}), solution "
          f"{1e12 * machine.solve:.1f} ps; two: {1e6 * latency:.1f} us, {bandwidth / 1e9:.1f} GB/s")  # fmt: skip
    report["load"] = os.getloadavg()[0]
    report["steps"] = []
    for n in (1, 2):
        model, found = (
            seconds(step_by_matrix(machine, small, n, arguments["samples"])),
            steps[n]["seconds"],
        )
        spent = max(of_rank["processor"] for of_rank in steps[n]["ranks"])
        report["steps"].append({"ranks": n, "seconds": found, "processor": spent, "model": model})
        print(f"step on {n}: {found:.3f} s, {spent:.3f} s of a processor, model {model:.3f} s")
    report["in turn"] = in_turn(ranks(2, "ratio", *given, "--steps", 3 if args.quick else 12))
    told = report["in turn"]
    print(f"steps in turn, medians: two ranks against one {told['together']:.2f}; two programs of one rank, until "
          f"the last of them is done, {told['apart']:.2f}; {report['load']:.1f} processes ran beside")  # fmt: skip

    cluster = replace(machine, latency=args.latency, bandwidth=args.bandwidth)
    report["cluster"] = asdict(cluster)
    report["predicted"] = {}
    for L, D, chi in TARGETS[: 1 if args.quick else 2]:
        problem = Problem(L, D, **sample_seconds(L, D, chi, 8, real=False))
        problem = replace(problem, views=view_seconds(L, D, chi), alone=small.alone)
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
