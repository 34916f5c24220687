"""Hamiltonians of quimb (J. Gray, JOSS 3(29), 819, 2018).

Local states are those of quimb, spin up first; matrices and units go over as they are.  In quimb.operator
"+" turns state 0 into 1, so that it lowers a spin; its matrix is what counts.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from tnvmc.lattice.custom import from_bonds
from tnvmc.lattice.grids import chain, square
from tnvmc.lattice.lattice import Lattice, Patch
from tnvmc.lattice.netket import as_lattice, made_by
from tnvmc.operators.products import in_site_order, most_sites
from tnvmc.operators.term import NonHermitian, Operator, made_of

PACKAGE = "quimb"


def is_hamiltonian(value: object) -> bool:
    """Tell whether something is a Hamiltonian of quimb that `hamiltonian_of` takes."""
    return made_by(PACKAGE, value) and (
        hasattr(value, "build_local_terms") or type(value).__name__.startswith("LocalHam")
    )


def hamiltonian_of(value: Any, lattice: Any = None) -> Operator | NonHermitian:
    """Read a quimb.tensor.LocalHam1D, LocalHam2D or LocalHamGen, or a quimb.operator.SparseOperatorBuilder.

    Args:
        value: whose sites are numbers, or (row, column).
        lattice: where it lives; by default the chain or grid of the Hamiltonian, with its pairs as bonds.

    Returns:
        An `Operator`, or a `NonHermitian`; a builder's sector with symmetry "U1" is its magnetisation.

    Raises:
        TypeError: another object; sites with other names.
        ValueError: another lattice; sites of different dimensions; a symmetry other than "U1".
    """
    if not is_hamiltonian(value):
        raise TypeError(
            f"from_quimb: {type(value).__name__} is no Hamiltonian that is served; these are LocalHam1D, "
            "LocalHam2D, LocalHamGen and SparseOperatorBuilder"
        )
    builder = hasattr(value, "build_local_terms")
    terms = value.build_local_terms() if builder else value.terms
    all_sites = value.hilbert_space.sites if builder else value.sites
    shape = _shape(value, all_sites)
    found_on = as_lattice(lattice)
    if found_on is not None and shape[0] > 1 and found_on.shape != shape:
        raise ValueError(
            f"the Hamiltonian of quimb is on {shape[0]} x {shape[1]} sites, the lattice on "
            f"{found_on.size}; make both alike"
        )
    numbers = {site: _number(site, shape) for site in all_sites}
    placed, local_dim = _placed(terms, numbers)
    if found_on is None:
        pairs = {sites for sites in placed if len(sites) == 2}
        found_on = _lattice(shape, pairs, bool(getattr(value, "cyclic", False)))
    if found_on.n_sites != shape[0] * shape[1]:
        raise ValueError(
            f"the Hamiltonian of quimb has {shape[0] * shape[1]} sites, the lattice {found_on.n_sites}; "
            "make both alike"
        )
    sector = _sector(value, len(all_sites)) if builder else None
    name = type(value).__name__
    return made_of(found_on, placed, local_dim, "custom", name, sector)


def _shape(value: Any, sites: Any) -> tuple[int, int]:
    """Rows and columns."""
    if hasattr(value, "Lz"):
        raise TypeError(f"from_quimb: {type(value).__name__}: three dimensions are not served")
    if hasattr(value, "Lx"):
        return int(value.Lx), int(value.Ly)
    if hasattr(value, "L"):
        return 1, int(value.L)
    if all(isinstance(site, int | np.integer) for site in sites):
        return 1, int(max(sites)) + 1
    if all(isinstance(site, tuple) and len(site) == 2 for site in sites) and all(
        isinstance(n, int | np.integer) for site in sites for n in site
    ):
        return max(int(i) for i, _ in sites) + 1, max(int(j) for _, j in sites) + 1
    raise TypeError(
        f"from_quimb: sites {list(sites)[:3]} ...; they must be numbers, or (row, column), to be those "
        "of a lattice"
    )


def _number(site: Hashable, shape: tuple[int, int]) -> int:
    if isinstance(site, tuple):
        return int(site[0]) * shape[1] + int(site[1])
    return int(site)  # type: ignore[call-overload, no-any-return]


def _placed(
    terms: Mapping[Any, Any], numbers: Mapping[Any, int]
) -> tuple[dict[Patch, np.ndarray], int]:
    """Sum matrices by sites in increasing order, and give the local dimension."""
    found: dict[Patch, np.ndarray] = {}
    dims = set()
    for key, given in terms.items():
        named = key if isinstance(key, tuple) and key not in numbers else (key,)
        sites = tuple(numbers[site] for site in named)
        matrix = np.asarray(given)
        local_dim = round(len(matrix) ** (1 / len(sites)))
        dims.add(local_dim)
        if len(sites) > most_sites(local_dim):
            raise ValueError(
                f"from_quimb: a term on the {len(sites)} sites {sites}; with local dimension {local_dim} "
                f"a term may act on {most_sites(local_dim)} at most"
            )
        patch, ordered = in_site_order(sites, matrix)
        found[patch] = found.get(patch, 0) + (ordered if np.any(ordered.imag) else ordered.real)
    if len(dims) > 1:
        raise ValueError(f"from_quimb: sites of dimensions {sorted(dims)}; all must have the same")
    return found, dims.pop() if dims else 2


def _lattice(shape: tuple[int, int], pairs: set[tuple[int, int]], cyclic: bool) -> Lattice:
    known = square(*shape) if shape[0] > 1 else chain(shape[1], "periodic" if cyclic else "open")
    if sorted(pairs) == sorted(known.bonds["nearest"]):
        return known
    return from_bonds(shape if shape[0] > 1 else shape[1], sorted(pairs))


def _sector(builder: Any, n_sites: int) -> int | None:
    """Twice the total Sz of a fixed number of states 1."""
    space = builder.hilbert_space
    if space.symmetry is None and space.sector is None:
        return None
    if space.symmetry != "U1":
        raise ValueError(
            f"from_quimb: symmetry {space.symmetry!r} of the Hilbert space is not served, only 'U1'. "
            "Without it other sectors would be sampled too, so it is not left out"
        )
    return n_sites - 2 * int(space.sector)
