"""Operators written as text: "Sx Sx + Sy Sy", on bonds or sites, with couplings.

A text is a sum of products.  A product is a number (where it is not 1) and one name for each site,
with blanks between: "0.5 S+ S- + 0.5 S- S+", "1/4 X X", "-Sz", "0.5i S+ S- - 0.5i S- S+".  The
names are those of `named_matrices`, with a power where one is wanted: "Sz^2".
"""

import difflib
import re
import warnings
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from tnvmc.backend.arguments import ArgumentWarning, is_listed, is_whole, level_of_caller, unmasked
from tnvmc.lattice.lattice import Lattice, Patch, require_lattice
from tnvmc.operators.fermions import Fermions, mode_order
from tnvmc.operators.spin import in_site_order, kron, most_sites, named_matrices, real_if_possible

Where = Any
"""A kind of bonds ("nearest"), "all" (sites), or a list of sites or of tuples of sites."""

Coupling = Any
"""A number, a mapping from bond (i, j) or site i to number, or an array in the order of
`lattice.bonds[kind]` or of the sites."""

LEAST_RATIO = 1e-13
"""Of the numbers of one text: what is smaller would pass for rounding beside the largest."""

EVERY_SITE = "all"

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_NUMBERS = re.compile(rf"{_NUMBER}(?:\s*/\s*{_NUMBER})?[ij]?(?![\w.])")
_NAME = re.compile(r"(?:S[+-]|[bc]\^(?:up|dn)?(?!\w)|[A-Za-z]\w*)(?:\^[1-9]\d?)?")
_PRODUCT = re.compile(
    rf"\s*(?P<sign>[+-]?)\s*(?P<number>{_NUMBERS.pattern})?\s*"
    rf"(?P<names>(?:(?:{_NAME.pattern})\s*)*)"
)

Placed = tuple[Patch, np.ndarray]
"""Sites, in the order of the factors, and a matrix (d^k, d^k)."""


def fermions_of(kind: Any) -> Fermions | None:
    """Give the fermions of a site; None where it has a spin."""
    return kind if isinstance(kind, Fermions) else None


def product_matrix(text: str, kind: Any = 2, order: Sequence[int] | None = None) -> np.ndarray:
    """Give the matrix (d^k, d^k) of a sum of products on k sites; real where it can be.

    Of fermions it depends on the `order` of the sites' modes, 0 .. k-1 by default.

    Raises:
        TypeError: no text.
        ValueError: what cannot be read, with the column; an unknown name, products of different
            lengths, on more sites than `most_sites`, numbers more than 1e13 apart.
    """
    if not isinstance(text, str):
        raise TypeError(f'{text!r} is no product; give a text, as "Sx Sx + Sy Sy"')
    fermions = fermions_of(kind)
    known = fermions.named_matrices() if fermions else named_matrices(kind)
    local_dim = len(known["I"])
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
    total: Any = 0
    for number, names in products:
        factors = [_powered(name, known) for name in names]
        order = range(len(factors)) if order is None else order
        made = fermions.product(factors, order) if fermions else kron(*factors)
        total = total + number * made
    return real_if_possible(np.asarray(total))


def placed_products(
    lattice: Lattice, products: Iterable[Sequence[Any]], kind: Any = 2
) -> Iterator[Placed]:
    """Give sites and matrix of each place of (text, where[, coupling]): see `place`."""
    require_lattice("Operator", lattice)
    for number, product in enumerate(products, 1):
        if not is_listed(product) or not 2 <= len(product) <= 3:
            raise ValueError(
                f"term {number}: {product!r} is no (text, where) or (text, where, coupling), as "
                '("Sx Sx + Sy Sy", "nearest", 1.0)'
            )
        try:
            yield from place(lattice, *product, kind=kind)
        except ValueError as error:
            raise ValueError(f"term {number}: {error}") from None


def place(
    lattice: Lattice, text: str, where: Where, coupling: Coupling = 1.0, *, kind: Any = 2
) -> list[Placed]:
    """Put a product on bonds or sites, each times its coupling.

    The first factor acts on the first site of a bond.  Bonds of a list, and of a lattice
    `from_bonds`, have the direction in which they are given; for grids see `Lattice.directed`.

    Args:
        where: a kind of bonds; "all" sites; a list of tuples of sites, or of sites for a product on
            one site; one tuple for one place.
        coupling: a number, also a complex one; one for each place; a mapping from place to number.
        kind: number of states of a spin, or which fermions a site holds.

    Raises:
        ValueError: as `product_matrix`; sites or bonds that are not there, or twice; couplings that
            do not fit.
    """
    rank = np.argsort(mode_order(lattice))

    @cache
    def ordered(*order: int) -> np.ndarray:
        return product_matrix(text, kind, order or None)

    matrix = ordered()
    fermions = fermions_of(kind)
    d = len(fermions.odd) if fermions else kind
    n_factors = round(np.log(len(matrix)) / np.log(d))
    try:
        turned = in_site_order((1, 0), ordered(1, 0))[1] if n_factors == 2 else matrix
        places = _places(lattice, where, np.array_equal(matrix, turned), n_factors)
        matrices = [matrix] * len(places)
        if fermions is not None:
            matrices = [ordered(*np.argsort(rank[list(sites)]).tolist()) for sites in places]
        _check_twice(places, matrices)
        keys = [sites[0] for sites in places] if n_factors == 1 else places
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    what = "site" if n_factors == 1 else "bond"
    numbers = _one_each(f"of {text!r}", coupling, keys, what, allowed="iufc")
    placed = zip(places, matrices, numbers, strict=True)
    return [(sites, number * here) for sites, here, number in placed]


