"""What an excited state is compared with, and whether it is one: lower states, exact levels."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

import numpy as np

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.exact import Sector, exact_levels
from tnvmc.operators.basis import Basis
from tnvmc.operators.fingerprint import fingerprint
from tnvmc.operators.reference import KnownEnergy
from tnvmc.vmc.orthogonal import LowerState, Overlap

OVERLAP = 0.01
"""Largest squared overlap with a kept state: a hundredth of the distance of the two is then
missing.
"""

_NEGLIGIBLE = 1e-3
"""The same that is never told, where a measurement has no error to compare with."""

_BELOW = 4.0
"""Errors below a level that chance does not explain: once in 30 000 runs."""

_ROUNDING = 1e-6  # of an energy: what counts as the error of an enumeration

_LEVELS: dict[tuple[str, int | None, int], np.ndarray] = {}


def excited_level(kept: Sequence[LowerState], most: int) -> KnownEnergy | None:
    """Give the exact energy of the lowest state beside the kept ones; None where it is not known.

    It is known where the kept states, by their energies, are the lowest levels of the sector, each
    once. A sum over symmetries has levels of its own, of which nothing is known here.

    Args:
        kept: all of one problem.
        most: largest sector that is diagonalised.

    Cost: that of as many levels, once for each operator, and `LowerState.energy`.
    """
    levels, n_below = _lowest_levels(kept, most), len(kept)
    if len(levels) <= n_below or any(_not_lowest(kept, levels)):
        return None
    return KnownEnergy(float(levels[n_below]), 0.0, f"diagonalisation, level {n_below + 1}")


def _lowest_levels(kept: Sequence[LowerState], most: int) -> np.ndarray:
    """The lowest levels of the sector, two more than kept states; none where they are not known."""
    if any(each.problem.ansatz.group is not None for each in kept):
        return np.zeros(0)
    problem, n_below = kept[0].problem, len(kept)
    operator, sector = problem.operator, problem.magnetisation
    if not n_below < Basis(operator.n_sites, operator.local_dim, sector).dimension <= most:
        return np.zeros(0)
    key = fingerprint(operator), sector, n_below
    if key not in _LEVELS:
        _LEVELS[key] = np.zeros(0)
        # A comparison that fails (memory, convergence) is no reason to give up the run.
        with contextlib.suppress(ValueError, RuntimeError):
            named: Sector = "full" if sector is None else sector
            _LEVELS[key] = exact_levels(operator, n_below + 2, named)
    return _LEVELS[key]


def _not_lowest(kept: Sequence[LowerState], levels: np.ndarray) -> Iterator[Diagnostic]:
    """Tell which kept states, in the order of their energies, lie nearer to another level than to
    their own.
    """
    if len(levels) < len(kept):
        return
    for place, number in enumerate(sorted(range(len(kept)), key=lambda k: kept[k].energy.mean)):
        energy = kept[number].energy.mean
        distances = np.abs(levels - energy)
        if not distances[place] <= distances.min() * (1 + _ROUNDING):
            own = {"level": place + 1, "reference": float(levels[place])}
            values = {"number": number + 1, "energy": energy, **own}
            yield Diagnostic("kept_not_lowest", "warning", values)


def of_excited(
    energy: tuple[float, float], kept: Sequence[LowerState], overlaps: Sequence[Overlap], most: int
) -> Iterator[Diagnostic]:
    """Judge whether a state is orthogonal to the kept ones, and whether its energy is that of the
    next level.

    Codes: not_orthogonal, a squared overlap that is above `OVERLAP`, or lowers the energy by more
        than its error, by
    two errors of its own: the energy is mixed with that of the kept state by as much, and no upper
        bound
    of an excited level; overlap_unknown, an error of the overlap as large; kept_not_lowest, a kept
    state that is not, by its energy, the level that its place among them stands for: the lowest
    state orthogonal to all is then another one than the next level, and nothing is compared;
    below_level, an energy below the exact level: a kept state is not the exact one.

    Args:
        energy: total, and its error.
        kept: states.
        overlaps: with them.
        most: largest sector that is diagonalised.
    """
    mean, error = energy
    orthogonal = True
    for number, (each, found) in enumerate(zip(kept, overlaps, strict=True), 1):
        distance = abs(mean - each.energy.mean)
        limit = max(_NEGLIGIBLE, min(OVERLAP, error / distance if distance else OVERLAP))
        values = {"number": number, **found.as_dict()}
        if found.squared > limit + 2 * found.error:
            orthogonal = False
            yield Diagnostic("not_orthogonal", "warning", {**values, "raise": ["penalty"]})
        elif not found.error <= max(OVERLAP / 2, limit):
            yield Diagnostic("overlap_unknown", "warning", {**values, "raise": ["n_samples"]})
    if kept:
        yield from _not_lowest(kept, _lowest_levels(kept, most))
    known = excited_level(kept, most) if kept and orthogonal else None
    if known is None or not math.isfinite(mean + error):
        return
    below = known.energy_total - mean
    sigma = max(error, _ROUNDING * abs(mean))
    if below > _BELOW * sigma:
        values = {"sigmas": below / sigma, "reference": known.energy_total}
        yield Diagnostic(
            "below_level", "warning", {**values, "relative": below / abs(known.energy_total)}
        )
