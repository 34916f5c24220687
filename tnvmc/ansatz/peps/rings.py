"""Rows that are rings: cut open for the contraction, with the closing bond carried along.

On a cylinder with periodic bonds the right leg of the last column of a row meets the left one of
the first.  For boundaries and strips such a row becomes an open one, whose bonds hold two indices,
the bond to the next column and the closing one, (right, carried)::

    carried  a -------------------------------- a
              \\                              /
               [T_0]--r--[T_1]--r--[T_2]--r--[T_3]

    first column  (up, 1, down, (r, a))       = T_0[up, a, down, r]
    between       (up, (l, a), down, (r, a')) = T_c[up, l, down, r] delta(a, a')
    last column   (up, (l, a), down, 1)       = T_3[up, l, down, a]

So all that a pass serves sees an open PEPS with bonds of size D^2 along its rows.  What differs is
the price of a strip of two rows, D^2 times that of one; so moves on two rows are tried by absorbing
one of them (`strip_engine.RingStrips`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tnvmc.backend.arguments import one_of
from tnvmc.backend.namespace import array_namespace
from tnvmc.lattice.embedding import Bonds
from tnvmc.lattice.lattice import Lattice

Array = Any

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


def opened(tensors: Sequence[Array], n_cols: int) -> list[Array]:
    """Give the tensors of open rows with the closing bonds carried along.

    Args:
        tensors: (d, up, left, down, right), row by row, of rings.
        n_cols: sites of a ring.

    Returns:
        Tensors (d, up, left * a, down, right * a), of size 1 at both ends of a row; a is the
        closing bond.  A tensor between takes D^2 times the memory, mostly for zeros.
    """
    xp = array_namespace(*tensors)
    found = []
    for site, tensor in enumerate(tensors):
        d, up, left, down, right = tensor.shape
        column = site % n_cols
        if column == 0:
            turned = xp.permute_dims(tensor, (0, 1, 3, 4, 2))
            found.append(xp.reshape(turned, (d, up, 1, down, right * left)))
        elif column == n_cols - 1:
            turned = xp.permute_dims(tensor, (0, 1, 2, 4, 3))
            found.append(xp.reshape(turned, (d, up, left * right, down, 1)))
        else:
            carried = tensors[site - column].shape[2]
            same = xp.reshape(
                xp.eye(carried, dtype=tensor.dtype), (1, 1, 1, carried, 1, 1, carried)
            )
            product = xp.reshape(tensor, (d, up, left, 1, down, right, 1)) * same
            found.append(xp.reshape(product, (d, up, left * carried, down, right * carried)))
    return found


def closed(
    derivatives: Sequence[Array], shapes: Sequence[tuple[int, ...]], n_cols: int
) -> list[Array]:
    """Give the derivatives by the tensors of rings from those by the tensors of their open rows.

    Args:
        derivatives: per site (B, up, left, down, right) as of `opened`.
        shapes: of the tensors (d, up, left, down, right) of the rings.
        n_cols: sites of a ring.

    Returns:
        Per site (B, up, left, down, right) of the ring: summed over the carried index.
    """
    return [
        _closed(derivative, site % n_cols, n_cols, shape[1:])
        for site, (derivative, shape) in enumerate(zip(derivatives, shapes, strict=True))
    ]


def _closed(derivative: Array, column: int, n_cols: int, legs: tuple[int, ...]) -> Array:
    xp, batch = array_namespace(derivative), derivative.shape[0]
    up, left, down, right = legs
    if column == 0:
        whole = xp.reshape(derivative, (batch, up, down, right, left))
        return xp.permute_dims(whole, (0, 1, 4, 2, 3))
    if column == n_cols - 1:
        whole = xp.reshape(derivative, (batch, up, left, right, down))
        return xp.permute_dims(whole, (0, 1, 2, 4, 3))
    carried = derivative.shape[2] // left
    whole = xp.reshape(derivative, (batch, up, left, carried, down, right, carried))
    return sum(whole[:, :, :, a, :, :, a] for a in range(carried))
