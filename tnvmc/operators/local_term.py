"""Terms of an operator: matrices on a few sites, and their elements off the diagonal."""

from dataclasses import dataclass

import numpy as np

from tnvmc.backend.arguments import unmasked, whole
from tnvmc.operators.spin import MAX_WIDTH, in_site_order, most_sites

ROUNDING = 1e-14
"""Elements of a term below this part of its largest are taken for rounding, and are 0."""

HERMITIAN_TOLERANCE = 1e-12
"""Largest |h - h^dagger| allowed, relative to the largest |h|: a few roundings, no more."""


@dataclass(frozen=True, eq=False)
class Term:
    """A Hermitian matrix on one site or several different ones, at most `most_sites` of them.

    `matrix` is (d^k, d^k) in the basis kron(first site, second site, ...): the first site is the
    most significant digit of an index.  Elements below `ROUNDING` times the largest count as 0;
    what is that small and meant is a term of its own.

    Raises:
        ValueError: no site, one twice, a matrix that is not square, not d^k wide for any d >= 2,
            wider than `MAX_WIDTH`, not finite or not Hermitian.
    """

    sites: tuple[int, ...]
    matrix: np.ndarray

    def __post_init__(self) -> None:
        try:
            sites = tuple(whole("term", "a site index", site, 0) for site in self.sites)
        except (TypeError, ValueError):
            raise ValueError(
                f"term on sites {self.sites}: a site index is a whole number from 0"
            ) from None
        matrix = unmasked(f"term on sites {sites}", self.matrix)
        _check_term(sites, matrix)
        matrix = matrix.astype(np.complex128 if np.iscomplexobj(matrix) else np.float64)
        matrix.setflags(write=False)
        object.__setattr__(self, "sites", sites)
        object.__setattr__(self, "matrix", matrix)

    @property
    def local_dim(self) -> int:
        """Local dimension d, from the size of the matrix."""
        root: float = len(self.matrix) ** (1 / len(self.sites))
        return round(root)

    def sorted(self) -> "Term":
        """Give the same term with its sites in increasing order and its matrix to match."""
        sites, matrix = in_site_order(self.sites, self.matrix)
        return self if sites == self.sites else Term(sites, matrix)


@dataclass(frozen=True, eq=False)
class Replacement:
    """What the off-diagonal elements on one patch turn each local state into.

    elements[a, r] = <a| h |targets[a, r]>, with every term on the patch summed up.
    """

    targets: np.ndarray  #: (d^k, R) int64, padded with -1
    elements: np.ndarray  #: (d^k, R) float64 or complex128, 0 where padded


def replacement_of(matrix: np.ndarray) -> Replacement | None:
    """Table of the off-diagonal elements, or None where there are none."""
    connected = (matrix != 0) & ~np.eye(len(matrix), dtype=bool)
    width = int(connected.sum(axis=1).max())
    if width == 0:
        return None
    columns = np.argsort(~connected, axis=1, kind="stable")[:, :width]
    there, elements = (np.take_along_axis(x, columns, axis=1) for x in (connected, matrix))
    return Replacement(np.where(there, columns, -1), np.where(there, elements, 0))


def chopped(matrix: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """Set parts below a tolerance (one number, or one per element) to 0; real where it can be."""
    real = np.where(np.abs(matrix.real) > tolerance, matrix.real, 0.0)
    imaginary = np.where(np.abs(matrix.imag) > tolerance, matrix.imag, 0.0)
    return real + 1j * imaginary if np.any(imaginary) else real


def is_hermitian(matrix: np.ndarray) -> bool:
    """Tell whether a matrix is Hermitian, up to rounding."""
    gap = np.abs(matrix - matrix.conj().T).max()
    return bool(gap <= HERMITIAN_TOLERANCE * np.abs(matrix).max())


def _check_term(sites: tuple[int, ...], matrix: np.ndarray) -> None:
    k, where = len(sites), f"term on sites {sites}: "
    if k < 1 or len(set(sites)) != k:
        raise ValueError(f"{where}it must act on one site, or on several different sites")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{where}matrix of shape {matrix.shape} is not square")
    d = round(len(matrix) ** (1 / k)) if len(matrix) else 0
    if d < 2 or d**k != len(matrix):
        raise ValueError(
            f"{where}a matrix {len(matrix)} wide does not fit {k} site(s); it must be d^{k} wide "
            "for a local dimension d of 2 or more"
        )
    if len(matrix) > MAX_WIDTH:
        raise ValueError(
            f"{where}{k} sites of local dimension {d}; the matrix of a term is at most {MAX_WIDTH} "
            f"wide, which is {most_sites(d)} such sites"
        )
    if matrix.dtype.kind not in "iufc" or not np.isfinite(matrix).all():
        raise ValueError(f"{where}the matrix must hold finite numbers only")
    if not is_hermitian(matrix):
        gap = np.abs(matrix - matrix.conj().T)
        row, col = (int(index) for index in np.unravel_index(gap.argmax(), gap.shape))
        raise ValueError(
            f"{where}the matrix is not Hermitian: h[{row}, {col}] = {matrix[row, col]:.6g} but "
            f"h[{col}, {row}] = {matrix[col, row]:.6g}. Add the Hermitian conjugate, or check the "
            "order of sites in kron(first, second, ...); an observable that is meant so is a "
            "NonHermitian"
        )
