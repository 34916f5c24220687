"""Exact energies that several sectors are compared with: lowest levels, and those above them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from tnvmc.exact import MOST_IMAGES, symmetric_levels
from tnvmc.operators.basis import Basis
from tnvmc.operators.symmetry import Symmetry, SymmetryGroup
from tnvmc.operators.term import Operator
from tnvmc.series.kind import Series
from tnvmc.settings.build import QuantumNumbers
from tnvmc.trust.reference import DIAGONALISED_AT_ONCE, Reference, find_reference

_SPARE = 3  # levels beyond those that are needed, among which degenerate ones are counted
_SAME = 1e-8  # relative difference of energies that are one level


def sector_references(series: Series) -> dict[str, Reference]:
    """Find the exact energy of each of several sectors, by its name; nothing where none is known.

    Of a sector that is kept orthogonal to others it is the lowest level that is left when theirs
    are taken away.  Where one of theirs is degenerate, with other characters too, that is not
    defined, and none is given.
    """
    found: dict[str, Reference] = {}
    sectors = series.details
    for name, numbers in sectors.numbers.items():
        off = sectors.orthogonal_to[name]
        if len(series.runs[name].orthogonal or ()) > len(off):
            found[name] = Reference()  # also orthogonal to a run from elsewhere
        elif not off:
            sector, group = numbers.magnetisation, numbers.group
            found[name] = find_reference(series.operator, sector, group=group)
        else:
            lower = [(sectors.numbers[each], found[each]) for each in off]
            found[name] = _above(series.operator, numbers, lower)
    return found


def _above(
    operator: Operator, numbers: QuantumNumbers, lower: Sequence[tuple[QuantumNumbers, Reference]]
) -> Reference:
    """Find the lowest level besides those of other states; nothing where it is not known."""
    n_levels = len(lower) + _SPARE
    levels = _levels(operator, numbers, n_levels)
    left = np.arange(0 if levels is None else len(levels))
    for theirs, reference in lower:
        own = None if theirs == numbers else _levels(operator, theirs, n_levels)
        if levels is None or reference.energy is None or reference.method != "exact":
            return Reference()
        here = _places(levels[left], reference.energy)
        if own is not None and not numbers.hold(theirs):
            there = len(_places(own, reference.energy))
            if len(here) and len(here) != there:  # a state of either characters
                return Reference()
        left = np.delete(left, here[:1])
    if levels is None or not len(left):
        return Reference()
    return Reference(float(levels[left[0]]), f"diagonalisation, level {left[0] + 1}", "exact")


def _places(levels: np.ndarray, energy: float) -> np.ndarray:
    """Where an energy stands among levels: as often as it is degenerate."""
    return np.flatnonzero(np.isclose(levels, energy, rtol=_SAME, atol=_SAME))


def _levels(operator: Operator, numbers: QuantumNumbers, n_levels: int) -> np.ndarray | None:
    """The lowest levels; None where they take more than a few seconds."""
    group = numbers.group
    if group is None:
        group = SymmetryGroup((Symmetry("identity", tuple(range(operator.n_sites))),))
    dimension = Basis(operator.n_sites, operator.local_dim, numbers.magnetisation).dimension
    if dimension > DIAGONALISED_AT_ONCE or dimension * len(group) > MOST_IMAGES:
        return None
    with contextlib.suppress(ValueError, RuntimeError):
        return symmetric_levels(operator, group, numbers.magnetisation, n_levels)
    return None
