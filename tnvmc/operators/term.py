"""Operators: sums of local terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tnvmc.backend.arguments import is_listed, refuse, set_whole
from tnvmc.backend.namespace import array_namespace, to_namespace
from tnvmc.lattice.lattice import Lattice, Patch, require_lattice
from tnvmc.operators.arithmetic import (
    Arithmetic,
    Matrices,
    Sums,
    common_magnetisation,
    hermitian_parts,
)
from tnvmc.operators.basis import Basis, sparse_matrix
from tnvmc.operators.fermions import Fermions, Strings, mode_order
from tnvmc.operators.local_term import (
    HERMITIAN_TOLERANCE,
    ROUNDING,
    Replacement,
    Term,
    chopped,
    replacement_of,
)
from tnvmc.operators.spin import digits_of
from tnvmc.shown import Table

__all__ = [
    "ROUNDING", "NonHermitian", "Operator", "Replacement", "Term", "made_of", "require_operator",
]  # fmt: skip

Array = Any

SMALLEST_SCALE = 1e-100
"""Least size of the largest matrix element of an operator that is not 0: of the squares of energies
of 1e-160 nothing is left, and an error of 0 would be printed."""


class _DiagonalForm(NamedTuple):
    """<s|H|s> = constant + phi . linear + phi Q phi + sum over patches of table[local state].

    phi is one-hot, without state 0: entry (a - 1) * N + i is 1 where s_i = a.
    """

    constant: float
    linear: np.ndarray  #: (F,), F = N (d - 1)
    quadratic: np.ndarray  #: (F, F) upper triangular, or (0, 0) where no pair interacts
    tables: Mapping[Patch, np.ndarray]  #: patches of 3 sites and more -> (d^k,)


@dataclass(frozen=True, eq=False)
class Operator(Arithmetic):
    """A Hermitian operator on a lattice: a sum of local terms.

    A configuration s is a row of small integers 0..d-1 (spin-1/2: 0 up, 1 down; Rydberg: 1
    excited).  The local value of an operator in a state psi is::

        diagonal(s) + sum over patches and r of elements[a(s), r] * psi(s') / psi(s)

    where a(s) is the local state of the patch and s' has targets[a(s), r] in its place.
    Operators on one lattice can be added (numbers, too), subtracted, multiplied (A @ B) and scaled;
    what is not Hermitian then is a `NonHermitian`.  Tables are derived from the terms on first use.

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
    magnetisation: int | None = None
    """Twice the total Sz of the sector that is meant, if one is; of fermions see `Strings`."""
    fermions: Fermions | None = None  #: what local states hold; None: spins
    strings: Strings | None = field(init=False, repr=False)  #: signs of fermions
    weights: tuple[int, ...] = field(init=False, repr=False)
    """What each local state adds to what is conserved; of spins itself."""

    def __post_init__(self) -> None:
        require_lattice(f"Operator {self.name!r}", self.lattice)
        set_whole(self, {"local_dim": 2})
        strings = self.fermions and Strings(self.fermions, mode_order(self.lattice))
        object.__setattr__(self, "strings", strings)
        weights = strings.weights if strings else tuple(range(self.local_dim))
        object.__setattr__(self, "weights", weights)
        terms = tuple(term.sorted() for term in self.terms)
        for term in terms:
            _check_on_lattice(term, self.lattice, self.local_dim)
            if self.fermions is not None and not self.fermions.keep_parity(term.matrix):
                raise ValueError(
                    f"term on sites {term.sites}: an odd number of c and c^; multiply by another"
                )
        largest = max((float(np.abs(term.matrix).max()) for term in terms), default=0.0)
        if 0 < largest < SMALLEST_SCALE:
            raise ValueError(
                f"{self.name}: the largest matrix element is {largest:.3g}, the smallest that is "
                f"taken is {SMALLEST_SCALE:g}, since squares of energies would underflow and "
                "errors become 0. Give the couplings in other units"
            )
        object.__setattr__(self, "terms", terms)

    def _repr_html_(self) -> str:
        sizes = Counter(len(term.sites) for term in self.terms)
        each = [f"{sizes[n]} on {n} site{'s' * (n > 1)}" for n in sorted(sizes)]
        rows, lattice = [("terms", ", ".join(each) or "none")], self.lattice
        rows.append(("lattice", f"{lattice.kind}, {lattice.size}, {lattice.boundary}"))
        for name, value in (self.couplings or {}).items():
            rows.append((name, f"{np.size(value)} values" if np.ndim(value) else f"{value:g}"))
        rows += [("units", self.units), ("states a site", str(self.local_dim))]
        return Table(self.name, ("", ""), rows).html()

    @classmethod
    def _of_terms(cls, lattice: Lattice, terms: Iterable[Any], **about: Any) -> Operator:
        made = []
        for each in terms:
            if not is_listed(each) or len(each) != 2:
                hint = "Operator(lattice, terms) takes Terms"
                raise refuse("from_terms", "each term", each, "a pair (sites, matrix)", hint)
            made.append(Term(tuple(each[0]), each[1]))
        return cls(lattice, tuple(made), **about)

    @cached_property
    def n_sites(self) -> int:
        """Number of sites N."""
        return self.lattice.n_sites

    @cached_property
    def is_complex(self) -> bool:
        """Whether some off-diagonal element has an imaginary part."""
        return any(np.iscomplexobj(r.elements) for r in self.replacements.values())

    @property
    def hermitian_parts(self) -> tuple[Operator, ...]:
        """Itself; a `NonHermitian` has two."""
        return (self,)

    @cached_property
    def conserves_magnetisation(self) -> bool:
        """Whether every off-diagonal element keeps the sum of `weights` (true if none is)."""
        for patch, replacement in self.replacements.items():
            sums = np.take(self.weights, digits_of(len(patch), self.local_dim)).sum(axis=1)
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
        tables = {patch: replacement_of(matrix) for patch, matrix in self.matrices.items()}
        return {patch: table for patch, table in tables.items() if table is not None}

    @property
    def targets(self) -> dict[Patch, np.ndarray]:
        """The tables of `replacements` alone, which is what `Ansatz.measure` takes."""
        return {patch: replacement.targets for patch, replacement in self.replacements.items()}

    def diagonal(self, configs: Array) -> Array:
        """Give <s|H|s> for configurations (B, N): float64 (B,), in the namespace of `configs`.

        One matrix product for all terms on one and two sites: cost B N^2 (d-1)^2, memory
        2 B N (d-1) floats; a look-up for each larger patch.  Values outside 0..d-1 are not noticed.
        """
        if configs.ndim != 2 or configs.shape[1] != self.n_sites:
            raise ValueError(
                f"diagonal of {self.name}: configurations of shape {tuple(configs.shape)}; "
                f"expected (B, {self.n_sites}), one row per configuration"
            )
        form, xp = self._diagonal, array_namespace(configs)
        total = xp.full((configs.shape[0],), form.constant, dtype=xp.float64)
        if np.any(form.linear) or form.quadratic.size:
            states = range(1, self.local_dim)
            codes = [xp.asarray(configs == state, dtype=xp.float64) for state in states]
            phi = codes[0] if len(codes) == 1 else xp.concat(codes, axis=1)
            total = total + phi @ to_namespace(form.linear, xp)
            if form.quadratic.size:
                total = total + xp.sum((phi @ to_namespace(form.quadratic, xp)) * phi, axis=1)
        for patch, table in form.tables.items():
            local = xp.zeros((configs.shape[0],), dtype=xp.int64)
            for site in patch:
                local = local * self.local_dim + xp.asarray(configs[:, site], dtype=xp.int64)
            total = total + xp.take(to_namespace(table, xp), local)
        return total

    def sparse(self, magnetisation: int | None = None) -> Any:
        """Build the matrix as scipy.sparse.csr_matrix, in the order of `basis`.

        `magnetisation` is twice the total Sz; None takes the full space.  ValueError where there is
        no such sector.  Cost: see `operators.basis.sparse_matrix`; memory is not looked at.
        """
        signs = None if self.strings is None else self.strings.signs
        states = self.states(magnetisation)
        return sparse_matrix(self.replacements, self.diagonal, states, signs)

    def states(self, magnetisation: int | None = None) -> Basis:
        """Give the states of a sector; arguments and errors are those of `sparse`."""
        if magnetisation is not None and not self.conserves_magnetisation:
            raise ValueError(
                f"{self.name} does not conserve the magnetisation, so there is no sector 2 Sz = "
                f"{magnetisation}. Leave the magnetisation out for the full space"
            )
        weights = self.weights if self.fermions else None
        return Basis(self.n_sites, self.local_dim, magnetisation, weights)

    @property
    def H(self) -> Operator:
        """The Hermitian conjugate, which is itself."""
        return self

    def _plus(self, other: Any) -> Any:
        if not isinstance(other, Operator):
            return super()._plus(other)
        units = self.units if self.units == other.units else "custom"
        terms, name = self.terms + other.terms, f"{self.name} + {other.name}"
        about = self.local_dim, units, name, None, common_magnetisation(self, other), self.fermions
        return Operator(self.lattice, terms, *about)

    def _times(self, factor: complex) -> Any:
        if np.iscomplexobj(factor):
            return super()._times(factor)
        terms = tuple(Term(term.sites, factor * term.matrix) for term in self.terms)
        return replace(self, terms=terms, name=f"{factor:g} ({self.name})", couplings=None)

    def _made(self, matrices: Matrices, name: str, units: str, sector: int | None) -> Any:
        about = {"local_dim": self.local_dim, "units": units, "fermions": self.fermions}
        return made_of(self.lattice, matrices, name, magnetisation=sector, **about)

    @cached_property
    def matrices(self) -> dict[Patch, np.ndarray]:
        """Per patch the sum of its terms, (d^k, d^k), with what is rounding set to zero.

        That is what is `ROUNDING` of the largest element of its term, and what is left of as much
        where terms cancel.  A small term beside a large one on the same sites stays.
        """
        sums = Sums()
        for term in self.terms:
            matrix = chopped(term.matrix, ROUNDING * np.abs(term.matrix).max())
            sums.add(term.sites, matrix, np.abs(matrix))
        return sums.rounded()

    @cached_property
    def _diagonal(self) -> _DiagonalForm:
        n, d = self.n_sites, self.local_dim
        constant, tables = 0.0, {}
        linear, quadratic = np.zeros((d - 1, n)), np.zeros((d - 1, n, d - 1, n))
        for patch, matrix in self.matrices.items():
            diagonal = np.diag(matrix).real
            table = diagonal.reshape((d,) * len(patch))
            if len(patch) == 1:
                constant += table[0]
                linear[:, patch[0]] += table[1:] - table[0]
            elif len(patch) == 2:
                i, j = patch
                constant += table[0, 0]
                linear[:, i] += table[1:, 0] - table[0, 0]
                linear[:, j] += table[0, 1:] - table[0, 0]
                quadratic[:, i, :, j] += table[1:, 1:] - table[1:, :1] - table[:1, 1:] + table[0, 0]
            elif np.any(diagonal):
                tables[patch] = diagonal
        pairs = quadratic.reshape(linear.size, linear.size)
        pairs = pairs if np.any(pairs) else np.zeros((0, 0))
        return _DiagonalForm(float(constant), linear.reshape(-1), pairs, tables)


@dataclass(frozen=True, eq=False)
class NonHermitian(Arithmetic):
    """An operator O = A + i B, held as two Hermitian ones: an observable for `VMC.expect`.

    A = (O + O^dagger) / 2 gives the real part of a mean and B = (O - O^dagger) / 2i the imaginary
    one.  Sums, multiples and products are those of `Operator`.  It is no Hamiltonian.
    """

    real: Operator  #: A
    imaginary: Operator  #: B

    def __post_init__(self) -> None:
        for name in ("lattice", "local_dim", "units", "magnetisation", "fermions", "strings"):
            object.__setattr__(self, name, getattr(self.real, name))
        object.__setattr__(self, "name", self.real.name.removeprefix("real part of "))

    @classmethod
    def _of_terms(
        cls, lattice: Lattice, terms: Iterable[Any], name: str = "operator", **about: Any
    ) -> NonHermitian:
        made: dict[str, list[Term]] = {"real": [], "imaginary": []}
        for sites, matrix in terms:
            for which, part in zip(made, hermitian_parts({tuple(sites): np.asarray(matrix)}, 0.0)):
                made[which] += [Term(patch, half) for patch, half in part.items()]
        real, imaginary = (
            Operator(lattice, tuple(part), name=f"{which} part of {name}", **about)
            for which, part in made.items()
        )
        return cls(real, imaginary)

    @property
    def hermitian_parts(self) -> tuple[Operator, ...]:
        """A and B, without one that is zero."""
        return tuple(part for part in (self.real, self.imaginary) if part.terms)

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

    _made = Operator._made


def made_of(
    lattice: Lattice, matrices: Matrices, name: str = "operator", **about: Any
) -> Operator | NonHermitian:
    """Make an `Operator` of matrices that are Hermitian up to rounding, of others a `NonHermitian`.

    `matrices` are (d^k, d^k) by patch, sites in increasing order; `about` other fields.
    """
    parts = hermitian_parts(matrices, HERMITIAN_TOLERANCE)
    names = (f"real part of {name}", f"imaginary part of {name}") if parts[1] else (name, name)
    real, imaginary = (
        Operator(lattice, tuple(Term(*placed) for placed in part.items()), name=its_name, **about)
        for part, its_name in zip(parts, names, strict=True)
    )
    return NonHermitian(real, imaginary) if parts[1] else real


def require_operator(where: str, name: str, value: Any) -> None:
    """Raise TypeError, with what to write, for what is no Hermitian operator."""
    hint = ""
    match value:
        case Operator():
            return
        case NonHermitian():
            raise TypeError(
                f"VMC: {value.name} is a NonHermitian, an observable for VMC.expect; a Hamiltonian "
                "is an Operator. Add the Hermitian conjugate, or take its Hermitian part, .real"
            )
        case Lattice():
            hint = "a model makes one of a lattice: heisenberg(lattice)"
        case Term() | list() | tuple():
            hint = "write Operator.from_terms(lattice, [...])"
        case str():
            hint = "names are for files; call the model, as heisenberg(lattice)"
        case type():
            pass
        case _ if callable(value) and hasattr(value, "__name__"):
            hint = f"call it: {value.__name__}(lattice)"
        case _ if hasattr(value, "shape"):
            hint = "a matrix on some sites is Operator.from_terms(lattice, [(sites, matrix)])"
    raise refuse(where, name, value, "an Operator, as heisenberg(square(4, 4))", hint)


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
