"""Operators and Hilbert spaces of NetKet (Vicentini et al., SciPost Phys. Codebases 7, 2022).

Local state a of a site here is NetKet's local state number a, so matrices go over as they are: spin up
first, as 0 (both orderings of `netket.hilbert.Spin` have it so), bosons by their number.  Units stay
NetKet's, which are Pauli matrices: `netket.operator.Heisenberg` is 4 times `heisenberg`.

NetKet is imported only when one of its objects is handed over.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.backend.calls import level_of_caller
from tnvmc.lattice.custom import from_bonds
from tnvmc.lattice.lattice import Lattice, Patch
from tnvmc.lattice.netket import as_lattice, from_graph
from tnvmc.operators.products import MAX_WIDTH, in_site_order, most_sites, product_matrix
from tnvmc.operators.term import NonHermitian, Operator, made_of

_TURNED = product_matrix("Z Z - X X - Y Y")
_TOLERANCE = 1e-12  # of the largest element: Heisenberg's terms are exact


@dataclass(frozen=True)
class Space:
    """What a Hilbert space says: its sites, their states and the sector."""

    n_sites: int  #: N
    local_dim: int  #: d
    magnetisation: int | None = (
        None  #: twice the total Sz, N (d - 1) - 2 sum_i s_i; None: all of them
    )


def from_netket(value: Any, lattice: Any = None) -> Lattice | Space | Operator | NonHermitian:
    """Take a graph, a Hilbert space or an operator of NetKet as it is.

    `VMC`, `VMC.expect`, `exact_ground_state`, the models and the states take them without this.

    Args:
        value: a graph (`lattice.netket.from_graph`); a Hilbert space of equal sites, Spin, Qubit or Fock;
            an operator on one: LocalOperator, PauliStrings, Ising, BoseHubbard, their sums, products and
            adjoints.
        lattice: where an operator lives, a `Lattice` or a graph with as many sites; by default the
            pairs of its two-site terms, as a list of bonds without a grid.

    Returns:
        A `Lattice`; a `Space`; an `Operator`, or a `NonHermitian` for what is not Hermitian.  total_sz
        and n_particles become the `magnetisation` of the operator, of which `VMC` makes its sector.

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
    space, read = space_of(value.hilbert), list(_sums(value))
    found_on = _lattice_of(as_lattice(lattice), space, read)
    found = made_of(
        found_on, _by_patch(read), space.local_dim, "custom", _name(value), space.magnetisation
    )  # fmt: skip
    _tell_signs(found)
    return found


def _name(operator: Any) -> str:
    """Name of the kind: "Ising" of an IsingJax, "SumOperator" of a SumDiscreteJaxOperator."""
    name = type(operator).__name__.split("[")[0]
    return name.replace("Discrete", "").replace("Jax", "").replace("Numba", "")


def space_of(hilbert: Any) -> Space:
    """Read a Hilbert space.

    Raises:
        TypeError, ValueError: as `from_netket`.
    """
    import netket

    name = type(hilbert).__name__
    if "Fermion" in name:
        raise TypeError(
            f"{name}: fermions are not served, their order gives signs that spins do not have. Map them "
            "to spins first, as by Jordan and Wigner"
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
            "n_particles). Without the constraint its states would be sampled too, so it is not left out"
        )
    n_sites, values = int(hilbert.size), hilbert.local_states
    steps = (float(constraint.sum_value) - n_sites * values[0]) / (values[1] - values[0])
    return int(n_sites * (len(values) - 1) - 2 * round(steps))


def _sums(operator: Any) -> Iterator[tuple[Patch, np.ndarray]]:
    """Sites in order, and matrices, whose sum is an operator.

    Raises:
        TypeError: a kind of operator that is not known.
        ValueError: terms on too many sites.
    """
    d = int(operator.hilbert.local_size)
    if hasattr(operator, "to_local_operator"):  # Ising, BoseHubbard
        operator = operator.to_local_operator()
    if hasattr(operator, "constant") and hasattr(operator, "acting_on"):
        yield from _constant(complex(operator.constant), d)
        for sites, matrix in zip(operator.acting_on, operator.operators, strict=True):
            _check_width(operator, sites, d)
            dense = matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)
            yield in_site_order(tuple(map(int, sites)), dense)
    elif hasattr(operator, "operators") and hasattr(operator, "weights"):  # PauliStrings
        for word, weight in zip(operator.operators, operator.weights, strict=True):
            yield from _string(operator, str(word), complex(weight))
    elif hasattr(operator, "operators") and hasattr(operator, "coefficients"):
        for factor, part in zip(operator.coefficients, operator.operators, strict=True):
            yield from ((sites, complex(factor) * matrix) for sites, matrix in _sums(part))
    elif hasattr(operator, "operators") and hasattr(operator, "coefficient"):
        yield from _product(operator.operators, complex(operator.coefficient))
    elif type(operator).__name__.startswith("Adjoint"):
        yield from ((sites, matrix.conj().T) for sites, matrix in _sums(operator.parent))
    elif type(operator).__name__.startswith("Transpose"):
        yield from ((sites, matrix.T) for sites, matrix in _sums(operator.parent))
    elif type(operator).__name__.startswith("Squared"):
        yield from _product([operator.parent.H, operator.parent], 1.0)
    else:
        raise TypeError(
            f"{type(operator).__name__} of NetKet is not served; these are: LocalOperator, PauliStrings, "
            "Ising, BoseHubbard, their sums, products and adjoints. Write it as a LocalOperator, or as an "
            "Operator.from_products"
        )


