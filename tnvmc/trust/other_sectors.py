"""Whether a lower energy lies in another sector of the total Sz than the one that was solved.

Without being told otherwise a run solves the sector of the smallest |Sz|.  That holds the ground
state of antiferromagnets; an easy-axis ferromagnet or a magnet in a field may have it elsewhere.
"""

from __future__ import annotations

import math

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.operators.basis import Basis, smallest_magnetisation
from tnvmc.operators.properties import (
    energy_bound,
    flip_invariant,
    net_field,
    polarised,
    rotation_invariant,
)
from tnvmc.operators.term import Operator
from tnvmc.trust.reference import DIAGONALISED, lowest_energy

BELOW_EXACT = 4.0
"""Errors below a known energy that chance does not explain: once in 30 000 runs."""

_ROUNDING = 1e-9  # of the largest energy there can be: two sectors that far apart are degenerate


def elsewhere(
    energy: tuple[float, float],
    operator: Operator,
    sector: int | None,
    most: int = DIAGONALISED,
) -> tuple[Diagnostic, ...]:
    """Tell where a lower energy lies in another sector, or may.

    Nothing is told of an operator that commutes with the total spin, whose smallest sector holds
    the ground state, nor of a sector other than the smallest or of the operator's own, which
    somebody has chosen.

    Codes: lower_in_other_sector, where the fully polarised state lies below the energy (below the
    ground state of this sector, where that is known), or the sectors next to this one, which are
    diagonalised where they are small, have a lower ground state;
    sector_not_compared, where there is a net field along z and they are too large for that.

    Args:
        energy: total, and its error.
        operator: the Hamiltonian.
        sector: twice the total Sz of the samples; None where it is not conserved.
        most: largest sector that is diagonalised, once for each operator.
    """
    n_sites, d = operator.n_sites, operator.local_dim
    if sector is None or abs(sector) != smallest_magnetisation(n_sites, d):
        return ()
    if operator.magnetisation is not None:  # chosen, by a Hilbert space
        return ()
    if not operator.replacements or not math.isfinite(energy[0]) or rotation_invariant(operator):
        return ()
    lowest, known = _neighbours(operator, sector, most)
    end, polar = min(polarised(operator), key=lambda each: each[1])
    error = energy[1] if math.isfinite(energy[1]) else 0.0
    slack = max(BELOW_EXACT * error, _rounding(operator))
    best = lowest[1] if lowest is not None else _lowest(operator, sector, most)
    # An energy above that of full polarisation may be a bad one of the right sector.
    if polar < (energy[0] - slack if best is None else best - _rounding(operator)):
        lowest = end, polar
    values: dict[str, float] = {"magnetisation": sector}
    if lowest is not None:
        values |= {"other": lowest[0], "energy_per_site": lowest[1] / n_sites}
        return (Diagnostic("lower_in_other_sector", "warning", values),)
    field = net_field(operator)
    if field and not known:
        field_values = values | {"field_per_site": field / n_sites}
        return (Diagnostic("sector_not_compared", "warning", field_values),)
    return ()


def _neighbours(
    operator: Operator, sector: int, most: int
) -> tuple[tuple[int, float] | None, bool]:
    """Go from sector to sector as long as energies fall, in both directions.

    Returns:
        Twice the total Sz and the energy of the lowest one, None where that is this one; and
        whether the sectors next to it could be compared.
    """
    here = _lowest(operator, sector, most)
    if here is None:
        return None, False
    best, known, slack = (sector, here), True, _rounding(operator)
    for step in (2,) if flip_invariant(operator) else (2, -2):
        low, other = (sector, here), sector + step
        while abs(other) <= operator.n_sites * (operator.local_dim - 1):
            energy = _lowest(operator, other, most)
            if energy is None:
                known &= low[0] != sector
                break
            if energy > low[1] - slack and other != -sector:
                break
            low, other = min(low, (other, energy), key=lambda each: each[1]), other + step
        best = low if low[1] < best[1] - slack else best
    return (None if best[0] == sector else best), known


def _rounding(operator: Operator) -> float:
    """Give how far apart energies of two sectors may come out that are the same."""
    return _ROUNDING * energy_bound(operator)


def _lowest(operator: Operator, sector: int, most: int) -> float | None:
    """Ground-state energy of a sector, from diagonalisation."""
    if Basis(operator.n_sites, operator.local_dim, sector).dimension > most:
        return None
    known = lowest_energy(operator, sector, most)
    return None if known is None else known.energy_total
