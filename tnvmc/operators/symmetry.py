"""Symmetries of a Hamiltonian: rearranged sites, inverted spins, their groups, Marshall's signs."""

import contextlib
import difflib
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from tnvmc.lattice.lattice import Lattice
from tnvmc.lattice.permutations import (
    IDENTITY,
    Key,
    NotSymmetric,
    Symmetry,
    SymmetryGroup,
    checkerboard,
    moves_of_grid,
    point_group,
    space_group,
    translations,
)
from tnvmc.operators.properties import flip_invariant
from tnvmc.operators.term import Operator, Term

COMMUTATOR_TOLERANCE = 1e-10
"""Largest change of a coefficient of the Hamiltonian allowed, relative to the largest one:
above the rounding of distances and couplings, far below any coupling that is meant."""

NAMES = ("spin", "point", "translation")
"""Symmetries that can be asked for by name."""


def symmetry_group(
    operator: Operator, names: str | Iterable[str], characters: Mapping[str, int] | None = None
) -> SymmetryGroup:
    """Make the group of the symmetries asked for.

    "spin" is the inversion of all spins, "point" the point group of the lattice, "translation"
    those along its periodic directions; "point" and "translation" together make its space group.
    `characters` gives -1 or +1 for some elements by name; those of products and conjugates follow,
    and what is then free is +1, in the order of the elements.

    Raises:
        ValueError: an unknown name or character.
        NotSymmetric: the Hamiltonian does not commute with an element; contradicting characters.
    """
    asked = (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
    unknown = [name for name in asked if name not in NAMES]
    if unknown or not asked:
        raise ValueError(f"symmetries {', '.join(asked) or '(none)'}: known are {', '.join(NAMES)}")
    if operator.fermions is not None and "spin" in asked:
        raise NotSymmetric(f"{operator.name}: spin inversion is not served for fermions")
    lattice = operator.lattice
    elements = _elements(lattice, asked)
    commuting = which_commute(operator, elements, signs=True)
    broken = [g.name for g, commutes in zip(elements, commuting, strict=True) if not commutes]
    if broken:
        every = {n: which_commute(operator, _elements(lattice, (n,)), signs=True) for n in asked}
        lost = [name for name, kept in every.items() if not all(kept)]
        more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
        raise NotSymmetric(
            f"{operator.name} changes under {', '.join(broken[:3])}{more}, so "
            f"{' and '.join(lost)} cannot be "
            f"{'a symmetry' if len(lost) == 1 else 'symmetries'} of its ground state. Leave out "
            "what it breaks"
        )
    return SymmetryGroup(_signed(elements, characters or {}), asked)


@lru_cache(maxsize=16)
def is_symmetric(operator: Operator, group: SymmetryGroup) -> bool:
    """Tell whether the operator commutes with every element; remembered."""
    return all(which_commute(operator, group.elements))


def require_symmetric(
    what: str, operator: Operator, elements: Sequence[Symmetry], make: str, signs: bool = False
) -> None:
    """Raise NotSymmetric where a Hamiltonian lacks symmetries that a state is made with."""
    lost = sum(not kept for kept in which_commute(operator, elements, signs=signs))
    if lost:
        raise NotSymmetric(
            f"{what} has {len(elements)} symmetries, and {operator.name} lacks {lost} of them; "
            f"make it for this Hamiltonian, by tnvmc.{make}"
        )


def which_commute(
    operator: Operator, elements: Sequence[Symmetry], conjugate: bool = False, signs: bool = False
) -> list[bool]:
    """Tell for each element whether [H, g] = 0, however H is cut into terms.

    With `conjugate` what inverts is followed by complex conjugation.  Of fermions, psi(g s) is not
    the state that g makes of psi: none commutes, but with the `signs` of `Strings.of_image`.
    """
    if operator.fermions is not None:
        return [signs and _moves_fermions_to_itself(operator, g) for g in elements]
    plain = _coefficients(operator.terms)
    inverted = plain
    if any(element.inverts for element in elements):
        turned = [Term(t.sites, t.matrix[::-1, ::-1]) for t in operator.terms]
        if conjugate:
            turned = [Term(t.sites, t.matrix.conj()) for t in turned]
        inverted = _coefficients(turned)
    scale = max((abs(value) for value in plain.values()), default=0.0)
    found = []
    for element in elements:
        moved: dict[_String, complex] = {}
        for string, value in (inverted if element.inverts else plain).items():
            there = tuple(sorted((element.sites[site], which) for site, which in string))
            moved[there] = value
        change = max((abs(moved.get(k, 0) - plain.get(k, 0)) for k in {*plain, *moved}), default=0)
        found.append(bool(change <= COMMUTATOR_TOLERANCE * scale))
    return found


def _moves_fermions_to_itself(operator: Operator, element: Symmetry) -> bool:
    """Tell whether a rearrangement of the sites takes H to itself, signs of fermions included."""
    strings, places = operator.strings, element.places
    assert strings is not None
    if element.inverts:
        return False
    moved = []
    for term in operator.terms:
        k, d = len(term.sites), term.local_dim
        there = [places[site] for site in term.sites]
        order = np.argsort(there)
        legs = strings.moved(term.sites, term.matrix, places).reshape((d,) * (2 * k))
        matrix = legs.transpose([*order, *(k + order)]).reshape(term.matrix.shape)
        moved.append(Term(tuple(sorted(there)), matrix))
    here, found = _coefficients(operator.terms), _coefficients(moved)
    scale = max((abs(value) for value in here.values()), default=0.0)
    changes = (abs(here.get(key, 0) - found.get(key, 0)) for key in {*here, *found})
    return bool(max(changes, default=0.0) <= COMMUTATOR_TOLERANCE * scale)


def other_sectors(operator: Operator, sector: int) -> list[int]:
    """Give the sectors (twice the total Sz) beside one, nearest first, whose energies may differ.

    Of M and -M only one where turning all spins over takes H to itself, alone or together with
    complex conjugation, a reflection or rotation of the grid, or a shift by one place.
    """
    top = operator.n_sites * (operator.local_dim - 1)
    every = sorted(range(-top, top + 1, 2), key=lambda other: abs(other - sector))
    if mirrors_sectors(operator):
        return [other for other in every if other >= 0 and other != abs(sector)]
    return [other for other in every if other != sector]


@lru_cache(maxsize=16)
def mirrors_sectors(operator: Operator) -> bool:
    """Tell whether energies of M and -M are the same, as `other_sectors` explains; remembered."""
    if flip_invariant(operator):
        return True
    turned = [replace(g, inverts=True) for g in moves_of_grid(operator.lattice)]
    kinds = (False, True) if operator.is_complex else (False,)
    return any(any(which_commute(operator, turned, kind)) for kind in kinds)


def same_levels(operator: Operator, sector: int | None, signed: bool) -> int | None:
    """Give the sector that stands for all with its energies: |M| where M and -M have the same.

    `signed` is whether there are characters too, which a move over the lattice may change.
    """
    mirrors = flip_invariant if signed else mirrors_sectors
    return abs(sector) if sector and mirrors(operator) else sector


_String = tuple[tuple[int, int], ...]
"""A product of traceless one-site operators: (site, which one) in increasing order of sites."""


def _coefficients(terms: Iterable[Term]) -> dict[_String, complex]:
    """H as a sum of products of one-site operators, alike for equal operators."""
    total: dict[_String, complex] = defaultdict(complex)
    for term in terms:
        k, d = len(term.sites), term.local_dim
        legs = term.matrix.reshape((d,) * (2 * k))
        pairs = legs.transpose([axis for j in range(k) for axis in (j, k + j)])
        table = pairs.reshape((d * d,) * k).astype(complex)
        to_basis = _operator_basis(d)
        for _ in range(k):  # each site in turn becomes the last axis
            table = np.tensordot(table, to_basis, axes=(0, 1))
        for index in np.argwhere(np.abs(table) > 0):
            string = tuple(
                (site, int(which)) for site, which in zip(term.sites, index, strict=True) if which
            )
            total[string] += table[tuple(index)]
    return total


def _operator_basis(d: int) -> np.ndarray:
    """Inverse transpose of the basis 1 (row 0), E_ab for a != b, and E_aa for a > 0."""
    matrices = [np.eye(d).ravel()]
    for a, b in itertools.product(range(d), repeat=2):
        if (a, b) != (0, 0):
            matrices.append(np.eye(d * d)[a * d + b])
    return np.linalg.inv(np.array(matrices)).T


def _elements(lattice: Lattice, asked: Sequence[str]) -> tuple[Symmetry, ...]:
    groups = {(True, True): space_group, (True, False): point_group, (False, True): translations}
    group = groups.get(("point" in asked, "translation" in asked))
    plain = group(lattice) if group else (Symmetry(IDENTITY, tuple(range(lattice.n_sites))),)
    if "spin" not in asked:
        return plain
    name = "spin inversion"
    names = [name if g.name == IDENTITY else f"{g.name} with {name}" for g in plain]
    return (*plain, *(Symmetry(n, g.sites, True) for n, g in zip(names, plain, strict=True)))


def _signed(elements: tuple[Symmetry, ...], characters: Mapping[str, int]) -> tuple[Symmetry, ...]:
    """Give the characters of what follows from those given, and +1 to what does not.

    A square has +1 in every real representation of one dimension.  The quotient by all squares is a
    product of groups of two elements, where any sign goes with what is independent of it.
    """
    if not characters:  # +1 everywhere goes with any group
        return elements
    by_name = {element.name: element for element in elements}
    for name, value in characters.items():
        if name not in by_name:
            close = difflib.get_close_matches(name, by_name, 1)
            meant = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(by_name)}"
            raise ValueError(f"character of {name!r}: no such element; {meant}")
        if value not in (-1, 1):
            raise ValueError(f"character {value} of {name!r}: it must be -1 or +1")
    unit = tuple(range(len(elements[0].sites)))
    known = {(unit, False): 1}
    for g in elements:
        _extend(known, g.after(g), 1)
    squares = set(known)
    others = [g for g in elements if g.name not in characters]
    for g in [by_name[name] for name in characters] + others:
        if g.key in known:
            if characters.get(g.name, known[g.key]) != known[g.key]:
                group = "the group: it is a product of squares, which have +1"
                raise NotSymmetric(
                    f"character {characters[g.name]:+d} of {g.name!r} contradicts "
                    f"{group if g.key in squares else 'the others given'}"
                )
            continue
        _extend(known, g.key, characters.get(g.name, 1))
    return tuple(replace(g, character=known[g.key]) for g in elements)


