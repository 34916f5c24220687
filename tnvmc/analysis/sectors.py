"""Several sectors as data: the energy of each, and its gap above the first.

Everything is read from the folders of the runs, as any other reader would.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from tnvmc._version import __version__
from tnvmc.analysis.comparison import is_number
from tnvmc.analysis.diagnostics import diagnostics_of
from tnvmc.analysis.gaps import SIGNIFICANT, Gap, energy_gap, smallest_gap
from tnvmc.analysis.reference import Reference
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.operators.fingerprint import fingerprint
from tnvmc.operators.sectors import rotation_invariant
from tnvmc.settings.sectors import Sectors
from tnvmc.shown import Shown, Table, with_error
from tnvmc.storage.hdf5 import StateFileError
from tnvmc.storage.kept_files import has_changed, kept_hashes
from tnvmc.storage.run_files import Run, is_current, read_run
from tnvmc.storage.run_folder import CHECKPOINT, FolderError
from tnvmc.vmc.reliability import ABOVE_EXACT, FAR_ABOVE

Json = Mapping[str, Any]

_ROUNDING = 1e-9  # of an exact energy: the difference of two that are one level


@dataclass(frozen=True)
class Level:
    """The energy of one sector; energies are totals, None stands where a number does not exist."""

    name: str
    magnetisation: int | None  #: twice the total Sz
    symmetrise: tuple[str, ...]  #: symmetries that the state is summed over
    characters: Mapping[str, int]  #: those that were given
    orthogonal_to: tuple[str, ...]  #: sectors whose states it was kept orthogonal to
    energy: float
    energy_error: float
    variance: float
    v_score: float
    steps: int
    n_samples: int
    n_sites: int = field(repr=False)
    units: str = field(repr=False)
    exact: Reference = field(default_factory=Reference)  #: of this sector
    sigmas: float | None = None  #: energy less the exact one, in errors of both
    gap: Gap | None = (
        None  #: above the first sector; None of that itself, and of what is not orthogonal
    )
    exact_gap: float | None = None
    gap_sigmas: float | None = None  #: gap less the exact one, in errors of both
    overlaps: tuple[Json, ...] = ()  #: squared, with those states, and their errors
    diagnostics: tuple[Diagnostic, ...] = ()  #: what makes the energy less trustworthy


@dataclass(frozen=True, repr=False)
class SectorTable(Shown):
    """Sectors in the order of their file, and those that have no energy, with the reason."""

    levels: tuple[Level, ...]
    left_out: tuple[tuple[str, Diagnostic], ...]
    about: Json  #: what all share: Hamiltonian, name of the first sector

    @property
    def gaps(self) -> dict[str, Gap]:
        """Gaps above the first sector, by the names of the others."""
        return {level.name: level.gap for level in self.levels if level.gap is not None}

    def __repr__(self) -> str:
        rows = [
            f"{name} {energy}" + (f", gap {gap}" if gap else "") for name, energy, gap in self._rows
        ]
        missing = [f"{name}: {reason.code}" for name, reason in self.left_out]
        return f"<SectorTable ({self.about['units']} units): {'; '.join([*rows, *missing])}>"

    @property
    def _rows(self) -> list[tuple[str, str, str]]:
        """Name, energy and gap of each."""
        return [
            (
                each.name,
                with_error(each.energy, each.energy_error),
                "" if each.gap is None else with_error(each.gap.energy, each.gap.error),
            )
            for each in self.levels
        ]

    def _table(self) -> Table:
        notes = [x for gap in self.gaps.values() for x in gap.diagnostics]
        notes += [reason for _, reason in self.left_out]
        title = f"sectors, {self.about['units']} units"
        return Table(title, ("sector", "energy", "gap"), self._rows, notes)

    def as_dict(self) -> dict[str, Any]:
        """Give the content of sectors.json."""
        return {
            **self.about,
            "levels": [_as_dict(level) for level in self.levels],
            "left_out": [{"name": name, **reason.as_dict()} for name, reason in self.left_out],
        }


def _as_dict(level: Level) -> dict[str, Any]:
    values = asdict(level)
    del values["n_sites"], values["units"]
    values["diagnostics"] = [found.as_dict() for found in level.diagnostics]
    if level.gap is not None:
        gap = {key: values["gap"][key] for key in ("energy", "error", "residual", "residual_below")}
        gap |= {"bias": level.gap.bias}
        values["gap"] = gap | {"diagnostics": [x.as_dict() for x in level.gap.diagnostics]}
    return values


def tabulate_sectors(
    sectors: Sectors, references: Mapping[str, Reference], failed: Mapping[str, str]
) -> SectorTable:
    """Read the runs of all sectors.

    Args:
        sectors: their runs are read from their folders.
        references: what each energy is compared with, by name.
        failed: why runs gave up, by their names.
    """
    found = {name: _level_or_reason(name, sectors, references, failed) for name in sectors.runs}
    first = next(iter(found.values()))
    levels = [each for each in found.values() if isinstance(each, Level)]
    if isinstance(first, Level):
        levels = [first, *(_above(first, level) for level in levels[1:])]
    levels = [_compared(level, levels[:place], sectors) for place, level in enumerate(levels)]
    levels = [_bounded(level, levels, sectors) for level in levels]
    return SectorTable(
        tuple(levels),
        tuple((name, each) for name, each in found.items() if isinstance(each, Diagnostic)),
        _about(sectors),
    )


def _level_or_reason(
    name: str, sectors: Sectors, references: Mapping[str, Reference], failed: Mapping[str, str]
) -> Level | Diagnostic:
    if name in failed:
        return Diagnostic("run_failed", "error", {"reason": failed[name]})
    if not (sectors.out / name).exists():
        return Diagnostic("sector_not_begun", "error")
    try:
        run = read_run(sectors.out / name)
    except FolderError as error:
        return Diagnostic("run_unreadable", "error", {"reason": str(error)})
    reason = reason_against(run)
    return reason or _level(name, run, sectors, references.get(name, Reference()))


def reason_against(run: Run) -> Diagnostic | None:
    """Give why a run has no energy to compare; None where it has one."""
    if run.result is None or not is_current(run):
        return Diagnostic("sector_unfinished", "error")
    if not all(is_number(run.result.get(key)) for key in _MEASURED):
        return Diagnostic("numbers_not_finite", "error")
    return None


_MEASURED = ("energy", "energy_error", "variance", "v_score")


def _level(name: str, run: Run, sectors: Sectors, exact: Reference) -> Level:
    result, state = run.result, sectors.runs[name].ansatz
    assert result is not None
    sigmas = None
    error = math.hypot(result["energy_error"], exact.error or 0.0)
    if exact.energy is not None and error:
        sigmas = (result["energy"] - exact.energy) / error
    found = [each for each in diagnostics_of(result) if each.status in ("warning", "error")]
    found = [*map(partial(_with_key, name, sectors), found), *_changed(name, sectors)]
    return Level(
        name=name,
        exact=exact,
        sigmas=sigmas,
        diagnostics=tuple(found),
        **{key: result[key] for key in (*_MEASURED, "steps", "n_samples", "n_sites", "units")},
        magnetisation=result.get("magnetisation"),
        symmetrise=tuple(state.symmetrise or ()),
        characters=dict(state.characters or {}),
        orthogonal_to=sectors.orthogonal_to[name],
        overlaps=tuple(result.get("overlaps") or ()),
    )


def _with_key(name: str, sectors: Sectors, found: Diagnostic) -> Diagnostic:
    """Name the state that a level overlaps with, and its penalty, as the file of the sectors does."""
    others = sectors.orthogonal_to[name]
    from_elsewhere = len(sectors.runs[name].orthogonal or ()) - len(others)
    number = found.values.get("number", 0)
    if found.code not in ("not_orthogonal", "overlap_unknown") or number <= from_elsewhere:
        return found
    place = 1 + list(sectors.runs).index(name)
    told = {"state": f"'{others[number - from_elsewhere - 1]}'", "key": f"sector.{place}.penalty"}
    return replace(found, values={**found.values, **told})


def _changed(name: str, sectors: Sectors) -> Iterator[Diagnostic]:
    """Warn of each sector that went on after this one was kept orthogonal to its state."""
    checkpoint, others = sectors.out / name / CHECKPOINT, sectors.orthogonal_to[name]
    if not others or not checkpoint.is_file():
        return
    try:
        before = kept_hashes(checkpoint)[-len(others) :]
    except StateFileError:
        return
    for other, hashed in zip(others, before, strict=False):
        if has_changed(sectors.out / other, hashed):
            yield Diagnostic("kept_changed", "warning", {"other": other})


def _above(first: Level, level: Level) -> Level:
    """Give a level with its gap above the first one, which a mixture with a kept state does not have: no level is its own."""
    if any(found.code == "not_orthogonal" for found in level.diagnostics):
        return replace(level, sigmas=None)
    gap = energy_gap(level, first)
    exact_gap = sigmas = None
    if level.exact.energy is not None and first.exact.energy is not None:
        exact_gap = level.exact.energy - first.exact.energy
        if abs(exact_gap) <= _ROUNDING * abs(first.exact.energy):
            exact_gap = 0.0
        error = math.hypot(gap.error, level.exact.error or 0.0, first.exact.error or 0.0)
        sigmas = (gap.energy - exact_gap) / error if error else None
    if level.exact.method == first.exact.method == "exact" and exact_gap is not None:
        gap = replace(gap, diagnostics=(*gap.diagnostics, *_far(gap, exact_gap)))
    return replace(level, gap=gap, exact_gap=exact_gap, gap_sigmas=sigmas)


def _far(gap: Gap, exact: float) -> Iterator[Diagnostic]:
    """Warn of a gap beyond `ABOVE_EXACT` errors from the exact one, and a hundredth of it."""
    distance, error = gap.energy - exact, gap.error
    if abs(distance) > max(ABOVE_EXACT * error, FAR_ABOVE * abs(exact)):
        values = {
            "exact": exact,
            "distance": distance,
            "sigmas": distance / error if error else None,
        }
        yield Diagnostic("gap_far_from_exact", "warning", values)


def _compared(level: Level, above: Sequence[Level], sectors: Sectors) -> Level:
    """Give a level with a warning for each one before it in the file that may be the same state."""
    found = []
    for other in above:
        numbers, theirs = sectors.numbers[level.name], sectors.numbers[other.name]
        if other.name in level.orthogonal_to or numbers.exclude(theirs):
            continue
        distance = abs(level.energy - other.energy)
        if distance <= SIGNIFICANT * smallest_gap(level, other):
            error = math.hypot(level.energy_error, other.energy_error)
            values = {"other": other.name, "sigmas": distance / error if error else None}
            found.append(Diagnostic("same_state", "warning", values))
    return replace(level, diagnostics=(*level.diagnostics, *found))


def _bounded(level: Level, every: Sequence[Level], sectors: Sectors) -> Level:
    """Give a level with a warning where the lowest energy of another sector proves that it is not the lowest of its own."""
    rotations, numbers = rotation_invariant(sectors.operator), sectors.numbers
    lower = [
        other
        for other in every
        if numbers[level.name].lies_below(numbers[other.name], rotations)
        and level.energy - other.energy > SIGNIFICANT * smallest_gap(level, other)
    ]
    if level.orthogonal_to or not lower:
        return level
    other = min(lower, key=lambda each: each.energy)
    distance, error = level.energy - other.energy, smallest_gap(level, other)
    values = {"other": other.name, "distance": distance, "sigmas": distance / error}
    found = Diagnostic("not_lowest", "warning", values)
    return replace(level, diagnostics=(*level.diagnostics, found))


def _about(sectors: Sectors) -> dict[str, Any]:
    settings = next(iter(sectors.runs.values())).as_dict()
    return {
        "hamiltonian": settings["hamiltonian"],
        "lattice": settings["lattice"],
        "fingerprint": fingerprint(sectors.operator),
        "n_sites": sectors.operator.n_sites,
        "units": sectors.operator.units,
        "first": next(iter(sectors.runs)),
        "version": __version__,
    }
