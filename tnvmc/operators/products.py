"""Operators written as text: "Sx Sx + Sy Sy", on bonds or sites, with couplings.

A text is a sum of products.  A product is a number (where it is not 1) and one name for each site,
with blanks between: "0.5 S+ S- + 0.5 S- S+", "1/4 X X", "-Sz", "0.5i S+ S- - 0.5i S- S+".  The
names are those of `named_matrices`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tnvmc.backend.arguments import whole
from tnvmc.lattice.lattice import Lattice, Patch
from tnvmc.lattice.netket import as_lattice
from tnvmc.operators.couplings import Coupling, bonds_of_kind, per_place
from tnvmc.operators.spin import kron, named_matrices

Where = Any
"""A kind of bonds ("nearest", "diagonal"), "all" (sites), or a list of sites or of tuples of sites."""

MAX_WIDTH = 1024
"""Largest d^k of a term on k sites: ten spins 1/2, six spins 1.  Its matrix has that many rows."""

LEAST_RATIO = 1e-13
"""Of the numbers of one text: what is smaller would pass for rounding beside the largest."""

EVERY_SITE = "all"
NEXT_NEAREST = "next_nearest"  # what others call the bonds of kind "diagonal"

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(
    rf"\s*(?:(?P<number>{_NUMBER}(?:\s*/\s*{_NUMBER})?[ij]?(?![\w.]))"
    r"|(?P<name>S[+-]|[A-Za-z]\w*)|(?P<sign>[+-]))"
)

Placed = tuple[Patch, np.ndarray]
"""Sites, in the order of the factors, and a matrix (d^k, d^k)."""


def product_matrix(text: str, local_dim: int = 2) -> np.ndarray:
    """Give the matrix (d^k, d^k) of a sum of products on k sites; real where it can be.

    Raises:
        TypeError: no text.
        ValueError: what cannot be read, with the column; an unknown name, products of different
            lengths, on more sites than `most_sites`, numbers more than 1e13 apart.
    """
    if not isinstance(text, str):
        raise TypeError(f'{text!r} is no product; give a text, as "Sx Sx + Sy Sy"')
    known = named_matrices(local_dim)
    products = list(_products(text, known))
    lengths = sorted({len(names) for _, names in products})
    if len(lengths) > 1:
        raise ValueError(
            f"{text!r}: products on {lengths[0]} and on {lengths[-1]} sites; give them as terms of "
            "their own, or fill the shorter one with I"
        )
    if lengths[-1] > most_sites(local_dim):
        raise ValueError(
            f"{text!r}: a product on {lengths[-1]} sites; at most {most_sites(local_dim)} can be"
        )
    sizes = [abs(number) for number, _ in products if number]
    if sizes and not np.isfinite(max(sizes)):
        raise ValueError(f"{text!r}: an infinite number")
    if sizes and min(sizes) < LEAST_RATIO * max(sizes):
        raise ValueError(
            f"{text!r}: numbers from {min(sizes):g} to {max(sizes):g}, beside which the smallest "
            "would pass for rounding; give them as terms of their own"
        )
    factors = (number * kron(*(known[name] for name in names)) for number, names in products)
    matrix = np.asarray(sum(factors))
    return matrix if np.any(matrix.imag) else matrix.real


def placed_products(
    lattice: Lattice, products: Iterable[Sequence[Any]], local_dim: int = 2
) -> Iterator[Placed]:
    """Give sites and matrix of each place of (text, where) or (text, where, coupling).

    Raises:
        ValueError: as `place`, with the number of the term, counted from 1.
    """
    lattice = as_lattice(lattice)
    local_dim = whole("Operator", "local_dim", local_dim, 2)
    for number, product in enumerate(products, 1):
        if (
            isinstance(product, str)
            or not isinstance(product, Sequence)
            or len(product) not in _2_3
        ):
            raise ValueError(
                f"term {number}: {product!r} is no (text, where) or (text, where, coupling), as "
                '("Sx Sx + Sy Sy", "nearest", 1.0)'
            )
        try:
            yield from place(lattice, *product, local_dim=local_dim)
        except ValueError as error:
            raise ValueError(f"term {number}: {error}") from None


_2_3 = (2, 3)


def place(
    lattice: Lattice, text: str, where: Where, coupling: Coupling = 1.0, *, local_dim: int = 2
) -> list[Placed]:
    """Put a product on bonds or sites, each times its coupling.

    Bonds of a list have the direction in which they are given: the first factor acts on the first
    site.  So have those of a kind on a lattice `from_bonds`; on grids they lead down, or to the right
    within a row, and over the boundary where they close a ring (`Lattice.directed`).

    Args:
        lattice: whose sites and bonds are meant.
        text: see the module.
        where: a kind of bonds; "all" sites; a list of tuples of sites, of site indices for a product
            on one site; one tuple for one place.
        coupling: a number, which may be complex; one for each place; a mapping from place to number.
        local_dim: number of states of a site.

    Raises:
        ValueError: as `product_matrix`; sites or bonds that are not there, or twice; couplings that
            do not fit.
    """
    matrix = product_matrix(text, local_dim)
    n_factors = round(np.log(len(matrix)) / np.log(local_dim))
    try:
        places = _places(lattice, where, matrix, n_factors)
        _check_twice(places, matrix)
        keys = [sites[0] for sites in places] if n_factors == 1 else places
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    numbers = per_place(f"of {text!r}", coupling, keys, "site" if n_factors == 1 else "bond")
    return [(sites, number * matrix) for sites, number in zip(places, numbers, strict=True)]


def most_sites(local_dim: int) -> int:
    """Give the largest number of sites k of one term: d^k is at most `MAX_WIDTH`."""
    return max(k for k in range(1, MAX_WIDTH.bit_length()) if local_dim**k <= MAX_WIDTH)


def joined(terms: Iterable[Placed]) -> list[Placed]:
    """Sum up, by sites, those matrices that are not Hermitian alone: S+ S- of one term, S- S+ of another."""
    alone: list[Placed] = []
    sums: dict[Patch, np.ndarray] = {}
    for sites, matrix in terms:
        patch, ordered = in_site_order(sites, matrix)
        if np.array_equal(ordered, ordered.conj().T):
            alone.append((patch, ordered))
        else:
            sums[patch] = sums.get(patch, 0) + ordered
    return alone + list(sums.items())


def in_site_order(sites: Patch, matrix: np.ndarray) -> Placed:
    """Give sites in increasing order, and the matrix to match."""
    k = len(sites)
    order = sorted(range(k), key=sites.__getitem__)
    if order == list(range(k)):
        return tuple(sites), matrix
    d = round(len(matrix) ** (1 / k))
    legs = matrix.reshape((d,) * (2 * k)).transpose(order + [k + j for j in order])
    return tuple(sorted(sites)), legs.reshape(matrix.shape)


def _products(text: str, known: dict[str, np.ndarray]) -> Iterator[tuple[complex, list[str]]]:
    """Read a text: number and names of each product."""
    number, names, expects = complex(1), list[str](), "a number or a name"
    sign, begun, at = 1, False, 0
    stripped = text.rstrip()
    while at < len(stripped):
        found = _TOKEN.match(stripped, at)
        if found is None:
            blanks = len(stripped[at:]) - len(stripped[at:].lstrip())
            raise _unreadable(
                text, at + blanks, "cannot be read here; give names, numbers, + and -"
            )
        start, token = found.start(found.lastgroup or 0), found.group().strip()
        if found.lastgroup == "sign":
            if names:
                yield sign * number, names
                number, names, sign = complex(1), [], 1
            elif begun:
                raise _unreadable(text, start, f"{token!r} stands where {expects} is expected")
            sign, begun = (-1 if token == "-" else 1), True
        elif found.lastgroup == "number":
            if names or number != 1:
                raise _unreadable(text, start, "a number stands first in its product, and alone")
            number, begun, expects = _number(token), True, "a name"
        else:
            if token not in known:
                raise _unreadable(text, start, _unknown(token, known))
            names.append(token)
            begun = True
        at = found.end()
    if not names:
        raise _unreadable(text, len(stripped), "an operator is missing; I is the identity")
    yield sign * number, names


def _number(token: str) -> complex:
    factor = 1j if token[-1] in "ij" else 1
    above, *below = token.rstrip("ij").split("/")
    if below and float(below[0]) == 0:
        raise ValueError(f"{token!r} is divided by 0")
    return factor * float(above) / (float(below[0]) if below else 1.0)


def _unreadable(text: str, at: int, why: str) -> ValueError:
    return ValueError(f"{text!r}, column {at + 1}: {why}")


def _unknown(name: str, known: dict[str, np.ndarray]) -> str:
    lowered = {word.lower(): word for word in known}
    close = difflib.get_close_matches(name.lower(), lowered, 1, cutoff=0.5)
    local_dim = len(known["I"])
    if name in named_matrices(2):
        meant = f"; {name} is for local dimension 2"
    else:
        meant = f"; did you mean {lowered[close[0]]!r}?" if close else ""
    told = " ".join(known)
    return f"unknown operator {name!r}{meant} (for local dimension {local_dim} there are {told})"


def _places(lattice: Lattice, where: Where, matrix: np.ndarray, n_factors: int) -> list[Patch]:
    if isinstance(where, str):
        return _of_kind(lattice, where, matrix, n_factors)
    given = where.tolist() if isinstance(where, np.ndarray) else where
    if not isinstance(given, Iterable):
        given = [given]
    given = list(given)
    if given and all(not isinstance(each, Iterable) for each in given):  # sites, or one place
        given = [(each,) for each in given] if n_factors == 1 else [given]
    return [_checked(each, lattice.n_sites, n_factors) for each in given]


def _of_kind(lattice: Lattice, kind: str, matrix: np.ndarray, n_factors: int) -> list[Patch]:
    if kind == EVERY_SITE:
        if n_factors != 1:
            raise ValueError(
                f"'all' sites are for a product on one site, this one is on {n_factors}; give a "
                "kind of bonds, or a list of tuples of sites"
            )
        return [(site,) for site in range(lattice.n_sites)]
    if n_factors != 2:
        raise ValueError(
            f"bonds of kind {kind!r} join two sites, and the product is on {n_factors}; give "
            + ("'all' or a list of sites" if n_factors == 1 else "a list of tuples of sites")
        )
    if kind == NEXT_NEAREST and kind not in lattice.bonds:
        kind = "diagonal"
    bonds = list(bonds_of_kind(lattice, kind, "product"))
    if np.array_equal(matrix, in_site_order((1, 0), matrix)[1]):
        return bonds
    directed = lattice.directed(kind)
    if directed is None:
        raise ValueError(
            "it is not the same in both directions of a bond, and the directions of this lattice's "
            f"bonds are not known; give a list of bonds instead of {kind!r}, each in the direction "
            "that is meant"
        )
    return list(directed)


def _checked(sites: Any, n_sites: int, n_factors: int) -> Patch:
    given = tuple(sites) if isinstance(sites, Iterable) and not isinstance(sites, str) else (sites,)
    whole = all(isinstance(s, int | np.integer) and not isinstance(s, bool) for s in given)
    if not whole:
        raise ValueError(f"{sites!r} is no tuple of site indices")
    if len(given) != n_factors or len(set(given)) != n_factors:
        raise ValueError(f"sites {given}; the product is on {n_factors} different sites")
    if min(given) < 0 or max(given) >= n_sites:
        raise ValueError(f"sites {given}; the lattice has sites 0..{n_sites - 1}")
    return tuple(int(site) for site in given)


def _check_twice(places: list[Patch], matrix: np.ndarray) -> None:
    """Refuse a place that is given again, also in another order that changes the sign at most."""
    seen: dict[Patch, list[tuple[Patch, np.ndarray]]] = {}
    for sites in places:
        patch, here = in_site_order(sites, matrix)
        for other, there in seen.get(patch, ()):
            if np.array_equal(here, there) or np.array_equal(here, -there):
                told = "counted twice" if np.array_equal(here, there) else "nothing"
                raise ValueError(
                    f"{sites} and {other} are the same sites, and the product on both is {told}; "
                    "give it once"
                )
        seen.setdefault(patch, []).append((sites, here))
