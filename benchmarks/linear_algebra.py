"""Direction of SR in sample space, and exact diagonalisation: seconds and peak memory.

    python benchmarks/linear_algebra.py [--threads N ...] [--sr L,D,samples ...] [--exact
    MODEL,L1,L2 ...]
                                        [--precision double single] [--repeat N] [--seed N] [--json
                                        FILE]

SR: slices of random numbers with the shapes of a PEPS on an open L x L lattice, random spins with
total Sz = 0.  The time is also given as a rate: the multiplications and additions that the Gram
matrix cannot do without (M^2 P / (2 d^2) of each), over seconds and threads, beside the rate of one
large matrix product on one thread in the same process.  Exact: energies alone, with a small one
before them that loads the compiled kernels.  Every row has a process of its own; memory is its
largest, less what the process had before there was a slice; "slices" is the part of it that is the
log-derivatives, in the precision that is named.  Times are medians of `--repeat` directions.
Seconds of the processor, of all threads, tell more on a shared machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc import SR, exact_ground_state, square
from tnvmc.backend.process import keep_freed_memory, one_blas_thread, using_threads
from tnvmc.jacobian.slices import SliceJacobian
from tnvmc.operators import heisenberg, j1j2, tfim

SR_ROWS = ["8,4,1024", "8,4,4096", "10,6,1024", "10,6,4096"]
EXACT_ROWS = ["heisenberg,4,5", "j1j2,4,5", "heisenberg,4,6", "j1j2,4,6"]
PRECISIONS = ["double", "single"]
MODELS = {"heisenberg": heisenberg, "j1j2": j1j2, "tfim": tfim}
GEMM = (2048, 1296)


def gemm_rate() -> float:
    """GFLOP/s of a matrix product on one thread, the best of some."""
    rng = np.random.default_rng(0)
    m, k = GEMM
    a, b = rng.standard_normal((2, m, k))
    out = np.empty((m, m))
    times = []
    for _ in range(5):
        began = time.thread_time()
        np.matmul(a, b.T, out=out)
        times.append(time.thread_time() - began)
    return 2e-9 * m * m * k / min(times)


def slices_of(L: int, D: int, n_samples: int, seed: int, dtype: str = "float64") -> SliceJacobian:
    """Log-derivatives as a PEPS has them."""
    rng = np.random.default_rng(seed)
    legs = [1, *[D] * (L - 1), 1]
    widths = [legs[r] * legs[r + 1] * legs[c] * legs[c + 1] for r in range(L) for c in range(L)]
    slices = []
    for width in widths:
        slices.append(np.empty((n_samples, width), dtype=dtype))
        for row in slices[-1]:
            rng.standard_normal(out=row, dtype=np.dtype(dtype).type)
    spins = rng.random((n_samples, L * L)).argsort(axis=1) % 2
    return SliceJacobian(slices, spins.astype(np.int8))


def peak() -> float:
    """Largest memory of this process so far, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def timed(task: Any) -> dict[str, float]:
    """Seconds of a call, by the clock and of all its threads."""
    began = time.perf_counter(), time.process_time()
    task()
    return {"seconds": time.perf_counter() - began[0], "cpu": time.process_time() - began[1]}


def median(times: list[dict[str, float]]) -> dict[str, float]:
    """Medians of what was timed several times."""
    return {name: float(np.median([each[name] for each in times])) for name in times[0]}


def sr_row(row: str, threads: int, seed: int, precision: str, repeat: int) -> dict[str, Any]:
    """One direction, and the Gram matrix in it once more."""
    keep_freed_memory()  # as a run does
    L, D, n_samples = map(int, row.split(","))
    dtype = {"double": "float64", "single": "float32"}[precision]
    rng, rule = np.random.default_rng(seed), SR(diag_shift=1e-2, space="samples")
    with one_blas_thread(), using_threads(threads):

        def direction(of: SliceJacobian) -> None:
            n, p = of.shape
            rule.direction(rng.standard_normal(p), of, rng.standard_normal(n), None, {})

        direction(slices_of(3, 2, 64, seed, dtype))
        before = peak()
        jacobian = slices_of(L, D, n_samples, seed, dtype)
        found: dict[str, Any] = {"row": row, "threads": threads, "precision": precision}
        found |= median([timed(lambda: direction(jacobian)) for _ in range(repeat)])
        found |= {"peak": peak() - before, "before": before}
        found |= {"slices": sum(x.nbytes for x in jacobian.slices) / 2**30}
        rate = gemm_rate()
        gram = median([timed(jacobian.gram) for _ in range(repeat)])
        flops = n_samples**2 * jacobian.shape[1] / 4
        found |= {"gram": gram["seconds"], "gram_cpu": gram["cpu"], "gemm_rate": rate}
        return found | {"gram_rate": 1e-9 * flops / gram["cpu"]}


def exact_row(row: str, threads: int, seed: int) -> dict[str, Any]:
    """One ground state; the start vector is fixed, and so `seed` changes nothing."""
    model, *shape = row.split(",")
    exact_ground_state(tfim(square(3, 3)))
    operator, result = MODELS[model](square(*map(int, shape))), []
    found = {"row": row, "threads": threads}
    found |= timed(lambda: result.append(exact_ground_state(operator)))
    ground = result[0]
    found |= {"peak": peak(), "energy": ground.energy, "residual": ground.residual}
    return found | {"dimension": ground.dimension, "inversion": ground.inversion}


def in_a_process(kind: str, *arguments: str | int) -> dict[str, Any]:
    """Run one row by itself, so that its memory is its own."""
    command = [sys.executable, __file__, "--one", kind, *map(str, arguments)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(shown.splitlines()[-1])


def main() -> None:
    """Print the tables, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--sr", nargs="*", default=SR_ROWS, metavar="L,D,SAMPLES")
    parser.add_argument("--exact", nargs="*", default=EXACT_ROWS, metavar="MODEL,L1,L2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument(
        "--repeat", type=int, default=1, help="directions of which the median is taken"
    )
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, row, threads, seed, *more = options.one
        if kind == "exact":
            print(json.dumps(exact_row(row, int(threads), int(seed))))
        else:
            print(json.dumps(sr_row(row, int(threads), int(seed), more[0], int(more[1]))))
        return
    tables: dict[str, list[dict[str, Any]]] = {"sr": [], "exact": []}
    print(
        "L,D,samples     slices  threads  seconds    cpu   Gram cpu  GFLOP/s of GEMM's  GiB peak  slices"
    )
    for row in options.sr:
        for threads, precision in product(options.threads, options.precision):
            found = in_a_process("sr", row, threads, options.seed, precision, options.repeat)
            tables["sr"].append(found)
            print(
                f"{row:15s} {precision:7s} {threads:7d} {found['seconds']:8.2f} {found['cpu']:6.2f} "
                f"{found['gram_cpu']:10.2f} {found['gram_rate']:8.1f} {found['gemm_rate']:9.1f} "
                f"{found['peak']:9.2f} {found['slices']:7.2f}",
                flush=True,
            )
    print("model           dimension  seconds    cpu  GiB peak  energy           residual")
    for row in options.exact:
        found = in_a_process("exact", row, 1, options.seed)
        tables["exact"].append(found)
        print(
            f"{row:15s} {found['dimension']:9d} {found['seconds']:8.2f} {found['cpu']:6.2f} "
            f"{found['peak']:9.2f}  {found['energy']:.12f} {found['residual']:.1e}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(tables, indent=1) + "\n")


if __name__ == "__main__":
    main()
