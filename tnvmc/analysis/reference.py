"""The energy that a run is compared with."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from tnvmc.exact import exact_ground_state
from tnvmc.operators.basis import Basis
from tnvmc.operators.reference import known_energy
from tnvmc.operators.symmetry import SymmetryGroup, has_ground_state
from tnvmc.operators.term import Operator
from tnvmc.vmc.excited import excited_level
from tnvmc.vmc.orthogonal import LowerState
from tnvmc.vmc.reliability import lowest_energy

DIAGONALISED_AT_ONCE = 400_000
"""Largest sector whose ground state is computed for comparison: a few seconds."""


@dataclass(frozen=True)
class Reference:
    """The energy a run is compared with; all None where none is known."""

    energy: float | None = None
    source: str | None = None
    method: str | None = None
    error: float | None = None  #: of an energy that is not exact, where it is known


def find_reference(
    operator: Operator,
    magnetisation: int | None = None,
    group: SymmetryGroup | None = None,
    kept: Sequence[LowerState] = (),
) -> Reference:
    """Find the exact energy: known, else by diagonalisation where that takes a few seconds.

    Published numbers that are not exact (QMC, other variational states) come last.  Of a state that is
    summed over a `group` the lowest energy of its characters, that of the ground state where it is
    proven to have them (`marshall.has_ground_state`).  Of one beside `kept` states the next level
    (`excited.excited_level`); with a group nothing is known of it.
    """
    if kept:
        known = None if group else excited_level(kept, DIAGONALISED_AT_ONCE)
        return (
            Reference() if known is None else Reference(known.energy_total, known.source, "exact")
        )
    sector = (magnetisation or 0) if operator.conserves_magnetisation else None
    if group is not None:
        own = lowest_energy(operator, sector, DIAGONALISED_AT_ONCE, group)
        if own is not None and own.method == "exact":
            return Reference(own.energy_total, own.source, own.method)
        if not has_ground_state(operator, group, magnetisation or 0):
            return Reference()
    known = None
    with contextlib.suppress(OverflowError):  # couplings whose squares are no numbers
        known = known_energy(operator, sector or 0)
    if known is not None and known.method == "exact":
        return Reference(known.energy_total, known.source, known.method)
    if Basis(operator.n_sites, operator.local_dim, sector).dimension <= DIAGONALISED_AT_ONCE:
        # A comparison that fails (memory, convergence) is no reason to give up the run.
        with contextlib.suppress(ValueError, RuntimeError):
            exact = exact_ground_state(operator, "full" if sector is None else sector)
            return Reference(exact.energy, "diagonalisation", "exact")
    if known is not None:
        return Reference(known.energy_total, known.source, known.method, known.error)
    return Reference()
