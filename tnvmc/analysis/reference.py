"""The energy that a run is compared with."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from tnvmc.exact import Sector, exact_ground_state, exact_levels
from tnvmc.operators.basis import Basis
from tnvmc.operators.marshall import has_ground_state
from tnvmc.operators.reference import known_energy
from tnvmc.operators.symmetry import SymmetryGroup
from tnvmc.operators.term import Operator
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
    level: int = 0,
) -> Reference:
    """Find the exact energy: known, else by diagonalisation where that takes a few seconds.

    Published numbers that are not exact (QMC, other variational states) come last.  Of a state that is
    summed over a `group` the lowest energy of its characters; that of the ground state only where it is
    expected to have them.  `level` is the number of states of the sector below the one that is meant; with a
    group nothing is known of it, since they may have other characters.
    """
    sector = (magnetisation or 0) if operator.conserves_magnetisation else None
    if group is not None and level:
        return Reference()
    if group is not None:
        own = lowest_energy(operator, sector, DIAGONALISED_AT_ONCE, group)
        if own is not None and own.method == "exact":
            return Reference(own.energy_total, own.source, own.method)
        if not has_ground_state(operator, group, magnetisation or 0):
            return Reference()
    known = None
    if not level:
        with contextlib.suppress(OverflowError):  # couplings whose squares are no numbers
            known = known_energy(operator, sector or 0)
    if known is not None and known.method == "exact":
        return Reference(known.energy_total, known.source, known.method)
    dimension = Basis(operator.n_sites, operator.local_dim, sector).dimension
    if level < dimension <= DIAGONALISED_AT_ONCE:
        # A comparison that fails (memory, convergence) is no reason to give up the run.
        with contextlib.suppress(ValueError, RuntimeError):
            named: Sector = "full" if sector is None else sector
            if level:
                energy = float(exact_levels(operator, level + 1, named)[level])
                return Reference(energy, f"diagonalisation, level {level + 1}", "exact")
            exact = exact_ground_state(operator, named)
            return Reference(exact.energy, "diagonalisation", "exact")
    if known is not None:
        return Reference(known.energy_total, known.source, known.method, known.error)
    return Reference()
