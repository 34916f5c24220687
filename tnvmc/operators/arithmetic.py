"""Sums, multiples, products and commutators of operators, patch by patch."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from numbers import Complex
from typing import Any, Self

import numpy as np

from tnvmc.backend.arguments import whole
from tnvmc.backend.namespace import read_only
from tnvmc.lattice.lattice import Lattice, Patch
from tnvmc.operators.fermions import Fermions, Strings
from tnvmc.operators.local_term import ROUNDING, chopped
from tnvmc.operators.products import joined, placed_products
from tnvmc.operators.spin import MAX_WIDTH, in_site_order, most_sites, real_if_possible

Matrices = Mapping[Patch, np.ndarray]
"""Sites in increasing order, and the sum (d^k, d^k) of what acts on them."""

MAX_PAIRS = 100_000
"""Most products of two terms in a product: some 20 seconds, and a matrix for each."""


def _with_operator(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Take a number for that multiple of one, and leave what is no operator to that operand."""

    @wraps(method)
    def of(self: Any, other: Any) -> Any:
        if isinstance(other, Complex):
            one: Matrices = {(0,): np.eye(self.local_dim)}
            other = other * self._made(one, "identity", self.units, self.magnetisation)
        return method(self, other) if isinstance(other, Arithmetic) else NotImplemented

    return of


class Arithmetic:
    """What an `Operator` and a `NonHermitian` can do with each other.

    The matrices decide which one comes out: i (S+ S- - S- S+) is an `Operator`, S+ S- is not.
    """

    lattice: Lattice
    local_dim: int
    name: str
    units: str
    magnetisation: int | None
    fermions: Fermions | None
    strings: Strings | None
    __array_ufunc__ = None  # NumPy's numbers and arrays leave what they do not know to this class

    @classmethod
    def from_terms(
        cls, lattice: Lattice, terms: Iterable[tuple[Iterable[int], Any]], *, local_dim: int = 2,
        units: str = "custom", name: str = "operator", fermions: Fermions | None = None,
    ) -> Self:  # fmt: skip
        """Build an operator from (sites, matrix) pairs, sites in any order.

        Raises:
            ValueError: as `Term` and `Operator`; matrices of a `NonHermitian` may be any.
        """
        local_dim = len(fermions.odd) if fermions else local_dim
        about: Any = {"local_dim": local_dim, "units": units, "name": name, "fermions": fermions}
        return cls._of_terms(lattice, terms, **about)

    @classmethod
    def from_products(
        cls, lattice: Lattice, products: Iterable[Sequence[Any]], *, local_dim: int = 2,
        units: str = "custom", name: str = "operator", fermions: Fermions | None = None,
    ) -> Self:  # fmt: skip
        """Build an operator from texts: ("Sx Sx + Sy Sy", "nearest", 1.0), ("Sz", "all", 0.3).

        Args:
            lattice: of which sites and bonds are meant.
            products: (text, where) or (text, where, coupling), see `products.place`: numbers before
                names, Sx Sy Sz S+ S- I for any spin, X Y Z n for d = 2; a kind of bonds, "all"
                sites, or a list of tuples of sites; a number, or one for each place.
            local_dim, units, name, fermions: of the operator.

        Raises:
            ValueError: as `products.place`; as an `Operator` a sum that is not Hermitian on some
                sites, which is a `NonHermitian`.
        """
        kind = fermions or whole("Operator", "local_dim", local_dim, 2)
        terms = joined(placed_products(lattice, products, kind))
        about: Any = {"units": units, "name": name, "fermions": fermions}
        return cls.from_terms(lattice, terms, local_dim=local_dim, **about)

    @classmethod
    @abstractmethod
    def _of_terms(cls, lattice: Lattice, terms: Iterable[Any], **about: Any) -> Self:
        """Make an operator of (sites, matrix) pairs; `about` are other fields of an `Operator`."""

    @property
    @abstractmethod
    def matrices(self) -> Matrices:
        """Per patch the sum of its terms, (d^k, d^k)."""

    @abstractmethod
    def _made(self, matrices: Matrices, name: str, units: str, sector: int | None) -> Any:
        """Make an operator on the same lattice; `sector` is its magnetisation."""

    def _plus(self, other: Any) -> Any:
        sums = Sums()
        for part in (self, other):
            for patch, matrix in part.matrices.items():
                sums.add(patch, matrix, np.abs(matrix))
        units = self.units if self.units == other.units else "custom"
        sector = common_magnetisation(self, other)
        return self._made(sums.rounded(), f"{self.name} + {other.name}", units, sector)

    def _times(self, factor: complex) -> Any:
        scaled = {patch: factor * matrix for patch, matrix in self.matrices.items()}
        return self._made(scaled, f"{factor:g} ({self.name})", self.units, self.magnetisation)

    @_with_operator
    def __add__(self, other: Any) -> Any:
        _check_alike(self, other, "add")
        return self._plus(other)

    def __radd__(self, other: Any) -> Any:
        return self if np.isscalar(other) and other == 0 else self + other  # what sum() begins by

    def __mul__(self, factor: Any) -> Any:
        if not isinstance(factor, Complex):
            return NotImplemented
        number = complex(factor)
        return self._times(number if number.imag else number.real)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Any:
        if np.isscalar(divisor) and divisor == 0:
            raise ValueError(f"{self.name} / {divisor!r}: an operator cannot be divided by 0")
        return self * (1.0 / divisor)

    def __neg__(self) -> Any:
        return -1.0 * self

    @_with_operator
    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    @_with_operator
    def __matmul__(self, other: Any) -> Any:
        """Give the product: self @ other acts on a state with `other` first."""
        _check_alike(self, other, "multiply")
        pairs = [(p, q) for p in self.matrices for q in other.matrices]
        _check_pairs(self, other, pairs)
        found = _product(self, other, pairs)
        sector = common_magnetisation(self, other)
        return self._made(found.rounded(), f"({self.name}) ({other.name})", "custom", sector)

    def __pow__(self, power: Any) -> Any:
        power = whole("operator", "a power", power, 1)
        found = self
        for _ in range(power - 1):
            found = found @ self
        return found


