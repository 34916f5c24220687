"""The three attentions of the vision transformer: seconds of a step against L, and their maps.

    OMP_NUM_THREADS=1 python benchmarks/attention.py [--quick] [--steps N] [--json FILE]

prints a table of the CPU seconds of a step (median; Heisenberg, periodic L x L sites, patches of
2 x 2, real ln psi with Marshall's signs), and a table of how much the 9 x 9 attention maps of a
6 x 6 lattice depend on the input before and after a training of N steps (`input_dependence`, for
each layer), with the energy per site that it reached.  The file holds all numbers, and the maps:
the mean over samples and heads of each layer, and the mean over heads of three samples, which
docs/_static/attention_maps.png shows for the first layer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc import VMC, Sampler, checkerboard, heisenberg, square
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.vit import ViT

KINDS = ("t5", "decoupled", "factored")
PICTURE = Path(__file__).parent.parent / "docs" / "_static" / "attention_maps.png"
N_INPUTS = 3
SIZES = {"width": 24, "heads": 4, "patch": 2, "output": "real"}


def input_dependence(maps: np.ndarray) -> np.ndarray:
    """Give for each layer the share of the attention weights that depends on the input: (layers,).

    Maps of `ViT.attention_maps` (layers, B, heads, n, n) are split into their mean over the B
    configurations and the rest; the share is |rest|^2 / |maps|^2: 0 where all inputs are met alike
    ("factored"), and below 1 - 1 / n for a softmax, whose weights are 1 / n in the mean.

    Raises:
        ValueError: not five axes, or fewer than two configurations.
    """
    maps = np.asarray(maps)
    if maps.ndim != 5 or maps.shape[1] < 2:
        raise ValueError(
            f"input_dependence: maps of shape {maps.shape}; they must be (layers, B, heads, n, n) "
            "with B at least 2, as `ViT.attention_maps` gives them"
        )
    rest, axes = maps - maps.mean(axis=1, keepdims=True), (1, 2, 3, 4)
    return np.asarray((rest**2).sum(axis=axes) / (maps**2).sum(axis=axes))


def vmc_of(kind: str, length: int, layers: int, n_samples: int) -> VMC:
    """A network on a torus, with samples from chains."""
    operator = heisenberg(square(length, length, "periodic"))
    lattice, sizes = operator.lattice, {**SIZES, "layers": layers, "attention": kind}
    signs = checkerboard(lattice)
    ansatz = FlaxAnsatz(lattice, lambda rngs: ViT(lattice, rngs=rngs, **sizes), signs=signs)
    return VMC(operator, ansatz, Sampler(n_samples // 2, n_samples, threads=1))


def seconds_of_a_step(vmc: VMC, n: int) -> float:
    """CPU seconds, without those of compiling."""
    vmc.step()
    taken = []
    for _ in range(n):
        began = time.process_time()
        vmc.step()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def maps_of(vmc: VMC) -> dict[str, Any]:
    """The part of the maps that depends on the input, and maps, for each layer."""
    ansatz: Any = vmc.ansatz
    configs = vmc.state.here.configs
    maps = np.asarray(ansatz.module(vmc.theta).attention_maps(configs))
    return {
        "input_dependence": input_dependence(maps).tolist(),
        "mean": maps.mean(axis=(1, 2)).tolist(),
        "inputs": maps[:, :N_INPUTS].mean(axis=2).tolist(),
    }


def timings(lengths: list[int], n_samples: int) -> list[dict[str, Any]]:
    print(f"CPU seconds of a step of {n_samples} samples\n| attention | layers | ", end="")
    print(" | ".join(f"L = {length}" for length in lengths), "|\n|---|---|" + "---|" * len(lengths))
    rows = []
    for kind in KINDS:
        for layers in (1, 2):
            print(f"| {kind} | {layers} |", end="", flush=True)
            for length in lengths:
                vmc = vmc_of(kind, length, layers, n_samples)
                seconds, n_params = seconds_of_a_step(vmc, 3), vmc.ansatz.n_params
                print(f" {seconds:.2g} |", end="", flush=True)
                row = {"attention": kind, "layers": layers, "L": length, "seconds": seconds}
                rows.append({**row, "parameters": n_params, "samples": n_samples})
            print()
    return rows


def trained(steps: int, n_samples: int) -> list[dict[str, Any]]:
    print(f"\nmaps of 6 x 6 sites, before and after {steps} steps of {n_samples} samples")
    print(
        "| attention | depends on the input: before | after | energy per site |\n|---|---|---|---|"
    )
    rows = []
    for kind in KINDS:
        vmc = vmc_of(kind, 6, 2, n_samples)
        maps = {"before": maps_of(vmc)}
        vmc.run(steps)
        maps["after"] = maps_of(vmc)
        measured = vmc.measure(n_samples=4 * n_samples)
        told = [", ".join(f"{x:.1e}" for x in each["input_dependence"]) for each in maps.values()]
        print(f"| {kind} | {told[0]} | {told[1]} | {measured.energy_per_site:.5f} |", flush=True)
        row = {"attention": kind, "steps": steps, "energy_per_site": measured.energy_per_site}
        rows.append({**row, **maps})
    return rows


def picture(rows: list[dict[str, Any]]) -> None:
    """Draw the first layer's maps of three samples, one row for each attention."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.6), layout="constrained")
    whole = figure.subplots(len(rows), 2 * N_INPUTS, sharex=True, sharey=True)
    for axes, row in zip(whole, rows, strict=True):
        shown = [each for when in ("before", "after") for each in row[when]["inputs"][0]]
        for axis, values in zip(axes, shown, strict=True):
            drawn = axis.imshow(np.abs(values), cmap="viridis")
            axis.set_xticks([])
            axis.set_yticks([])
            figure.colorbar(drawn, ax=axis, shrink=0.7).ax.tick_params(labelsize=6)
        axes[0].set_ylabel(row["attention"])
    for number, axis in enumerate(whole[0]):
        when = "before" if number < N_INPUTS else "after"
        axis.set_title(f"{when}, input {number % N_INPUTS + 1}", fontsize=9)
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="L = 4 and 6, a training of 10 steps")
    parser.add_argument("--steps", type=int, help="of the training (default: 100)")
    parser.add_argument("--json", type=Path, help="default: benchmarks/results/attention.json")
    chosen = parser.parse_args()
    lengths, n_samples = ([4, 6], 64) if chosen.quick else ([4, 6, 8, 10], 128)
    steps = chosen.steps or (10 if chosen.quick else 100)
    found = {
        "sizes": SIZES,
        "steps": timings(lengths, n_samples),
        "maps": trained(steps, 4 * n_samples),
    }
    file = chosen.json or Path(__file__).parent / "results" / "attention.json"
    file.write_text(json.dumps(found, indent=1) + "\n")
    print(f"written to {file}")
    if chosen.json is None:
        picture(found["maps"])


if __name__ == "__main__":
    main()
