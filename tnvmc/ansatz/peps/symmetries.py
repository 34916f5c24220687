"""Which tensors of a PEPS may be one tensor for a Hamiltonian, and whether its ground state allows
it."""

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from tnvmc.ansatz.peps.layout import check_bonds
from tnvmc.ansatz.peps.orbits import keeps_network
from tnvmc.ansatz.peps.sharing import SharedTensors, Sharing
from tnvmc.ansatz.peps.starts.tensors import (
    bond_sizes,
    mean_energy,
    pattern_vectors,
    product_starts,
)
from tnvmc.jacobian.covariance import MOST_PARAMETERS
from tnvmc.lattice.embedding import Bonds, Embedding, embedding
from tnvmc.lattice.lattice import Lattice, Patch
from tnvmc.lattice.permutations import Symmetry, point_group, space_group, translations
from tnvmc.operators.arithmetic import widened
from tnvmc.operators.symmetry import which_commute, without_signs
from tnvmc.operators.term import Operator, require_operator

LEAST_SHARED = 3
"""D from which on tensors are shared by default.  At D = 2 a state without sharing ends as low or
lower, most in the same time (docs/sharing.md), if it has no more parameters than those up to which
S is averaged over steps."""

SHARED_BY = ("point", "translation")
"""Symmetries whose elements may take tensors to each other."""


def sharing(
    operator: Operator,
    names: str | Iterable[str] = SHARED_BY,
    bonds: Bonds = "open",
    edge: int | None = None,
    period: int = 1,
) -> Sharing:
    """Give the tensors that symmetries of a Hamiltonian make equal, for ``PEPS(..., sharing=)``.

    Of the elements asked for those are taken that commute with the Hamiltonian, lead bonds of the
    network to bonds of the network, and keep the sublattices of the ordered product state that
    simple update begins with, or exchange them.

    Args:
        operator: the Hamiltonian.
        names: "point" for reflections and rotations of the lattice, "translation" for those around
            rings; both by default.
        bonds: of the PEPS, as its argument.
        edge: rows and columns at each end with tensors of their own; all others, the bulk, have
            those of the first one beyond (`Sharing.edge`).  Such a state has as many parameters on
            a large lattice as on a small one, and is a start on both (decision 39).  No symmetry:
            the ground state is near such a state where its edges end within so many rows.  None:
            all rows have their own.
        period: rows and columns after which tensors of the bulk repeat.

    Raises:
        ValueError: an unknown name; an edge below 1, or on a lattice without reflections of rows
            and columns; no element but the identity is left.
    """
    require_operator("sharing", "operator", operator)
    check_bonds(bonds, operator.lattice)
    asked = (names,) if isinstance(names, str) else tuple(names)
    if not asked or not set(asked) <= set(SHARED_BY):
        raise ValueError(
            f"sharing: names = {', '.join(map(repr, asked)) or '()'}; known are "
            f"{', '.join(SHARED_BY)}"
        )
    colours, found = _colours(operator), embedding(operator.lattice, bonds)
    elements = []
    for g in _rearrangements(operator.lattice, asked, bonds):
        changes = colours != colours[list(g.sites)]  # all sublattices stay, or are exchanged
        if changes.all() == changes.any() and keeps_network(found, g.places):
            elements.append(g)
    commuting = which_commute(operator, elements)
    kept = [g.places for g, commutes in zip(elements, commuting, strict=True) if commutes]
    if len(kept) < 2:
        raise ValueError(
            f"sharing: {operator.name} on this {operator.lattice.kind} lattice has no symmetry "
            f"under {' or '.join(asked)} that a PEPS with {bonds} bonds could share tensors by; "
            "leave sharing out"
        )
    signs = _signs(operator, kept, colours, found)
    shared = Sharing(tuple(kept), tuple(map(int, colours)), signs, edge, period)
    if edge is not None:  # raises where the lattice has no bulk
        SharedTensors(shared, found, [(operator.local_dim, *b) for b in bond_sizes(found, 2)])
    return shared


def default_sharing(operator: Operator, D: int, bonds: Bonds = "open") -> Sharing | None:
    """Give the tensors that a PEPS shares where nothing is said of it, in a file and in Python.

    From `LEAST_SHARED` on, all that `sharing` gives, where the ground state is proven to be
    symmetric; None otherwise.
    """
    sizes = bond_sizes(embedding(operator.lattice, bonds), D)
    n_params = operator.local_dim * sum(map(prod, sizes))
    if D < LEAST_SHARED and n_params <= MOST_PARAMETERS:
        return None
    try:
        found = sharing(operator, bonds=bonds)
    except ValueError:  # no symmetry
        return None
    proven = signs_are_known(operator, found) and is_proven(operator, found)
    return found if proven and is_easy_plane(operator) else None


def is_proven(operator: Operator, found: Sharing) -> bool:
    """Tell whether the ground state of a sector is known to have the symmetries of `found`.

    It is where all off-diagonal elements are <= 0 in the basis (-1)^(colour s) |s>: a ground state
    is positive there (Perron and Frobenius), and can be chosen to be symmetric.
    """
    return without_signs(operator, np.array(found.colours))