def joined(terms: Iterable[Placed]) -> list[Placed]:
    """Sum up, by sites, the matrices that are not Hermitian alone, as S+ S- and S- S+."""
    alone: list[Placed] = []
    sums: dict[Patch, np.ndarray] = {}
    for sites, matrix in terms:
        patch, ordered = in_site_order(sites, matrix)
        if np.array_equal(ordered, ordered.conj().T):
            alone.append((patch, ordered))
        else:
            sums[patch] = sums.get(patch, 0) + ordered
    return alone + list(sums.items())


def _products(text: str, known: dict[str, np.ndarray]) -> Iterator[tuple[complex, list[str]]]:
    """Read a text: number and names of each product."""
    at, end = 0, len(text.rstrip())
    while not at or at < end:
        found = _PRODUCT.match(text, at)
        assert found is not None, "all of it may be missing"
        names = list(_NAME.finditer(text, *found.span("names")))
        for name in names:
            if (own := _power(name.group(), known)[0]) not in known:
                raise _unreadable(text, name.start(), _unknown(own, known))
        at = found.end()
        if at >= end and not names:
            raise _unreadable(text, end, "an operator is missing; I is the identity")
        if at < end and (not names or text[at] not in "+-"):
            why = "cannot be read here; give names, numbers, + and -"
            if _NUMBERS.match(text, at):
                why = "a number stands first in its product, and alone"
            raise _unreadable(text, at, why)
        number = _number(found["number"]) if found["number"] else complex(1)
        yield -number if found["sign"] == "-" else number, [name.group() for name in names]


def _powered(name: str, known: dict[str, np.ndarray]) -> np.ndarray:
    """The matrix of "Sz", or of "Sz^2"."""
    own, power = _power(name, known)
    return np.linalg.matrix_power(known[own], power)


def _power(name: str, known: Container[str]) -> tuple[str, int]:
    """The name and its power; the hat of "c^up" is none."""
    own, _, power = name.rpartition("^")
    return (own, int(power)) if power.isdigit() else (name, 1)


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
    if name in named_matrices(2):
        meant = f"; {name} is for local dimension 2"
    else:
        meant = f"; did you mean {lowered[close[0]]!r}?" if close else ""
    there_are = f"for local dimension {len(known['I'])} there are {' '.join(known)}"
    return f"unknown operator {name!r}{meant} ({there_are})"


def _places(lattice: Lattice, where: Where, symmetric: bool, n_factors: int) -> list[Patch]:
    if isinstance(where, str):
        return _of_kind(lattice, where, symmetric, n_factors)
    given = list(where) if np.iterable(where) else [where]
    if given and not any(map(np.iterable, given)):  # sites, or one place
        given = [(each,) for each in given] if n_factors == 1 else [given]
    return [_checked(each, lattice.n_sites, n_factors) for each in given]


def _of_kind(lattice: Lattice, kind: str, symmetric: bool, n_factors: int) -> list[Patch]:
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
    if kind == "next_nearest" and kind not in lattice.bonds:  # what others call "diagonal"
        kind = "diagonal"
    bonds = list(bonds_of_kind(lattice, kind, "product"))
    if symmetric:
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
    given = tuple(sites) if np.iterable(sites) else (sites,)
    if not all(map(is_whole, given)):
        raise ValueError(f"{sites!r} is no tuple of site indices")
    if len(given) != n_factors or len(set(given)) != n_factors:
        raise ValueError(f"sites {given}; the product is on {n_factors} different sites")
    if min(given) < 0 or max(given) >= n_sites:
        raise ValueError(f"sites {given}; the lattice has sites 0..{n_sites - 1}")
    return tuple(int(site) for site in given)


def _check_twice(places: list[Patch], matrices: list[np.ndarray]) -> None:
    """Refuse a place that is given again, also in another order that changes the sign at most."""
    known: dict[Patch, list[tuple[Patch, np.ndarray]]] = {}
    for sites, matrix in zip(places, matrices, strict=True):
        patch, here = in_site_order(sites, matrix)
        for other, there in known.get(patch, ()):
            if np.array_equal(here, there) or np.array_equal(here, -there):
                sum_is = "counted twice" if np.array_equal(here, there) else "nothing"
                raise ValueError(
                    f"{sites} and {other} are the same sites, and the product on both is {sum_is}; "
                    "give it once"
                )
        known.setdefault(patch, []).append((sites, here))


