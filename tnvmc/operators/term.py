"""Local terms and the operators they sum to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from tnvmc.backend.arguments import set_whole, whole
from tnvmc.lattice.lattice import Lattice, Patch, require_lattice
from tnvmc.operators.basis import Basis
from tnvmc.operators.diagonal import DiagonalForm, diagonal_form
from tnvmc.operators.products import MAX_SITES, in_site_order, joined, placed_products
from tnvmc.operators.sparse import sparse_matrix
from tnvmc.shown import Table

Array = Any

SMALLEST_SCALE = 1e-100
"""Least size of the largest matrix element of an operator, if that is not 0.  Variances and errors go
through squares: of energies of 1e-160 nothing is left, and an error of 0 would be printed."""

ROUNDING = 1e-14
"""Elements of a term below this part of its largest are taken for rounding, and are 0."""

HERMITIAN_TOLERANCE = 1e-12
"""Largest |h - h^dagger| allowed, relative to the largest |h|: a few roundings, no more."""


@dataclass(frozen=True, eq=False)
class Term:
    """A Hermitian matrix on one to four different sites.

    `matrix` is (d^k, d^k) in the basis kron(first site, second site, ...), so the first site
    named is the most significant digit of a row or column index.  Elements below `ROUNDING` times
    the largest count as 0; what is that small and meant is a term of its own.

    Raises:
        ValueError: more than four sites or none, a site twice, a matrix that is not square, not
            d^k wide for any d >= 2, not finite or not Hermitian.
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
        matrix = np.array(self.matrix)
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

    def sorted(self) -> Term:
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


