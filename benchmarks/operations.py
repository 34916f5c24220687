"""Floating-point operations of a sample, and the time they would take as one batched product.

    python benchmarks/operations.py [--rows 8,4,8 ...] [--json FILE]

Counted by `Meter`.  A sample is a sweep over all bonds, ratios of all bonds and log-derivatives,
Heisenberg on L x L.  "walked at half" is what chains do where it is good enough: they walk at half
of chi, and measure at chi.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TNVMC_KERNELS"] = "numpy"  # also for what is laid out of theta before it is counted
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from meter import Meter, cpu_name, gemm_rate
from states import heisenberg_state
from tnvmc import SRC, heisenberg, square
from tnvmc.backend.random import uniforms
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for

ROWS = "6,3,9", "8,4,8", "8,4,16", "10,6,12", "8,5,10", "8,4,9"
N_WALKERS = 16


def counted(call: Callable[[], Any]) -> tuple[float, Any]:
    """MFLOP of a call for one walker, and what it gives."""
    with Meter() as meter:
        found = call()
    return 1e-6 * (meter.flop + meter.flop_decomposed) / N_WALKERS, found


def operations(L: int, D: int, chi: int) -> dict[str, float]:
    """MFLOP of the parts of a sample."""
    peps, theta = heisenberg_state(L, D)
    operator = heisenberg(square(L, L))
    moves, found = moves_for(operator), {}
    for name, of in (("sweep", chi), ("sweep at half", max(D, chi // 2))):
        state = peps.with_scheme(SRC(of))
        walkers = state.start(theta, initial_configs(operator, N_WALKERS, seed=0))
        for k in range(4):
            numbers = uniforms(0, (0, k), range(N_WALKERS), len(moves))
            found[name], (walkers, _) = counted(
                lambda: state.sweep(theta, walkers, moves, numbers)  # noqa: B023
            )
    state = peps.with_scheme(SRC(chi))
    found["start"], begun = counted(lambda: state.start(theta, walkers.configs))
    found["measure"], _ = counted(lambda: state.measure(theta, begun, operator.targets))
    found["sample"] = found["sweep"] + found["measure"]
    found["walked at half"] = found["sweep at half"] + found["start"] + found["measure"]
    return found


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", default=ROWS)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rate, table = gemm_rate(), {}
    for row in asked.rows:
        table[row] = operations(*map(int, row.split(",")))
        parts = ", ".join(f"{name} {n:.2f}" for name, n in table[row].items())
        print(f"{row}: {parts} MFLOP; limit {table[row]['sample'] / rate:.3f} ms", flush=True)
    print(f"{rate:.1f} GFLOP/s in a batched product")
    if asked.json:
        found = {"cpu": cpu_name(), "gflops_gemm": rate, "mflop": table}
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