def commutator(left: Arithmetic, right: Arithmetic) -> Any:
    """Give [A, B] = A B - B A, from the pairs of terms that share a site.

    Of two Hermitian operators it is a `NonHermitian`, or an `Operator` without terms.

    >>> from tnvmc import Operator, chain, commutator
    >>> x, y = (Operator.from_products(chain(2), [(s, [0])]) for s in ("Sx", "Sy"))
    >>> (-1j * commutator(x, y)).matrices[0,]  # Sz
    array([[ 0.5,  0. ],
           [ 0. , -0.5]])

    Raises:
        TypeError: one is no operator.
        ValueError: other lattices or local states; a pair on too many sites; too many pairs.
    """
    _check_alike(left, right, "commute")
    pairs = [(p, q) for p in left.matrices for q in right.matrices if set(p) & set(q)]
    _check_pairs(left, right, pairs)
    found = _product(left, right, pairs)
    back = _product(right, left, [(q, p) for p, q in pairs])
    for patch, matrix in back.sums.items():
        found.add(patch, -matrix, back.sizes[patch])
    sector = common_magnetisation(left, right)
    return left._made(found.rounded(), f"[{left.name}, {right.name}]", "custom", sector)


def hermitian_parts(matrices: Matrices, tolerance: float) -> tuple[Matrices, Matrices]:
    """Split O = A + i B into its Hermitian parts A and B; patches without one are left out of it.

    `tolerance` is the largest |O - O^dagger| of a patch, over its largest |O|, that is rounding.
    """
    real, imaginary = {}, {}
    for patch, matrix in matrices.items():
        back = matrix.conj().T
        gap = np.abs(matrix - back).max()
        real[patch] = real_if_possible((matrix + back) / 2)
        if gap > tolerance * np.abs(matrix).max():
            imaginary[patch] = real_if_possible((matrix - back) / 2j)
    return {patch: matrix for patch, matrix in real.items() if np.any(matrix)}, imaginary


def common_magnetisation(left: Arithmetic, right: Arithmetic) -> int | None:
    """Give the sector that two operators are meant for; ValueError for two different ones."""
    asked = {each.magnetisation for each in (left, right)} - {None}
    if len(asked) > 1:
        raise ValueError(
            f"{left.name} is meant for 2 Sz = {left.magnetisation}, {right.name} for "
            f"{right.magnetisation}: operators of one sector only can be joined"
        )
    return asked.pop() if asked else None


