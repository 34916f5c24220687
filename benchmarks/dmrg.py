"""The ground state of a file's Hamiltonian by two-site DMRG (TeNPy), to stand beside a run.

    python benchmarks/dmrg.py scripts/triangular_6x6.toml --chi 250 500 1000 [--magnetisation 2]

Takes terms on one and two sites, on any lattice, along a snake through the grid.  A Hamiltonian
that conserves the magnetisation is solved in one sector, 2 Sz, with tensors of charged blocks.
Each chi begins with the state of the one before.  Energies at finite chi are upper bounds.  The
last column extrapolates the last two linearly in the largest weight that a bond loses in the last
sweep; its error is half of the distance to the last energy.  With `--state FILE` the state is kept
after each chi, and a run goes on from the one that it finds there.

TeNPy: Hauschild, Pollmann, SciPost Phys. Lect. Notes 5 (2018); `pip install '.[reference]'`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tenpy
from tenpy.algorithms.dmrg import TwoSiteDMRGEngine
from tenpy.linalg import np_conserved as npc
from tenpy.models.lattice import TrivialLattice
from tenpy.models.model import MPOModel
from tenpy.networks.mpo import MPO, MPOGraph
from tenpy.networks.mps import MPS
from tenpy.networks.site import Site
from tenpy.networks.terms import TermList
from tenpy.tools import hdf5_io

from tnvmc import Operator
from tnvmc.lattice import Lattice
from tnvmc.settings.config import build_operator
from tnvmc.settings.defaults import load

ROUNDING = 1e-13
"""Singular values below this part of the largest matrix element are 0."""

MIXER = {"amplitude": 1e-4, "decay": 2.0, "disable_after": 8}
"""Noise in the density matrix of the first chi, which brings in blocks that the start has not."""

HEAD = (
    f"{'chi':>5} {'energy':>15} {'per site':>13} {'truncated':>10} {'sweeps':>6} {'seconds':>8} "
    f"{'extrapolated':>15} {'error':>8}"
)


def snake(lattice: Lattice) -> list[int]:
    """Sites in the order of the chain: forth and back along the shorter side of the grid."""
    n_rows, n_cols = lattice.shape

    def position(site: int) -> tuple[int, int]:
        row, column = divmod(lattice.places[site], n_cols)
        line, along = (row, column) if n_cols <= n_rows else (column, row)
        return line, along if line % 2 == 0 else -along

    return sorted(range(lattice.n_sites), key=position)


def separated(matrix: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Write a matrix on two sites as A x 1 + 1 x B + C, where both partial traces of C are 0."""
    legs, one = matrix.reshape(d, d, d, d), np.eye(d)
    first = np.einsum("abcb->ac", legs) / d
    second = np.einsum("abac->bc", legs) / d - np.trace(matrix) / d**2 * one
    return first, second, matrix - np.kron(first, one) - np.kron(one, second)


def products(
    matrix: np.ndarray, d: int, charged: bool
) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """Give the singular values of a matrix on two sites, and both factors of each.

    Where the magnetisation is conserved (`charged`) a factor raises the local state by one number.
    The largest elements of factors are 1, so that bonds of a kind share theirs.
    """
    table = matrix.reshape(d, d, d, d).transpose(0, 2, 1, 3).reshape(d * d, d * d)
    raised = np.subtract.outer(np.arange(d), np.arange(d)).reshape(-1) * charged
    for number in np.unique(raised):
        u, s, v = np.linalg.svd(table * (raised == number)[:, None], full_matrices=False)
        for k in np.flatnonzero(s > ROUNDING * np.abs(matrix).max()):
            left, right = u[:, k], s[k] * v[k]
            scale = left[np.abs(left).argmax()]
            left, right = left / scale, right * scale
            strength = float(np.abs(right).max())
            yield strength, left.reshape(d, d), right.reshape(d, d) / strength


def as_mpo(operator: Operator) -> MPO:
    """Translate an operator to TeNPy, along the snake.

    Local state a of a site is TeNPy's state a, with charge a where the magnetisation is conserved.
    Bond dimension: 2, and one for each factor at a site whose partners are still to come.

    Raises:
        ValueError: terms on more than two sites.
    """
    d, charged = operator.local_dim, operator.conserves_magnetisation
    places = {site: place for place, site in enumerate(snake(operator.lattice))}
    names: dict[bytes, str] = {}
    leg = npc.LegCharge.from_trivial(d)
    if charged:
        leg = npc.LegCharge.from_qflat(npc.ChargeInfo([1], ["sum"]), [[a] for a in range(d)])
    site = Site(leg)

    def name(matrix: np.ndarray) -> str:
        key = (np.round(matrix, 12) + 0.0).astype(complex).tobytes()
        if key not in names:
            names[key] = f"factor{len(names)}"
            site.add_op(names[key], matrix, need_JW=False)
        return names[key]

    terms = TermList([], [])
    for patch, matrix in operator.matrices.items():
        if len(patch) > 2:
            raise ValueError(
                f"{operator.name}: a term on the sites {patch}. This script translates terms on one and two"
            )
        alone = [matrix] if len(patch) == 1 else separated(matrix, d)[:2]
        for where, part in zip(patch, alone, strict=True):
            if np.any(part):
                terms += TermList([[(name(part), places[where])]], [1.0])
        if len(patch) == 2:
            for strength, *pair in products(separated(matrix, d)[2], d, charged):
                placed = [(name(part), places[where]) for where, part in zip(patch, pair)]
                terms += TermList([sorted(placed, key=lambda each: each[1])], [strength])
    sites = [site] * operator.n_sites
    graph = MPOGraph.from_term_list(terms, sites, "finite", unit_cell_width=operator.n_sites)
    return graph.build_MPO()


