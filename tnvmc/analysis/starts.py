"""Several starts of one state as data: the energy of each, and that of the lowest, measured again.

Everything is read from the folders of the runs, as any other reader would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tnvmc._version import __version__
from tnvmc.analysis.comparison import is_number
from tnvmc.analysis.diagnostics import diagnostics_of
from tnvmc.analysis.gaps import SIGNIFICANT, smallest_gap
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.operators.fingerprint import fingerprint
from tnvmc.settings.starts import Starts
from tnvmc.shown import Shown, Table, with_error
from tnvmc.storage.hdf5 import StateFileError
from tnvmc.storage.identity import differences
from tnvmc.storage.kept_files import measured_hash
from tnvmc.storage.run_files import Run, asks_the_same, is_current, read_run
from tnvmc.storage.run_folder import FolderError

Json = Mapping[str, Any]

_MEASURED = ("energy", "energy_error", "variance", "v_score")


WRONG = frozenset({"below_reference", "below_level", "not_orthogonal"})
"""Codes of energies that are too low, or of another level: the lowest energy of several would be such a one first."""


@dataclass(frozen=True)
class Start:
    """The measured energy of one run; energies are totals."""

    name: str  #: of its folder
    seed: int
    energy: float
    energy_error: float
    variance: float
    v_score: float
    steps: int
    n_samples: int
    n_sites: int = field(repr=False)
    units: str = field(repr=False)
    above: float | None = None  #: energy less the lowest, in errors of both; None of that itself
    diagnostics: tuple[Diagnostic, ...] = ()  #: what makes the energy less trustworthy

    @property
    def wrong(self) -> tuple[Diagnostic, ...]:
        """What says that its energy is too low, or not of this level."""
        return tuple(
            found
            for found in self.diagnostics
            if found.code in WRONG
            or found.values.get("measurement")  # beyond what a state can have
        )


@dataclass(frozen=True, repr=False)
class StartTable(Shown):
    """Starts in the order of their seeds, and those that have no energy, with the reason."""

    starts: tuple[Start, ...]
    left_out: tuple[tuple[str, Diagnostic], ...]
    lowest: str | None  #: name of the start of lowest energy
    measured: Start | None  #: its state, measured again; None before
    diagnostics: tuple[Diagnostic, ...]  #: how the starts agree
    about: Json  #: what all share

    def __repr__(self) -> str:
        rows = [f"{name} {energy}" for name, energy, _ in self._rows]
        missing = [f"{name}: {reason.code}" for name, reason in self.left_out]
        return f"<StartTable ({self.about['units']} units): {'; '.join([*rows, *missing])}>"

    @property
    def _rows(self) -> list[tuple[str, str, str]]:
        """Name, energy, and errors above the lowest."""
        every = [*self.starts, *([self.measured] if self.measured else [])]
        return [
            (
                each.name,
                with_error(each.energy, each.energy_error),
                "" if each.above is None else f"{each.above:+.1f}",
            )
            for each in every
        ]

    def _table(self) -> Table:
        notes = [*self.diagnostics, *(reason for _, reason in self.left_out)]
        title = f"starts, {self.about['units']} units"
        return Table(title, ("start", "energy", "errors above"), self._rows, notes)

    def as_dict(self) -> dict[str, Any]:
        """Give the content of starts.json."""
        return {
            **self.about,
            "starts": [_as_dict(each) for each in self.starts],
            "left_out": [{"name": name, **reason.as_dict()} for name, reason in self.left_out],
            "lowest": self.lowest,
            "measured": None if self.measured is None else _as_dict(self.measured),
            "diagnostics": [found.as_dict() for found in self.diagnostics],
        }


def _as_dict(start: Start) -> dict[str, Any]:
    values = asdict(start)
    del values["n_sites"], values["units"]
    return values | {"diagnostics": [found.as_dict() for found in start.diagnostics]}


def tabulate_starts(starts: Starts, failed: Mapping[str, str]) -> StartTable:
    """Read the runs of all starts, and the measurement of the lowest.

    Args:
        starts: their runs are read from their folders.
        failed: why runs gave up, by their names.
    """
    found = {
        name: _start_or_reason(starts.out / name, settings.as_dict(), failed)
        for name, settings in starts.runs.items()
    }
    made = [each for each in found.values() if isinstance(each, Start)]
    lowest = lowest_of(made)
    made = [each if lowest is None else _above(each, lowest) for each in made]
    again = None if lowest is None else starts.folder_again(lowest.name)
    if lowest is not None and again is not None and (again.is_dir() or again.name in failed):
        found[again.name] = _measured_again(starts, lowest.name, failed)
    measured = found.get(again.name) if again is not None else None
    return StartTable(
        tuple(made),
        tuple((name, each) for name, each in found.items() if isinstance(each, Diagnostic)),
        None if lowest is None else lowest.name,
        measured if isinstance(measured, Start) else None,
        tuple(_agreement(made)),
        _about(starts),
    )


def lowest_of(made: Sequence[Start]) -> Start | None:
    """Give the start of lowest energy, among those of which no check says that it is wrong if there are any."""
    candidates = [each for each in made if not each.wrong] or made
    return min(candidates, key=lambda each: each.energy, default=None)


def _start_or_reason(folder: Path, settings: Json, failed: Mapping[str, str]) -> Start | Diagnostic:
    """The energy of a run that was made by these settings; the reason where there is none."""
    if folder.name in failed:
        return Diagnostic("run_failed", "error", {"reason": failed[folder.name]})
    if not folder.exists():
        return Diagnostic("start_not_begun", "error")
    try:
        run = read_run(folder)
    except FolderError as error:
        return Diagnostic("run_unreadable", "error", {"reason": str(error)})
    if run.damage:
        damaged = ", ".join(sorted({each.file for each in run.damage}))
        return Diagnostic("run_unreadable", "error", {"reason": f"{damaged} is damaged"})
    if apart := unlike(run.config, settings):
        return Diagnostic("start_unlike", "error", {"settings": apart})
    if run.result is None or not is_current(run):
        return Diagnostic("start_unfinished", "error")
    if not all(is_number(run.result.get(key)) for key in _MEASURED):
        return Diagnostic("numbers_not_finite", "error")
    return _start(run, run.result)


def _start(run: Run, result: Json) -> Start:
    doubts = [each for each in diagnostics_of(result) if each.status in ("warning", "error")]
    return Start(
        name=run.path.name,
        seed=run.config["run"]["seed"],
        diagnostics=tuple(doubts),
        **{key: result[key] for key in (*_MEASURED, "steps", "n_samples", "n_sites", "units")},
    )


def _above(start: Start, lowest: Start) -> Start:
    """Give a start with its distance from the lowest, in errors of both."""
    if start.name == lowest.name:
        return start
    return replace(start, above=(start.energy - lowest.energy) / smallest_gap(start, lowest))


def unlike(one: Json, other: Json) -> list[str]:
    """Say in which settings two runs differ that have an influence on the result."""
    if asks_the_same(one, other):
        return []

    def relevant(config: Json) -> Json:
        rest = {name: part for name, part in config.items() if name != "run"}
        return {**rest, "run.seed": (config.get("run") or {}).get("seed")}

    return differences(relevant(one), relevant(other))


def _measured_again(starts: Starts, name: str, failed: Mapping[str, str]) -> Start | Diagnostic:
    """The state of a start measured again; the reason where that is of another state, or was made in another way.

    It may have been measured anew with more samples, and the file of its start may lie elsewhere now.
    """
    again = starts.folder_again(name)
    if again.name in failed:
        return Diagnostic("run_failed", "error", {"reason": failed[again.name]})
    wanted = starts.again(name, Path()).as_dict()
    try:
        config = read_run(again).config
        here = {**config, "measure": wanted["measure"]}
        here["ansatz"] = {**config.get("ansatz", {}), "init": wanted["ansatz"]["init"]}
        same = not unlike(here, wanted)
        hashed = measured_hash(again)
        same = same and hashed is not None and hashed == measured_hash(starts.out / name)
    except (FolderError, StateFileError) as error:
        return Diagnostic("run_unreadable", "error", {"reason": str(error)})
    if not same:
        return Diagnostic("start_changed", "error", {"name": name, "again": again.name})
    return _start_or_reason(again, config, failed)  # its settings were compared above


def _agreement(made: Sequence[Start]) -> list[Diagnostic]:
    """Say how many starts end at the lowest energy, of those of which no check says that theirs is wrong."""
    made = [each for each in made if not each.wrong]
    if len(made) < 2:
        return []
    energies = [each.energy for each in made]
    if len(set(energies)) == 1:
        return [Diagnostic("starts_identical", "warning", {"n_starts": len(made)})]
    near = sum(1 for each in made if abs(each.above or 0.0) <= SIGNIFICANT)
    values = {
        "n_starts": len(made), "near": near, "within": SIGNIFICANT,
        "spread_per_site": (max(energies) - min(energies)) / made[0].n_sites,
    }  # fmt: skip
    if near == len(made):
        return [Diagnostic("starts_agree", "good", values)]
    if near == 1:
        return [Diagnostic("lowest_alone", "warning", values)]
    return [Diagnostic("starts_differ", "warning", values)]


def _about(starts: Starts) -> dict[str, Any]:
    settings = starts.settings.as_dict()
    return {
        "hamiltonian": settings["hamiltonian"],
        "lattice": settings["lattice"],
        "fingerprint": fingerprint(starts.operator),
        "n_sites": starts.operator.n_sites,
        "units": starts.operator.units,
        "version": __version__,
    }
