"""The energy of a PEPS by its double layer beside the sampled one: do they agree, and how fast?

    python benchmarks/second_opinion.py [--rows MODEL,L,D ...] [--steps N] [--samples N] [--seed S]

Every row optimises a PEPS for a few steps, measures it with Markov chains at several chi and
contracts its double layer at growing chi, in the sector that was sampled.  "in all" is the double
layer without the projection.  One core.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from tnvmc import PEPS, SRC, VMC, Sampler, square
from tnvmc.backend.process import keep_freed_memory
from tnvmc.contraction.double_expectation import boundary_expectation
from tnvmc.operators import models
from tnvmc.trust.finished_run import agreement

ROWS = [
    ("rydberg", 4, 2), ("rydberg", 8, 2), ("heisenberg", 4, 2), ("heisenberg", 4, 3),
    ("heisenberg", 6, 2), ("heisenberg", 6, 3), ("tfim", 6, 2), ("j1j2", 6, 2),
]  # fmt: skip
HEAD = (
    f"{'model':>10} {'L':>2} {'D':>2} {'sampled per site':>20} {'seconds':>8} {'chi':>5} "
    f"{'double layer':>14} {'truncation':>10} {'spread':>8} {'seconds':>8} {'in all':>12} "
    f"{'weight':>7} {'sigma':>6}  told"
)


def row(model: str, L: int, D: int, options: argparse.Namespace) -> dict[str, Any]:
    """Optimise, measure both ways, compare."""
    operator = getattr(models, model)(square(L, L))
    peps = PEPS(operator.lattice, D, scheme=SRC(max(4 * D, D**2)), sharing=None)
    sampler = Sampler(n_walkers=64, n_samples=512, threads=1)
    vmc = VMC(operator, peps, sampler, learning_rate=0.05, seed=options.seed)
    vmc.run(options.steps)
    began = time.perf_counter()
    found = vmc.converge(n_samples=options.samples, double_layer=True)
    seconds = time.perf_counter() - began
    samples, layers, n = found.points[-1], found.double_layer, operator.n_sites
    assert layers is not None
    last = layers.points[-1]
    whole = boundary_expectation(peps.tensors(vmc.theta), operator, last.chi).value
    told = agreement(layers.as_dict(), samples.energy, samples.energy_error, n)
    return {
        "model": model, "L": L, "D": D, "steps": options.steps, "samples": found.n_samples,
        "sampled": samples.energy / n, "sampled_error": samples.energy_error / n,
        "sampled_seconds": seconds - sum(point.seconds for point in layers.points),
        "double_layer": layers.as_dict(), "per_site": last.value / n,
        "truncation": (layers.truncation or 0.0) / n, "spread": last.closure_spread,
        "all_sectors": whole / n, "sigmas": told.values["sigmas"], "told": told.code,
    }  # fmt: skip


def line(found: dict[str, Any]) -> str:
    """Write a row of the table."""
    layers = found["double_layer"]
    weight = "" if layers["sector_weight"] is None else f"{layers['sector_weight']:.3f}"
    return (
        f"{found['model']:>10} {found['L']:>2} {found['D']:>2} "
        f"{found['sampled']:>12.7f} {found['sampled_error']:>7.1e} {found['sampled_seconds']:>8.1f} "
        f"{layers['points'][-1]['chi']:>5} {found['per_site']:>14.9f} {found['truncation']:>10.1e} "
        f"{found['spread']:>8.1e} {layers['seconds']:>8.1f} {found['all_sectors']:>12.7f} "
        f"{weight:>7} {found['sigmas']:>6.2f}  {found['told']}"
    )


def main() -> None:
    """Run the rows asked for, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", nargs="*", metavar="MODEL,L,D")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/second_opinion.json"))
    options = parser.parse_args()
    rows = ROWS
    if options.rows:
        split = [text.split(",") for text in options.rows]
        rows = [(model, int(L), int(D)) for model, L, D in split]
    keep_freed_memory()
    print(HEAD)
    found = []
    for model, L, D in rows:
        found.append(row(model, L, D, options))
        print(line(found[-1]), flush=True)
        options.json.write_text(json.dumps({"seed": options.seed, "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
