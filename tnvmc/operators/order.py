"""Order parameters by name, as squares: m^2 = sum over components of <M^dagger M> / N^2.

A finite system conserves its symmetries, so that <M> is 0 where order would break one; m^2 goes to
the square of the order parameter as N grows.  M is a sum over the lattice, with a wave of signs or
phases (r, c: row and column); several q are summed over.

neel: (-1)^sublattice S_i, on grids q = (pi, pi).
stripe: S_i at (pi, 0) and (0, pi) on square grids, at the three M of a triangular lattice.
three_sublattice: S_i at K and -K of a triangular lattice, spins at 120 degrees.
..._z: the same of Sz alone; ferromagnetic_z: q = 0, as in Ising magnets.
density_...: the same of n less its mean; density_checkerboard as neel.
dimer_columnar: S.S of bonds along x with (-1)^c, and of those along y with (-1)^r.
dimer_staggered: S.S of bonds along x, and of those along y, with (-1)^(r + c).
plaquette: (P + P^-1) / 2, where P moves four spins around a square, with (-1)^(r + c), which
columnar dimers lack; where there are diagonals, of the squares without, with (-1)^r.
chirality: S_i . (S_j x S_k) of all triangles one way round, on square grids of the four corners of
each square.

Classical spins of length S give S^2 for the first three.  Sums of bonds and squares have a mean
where an open boundary breaks the symmetry.

Source: H. J. Schulz et al., J. Phys. I 6, 675 (1996), for neel and stripe; J.-B. Fouet et al.,
Phys. Rev. B 67, 054411 (2003), for plaquettes; X. G. Wen et al., Phys. Rev. B 39, 11413 (1989), for
chirality.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from tnvmc.backend.arguments import one_of
from tnvmc.lattice.lattice import Lattice, Patch, require_lattice
from tnvmc.lattice.permutations import colouring
from tnvmc.operators.fermions import Fermions
from tnvmc.operators.products import product_matrix
from tnvmc.operators.term import Operator

OrderName = Literal[
    "neel", "stripe", "three_sublattice", "neel_z", "stripe_z", "three_sublattice_z",
    "ferromagnetic_z", "density_checkerboard", "density_stripe", "density_three_sublattice",
    "dimer_columnar", "dimer_staggered", "plaquette", "chirality",
]  # fmt: skip
ORDERS: tuple[str, ...] = get_args(OrderName)
OF_PAIRS = frozenset(("neel", "stripe", "three_sublattice"))  #: made from S.S of all pairs

_SQUARE = ("square", "checkerboard", "shastry_sutherland")
_PAIRS = {
    "SS": ("Sx Sx + Sy Sy + Sz Sz", "Sx^2 + Sy^2 + Sz^2"),
    "SzSz": ("Sz Sz", "Sz^2"),
    "nn": ("n n", "n^2"),
}
_TRIPLE = "Sx Sy Sz + Sy Sz Sx + Sz Sx Sy - Sx Sz Sy - Sy Sx Sz - Sz Sy Sx"

Wave = tuple[int, int, int]
"""(a, b, m): exp(2 pi i (a r + b c) / m)."""

_OF_SITES: dict[str, tuple[Wave, ...]] = {
    "stripe square": ((0, 1, 2), (1, 0, 2)),
    "stripe triangular": ((0, 1, 2), (1, 0, 2), (1, 1, 2)),
    "three_sublattice triangular": ((2, 1, 3), (1, 2, 3)),
}
_X, _Y, _AROUND = ((0, 0), (0, 1)), ((0, 0), (1, 0)), ((0, 0), (0, 1), (1, 1), (1, 0))
_CORNERS = tuple((_AROUND * 2)[k : k + 3] for k in range(4))
_TRIANGLES = (((0, 0), (0, 1), (1, 0)), ((0, 1), (1, 1), (1, 0)))

_OF_FIGURES: dict[str, tuple[tuple[Any, Wave], ...]] = {
    "dimer_columnar square": (((_X,), (0, 1, 2)), ((_Y,), (1, 0, 2))),
    "dimer_columnar chain": (((_X,), (0, 1, 2)),),
    "dimer_staggered square": (((_X,), (1, 1, 2)), ((_Y,), (1, 1, 2))),
    "plaquette square": (((_AROUND,), (1, 1, 2)),),
    "plaquette with diagonals": (((_AROUND,), (1, 0, 2)),),
    "chirality square": ((_CORNERS, (0, 0, 1)),),
    "chirality triangular": ((_TRIANGLES, (0, 0, 1)),),
    "chirality kagome": ((_TRIANGLES, (0, 0, 1)),),
}
"""Of each component the figures, as (rows, columns) from a place, and their wave."""


@dataclass(frozen=True, eq=False)
class Order:
    """An order parameter on a lattice, by correlations of all pairs or by local operators."""

    name: str
    pairs: str | None  #: correlations that it is a sum of: "SS", "SzSz", "nn"; None: of `parts`
    weights: np.ndarray | None = None  #: m^2 = sum_ij weights_ij <A_i A_j>, (N, N)
    parts: tuple[Operator, ...] = ()  #: M of each component, Hermitian


def order_parameter(
    name: str, lattice: Lattice, local_dim: int = 2, fermions: Fermions | None = None
) -> Operator:
    """Give the square m^2 of an order parameter as an operator, by a name of `ORDERS`.

    >>> found = vmc.expect(tnvmc.order_parameter("neel", lattice))  # doctest: +SKIP

    The module has the formulas.  It has N^2 / 2 terms on pairs of sites; for dimers one on four
    sites for each pair of bonds, most of them far apart.  `measure_observables(vmc, order=...)`
    needs ratios of the bonds alone.

    Raises:
        ValueError: an unknown name; a lattice on which it has no meaning, or whose rings it does
            not fit; bonds and figures of fermions.
    """
    require_lattice("order_parameter", lattice)
    found = order_on(name, lattice, local_dim, fermions)
    about: Any = {"local_dim": local_dim, "fermions": fermions, "name": name}
    if found.weights is None:
        total: Operator = sum(part @ part for part in found.parts) / lattice.n_sites**2
        return replace(total, name=name)
    pair, site = _PAIRS[str(found.pairs)]
    both = np.triu_indices(lattice.n_sites, k=1)
    terms = [(site, "all", np.diag(found.weights))]
    terms += [(pair, np.transpose(both).tolist(), 2 * found.weights[both])] if both[0].size else []
    return Operator.from_products(lattice, terms, **about)


def order_on(
    name: str, lattice: Lattice, local_dim: int = 2, fermions: Fermions | None = None
) -> Order:
    """Give an order parameter by its name; errors are those of `order_parameter`."""
    one_of("order", "name", name, ORDERS)
    if any(key.startswith(name) for key in _OF_FIGURES):
        if fermions is not None:
            raise _refused(name, lattice, "it is served for spins, and these are fermions")
        return Order(name, None, parts=tuple(_parts(name, lattice, local_dim)))
    pairs = "SS" if name in OF_PAIRS else "SzSz" if name.endswith("_z") else "nn"
    waves = _of_sites(name, lattice)
    if pairs == "nn":
        waves = waves - waves.mean(axis=1, keepdims=True)  # that is n less its mean
    return Order(name, pairs, np.real(waves.conj().T @ waves) / lattice.n_sites**2)


def order_of(name: str, operator: Operator) -> Order:
    """Give an order parameter for the particles of a Hamiltonian; ValueError if it has none."""
    found = order_on(name, operator.lattice, operator.local_dim, operator.fermions)
    kinds = correlations_of(operator)
    if found.pairs not in (*kinds, None if operator.units != "n" else "nn"):
        why = f"it is made of {found.pairs or 'S.S'}, and {operator.name} has {' and '.join(kinds)}"
        raise _refused(name, operator.lattice, why)
    return found


def correlations_of(operator: Operator) -> tuple[str, ...]:
    """Name the correlations of all pairs that are measured of the particles of a Hamiltonian."""
    if operator.fermions is None:
        return ("nn",) if operator.units == "n" else ("SzSz", "SS")
    return ("SzSz", "SS", "nn") if len(operator.fermions.numbers) > 1 else ("nn",)


def _of_sites(name: str, lattice: Lattice) -> np.ndarray:
    """The waves of an order of sites (K, N)."""
    pattern = name.removeprefix("density_").removesuffix("_z")
    if pattern == "ferromagnetic":
        return np.ones((1, lattice.n_sites))
    if pattern in ("neel", "checkerboard"):
        if (sublattice := colouring(lattice).sublattice) is None:
            raise _refused(name, lattice, "its bonds leave no two sublattices")
        return 1.0 - 2.0 * sublattice[None, :]
    places = np.divmod(lattice.places, lattice.n_cols)
    waves = _known(name, lattice, _OF_SITES, pattern)
    return np.array([_phases(name, lattice, q, *places) for q in waves])


def _parts(name: str, lattice: Lattice, local_dim: int) -> Iterator[Operator]:
    """M of each component of an order of bonds, squares or triangles."""
    diagonals = name == "plaquette" and lattice.kind in _SQUARE[1:]
    chosen = _OF_FIGURES["plaquette with diagonals"] if diagonals else ()
    for figures, wave in chosen or _known(name, lattice, _OF_FIGURES, name):
        cells = [cell for offsets in figures for cell in _cells(lattice, offsets)]
        cells = [(r, c, sites) for r, c, sites in cells if not diagonals or (r + c) % 2]
        if not cells:
            raise _refused(name, lattice, "it has none of the bonds or figures")
        phases = _phases(name, lattice, wave, *np.array([cell[:2] for cell in cells]).T)
        if name == "plaquette":
            legs = np.eye(local_dim**4).reshape((local_dim,) * 8)
            once = legs.transpose(1, 2, 3, 0, 4, 5, 6, 7).reshape((local_dim**4,) * 2)
            matrix = (once + once.T) / 2
        else:
            matrix = product_matrix(_PAIRS["SS"][0] if "dimer" in name else _TRIPLE, local_dim)
        terms = [(cell[2], phase * matrix) for cell, phase in zip(cells, phases, strict=True)]
        yield Operator.from_terms(lattice, terms, local_dim=local_dim, name=name)


def _known(name: str, lattice: Lattice, table: dict[str, Any], pattern: str) -> Any:
    kind = "square" if lattice.kind in _SQUARE and min(lattice.shape) > 1 else lattice.kind
    if (found := table.get(f"{pattern} {kind}")) is None:
        kinds = [key.split()[1] for key in table if key.startswith(pattern) and "with" not in key]
        raise _refused(name, lattice, f"it is known on {' and '.join(kinds)} lattices")
    return found


def _phases(name: str, lattice: Lattice, wave: Wave, rows: Any, columns: Any) -> np.ndarray:
    """exp(2 pi i (a r + b c) / m), real for signs."""
    *steps, period = wave
    for step, length, ring in zip(steps, lattice.shape, lattice.periodic, strict=True):
        if ring and step * length % period:
            why = f"it repeats after {period} places, and a ring has {length}"
            raise _refused(name, lattice, why)
    turns = (steps[0] * rows + steps[1] * columns) % period
    phases = 1.0 - 2.0 * turns if period < 3 else np.exp(2j * np.pi * turns / period)
    return np.asarray(phases)


def _cells(lattice: Lattice, offsets: Any) -> Iterator[tuple[int, int, Patch]]:
    """Row, column and sites of a figure at every place where the lattice has all of it."""
    places, (n_rows, n_cols) = {place: k for k, place in enumerate(lattice.places)}, lattice.shape
    rings = [n if ring and n > 2 else 2 * n for n, ring in zip(lattice.shape, lattice.periodic)]
    for row, column in itertools.product(range(n_rows), range(n_cols)):
        there = [((row + down) % rings[0], (column + right) % rings[1]) for down, right in offsets]
        sites = tuple(places.get(r * n_cols + c, -1) if c < n_cols else -1 for r, c in there)
        if min(sites) >= 0:
            yield row, column, sites


def _refused(name: str, lattice: Lattice, why: str) -> ValueError:
    where = f"the {lattice.kind} lattice of {lattice.size}, {lattice.boundary}"
    return ValueError(f"order {name!r} on {where}: {why}")
