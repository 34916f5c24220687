"""The lattices of two dimensions by the names that files have for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tnvmc.lattice.grids import shastry_sutherland, square
from tnvmc.lattice.lattice import Lattice
from tnvmc.lattice.planar import checkerboard_lattice, honeycomb, kagome, triangular

GRIDS: Mapping[str, Callable[[int, int, str], Lattice]] = {
    "square": square,
    "triangular": triangular,
    "honeycomb": honeycomb,
    "kagome": kagome,
    "checkerboard": checkerboard_lattice,
    "shastry_sutherland": shastry_sutherland,
}
"""Each takes (n_rows, n_cols, boundary), which together with its name is all there is to say of it."""
