"""Ground-state energies that are known, with their sources."""

import itertools
import math
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from tnvmc.backend.arguments import whole
from tnvmc.lattice import grids
from tnvmc.lattice.lattice import Lattice
from tnvmc.operators import models
from tnvmc.operators.basis import smallest_magnetisation
from tnvmc.operators.properties import fingerprint
from tnvmc.operators.term import Operator, require_operator

Method = Literal["exact", "QMC", "extrapolated", "variational"]


@dataclass(frozen=True)
class KnownEnergy:
    """A published or exactly computable ground-state energy.

    `error` is one standard deviation (or the last digit given), None where none is known.  Only
    "exact" and "QMC" numbers stand for the ground state; a "variational" one is an upper bound, an
    "extrapolated" one an estimate.
    """

    energy_total: float
    error: float | None
    source: str
    method: Method = "exact"


def known_energy(operator: Operator, magnetisation: int | None = None) -> KnownEnergy | None:
    """Look up the lowest energy of a model with uniform couplings in a sector (2 Sz), or give None.

    Without a sector that of the smallest Sz; ValueError for one that there is not.

    Found by model, lattice shape, boundary and ratios of couplings: J1-J2 without J2 and XXZ
    with Jz = J count as Heisenberg, and a common positive factor scales the energy.  Free fermions
    (TFIM chains of any length) and dimer singlets (Shastry-Sutherland) by formula, the others from
    `known_energies.toml`.  Not found are sums and multiples of operators, which carry no couplings,
    and lattices with vacant places.
    """
    require_operator("known_energy", "operator", operator)
    if magnetisation is not None:
        magnetisation = whole("known_energy", "magnetisation", magnetisation, None)
    operator.states(magnetisation)  # ValueError
    smallest = smallest_magnetisation(operator.n_sites, operator.local_dim)
    sector = abs(magnetisation or 0) if abs(magnetisation or 0) > smallest else 0
    found = _of_name(operator, sector)
    return found if found is not None and _is_model(operator) else None


def _of_name(operator: Operator, sector: int) -> KnownEnergy | None:
    """Look up the energy of the model and the grid that names, couplings and shape tell."""
    given, lattice = dict[str, Any](operator.couplings or {}), operator.lattice
    if not given or any(map(np.ndim, given.values())) or lattice.vacant:
        return None
    model, couplings = _canonical(operator.name, given)
    scale = next(iter(couplings.values()), 0.0)
    if scale <= 0:
        return None
    ratios = tuple(value / scale for value in couplings.values())[1:]
    if model == "tfim" and lattice.kind == "chain" and couplings["h"]:
        return _tfim_chain(lattice.n_sites, lattice.boundary == "periodic", **couplings)
    if model == "shastry_sutherland":
        return None if sector else _dimer_singlets(lattice, **couplings)
    place = model, lattice.kind, lattice.boundary, sector
    turned = [] if lattice.boundary == "cylinder" else [(lattice.n_cols, lattice.n_rows)]
    tables = (each for each in published() if each.place == place)
    for table, (n_rows, n_cols) in itertools.product(tables, [lattice.shape, *turned]):
        found = table.energies.get(f"{n_rows}x{n_cols}")
        if found and np.allclose(table.ratios, ratios, rtol=1e-9, atol=0):
            unit = scale * (lattice.n_sites if table.unit == "per site" else 1)
            error = unit * found[1] if len(found) > 1 else None
            return KnownEnergy(unit * found[0], error, table.source, table.method)
    return None


def _is_model(operator: Operator) -> bool:
    """Whether it is the model of its name on the grid of its kind: bonds or terms may differ."""
    lattice, build = operator.lattice, getattr(models, operator.name)
    lengths = (lattice.n_sites,) if lattice.kind == "chain" else lattice.shape
    same = getattr(grids, lattice.kind)(*lengths, boundary=lattice.boundary)
    try:
        with warnings.catch_warnings(action="ignore"):
            plain = build(same, **(operator.couplings or {}))
    except (TypeError, ValueError):  # couplings of another model
        return False
    return lattice == same and fingerprint(plain) == fingerprint(operator)


@dataclass(frozen=True)
class Published:
    """A table of `known_energies.toml`, where its fields are explained."""

    model: str
    ratios: tuple[float, ...]
    boundary: str
    source: str
    method: Method
    unit: Literal["per site", "total"]
    energies: Mapping[str, Sequence[float]]  #: of "rows x columns": energy, and error where known
    lattice: str = "square"
    magnetisation: int = 0

    @property
    def place(self) -> tuple[str, str, str, int]:
        """What a problem must agree in, its couplings apart."""
        return self.model, self.lattice, self.boundary, self.magnetisation


@cache
def published() -> tuple[Published, ...]:
    """Read the published energies."""
    text = (files(__package__) / "known_energies.toml").read_text(encoding="utf-8")
    return tuple(Published(**table) for table in tomllib.loads(text)["published"])


def _canonical(name: str, couplings: dict[str, float]) -> tuple[str, dict[str, float]]:
    """Write the special cases of other models as what they are."""
    if name == "xxz" and math.isclose(couplings["J"], couplings["Jz"]):
        return "heisenberg", {"J": couplings["J"]}
    if name == "j1j2" and couplings["J2"] == 0:
        return "heisenberg", {"J": couplings["J1"]}
    return name, couplings


def _tfim_chain(n_sites: int, periodic: bool, J: float, h: float) -> KnownEnergy | None:
    """Free fermions: Pfeuty, Ann. Phys. 57, 79 (1970)."""
    h = abs(h)  # half turns about z change its sign; the momenta below are those of h > 0
    source = "free fermions (Pfeuty, Ann. Phys. 57, 79, 1970)"
    if periodic and n_sites < 3:
        return None  # no closing bond on two sites
    if periodic:
        k = (2 * np.arange(n_sites) + 1) * np.pi / n_sites
        modes = np.sqrt(J**2 + h**2 - 2 * J * h * np.cos(k))
    else:
        modes = np.linalg.svd(h * np.eye(n_sites) + J * np.eye(n_sites, k=1), compute_uv=False)
    energy = -float(modes.sum())
    return KnownEnergy(energy, abs(energy) * 1e-14, source)


def _dimer_singlets(lattice: Lattice, J: float, J_dimer: float) -> KnownEnergy | None:
    """All dimers in singlets, where every site has a dimer: an eigenstate for any J.

    It is the ground state for J <= J' / 2, as of each triangle of two J and half a J'.  Beyond that
    the infinite lattice has it up to 0.675, smaller ones not as far, and its energy is a bound.
    """
    complete = lattice.kind == "shastry_sutherland" and lattice.boundary == "periodic"
    if not complete or J < 0 or J >= 0.675 * J_dimer:
        return None
    source = "product of dimer singlets (Shastry, Sutherland, Physica B+C 108, 1069, 1981)"
    energy = -0.375 * J_dimer * lattice.n_sites
    method: Method = "exact" if 2 * J <= J_dimer else "variational"
    return KnownEnergy(energy, abs(energy) * 1e-14, source, method)
