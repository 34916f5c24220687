"""A result as a row of the public leaderboard of many-body energies (``tnvmc report --row``).

Names of fields and of instances: its files (tzerweck/quantum-many-body-leaderboard, data/).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tnvmc.ansatz.peps.starts.initial import KINDS
from tnvmc.report.page import ReportError
from tnvmc.shown import sentence
from tnvmc.storage.run_files import Run, own_parts
from tnvmc.trust.finished_run import diagnostics_of, final_D

_MODELS = {
    "heisenberg": ("Heisenberg", "J", 4.0, None), "j1j2": ("J1J2", "J1", 4.0, "J2"),
    "tfim": ("TFIsing", "J", 1.0, "h"),
}  # fmt: skip
"""Their name, the coupling that is the unit of energy, Pauli units over ours, and the parameter."""

_STARTS = (*KINDS, "auto", "factors")


def leaderboard_row(run: Run) -> dict[str, Any]:
    """Give the row of a finished run: totals in Pauli matrices, in units of the first coupling.

    Raises:
        ReportError: no such model or lattice there, or a warning or an error of the measurement.
    """
    result, where = run.result, run.path
    if result is None or None in (result.get("energy"), result.get("variance")):
        raise ReportError(f"{where}: no finite energy was measured; finish the run first")
    for found in diagnostics_of(result):
        if found.status in ("warning", "error") or found.code == "lower_with_other_characters":
            raise ReportError(f"{where}: no row ({found.code}): {sentence(found)}")
    config, couplings = run.config, dict(run.config["hamiltonian"])
    sector, odd = abs(result.get("magnetisation") or 0), result["n_sites"] % 2
    signs = [(config.get(each) or {}).get("characters") or {} for each in ("ansatz", "measure")]
    if {"lattice", "hamiltonian", "orthogonal_to"} & {*own_parts(config)}:
        raise ReportError(
            f"{where}: no row: its Hamiltonian or level is made in Python, not in a file"
        )
    of_level = config.get("orthogonal") or any(-1 in each.values() for each in signs)
    if sector > odd or of_level or config["optimizer"].get("kind") == "time":
        told = "a row is of the ground state, not of a time or of what may be another level"
        raise ReportError(f"{where}: no row: {told}")
    name, key, pauli, parameter = _MODELS.get(couplings["model"], ("", "", 0.0, None))
    used: list[Any] = [couplings.get(each) for each in (key, parameter) if each]
    if not name or any(np.ndim(each) for each in used) or not used[0] > 0:
        told = f"heisenberg, j1j2 and tfim with one positive {key or 'J'} have a row"
        raise ReportError(f"{where}: no row for this {couplings['model']}: {told}")
    unit, sampled = pauli / used[0], config["sampler"]["kind"]
    seconds, threads, state = result["wall_time_s"], config["run"].get("threads"), config["ansatz"]
    compute = {
        "parameters": result["n_parameters"], "device": config["run"].get("device", "cpu"),
        "samples": result["n_samples"], "bond_dimension": final_D(result),
    }  # fmt: skip
    if state.get("init", "auto") in _STARTS:  # not the steps of another run
        compute |= {"wall_clock": f"{seconds:.0f} s", "iterations": result["steps"]}
        compute["cpu_core_hours"] = threads and seconds * threads / 3600
    _require_lattice(run)
    lattice = lattice_name(config["lattice"], result["n_sites"])
    return {
        "instance_id": f"{name}/{lattice}" + (f"_{used[1] / used[0]:g}" if parameter else ""),
        "energy": unit * result["energy"], "units": "Pauli, total",
        "sigma": unit * result["energy_error"],
        "sigma_method": "none: every configuration" if sampled == "enumerate" else
        "scatter of the means of the chains" if sampled == "metropolis" else "independent draws",
        "energy_variance": unit**2 * result["variance"], "dof": result["n_sites"], "einf": 0,
        "method": f"{state.get('module') or state['kind']}, VMC, tnvmc {result['version']}"
        + ("" if result.get("magnetisation") is None else f", 2 Sz = {sector}"),
        "bound_type": "variational", "reference": None,
        "compute": {key: each for key, each in compute.items() if each is not None},
    }  # fmt: skip


def _require_lattice(run: Run) -> None:
    """Raise ReportError for a lattice that they have no instances on."""
    about = run.config["lattice"]
    kind, boundary = about["kind"], about.get("boundary", "open")
    odd = any(n % 2 for n in np.ravel(about["shape"]))
    # Their Ising model has + ZZ, which is the same where no ring is of odd length.
    frustrated = kind not in ("chain", "square") or (odd and boundary != "open")
    known = kind in ("chain", "square", "triangular") or (kind == "kagome" and not odd)
    ising = run.config["hamiltonian"]["model"] == "tfim"
    if not known or (ising and frustrated) or about.get("vacant"):
        raise ReportError(f"{run.path}: no row for {kind} of this shape, boundary and model")


def lattice_name(lattice: Mapping[str, Any], n_sites: int) -> str:
    """Name one as they and VarBench do: square_36_O, rectangular-4x6_24_P, rectangular-4x8_32_PO.

    Of a cylinder the letters are those of the directions, the shorter one first.
    """
    kind, boundary = lattice.get("kind", "square"), lattice.get("boundary", "open")
    shape = np.ravel(lattice["shape"]).tolist()
    ends = boundary[0].upper()
    if boundary == "cylinder":
        ends = "PO" if shape[1] <= shape[0] else "OP"
    if len(set(shape)) > 1 or kind == "kagome":  # of which unit cells are counted
        size = "x".join(str(n // 2 if kind == "kagome" else n) for n in sorted(shape))
        kind = f"rectangular-{size}" if kind == "square" else f"{kind}-{size}"
    return f"{kind}_{n_sites}_{ends}"
