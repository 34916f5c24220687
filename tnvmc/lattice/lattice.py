"""Sites, coordinates and bonds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Patch = tuple[int, ...]
"""Sites that a term, a replacement or a move acts on, in increasing order of site index."""

Boundary = Literal["open", "cylinder", "periodic"]


@dataclass(frozen=True, eq=False)
class Lattice:
    """N sites on an n_rows x n_cols grid, and bonds by kind.  Site index = row * n_cols + column.

    A pair of sites carries at most one bond of a kind.  Two lattices are equal when their
    shape, boundary, coordinates and bonds are.  Build one with `chain`, `square`,
    `shastry_sutherland` or `from_bonds`.
    """

    kind: str
    shape: tuple[int, int]  #: (n_rows, n_cols)
    boundary: Boundary  #: "cylinder": the rows are rings, the columns are open
    coordinates: np.ndarray = field(repr=False)  #: (N, 2) (row, column) in lattice constants
    bonds: Mapping[str, tuple[Patch, ...]] = field(repr=False)  #: {"nearest": ((0, 1), ...), ...}

    @property
    def n_rows(self) -> int:
        """Number of rows of the grid."""
        return self.shape[0]

    @property
    def n_cols(self) -> int:
        """Number of columns of the grid, the fast direction of the site index."""
        return self.shape[1]

    @property
    def n_sites(self) -> int:
        """Number of sites N."""
        return self.shape[0] * self.shape[1]

    @property
    def periodic(self) -> tuple[bool, bool]:
        """Whether one comes back when walking down a column, and along a row."""
        return self.boundary == "periodic", self.boundary != "open"

    def distances(self) -> np.ndarray:
        """Give all distances between sites, (N, N), in lattice constants.

        In a periodic direction the shorter way round counts (minimum image).
        """
        offset = np.abs(self.coordinates[:, None, :] - self.coordinates[None, :, :])
        for axis, (wraps, length) in enumerate(zip(self.periodic, self.shape, strict=True)):
            if wraps:
                offset[..., axis] = np.minimum(offset[..., axis], length - offset[..., axis])
        return np.asarray(np.sqrt((offset**2).sum(axis=-1)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lattice):
            return NotImplemented
        return (
            self.shape == other.shape
            and self.boundary == other.boundary
            and dict(self.bonds) == dict(other.bonds)
            and np.array_equal(self.coordinates, other.coordinates)
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.boundary))


def grid_coordinates(shape: tuple[int, int]) -> np.ndarray:
    """Give (row, column) of every site of a grid as floats: (N, 2)."""
    rows, cols = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    return np.stack([rows, cols], axis=1).astype(np.float64)


def check_length(name: str, value: object) -> int:
    """Give back a number of sites, rows or columns as int.

    Raises:
        ValueError: not a whole number, or below 1.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"lattice: {name} is {value!r}; it must be a whole number, 1 or larger")
    return int(value)


def check_boundary(value: str, allowed: tuple[Boundary, ...]) -> Boundary:
    """Give back the name of a boundary condition if it is one of `allowed`.

    Raises:
        ValueError: it is none of them.
    """
    for name in allowed:
        if value == name:
            return name
    raise ValueError(f"lattice: boundary is {value!r}; it must be one of {', '.join(allowed)}")
