"""Ground-state energies that are known, with their sources."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tnvmc.lattice.lattice import Lattice
from tnvmc.operators.required import require_operator
from tnvmc.operators.term import Operator

Method = Literal["exact", "QMC", "extrapolated", "variational"]


@dataclass(frozen=True)
class KnownEnergy:
    """A published or exactly computable ground-state energy.

    `error` is one standard deviation (or the last digit kept) and None where none is known.
    Only "exact" and "QMC" numbers stand for the ground state; a "variational" one is an upper
    bound that a better state may go below, an "extrapolated" one an estimate without a bound.
    """

    energy_total: float
    error: float | None
    source: str
    method: Method = "exact"


def known_energy(operator: Operator, magnetisation: int = 0) -> KnownEnergy | None:
    """Look up the lowest energy of a model with uniform couplings in a sector, or give None.

    Found by model, lattice shape, boundary and ratios of couplings: J1-J2 without J2 and XXZ
    with Jz = J count as Heisenberg, and a common positive factor scales the energy.  Covers free
    fermions (TFIM chains of any length) and dimer singlets (Shastry-Sutherland) by formula, and
    the published numbers in `TABLE`.

    Args:
        operator: as its model made it; sums and multiples carry no couplings and are never found.
        magnetisation: 2 Sz, where the operator conserves it; few energies beyond 0 are known.
    """
    require_operator("known_energy", "operator", operator)
    if operator.couplings is None:
        return None
    model, couplings = _canonical(operator.name, dict(operator.couplings))
    scale = next(iter(couplings.values()), 0.0)
    if scale <= 0:
        return None
    ratios = tuple(value / scale for value in couplings.values())[1:]
    lattice = operator.lattice
    if model == "tfim" and lattice.kind == "chain":
        return _tfim_chain(lattice.n_sites, lattice.boundary == "periodic", **couplings)
    if model == "shastry_sutherland":
        return None if magnetisation else _dimer_singlets(lattice, **couplings)
    for table in TABLE:
        if table.magnetisation != abs(magnetisation) or not _matches(table, model, ratios, lattice):
            continue
        for shape in _shapes(lattice):
            if shape in table.numbers:
                energy, error = table.numbers[shape]
                unit = scale * (lattice.n_sites if table.per_site else 1)
                error = None if error is None else unit * error
                return KnownEnergy(unit * energy, error, table.source, table.method)
    return None


@dataclass(frozen=True)
class Published:
    """Published numbers of one model and boundary, in units of its first coupling."""

    model: str
    ratios: tuple[float, ...]  #: other couplings over the first, in the order of the model
    boundary: str
    source: str
    method: Method
    numbers: Mapping[tuple[int, int], tuple[float, float | None]]  #: shape: (energy, error)
    per_site: bool = True  #: or total
    lattice: str = "square"  #: its kind
    magnetisation: int = 0  #: 2 Sz of the sector


SANDVIK = "Sandvik, arXiv:2601.20189 (2026), QMC"
VARBENCH = "Wu et al. (VarBench), Science 386, 296 (2024)"
DIAGONALISED = "exact diagonalisation"
DMRG = "own DMRG (TeNPy 1.1.1), benchmarks/dmrg.py"
UNNAMED = "reference list of this project, publication not recorded"


TABLE: tuple[Published, ...] = (
    Published(
        "heisenberg",
        (),
        "open",
        DIAGONALISED,
        "exact",
        {
            (2, 2): (-2.0, 1e-12),
            (3, 3): (-4.749327258553, 1e-12),
            (3, 4): (-6.691680193515, 1e-12),
            (4, 4): (-9.189207065192, 1e-12),
            (4, 5): (-11.651570835158, 1e-12),
            (4, 6): (-14.129146864447, 1e-12),
        },
        per_site=False,
    ),
    Published(
        "heisenberg",
        (),
        "open",
        f"{VARBENCH}, square_36_O, total / 4",
        "exact",
        {(6, 6): (-0.6035218345, 1e-10)},
    ),
    Published(
        "heisenberg",
        (),
        "open",
        f"{DMRG}, chi 200 and 400 extrapolated",
        "extrapolated",
        {(6, 6): (-21.43209, 8e-4)},
        per_site=False,
        magnetisation=2,
    ),
    Published(
        "heisenberg",
        (),
        "open",
        f"{VARBENCH}, triangular_N_O, total / 4, best variational state (DMRG, from 14x14 on RNN)",
        "variational",
        {
            (10, 10): (-51.47668275, None),
            (12, 12): (-74.16933175, None),
            (14, 14): (-100.701, 0.019),
            (16, 16): (-132.270, 0.022),
        },
        per_site=False,
        lattice="triangular",
    ),
    Published(
        "heisenberg",
        (),
        "open",
        f"{DMRG}, chi 500 and 1000 extrapolated",
        "extrapolated",
        {(6, 6): (-17.9675, 1.5e-3)},
        per_site=False,
        lattice="triangular",
    ),
    Published(
        "heisenberg",
        (),
        "open",
        SANDVIK,
        "QMC",
        {
            (8, 8): (-0.6190371, 2e-7),
            (10, 10): (-0.6286561, 2e-7),
            (12, 12): (-0.6352007, 2e-7),
            (14, 14): (-0.6399410, 2e-7),
            (16, 16): (-0.6435317, 2e-7),
            (20, 20): (-0.6486091, 4e-7),
            (24, 24): (-0.6520251, 4e-7),
            (32, 32): (-0.6563289, 4e-7),
        },
    ),
    Published(
        "heisenberg",
        (),
        "periodic",
        UNNAMED,
        "QMC",
        {
            (6, 6): (-0.67887215, 1e-8),
            (8, 8): (-0.67349005, 1e-8),
            (10, 10): (-0.67155266, 1e-8),
        },
    ),
    Published(
        "heisenberg",
        (),
        "cylinder",
        DIAGONALISED,
        "exact",
        {(4, 4): (-10.264289620979, 1e-12), (6, 4): (-15.728450971521, 1e-12)},
        per_site=False,
    ),
    Published(
        "heisenberg",
        (),
        "cylinder",
        SANDVIK,
        "QMC",
        {(8, 4): (-21.194178, 1.2e-5)},
        per_site=False,
    ),
    Published(
        "j1j2",
        (0.5,),
        "cylinder",
        DIAGONALISED,
        "exact",
        {(4, 4): (-8.261232563030, 1e-11), (6, 4): (-12.439961500201, 1e-11)},
        per_site=False,
    ),
    Published(
        "j1j2",
        (0.5,),
        "open",
        DIAGONALISED,
        "exact",
        {
            (4, 4): (-7.505556950081, 1e-12),
            (4, 5): (-9.430778775989, 1e-12),
            (4, 6): (-11.385097491941, 1e-12),
        },
        per_site=False,
    ),
    Published(
        "j1j2",
        (0.5,),
        "open",
        f"{DMRG}, chi up to 1000 extrapolated",
        "extrapolated",
        {(6, 6): (-17.2474, 3e-4)},
        per_site=False,
    ),
    Published(
        "j1j2",
        (0.5,),
        "periodic",
        "Schulz, Ziman, Poilblanc, J. Phys. I 6, 675 (1996), exact diagonalisation",
        "exact",
        {(6, 6): (-0.503810, 1e-6)},
    ),
    Published(
        "j1j2",
        (0.5,),
        "periodic",
        DIAGONALISED,
        "exact",
        {(4, 4): (-8.457923351395, 1e-12)},
        per_site=False,
    ),
    Published(
        "j1j2",
        (0.5,),
        "periodic",
        f"{UNNAMED}, variance extrapolation",
        "extrapolated",
        {(8, 8): (-0.49906, None)},
    ),
    Published(
        "j1j2",
        (0.5,),
        "periodic",
        "Chen, Heyl, Nat. Phys. 20, 1476 (2024), neural state",
        "variational",
        {(10, 10): (-0.497715, None)},
    ),
    Published(
        "j1j2",
        (0.55,),
        "open",
        "Liu, Huang, Gong, Gu, Phys. Rev. B 103, 235155 (2021), PEPS D=8",
        "variational",
        {(24, 24): (-0.481989, 1e-6)},
    ),
    Published(
        "j1j2",
        (0.5,),
        "open",
        "Liu, Huang, Gong, Gu, Phys. Rev. B 103, 235155 (2021), DMRG",
        "variational",
        {(8, 28): (-0.489036, None), (28, 8): (-0.489036, None)},
    ),
    Published(
        "tfim",
        (3.0,),
        "open",
        DIAGONALISED,
        "exact",
        {(4, 4): (-50.186623882778, 1e-12)},
        per_site=False,
    ),
    Published(
        "tfim",
        (3.0,),
        "open",
        f"{VARBENCH}, best variational state (RNN, DMRG)",
        "variational",
        {(12, 12): (-457.041866, 2.7e-5), (20, 20): (-1272.788, 8e-3)},
        per_site=False,
    ),
    Published(
        "rydberg",
        (1 / 7, 1 / 7),
        "open",
        DIAGONALISED,
        "exact",
        {(4, 4): (-7.254611338546 / 7, 1e-12 / 7)},
        per_site=False,
    ),
)


def _canonical(name: str, couplings: dict[str, float]) -> tuple[str, dict[str, float]]:
    """Write the special cases of other models as what they are."""
    if name == "xxz" and math.isclose(couplings["J"], couplings["Jz"]):
        return "heisenberg", {"J": couplings["J"]}
    if name == "j1j2" and couplings["J2"] == 0:
        return "heisenberg", {"J": couplings["J1"]}
    return name, couplings


def _shapes(lattice: Lattice) -> tuple[tuple[int, int], ...]:
    """Open and periodic grids may be turned by 90 degrees; a cylinder may not."""
    if lattice.boundary == "cylinder":
        return (lattice.shape,)
    return lattice.shape, (lattice.n_cols, lattice.n_rows)


def _matches(table: Published, model: str, ratios: tuple[float, ...], lattice: Lattice) -> bool:
    return (
        table.model == model
        and lattice.kind == table.lattice
        and table.boundary == lattice.boundary
        and np.allclose(table.ratios, ratios, rtol=1e-9, atol=0)
    )


def _tfim_chain(n_sites: int, periodic: bool, J: float, h: float) -> KnownEnergy | None:
    """Free fermions: Pfeuty, Ann. Phys. 57, 79 (1970).

    Half turns about z change the sign of h, so that its size alone counts; the momenta of the ground
    state are those below for h > 0.
    """
    h = abs(h)
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

    It is the ground state of any lattice for J <= J' / 2, since it is that of each triangle of two J
    and half a J'.  Beyond that the infinite lattice has it up to 0.675, small ones leave it before
    (4 x 4 has -6.077 at 0.674), and its energy is a bound.
    """
    complete = lattice.kind == "shastry_sutherland" and lattice.boundary == "periodic"
    if not complete or J < 0 or J >= 0.675 * J_dimer:
        return None
    source = "product of dimer singlets (Shastry, Sutherland, Physica B+C 108, 1069, 1981)"
    energy = -0.375 * J_dimer * lattice.n_sites
    method: Method = "exact" if 2 * J <= J_dimer else "variational"
    return KnownEnergy(energy, abs(energy) * 1e-14, source, method)
