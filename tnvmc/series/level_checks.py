"""How the energies of sectors are judged: by exact levels, and by each other."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.limits import Json
from tnvmc.operators.term import Operator
from tnvmc.series.kind import Row, Series
from tnvmc.settings.build import QuantumNumbers
from tnvmc.storage.hdf5 import StateFileError
from tnvmc.storage.run_files import has_changed, orthogonal_hashes
from tnvmc.storage.run_folder import CHECKPOINT
from tnvmc.trust.energies import ABOVE_EXACT, FAR_ABOVE
from tnvmc.trust.gaps import SIGNIFICANT, Gap, energy_gap, smallest_gap
from tnvmc.trust.reference import DIAGONALISED_AT_ONCE, Reference, find_reference, lowest_levels

_ROUNDING = 1e-9  # of an exact energy: the difference of two that are one level


@dataclass(frozen=True, kw_only=True)
class SectorRow(Row):
    """The energy of one sector, and its gap above the first."""

    magnetisation: int | None = None  #: twice the total Sz
    symmetrise: tuple[str, ...] = ()  #: symmetries that the state is summed over
    characters: Mapping[str, int] = field(default_factory=dict)  #: those that were given
    orthogonal_to: tuple[str, ...] = ()  #: sectors whose states it was kept orthogonal to
    exact: Reference = field(default_factory=Reference)  #: of this sector
    sigmas: float | None = None  #: energy less the exact one, in errors of both
    gap: Gap | None = None  #: None of the first, and of what is not orthogonal to a lower one
    exact_gap: float | None = None
    gap_sigmas: float | None = None  #: gap less the exact one, in errors of both
    overlaps: tuple[Json, ...] = ()  #: squared, with those states, and their errors

    def as_dict(self) -> dict[str, Any]:
        values = super().as_dict()
        if self.gap is not None:
            keys = ("energy", "error", "residual", "residual_below", "bias")
            told = [each.as_dict() for each in self.gap.diagnostics]
            values["gap"] = {key: getattr(self.gap, key) for key in keys} | {"diagnostics": told}
        return values


def judged(
    rows: Sequence[SectorRow], first: str, numbers: Mapping[str, QuantumNumbers], rotations: bool
) -> tuple[SectorRow, ...]:
    """Give rows with gaps above the first sector, and with warnings of levels that cannot be right.

    `rotations` is whether the Hamiltonian has all rotations of the spins.
    """
    if rows and rows[0].name == first:
        rows = [rows[0], *(_above(rows[0], row) for row in rows[1:])]
    rows = [_compared(row, rows[:place], numbers) for place, row in enumerate(rows)]
    return tuple(_bounded(row, rows, numbers, rotations) for row in rows)


def sigmas_off(energy: float, error: float, exact: Reference) -> float | None:
    """Give the distance of an energy from an exact one in errors of both; None without either."""
    both = math.hypot(error, exact.error or 0.0)
    return None if exact.energy is None or not both else (energy - exact.energy) / both


def _above(first: SectorRow, row: SectorRow) -> SectorRow:
    """Give a row with its gap, which a mixture with a lower state does not have."""
    if any(found.code == "not_orthogonal" for found in row.diagnostics):
        return replace(row, sigmas=None)
    gap = energy_gap(row, first)
    exact_gap = sigmas = None
    if row.exact.energy is not None and first.exact.energy is not None:
        exact_gap = row.exact.energy - first.exact.energy
        if abs(exact_gap) <= _ROUNDING * abs(first.exact.energy):
            exact_gap = 0.0
        error = math.hypot(gap.error, row.exact.error or 0.0, first.exact.error or 0.0)
        sigmas = (gap.energy - exact_gap) / error if error else None
    if row.exact.method == first.exact.method == "exact" and exact_gap is not None:
        distance = gap.energy - exact_gap
        if abs(distance) > max(ABOVE_EXACT * gap.error, FAR_ABOVE * abs(exact_gap)):
            in_errors = distance / gap.error if gap.error else None
            values = {"exact": exact_gap, "distance": distance, "sigmas": in_errors}
            found = Diagnostic("gap_far_from_exact", "warning", values)
            gap = replace(gap, diagnostics=(*gap.diagnostics, found))
    return replace(row, gap=gap, exact_gap=exact_gap, gap_sigmas=sigmas)


def _compared(
    row: SectorRow, above: Sequence[SectorRow], numbers: Mapping[str, QuantumNumbers]
) -> SectorRow:
    """Give a row with a warning for each one before it in the file that may be the same state."""
    found = []
    for other in above:
        if other.name in row.orthogonal_to or numbers[row.name].exclude(numbers[other.name]):
            continue
        distance = abs(row.energy - other.energy)
        if distance <= SIGNIFICANT * smallest_gap(row, other):
            error = math.hypot(row.energy_error, other.energy_error)
            values = {"other": other.name, "sigmas": distance / error if error else None}
            found.append(Diagnostic("same_state", "warning", values))
    return replace(row, diagnostics=(*row.diagnostics, *found))


def _bounded(
    row: SectorRow,
    every: Sequence[SectorRow],
    numbers: Mapping[str, QuantumNumbers],
    rotations: bool,
) -> SectorRow:
    """Give a row with a warning where another energy proves that it is not the lowest."""
    lower = [
        other
        for other in every
        if numbers[row.name].lies_below(numbers[other.name], rotations)
        and row.energy - other.energy > SIGNIFICANT * smallest_gap(row, other)
    ]
    if row.orthogonal_to or not lower:
        return row
    other = min(lower, key=lambda each: each.energy)
    distance, error = row.energy - other.energy, smallest_gap(row, other)
    values = {"other": other.name, "distance": distance, "sigmas": distance / error}
    return replace(row, diagnostics=(*row.diagnostics, Diagnostic("not_lowest", "warning", values)))


def with_key(series: Series, name: str, found: Diagnostic) -> Diagnostic:
    """Name the state that a level overlaps with, and its penalty, as the file of sectors does."""
    others = series.details.orthogonal_to[name]
    from_elsewhere = len(series.runs[name].orthogonal or ()) - len(others)
    number = found.values.get("number", 0)
    if found.code not in ("not_orthogonal", "overlap_unknown") or number <= from_elsewhere:
        return found
    place = 1 + list(series.runs).index(name)
    told = {"state": f"'{others[number - from_elsewhere - 1]}'", "key": f"sector.{place}.penalty"}
    return replace(found, values={**found.values, **told})


def changed_since(series: Series, name: str) -> Iterator[Diagnostic]:
    """Warn of each sector that went on after this one was kept orthogonal to its state."""
    checkpoint, others = series.out / name / CHECKPOINT, series.details.orthogonal_to[name]
    if not others or not checkpoint.is_file():
        return
    try:
        before = orthogonal_hashes(checkpoint)[-len(others) :]
    except StateFileError:
        return
    for other, hashed in zip(others, before, strict=False):
        if has_changed(series.out / other, hashed):
            yield Diagnostic("kept_changed", "warning", {"other": other})


_SPARE = 3  # levels beyond those that are needed, among which degenerate ones are counted
_SAME = 1e-8  # relative difference of energies that are one level


def sector_references(series: Series) -> dict[str, Reference]:
    """Find the exact energy of each of several sectors, by its name; nothing where none is known.

    Of a sector that is kept orthogonal to others it is the lowest level that is left when theirs
    are taken away.  Where one of theirs is degenerate, with other characters too, that is not
    defined, and none is given.
    """
    found: dict[str, Reference] = {}
    sectors, operator = series.details, series.operator
    for name, numbers in sectors.numbers.items():
        lower = [(sectors.numbers[each], found[each]) for each in sectors.orthogonal_to[name]]
        if len(series.runs[name].orthogonal or ()) > len(lower):
            found[name] = Reference()  # also orthogonal to a run from elsewhere
        elif lower:
            found[name] = _level_above(operator, numbers, lower)
        else:
            found[name] = find_reference(operator, numbers.magnetisation, group=numbers.group)
    return found


def _level_above(
    operator: Operator, numbers: QuantumNumbers, lower: Sequence[tuple[QuantumNumbers, Reference]]
) -> Reference:
    """Find the lowest level besides those of other states; nothing where it is not known."""

    def levels_of(these: QuantumNumbers) -> np.ndarray | None:
        n_levels, most = len(lower) + _SPARE, DIAGONALISED_AT_ONCE
        return lowest_levels(operator, these.magnetisation, n_levels, most, these.group)

    levels = levels_of(numbers)
    left = np.arange(0 if levels is None else len(levels))
    for theirs, reference in lower:
        own = None if theirs == numbers else levels_of(theirs)
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
