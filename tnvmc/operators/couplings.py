"""Couplings given as one number for all bonds or sites, or one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tnvmc.lattice.lattice import Lattice, Patch, require_lattice

Coupling = Any
"""A number, a mapping from bond (i, j) or site i to number, or an array in the order of
`lattice.bonds[kind]` or of the sites."""


def bonds_of_kind(lattice: Lattice, kind: str, model: str) -> tuple[Patch, ...]:
    """Give the bonds of a kind that a model needs.

    Raises:
        ValueError: the lattice has no such kind.
    """
    require_lattice(model, lattice)
    if kind not in lattice.bonds:
        own_terms = (
            "; for other kinds of bonds take Operator.from_products, in a file model = 'terms'"
        )
        other = own_terms if lattice.bonds and model != "product" else ""
        raise ValueError(
            f"{model}: lattice {lattice.kind!r} has no bonds of kind {kind!r}, only "
            f"{', '.join(map(repr, lattice.bonds)) or 'none at all'}. Choose a lattice that has "
            f"them, or from_bonds with a mapping from kind to bonds{other}"
        )
    return lattice.bonds[kind]


def per_bond(name: str, value: Coupling, bonds: Sequence[Patch]) -> np.ndarray:
    """Give the coupling of every bond: (n_bonds,).

    Raises:
        ValueError: a bond without a coupling, a coupling without a bond, or no finite real number.
    """
    if isinstance(value, Mapping):
        given = value
        value = {_sorted_bond(name, bond): number for bond, number in given.items()}
        if len(value) != len(given):
            raise ValueError(f"coupling {name}: a bond is given in both directions; give it once")
    return _spread(name, value, bonds, "bond")


def per_site(name: str, value: Coupling, n_sites: int) -> np.ndarray:
    """Give the coupling of every site: (N,).

    Raises:
        ValueError: as `per_bond`.
    """
    return _spread(name, value, range(n_sites), "site")


def per_place(name: str, value: Coupling, places: Sequence[Any], what: str) -> np.ndarray:
    """Give the coupling of every place of a list, a "site" or a "bond": (n,), complex where it is so.

    The keys of a mapping are places as they are in the list, directions included.

    Raises:
        ValueError: as `per_bond`.
    """
    return _spread(name, value, places, what, allowed="iufc")


def plain_couplings(
    lattice: Lattice, **values: tuple[Coupling, str]
) -> dict[str, float | list[float]]:
    """Give couplings as numbers, or lists in the order of their places.

    Args:
        lattice: of the model.
        **values: of each name the coupling, and "site" or the kind of its bonds.
    """
    found: dict[str, float | list[float]] = {}
    for name, (value, kind) in values.items():
        if kind == "site":
            each = per_site(name, value, lattice.n_sites)
        else:
            each = per_bond(name, value, lattice.bonds[kind])
        one = np.ndim(value) == 0 and not isinstance(value, Mapping)
        found[name] = float(value) if one else each.tolist()
    return found


def _spread(
    name: str, value: Coupling, places: Sequence[Any], what: str, allowed: str = "iuf"
) -> np.ndarray:
    if isinstance(value, Mapping):
        _check_keys(name, value, places, what)
        value = [value[place] for place in places]
    numbers = np.asarray(value)
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
    dtype = np.complex128 if numbers.dtype.kind == "c" else np.float64
    return np.broadcast_to(numbers.astype(dtype), (len(places),))


def _check_keys(name: str, value: Mapping[Any, Any], places: Sequence[Any], what: str) -> None:
    known = set(places)
    missing = [place for place in places if place not in value]
    unknown = [place for place in value if place not in known]
    if missing or unknown:
        raise ValueError(
            f"coupling {name}: {len(missing)} of {len(places)} {what}s have none"
            + (f" (first: {missing[0]})" if missing else "")
            + f" and {len(unknown)} entries name no {what} of this kind"
            + (f" (first: {unknown[0]})" if unknown else "")
        )


def _sorted_bond(name: str, bond: Any) -> Patch:
    try:
        i, j = bond
        return (min(i, j), max(i, j))
    except (TypeError, ValueError) as error:
        raise ValueError(f"coupling {name}: key {bond!r} is not a bond (i, j)") from error
