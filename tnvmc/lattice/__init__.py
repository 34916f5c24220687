"""Level 1: lattices, which are sites on a grid, their coordinates, and bonds by kind."""

from tnvmc.lattice.custom import from_bonds
from tnvmc.lattice.embedding import Embedding, embedding
from tnvmc.lattice.grids import chain, shastry_sutherland, square
from tnvmc.lattice.lattice import Boundary, Lattice, Patch
from tnvmc.lattice.named import GRIDS
from tnvmc.lattice.planar import checkerboard_lattice, honeycomb, kagome, triangular

__all__ = [
    "GRIDS", "Boundary", "Embedding", "Lattice", "Patch", "chain", "checkerboard_lattice", "embedding",
    "from_bonds", "honeycomb", "kagome", "shastry_sutherland", "square", "triangular",
]  # fmt: skip
