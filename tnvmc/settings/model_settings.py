"""[lattice] and [hamiltonian]: where the sites are, and the terms on them."""

import inspect
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

import numpy as np
from annotated_types import Len as Length
from annotated_types import Predicate
from pydantic import Field, StrictInt, StrictStr, create_model

from tnvmc.lattice import GRIDS, Lattice, chain, from_bonds
from tnvmc.limits import NonNegative, Number, Positive, Section
from tnvmc.operators import models
from tnvmc.operators.products import EVERY_SITE, Placed, joined, place
from tnvmc.settings.problems import ConfigError, conflict, errors_of

Bond = Annotated[list[NonNegative], Length(2, 2), Field(description="pairs of site indices")]
Point = Annotated[list[Number], Length(2, 2), Field(description="positions [x, y]")]


class _Lattice(Section):
    kind: str
    """`checkerboard`: square, both diagonals in every second plaquette. `shastry_sutherland`:
    square, a dimer in every second plaquette. `bonds`: an explicit list.
    [Lattices](../lattices.md) shows all of them."""
    boundary: Literal["open", "cylinder", "periodic"] = "open"
    """`cylinder`: rows are periodic, columns are open. A PEPS has open bonds nevertheless, and
    periodic bonds are terms of the Hamiltonian only, unless `ansatz.bonds` says otherwise."""
    shape: Any

    @property
    def sizes(self) -> list[int]:
        """The shape as a list."""
        return [int(length) for length in np.ravel(self.shape)]


class GridSettings(_Lattice):
    """A lattice with rows and columns."""

    kind: Literal[
        "square", "triangular", "honeycomb", "kagome", "checkerboard", "shastry_sutherland"
    ] = "square"
    shape: Annotated[list[Positive], Length(2, 2)]
    """Numbers of rows and columns of the grid; a kagome lattice has no site in odd rows at odd
    columns."""
    vacant: list[NonNegative] | None = None
    """Places row × n_cols + column of the grid that have no site."""


class ChainSettings(_Lattice):
    """A chain."""

    kind: Literal["chain"] = "chain"
    shape: Positive | Annotated[list[Positive], Length(1, 1), Field(description="[length]")]
    """Number of sites."""


class BondsSettings(_Lattice):
    """Any graph."""

    kind: Literal["bonds"] = "bonds"
    boundary: Literal["open"] = "open"
    shape: Positive | Annotated[list[Positive], Length(1, 2), Field(description="[n_rows, n_cols]")]
    """Number of sites, or numbers of rows and columns."""
    bonds: (
        list[Bond] | Annotated[dict[str, list[Bond]], Field(description="a table of lists by kind")]
    )
    """Pairs of site indices, of kind "nearest"; or a table with a list for each kind of bonds. A
    product that has a direction acts with its first name on the first site."""
    coordinates: list[Point] | None = None
    """A position [x, y] for each site. Distances, S(q) and pictures need them."""
    vacant: list[NonNegative] | None = None
    """Places row × n_cols + column of the grid that have no site."""


LatticeSettings = Annotated[
    GridSettings | ChainSettings | BondsSettings, Field(discriminator="kind")
]


def n_sites(lattice: LatticeSettings) -> int:
    """Give the number of sites, without building anything."""
    vacant, sizes = set(getattr(lattice, "vacant", None) or ()), lattice.sizes
    if lattice.kind == "kagome":
        vacant |= {r * sizes[1] + c for r in range(1, sizes[0], 2) for c in range(1, sizes[1], 2)}
    return math.prod(sizes) - len(vacant)


MODELS = (
    "heisenberg", "xxz", "j1j2", "tfim", "rydberg", "shastry_sutherland", "tv", "hubbard", "tj",
)  # fmt: skip
PerBond = Number | Annotated[list[Number], Field(description="a list of one number for each bond")]
PerSite = Number | Annotated[list[Number], Field(description="a list of one number for each site")]
COUPLINGS: Mapping[str, tuple[Any, str]] = {
    "J": (PerBond, "Nearest neighbours. Positive is antiferromagnetic, but in `tfim`."),
    "J1": (PerBond, "Nearest neighbours."),
    "J2": (PerBond, "Diagonals of the plaquettes; next-nearest neighbours of a chain."),
    "Jz": (PerBond, "z part of the nearest-neighbour exchange."),
    "J_dimer": (PerBond, "Exchange on the dimers, J′ in part of the literature."),
    "h": (PerSite, "Transverse field."),
    "V": (Number, "Of two excited atoms at distance 1, V / r⁶ at r; in `tv`, of neighbours."),
    "t": (PerBond, "Hopping between nearest neighbours."),
    "t2": (PerBond, "Hopping along diagonals."),
    "U": (PerSite, "Energy of two fermions on one site."),
    "mu": (PerSite, "Chemical potential."),
    "delta": (PerSite, "Detuning."),
    "Omega": (PerSite, "Rabi frequency."),
}
"""What each coupling may be and what it means; its default is that of the model's function."""


class _Hamiltonian(Section):
    model: str
    """Which Hamiltonian; [Conventions](../conventions.md) has the formulas."""

    def as_couplings(self) -> dict[str, Any]:
        """Give the couplings alone, as arguments of the model's function."""
        return self.model_dump(exclude={"model"})


def _hamiltonian(name: str) -> Any:
    """Make the model of a Hamiltonian from the signature of its function."""
    fields: dict[str, Any] = {"model": (Literal[name], ...)}
    for key, parameter in inspect.signature(getattr(models, name)).parameters.items():
        if key not in ("lattice", "particles"):
            kind, text = COUPLINGS[key]
            fields[key] = (kind, Field(parameter.default, description=text))
    return create_model(name, __base__=_Hamiltonian, **fields)


