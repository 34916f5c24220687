"""A result as a row of VarBench, the public table of variational energies.

The dataset (https://github.com/varbench/varbench; Wu et al., Science 386, 296 (2024)) holds one
Markdown file per Hamiltonian with the columns Energy, Sigma, Energy Variance, DOF, Einf, Method,
Reference: totals in Pauli matrices, with the first coupling as the unit of energy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tnvmc.analysis.diagnostics import final_D
from tnvmc.ansatz.neural import NETWORKS

COLUMNS = ("Energy", "Sigma", "Energy Variance", "DOF", "Einf", "Method", "Reference")

_DIGITS = 10
"""Significant digits of an energy without error (an enumeration)."""


class NotInVarBench(ValueError):
    """A result that the dataset has no table for."""


@dataclass(frozen=True)
class _Model:
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
    spectrum on these lattices does not (periodic ones of odd length apart).

    Raises:
        NotInVarBench: another model (Rydberg atoms, Shastry-Sutherland), couplings that differ
            from bond to bond, a unit that is not positive, or an energy that is not finite.
    """
    model, couplings = _model(result)
    unit = model.pauli / couplings[model.unit]
    if result["energy"] is None or result["variance"] is None:
        raise NotInVarBench("VarBench: the measured energy is not finite")
    energy = unit * result["energy"]
    sigma = unit * (result["energy_error"] or 0.0)
    row = (
        _rounded(energy, sigma),
        f"{sigma:.2g}" if sigma else "",
        f"{unit**2 * result['variance']:.5g}",
        str(result["n_sites"]),
        "0",
        _method(result),
        "",
    )
    widths = [max(len(name), len(cell)) for name, cell in zip(COLUMNS, row, strict=True)]
    lines = [COLUMNS, tuple("-" * width for width in widths), row]
    table = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines]
    name = _file(result["config"]["lattice"], result["n_sites"])
    if name is None:
        return "\n".join(table)
    tail = "" if model.parameter is None else f"_{_ratio(model, couplings):g}"
    return "\n".join([f"{model.folder}/{name}{tail}.md", "", *table])


def _model(result: Mapping[str, Any]) -> tuple[_Model, dict[str, float]]:
    """Find the model of a result and its couplings, or complain."""
    settings = result["config"]["hamiltonian"]
    name = settings["model"]
    if name not in _MODELS:
        raise NotInVarBench(
            f"VarBench has no table for the model '{name}': of ours it holds heisenberg, j1j2 "
            "and tfim"
        )
    model = _MODELS[name]
    couplings = {key: value for key, value in settings.items() if key != "model"}
    varying = [key for key, value in couplings.items() if isinstance(value, list)]
    if varying:
        raise NotInVarBench(f"VarBench has uniform couplings only; {varying[0]} is a list here")
    if name == "xxz" and couplings["Jz"] != couplings["J"]:
        raise NotInVarBench(
            f"VarBench has no XXZ model; with J = {couplings['J']} and Jz = {couplings['Jz']} "
            "this is not the Heisenberg model either"
        )
    if couplings[model.unit] <= 0:
        raise NotInVarBench(
            f"VarBench measures energies in {model.unit} > 0; it is {couplings[model.unit]} here"
        )
    if name == "tfim" and _frustrating_ring(result["config"]["lattice"]):
        raise NotInVarBench(
            "VarBench has antiferromagnetic couplings, which on a periodic lattice of odd length is "
            "another model than our ferromagnetic one"
        )
    return model, couplings


def _frustrating_ring(lattice: Mapping[str, Any]) -> bool:
    """Tell whether a direction with periodic boundary has an odd number of sites."""
    boundary = lattice.get("boundary", "open")
    shape = lattice["shape"]
    lengths = shape if isinstance(shape, list) else [shape]
    rings = {"open": [], "cylinder": lengths[-1:], "periodic": lengths}[boundary]
    return any(length % 2 and length > 2 for length in rings)


def _ratio(model: _Model, couplings: Mapping[str, float]) -> float:
    assert model.parameter is not None
    return couplings[model.parameter] / couplings[model.unit]


def _rounded(energy: float, sigma: float) -> str:
    """Write an energy with one digit more than two of its error."""
    if not sigma:
        return f"{energy:.{_DIGITS}g}"
    return f"{energy:.{max(0, 2 - math.floor(math.log10(sigma)))}f}"


def _method(result: Mapping[str, Any]) -> str:
    config = result["config"]
    ansatz, chi = config["ansatz"], config.get("measure", {}).get("chi")
    D = final_D(result)
    details = [f"D = {D}" if D else "", f"chi = {chi}" if chi else ""]
    names = config.get("measure", {}).get("symmetrise")
    details.append(f"symmetrised: {', '.join(names)}" if names else "")
    details = [text for text in details if text]
    kind = ansatz["kind"]
    name = kind.upper() if kind in ("peps", "mps") else kind.replace("_", " ").replace("mps", "MPS")
    if kind in NETWORKS:
        name = NETWORKS[kind].name
    inside = f" ({', '.join(details)})" if details else ""
    return f"{name}{inside}, VMC, tnvmc {result['version']}"


def _file(lattice: Mapping[str, Any], n_sites: int) -> str | None:
    """Name the lattice as the dataset does: square_6_OO_36, chain_20_P_20; None where it cannot."""
    boundary, kind = lattice.get("boundary", "open"), lattice.get("kind", "square")
    if kind == "chain":
        return f"chain_{n_sites}_{'P' if boundary == 'periodic' else 'O'}_{n_sites}"
    if kind != "square":
        return None
    rows, columns = lattice["shape"]
    along = {"open": "OO", "cylinder": "OP", "periodic": "PP"}[boundary]
    if rows == columns:
        return f"square_{rows}_{''.join(sorted(along, reverse=True))}_{n_sites}"
    (short, first), (long, second) = sorted(zip((rows, columns), along, strict=True))
    return f"rectangular_{short}x{long}_{first}{second}_{n_sites}"
