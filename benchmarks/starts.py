"""Do default runs end at the ground state, whatever the lattice and the sector?

    python benchmarks/starts.py [--only NAME ...] [--json FILE]

Runs of 100 steps with default settings and D = 3 on small systems whose exact energies are known:
triangles in a row (tensors cannot lie along the bonds that join them), kagome in several sectors,
frustrated magnets, random bonds, lists of bonds with dangling sites.  Prints the start that was
chosen, the relative error of the measured energy, what was warned of, and what choosing cost in
steps; writes benchmarks/results/starts.json.  15 minutes on one core.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tnvmc import exact_ground_state, square
from tnvmc.app.stages import StagedRun
from tnvmc.settings.config import build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate
from tnvmc.trust.energies import judged
from tnvmc.vmc.measurement import MeasurementPlan, measure

RESULT = Path(__file__).parent / "results" / "starts.json"
NEAR = 1e-2  # relative error up to which an energy is right

Json = dict[str, Any]
HEISENBERG: Json = {"model": "heisenberg"}


def triangles(number: int, shape: list[int]) -> Json:
    """Triangles in a row, each joined to the next by one bond."""
    within = [[3 * k + a, 3 * k + b] for k in range(number) for a, b in ((0, 1), (1, 2), (0, 2))]
    between = [[3 * k + 2, 3 * k + 3] for k in range(number - 1)]
    return {"kind": "bonds", "shape": shape, "bonds": within + between}


def comb(length: int) -> Json:
    """A chain with a dangling site below each of its sites."""
    chain = [[i, i + 1] for i in range(length - 1)]
    teeth = [[i, length + i] for i in range(length)]
    return {"kind": "bonds", "shape": [2, length], "bonds": chain + teeth}


def ring_with_ends() -> Json:
    """A ring of eight sites, four sites that hang from it, and one far bond."""
    ring = [[0, 1], [1, 2], [2, 3], [3, 7], [7, 6], [6, 5], [5, 4], [4, 0]]
    ends = [[4, 8], [5, 9], [6, 10], [7, 11], [0, 11]]
    return {"kind": "bonds", "shape": [3, 4], "bonds": ring + ends}


def systems() -> dict[str, tuple[Json, Json, int | None]]:
    """[lattice], [hamiltonian] and the sector, by name."""
    n_bonds = len(square(4, 4).bonds["nearest"])
    couplings = [round(float(J), 3) for J in np.random.default_rng(7).normal(size=n_bonds)]
    dimers = {"kind": "shastry_sutherland", "shape": [4, 4]}
    found: dict[str, tuple[Json, Json, int | None]] = {
        "triangles 4, 2Sz 8": (triangles(4, [4, 3]), HEISENBERG, 8),
        "triangles 8, 2Sz 12": (triangles(8, [8, 3]), HEISENBERG, 12),
        "triangles 8 on 3x8, 2Sz 12": (triangles(8, [3, 8]), HEISENBERG, 12),
        "triangles 8, 2Sz 0": (triangles(8, [8, 3]), HEISENBERG, 0),
        "triangular 3x4": ({"kind": "triangular", "shape": [3, 4]}, HEISENBERG, 0),
        "triangular 3x4, 2Sz 4": ({"kind": "triangular", "shape": [3, 4]}, HEISENBERG, 4),
        "honeycomb 4x4": ({"kind": "honeycomb", "shape": [4, 4]}, HEISENBERG, 0),
        "Shastry-Sutherland 0.675": (dimers, {"model": "shastry_sutherland", "J": 0.675}, 0),
        "J1-J2 0.55 4x4": ({"shape": [4, 4]}, {"model": "j1j2", "J2": 0.55}, 0),
        "random bonds 4x4": ({"shape": [4, 4]}, {"model": "heisenberg", "J": couplings}, 0),
        "comb 12": (comb(6), HEISENBERG, 0),
        "comb 12, 2Sz 6": (comb(6), HEISENBERG, 6),
        "ring with ends 12": (ring_with_ends(), HEISENBERG, 0),
        "square 4x4, 2Sz 8": ({"shape": [4, 4]}, HEISENBERG, 8),
        "Ising 4x4, h 3": ({"shape": [4, 4]}, {"model": "tfim", "h": 3.0}, None),
        "XXZ 4x4, Jz 2": ({"shape": [4, 4]}, {"model": "xxz", "Jz": 2.0}, 0),
    }
    for rows, columns, sectors in ((4, 4, range(0, 12, 2)), (4, 6, range(0, 18, 2))):
        lattice = {"kind": "kagome", "shape": [rows, columns]}
        n_sites = 3 * rows * columns // 4
        for sector in sectors:
            found[f"kagome {n_sites}, 2Sz {sector}"] = (lattice, HEISENBERG, sector)
    return found


def row(lattice: Json, hamiltonian: Json, sector: int | None) -> Json:
    """Run a system with default settings."""
    given = {
        "lattice": lattice, "hamiltonian": hamiltonian, "ansatz": {"D": 3},
        "sampler": {} if sector is None else {"magnetisation": sector}, "run": {"threads": 1},
    }  # fmt: skip
    settings = complete(validate(given))
    operator = build_operator(settings)
    StagedRun(settings, operator).vmc.step()  # compiles
    run = StagedRun(settings, operator)
    began = process_time()
    run.vmc.choose_start()
    of_starts = process_time() - began
    began, records = process_time(), []
    run.optimise(records.append)
    of_steps = process_time() - began
    plan = MeasurementPlan(settings.measure.n_samples)
    found = judged(measure(run.vmc.method, run.vmc.state, plan), ()).measurement
    exact = exact_ground_state(operator, "auto" if sector is None else sector).energy
    told = next(d for d in records[0].diagnostics if d.code == "starts_tried")
    return {
        "start": told.values["start"],
        "tried": told.values["tried"],
        "exact_per_site": exact / operator.n_sites,
        "energy_per_site": found.energy_per_site,
        "relative_error": (found.energy - exact) / abs(exact),
        "error": found.energy_error / abs(exact),
        "warnings": [d.code for d in found.diagnostics if d.status in ("warning", "error")],
        "steps_of_starts": of_starts / (of_steps / len(records)),
        "steps": len(records),
    }


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    rows = {}
    print(f"{'system':<28}{'exact/site':>11}{'rel. error':>22}  {'steps':>5}  start, warnings")
    with threadpool_limits(1):
        for name, system in systems().items():
            if options.only and name not in options.only:
                continue
            rows[name] = found = row(*system)
            wrong = found["relative_error"] > NEAR
            verdict = "" if not wrong else " WARNED" if found["warnings"] else " SILENT"
            print(
                f"{name:<28}{found['exact_per_site']:>11.6f}{found['relative_error']:>12.1e} +- "
                f"{found['error']:.1e}  {found['steps_of_starts']:>5.1f}  {found['start']}"
                f"{verdict} {' '.join(found['warnings'])}",
                flush=True,
            )
    options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