def _extend(known: dict[Key, int], key: Key, character: int) -> None:
    """Add an element to a subgroup with its characters, and all products that follow."""
    if key in known:
        return
    known[key] = character
    frontier = [key]
    while frontier:
        new = frontier.pop()
        for other, chi in list(known.items()):
            for a, b in ((new, other), (other, new)):
                product = Symmetry("", *a).after(Symmetry("", *b))
                if product not in known:
                    known[product] = known[new] * chi
                    frontier.append(product)


# --- Marshall's signs: the characters of an antiferromagnet's ground state


def check_characters(operator: Operator, group: SymmetryGroup, magnetisation: int) -> None:
    """Raise ValueError for an average with +1 where an antiferromagnet's ground state has -1.

    Marshall's signs would give it its character.  `magnetisation` is twice the total Sz.
    """
    for name in odd_elements(operator, group, magnetisation):
        raise ValueError(
            f"the ground state of an antiferromagnet has character -1 under {name} at "
            f"2 Sz = {magnetisation}, and without marshall psi has +1, so it is out of reach"
        )


def odd_elements(operator: Operator, group: SymmetryGroup, magnetisation: int) -> tuple[str, ...]:
    """Name the elements under which an antiferromagnet's ground state has character -1.

    None are known of other Hamiltonians than antiferromagnets on the checkerboard that conserve the
    magnetisation.
    """
    if not known_signs(operator)[0]:
        return ()
    return tuple(
        g.name for g in group.elements if marshall_character(operator, g, magnetisation) == -1
    )