def is_easy_plane(operator: Operator) -> bool:
    """Tell whether product states ordered in the plane lie lowest; True without magnetisation.

    Where one does, a finite lattice has a superposition of two orders, to which a product state in
    the plane leads slowly.
    """
    if not operator.conserves_magnetisation:
        return True
    energies = {
        name: mean_energy(operator, v)
        for name, v in product_starts(operator.lattice, operator.local_dim).items()
    }
    along_z = min(energy for name, energy in energies.items() if name.endswith("z"))
    in_plane = min(energy for name, energy in energies.items() if name.endswith("x"))
    return bool(in_plane < along_z + 1e-9 * max(1.0, abs(along_z)))


def signs_are_known(operator: Operator, found: Sharing) -> bool:
    """Tell whether every bond with signs has terms from which they follow.

    Where no term joins the two sites (J1 = 0 beside J2) both kinds of signs are taken in turn.
    """
    colours = np.array(found.colours)
    return all(_ground_of_pair(operator, pair, colours) is not None for pair, _ in found.signs)


def _colours(operator: Operator) -> np.ndarray:
    """Give 0 or 1 per site (N,): which vector of the product state ordered in the plane it has."""
    if not operator.conserves_magnetisation:
        return np.zeros(operator.n_sites, dtype=np.int64)
    vectors, _ = pattern_vectors(operator)
    differs: np.ndarray = (np.abs(vectors - vectors[0]) > 0).any(axis=1)
    return differs.astype(np.int64)


def _rearrangements(lattice: Lattice, asked: Sequence[str], bonds: Bonds) -> tuple[Symmetry, ...]:
    if bonds != "periodic":  # no translation leads its bonds to each other
        return point_group(lattice) if "point" in asked else ()
    if set(asked) == set(SHARED_BY):
        return space_group(lattice)
    return point_group(lattice) if asked[0] == "point" else translations(lattice)


def _signs(
    operator: Operator, elements: Sequence[Patch], colours: np.ndarray, found: Embedding
) -> tuple[tuple[Patch, tuple[int, ...]], ...]:
    """Of each bond of the network that an element reverses."""
    pairs = [(found.site_at[a], found.site_at[b]) for a, b in sorted(found.bonds)]
    return tuple(
        ((i, j), _of_pair(operator, (i, j), colours))
        for i, j in pairs
        if any((element[j], element[i]) == (i, j) for element in elements)
    )


def _of_pair(operator: Operator, pair: Patch, colours: np.ndarray) -> tuple[int, ...]:
    """Signs of the eigenvalues of psi(s_i, s_j), by size; see `_ground_of_pair`.

    Of equal sizes one is positive and the next negative, so that two of a bond are of both kinds
    where there are both; so are all where the ground state of the pair is not one symmetric state.
    """
    ground = _ground_of_pair(operator, pair, colours)
    if ground is None:
        return tuple((-1) ** k for k in range(operator.local_dim))
    return _ranked(np.linalg.eigvalsh((ground + ground.T) / 2))


def _ground_of_pair(operator: Operator, pair: Patch, colours: np.ndarray) -> np.ndarray | None:
    """Give psi(s_i, s_j) (d, d) of the terms on two sites; None without a unique ground state.

    Where Sz is conserved it is that with as many up as down: a field is constant in a sector.
    """
    d = operator.local_dim
    matrix = np.zeros((d * d, d * d), dtype=complex)
    for term in operator.terms:
        if set(term.sites) <= set(pair):
            matrix += widened(term.sites, term.matrix, pair, d)
    alternating = (-1.0) ** np.arange(d)
    signs = np.kron(*(alternating ** int(colours[site]) for site in pair))
    turned = matrix * np.outer(signs, signs)
    inside = np.arange(d * d)
    if operator.conserves_magnetisation:
        inside = np.flatnonzero(np.add.outer(np.arange(d), np.arange(d)).ravel() == d - 1)
    levels, states = np.linalg.eigh(turned[np.ix_(inside, inside)])
    if levels[1] - levels[0] < 1e-9 * max(1.0, float(np.abs(levels).max())):
        return None
    ground = np.zeros(d * d, dtype=complex)
    ground[inside] = states[:, 0]
    real: np.ndarray = np.real(ground / ground[np.abs(ground).argmax()]).reshape(d, d)
    return real


def _ranked(values: np.ndarray) -> tuple[int, ...]:
    """Signs of eigenvalues by size, the first one +1; those of equal size in turn."""
    left = sorted(values, key=lambda x: (-round(abs(float(x)), 9), x < 0))
    turn = 1 if left[0] > 0 else -1
    signs: list[int] = []
    while left:
        size = abs(left[0])
        equal = [x for x in left if abs(abs(x) - size) < 1e-9]
        wanted = -signs[-1] * turn if signs else turn
        chosen = next((x for x in equal if x * wanted > 0), equal[0])
        left.remove(chosen)
        zero = abs(chosen) < 1e-9
        signs.append((-signs[-1] if signs else 1) if zero else int(np.sign(chosen)) * turn)
    return tuple(signs)
