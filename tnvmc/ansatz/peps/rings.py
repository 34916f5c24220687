"""Which lattices have a PEPS whose rows are rings; see `contraction.row.edge_of`.

What differs is the price of a strip of two rows, D^2 times that of one; so moves on two rows are
tried by absorbing one of them (`strip_engine.RingStrips`).
"""

from __future__ import annotations

from tnvmc.backend.arguments import one_of
from tnvmc.lattice.embedding import Bonds
from tnvmc.lattice.lattice import Lattice

SHORTEST = 3
"""Sites of a ring: two would have two bonds between them, and such a lattice has one."""


def check_bonds(bonds: str, lattice: Lattice) -> Bonds:
    """Give back the kind of bonds if a PEPS on the lattice can have it.

    Raises:
        ValueError: another word; periodic bonds on a lattice whose rows are no rings, or too short.
    """
    one_of("PEPS", "bonds", bonds, ("open", "periodic"))
    if bonds == "open":
        return "open"
    if lattice.boundary != "cylinder":
        other = "PeriodicMPS(lattice, D)" if lattice.shape[0] == 1 else "open bonds"
        raise ValueError(
            f"PEPS: bonds = 'periodic' close every row to a ring, but the boundary of the lattice "
            f"is {lattice.boundary!r}; take boundary = 'cylinder' (its rows are the rings), "
            f"or {other}"
        )
    if lattice.vacant:
        raise ValueError(
            f"PEPS: bonds = 'periodic' need a site at every place of the grid, "
            f"{len(lattice.vacant)} places of {lattice.kind} {lattice.size} have none; "
            "take bonds = 'open'"
        )
    if lattice.shape[1] < SHORTEST:
        raise ValueError(
            f"PEPS: bonds = 'periodic' on rings of {lattice.shape[1]} sites, which have no closing "
            "bond; take bonds = 'open'"
        )
    return "periodic"
