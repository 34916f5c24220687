"""Time to draw from a patched transformer against its number of tokens N, by kind of attention.

    python benchmarks/draw.py [--samples M] [--sides L ...] [--repeats R] [--json FILE] [--picture FILE]

Every token is one site here.  Softmax attention remembers the keys and values of all tokens before,
so that a token costs O(N) and a sample O(N^2); linear attention remembers sums, and a sample costs
O(N).  "no cache" evaluates the whole network for each token, O(N^3): what a draw costs where nothing
is remembered.  Slopes are those of a line through the last `FITTED` points in logarithms.  Times are
CPU seconds of one thread, the fewest of R runs after compilation.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc import square
from tnvmc.report.figures import style

SIDES = {
    "softmax": (8, 11, 16, 23, 32),
    "linear": (8, 11, 16, 23, 32),
    "no cache": (3, 4, 6, 8, 11),
}
"""Of the square lattices, by what is timed; N = side^2."""

FITTED = 3
LOOKS = {
    "no cache": (style.VERMILION, "softmax, nothing remembered"),
    "softmax": (style.BLUE, "softmax, keys and values remembered"),
    "linear": (style.GREEN, "linear, sums remembered"),
}
NETWORK = {"width": 16, "heads": 4, "layers": 2, "patch": 1}


def drawing(kind: str, side: int) -> Callable[[np.ndarray], Any]:
    """Compiled drawing of configurations (M, N) from numbers (M, N)."""
    import jax
    from flax import nnx

    import tnvmc.ansatz.neural.flax  # noqa: F401  (double precision)
    from tnvmc.ansatz.neural.patched_transformer import PatchedTransformer

    attention = "softmax" if kind == "no cache" else kind
    module = PatchedTransformer(
        square(side, side), attention=attention, **NETWORK, rngs=nnx.Rngs(0)
    )
    graph, state = nnx.split(module)
    draw = draw_without_cache if kind == "no cache" else PatchedTransformer.draw
    run = jax.jit(lambda state, uniforms: draw(nnx.merge(graph, state), uniforms)[0])
    return lambda uniforms: jax.block_until_ready(run(state, uniforms))


def draw_without_cache(module: Any, uniforms: Any) -> tuple[Any, None]:
    """Draw token by token, the whole network being evaluated for each."""
    import jax
    import jax.numpy as jnp

    from tnvmc.ansatz.neural.autoregressive import log_softmax, pick

    def advance(configs: Any, t: Any) -> tuple[Any, None]:
        logits = module.logits(configs)[:, t]
        drawn = pick(log_softmax(logits, jnp.ones_like(logits, bool)), uniforms[:, t])
        return configs.at[:, t].set(drawn.astype(configs.dtype)), None

    nothing = jnp.zeros(uniforms.shape, jnp.int8)
    return jax.lax.scan(advance, nothing, jnp.arange(uniforms.shape[1]))


def shortest(run: Callable[[np.ndarray], Any], uniforms: np.ndarray, repeats: int) -> float:
    """CPU seconds of the fastest of some runs after the first, which compiles."""
    run(uniforms)
    times = []
    for _ in range(repeats):
        began = time.process_time()
        run(uniforms)
        times.append(time.process_time() - began)
    return min(times)


def slope(tokens: list[int], seconds: list[float]) -> tuple[float, float]:
    """Exponent and factor of factor * N^exponent through the last points."""
    last = slice(-FITTED, None)
    exponent, log_factor = np.polyfit(np.log(tokens[last]), np.log(seconds[last]), 1)
    return float(exponent), float(np.exp(log_factor))


def picture(report: Mapping[str, Any]) -> bytes:
    """Draw seconds against tokens with the fitted lines: a PNG."""
    with style.styled():
        figure = style.new_figure(5.8, 4.0)
        axes = figure.subplots()
        for kind, (colour, label) in LOOKS.items():
            if kind not in report["kinds"]:
                continue
            found = report["kinds"][kind]
            fitted = np.array(found["tokens"][-FITTED:])
            axes.plot(found["tokens"], found["seconds"], "o", ms=4.5, color=colour)
            line = found["factor"] * fitted ** found["exponent"]
            name = rf"{label}: $N^{{{found['exponent']:.2f}}}$"
            axes.plot(fitted, line, color=colour, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_xlabel("tokens N")
        axes.set_ylabel(f"CPU seconds to draw {report['samples']} samples")
        style.grid(axes)
        figure.legend(loc="outside upper left")
        return style.encode(figure, "png")


def main() -> None:
    """Time, print a table, write the JSON and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--sides", type=int, nargs="*", help="of the lattices, for all kinds")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/draw.json"))
    parser.add_argument("--picture", type=Path, default=Path("docs/_static/draw_time.png"))
    args = parser.parse_args()
    rng = np.random.Generator(np.random.PCG64(0))
    report: dict[str, Any] = {"samples": args.samples, "network": NETWORK, "kinds": {}}
    print(f"{args.samples} samples, {NETWORK}; ms a sample, one thread")
    for kind, sides in SIDES.items():
        tokens, seconds = [], []
        for side in args.sides or sides:
            uniforms = rng.random((args.samples, side * side))
            tokens.append(side * side)
            seconds.append(shortest(drawing(kind, side), uniforms, args.repeats))
            print(
                f"{kind:>9} N = {tokens[-1]:>5} {1e3 * seconds[-1] / args.samples:9.3f}", flush=True
            )
        exponent, factor = slope(tokens, seconds)
        print(f"{kind:>9} N^{exponent:.2f} over the last {FITTED}")
        found = {"tokens": tokens, "seconds": seconds, "exponent": exponent, "factor": factor}
        report["kinds"][kind] = found
    for path, content in (
        (args.json, json.dumps(report, indent=1).encode()),
        (args.picture, picture(report)),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    main()
