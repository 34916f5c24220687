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


def has_ground_state(operator: Operator, group: SymmetryGroup, magnetisation: int) -> bool | None:
    """Tell whether the ground state has the characters of a group; None where nothing is proven.

    Without positive off-diagonal elements it has no signs (Perron and Frobenius), and all its characters are
    +1; where Marshall's signs take the positive ones away, as of an antiferromagnet on two sublattices
    and bonds between them, their characters are its own.
    """
    if without_signs(operator, np.zeros(operator.n_sites, dtype=np.int64)):
        return all(g.character == 1 for g in group.elements)
    try:
        board = checkerboard(operator.lattice)
    except ValueError:
        return None
    if not operator.conserves_magnetisation or not without_signs(operator, board):
        return None
    ruled = [marshall_character(operator, g, magnetisation) for g in group.elements]
    if None in ruled:
        return None
    return all(known == g.character for known, g in zip(ruled, group.elements, strict=True))


def without_signs(operator: Operator, board: np.ndarray) -> bool:
    """Whether no off-diagonal element is positive in the basis (-1)^(sum of states where `board` is 1) |s>."""
    d = operator.local_dim
    for patch, found in operator.replacements.items():
        states = np.indices((d,) * len(patch)).reshape(len(patch), -1)
        parity = np.asarray(board)[list(patch)] @ states % 2
        signs = 1 - 2 * ((parity[:, None] + parity[found.targets]) % 2)
        if np.iscomplexobj(found.elements) or (signs * found.elements > 0).any():
            return False
    return True


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