def total_of(operator: Operator, magnetisation: int | None) -> int:
    """Give the sum of the local states in a sector, N (d - 1) / 2 - Sz; of the smallest, if none is named."""
    highest = operator.n_sites * (operator.local_dim - 1)
    if magnetisation is None:
        return highest // 2
    if (highest - magnetisation) % 2 or abs(magnetisation) > highest:
        raise SystemExit(
            f"2 Sz = {magnetisation}: {operator.n_sites} sites have {highest}, {highest - 2}, ..."
        )
    if not operator.conserves_magnetisation:
        raise SystemExit(f"{operator.name} does not conserve the magnetisation: it has no sectors")
    return (highest - magnetisation) // 2


def product_state(operator: Operator, mpo: MPO, magnetisation: int | None) -> MPS:
    """Give a product state of the sector, its spins spread evenly along the snake."""
    n, total = operator.n_sites, total_of(operator, magnetisation)
    state = [(place + 1) * total // n - place * total // n for place in range(n)]
    dtype = complex if operator.is_complex else float
    return MPS.from_product_state(mpo.sites, state, dtype=dtype, unit_cell_width=n)


def optimised(model: MPOModel, psi: MPS, chi: int, first: bool, sweeps: int) -> dict[str, Any]:
    """Sweep until the energy of a sweep changes by less than 1e-8 of it; psi is changed in place."""
    began = time.process_time()
    engine = TwoSiteDMRGEngine(
        psi,
        model,
        {
            "mixer": first,
            "mixer_params": MIXER,
            "trunc_params": {"chi_max": chi, "svd_min": 1e-10},
            "N_sweeps_check": 1,
            "min_sweeps": MIXER["disable_after"] + 2 if first else 2,
            "max_sweeps": sweeps,
            "max_E_err": 1e-8,
            "max_S_err": 1e-2,
            "max_trunc_err": 1.0,
            "max_N_sites_per_ring": psi.L,
        },
    )
    engine.run()
    stats = engine.sweep_stats
    return {
        "chi": max(psi.chi),
        "energy": float(np.real(model.H_MPO.expectation_value(psi))),
        "truncated": float(stats["max_trunc_err"][-1]),
        "sweeps": int(stats["sweep"][-1]),
        "seconds": time.process_time() - began,
    }


def extrapolated(points: list[dict[str, Any]]) -> dict[str, float]:
    """Continue the line through the last two points to truncated weight 0; nothing of one point."""
    if len(points) < 2 or points[-2]["truncated"] <= points[-1]["truncated"]:
        return {}
    (x, y), (last_x, last_y) = ((p["truncated"], p["energy"]) for p in points[-2:])
    energy = last_y + (last_y - y) / (x - last_x) * last_x
    return {"extrapolated": energy, "extrapolated_error": abs(last_y - energy) / 2}


def line(point: dict[str, Any], n_sites: int) -> str:
    """Write a row of the table."""
    told = (
        f"{point['chi']:>5} {point['energy']:>15.9f} {point['energy'] / n_sites:>13.9f} "
        f"{point['truncated']:>10.1e} {point['sweeps']:>6} {point['seconds']:>8.1f}"
    )
    if "extrapolated" in point:
        told += f" {point['extrapolated']:>15.9f} {point['extrapolated_error']:>8.1e}"
    return told


def solve(operator: Operator, options: argparse.Namespace) -> dict[str, Any]:
    """Run all chi, print and write each when it is done; gives what stands in the file."""
    mpo = as_mpo(operator)
    model = MPOModel(TrivialLattice(mpo.sites), mpo)
    name = options.file.stem
    if options.magnetisation is not None:
        name += f", 2 Sz = {options.magnetisation}"
    psi, points = product_state(operator, mpo, options.magnetisation), []
    if options.state is not None and options.state.exists():
        psi, points = hdf5_io.load(options.state), stored(options.json)[name]["points"]
    found = {
        "n_sites": operator.n_sites, "mpo": max(mpo.chi), "tenpy": tenpy.__version__, "points": points,
    }  # fmt: skip
    print(HEAD, flush=True)
    for chi in options.chi:
        points.append(optimised(model, psi, chi, not points, options.sweeps))
        points[-1] |= extrapolated(points)
        print(line(points[-1], operator.n_sites), flush=True)
        options.json.write_text(json.dumps(stored(options.json) | {name: found}, indent=1) + "\n")
        if options.state is not None:
            hdf5_io.save(psi, options.state)
    return found


def stored(path: Path) -> dict[str, Any]:
    """Read what earlier runs found."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "file", type=Path, help="settings of a run, of which the lattice and the Hamiltonian count"
    )
    parser.add_argument("--chi", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--magnetisation", type=int, help="2 Sz; 0 or 1 if left out")
    parser.add_argument("--sweeps", type=int, default=30, help="at each chi, at most")
    parser.add_argument("--state", type=Path, help="where the state is kept (HDF5)")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/dmrg.json"))
    options = parser.parse_args()
    solve(build_operator(load(options.file)), options)


if __name__ == "__main__":
    main()
