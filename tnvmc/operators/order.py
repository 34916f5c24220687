"""Order parameters by name, as squares: m^2 = sum over components of <M^dagger M> / N^2.

A finite system conserves its symmetries, so that <M> is 0 where order would break one; m^2 goes to
the square of the order parameter as N grows.  M is a sum over the lattice with signs or phases (r,
c: row and column), and several wave vectors q are summed over.

neel: (-1)^sublattice S_i, on grids q = (pi, pi).
stripe: S_i at (pi, 0) and (0, pi) on square grids, at the three M of a triangular lattice.
three_sublattice: S_i at K and -K of a triangular lattice, spins at 120 degrees.
neel_z, stripe_z, three_sublattice_z: of Sz alone; ferromagnetic_z: q = 0, as in Ising magnets.
density_checkerboard, density_stripe, density_three_sublattice: the same of n less its mean.
dimer_columnar: S.S of bonds along x with (-1)^c, and of those along y with (-1)^r.
dimer_staggered: S.S of bonds along x, and of those along y, with (-1)^(r + c).
plaquette: (P + P^-1) / 2, where P moves four spins around a square, with (-1)^(r + c), which
columnar dimers lack; where there are diagonals, of the squares without, with (-1)^r.
chirality: S_i . (S_j x S_k) of all triangles one way round; on square grids of the four corners of
each square.

Classical spins of length S give S^2 for the first three.  Bonds and squares have a mean of M where
open boundaries break the symmetry.

Source: Schulz et al., J. Phys. I 6, 675 (1996) (sites); Fouet et al., Phys. Rev. B 67, 054411
(2003) (plaquettes); Wen et al., Phys. Rev. B 39, 11413 (1989) (chirality).
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from tnvmc.backend.arguments import one_of
from tnvmc.lattice.lattice import Lattice, Patch, require_lattice
from tnvmc.lattice.permutations import colouring
from tnvmc.operators.fermions import Fermions
from tnvmc.operators.term import Operator

OrderName = Literal[
    "neel", "stripe", "three_sublattice", "neel_z", "stripe_z", "three_sublattice_z",
    "ferromagnetic_z", "density_checkerboard", "density_stripe", "density_three_sublattice",
    "dimer_columnar", "dimer_staggered", "plaquette", "chirality",
]  # fmt: skip
ORDERS: tuple[str, ...] = get_args(OrderName)
OF_PAIRS = frozenset(ORDERS[:3])  #: which need the ratios of all pairs

_SQUARE = ("square", "checkerboard", "shastry_sutherland")
_EXCHANGE = "Sx Sx + Sy Sy + Sz Sz"
_TRIPLE = "Sx Sy Sz + Sy Sz Sx + Sz Sx Sy - Sx Sz Sy - Sy Sx Sz - Sz Sy Sx"
_X, _Y, _AROUND = ((0, 0), (0, 1)), ((0, 0), (1, 0)), ((0, 0), (0, 1), (1, 1), (1, 0))
_CORNERS = tuple((_AROUND * 2)[k : k + 3] for k in range(4))
_TRIANGLES = (((0, 0), (0, 1), (1, 0)), ((0, 1), (1, 1), (1, 0)))

Wave = tuple[int, int, int]
"""(a, b, m): exp(2 pi i (a r + b c) / m)."""

_KNOWN: dict[str, tuple[tuple[Any, Wave], ...]] = {
    "stripe square": (((), (0, 1, 2)), ((), (1, 0, 2))),
    "stripe triangular": (((), (0, 1, 2)), ((), (1, 0, 2)), ((), (1, 1, 2))),
    "three_sublattice triangular": (((), (2, 1, 3)), ((), (1, 2, 3))),
    "dimer_columnar square": (((_X,), (0, 1, 2)), ((_Y,), (1, 0, 2))),
    "dimer_columnar chain": (((_X,), (0, 1, 2)),),
    "dimer_staggered square": (((_X,), (1, 1, 2)), ((_Y,), (1, 1, 2))),
    "plaquette square": (((_AROUND,), (1, 1, 2)),),
    "plaquette with diagonals": (((_AROUND,), (1, 0, 2)),),
    "chirality square": ((_CORNERS, (0, 0, 1)),),
    "chirality triangular": ((_TRIANGLES, (0, 0, 1)),),
    "chirality kagome": ((_TRIANGLES, (0, 0, 1)),),
}
"""Of each component the figures, as (rows, columns) from a place, none for sites; their wave."""


def order_parameter(
    name: str, lattice: Lattice, local_dim: int = 2, fermions: Fermions | None = None
) -> Operator:
    """Give the square m^2 of an order parameter as an operator, by a name of `ORDERS`.

    >>> found = vmc.expect(tnvmc.order_parameter("neel", lattice))  # doctest: +SKIP

    The module has the formulas.  Terms: N^2 / 2 pairs of sites; for dimers one on four sites for
    each pair of bonds, most of them far apart, where `measure_observables(vmc, operators="...")`
    needs ratios of the bonds alone.

    Raises:
        ValueError: an unknown name; a lattice on which it has no meaning, or whose rings it does
            not fit; names that these particles do not have.
    """
    about: Any = {"local_dim": local_dim, "fermions": fermions, "name": name}
    if parts := order_parts(name, lattice, local_dim, fermions):
        total: Operator = sum(part @ part for part in parts) / lattice.n_sites**2
        return replace(total, name=name)
    waves, texts = _of_sites(name, lattice), ("n n", "n^2")
    if name.startswith("density"):
        waves = waves - waves.mean(axis=1, keepdims=True)  # that is n less its mean
    else:
        texts = ("Sz Sz", "Sz^2") if name.endswith("_z") else (_EXCHANGE, "Sx^2 + Sy^2 + Sz^2")
    weights = np.real(waves.conj().T @ waves) / lattice.n_sites**2
    both = np.triu_indices(lattice.n_sites, k=1)
    terms = [(texts[1], "all", np.diag(weights))]
    terms += [(texts[0], np.transpose(both).tolist(), 2 * weights[both])] if both[0].size else []
    return Operator.from_products(lattice, terms, **about)


def order_parts(
    name: str, lattice: Lattice, local_dim: int = 2, fermions: Fermions | None = None
) -> tuple[Operator, ...]:
    """Give M of each component of an order of bonds, squares or triangles; () of one of sites."""
    one_of("order", "name", name, ORDERS)
    require_lattice("order_parameter", lattice)
    if not any(key.startswith(name) and figures for key, ((figures, _), *_) in _KNOWN.items()):
        return ()
    diagonals = name == "plaquette" and lattice.kind in _SQUARE[1:]
    about: Any = {"local_dim": local_dim, "fermions": fermions, "name": name}
    made = []
    for figures, wave in _known(name, name, "with diagonals" if diagonals else lattice):
        cells = [cell for offsets in figures for cell in _cells(lattice, offsets)]
        cells = [cell for cell in cells if not diagonals or (cell[0] + cell[1]) % 2]
        if not cells or (name == "plaquette" and fermions is not None):
            raise _refused(name, lattice, "there are no such bonds, squares or spins")
        rows, columns, sites = zip(*cells, strict=True)
        phases = _phases(name, lattice, wave, np.array(rows), np.array(columns)).real
        if name == "plaquette":
            legs = np.eye(local_dim**4).reshape((local_dim,) * 8)
            once = legs.transpose(1, 2, 3, 0, 4, 5, 6, 7).reshape((local_dim**4,) * 2) / 2
            terms = [(at, sign * (once + once.T)) for at, sign in zip(sites, phases, strict=True)]
            made.append(Operator.from_terms(lattice, terms, **about))
        else:
            text = _TRIPLE if name == "chirality" else _EXCHANGE
            made.append(Operator.from_products(lattice, [(text, sites, phases)], **about))
    return tuple(made)


def _of_sites(name: str, lattice: Lattice) -> np.ndarray:
    """The waves of an order of sites (K, N)."""
    pattern = name.removeprefix("density_").removesuffix("_z")
    if pattern == "ferromagnetic":
        return np.ones((1, lattice.n_sites))
    if pattern in ("neel", "checkerboard"):
        if (sublattice := colouring(lattice).sublattice) is None:
            raise _refused(name, lattice, "its bonds leave no two sublattices")
        return 1.0 - 2.0 * sublattice[None, :]
    places, waves = np.divmod(lattice.places, lattice.n_cols), _known(name, pattern, lattice)
    return np.array([_phases(name, lattice, wave, *places) for _, wave in waves])


def _known(name: str, pattern: str, lattice: Any) -> Any:
    """The components of an order on a lattice, or on a kind of them."""
    kind = getattr(lattice, "kind", lattice)
    if kind != lattice:
        kind = "chain" if min(lattice.shape) < 2 else "square" if kind in _SQUARE else kind
    if (found := _KNOWN.get(f"{pattern} {kind}")) is None:
        kinds = [key.split()[1] for key in _KNOWN if key.startswith(pattern) and "with" not in key]
        raise _refused(name, lattice, f"it is known on {' and '.join(kinds)} lattices")
    return found


def _phases(name: str, lattice: Lattice, wave: Wave, rows: Any, columns: Any) -> np.ndarray:
    *steps, period = wave
    for step, length, ring in zip(steps, lattice.shape, lattice.periodic, strict=True):
        if ring and step * length % period:
            why = f"it repeats after {period} places, and a ring has {length}"
            raise _refused(name, lattice, why)
    turns = (steps[0] * rows + steps[1] * columns) % period
    return np.asarray(1.0 - 2.0 * turns if period < 3 else np.exp(2j * np.pi * turns / period))


def _cells(lattice: Lattice, offsets: Any) -> Iterator[tuple[int, int, Patch]]:
    """Row, column and sites of a figure at every place where the lattice has all of it."""
    places, (n_rows, n_cols) = {place: k for k, place in enumerate(lattice.places)}, lattice.shape
    rings = [n if n > 2 and ring else 2 * n for n, ring in zip(lattice.shape, lattice.periodic)]
    for row, column in itertools.product(range(n_rows), range(n_cols)):
        there = [((row + down) % rings[0], (column + right) % rings[1]) for down, right in offsets]
        sites = tuple(places.get(r * n_cols + c, -1) if c < n_cols else -1 for r, c in there)
        if min(sites) >= 0:
            yield row, column, sites


def _refused(name: str, lattice: Lattice, why: str) -> ValueError:
    where = f"the {lattice.kind} lattice of {lattice.size}, {lattice.boundary}"
    return ValueError(f"order {name!r} on {where}: {why}")