@dataclass(frozen=True, eq=False)
class Operator:
    """A Hermitian operator on a lattice: a sum of local terms.

    A configuration s is a row of small integers 0..d-1 (spin-1/2: 0 up, 1 down; Rydberg: 1
    excited).  The local value of an operator in a state psi is::

        diagonal(s) + sum over patches and r of elements[a(s), r] * psi(s') / psi(s)

    where a(s) is the local state of the patch and s' has targets[a(s), r] in its place.
    Operators on the same lattice can be added, subtracted and multiplied by real numbers.
    Tables are derived from the terms on first use and kept.

    Raises:
        ValueError: a term off the lattice, or of another local dimension; all matrix elements
            below `SMALLEST_SCALE`, and not all 0.
    """

    lattice: Lattice
    terms: tuple[Term, ...] = field(repr=False)
    local_dim: int = 2
    units: str = "custom"  #: "S.S", "Pauli", "n"; "custom" for anything else
    name: str = "operator"
    couplings: Mapping[str, float] | None = None  #: of a model, where they are uniform

    def __post_init__(self) -> None:
        require_lattice(f"Operator {self.name!r}", self.lattice)
        set_whole(self, {"local_dim": 2})
        terms = tuple(term.sorted() for term in self.terms)
        for term in terms:
            _check_on_lattice(term, self.lattice, self.local_dim)
        largest = max((float(np.abs(term.matrix).max()) for term in terms), default=0.0)
        if 0 < largest < SMALLEST_SCALE:
            raise ValueError(
                f"{self.name}: the largest matrix element is {largest:.3g}, the smallest that is "
                f"taken is {SMALLEST_SCALE:g}, since squares of energies would underflow and errors "
                "become 0. Give the couplings in other units"
            )
        object.__setattr__(self, "terms", terms)

    def _repr_html_(self) -> str:
        sizes = Counter(len(term.sites) for term in self.terms)
        each = [f"{sizes[n]} on {n} site{'s' * (n > 1)}" for n in sorted(sizes)]
        rows, lattice = [("terms", ", ".join(each) or "none")], self.lattice
        rows.append(
            ("lattice", f"{lattice.kind}, {lattice.n_rows} x {lattice.n_cols}, {lattice.boundary}")
        )
        rows += [(name, f"{value:g}") for name, value in (self.couplings or {}).items()]
        rows += [("units", self.units), ("states a site", str(self.local_dim))]
        return Table(self.name, ("", ""), rows).html()

    @classmethod
    def from_terms(
        cls,
        lattice: Lattice,
        terms: Iterable[Term | tuple[Iterable[int], Any]],
        *,
        local_dim: int = 2,
        units: str = "custom",
        name: str = "operator",
    ) -> Operator:
        """Build an operator from terms or (sites, matrix) pairs, sites in any order.

        Raises:
            ValueError: as `Term` and `Operator`.
        """
        made = (term if isinstance(term, Term) else Term(tuple(term[0]), term[1]) for term in terms)
        return cls(lattice, tuple(made), local_dim, units, name)

    @classmethod
    def from_products(
        cls,
        lattice: Lattice,
        products: Iterable[Sequence[Any]],
        *,
        local_dim: int = 2,
        units: str = "custom",
        name: str = "operator",
    ) -> Operator:
        """Build an operator from texts: ("Sx Sx + Sy Sy", "nearest", 1.0), ("Sz", "all", 0.3).

        Args:
            lattice: of which sites and bonds are meant.
            products: (text, where) or (text, where, coupling), of which `products.place` says what they
                may be: numbers before names, Sx Sy Sz S+ S- I for any spin, X Y Z n for d = 2; a kind
                of bonds, "all" sites, or a list of tuples of sites; a number, or one for each place.
            local_dim, units, name: of the operator.

        Raises:
            ValueError: as `products.place` and `Operator`; a sum that is not Hermitian on some sites:
                as an observable it is a `NonHermitian`.
        """
        terms = joined(placed_products(lattice, products, local_dim))
        return cls.from_terms(lattice, terms, local_dim=local_dim, units=units, name=name)

    @property
    def n_sites(self) -> int:
        """Number of sites N."""
        return self.lattice.n_sites

    @cached_property
    def is_complex(self) -> bool:
        """Whether some off-diagonal element has an imaginary part."""
        return any(np.iscomplexobj(r.elements) for r in self.replacements.values())

    @cached_property
    def conserves_magnetisation(self) -> bool:
        """Whether every off-diagonal element keeps the sum of local states (true if none is)."""
        for patch, replacement in self.replacements.items():
            sums = np.indices((self.local_dim,) * len(patch)).reshape(len(patch), -1).sum(axis=0)
            change = sums[np.maximum(replacement.targets, 0)] - sums[:, None]
            if np.any(change[replacement.targets >= 0]):
                return False
        return True

    @cached_property
    def infinite_temperature_energy(self) -> float:
        """Tr H / d^N, the mean energy of a random state; the E_inf of the V-score."""
        return float(sum(np.trace(t.matrix).real / len(t.matrix) for t in self.terms))

    @cached_property
    def replacements(self) -> dict[Patch, Replacement]:
        """Off-diagonal elements, for each patch that has any."""
        found = {}
        for patch, matrix in self.matrices.items():
            replacement = _replacement(matrix)
            if replacement is not None:
                found[patch] = replacement
        return found

    @property
    def targets(self) -> dict[Patch, np.ndarray]:
        """The tables of `replacements` alone, which is what `Ansatz.measure` takes."""
        return {patch: replacement.targets for patch, replacement in self.replacements.items()}

    def diagonal(self, configs: Array) -> Array:
        """Give <s|H|s> for configurations (B, N): float64 (B,), in the namespace of `configs`.

        One matrix product for all terms on one and two sites: cost B N^2 (d-1)^2, memory
        2 B N (d-1) floats.  Split large B into chunks.

        Raises:
            ValueError: `configs` is not (B, N).
        """
        if configs.ndim != 2 or configs.shape[1] != self.n_sites:
            raise ValueError(
                f"diagonal of {self.name}: configurations of shape {tuple(configs.shape)}; "
                f"expected (B, {self.n_sites}), one row per configuration"
            )
        return self._diagonal.evaluate(configs)

    def sparse(self, magnetisation: int | None = None) -> Any:
        """Build the matrix as scipy.sparse.csr_matrix, in the order of `basis`.

        `magnetisation` is twice the total Sz; None takes the full space.  See
        `tnvmc.operators.sparse.sparse_matrix` for cost; it does not look at the memory there is,
        `exact_ground_state` does.

        Raises:
            ValueError: no such sector, or the operator does not conserve the magnetisation.
        """
        return sparse_matrix(self, Basis(self.n_sites, self.local_dim, magnetisation))

    def __add__(self, other: Operator) -> Operator:
        if isinstance(other, Real) and other == 0:  # the start value of sum()
            return self
        if not isinstance(other, Operator):
            return NotImplemented
        if self.lattice != other.lattice or self.local_dim != other.local_dim:
            raise ValueError(
                f"cannot add {self.name} on {self.lattice} with d = {self.local_dim} and "
                f"{other.name} on {other.lattice} with d = {other.local_dim}: both must act on "
                "the same lattice (same bonds and coordinates, too) and local states"
            )
        return Operator(
            self.lattice,
            self.terms + other.terms,
            self.local_dim,
            self.units if self.units == other.units else "custom",
            f"{self.name} + {other.name}",
        )

    __radd__ = __add__

    def __mul__(self, factor: float) -> Operator:
        if not isinstance(factor, Real):
            return NotImplemented
        scale = float(factor)
        terms = tuple(Term(term.sites, scale * term.matrix) for term in self.terms)
        return Operator(self.lattice, terms, self.local_dim, self.units, f"{scale:g} ({self.name})")

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Operator:
        if not isinstance(divisor, Real):
            return NotImplemented
        return self * (1.0 / float(divisor))

    def __neg__(self) -> Operator:
        return -1.0 * self

    def __sub__(self, other: Operator) -> Operator:
        if not isinstance(other, Operator):
            return NotImplemented
        return self + (-other)

    @cached_property
    def matrices(self) -> dict[Patch, np.ndarray]:
        """Per patch the sum of its terms, (d^k, d^k), with what is rounding set to zero.

        That is what is `ROUNDING` of the largest element of its term, and what is left of as much
        where terms cancel.  A small term beside a large one on the same sites stays.
        """
        sums: dict[Patch, np.ndarray] = {}
        sizes: dict[Patch, np.ndarray] = {}
        for term in self.terms:
            matrix = _chop(term.matrix, ROUNDING * np.abs(term.matrix).max())
            sums[term.sites] = sums.get(term.sites, 0) + matrix
            sizes[term.sites] = sizes.get(term.sites, 0) + np.abs(matrix)
        return {patch: _chop(sums[patch], ROUNDING * sizes[patch]) for patch in sorted(sums)}

    @cached_property
    def _diagonal(self) -> DiagonalForm:
        diagonals = {patch: np.diag(matrix).real for patch, matrix in self.matrices.items()}
        return diagonal_form(diagonals, self.n_sites, self.local_dim)


