"""Directions of SR from log-derivatives in single precision, against those in double: true change
and bound.

    python benchmarks/rounding.py [--cases NAME ...] [--shifts X ...] [--samples N] [--steps N]
                                  [--seed N] [--json FILE]

Each state makes `--steps` steps of SR in double, then log-derivatives of `--samples` samples are
taken. Columns: the relative change |d - d'| / |d| that rounding the slices makes (solved in double
where the program refuses d'), the same with a Gram matrix of single-precision products and no
refinement, the bound that the program computes, whether it takes d', and the noise, |d - d2| / |d|
with d2 from other samples.  "raw/centred" is |O|^2 over its part without <O>; "left" is what
subtracting the mean slice of each site and spin would leave of |O|.  Then a short run in both
precisions from one seed: differences of the energy of a step, in its errors.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc import MPS, PEPS, SR, VMC, Sampler, chain, square
from tnvmc.backend.process import one_blas_thread
from tnvmc.jacobian.centered import CenteredJacobian
from tnvmc.jacobian.slices import SliceJacobian
from tnvmc.operators import heisenberg, j1j2, tfim
from tnvmc.optimize.rounded import PrecisionError
from tnvmc.optimize.solve import Cholesky, least_squares
from tnvmc.vmc.observation import observe

CASES: dict[str, Any] = {
    "heisenberg 6x6 D=4": lambda: (heisenberg(square(6, 6)), PEPS(square(6, 6), 4)),
    "j1j2 6x6 D=4": lambda: (j1j2(square(6, 6), J2=0.5), PEPS(square(6, 6), 4)),
    "complex 4x6 D=4": lambda: (
        j1j2(square(4, 6), J2=0.5),
        PEPS(square(4, 6), 4, dtype="complex128"),
    ),
    "j1j2 4x4 D=4": lambda: (j1j2(square(4, 4), J2=0.5), PEPS(square(4, 4), 4)),
    "mps 40 D=16": lambda: (heisenberg(chain(40)), MPS(chain(40), 16)),
    "ferromagnet 6x6 D=4": lambda: (tfim(square(6, 6), h=1.0), PEPS(square(6, 6), 4)),
}
SHIFTS = [1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8]


def direction(jacobian: Any, seen: Any, shift: float) -> tuple[np.ndarray, dict[str, Any]]:
    """A direction in the space of samples."""
    theta, weight = seen.point.theta, seen.snapshot.weight
    rule = SR(diag_shift=shift, space="samples")
    found, _, info = rule.direction(theta, jacobian, seen.local, weight, {})
    return found, info


def unrefined(jacobian: Any, seen: Any, shift: float) -> np.ndarray:
    """The same, from the Gram matrix of single-precision products as it is."""
    problem = least_squares(seen.point.theta, jacobian, seen.local, seen.snapshot.weight)
    a = problem.matrix
    gram = a.gram()
    x, _ = Cholesky()(gram, problem.target, shift * np.trace(gram).real / len(gram))
    return a.adjoint(x)


def widened(jacobian: SliceJacobian) -> SliceJacobian:
    """Rounded slices, in double precision again."""
    double = np.result_type(jacobian.dtype, np.float64)
    return replace(jacobian, slices=[x.astype(double) for x in jacobian.slices])


def centring(jacobian: SliceJacobian, seen: Any) -> tuple[float, float]:
    """|O|^2 over its centred part, and what is left of |O| without the mean slice per site and spin."""
    weight = seen.snapshot.weight
    if weight is None:
        weight = np.full(jacobian.shape[0], 1 / jacobian.shape[0])
    raw = sum(float(weight @ np.sum(abs(x) ** 2, axis=1)) for x in jacobian.slices)
    mean = CenteredJacobian(jacobian, weight)._mean(0)
    left = 0.0
    for site, slice_ in enumerate(jacobian.slices):
        for spin in range(jacobian.local_dim):
            chosen = jacobian.spins[:, site] == spin
            w, rows = weight[chosen], slice_[chosen]
            if w.sum() > 0:
                rows = rows - (w / w.sum()) @ rows
                left += float(w @ np.sum(abs(rows) ** 2, axis=1))
    return raw / (raw - float(np.sum(abs(mean) ** 2))), np.sqrt(left / raw)


def rows(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One state, all shifts."""
    operator, ansatz = CASES[name]()
    sampler = Sampler(n_walkers=128, n_samples=options.samples, n_burn=10)
    vmc = VMC(operator, ansatz, sampler, SR(1e-2), learning_rate=0.1, seed=options.seed)
    vmc.run(options.steps)
    with one_blas_thread():
        seen = observe(vmc.problem, sampler, vmc.state.here, 10_000)
        other = observe(vmc.problem, sampler, vmc.state.here, 20_000)
        double = seen.snapshot.jacobian
        single, ratios = double.in_single(), centring(double, seen)
        found = []
        for shift in options.shifts:
            d, _ = direction(double, seen, shift)
            size = np.linalg.norm(d)
            row = {"case": name, "samples": double.shape[0], "parameters": double.shape[1]}
            row |= {"raw/centred": ratios[0], "left": ratios[1], "shift": shift}
            d2, _ = direction(other.snapshot.jacobian, other, shift)
            row["noise"] = np.linalg.norm(d - d2) / size
            row["unrefined"] = np.linalg.norm(unrefined(single, seen, shift) - d) / size
            try:
                near, info = direction(single, seen, shift)
                row |= {"change": np.linalg.norm(near - d) / size, "bound": info["rounding"]}
                row["taken"] = True
            except PrecisionError as error:
                near, _ = direction(widened(single), seen, shift)
                row |= {"change": np.linalg.norm(near - d) / size, "bound": error.change}
                row["taken"] = False
            found.append(row)
    return found


