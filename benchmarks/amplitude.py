"""Time and error of one amplitude: this package against quimb, on the same network, in one run.

    python benchmarks/amplitude.py [--L 8] [--D 4] [--chi 8 12 16] [--json FILE]

The state is Heisenberg from simple update.  Errors are relative, |psi/psi_exact - 1|, against the
uncut contraction, over configurations near the Neel state (what is sampled) and random ones of
zero magnetisation (the hard case).  quimb contracts one configuration at a time, this package a
batch; both on one core with BLAS at one thread.  Lines of a table alternate between the codes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from states import heisenberg_state
from tnvmc import PEPS, SRC, ZipUp
from tnvmc.ansatz.quimb import grid_to_quimb
from tnvmc.backend.process import keep_freed_memory
from tnvmc.contraction.double_layer import log_amplitude as exact_log_amplitude

Amplitudes = tuple[np.ndarray, np.ndarray]  # phase, ln|psi|


def near_neel(L: int, n: int, swaps: int = 6, seed: int = 1) -> np.ndarray:
    """Neel states with a few exchanged neighbours."""
    rng = np.random.default_rng(seed)
    configs = np.tile(np.indices((L, L)).sum(0).ravel() % 2, (n, 1)).astype(np.int8)
    for config in configs:
        for site in rng.integers(L * L, size=swaps):
            other = site + 1 if site % L < L - 1 else site - 1
            config[[site, other]] = config[[other, site]]
    return configs


def random_sector(L: int, n: int, seed: int = 2) -> np.ndarray:
    """Random configurations of zero magnetisation."""
    rng = np.random.default_rng(seed)
    half = np.arange(L * L, dtype=np.int8) % 2
    return np.array([rng.permutation(half) for _ in range(n)])


def by_tnvmc(peps: PEPS, theta: np.ndarray, configs: np.ndarray) -> Amplitudes:
    """All configurations in one batch."""
    found = peps.log_amplitude(theta, configs)
    return found.phase, found.log_abs


def by_quimb(network: Any, configs: np.ndarray, chi: int, mode: str) -> Amplitudes:
    """One configuration after another with `contract_boundary`."""
    n_cols = network.Ly
    phases, logs = [], []
    for config in configs:
        picked = {network.site_ind(divmod(i, n_cols)): int(s) for i, s in enumerate(config)}
        flat = network.isel(picked)
        mantissa, exponent = flat.contract_boundary(
            max_bond=chi, mode=mode, cutoff=0.0, strip_exponent=True
        )
        phases.append(np.sign(mantissa))
        logs.append(np.log(np.abs(mantissa)) + exponent * np.log(10.0))
    return np.array(phases), np.array(logs)


def errors(found: Amplitudes, exact: Amplitudes) -> np.ndarray:
    """|psi/psi_exact - 1|."""
    return np.abs(found[0] * exact[0] * np.exp(found[1] - exact[1]) - 1)


def timed(call: Callable[[], Any], repeats: int) -> float:
    """Median seconds after one warm-up."""
    call()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _at_equal_error(
    peps: PEPS,
    theta: np.ndarray,
    sets: dict[str, np.ndarray],
    exact: dict[str, Amplitudes],
    theirs: dict[str, Any],
) -> dict[str, Any]:
    """The smallest chi at which SRC's median errors are below `theirs` on both sets, and its time."""
    for chi in range(theirs["chi"], 3 * theirs["chi"]):
        state = peps.with_scheme(SRC(chi))
        miss = {
            key: errors(by_tnvmc(state, theta, configs), exact[key])
            for key, configs in sets.items()
        }
        if all(np.median(miss[key]) <= theirs["errors"][key][0] for key in sets):
            break
    batch = sets["near Neel"]
    ms = 1e3 * timed(lambda: by_tnvmc(state, theta, batch), 5) / len(batch)
    medians = {key: float(np.median(values)) for key, values in miss.items()}
    print(f"     at equal error: SRC needs chi = {chi} where quimb mps has {theirs['chi']} "
          f"(errors {medians['near Neel']:.1e}, {medians['random']:.1e}): {ms:.3f} ms, "
          f"{theirs['ms'] / ms:.1f}x", flush=True)  # fmt: skip
    return {"equal_error_to": theirs["chi"], "chi": chi, "ms": ms, "medians": medians,
            "speedup": theirs["ms"] / ms}  # fmt: skip


def main() -> None:
    """Time and compare, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--L", type=int, default=8)
    parser.add_argument("--D", type=int, default=4)
    parser.add_argument("--chi", type=int, nargs="+", default=[8, 12, 16])
    parser.add_argument("--configs", type=int, default=64)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/amplitude.json"))
    args = parser.parse_args()
    peps, theta = heisenberg_state(args.L, args.D)
    network = grid_to_quimb(peps.tensors(theta), (args.L, args.L))
    sets = {
        "near Neel": near_neel(args.L, args.configs),
        "random": random_sector(args.L, args.configs),
    }
    exact = {
        name: exact_log_amplitude(peps.tensors(theta), (args.L, args.L), configs)
        for name, configs in sets.items()
    }
    methods: list[tuple[str, Callable[[int], Callable[[np.ndarray], Amplitudes]]]] = [
        ("SRC", lambda chi: lambda c: by_tnvmc(peps.with_scheme(SRC(chi)), theta, c)),
        ("SRC random sketch", lambda chi: lambda c: by_tnvmc(
            peps.with_scheme(SRC(chi, sketch="random")), theta, c)),
        ("ZipUp", lambda chi: lambda c: by_tnvmc(peps.with_scheme(ZipUp(chi)), theta, c)),
        ("quimb mps", lambda chi: lambda c: by_quimb(network, c, chi, "mps")),
        ("quimb src", lambda chi: lambda c: by_quimb(network, c, chi, "src")),
    ]  # fmt: skip
    report = []
    print(f"Heisenberg {args.L}x{args.L}, D = {args.D}, simple update, float64, one core")
    print(f"{'chi':>4} {'method':>20} {'ms':>8} {'vs quimb mps':>13} "
          f"{'error near Neel (90%)':>24} {'error random (90%)':>24}")  # fmt: skip
    keep_freed_memory()
    with threadpool_limits(1):
        for chi in args.chi:
            rows = []
            for name, make in methods:
                call = make(chi)
                few = args.configs if "quimb" not in name else min(args.configs, 24)
                found = {key: call(configs[:few]) for key, configs in sets.items()}
                miss = {key: errors(found[key], (exact[key][0][:few], exact[key][1][:few]))
                        for key in sets}  # fmt: skip
                batch = sets["near Neel"][: 8 if "quimb" in name else args.configs]
                ms = 1e3 * timed(lambda: call(batch), 5) / len(batch)  # noqa: B023
                rows.append({"chi": chi, "method": name, "ms": ms, "errors": {
                    key: [float(np.median(e)), float(np.quantile(e, 0.9))] for key, e in miss.items()
                }})  # fmt: skip
            reference = next(row["ms"] for row in rows if row["method"] == "quimb mps")
            for row in rows:
                row["speedup"] = reference / row["ms"]
                cells = [f"{a:.1e} ({b:.1e})" for a, b in row["errors"].values()]
                print(f"{chi:>4} {row['method']:>20} {row['ms']:>8.3f} {row['speedup']:>12.1f}x "
                      f"{cells[0]:>24} {cells[1]:>24}", flush=True)  # fmt: skip
            report += rows
            theirs = next(row for row in rows if row["method"] == "quimb mps")
            report.append(_at_equal_error(peps, theta, sets, exact, theirs))
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
