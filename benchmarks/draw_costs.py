"""CPU time of a draw, an amplitude and a local energy against the number of sites.

Draws of the patched transformer with the whole sequence again for every patch, with stored keys and
values (what runs use), with linear attention, and draws of an RNN.  Prints a table, and writes
`benchmarks/results/draw_costs.json` and `docs/_static/draw_costs.png`.

    python benchmarks/draw_costs.py [--largest 16] [--batch 64] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tnvmc import rydberg, square
from tnvmc.ansatz.neural import NETWORKS
from tnvmc.ansatz.neural.autoregressive import log_softmax, pick
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.sampling.workers import measure_configs

SIZES = (4, 6, 8, 12, 16)
ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "draw_costs.json"
PICTURE = ROOT / "docs" / "_static" / "draw_costs.png"
NETS: dict[str, tuple[str, dict[str, Any]]] = {
    "softmax": ("patched_transformer", {"patch": 2, "width": 32, "heads": 8, "layers": 2}),
    "linear": (
        "patched_transformer",
        {"patch": 2, "width": 32, "heads": 8, "layers": 2, "attention": "linear"},
    ),
    "rnn": ("rnn", {"hidden": 32, "order": "snake", "output": "real"}),
}
COLUMNS = {
    "naive": "draw, whole sequence again",
    "cache": "draw, stored keys",
    "linear": "draw, linear attention",
    "rnn": "draw, RNN",
    "amplitude": "amplitude",
    "amplitude_linear": "amplitude, linear",
    "amplitude_rnn": "amplitude, RNN",
    "energy": "draw and local energy",
}


def state(name: str, length: int) -> FlaxAnsatz:
    """A network of `NETS` on an open square lattice."""
    lattice, (kind, keywords) = square(length, length), NETS[name]
    module = NETWORKS[kind].load()
    return FlaxAnsatz(
        lattice, lambda rngs: module(lattice, rngs=rngs, **keywords), architecture={"kind": kind}
    )


def naive(ansatz: FlaxAnsatz) -> Callable[[np.ndarray, np.ndarray], Any]:
    """Draws that evaluate the conditionals of the whole sequence for each patch."""

    def draw(theta: Any, uniforms: Any) -> Any:
        module = ansatz.functional.module(ansatz.functional.unflatten(theta))
        everything = jnp.ones((uniforms.shape[0], module.n_states), bool)

        def advance(t: Any, tokens: Any) -> Any:
            scores = module.scores(module.configs(tokens))[0]
            chosen = jax.lax.dynamic_index_in_dim(scores, t, axis=1, keepdims=False)
            number = jax.lax.dynamic_index_in_dim(uniforms, t, axis=1, keepdims=False)
            found = pick(log_softmax(chosen, everything), number)
            return jax.lax.dynamic_update_index_in_dim(tokens, found, t, axis=1)

        start = jnp.zeros((uniforms.shape[0], module.n_tokens), jnp.int32)
        tokens = jax.lax.fori_loop(0, module.n_tokens, advance, start)
        return module.configs(tokens)

    return jax.jit(draw)


def cpu(task: Callable[[], Any], rounds: int) -> float:
    """Least CPU seconds of a task, after one call that compiles."""
    jax.block_until_ready(task())
    found = []
    for _ in range(rounds):
        began = time.process_time()
        jax.block_until_ready(task())
        found.append(time.process_time() - began)
    return min(found)


def row(length: int, batch: int, rounds: int) -> dict[str, float]:
    """CPU milliseconds for each column."""
    n_sites, timed = length * length, partial(cpu, rounds=rounds)
    uniforms = np.random.default_rng(0).random((batch, n_sites))
    states = {name: state(name, length) for name in NETS}
    thetas = {name: ansatz.random(0) for name, ansatz in states.items()}
    found: dict[str, float] = {"sites": n_sites}
    again = naive(states["softmax"])
    found["naive"] = timed(lambda: again(thetas["softmax"], uniforms))
    for name, ansatz in states.items():
        draw, key = ansatz.drawer(thetas[name]), {"softmax": "cache"}.get(name, name)
        found[key] = timed(lambda draw=draw: draw(uniforms, None))  # type: ignore[misc]
        configs = draw(uniforms, None)[0]
        key = "amplitude" if name == "softmax" else f"amplitude_{name}"
        many = np.concatenate([configs] * 16)
        psi = partial(ansatz._amplitudes, thetas[name], many)
        found[key] = timed(psi) / 16
    ansatz, theta = states["softmax"], thetas["softmax"]
    targets = rydberg(ansatz.lattice, V=7.0, delta=1.0, Omega=1.0).targets
    few = max(4, batch // 8)

    def energy() -> Any:
        drawn = ansatz.drawer(theta)(uniforms[:few], None)[0]
        return measure_configs(ansatz, theta, drawn, targets).amplitude.log_abs

    found["energy"] = timed(energy) * batch / few
    return {k: v if k == "sites" else 1e3 * v / batch for k, v in found.items()}


def slopes(rows: list[dict[str, float]]) -> dict[str, float]:
    """Exponents of N over the last three sizes."""
    last = rows[-3:]
    sites = np.log([each["sites"] for each in last])
    return {key: float(np.polyfit(sites, np.log([r[key] for r in last]), 1)[0]) for key in COLUMNS}


def picture(rows: list[dict[str, float]]) -> None:
    """Draw CPU milliseconds against N, both logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    exponents = slopes(rows)
    for axis, keys in ((left, [*COLUMNS][:4]), (right, [*COLUMNS][4:])):
        for key, marker in zip(keys, "osD^", strict=True):
            label = f"{COLUMNS[key]}: $N^{{{exponents[key]:.1f}}}$"
            sites, times = zip(*((each["sites"], each[key]) for each in rows), strict=True)
            axis.loglog(sites, times, marker=marker, label=label)
        axis.set_xlabel("number of sites N")
        axis.set_xticks([each["sites"] for each in rows], [f"{each['sites']:g}" for each in rows])
        axis.minorticks_off()
        axis.legend(fontsize=8)
    left.set_ylabel("CPU time of one core (ms)")
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--largest", type=int, default=16)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rows = []
    print("   N", *(f"{name:>17}" for name in COLUMNS))
    for length in (each for each in SIZES if each <= given.largest):
        rows.append(row(length, given.batch, given.rounds))
        print(f"{rows[-1]['sites']:4g}", *(f"{rows[-1][key]:14.3g} ms" for key in COLUMNS))
    if len(rows) < 2:
        return
    print(" N^p", *(f"{value:17.2f}" for value in slopes(rows).values()))
    if given.largest == SIZES[-1]:
        content = {"batch": given.batch, "rows": rows, "exponents": slopes(rows)}
        RESULTS.write_text(json.dumps(content, indent=1) + "\n")
        picture(rows)


if __name__ == "__main__":
    main()
