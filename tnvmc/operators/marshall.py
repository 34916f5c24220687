"""Marshall's signs: the characters of an antiferromagnet's ground state."""

from __future__ import annotations

import numpy as np

from tnvmc.lattice.permutations import checkerboard
from tnvmc.operators.symmetry import Symmetry, SymmetryGroup
from tnvmc.operators.term import Operator


def check_characters(operator: Operator, group: SymmetryGroup, magnetisation: int) -> None:
    """Refuse an average with characters +1 where an antiferromagnet's ground state has -1.

    Nothing is known, and nothing refused, where the Hamiltonian does not conserve the magnetisation
    or is no antiferromagnet on the checkerboard.

    Args:
        operator: the Hamiltonian.
        group: whose elements are averaged over.
        magnetisation: twice the total Sz.

    Raises:
        ValueError: for the first such element; Marshall's signs would give it its character.
    """
    for name in odd_elements(operator, group, magnetisation):
        raise ValueError(
            f"the ground state of an antiferromagnet has character -1 under {name} at "
            f"2 Sz = {magnetisation}, and without marshall psi has +1, so it is out of reach"
        )


def odd_elements(operator: Operator, group: SymmetryGroup, magnetisation: int) -> tuple[str, ...]:
    """Name the elements under which an antiferromagnet's ground state has character -1.

    None where nothing is known: see `check_characters`.
    """
    if not operator.conserves_magnetisation or not _is_antiferromagnet(operator):
        return ()
    return tuple(
        g.name for g in group.elements if marshall_character(operator, g, magnetisation) == -1
    )


def has_ground_state(operator: Operator, group: SymmetryGroup, magnetisation: int) -> bool:
    """Tell whether the ground state is expected to have the characters of a group.

    Those of Marshall's rule where it says one; else +1, as a ground state without nodes has.
    """
    ruled = operator.conserves_magnetisation and _is_antiferromagnet(operator)
    expected = (
        marshall_character(operator, g, magnetisation) if ruled else None for g in group.elements
    )
    return all(
        (known or 1) == g.character for known, g in zip(expected, group.elements, strict=True)
    )


def marshall_character(operator: Operator, element: Symmetry, magnetisation: int) -> int | None:
    """Give chi of psi(g s) = chi psi(s) for psi = (-1)^(states on one sublattice) |psi|, |psi| symmetric.

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


def _is_antiferromagnet(operator: Operator) -> bool:
    """Whether nearest neighbours, on a checkerboard, have positive elements and some have any."""
    try:
        checkerboard(operator.lattice)
    except ValueError:
        return False
    found = [
        operator.replacements[bond].elements
        for bond in operator.lattice.bonds.get("nearest", ())
        if bond in operator.replacements
    ]
    return bool(found) and all(np.isrealobj(e) and (e >= 0).all() for e in found)
