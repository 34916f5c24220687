"""Error of ln psi and of local energies against the time of a sample, for every scheme.

    python benchmarks/equal_error.py [--cases L,D ...] [--rounds 5] [--json FILE]
    python benchmarks/equal_error.py --plot docs/_static/equal_error.png

A scheme is judged by the curve that it draws as chi grows: what an error costs.  States are
Heisenberg from simple update.  Errors are medians over configurations that a chain sampled, and
over random ones of zero magnetisation; |psi/psi_ref - 1| against the uncut contraction (for D^L
above a million: the largest chi), local energies against the largest chi, per site.

A sample is one sweep, the local energy and all log-derivatives.  Its time is process time on one
core, the fastest of some rounds in which the schemes take turns (zip-up, which takes several times
as long, has one), and is also given times the rate of a batched product in the same run: what the
machine could have done in that time, in MFLOP.  The operations that were in fact counted stand
beside it; a decomposition counts by its formula. `Exact` has one line, an amplitude: its boundaries
do not fit a whole sample.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from amplitude import by_tnvmc, errors, random_sector
from threadpoolctl import threadpool_limits

from meter import Meter, gemm_rate
from states import heisenberg_state
from tnvmc import PEPS, SRC, Exact, Sampler, ZipUp, heisenberg, square
from tnvmc.backend.process import keep_freed_memory
from tnvmc.backend.random import uniforms
from tnvmc.contraction.double_layer import log_amplitude as exact_log_amplitude
from tnvmc.contraction.schemes import Scheme
from tnvmc.estimate.observables import local_energy
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for
from tnvmc.sampling.problem import Point, Problem
from tnvmc.sampling.workers import measure_configs

SCHEMES: dict[str, Callable[[int], Scheme]] = {
    "SRC": SRC,
    "SRC, random sketch": lambda chi: SRC(chi, sketch="random"),
    "zip-up": ZipUp,
}
CASES = {(8, 4): (6, 8, 9, 10, 12, 16), (8, 6): (9, 12, 13, 15)}
REFERENCE = {4: 32, 6: 32}
"""chi of the reference, by D."""

Row = dict[str, Any]


class Case:
    """A state, configurations, and what is true of them."""

    def __init__(self, L: int, D: int, n_configs: int) -> None:
        self.L, self.D, self.operator = L, D, heisenberg(square(L, L))
        self.peps, self.theta = heisenberg_state(L, D)
        self.sets = {
            "sampled": self._sampled(n_configs, REFERENCE[D] // 2),
            "random": random_sector(L, n_configs),
        }
        best = self.peps.with_scheme(SRC(REFERENCE[D]))
        tensors = self.peps.tensors(self.theta)
        self.psi = {
            name: exact_log_amplitude(tensors, (L, L), configs)
            if D**L <= 10**6
            else by_tnvmc(best, self.theta, configs)
            for name, configs in self.sets.items()
        }
        self.energies = self._energies(best)

    def _sampled(self, n: int, chi: int) -> np.ndarray:
        problem = Problem.of(self.operator, self.peps.with_scheme(SRC(chi)))
        start = Point(self.theta, initial_configs(self.operator, n, 0))
        drawn: np.ndarray = Sampler(n, n, 20, threads=1).draw(problem, start, 0, False)[1].configs
        return drawn

    def _energies(self, peps: PEPS) -> np.ndarray:
        snapshot = measure_configs(
            peps, self.theta, self.sets["sampled"], self.operator.targets, threads=1
        )
        return np.asarray(local_energy(self.operator, snapshot))

    def errors(self, scheme: Scheme) -> Row:
        """Medians and 90 % quantiles of the errors of a scheme."""
        peps = self.peps.with_scheme(scheme)
        found = {
            name: errors(by_tnvmc(peps, self.theta, configs), self.psi[name])
            for name, configs in self.sets.items()
        }
        off = np.abs(self._energies(peps) - self.energies) / self.L**2
        found["local energy"] = off
        return {name: [float(np.quantile(e, q)) for q in (0.5, 0.9)] for name, e in found.items()}

    def sampler(self, scheme: Scheme, n: int) -> Callable[[], float]:
        """A function that makes n samples and gives the process time of each."""
        peps, moves = self.peps.with_scheme(scheme), moves_for(self.operator)
        walkers = peps.start(self.theta, np.resize(self.sets["sampled"], (n, self.L**2)))
        numbers = iter(range(10**6))

        def once() -> float:
            nonlocal walkers
            u = uniforms(0, (0, next(numbers)), range(n), len(moves))
            began = time.process_time()
            walkers, _ = peps.sweep(self.theta, walkers, moves, u)
            walkers, snapshot = peps.measure(self.theta, walkers, self.operator.targets)
            local_energy(self.operator, snapshot)
            return (time.process_time() - began) / n

        return once

    def seconds_of_amplitudes(self, scheme: Scheme, n: int) -> float:
        """Process time of one amplitude in a batch of n, tables and sketches included."""
        peps, configs = self.peps.with_scheme(scheme), self.sets["sampled"][:n]
        by_tnvmc(peps, self.theta, configs)
        began = time.process_time()
        by_tnvmc(peps, self.theta, configs)
        return (time.process_time() - began) / len(configs)


def measured(case: Case, chi: int, walkers: int, rounds: int) -> list[Row]:
    """All schemes at one chi, which take turns."""
    samplers = {name: case.sampler(make(chi), walkers) for name, make in SCHEMES.items()}
    times: dict[str, list[float]] = {name: [] for name in SCHEMES}
    for number in range(rounds):
        for name, once in samplers.items():
            if number == 0 or name != "zip-up":
                times[name].append(once())
    rows = []
    for name, make in SCHEMES.items():
        with Meter() as meter:
            samplers[name]()
        rows.append({
            "L": case.L, "D": case.D, "chi": chi, "scheme": name,
            "ms_sample": 1e3 * min(times[name]),
            "ms_amplitude": 1e3 * case.seconds_of_amplitudes(make(chi), walkers),
            "mflop_products": meter.flop / walkers / 1e6,
            "mflop_decompositions": meter.flop_decomposed / walkers / 1e6,
            "errors": case.errors(make(chi)),
        })  # fmt: skip
    return rows


def show(row: Row) -> None:
    """One line of the table."""
    print(f"{row['chi']:>4} {row['scheme']:>19} {row['ms_amplitude']:>8.2f} {row['ms_sample']:>8.2f} "
          f"{row['mflop_at_gemm_rate']:>7.0f} {counted(row):>8.1f} "
          + " ".join(f"{row['errors'][key][0]:>12.1e} ({row['errors'][key][1]:.0e})"
                     for key in ("sampled", "random", "local energy")), flush=True)  # fmt: skip


def counted(row: Row) -> float:
    """Operations of a sample, MFLOP."""
    return float(row["mflop_products"] + row["mflop_decompositions"])


def show_equal_error(rows: list[Row]) -> None:
    """Costs at the errors that SRC has at chi = 2 D and 4 D (or the largest), from lines between chi."""
    for L, D in sorted({(row["L"], row["D"]) for row in rows}):
        mine = [row for row in rows if row["D"] == D]
        chis = sorted({row["chi"] for row in mine})
        for chi in (2 * D, min(4 * D, chis[-1])):
            print(f"{L}x{L}, D = {D}, at the errors of SRC({chi}): MFLOP, ms")
            for name in SCHEMES:
                line = sorted((r for r in mine if r["scheme"] == name), key=lambda r: -r["chi"])
                cells = []
                for key in ("sampled", "local energy"):
                    wanted = next(r["errors"][key][0] for r in mine
                                  if r["scheme"] == "SRC" and r["chi"] == chi)  # fmt: skip
                    errors_at = np.log([r["errors"][key][0] for r in line])
                    inside = errors_at[0] <= np.log(wanted) <= errors_at[-1]
                    costs = [np.exp(np.interp(np.log(wanted), errors_at, np.log(values)))
                             for values in ([counted(r) for r in line],
                                            [r["ms_sample"] for r in line])]  # fmt: skip
                    cells.append(f"{key} {wanted:.1e}: " + (
                        f"{costs[0]:7.1f} {costs[1]:6.1f}" if inside else f"{'beyond':>14}"))  # fmt: skip
                print(f"{name:>24}  {'   '.join(cells)}")


def draw(rows: list[Row], path: Path) -> None:
    """Draw errors against time and against operations, a line of panels for each D."""
    from matplotlib.ticker import NullFormatter

    from tnvmc.report.figures import style

    with style.styled():
        cases = sorted({(row["L"], row["D"]) for row in rows})
        figure = style.new_figure(10, 2.9 * len(cases) + 0.6)
        panels = figure.subplots(len(cases), 3, sharex="col", squeeze=False)
        for (L, D), line in zip(cases, panels, strict=True):
            for number, (name, marker) in enumerate(zip(SCHEMES, "osD", strict=True)):
                mine = [row for row in rows if (row["D"], row["scheme"]) == (D, name)]
                rate = max(row["gflops_gemm"] for row in mine)
                psi, energy = ([row["errors"][key][0] for row in mine]
                               for key in ("sampled", "local energy"))  # fmt: skip
                work = [counted(row) for row in mine]
                options: dict[str, Any] = {**style.line(number), "marker": marker, "ms": 4}
                line[0].loglog(
                    [row["ms_sample"] * rate for row in mine], psi, label=name, **options
                )
                line[1].loglog(work, psi, **options)
                line[2].loglog(work, energy, **options)
                if name == "SRC":
                    _number(line[1], [row["chi"] for row in mine], work, psi)
            line[0].set_ylabel(rf"error of ln $\psi$, {L}×{L}, D = {D}")
            line[2].set_ylabel("error of local energies, per site")
            for axes in line:
                style.grid(axes)
                axes.xaxis.set_minor_formatter(NullFormatter())
        panels[-1][0].set_xlabel(
            "time of a sample, in MFLOP that matrix\nproducts would do in this time"
        )
        panels[-1][1].set_xlabel("operations of a sample, MFLOP\n(numbers in circles: χ of SRC)")
        panels[-1][2].set_xlabel("operations of a sample, MFLOP")
        figure.legend(
            *panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3
        )
        path.write_bytes(style.encode(figure, path.suffix[1:]))


def _number(axes: Any, numbers: list[int], x: list[float], y: list[float]) -> None:
    """Write numbers into markers, which are made large enough."""
    axes.lines[-1].set(markersize=9, zorder=3)
    for number, *place in zip(numbers, x, y, strict=True):
        axes.annotate(str(number), place, color="white", fontsize=6, ha="center",
                      va="center_baseline", zorder=4)  # fmt: skip


def main() -> None:
    """Measure, print the table, write JSON and picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cases", nargs="*", metavar="L,D", default=["8,4", "8,6"])
    parser.add_argument("--configs", type=int, default=64)
    parser.add_argument("--walkers", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/equal_error.json"))
    parser.add_argument(
        "--plot", type=Path, help="PNG, PDF or SVG; of the JSON as it is, if it is there"
    )
    args = parser.parse_args()
    if args.plot:
        rows = json.loads(args.json.read_text())["rows"]
        show_equal_error(rows)
        draw(rows, args.plot)
        return
    keep_freed_memory()
    report: dict[str, Any] = {"rows": [], "exact": []}
    if args.json.exists():  # other cases stay
        report = json.loads(args.json.read_text())
        for key, old in report.items():
            report[key] = [row for row in old if f"{row['L']},{row['D']}" not in args.cases]
    with threadpool_limits(1):
        for text in args.cases:
            L, D = map(int, text.split(","))
            case = Case(L, D, args.configs)
            print(f"Heisenberg {L}x{L}, D = {D}, simple update, float64, one core\n"
                  f"{'chi':>4} {'scheme':>19} {'ms psi':>8} {'ms':>8} {'x GEMM':>7} {'counted':>8} "
                  f"{'ln psi, sampled':>20} {'ln psi, random':>20} {'local energy':>20}")  # fmt: skip
            rate = gemm_rate()  # the largest that was seen: other programs only make it smaller
            for chi in CASES.get((L, D), (2 * D, 3 * D, 4 * D)):
                rate = max(rate, gemm_rate())
                for row in measured(case, chi, args.walkers, args.rounds):
                    row |= {"gflops_gemm": rate, "mflop_at_gemm_rate": row["ms_sample"] * rate}
                    show(row)
                    report["rows"].append(row)
            if D ** (L // 2) <= 256:
                seconds = case.seconds_of_amplitudes(Exact(), 2)
                print(f"     {'Exact':>19} {1e3 * seconds:>8.0f}")
                report["exact"].append({"L": L, "D": D, "ms_amplitude": 1e3 * seconds})
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_text(json.dumps(report, indent=1) + "\n")
    show_equal_error(report["rows"])


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