def run(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Energies of a short run in both precisions."""
    energies = {}
    for precision in ("double", "single"):
        operator, ansatz = CASES[name]()
        sampler = Sampler(n_walkers=128, n_samples=options.samples, n_burn=2)
        rule = SR(1e-2, precision=precision, space="samples")  # type: ignore[arg-type]
        vmc = VMC(operator, ansatz, sampler, rule, learning_rate=0.1, seed=options.seed)
        records = vmc.run(options.steps)
        energies[precision] = np.array([(r.energy, r.energy_error) for r in records])
        used = sum(r.optimizer.get("log_derivatives") == "single" for r in records)
    a, b = energies["double"], energies["single"]
    sigmas = abs(a[:, 0] - b[:, 0]) / a[:, 1]
    return {"case": name, "single": used, "first": sigmas[:3].tolist(), "largest": sigmas.max()}


def main() -> None:
    """Print the tables, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--shifts", nargs="+", type=float, default=SHIFTS)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tables: dict[str, list[dict[str, Any]]] = {"directions": [], "runs": []}
    print(
        "case                  M      P  raw/centred  left    shift   change  unrefined    bound  d'        noise"
    )
    for name in options.cases:
        for row in rows(name, options):
            tables["directions"].append(row)
            print(
                f"{name:20s} {row['samples']:5d} {row['parameters']:6d} {row['raw/centred']:8.2f} "
                f"{row['left']:9.2f} {row['shift']:8.0e} {row['change']:8.1e} {row['unrefined']:10.1e} "
                f"{row['bound']:8.1e} {'taken' if row['taken'] else 'refused':8s} {row['noise']:6.2f}",
                flush=True,
            )
    print("case                  steps in single   sigmas of the first three   largest")
    for name in options.cases:
        found = run(name, options)
        tables["runs"].append(found)
        shown = "  ".join(f"{x:.1e}" for x in found["first"])
        print(
            f"{name:20s} {found['single']:10d}       {shown}    {found['largest']:.2g}", flush=True
        )
    if options.json:
        options.json.write_text(json.dumps(tables, indent=1) + "\n")


if __name__ == "__main__":
    main()
