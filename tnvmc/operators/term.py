"""Local terms and the operators they sum to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tnvmc.backend.arguments import set_whole
from tnvmc.lattice.lattice import Lattice, Patch, require_lattice
from tnvmc.lattice.netket import as_lattice
from tnvmc.operators.arithmetic import (
    Arithmetic,
    Matrices,
    common_magnetisation,
    hermitian_parts,
)
from tnvmc.operators.basis import Basis
from tnvmc.operators.diagonal import DiagonalForm, diagonal_form
from tnvmc.operators.local_term import (
    HERMITIAN_TOLERANCE,
    ROUNDING,
    Replacement,
    Term,
    chopped,
    replacement_of,
)
from tnvmc.operators.products import joined, placed_products
from tnvmc.operators.sparse import sparse_matrix
from tnvmc.shown import Table

__all__ = [
    "NO_HAMILTONIAN",
    "ROUNDING",
    "NonHermitian",
    "Operator",
    "Replacement",
    "Term",
    "made_of",
]

Array = Any

NO_HAMILTONIAN = (
    "VMC: {} is a NonHermitian, an observable for VMC.expect; a Hamiltonian is an Operator. Add the "
    "Hermitian conjugate, or take its Hermitian part, .real"
)

SMALLEST_SCALE = 1e-100
"""Least size of the largest matrix element of an operator, if that is not 0.  Variances and errors go
through squares: of energies of 1e-160 nothing is left, and an error of 0 would be printed."""


@dataclass(frozen=True, eq=False)
class Operator(Arithmetic):
    """A Hermitian operator on a lattice: a sum of local terms.

    A configuration s is a row of small integers 0..d-1 (spin-1/2: 0 up, 1 down; Rydberg: 1
    excited).  The local value of an operator in a state psi is::

        diagonal(s) + sum over patches and r of elements[a(s), r] * psi(s') / psi(s)

    where a(s) is the local state of the patch and s' has targets[a(s), r] in its place.
    Operators on the same lattice can be added, subtracted and multiplied (A @ B), by numbers too; what
    is not Hermitian then is a `NonHermitian`.
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
    couplings: Mapping[str, float | list[float]] | None = None  #: of a model; lists by place
    magnetisation: int | None = None  #: twice the total Sz that is meant, where it is told

    def __post_init__(self) -> None:
        object.__setattr__(self, "lattice", as_lattice(self.lattice))
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
        rows.append(("lattice", f"{lattice.kind}, {lattice.size}, {lattice.boundary}"))
        for name, value in (self.couplings or {}).items():
            rows.append((name, f"{len(value)} values" if isinstance(value, list) else f"{value:g}"))
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
            replacement = replacement_of(matrix)
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

    @property
    def H(self) -> Operator:
        """The Hermitian conjugate, which is itself."""
        return self

    def _plus(self, other: Any) -> Any:
        if not isinstance(other, Operator):
            return super()._plus(other)
        units = self.units if self.units == other.units else "custom"
        terms, name = self.terms + other.terms, f"{self.name} + {other.name}"
        sector = common_magnetisation(self, other)
        return Operator(self.lattice, terms, self.local_dim, units, name, magnetisation=sector)

    def _times(self, factor: complex) -> Any:
        if isinstance(factor, complex):
            return super()._times(factor)
        terms = tuple(Term(term.sites, factor * term.matrix) for term in self.terms)
        name, sector = f"{factor:g} ({self.name})", self.magnetisation
        return Operator(self.lattice, terms, self.local_dim, self.units, name, magnetisation=sector)

    def _made(self, matrices: Matrices, name: str, units: str, sector: int | None) -> Any:
        return made_of(self.lattice, matrices, self.local_dim, units, name, sector)

    @cached_property
    def matrices(self) -> dict[Patch, np.ndarray]:
        """Per patch the sum of its terms, (d^k, d^k), with what is rounding set to zero.

        That is what is `ROUNDING` of the largest element of its term, and what is left of as much
        where terms cancel.  A small term beside a large one on the same sites stays.
        """
        sums: dict[Patch, np.ndarray] = {}
        sizes: dict[Patch, np.ndarray] = {}
        for term in self.terms:
            matrix = chopped(term.matrix, ROUNDING * np.abs(term.matrix).max())
            sums[term.sites] = sums.get(term.sites, 0) + matrix
            sizes[term.sites] = sizes.get(term.sites, 0) + np.abs(matrix)
        return {patch: chopped(sums[patch], ROUNDING * sizes[patch]) for patch in sorted(sums)}

    @cached_property
    def _diagonal(self) -> DiagonalForm:
        diagonals = {patch: np.diag(matrix).real for patch, matrix in self.matrices.items()}
        return diagonal_form(diagonals, self.n_sites, self.local_dim)


@dataclass(frozen=True, eq=False)
class NonHermitian(Arithmetic):
    """An operator O = A + i B, held as two Hermitian ones: an observable for `VMC.expect`.

    A = (O + O^dagger) / 2 gives the real part of a mean and B = (O - O^dagger) / 2i the imaginary one.
    Sums, multiples and products are those of `Operator`; what is Hermitian comes out as one.
    It is no Hamiltonian, and nothing but `VMC.expect` takes it.
    """

    real: Operator  #: A
    imaginary: Operator  #: B

    @classmethod
    def from_products(
        cls,
        lattice: Lattice,
        products: Iterable[Sequence[Any]],
        *,
        local_dim: int = 2,
        units: str = "custom",
        name: str = "operator",
    ) -> NonHermitian:
        """Build an observable from texts, as `Operator.from_products` does: ("S+ S-", [(0, 5)]).

        Raises:
            ValueError: as `products.place` and `Operator`.
        """
        terms = joined(placed_products(lattice, products, local_dim))
        return cls.from_terms(lattice, terms, local_dim=local_dim, units=units, name=name)

    @classmethod
    def from_terms(
        cls,
        lattice: Lattice,
        terms: Iterable[tuple[Iterable[int], Any]],
        *,
        local_dim: int = 2,
        units: str = "custom",
        name: str = "operator",
    ) -> NonHermitian:
        """Build an observable from (sites, matrix) pairs, as `Operator.from_terms` does.

        Raises:
            ValueError: as `Term` and `Operator`, but that matrices need not be Hermitian.
        """
        made: dict[str, list[Term]] = {"real": [], "imaginary": []}
        for sites, matrix in terms:
            for which, part in zip(made, hermitian_parts({tuple(sites): np.asarray(matrix)}, 0.0)):
                made[which] += [Term(patch, half) for patch, half in part.items()]
        real, imaginary = (
            Operator(lattice, tuple(part), local_dim, units, f"{which} part of {name}")
            for which, part in made.items()
        )
        return cls(real, imaginary)

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name, as it was given."""
        return self.real.name.removeprefix("real part of ")

    @property
    def lattice(self) -> Lattice:  # type: ignore[override]
        """The lattice of both parts."""
        return self.real.lattice

    @property
    def local_dim(self) -> int:  # type: ignore[override]
        """Number of states of a site."""
        return self.real.local_dim

    @property
    def units(self) -> str:  # type: ignore[override]
        """Units, as of an `Operator`."""
        return self.real.units

    @property
    def magnetisation(self) -> int | None:  # type: ignore[override]
        """Twice the total Sz that is meant, where a Hilbert space said so."""
        return self.real.magnetisation

    @property
    def H(self) -> NonHermitian:
        """The Hermitian conjugate, A - i B."""
        return NonHermitian(self.real, -1.0 * self.imaginary)

    @cached_property
    def matrices(self) -> Matrices:
        """Per patch the sum of its terms, (d^k, d^k)."""
        found = dict(self.real.matrices)
        for patch, matrix in self.imaginary.matrices.items():
            found[patch] = found.get(patch, 0) + 1j * matrix
        return found

    def _made(self, matrices: Matrices, name: str, units: str, sector: int | None) -> Any:
        return made_of(self.lattice, matrices, self.local_dim, units, name, sector)


def made_of(
    lattice: Lattice,
    matrices: Matrices,
    local_dim: int = 2,
    units: str = "custom",
    name: str = "operator",
    magnetisation: int | None = None,
) -> Operator | NonHermitian:
    """Make an `Operator` of matrices that are Hermitian up to rounding, of others a `NonHermitian`.

    Args:
        lattice: of which sites are meant.
        matrices: (d^k, d^k) by patch, the sites in increasing order.
        local_dim, units, name, magnetisation: of the operator.
    """
    parts = hermitian_parts(matrices, HERMITIAN_TOLERANCE)
    names = (f"real part of {name}", f"imaginary part of {name}") if parts[1] else (name, name)
    real, imaginary = (
        Operator(
            lattice, tuple(Term(*placed) for placed in part.items()), local_dim, units, told,
            magnetisation=magnetisation,
        )
        for part, told in zip(parts, names, strict=True)
    )  # fmt: skip
    return NonHermitian(real, imaginary) if parts[1] else real


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