# --- couplings


def bonds_of_kind(lattice: Lattice, kind: str, model: str) -> tuple[Patch, ...]:
    """Give the bonds of a kind that a model needs; ValueError for a lattice without."""
    require_lattice(model, lattice)
    if kind not in lattice.bonds:
        terms = "; for other kinds of bonds take Operator.from_products, in a file model = 'terms'"
        other = terms if lattice.bonds and model != "product" else ""
        raise ValueError(
            f"{model}: lattice {lattice.kind!r} has no bonds of kind {kind!r}, only "
            f"{', '.join(map(repr, lattice.bonds)) or 'none at all'}. Choose a lattice that has "
            f"them, or from_bonds with a mapping from kind to bonds{other}"
        )
    if twice := lattice.joined_twice(kind):
        warnings.warn(
            f"{model}: {len(twice)} of the {len(lattice.bonds[kind])} bonds of kind {kind!r}, as "
            f"{twice[0]}, join sites that are as near the other way round a ring of the "
            f"{lattice.size} lattice; each counts once. A sum over both ways has twice the "
            "coupling, or none of a product that changes its sign with the direction",
            ArgumentWarning,
            stacklevel=level_of_caller(),
        )
    return lattice.bonds[kind]


def couplings(
    lattice: Lattice, model: str, kind: str, name: str, value: Coupling
) -> tuple[Sequence[Patch], np.ndarray, float | list[float]]:
    """Give the places of a coupling of a model, its number at each (n,), and both in plain numbers.

    `kind` is "all" for sites, else that of bonds, which a mapping may name in either direction.

    Raises:
        ValueError: a lattice without such bonds; a place without a coupling, a coupling without a
            place, or no finite real number.
    """
    require_lattice(model, lattice)
    if kind == EVERY_SITE:
        places: Sequence[Patch] = [(site,) for site in range(lattice.n_sites)]
        numbers = _one_each(name, value, range(lattice.n_sites), "site")
    else:
        places = bonds_of_kind(lattice, kind, model)
        if isinstance(value, Mapping):
            value = _either_way(name, value)
        numbers = _one_each(name, value, places, "bond")
    return places, numbers, numbers.tolist() if np.iterable(value) else float(value)


def _one_each(
    name: str, value: Coupling, places: Sequence[Any], what: str, allowed: str = "iuf"
) -> np.ndarray:
    """The coupling of every place, a "site" or a "bond": (n,), of the allowed kinds of dtype."""
    if isinstance(value, Mapping):
        _check_keys(name, value, places, what)
        value = [value[place] for place in places]
    numbers = unmasked(f"coupling {name}", value)
    if numbers.dtype.kind not in allowed and numbers.size:
        real = "" if "c" in allowed else "real "
        raise ValueError(f"coupling {name}: {value!r} is not a {real}number, nor {real}numbers")
    if numbers.ndim and numbers.shape != (len(places),):
        raise ValueError(
            f"coupling {name}: an array of shape {numbers.shape} for {len(places)} {what}s; give "
            f"one number, or one per {what} in the lattice's order"
        )
    if not np.isfinite(numbers).all():
        raise ValueError(f"coupling {name}: it holds an infinite or undefined number")
    if not places and numbers.any():
        warnings.warn(
            f"coupling {name}: {value!r} does nothing, as there is no {what} of its kind here; "
            "take a larger lattice, or a coupling of 0",
            ArgumentWarning,
            stacklevel=level_of_caller(),
        )
    dtype = np.complex128 if numbers.dtype.kind == "c" else np.float64
    return np.broadcast_to(numbers.astype(dtype), (len(places),))


def _check_keys(name: str, value: Mapping[Any, Any], places: Sequence[Any], what: str) -> None:
    missing = [place for place in places if place not in value]
    known = set(places)
    unknown = [place for place in value if place not in known]
    if missing or unknown:
        raise ValueError(
            f"coupling {name}: {len(missing)} of {len(places)} {what}s have none"
            + (f" (first: {missing[0]})" if missing else "")
            + f" and {len(unknown)} entries name no {what} of this kind"
            + (f" (first: {unknown[0]})" if unknown else "")
        )


def _either_way(name: str, value: Mapping[Any, Any]) -> dict[Patch, Any]:
    found: dict[Patch, Any] = {}
    for bond, number in value.items():
        try:
            i, j = bond
            found[min(i, j), max(i, j)] = number
        except (TypeError, ValueError) as error:
            raise ValueError(f"coupling {name}: key {bond!r} is not a bond (i, j)") from error
    if len(found) < len(value):
        raise ValueError(f"coupling {name}: a bond is given in both directions; give it once")
    return found