class Sums:
    """Matrices by patch, with the sizes of what was added, which tell rounding from numbers."""

    def __init__(self) -> None:
        self.sums: dict[Patch, np.ndarray] = {}
        self.sizes: dict[Patch, np.ndarray] = defaultdict(lambda: np.zeros(()))

    def add(self, patch: Patch, matrix: np.ndarray, size: np.ndarray) -> None:
        """Add a matrix on a patch, with the size of each of its elements."""
        self.sums[patch] = self.sums[patch] + matrix if patch in self.sums else matrix
        self.sizes[patch] = self.sizes[patch] + size

    def rounded(self) -> dict[Patch, np.ndarray]:
        """Give the sums, read-only, with what is left of terms that cancel set to zero."""
        found = {p: chopped(m, ROUNDING * self.sizes[p]) for p, m in sorted(self.sums.items())}
        return {p: read_only(matrix) for p, matrix in found.items()}


def _product(left: Arithmetic, right: Arithmetic, pairs: Iterable[tuple[Patch, Patch]]) -> Sums:
    """Multiply the terms of each pair on all sites that either of them acts on."""
    found = Sums()
    for p, q in pairs:
        patch, h, k = tuple(sorted({*p, *q})), left.matrices[p], right.matrices[q]
        if len(patch) == len(p) + len(q) and left.strings is None:
            matrix = in_site_order((*p, *q), np.kron(h, k))[1]
            found.add(patch, matrix, np.abs(matrix))
        else:
            a, b = (widened(*each, patch, left.local_dim) for each in ((p, h), (q, k)))
            if left.strings is not None:
                a, b = (left.strings.within(*each, patch) for each in ((p, a), (q, b)))
            found.add(patch, a @ b, np.abs(a) @ np.abs(b))
    return found


def widened(sites: Patch, matrix: np.ndarray, patch: Patch, local_dim: int) -> np.ndarray:
    """Give a matrix on some sites of a patch as one on all of it."""
    others = tuple(site for site in patch if site not in sites)
    if not others:
        return matrix
    return in_site_order((*sites, *others), np.kron(matrix, np.eye(local_dim ** len(others))))[1]


def _check_alike(left: Arithmetic, right: Arithmetic, verb: str) -> None:
    if not all(hasattr(each, "matrices") for each in (left, right)):
        raise TypeError(f"cannot {verb} {left!r} and {right!r}: both must be operators")
    common_magnetisation(left, right)
    if left.fermions != right.fermions:
        raise ValueError(f"cannot {verb} {left.name} and {right.name}: of other particles")
    if left.lattice != right.lattice or left.local_dim != right.local_dim:
        raise ValueError(
            f"cannot {verb} {left.name} on {left.lattice} with d = {left.local_dim} and "
            f"{right.name} on {right.lattice} with d = {right.local_dim}: both must act on "
            "the same lattice (same bonds and coordinates, too) and local states"
        )


def _check_pairs(left: Arithmetic, right: Arithmetic, pairs: list[tuple[Patch, Patch]]) -> None:
    what = f"product of {left.name} and {right.name}"
    if len(pairs) > MAX_PAIRS:
        raise ValueError(
            f"{what}: terms on {len(left.matrices)} and on {len(right.matrices)} patches of sites "
            f"make {len(pairs)} products, at most {MAX_PAIRS} are made. Multiply the parts that "
            "matter, or take commutator(A, B), which makes those that share a site"
        )
    widest = max(pairs, key=lambda pair: len({*pair[0], *pair[1]}), default=((), ()))
    n_sites = len({*widest[0], *widest[1]})
    if n_sites > most_sites(left.local_dim):
        raise ValueError(
            f"{what}: the terms on {widest[0]} and {widest[1]} act on {n_sites} sites together; "
            f"with local dimension {left.local_dim} a term may act on "
            f"{most_sites(left.local_dim)}, where its matrix is at most {MAX_WIDTH} wide. Multiply "
            "parts that lie closer together"
        )