def _replacement(matrix: np.ndarray) -> Replacement | None:
    """Table of the off-diagonal elements, or None where there are none."""
    connected = (matrix != 0) & ~np.eye(len(matrix), dtype=bool)
    n_columns = int(connected.sum(axis=1).max())
    if n_columns == 0:
        return None
    targets = np.full((len(matrix), n_columns), -1, dtype=np.int64)
    elements = np.zeros(targets.shape, dtype=matrix.dtype)
    for state, row in enumerate(connected):
        columns = np.flatnonzero(row)
        targets[state, : len(columns)] = columns
        elements[state, : len(columns)] = matrix[state, columns]
    return Replacement(targets, elements)


def _chop(matrix: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """Drop parts below a tolerance (a number, or one for each element), and the imaginary part
    altogether if nothing is left."""
    real = np.where(np.abs(matrix.real) > tolerance, matrix.real, 0.0)
    imaginary = np.where(np.abs(matrix.imag) > tolerance, matrix.imag, 0.0)
    return real + 1j * imaginary if np.any(imaginary) else real


def _check_term(sites: tuple[int, ...], matrix: np.ndarray) -> None:
    k = len(sites)
    if not 1 <= k <= MAX_SITES or len(set(sites)) != k:
        raise ValueError(f"term on sites {sites}: it must act on 1 to {MAX_SITES} different sites")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"term on sites {sites}: matrix of shape {matrix.shape} is not square")
    d = round(len(matrix) ** (1 / k)) if len(matrix) else 0
    if d < 2 or d**k != len(matrix):
        raise ValueError(
            f"term on sites {sites}: a matrix {len(matrix)} wide does not fit {k} site(s); it must "
            f"be d^{k} wide for a local dimension d of 2 or more"
        )
    if matrix.dtype.kind not in "iufc" or not np.isfinite(matrix).all():
        raise ValueError(f"term on sites {sites}: the matrix must hold finite numbers only")
    gap = np.abs(matrix - matrix.conj().T)
    if gap.max() > HERMITIAN_TOLERANCE * np.abs(matrix).max():
        row, col = (int(index) for index in np.unravel_index(gap.argmax(), gap.shape))
        raise ValueError(
            f"term on sites {sites}: the matrix is not Hermitian: h[{row}, {col}] = "
            f"{matrix[row, col]:.6g} but h[{col}, {row}] = {matrix[col, row]:.6g}. Add the "
            "Hermitian conjugate, or check the order of sites in kron(first, second, ...); an "
            "observable that is meant so is a NonHermitian"
        )


def _check_on_lattice(term: Term, lattice: Lattice, local_dim: int) -> None:
    if term.sites[-1] >= lattice.n_sites:
        raise ValueError(
            f"term on sites {term.sites}: the lattice has sites 0..{lattice.n_sites - 1} only"
        )
    if term.local_dim != local_dim:
        raise ValueError(
            f"term on sites {term.sites}: its matrix is for local dimension {term.local_dim}, "
            f"the operator has {local_dim}. Pass local_dim={term.local_dim}, or check the matrix"
        )
