"""Three kinds of attention in one vision transformer: time, energy, and what the maps depend on.

    python benchmarks/attention.py [FILE.toml] [--steps N] [--json FILE] [--pictures FOLDER]

Takes a settings file with ansatz.kind = "vit" (scripts/vit_4x4.toml) and optimises it with "t5",
"decoupled" and "factored" attention, one step of each after another, so that a busy machine is
busy for all of them.  Writes seconds per step, energies, and the share of the attention weights
that depends on the input (`input_dependence`, over configurations drawn uniformly from the sector)
before and after; draws
the energies, and the maps of three inputs averaged over heads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.relative_attention import input_dependence
from tnvmc.exact import exact_ground_state
from tnvmc.report.figures import style
from tnvmc.sampling.configurations import initial_configs
from tnvmc.session.vmc import VMC
from tnvmc.settings.build import build_ansatz, build_arguments, build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import load

ATTENTIONS = ("t5", "decoupled", "factored")

N_SHOWN = 3
"""Inputs whose maps are drawn."""

N_LOOKED_AT = 512
"""Configurations over which the dependence on the input is taken."""


def start(file: Path, attention: str, steps: int | None) -> VMC:
    """Build the run of a settings file with another attention."""
    overrides = [f"ansatz.attention={attention}"]
    overrides += [] if steps is None else [f"optimizer.steps={steps}"]
    settings = complete(load(file, overrides))
    operator = build_operator(settings)
    ansatz = build_ansatz(settings, operator)
    assert isinstance(ansatz, FlaxAnsatz)
    theta = ansatz.random(settings.run.seed)
    return VMC(operator, ansatz, theta=theta, **build_arguments(settings, operator))


def maps_of(vmc: VMC) -> np.ndarray:
    """Attention maps (layers, B, heads, n, n) of random configurations, the same for every state."""
    assert isinstance(vmc.ansatz, FlaxAnsatz)
    configs = initial_configs(vmc.operator, N_LOOKED_AT, seed=0)
    return np.asarray(vmc.ansatz.module(vmc.theta).attention_maps(configs))


def optimise(runs: dict[str, VMC], steps: int) -> dict[str, list[Any]]:
    """Make the steps of all runs by turns; the records of each."""
    records: dict[str, list[Any]] = {name: [] for name in runs}
    for step in range(steps):
        for name, vmc in runs.items():
            records[name] += vmc.run(1)
        if step % 50 == 0 or step == steps - 1:
            energies = ", ".join(f"{n} {r[-1].energy:.5f}" for n, r in records.items())
            print(f"step {step}: {energies}", flush=True)
    return records


def seconds_per_step(records: list[Any]) -> float:
    """Median, without the first steps, which compile."""
    return statistics.median(r.seconds for r in records[min(5, len(records) // 2) :])


def draw_energies(records: dict[str, list[Any]], exact: float) -> Any:
    """Relative error of the energy against the step, a mean over 10 steps."""
    figure = style.new_figure()
    axes = figure.subplots()
    for colour, (name, found) in zip(style.CYCLE, records.items(), strict=False):
        energies = np.array([r.energy for r in found])
        window = min(10, len(energies))
        smooth = np.convolve(energies, np.full(window, 1 / window), "valid")
        axes.plot(
            np.arange(len(smooth)) + window, smooth / exact * -1 + 1, color=colour, label=name
        )
    axes.set(yscale="log", xlabel="step", ylabel=r"$(E - E_0) / |E_0|$")
    axes.legend()
    style.grid(axes)
    return figure


def draw_maps(before: np.ndarray, after: np.ndarray, title: str) -> Any:
    """Last layer, averaged over heads, for the first inputs: before above, after below."""
    figure = style.new_figure(1.9 * N_SHOWN + 1.2, 4.0)
    panels = figure.subplots(2, N_SHOWN, squeeze=False)
    for row, (when, maps) in enumerate((("before", before), ("after", after))):
        shown = maps[-1, :N_SHOWN].mean(axis=1)
        limit = float(np.abs(shown).max())
        for column, one in enumerate(shown):
            axes = panels[row, column]
            image = axes.imshow(one, cmap=style.DIVERGING, vmin=-limit, vmax=limit)
            axes.set(xticks=[], yticks=[], title=f"input {column + 1}, {when}")
        style.colour_bar(figure, image, list(panels[row]), "attention weight")
    figure.suptitle(title)
    return figure


def main() -> None:
    """Optimise, print and write the figures, draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file", type=Path, nargs="?", default=Path("scripts/vit_4x4.toml"))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/attention.json"))
    parser.add_argument("--pictures", type=Path, default=Path("docs/_static"))
    args = parser.parse_args()
    settings = complete(load(args.file))
    steps = args.steps or settings.optimizer.steps
    runs = {attention: start(args.file, attention, steps) for attention in ATTENTIONS}
    exact = exact_ground_state(next(iter(runs.values())).operator).energy
    before = {name: maps_of(vmc) for name, vmc in runs.items()}
    began = time.perf_counter()
    records = optimise(runs, steps)
    table: dict[str, Any] = {
        "file": str(args.file), "steps": steps, "exact": exact, "seconds": time.perf_counter() - began,
    }  # fmt: skip
    after = {name: maps_of(vmc) for name, vmc in runs.items()}
    for name, vmc in runs.items():
        found = vmc.measure(n_samples=settings.measure.n_samples)
        table[name] = {
            "parameters": vmc.ansatz.n_params,
            "energy": found.energy,
            "energy_error": found.energy_error,
            "off": found.energy - exact,
            "variance": found.variance,
            "seconds_per_step": seconds_per_step(records[name]),
            "seconds": sum(r.seconds for r in records[name]),
            "input_dependence_before": input_dependence(before[name]).tolist(),
            "input_dependence_after": input_dependence(after[name]).tolist(),
        }
        print(name, json.dumps(table[name]), flush=True)
    args.json.write_text(json.dumps(table, indent=1) + "\n")
    with style.styled():
        figures = {"energies": draw_energies(records, exact)}
        figures |= {name: draw_maps(before[name], after[name], name) for name in runs}
        for name, figure in figures.items():
            (args.pictures / f"attention_{name}.png").write_bytes(style.encode(figure, "png"))


if __name__ == "__main__":
    main()
