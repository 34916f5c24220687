"""Hamiltonians of quimb (J. Gray, JOSS 3(29), 819, 2018) where one of ours is expected.

Local states have the same numbers there, spin up first, as 0, so matrices go over as they are.  In
quimb.operator "+" turns state 0 into 1, so that it lowers a spin; its matrix is what counts.  The
library is not imported here.
"""

import warnings
from typing import Any

import numpy as np

from tnvmc.backend.arguments import is_whole, level_of_caller
from tnvmc.lattice.grids import chain, square
from tnvmc.lattice.lattice import Lattice, Patch, from_bonds
from tnvmc.operators.spin import in_site_order, real_if_possible
from tnvmc.operators.term import NonHermitian, Operator, made_of


def as_operator(value: Any, lattice: Lattice | None = None) -> Any:
    """Give the operator that a Hamiltonian of quimb is; anything else comes back as it is.

    Warns of a lattice that is not that of the operator.
    """
    if not is_hamiltonian(value):
        return value
    found = hamiltonian_of(value, lattice)
    if lattice is not None:
        _warn_of_other_pairs(found)
    return found


def _warn_of_other_pairs(operator: Operator | NonHermitian) -> None:
    """Warn of nearest bonds that have no term, while pairs that are no bonds have one.

    Terms of all pairs, as those of Rydberg atoms, leave no bond out.
    """
    pairs = {patch for patch in operator.matrices if len(patch) == 2}
    bonds = {kind: {tuple(sorted(b)) for b in of} for kind, of in operator.lattice.bonds.items()}
    beside = sorted(pairs.difference(*bonds.values()))
    left_out = sorted(bonds.get("nearest", set()) - pairs)
    if beside and left_out:
        shape = " x ".join(map(str, operator.lattice.shape))
        warnings.warn(
            f"{operator.name}: terms on {beside[0]} and other pairs that are no bonds of the "
            f"lattice of the wave function ({shape}), and none on its bond {left_out[0]}: two "
            "different lattices. Energies are right; kinds of bonds, distances, S(q) and the "
            "staggered M^2 are those of the lattice of the wave function. Make both alike",
            UserWarning,
            stacklevel=level_of_caller(),
        )


def is_hamiltonian(value: object) -> bool:
    """Tell whether something is a Hamiltonian of quimb that `hamiltonian_of` takes."""
    kinds = type(value).__mro__
    known = hasattr(value, "build_local_terms") or kinds[0].__name__.startswith("LocalHam")
    return known and any(kind.__module__.split(".")[0] == "quimb" for kind in kinds)


def hamiltonian_of(value: Any, lattice: Lattice | None = None) -> Operator | NonHermitian:
    """Read a LocalHam1D, LocalHam2D or LocalHamGen of quimb.tensor, or a SparseOperatorBuilder.

    Its sites are numbers, or (row, column); by default it lives on its own chain or grid.  A sector
    with symmetry "U1" becomes the magnetisation of the operator.

    Raises:
        TypeError: sites with other names.
        ValueError: as `Term`; another lattice; sites of different dimensions; a symmetry other than
            "U1".
    """
    builder = hasattr(value, "build_local_terms")
    terms = value.build_local_terms() if builder else value.terms
    all_sites = value.hilbert_space.sites if builder else value.sites
    in_rows = not all(map(is_whole, all_sites))
    n_rows, n_cols = shape = _shape(value, all_sites)
    numbers = {s: int(s[0]) * n_cols + int(s[1]) if in_rows else int(s) for s in all_sites}
    named = [((key,) if key in numbers else key, np.asarray(h)) for key, h in terms.items()]
    dims = {round(len(matrix) ** (1 / len(sites))) for sites, matrix in named} or {2}
    if len(dims) > 1:
        raise ValueError(f"from_quimb: sites of dimensions {sorted(dims)}; all must have the same")
    d = dims.pop()
    matrices: dict[Patch, Any] = {}
    for sites, matrix in named:
        patch, ordered = in_site_order(tuple(numbers[site] for site in sites), matrix)
        matrices[patch] = real_if_possible(matrices.get(patch, 0) + ordered)
    if lattice is None:
        pairs = sorted(sites for sites in matrices if len(sites) == 2)
        lattice = _grid_or_bonds(shape, pairs, bool(getattr(value, "cyclic", False)))
    if lattice.n_sites != n_rows * n_cols or n_rows > 1 and lattice.shape != shape:
        raise ValueError(
            f"the Hamiltonian of quimb is on {n_rows} x {n_cols} sites, the lattice on "
            f"{lattice.size}; make both alike"
        )
    sector = _sector(value, len(all_sites)) if builder else None
    return made_of(lattice, matrices, type(value).__name__, local_dim=d, magnetisation=sector)


def _shape(value: Any, sites: Any) -> tuple[int, int]:
    """Rows and columns."""
    if hasattr(value, "Lz"):
        raise TypeError(f"from_quimb: {type(value).__name__}: three dimensions are not served")
    if hasattr(value, "Lx"):
        return int(value.Lx), int(value.Ly)
    if hasattr(value, "L"):
        return 1, int(value.L)
    shape = (0, 0)
    if all(map(is_whole, sites)):
        shape = 1, int(max(sites)) + 1
    elif all(np.shape(site) == (2,) and all(map(is_whole, site)) for site in sites):
        shape = max(int(i) for i, _ in sites) + 1, max(int(j) for _, j in sites) + 1
    if len(set(sites)) < shape[0] * shape[1]:
        raise ValueError(
            f"from_quimb: terms on {len(set(sites))} sites up to {max(sites)}, of the {shape[0]} x "
            f"{shape[1]} from 0 on; number them from 0, or give each of the others a term, as 0 Sz"
        )
    if shape[1]:
        return shape
    raise TypeError(
        f"from_quimb: sites {list(sites)[:3]} ...; they must be numbers, or (row, column), to be "
        "those of a lattice"
    )


def _grid_or_bonds(shape: tuple[int, int], pairs: list[tuple[int, int]], cyclic: bool) -> Lattice:
    known = square(*shape) if shape[0] > 1 else chain(shape[1], "periodic" if cyclic else "open")
    if pairs == sorted(known.bonds["nearest"]):
        return known
    return from_bonds(shape if shape[0] > 1 else shape[1], pairs)


def _sector(builder: Any, n_sites: int) -> int | None:
    """Twice the total Sz of a fixed number of states 1."""
    space = builder.hilbert_space
    if space.symmetry is None and space.sector is None:
        return None
    if space.symmetry != "U1":
        raise ValueError(
            f"from_quimb: symmetry {space.symmetry!r} of the Hilbert space is not served, only "
            "'U1'. Without it other sectors would be sampled too, so it is not left out"
        )
    return n_sites - 2 * int(space.sector)
