"""A result as a row of VarBench, the public table of variational energies.

The dataset (https://github.com/varbench/varbench; Wu et al., Science 386, 296 (2024)) holds one
Markdown file per Hamiltonian with the columns Energy, Sigma, Energy Variance, DOF, Einf, Method,
Reference: totals in Pauli matrices, with the first coupling as the unit of energy.

    python benchmarks/varbench.py RUNDIR [RUNDIR ...]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tnvmc.ansatz.neural import NETWORKS
from tnvmc.report.leaderboard import lattice_name
from tnvmc.storage.run_files import own_parts, read_run
from tnvmc.trust.finished_run import final_D


class NotInVarBench(ValueError):
    """A result that the dataset has no table for."""


class _Model(NamedTuple):
    """How a model of ours is written there."""

    folder: str
    unit: str  #: the coupling that is the unit of energy
    pauli: float  #: sigma.sigma = 4 S.S
    parameter: str | None = None  #: the coupling that names the file


_MODELS = {
    "heisenberg": _Model("Heisenberg", "J", 4.0),
    "xxz": _Model("Heisenberg", "J", 4.0),
    "j1j2": _Model("J1J2", "J1", 4.0, "J2"),
    "tfim": _Model("TFIsing", "J", 1.0, "h"),
}


def varbench_row(result: Mapping[str, Any]) -> str:
    """Write the content of result.json as a Markdown table of one row, under its file's name.

    Energies in S.S units become totals of sigma.sigma (times 4, variances times 16), energies of
    the transverse-field Ising model stay; both are divided by the first coupling.  Einf is 0: all
    these Hamiltonians are traceless.  The sign of the dataset's Ising model differs from ours, the
    spectrum on these lattices does not (periodic ones of odd length apart).  Raises `NotInVarBench`
    for what it has no table for, and for an energy that is not finite.
    """
    model, couplings = _model(result)
    unit = model.pauli / couplings[model.unit]
    if result["energy"] is None or result["variance"] is None:
        raise NotInVarBench("VarBench: the measured energy is not finite")
    energy = unit * result["energy"]
    sigma = unit * (result["energy_error"] or 0.0)
    digits = f"{energy:.10g}"
    if sigma:
        digits = f"{energy:.{max(0, 2 - math.floor(math.log10(sigma)))}f}"
    row = {
        "Energy": digits,
        "Sigma": f"{sigma:.2g}" if sigma else "",
        "Energy Variance": f"{unit**2 * result['variance']:.5g}",
        "DOF": str(result["n_sites"]),
        "Einf": "0",
        "Method": _method(result),
        "Reference": "",
    }
    widths = [max(map(len, column)) for column in row.items()]
    lines = [row.keys(), ["-" * width for width in widths], row.values()]
    table = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines]
    lattice = result["config"]["lattice"]
    if lattice.get("kind", "square") in ("chain", "square", "triangular"):
        name = lattice_name(lattice, result["n_sites"])
        if model.parameter is not None:
            name += f"_{couplings[model.parameter] / couplings[model.unit]:g}"
        table = [f"{model.folder}/{name}.md", "", *table]
    return "\n".join(table)


def _model(result: Mapping[str, Any]) -> tuple[_Model, dict[str, float]]:
    """Find the model of a result and its couplings, or complain."""
    couplings, lattice = dict(result["config"]["hamiltonian"]), result["config"]["lattice"]
    name = couplings.pop("model")
    model, why = _MODELS.get(name), ""
    lengths = np.ravel(lattice["shape"]).tolist()
    rings = {"open": [], "cylinder": lengths[-1:]}.get(lattice.get("boundary", "open"), lengths)
    if {"lattice", "hamiltonian", "orthogonal_to"} & {*own_parts(result["config"])}:
        why = "has no table for a Hamiltonian or a level that is made in Python"
    elif model is None:
        why = f"has no table for the model '{name}': of ours it holds heisenberg, j1j2 and tfim"
    elif varying := [key for key, value in couplings.items() if np.ndim(value)]:
        why = f"has uniform couplings only; {varying[0]} is a list here"
    elif name == "xxz" and couplings["Jz"] != couplings["J"]:
        why = (
            f"has no XXZ model; with J = {couplings['J']} and Jz = {couplings['Jz']} this is not "
            "the Heisenberg model either"
        )
    elif couplings[model.unit] <= 0:
        why = f"measures energies in {model.unit} > 0; it is {couplings[model.unit]} here"
    elif name == "tfim" and any(length % 2 and length > 2 for length in rings):
        why = (
            "has antiferromagnetic couplings, which on a periodic lattice of odd length is another "
            "model than our ferromagnetic one"
        )
    if model is None or why:
        raise NotInVarBench(f"VarBench {why}")
    return model, couplings


def _method(result: Mapping[str, Any]) -> str:
    config = result["config"]
    ansatz, kind = config["ansatz"], config["ansatz"]["kind"]
    parts = {
        "D = ": final_D(result),
        "chi = ": result["chi"],
        "symmetrised: ": ", ".join(
            config.get("measure", {}).get("symmetrise") or ansatz.get("symmetrise") or ()
        ),
    }
    details = [f"{what}{value}" for what, value in parts.items() if value]
    details += [f"{name}: {chi:+d}" for name, chi in (ansatz.get("characters") or {}).items()]
    name = kind.upper() if kind in ("peps", "mps") else kind.replace("_", " ").replace("mps", "MPS")
    if kind in NETWORKS:
        name = NETWORKS[kind].name
    inside = f" ({', '.join(details)})" if details else ""
    return f"{name}{inside}, VMC, tnvmc {result['version']}"


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        run = read_run(Path(folder))
        print(run.result and varbench_row(dict(run.result)) or f"{folder}: no result", end="\n\n")
