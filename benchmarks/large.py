"""A run of 20 steps on growing lattices: CPU time by phase, memory, and whether it is linear in N.

    python benchmarks/large.py [--sizes L ...] [--steps N] [--json FILE]

Heisenberg on L x L, D = 4, chi = 8, 1024 samples a step by 128 walkers, shared tensors by default,
from simple update, one thread.  Each size runs in a process of its own, whose peak memory is told.
CPU seconds of: the start, all steps but the first, which compiles; of a step its draw, and the
rest (covariance, solution, judgement).  "per site" over that of the smallest size is 1 where the
time is linear in N.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from meter import cpu_name
from tnvmc import PEPS, SRC, VMC, Sampler, heisenberg, square

D, CHI, SAMPLES, WALKERS = 4, 8, 1024, 128
SIZES = (8, 12, 16, 20, 32)


class TimedSampler(Sampler):
    """Chains whose draws are timed."""

    def draw(self, *args: Any, **more: Any) -> Any:
        began = time.process_time()
        found = super().draw(*args, **more)
        DRAWN.append(time.process_time() - began)
        return found


DRAWN: list[float] = []


def one(L: int, steps: int) -> dict[str, Any]:
    """CPU seconds and memory of one size."""
    began = time.process_time()
    hamiltonian = heisenberg(square(L, L))
    peps = PEPS(hamiltonian.lattice, D, scheme=SRC(CHI))
    sampler = TimedSampler(WALKERS, SAMPLES, threads=1)
    vmc = VMC(hamiltonian, peps, sampler)
    vmc.run(1, progress=False)
    start, begin = time.process_time() - began, time.process_time()
    DRAWN.clear()
    history = vmc.run(steps - 1, progress=False)
    step = (time.process_time() - begin) / (steps - 1)
    return {
        "L": L,
        "start": start,
        "step": step,
        "draw": sum(DRAWN) / (steps - 1),
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "energy_per_site": history[-1].energy / L**2,
        "parameters": vmc.ansatz.n_params,
    }


def main() -> None:
    """Run the sizes one after another, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(one(asked.one, asked.steps)))
        return
    rows: list[dict[str, Any]] = []
    for L in asked.sizes:
        command = [sys.executable, __file__, "--one", str(L), "--steps", str(asked.steps)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows.append(json.loads(told.splitlines()[-1]))
        row, first = rows[-1], rows[0]
        linear = row["step"] / first["step"] * first["L"] ** 2 / L**2
        print(
            f"{L:3}x{L:<3} {row['parameters']:6} parameters, start and first step "
            f"{row['start']:6.1f} s, step {row['step']:7.2f} s (draw {row['draw']:7.2f}), per site "
            f"{linear:.2f}, {row['gib']:.2f} GiB, E/N {row['energy_per_site']:.5f}",
            flush=True,
        )
        if asked.json:
            told = json.dumps({"cpu": cpu_name(), "steps": asked.steps, "rows": rows}, indent=1)
            asked.json.write_text(told + "\n")


if __name__ == "__main__":
    main()
