"""What an excited state is compared with, and whether it is one: lower states, exact levels."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

import numpy as np

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.exact import Sector, exact_levels
from tnvmc.operators.basis import Basis
from tnvmc.operators.properties import fingerprint
from tnvmc.operators.reference import KnownEnergy
from tnvmc.vmc.orthogonal import LowerState, Overlap

OVERLAP = 0.01
"""Largest squared overlap with a lower state: a hundredth of the distance of the two is then
missing.
"""

_NEGLIGIBLE = 1e-3
"""The same that is never told, where a measurement has no error to compare with."""

_BELOW = 4.0
"""Errors below a level that chance does not explain: once in 30 000 runs."""

_ROUNDING = 1e-6  # of an energy: what counts as the error of an enumeration

_LEVELS: dict[tuple[str, int | None, int], np.ndarray] = {}


def excited_level(lower: Sequence[LowerState], most: int) -> KnownEnergy | None:
    """Give the exact energy of the lowest state beside the lower ones; None where it is not known.

    It is known where the lower states, by their energies, are the lowest levels of the sector, each
    once. A sum over symmetries has levels of its own, of which nothing is known here.

    Args:
        lower: all of one problem.
        most: largest sector that is diagonalised.

    Cost: that of as many levels, once for each operator, and `LowerState.energy`.
    """
    levels, n_below = _lowest_levels(lower, most), len(lower)
    if len(levels) <= n_below or any(_not_lowest(lower, levels)):
        return None
    return KnownEnergy(float(levels[n_below]), 0.0, f"diagonalisation, level {n_below + 1}")


def _lowest_levels(lower: Sequence[LowerState], most: int) -> np.ndarray:
    """The lowest levels of the sector, two more than lower states; none where not known."""
    if any(each.problem.ansatz.group is not None for each in lower):
        return np.zeros(0)
    problem, n_below = lower[0].problem, len(lower)
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


def _not_lowest(lower: Sequence[LowerState], levels: np.ndarray) -> Iterator[Diagnostic]:
    """Tell which lower states, in the order of their energies, lie nearer to another level than to
    their own.
    """
    if len(levels) < len(lower):
        return
    for place, number in enumerate(sorted(range(len(lower)), key=lambda k: lower[k].energy.mean)):
        energy = lower[number].energy.mean
        distances = np.abs(levels - energy)
        if not distances[place] <= distances.min() * (1 + _ROUNDING):
            own = {"level": place + 1, "reference": float(levels[place])}
            values = {"number": number + 1, "energy": energy, **own}
            yield Diagnostic("kept_not_lowest", "warning", values)


def of_excited(
    energy: tuple[float, float], lower: Sequence[LowerState], overlaps: Sequence[Overlap], most: int
) -> Iterator[Diagnostic]:
    """Judge whether a state is orthogonal to the lower ones, and whether its energy is that of the
    next level.

    Codes: not_orthogonal, a squared overlap that is above `OVERLAP`, or lowers the energy by more
        than its error, by
    two errors of its own: the energy is mixed with that of the lower state by as much, and no upper
        bound
    of an excited level; overlap_unknown, an error of the overlap as large; kept_not_lowest, a lower
    state that is not, by its energy, the level that its place among them stands for: the lowest
    state orthogonal to all is then another one than the next level, and nothing is compared;
    below_level, an energy below the exact level: a lower state is not the exact one.

    Args:
        energy: total, and its error.
        lower: states.
        overlaps: with them.
        most: largest sector that is diagonalised.
    """
    mean, error = energy
    orthogonal = True
    for number, (each, found) in enumerate(zip(lower, overlaps, strict=True), 1):
        distance = abs(mean - each.energy.mean)
        limit = max(_NEGLIGIBLE, min(OVERLAP, error / distance if distance else OVERLAP))
        values = {"number": number, **found.as_dict()}
        if found.squared > limit + 2 * found.error:
            orthogonal = False
            yield Diagnostic("not_orthogonal", "warning", {**values, "raise": ["penalty"]})
        elif not found.error <= max(OVERLAP / 2, limit):
            yield Diagnostic("overlap_unknown", "warning", {**values, "raise": ["n_samples"]})
    if lower:
        yield from _not_lowest(lower, _lowest_levels(lower, most))
    known = excited_level(lower, most) if lower and orthogonal else None
    if known is None or not math.isfinite(mean + error):
        return
    below = known.energy_total - mean
    sigma = max(error, _ROUNDING * abs(mean))
    if below > _BELOW * sigma:
        values = {"sigmas": below / sigma, "reference": known.energy_total}
        yield Diagnostic(
            "below_level", "warning", {**values, "relative": below / abs(known.energy_total)}
        )
