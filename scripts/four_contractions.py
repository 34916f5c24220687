"""Time and error of four ways to contract a PEPS, as the lattice grows.

(a) <psi|psi>: the exact double layer;
(b) <psi|psi>: boundary MPOs on the double layer, cut to chi_mpo;
(c) psi(s) at fixed spins: the exact single layer;
(d) psi(s) at fixed spins: boundary MPS on the single layer, cut to chi.

(a) and (c) are exponential in the width of the lattice, (a) with D^2 where (c) has D; (b) and (d)
are not, and sampling uses (d).  The states are Heisenberg ground states from simple
update on open L x L lattices, the spins are random with the smallest magnetisation.  Errors are
relative to the exact contraction, or where that has stopped to the same method at twice chi.

Example:
    python scripts/four_contractions.py --D 3 --chi 6 --sizes 2 3 4 5 6 --out runs/four
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc import PEPS, SRC, heisenberg, simple_update, square
from tnvmc.contraction.double_layer import log_amplitude, log_norm

Array = Any

METHODS = {
    "a": "exact double layer",
    "b": "boundary MPO, double layer",
    "c": "exact single layer, fixed spins",
    "d": "boundary MPS, single layer, fixed spins",
}
# Okabe and Ito's palette; with markers and dashes of their own the curves also differ in grey.
STYLES = {
    "a": {"color": "#D55E00", "marker": "s", "ls": "-"},
    "b": {"color": "#E69F00", "marker": "D", "ls": "--"},
    "c": {"color": "#0072B2", "marker": "o", "ls": "-."},
    "d": {"color": "#009E73", "marker": "^", "ls": ":"},
}


@dataclass(frozen=True)
class Row:
    """One contraction: seconds for one number, and its relative error where there is a measure."""

    method: str
    L: int
    seconds: float
    error: float | None
    against: str  # what the error is relative to


@dataclass(frozen=True)
class Bounds:
    """What one contraction may take."""

    seconds: float
    gigabytes: float

    def reason_to_stop(self, gigabytes: float, seconds: float) -> str | None:
        """Say why a contraction that is expected to take this much is left out."""
        if gigabytes > self.gigabytes:
            return f"needs about {gigabytes:.1f} GB, more than --memory {self.gigabytes:g}"
        if seconds > self.seconds:
            return f"expected to take {seconds:.0f} s, more than --limit {self.seconds:g}"
        return None


def main() -> None:
    """Measure, print, write JSON, draw."""
    options = parse()
    chi_mpo = options.chi_mpo or 2 * options.D**2
    chi = options.chi or 2 * options.D
    rows, stops = measure(options, chi, chi_mpo)
    print_stops(stops)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    record = {
        "D": options.D,
        "chi": chi,
        "chi_mpo": chi_mpo,
        "n_configs": options.configs,
        "seed": options.seed,
        "methods": METHODS,
        "rows": [asdict(row) for row in rows],
        "stopped": stops,
    }
    (out / "four_contractions.json").write_text(json.dumps(record, indent=1) + "\n")
    draw(rows, f"D = {options.D}, $\\chi$ = {chi}, $\\chi_{{MPO}}$ = {chi_mpo}", out)
    print(f"wrote {out}/four_contractions.json, .png and .pdf")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--D", type=int, default=3, help="bond dimension (default 3)")
    parser.add_argument("--chi", type=int, help="of the boundary MPS (default 2 D)")
    parser.add_argument("--chi-mpo", type=int, help="of the boundary MPO (default 2 D^2)")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[2, 3, 4, 5, 6, 7, 8], help="L (default 2 to 8)"
    )
    parser.add_argument("--configs", type=int, default=32, help="spin configurations (default 32)")
    parser.add_argument(
        "--limit", type=float, default=20.0, help="seconds for one contraction (default 20)"
    )
    parser.add_argument(
        "--memory", type=float, default=2.0, help="gigabytes for one contraction (default 2)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of spins and sketches (default 0)")
    parser.add_argument("--out", default="runs/four_contractions", help="folder to write to")
    options = parser.parse_args()
    numbers = [options.D, options.configs, *options.sizes, options.chi or 1, options.chi_mpo or 1]
    if min(numbers) < 1 or min(options.limit, options.memory) <= 0:
        parser.error("sizes, D, chi, --configs, --limit and --memory must be positive")
    options.sizes = sorted(set(options.sizes))
    return options


def measure(
    options: argparse.Namespace, chi: int, chi_mpo: int
) -> tuple[list[Row], dict[str, str]]:
    """Run all methods at all sizes; a method that has stopped is left out from there on."""
    rows: list[Row] = []
    stops: dict[str, str] = {}
    bounds = Bounds(options.limit, options.memory)
    print(f"{'L':>3}  {'method':<42}{'seconds':>10}{'error':>10}  relative to")
    for L in options.sizes:
        tensors = simple_update(heisenberg(square(L, L)), options.D, seed=options.seed)
        configs = random_configs(L, options.configs, options.seed)
        for row in [
            *norms(tensors, L, chi_mpo, bounds, rows, stops),
            *amplitudes(tensors, configs, L, chi, bounds, rows, stops),
        ]:
            error = "" if row.error is None else f"{row.error:.1e}"
            label = f"({row.method}) {METHODS[row.method]}"
            print(f"{L:>3}  {label:<42}{row.seconds:>10.2g}{error:>10}  {row.against}", flush=True)
            rows.append(row)
    return rows, stops


def norms(
    tensors: list[Array], L: int, chi: int, bounds: Bounds, rows: list[Row], stops: dict[str, str]
) -> list[Row]:
    """Methods (a) and (b) at one size."""
    D = tensors[0].shape[3] if L > 1 else 1
    found = []
    exact = None
    if "a" not in stops:
        # the vector, its product with a site, and that product in the order of the next site
        gigabytes = 3 * 8 * D ** (2 * L + 2) / 1e9
        stop = bounds.reason_to_stop(gigabytes, expected_seconds("a", L, D**2, rows))
        if stop:
            stops["a"] = f"at L = {L}: {stop}"
        else:
            exact, seconds = timed(lambda: log_norm(tensors, (L, L)))
            found.append(Row("a", L, seconds, None, "(exact)"))
    if "b" not in stops:
        stop = bounds.reason_to_stop(8 * chi**2 * D**5 / 1e9, expected_seconds("b", L, 1, rows))
        if stop:
            stops["b"] = f"at L = {L}: {stop}"
        else:
            value, seconds = timed(lambda: log_norm(tensors, (L, L), chi=chi))
            better = log_norm(tensors, (L, L), chi=2 * chi, seed=1) if exact is None else exact
            against = f"chi_mpo = {2 * chi}, median" if exact is None else "(a), median"
            # one sketch may be right by luck: the median over several
            values = [value, *(log_norm(tensors, (L, L), chi=chi, seed=s) for s in range(2, 6))]
            error = float(np.median(np.abs(np.expm1(np.array(values) - better))))
            found.append(Row("b", L, seconds, error, against))
    return found


def amplitudes(
    tensors: list[Array],
    configs: Array,
    L: int,
    chi: int,
    bounds: Bounds,
    rows: list[Row],
    stops: dict[str, str],
) -> list[Row]:
    """Methods (c) and (d) at one size; seconds are per configuration, evaluated as one batch."""
    D = tensors[0].shape[3] if L > 1 else 1
    found = []
    exact = None
    if "c" not in stops:
        gigabytes = 3 * 8 * D ** (L + 1) * len(configs) / 1e9
        stop = bounds.reason_to_stop(gigabytes, len(configs) * expected_seconds("c", L, D, rows))
        if stop:
            stops["c"] = f"at L = {L}: {stop}"
        else:
            exact, seconds = timed(lambda: log_amplitude(tensors, (L, L), configs))
            found.append(Row("c", L, seconds / len(configs), None, "(exact)"))
    if "d" not in stops:
        stop = bounds.reason_to_stop(0.0, len(configs) * expected_seconds("d", L, 1, rows))
        if stop:
            stops["d"] = f"at L = {L}: {stop}"
        else:
            cut = boundary_mps(tensors, L, D, chi)
            value, seconds = timed(lambda: cut(configs))
            better = boundary_mps(tensors, L, D, 2 * chi)(configs) if exact is None else exact
            against = f"chi = {2 * chi}, median" if exact is None else "(c), median"
            error = float(np.median(differences(value, better)))
            found.append(Row("d", L, seconds / len(configs), error, against))
    return found


def boundary_mps(
    tensors: list[Array], L: int, D: int, chi: int
) -> Callable[[Array], tuple[Array, Array]]:
    """Give psi(s) by boundary MPS as a function of configurations."""
    peps = PEPS(square(L, L), D, scheme=SRC(chi))
    theta = peps.flatten(tensors)

    def evaluate(configs: Array) -> tuple[Array, Array]:
        amplitude = peps.log_amplitude(theta, configs)
        return amplitude.phase, amplitude.log_abs

    return evaluate


def differences(value: tuple[Array, Array], better: tuple[Array, Array]) -> Array:
    """|psi - psi'| / |psi'| per configuration."""
    return np.abs(value[0] * np.exp(value[1] - better[1]) - better[0])


def expected_seconds(method: str, L: int, factor: float, rows: list[Row]) -> float:
    """Extrapolate from the last size: number of sites, and `factor` for each more column."""
    past = [row for row in rows if row.method == method]
    if not past:
        return 0.0
    last = past[-1]
    return last.seconds * (L / last.L) ** 2 * factor ** (L - last.L)


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Give the result and the seconds of the better of two runs, or of one that takes long."""
    best = math.inf
    for _ in range(2):
        began = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - began)
        if best > 2.0:
            break
    return result, best


