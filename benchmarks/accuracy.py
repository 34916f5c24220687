"""How near to the ground state, in which time? Optimisations of small and middling states.

    python benchmarks/accuracy.py [--rows NAME ...] [--rules auto fixed shared] [--seeds 3] [--json FILE]

For each row and rule, over the seeds: relative errors of the energy at the start and of the state
that would be measured (median, and the largest), the seconds of all steps and those after which the
mean energy of ten steps was first within a tenth of its last value, and the result beside that in
the committed JSON.  "auto" has the settings that a file without any has; "fixed" draws from |psi|^2
and takes SR with a shift of 1e-2 and a rate of 0.1 that falls to 0.01 along a cosine; "shared" is
"auto" with tensors that symmetries make equal, from a product state; "growing" and "shared growing"
are "auto" and "shared" with a number of samples that grows, whatever that of the row; "cut" is
"auto" from a state of the next larger D that 60 steps have optimised and that is cut to D.
Energies by enumeration up to 70,000 configurations, else by a measurement of 16,384 samples, whose
error is given.  One core.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import comb
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tnvmc import PEPS, SR, SRC, VMC, Enumerate, Sampler, UnreliableWarning, sharing, square
from tnvmc.ansatz.peps.starts.other_sizes import cut_to
from tnvmc.operators import models
from tnvmc.operators.term import Operator
from tnvmc.optimize.rule import Cosine
from tnvmc.vmc.measured_iterate import measured_iterate

RESULTS = Path(__file__).parent / "results" / "accuracy.json"
ENUMERATED = 70_000
MEASURED = 16_384
WINDOW = 10
RULES = ["auto", "fixed", "shared", "growing", "shared growing", "cut"]
LARGER_STEPS = 60


@dataclass(frozen=True)
class Row:
    """One optimisation."""

    operator: Callable[[], Operator]
    exact: float  #: total energy; of the ground state, or the best known
    D: int
    n_samples: int
    steps: int


def heisenberg(L: int) -> Operator:
    """Open L x L."""
    return models.heisenberg(square(L, L))


def cylinder() -> Operator:
    """4 x 4, periodic along one direction, which the bonds of the state do not follow."""
    return models.heisenberg(square(4, 4, boundary="cylinder"))


def _rows() -> dict[str, Row]:
    of_4, of_6 = -0.5743254416 * 16, -0.6035218345 * 36
    found = {
        f"heisenberg 4x4 D=2 {n}": Row(lambda: heisenberg(4), of_4, 2, n, 100)
        for n in (256, 512, 1024)
    }
    found["heisenberg cylinder 4x4 D=2 512"] = Row(cylinder, -10.264289620979, 2, 512, 100)
    for D in (2, 3):
        found[f"heisenberg 6x6 D={D} 1024"] = Row(lambda: heisenberg(6), of_6, D, 1024, 100)
    found["heisenberg 6x6 D=4 512"] = Row(lambda: heisenberg(6), of_6, 4, 512, 60)
    found["j1j2 6x6 D=4 1024"] = Row(
        lambda: models.j1j2(square(6, 6), J2=0.5), -17.2474, 4, 1024, 60
    )
    found["tfim 4x4 D=3 512"] = Row(
        lambda: models.tfim(square(4, 4), h=3.0), -50.186623882778, 3, 512, 40
    )
    found["rydberg 4x4 D=3 1024"] = Row(
        lambda: models.rydberg(square(4, 4), V=7.0, delta=1.0, Omega=1.0), -7.254611338546, 3, 1024, 80
    )  # fmt: skip
    return found


ROWS = _rows()


def optimise(row: Row, rule: str, seed: int) -> dict[str, Any]:
    """Make the steps, and give what is in the table."""
    larger = replace(row, D=row.D + 1, steps=LARGER_STEPS)
    vmc = first = _vmc(larger if rule == "cut" else row, rule, seed)
    start, began = vmc.theta, process_time()
    curve = _stepped(vmc, larger.steps if rule == "cut" else row.steps, began)
    if rule == "cut":
        tensors = first.ansatz.tensors(measured_iterate(first.method, first.state)[0].theta)
        theta, _ = cut_to(tensors, PEPS(first.operator.lattice, row.D))
        vmc = _vmc(row, rule, seed, theta)
        curve += _stepped(vmc, row.steps, began)
    seconds = process_time() - began
    point, told = measured_iterate(vmc.method, vmc.state)
    relative = lambda energy: (energy - row.exact) / abs(row.exact)
    (before, _), (last, error) = _energy(first, start), _energy(vmc, point.theta)
    return {
        "start": relative(before), "end": relative(last), "end_error": error / abs(row.exact),
        "seconds": seconds, "seconds_near": _near(curve), "told": [found.code for found in told],
        "seed": seed, "curve": curve,
    }  # fmt: skip


def _vmc(row: Row, rule: str, seed: int, theta: np.ndarray | None = None) -> VMC:
    operator = row.operator()
    shared = sharing(operator) if "shared" in rule else None
    grows: Any = "auto" if "growing" in rule else None
    ansatz = PEPS(operator.lattice, row.D, scheme=SRC(max(4, 2 * row.D)), sharing=shared)
    rate: Any = Cosine(0.1, 0.01, row.steps) if rule == "fixed" else "auto"
    n_walkers = 128 if grows else min(256, row.n_samples)
    sampler = Sampler(n_walkers, row.n_samples, threads=1)
    more: dict[str, Any] = {} if theta is None else {"theta": theta}
    if rule == "fixed":
        sampler, more = replace(sampler, power=1.0), {"optimizer": SR(1e-2)}
    return VMC(operator, ansatz, sampler, learning_rate=rate, n_samples=grows, seed=seed, **more)


def _stepped(vmc: VMC, steps: int, began: float) -> list[tuple[float, float, float]]:
    """Make steps; seconds since then, energy and error of each."""
    curve = []
    for _ in range(steps):
        record = vmc.step()
        curve.append((process_time() - began, record.energy, record.energy_error))
    return curve


def _energy(vmc: VMC, theta: np.ndarray) -> tuple[float, float]:
    n, sector = vmc.operator.n_sites, vmc.problem.magnetisation
    configurations = 2**n if sector is None else comb(n, (n + sector) // 2)
    if configurations <= ENUMERATED:
        exact = Enumerate(threads=1)
        found = VMC(vmc.operator, vmc.ansatz, exact, theta=theta).measure()
    else:
        many = Sampler(128, MEASURED, threads=1)
        found = VMC(vmc.operator, vmc.ansatz, many, theta=theta, seed=7).measure()
    return found.energy, found.energy_error


def _near(curve: list[tuple[float, float, float]]) -> float:
    """Seconds until the mean of a window of energies has made nine tenths of its way."""
    energies = np.array([energy for _, energy, _ in curve])
    means = np.convolve(energies, np.full(WINDOW, 1 / WINDOW), "valid")
    goal = means[-1] + 0.1 * abs(means[0] - means[-1])
    return curve[int(np.argmax(means <= goal)) + WINDOW - 1][0]


def line(name: str, rule: str, runs: list[dict[str, Any]], before: float | None) -> str:
    """One line of the table."""
    ends = [run["end"] for run in runs]
    share = "" if before is None else f"{median(ends) / before:9.2f}"
    return (
        f"{name:<26} {rule:<14} {median(run['start'] for run in runs):9.2e} {median(ends):9.2e} "
        f"{max(ends):9.2e} {max(run['end_error'] for run in runs):8.0e} "
        f"{median(run['seconds'] for run in runs):8.0f} "
        f"{median(run['seconds_near'] for run in runs):8.0f} {share}"
    )


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", nargs="*", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--rules", nargs="*", choices=RULES, default=RULES[:2])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    committed = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    warnings.simplefilter("ignore", UnreliableWarning)
    found = dict(json.loads(options.json.read_text()) if options.json.exists() else {})
    print(f"{'row':<26} {'rule':<14} {'start':>9} {'end':>9} {'largest':>9} {'error':>8} "
          f"{'seconds':>8} {'near':>8} {'/before':>9}")  # fmt: skip
    with threadpool_limits(1):
        for name in options.rows:
            for rule in options.rules:
                key = f"{name} {rule}"
                runs = [optimise(ROWS[name], rule, seed) for seed in range(options.seeds)]
                before = committed.get(key)
                print(
                    line(name, rule, runs, before and median(r["end"] for r in before)), flush=True
                )
                found[key] = runs
                options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