def has_ground_state(operator: Operator, group: SymmetryGroup, magnetisation: int) -> bool | None:
    """Tell whether the ground state has the characters of a group; None where nothing is proven.

    Without positive off-diagonal elements it has no signs (Perron and Frobenius), and characters
    +1; where Marshall's signs remove the positive ones, their characters are its own.
    """
    marshall, exact = known_signs(operator)
    if not exact:
        return None
    if not marshall:
        return all(g.character == 1 for g in group.elements)
    ruled = [marshall_character(operator, g, magnetisation) for g in group.elements]
    if None in ruled:
        return None
    return all(known == g.character for known, g in zip(ruled, group.elements, strict=True))


def without_signs(operator: Operator, board: np.ndarray) -> bool:
    """Whether no element off the diagonal is positive in the basis (-1)^(board . s) |s>."""
    return positive_elements(operator, board) == 0


def positive_elements(operator: Operator, board: np.ndarray) -> float:
    """Sum the positive elements off the diagonal in that basis; infinite where some are complex."""
    d, total = operator.local_dim, 0.0
    for patch, found in operator.replacements.items():
        states = np.indices((d,) * len(patch)).reshape(len(patch), -1)
        parity = np.asarray(board)[list(patch)] @ states % 2
        signs = 1 - 2 * ((parity[:, None] + parity[found.targets]) % 2)
        if np.iscomplexobj(found.elements):
            return math.inf
        total += float(np.sum(np.maximum(signs * found.elements, 0)))
    return total


def known_signs(operator: Operator) -> tuple[bool, bool]:
    """Tell whether Marshall's signs are closer to those of the ground state than none, and whether
    the closer ones are exact: then what multiplies them is positive.

    Closer are those that leave less of the positive elements, of which exact ones leave none.
    """
    if operator.fermions is not None:
        return False, False
    plain = positive_elements(operator, np.zeros(operator.n_sites, dtype=np.int64))
    ruled = math.inf
    if operator.conserves_magnetisation:
        with contextlib.suppress(ValueError):  # no checkerboard
            ruled = positive_elements(operator, checkerboard(operator.lattice))
    return ruled < plain, min(ruled, plain) == 0


def marshall_character(operator: Operator, element: Symmetry, magnetisation: int) -> int | None:
    """Give chi of psi(g s) = chi psi(s), where psi has Marshall's signs and |psi| is symmetric.

    An exchange of the sublattices gives (-1)^(sum of all states), (-1)^n_down for d = 2; spin
    inversion (-1)^((d - 1) N_B).  None for an element that mixes the sublattices.

    Source: W. Marshall, Proc. R. Soc. A 232, 48 (1955).
    """
    board, top = checkerboard(operator.lattice), operator.local_dim - 1
    moved = board[list(element.sites)]
    exchanged = bool((moved != board).all())
    if not exchanged and not (moved == board).all():
        return None
    exponent = (operator.n_sites * top - magnetisation) // 2 if exchanged else 0
    exponent += top * int(board.sum()) if element.inverts else 0
    return -1 if exponent % 2 else 1
