"""Level 1: lattices, which are sites on a grid, their coordinates, and bonds by kind."""

from tnvmc.lattice.custom import from_bonds
from tnvmc.lattice.grids import chain, shastry_sutherland, square
from tnvmc.lattice.lattice import Boundary, Lattice, Patch

__all__ = ["Boundary", "Lattice", "Patch", "chain", "from_bonds", "shastry_sutherland", "square"]