def _constant(number: complex, local_dim: int) -> Iterator[tuple[Patch, np.ndarray]]:
    if number:
        yield (0,), number * np.eye(local_dim)


def _string(operator: Any, word: str, weight: complex) -> Iterator[tuple[Patch, np.ndarray]]:
    sites = tuple(site for site, letter in enumerate(word) if letter != "I")
    if not sites:
        yield from _constant(weight, 2)
        return
    _check_width(operator, sites, 2)
    yield sites, weight * product_matrix(" ".join(word[site] for site in sites))


def _product(factors: Iterable[Any], number: complex) -> Iterator[tuple[Patch, np.ndarray]]:
    """Multiply operators, the last one acting first."""
    found: Any = None
    for factor in factors:
        space, read = space_of(factor.hilbert), list(_sums(factor))
        made = made_of(
            from_bonds(space.n_sites, []), _by_patch(read), space.local_dim, name=type(factor).__name__
        )  # fmt: skip
        found = made if found is None else found @ made
    yield from ((sites, number * matrix) for sites, matrix in found.matrices.items())


def _by_patch(read: Iterable[tuple[Patch, np.ndarray]]) -> dict[Patch, np.ndarray]:
    sums: dict[Patch, np.ndarray] = {}
    for sites, matrix in read:
        sums[sites] = sums.get(sites, 0) + matrix
    return {
        sites: matrix if np.any(np.imag(matrix)) else matrix.real for sites, matrix in sums.items()
    }


def _lattice_of(lattice: Any, space: Space, read: Iterable[tuple[Patch, np.ndarray]]) -> Lattice:
    if lattice is None:
        pairs = sorted({sites for sites, _ in read if len(sites) == 2})
        return from_bonds(space.n_sites, pairs)
    if lattice.n_sites != space.n_sites:
        raise ValueError(
            f"the Hilbert space of NetKet's operator has {space.n_sites} sites, the lattice "
            f"{lattice.n_sites} ({lattice.size}); make both from one graph. Site i "
            "of the one is site i of the other"
        )
    return lattice  # type: ignore[no-any-return]


def _check_width(operator: Any, sites: Any, local_dim: int) -> None:
    if len(sites) > most_sites(local_dim):
        raise ValueError(
            f"{type(operator).__name__}: a term on the {len(sites)} sites {tuple(sites)}; with local "
            f"dimension {local_dim} a term may act on {most_sites(local_dim)} at most"
        )


def _tell_signs(operator: Operator | NonHermitian) -> None:
    """Warn of Heisenberg's terms with Marshall's signs: the energies are the same, other means are not."""
    if not isinstance(operator, Operator) or operator.local_dim != 2:
        return
    pairs = [matrix for sites, matrix in operator.matrices.items() if len(sites) == 2]
    turned = sum(_is_turned(matrix) for matrix in pairs)
    if turned:
        warnings.warn(
            f"{operator.name}: {turned} of {len(pairs)} pairs have the term Z Z - X X - Y Y, as "
            "netket.operator.Heisenberg makes it on a bipartite graph: the spins of one sublattice are "
            "turned by pi about z. Energies are those of Z Z + X X + Y Y; correlations of X and Y between "
            "the sublattices have the other sign. Give sign_rule=False for those of the plain model",
            UserWarning,
            stacklevel=level_of_caller(),
        )


def _is_turned(matrix: np.ndarray) -> bool:
    strength = matrix[0, 0].real
    return bool(strength > 0 and np.abs(matrix - strength * _TURNED).max() < _TOLERANCE * strength)