def random_configs(L: int, n: int, seed: int) -> Array:
    """Random configurations (n, L^2) with as many spins down as up (one fewer if N is odd)."""
    config = np.arange(L * L) % 2
    rng = np.random.Generator(np.random.PCG64(seed))
    return rng.permuted(np.tile(config, (n, 1)), axis=1).astype(np.int8)


def print_stops(stops: dict[str, str]) -> None:
    """Say where methods ended."""
    for method, reason in stops.items():
        print(f"({method}) {METHODS[method]} stopped {reason}")


def draw(rows: list[Row], title: str, out: Path) -> None:
    """Draw time and error against L as PNG and PDF."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for method, label in METHODS.items():
        points = [row for row in rows if row.method == method]
        if not points:
            continue
        sizes = [row.L for row in points]
        style: dict[str, Any] = {**STYLES[method], "ms": 5, "lw": 1.4}
        left.semilogy(sizes, [p.seconds for p in points], label=f"({method}) {label}", **style)
        # exact contractions have no error to show; rounding alone is drawn at the bottom
        errors = [(p.L, max(p.error, 1e-16)) for p in points if p.error is not None]
        if errors:
            right.semilogy(*zip(*errors, strict=True), **style)
    left.set_ylabel("seconds for one number")
    right.set_ylabel("relative error")
    for axes in (left, right):
        axes.set_xlabel("L  (open L x L lattice)")
        axes.set_xticks(sorted({row.L for row in rows}))
        axes.grid(alpha=0.3, lw=0.5)
    figure.suptitle(title, fontsize=10)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    for suffix in ("png", "pdf"):
        figure.savefig(out / f"four_contractions.{suffix}", dpi=200)


if __name__ == "__main__":
    main()
