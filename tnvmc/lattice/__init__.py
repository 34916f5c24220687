"""Level 1: lattices, which are sites on a grid, their coordinates, and bonds by kind."""

from tnvmc.lattice.embedding import Embedding, embedding
from tnvmc.lattice.grids import (
    GRIDS,
    chain,
    checkerboard_lattice,
    honeycomb,
    kagome,
    shastry_sutherland,
    square,
    triangular,
)
from tnvmc.lattice.lattice import Boundary, Lattice, Patch, from_bonds

__all__ = [
    "GRIDS", "Boundary", "Embedding", "Lattice", "Patch", "chain", "checkerboard_lattice",
    "embedding", "from_bonds", "honeycomb", "kagome", "shastry_sutherland", "square", "triangular",
]  # fmt: skip
