"""Terms of a Hamiltonian or an observable of one's own: [[hamiltonian.term]], [[term]]."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StrictStr

from tnvmc.lattice.lattice import Lattice
from tnvmc.limits import NonNegative, Number
from tnvmc.operators.products import EVERY_SITE, Placed, place
from tnvmc.settings.section import Section

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

    def placed(self, lattice: Lattice, local_dim: int) -> list[Placed]:
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
        return place(lattice, self.ops, where, self.coupling, local_dim=local_dim)
