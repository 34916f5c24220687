"""Operators and Hilbert spaces of NetKet, and Hamiltonians of quimb, where one of ours is expected.

Sources: Vicentini et al., SciPost Phys. Codebases 7 (2022); J. Gray, JOSS 3(29), 819 (2018).
Local states have the same numbers there, spin up first, as 0, so matrices go over as they are, and
units stay those of the library: `netket.operator.Heisenberg` is 4 times `heisenberg`.  In
quimb.operator "+" turns state 0 into 1, so that it lowers a spin; its matrix is what counts.  The
libraries are imported only when one of their objects is handed over.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.backend.arguments import is_whole, level_of_caller
from tnvmc.lattice.custom import as_lattice, from_bonds, from_graph, made_by
from tnvmc.lattice.grids import chain, square
from tnvmc.lattice.lattice import Lattice, Patch
from tnvmc.operators.products import product_matrix
from tnvmc.operators.spin import MAX_WIDTH, in_site_order, most_sites, real_if_possible
from tnvmc.operators.term import NonHermitian, Operator, made_of

_TURNED = product_matrix("Z Z - X X - Y Y")
_TOLERANCE = 1e-12  # of the largest element: Heisenberg's terms are exact


def as_operator(value: Any, lattice: Any = None) -> Any:
    """Give the operator that an object of NetKet or quimb is; anything else comes back as it is.

    See `from_netket` and `hamiltonian_of`.  Warns of a lattice that is not that of the operator.
    """
    if made_by("netket", value) and hasattr(value, "hilbert"):
        found = operator_of(value, lattice)
    elif is_hamiltonian(value):
        found = hamiltonian_of(value, lattice)
    else:
        return value
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
            "staggered M^2 are those of the lattice of the wave function. Make both from one graph",
            UserWarning,
            stacklevel=level_of_caller(),
        )


# --- NetKet


@dataclass(frozen=True)
class Space:
    """What a Hilbert space says: its sites, their states and the sector."""

    n_sites: int  #: N
    local_dim: int  #: d
    magnetisation: int | None = None  #: twice the total Sz, N (d - 1) - 2 sum_i s_i; None: all


def from_netket(value: Any, lattice: Any = None) -> Lattice | Space | Operator | NonHermitian:
    """Take a graph, a Hilbert space or an operator of NetKet as it is.

    `VMC`, `VMC.expect`, `exact_ground_state`, the models and the states take them without this.

    Args:
        value: a graph; a Hilbert space of equal sites, Spin, Qubit or Fock; an operator on one:
            LocalOperator, PauliStrings, Ising, BoseHubbard, their sums, products and adjoints.
        lattice: where an operator lives, a `Lattice` or a graph with as many sites; by default the
            pairs of its two-site terms, as a list of bonds without a grid.

    Returns:
        A `Lattice`; a `Space`; an `Operator`, or a `NonHermitian` for what is not Hermitian.
        total_sz and n_particles become its `magnetisation`, of which `VMC` makes its sector.

    Raises:
        TypeError: none of these; fermions, continuous space, superoperators.
        ValueError: unequal sites, a constraint other than a fixed sum, infinitely many states of a
            site; a lattice of other sites; terms on more than `most_sites`.

    Warns:
        UserWarning: terms Z Z - X X - Y Y, which `Heisenberg` has by default on bipartite graphs.
    """
    import netket

    if isinstance(value, netket.graph.AbstractGraph):
        return from_graph(value)
    if isinstance(value, netket.hilbert.AbstractHilbert):
        return space_of(value)
    if not isinstance(value, netket.operator.AbstractOperator):
        raise TypeError(
            f"from_netket: {type(value).__name__} is no operator, graph or Hilbert space of NetKet"
        )
    return operator_of(value, lattice)


def operator_of(value: Any, lattice: Any = None) -> Operator | NonHermitian:
    """Read an operator, as `from_netket`."""
    space, terms = space_of(value.hilbert), list(_sums(value))
    found_on = _lattice_of(as_lattice(lattice), space, terms)
    name = type(value).__name__.split("[")[0]  # "Ising" of an IsingJax
    for implementation in ("Discrete", "Jax", "Numba"):
        name = name.replace(implementation, "")
    matrices, d = _by_patch(terms), space.local_dim
    found = made_of(found_on, matrices, d, "custom", name, space.magnetisation)
    _warn_of_signs(found)
    return found


def space_of(hilbert: Any) -> Space:
    """Read a Hilbert space, as `from_netket`."""
    import netket

    name = type(hilbert).__name__
    if "Fermion" in name:
        raise TypeError(
            f"{name}: fermions are not served, their order gives signs that spins do not have. Map "
            "them to spins first, as by Jordan and Wigner"
        )
    if not isinstance(hilbert, netket.hilbert.HomogeneousHilbert):
        raise TypeError(
            f"{name}: sites must be alike; give an operator on a Spin, Qubit or Fock space"
        )
    local_dim = int(hilbert.local_size)
    if local_dim > MAX_WIDTH:
        raise ValueError(
            f"{hilbert}: {local_dim} states of a site, at most {MAX_WIDTH} can be; give n_max"
        )
    return Space(int(hilbert.size), local_dim, _magnetisation(hilbert))


def _magnetisation(hilbert: Any) -> int | None:
    """Twice the total Sz of a fixed sum of values: site values are first + step * local state."""
    import netket

    constraint = hilbert.constraint
    if constraint is None:
        return None
    if not isinstance(constraint, netket.hilbert.constraint.SumConstraint):
        raise ValueError(  # noqa: TRY004 - an operator of a space that is not served
            f"{hilbert}: the constraint {constraint!r} is not served, only a fixed sum (total_sz, "
            "n_particles). Without it other states would be sampled too, so it is not left out"
        )
    n_sites, values = int(hilbert.size), hilbert.local_states
    steps = (float(constraint.sum_value) - n_sites * values[0]) / (values[1] - values[0])
    return int(n_sites * (len(values) - 1) - 2 * round(steps))


def _sums(operator: Any) -> Iterator[tuple[Patch, np.ndarray]]:
    """Sites in order, and matrices, whose sum is an operator; errors as `from_netket`."""
    if hasattr(operator, "to_local_operator"):  # Ising, BoseHubbard
        operator = operator.to_local_operator()
    kind = type(operator).__name__
    if hasattr(operator, "constant") and hasattr(operator, "acting_on"):
        yield from _local(operator)
    elif hasattr(operator, "operators") and hasattr(operator, "weights"):  # PauliStrings
        for word, weight in zip(operator.operators, operator.weights, strict=True):
            yield from _string(operator, str(word), complex(weight))
    elif hasattr(operator, "operators") and hasattr(operator, "coefficients"):
        for factor, part in zip(operator.coefficients, operator.operators, strict=True):
            yield from ((sites, complex(factor) * matrix) for sites, matrix in _sums(part))
    elif hasattr(operator, "operators") and hasattr(operator, "coefficient"):
        yield from _product(operator.operators, complex(operator.coefficient))
    elif kind.startswith(("Adjoint", "Transpose")):
        turned = ((sites, matrix.T) for sites, matrix in _sums(operator.parent))
        yield from ((s, m.conj()) if kind.startswith("Adjoint") else (s, m) for s, m in turned)
    elif kind.startswith("Squared"):
        yield from _product([operator.parent.H, operator.parent], 1.0)
    else:
        raise TypeError(
            f"{kind} of NetKet is not served; these are: LocalOperator, PauliStrings, Ising, "
            "BoseHubbard, their sums, products and adjoints. Write it as a LocalOperator, or as an "
            "Operator.from_products"
        )


def _local(operator: Any) -> Iterator[tuple[Patch, np.ndarray]]:
    """The terms of a LocalOperator."""
    d = int(operator.hilbert.local_size)
    yield from _constant(complex(operator.constant), d)
    for sites, matrix in zip(operator.acting_on, operator.operators, strict=True):
        _check_width(type(operator).__name__, sites, d)
        dense = matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)
        yield in_site_order(tuple(map(int, sites)), dense)


def _constant(number: complex, local_dim: int) -> Iterator[tuple[Patch, np.ndarray]]:
    if number:
        yield (0,), number * np.eye(local_dim)


def _string(operator: Any, word: str, weight: complex) -> Iterator[tuple[Patch, np.ndarray]]:
    sites = tuple(site for site, letter in enumerate(word) if letter != "I")
    if not sites:
        yield from _constant(weight, 2)
        return
    _check_width(type(operator).__name__, sites, 2)
    yield sites, weight * product_matrix(" ".join(word[site] for site in sites))


def _product(factors: Iterable[Any], number: complex) -> Iterator[tuple[Patch, np.ndarray]]:
    """Multiply operators, the last one acting first."""
    found: Any = None
    for factor in factors:
        space, name = space_of(factor.hilbert), type(factor).__name__
        matrices = _by_patch(_sums(factor))
        made = made_of(from_bonds(space.n_sites, []), matrices, space.local_dim, name=name)
        found = made if found is None else found @ made
    yield from ((sites, number * matrix) for sites, matrix in found.matrices.items())


def _by_patch(terms: Iterable[tuple[Patch, np.ndarray]]) -> dict[Patch, np.ndarray]:
    sums: dict[Patch, np.ndarray] = {}
    for sites, matrix in terms:
        sums[sites] = sums.get(sites, 0) + matrix
    return {sites: real_if_possible(matrix) for sites, matrix in sums.items()}


def _lattice_of(lattice: Any, space: Space, terms: Iterable[tuple[Patch, np.ndarray]]) -> Lattice:
    if lattice is None:
        pairs = sorted({sites for sites, _ in terms if len(sites) == 2})
        return from_bonds(space.n_sites, pairs)
    if lattice.n_sites != space.n_sites:
        raise ValueError(
            f"the Hilbert space of NetKet's operator has {space.n_sites} sites, the lattice "
            f"{lattice.n_sites} ({lattice.size}); make both from one graph. Site i "
            "of the one is site i of the other"
        )
    return lattice  # type: ignore[no-any-return]


def _check_width(name: str, sites: Any, local_dim: int) -> None:
    if len(sites) > most_sites(local_dim):
        raise ValueError(
            f"{name}: a term on the {len(sites)} sites {tuple(sites)}; with local dimension "
            f"{local_dim} a term may act on {most_sites(local_dim)} at most"
        )


def _warn_of_signs(operator: Operator | NonHermitian) -> None:
    """Warn of Heisenberg's terms with Marshall's signs: means other than energies differ."""
    if operator.local_dim != 2:
        return
    pairs = [matrix for sites, matrix in operator.matrices.items() if len(sites) == 2]
    turned = sum(_is_turned(matrix) for matrix in pairs)
    if turned:
        warnings.warn(
            f"{operator.name}: {turned} of {len(pairs)} pairs have the term Z Z - X X - Y Y, as "
            "netket.operator.Heisenberg makes it on a bipartite graph: the spins of one "
            "sublattice are turned by pi about z. Energies are those of Z Z + X X + Y Y; "
            "correlations of X and Y between the sublattices have the other sign. Give "
            "sign_rule=False for those of the plain model",
            UserWarning,
            stacklevel=level_of_caller(),
        )


def _is_turned(matrix: np.ndarray) -> bool:
    strength = matrix[0, 0].real
    return bool(strength > 0 and np.abs(matrix - strength * _TURNED).max() < _TOLERANCE * strength)


# --- quimb


def is_hamiltonian(value: object) -> bool:
    """Tell whether something is a Hamiltonian of quimb that `hamiltonian_of` takes."""
    known = hasattr(value, "build_local_terms") or type(value).__name__.startswith("LocalHam")
    return made_by("quimb", value) and known


def hamiltonian_of(value: Any, lattice: Any = None) -> Operator | NonHermitian:
    """Read a LocalHam1D, LocalHam2D or LocalHamGen of quimb.tensor, or a SparseOperatorBuilder.

    Args:
        value: whose sites are numbers, or (row, column).
        lattice: where it lives; by default the chain or grid of the Hamiltonian.

    Returns:
        An `Operator`, or a `NonHermitian`; a sector with symmetry "U1" is its magnetisation.

    Raises:
        TypeError: another object; sites with other names.
        ValueError: another lattice; sites of different dimensions; a symmetry other than "U1".
    """
    if not is_hamiltonian(value):
        raise TypeError(
            f"from_quimb: {type(value).__name__} is no Hamiltonian that is served; these are "
            "LocalHam1D, LocalHam2D, LocalHamGen and SparseOperatorBuilder"
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
        found_on = _grid_or_bonds(shape, pairs, bool(getattr(value, "cyclic", False)))
    if found_on.n_sites != shape[0] * shape[1]:
        raise ValueError(
            f"the Hamiltonian of quimb has {shape[0] * shape[1]} sites, the lattice "
            f"{found_on.n_sites}; make both alike"
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
    if all(map(is_whole, sites)):
        return 1, int(max(sites)) + 1
    if all(isinstance(s, tuple) and len(s) == 2 and all(map(is_whole, s)) for s in sites):
        return max(int(i) for i, _ in sites) + 1, max(int(j) for _, j in sites) + 1
    raise TypeError(
        f"from_quimb: sites {list(sites)[:3]} ...; they must be numbers, or (row, column), to be "
        "those of a lattice"
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
        _check_width("from_quimb", sites, local_dim)
        patch, ordered = in_site_order(sites, matrix)
        found[patch] = found.get(patch, 0) + real_if_possible(ordered)
    if len(dims) > 1:
        raise ValueError(f"from_quimb: sites of dimensions {sorted(dims)}; all must have the same")
    return found, dims.pop() if dims else 2


def _grid_or_bonds(shape: tuple[int, int], pairs: set[tuple[int, int]], cyclic: bool) -> Lattice:
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
            f"from_quimb: symmetry {space.symmetry!r} of the Hilbert space is not served, only "
            "'U1'. Without it other sectors would be sampled too, so it is not left out"
        )
    return n_sites - 2 * int(space.sector)