Kind = Annotated[StrictStr, Field(description="a kind of bonds, as 'nearest'")]
Places = Annotated[
    list[list[NonNegative]], Field(description="a list of bonds, [first site, second site]")
]
Sites = Annotated[list[NonNegative], Field(description="a list of site indices")]
Every = Annotated[StrictStr, Field(pattern="^all$", description="'all'")]
Couplings = (
    Number | Annotated[list[Number], Field(description="a list of one number for each place")]
)


class TermSettings(Section):
    """Products of operators on bonds or on sites."""

    ops: StrictStr
    """A sum of products, as `Sx Sx + Sy Sy`."""
    bonds: Kind | Places | None = None
    """Where a product on two sites or more acts."""
    sites: Every | Sites | None = None
    """Where a product on one site acts; the sites of a product on several, for one place."""
    coupling: Couplings = 1.0
    """Factor; a list has one for each bond or site."""

    def n_places(self, lattice: Lattice) -> int:
        """Count the numbers that `coupling` may list."""
        where: Any = self.sites if self.bonds is None else self.bonds
        if isinstance(where, str):
            return lattice.n_sites if where == EVERY_SITE else len(lattice.bonds[where])
        return len(where or ())

    def placed(self, lattice: Lattice, kind: Any) -> list[Placed]:
        """Give sites and matrices.

        Raises:
            ValueError: what does not fit the lattice; neither bonds nor sites, or both.
        """
        if (self.bonds is None) == (self.sites is None):
            raise ValueError(
                "give either bonds, as 'nearest' or [[0, 1], [1, 2]], or sites, as 'all' or [0, 3]"
            )
        where: Any = self.sites if self.bonds is None else self.bonds
        if self.bonds == EVERY_SITE:
            raise ValueError("bonds = 'all': give sites = 'all', or a kind of bonds")
        return place(lattice, self.ops, where, self.coupling, kind=kind)


def joined_terms(
    terms: Iterable[TermSettings], lattice: Lattice, kind: Any, where: str
) -> list[Placed]:
    """Give sites and matrices of several tables; ValueError, with the place `where` they stand."""
    placed: list[Placed] = []
    for number, term in enumerate(terms, 1):
        with errors_of(f"{where}.term.{number}"):
            placed += term.placed(lattice, kind)
    with errors_of(where):
        return joined(placed)


OneTerm = Annotated[TermSettings, Field(description="tables, each headed [[hamiltonian.term]]")]


class TermsSettings(_Hamiltonian):
    """A Hamiltonian of one's own."""

    model: Literal["terms"]
    term: Annotated[tuple[OneTerm, ...], Predicate(bool)]
    """Products of operators, as [A Hamiltonian of your own](../own_hamiltonian.md) explains: `ops`
    is a sum of products ("Sx Sx + Sy Sy"), `bonds` ("nearest" or a list of bonds) or `sites` ("all"
    or a list) are the sites, `coupling` is a number or a list with one for each bond or site."""
    local_dim: Annotated[StrictInt, Field(ge=2)] = 2
    """Number of states of a site: 3 for spin 1."""
    units: Literal["S.S", "Pauli", "n", "custom"] = "custom"
    """Units of the energy in tables. `n`: local states are numbers of bosons or excited atoms, and
    ⟨n⟩ and ⟨n n⟩ are measured instead of spins."""
    fermions: Literal["spinless", "hubbard", "tj"] | None = None
    """Fermions without spin, with spin, or with spin and at most one on a site, instead of spins;
    products of `c^`, `c`, `n`, with spin `c^up`, `cdn`, `nup`, `Sz` and so on."""


if TYPE_CHECKING:
    HamiltonianSettings = _Hamiltonian
else:
    HamiltonianSettings = Annotated[
        Union[(*map(_hamiltonian, MODELS), TermsSettings)], Field(discriminator="model")
    ]


_KINDS = {"J2": "diagonal", "t2": "diagonal", "J_dimer": "dimer"}


def n_places(settings: Any, key: str) -> int:
    """Count the bonds or sites that a coupling of a file has a number for.

    Raises `ConfigError` for what is no coupling, or one number for all.
    """
    model, lattice = settings.hamiltonian, build_lattice(settings.lattice)
    of, where = COUPLINGS.get(key, (None, ""))[0], f"average.random.{key}"
    match key.split("."):
        case ["term", number, "coupling"] if getattr(model, "term", None):
            with errors_of(where):
                if not 1 <= int(number) <= len(model.term):
                    raise ValueError(f"there are {len(model.term)} terms")
                return model.term[int(number) - 1].n_places(lattice)
        case [_] if of in (PerBond, PerSite) and hasattr(model, key):
            return (
                lattice.n_sites if of is PerSite else len(lattice.bonds[_KINDS.get(key, "nearest")])
            )
    can = [k for k in model.as_couplings() if COUPLINGS.get(k, (0,))[0] in (PerBond, PerSite)]
    told = ", ".join(can) or "term.1.coupling"
    raise ConfigError(conflict(where, f"is not a coupling that bonds or sites have; take {told}"))


def build_lattice(settings: LatticeSettings) -> Lattice:
    """Make the lattice of a [lattice] section."""
    shape = settings.sizes
    if settings.kind == "chain":
        return chain(shape[0], settings.boundary)
    if settings.kind == "bonds":
        rows, columns = [1, *shape][-2:]
        bonds = settings.bonds if isinstance(settings.bonds, dict) else {"nearest": settings.bonds}
        pairs = {kind: [(i, j) for i, j in of_kind] for kind, of_kind in bonds.items()}
        return from_bonds((rows, columns), pairs, settings.coordinates, settings.vacant or ())
    with errors_of("lattice.shape"):
        return GRIDS[settings.kind](shape[0], shape[1], settings.boundary, settings.vacant or ())
