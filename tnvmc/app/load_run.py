"""Runs that a folder holds: restored as they were, and as data in Python."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tnvmc.ansatz.protocol import Ansatz
from tnvmc.app.stages import check_overrides, restored
from tnvmc.backend.arguments import as_path
from tnvmc.estimate.diagnostic import UnreliableWarning
from tnvmc.operators.term import Operator
from tnvmc.plot import history as history_picture
from tnvmc.report import describe
from tnvmc.session.observables import Observables
from tnvmc.session.vmc import VMC
from tnvmc.settings.config import Settings, build_operator
from tnvmc.settings.defaults import load_in_place
from tnvmc.shown import Shown, Table, with_error
from tnvmc.storage.hdf5 import StateFileError
from tnvmc.storage.run_files import (
    OWN_PARTS,
    Run,
    is_finished,
    only_in_python,
    own_parts,
    read_run,
    steps_done,
)
from tnvmc.storage.run_folder import (
    CHECKPOINT,
    CONFIG,
    HISTORY,
    RESULT,
    FolderError,
    check_run_folder,
    check_tied,
)
from tnvmc.vmc.history import History


@dataclass(frozen=True, eq=False, repr=False)
class LoadedRun(Shown):
    """A run as its folder holds it; made by `load_run`."""

    files: Run  #: parsed, with what is damaged
    settings: Settings | None  #: completed; None where they make no run
    operator: Operator | None  #: the Hamiltonian; None with them
    history: History

    @property
    def path(self) -> Path:
        """The folder."""
        return self.files.path

    @property
    def result(self) -> dict[str, Any] | None:
        """What result.json holds; `finished` tells whether it is of the last step."""
        return None if self.files.result is None else dict(self.files.result)

    @property
    def observables(self) -> Observables | None:
        """What observables.json holds, with labels and pictures."""
        return None if self.files.observables is None else Observables(self.files.observables)

    @property
    def finished(self) -> bool:
        """Whether the result is that of the last step."""
        return is_finished(self.files)

    @cached_property
    def vmc(self) -> VMC:
        """The state after the last step of the checkpoint, restored when it is first asked for.

        Its energy is that of result.json, bit for bit, where it is measured as the run was.  From
        an archive the rule begins anew.

        Raises:
            FolderError: no checkpoint, or one that is damaged or of another run; a run from Python
                of which settings do not describe all (`own`).
        """
        if self.settings is None or self.operator is None:
            raise FolderError(f"{self.path}: {only_in_python(self.path, self.own)}")
        if not (self.path / CHECKPOINT).is_file():
            raise FolderError(f"{self.path}: holds no state to measure ({CHECKPOINT} is missing)")
        try:
            check_tied(self.path)
            return restored(self.path, self.settings, self.operator).vmc
        except StateFileError as error:
            raise FolderError(str(error)) from None

    @property
    def own(self) -> list[str]:
        """What settings do not describe of a run from Python, as "ansatz"."""
        return own_parts(self.files.config)

    @property
    def ansatz(self) -> Ansatz:
        """The wave function; its parameters are `vmc.measured_theta()`."""
        return self.vmc.ansatz

    def plot(self, ax: Any = None, against: str = "step", quantity: str = "energy") -> Any:
        """Draw the history, with the measured and the exact energy; see `tnvmc.plot.history`."""
        return history_picture(self, ax, against, quantity)

    @property
    def _energies(self) -> tuple[str, str] | None:
        """Measured energy, total and per site."""
        held, n = self.files.result or {}, self.history.n_sites
        if held.get("energy") is None:
            return None
        energy, error = held["energy"], held["energy_error"]
        error = float("inf") if error is None else error
        return with_error(energy, error), with_error(energy / n, error / n)

    def __repr__(self) -> str:
        facts = describe.facts(self.files)
        told = [facts[name] for name in ("model", "lattice", "state") if name in facts]
        told.append(f"{steps_done(self.files)} steps")
        if (found := self._energies) is not None:
            units = f"{self.history.units} units{'' if self.finished else ', of an earlier step'}"
            told.append(f"energy {found[0]}, per site {found[1]} ({units})")
        return f"<LoadedRun {self.path}: {'; '.join(told)}>"

    def _table(self) -> Table:
        rows = [*describe.facts(self.files).items(), ("steps", str(steps_done(self.files)))]
        for name, found in zip(("energy", "energy per site"), self._energies or (), strict=False):
            rows.append((name, f"{found} ({self.history.units} units)"))
        if self._energies and not self.finished:
            rows.append(("measured", "after an earlier step"))
        return Table(str(self.path), ("", ""), rows, _doubts(self.files))


def load_run(path: str | Path, overrides: Sequence[str] = ()) -> LoadedRun:
    """Read the folder of a run, also while it runs or of ``tnvmc archive``; nothing is written.

    >>> run = tnvmc.load_run("runs/first")  # doctest: +SKIP
    >>> run.result["energy_per_site"], run.history.column("variance")  # doctest: +SKIP
    >>> run.vmc.measure(n_samples=8192)  # doctest: +SKIP

    Args:
        path: of the folder.
        overrides: settings of [run] and [measure] for the state, as ``"run.device=cpu"``.

    Raises:
        FolderError: no run there, files of several runs, or settings that cannot be read.

    Warns:
        UnreliableWarning: for each file that is damaged or does not belong to the run, which is
            left out; for a result or observables of an earlier step.
    """
    path = as_path("load_run", path)
    check_run_folder(path)
    check_overrides(path, overrides)
    files = read_run(path)
    settings = operator = None
    if own_parts(files.config):
        n_sites, units = (files.config[OWN_PARTS].get(name) for name in ("n_sites", "units"))
    else:
        try:
            settings = load_in_place(path, overrides)
            operator = build_operator(settings)
        except ValueError as error:
            raise FolderError(f"{path}: {CONFIG}: {error}") from None
        n_sites, units = operator.n_sites, operator.units
    for text in _doubts(files):
        warnings.warn(UnreliableWarning(f"load_run: {path}: {text}"), stacklevel=2)
    try:
        history = History.from_lines(files.history, n_sites, units)
    except (KeyError, TypeError, ValueError) as error:
        why = f"{HISTORY} holds a line that is no record of a step ({error!r})"
        raise FolderError(f"{path}: {why}; was it written by another version?") from None
    return LoadedRun(files, settings, operator, history)


def _doubts(files: Run) -> list[str]:
    """Say what is damaged, and what is of an earlier step."""
    texts = [describe.damage_text(damage) for damage in files.damage]
    damaged = RESULT in [damage.file for damage in files.damage]
    if files.result is not None and not is_finished(files) and not damaged:
        steps = files.result.get("steps")
        done = steps_done(files)
        texts.append(f"the result is that after {steps} steps, the run has made {done}")
    return [*texts, *filter(None, [describe.outdated_text(files)])]
