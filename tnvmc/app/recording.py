"""A run that is written down while it is made: steps, checkpoints, result.json and energy.png.

One from Python too, in the files that ``tnvmc run`` writes, for all commands that read them.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import numpy as np

from tnvmc._version import __version__
from tnvmc.ansatz.peps.sharing import shared_counts
from tnvmc.ansatz.protocol import chi_of
from tnvmc.backend.arguments import as_path
from tnvmc.backend.namespace import to_host
from tnvmc.operators.properties import energy_bound
from tnvmc.report.describe import orthogonal_to
from tnvmc.settings.described import described
from tnvmc.settings.load import read_toml
from tnvmc.storage.files import write_atomically
from tnvmc.storage.hdf5 import StateFileError
from tnvmc.storage.run_files import Run, wall_time
from tnvmc.storage.run_folder import (
    CHECKPOINT,
    CONFIG,
    MEASURED,
    PICTURE,
    FolderError,
    RunFolder,
    check_settings,
    disk_errors,
    refuse_series,
    require_provenance,
    run_files_in,
)
from tnvmc.storage.seals import Provenance
from tnvmc.trust.chi_scan import default_chis, scan_chi
from tnvmc.trust.convergence import convergence
from tnvmc.trust.energies import judged
from tnvmc.trust.reference import Reference, find_reference
from tnvmc.vmc import checkpoint
from tnvmc.vmc.controllers import GrowingChi
from tnvmc.vmc.core import Iterate, Made, controlled
from tnvmc.vmc.measurement import Measured, MeasurementPlan
from tnvmc.vmc.results import Measurement, StepRecord, finite_or_none

EVERY = 10
"""Steps between checkpoints."""

_SECONDS_BETWEEN_CHECKPOINTS = 60.0

_TIMES_ITS_OWN = 30.0  # an averaged S may be a GiB, and take as long as a step


class OneStage:
    """A run as a `Recorder` takes it: of one VMC."""

    done: tuple[Mapping[str, Any], ...] = ()  #: records of the stages that lie behind

    def __init__(self, vmc: Made) -> None:
        self.vmc: Any = vmc

    def save(
        self, path: Path, provenance: Provenance | None = None, point: Iterate | None = None,
        ended: Sequence[Mapping[str, Any]] = (),
    ) -> None:  # fmt: skip
        """Write a checkpoint, atomically: of the present state, or of a point that was measured.

        `ended` is the record of the stage that ends there, if one does.
        """
        state = self.vmc.state
        if point is not None:
            state = replace(state, here=point, before_update=None)
        checkpoint.save(path, state, self.vmc.method, (*self.done, *ended), provenance)

    def stopped(self) -> str | None:
        """Say what ended the steps: "plateau", "seconds" or "steps"."""
        return "steps"

    def outcome(
        self, folder: Path, measured: Measured, provenance: Provenance | None = None
    ) -> dict[str, Any]:
        """Write the measured parameters as measured.h5, where the checkpoint has others, and give
        what result.json says of how the run ended.
        """
        if measured.point.theta is self.vmc.state.here.theta:
            (folder / MEASURED).unlink(missing_ok=True)  # of an earlier measurement
        else:
            self.save(folder / MEASURED, provenance, measured.point)
        return {"stopped": self.stopped()}


class Recorder:
    """Keeps the files of a run.

    A checkpoint is written after `EVERY` steps, and every minute, or where one takes more than two
    seconds, after thirty times as long.
    """

    def __init__(self, run: OneStage, folder: RunFolder) -> None:
        self._run, self._folder = run, folder
        self.saved_step: int | None = None
        self._saved_at, self._took = 0.0, 0.0

    def step(self, record: StepRecord) -> None:
        """Append a step, and save where it is time."""
        self._folder.append(record.as_dict())
        due = self._run.vmc.state.step % EVERY == 0
        wait = max(_SECONDS_BETWEEN_CHECKPOINTS, _TIMES_ITS_OWN * self._took)
        if due or monotonic() - self._saved_at > wait:
            self.save()

    def save(self) -> None:
        """Write a checkpoint, once the history is on the disk."""
        began = monotonic()
        self._folder.sync()
        self._run.save(self._folder.path / CHECKPOINT, self._folder.provenance)
        self.saved_step, self._saved_at = self._run.vmc.state.step, monotonic()
        self._took = self._saved_at - began

    def finish(
        self, config: Mapping[str, Any], measured: Measured, reference: Reference, since: float
    ) -> tuple[Measured, dict[str, Any]]:
        """Judge an energy, and write result.json and energy.png; the measurement and the result.

        Where the state has a chi, part of the samples is measured at others.  `config` is what
        config.toml holds, `since` when the run would have begun, made in one go, by `perf_counter`.
        """
        vmc, folder = self._run.vmc, self._folder
        measured = judged(measured, vmc.method.orthogonal_to, reference.bound)
        chis = default_chis(controlled(vmc.method, vmc.state).problem.ansatz)
        threads = vmc.method.sampler.threads
        scan = scan_chi(measured, chis, threads).as_dicts() if chis else []
        history = folder.history()
        found = result_of(vmc, config, measured.measurement, reference)
        found |= self._run.outcome(folder.path, measured, folder.provenance)
        found["wall_time_s"] = perf_counter() - since
        found["convergence"] = convergence(found, history, scan)
        folder.write_result(found)
        draw_energy(folder, found)
        return measured, found


def reference_of(vmc: Made) -> Reference:
    """Give the energy that a state is compared with; none in real time."""
    if vmc.method.in_real_time:
        return Reference()
    sector = controlled(vmc.method, vmc.state).problem.magnetisation
    return find_reference(vmc.operator, sector, vmc.ansatz.group, vmc.method.orthogonal_to)


def result_of(
    vmc: Made, config: Mapping[str, Any], measured: Measurement, reference: Reference
) -> dict[str, Any]:
    """Give what result.json says of an energy, measured by the settings `config`."""
    n_sites, exact = measured.n_sites, reference.energy
    signed = error = None
    if exact:
        signed = (measured.energy - exact) / abs(exact)
        error = math.hypot(measured.energy_error, reference.error or 0.0) / abs(exact)
    values = {
        **measured.as_dict(),
        "sharing": shared_counts(vmc.ansatz),
        "energy_bound": energy_bound(vmc.operator),
        "exact_energy": exact,
        "exact_energy_per_site": None if exact is None else exact / n_sites,
        "exact_error": reference.error,
        "exact_source": reference.source,
        "exact_method": reference.method,
        "relative_error": None if signed is None else abs(signed),
        "relative_error_error": error,
        "signed_error": signed,
        "steps": vmc.state.step,
        "seed": vmc.method.problem.seed,
        "version": __version__,
        "config": dict(config),
    }
    return finite_or_none(values)


def draw_energy(folder: RunFolder, result: Mapping[str, Any]) -> None:
    """Write energy.png."""
    settings = result["config"]
    title = (
        f"{settings['hamiltonian']['model']}, {settings['ansatz']['kind']}, "
        f"{result['n_sites']} sites, {result['n_parameters']} parameters"
    )
    if others := orthogonal_to(settings):
        title += f", orthogonal to {', '.join(Path(each).name for each in others)}"
    from tnvmc.report.plots import energy_picture  # its figures are not needed before

    picture = energy_picture(Run(folder.path, settings, tuple(folder.history()), result), title)
    write_atomically(folder.path / PICTURE, picture)


START = "start.h5"
"""The parameters that a run began with, where they were given rather than made."""


@contextmanager
def recorded_steps(
    vmc: Made, out: str | os.PathLike[str], steps: int
) -> Iterator[Callable[[StepRecord], None]]:
    """Keep the steps of a block in a new folder, or in that of the run that this VMC goes on with.

    Also those before an exception.  Raises FolderError where the folder holds another run, or
    another state of this one; for steps whose records are lost; where the disk refuses.
    """
    path = as_path("VMC.run", out)
    with disk_errors(path):
        folder, settings = _opened(vmc, path, vmc.state.step + steps)
    with folder:
        recorder = Recorder(OneStage(vmc), folder)

        def keep(record: StepRecord) -> None:
            with disk_errors(path):
                recorder.step(record)

        with disk_errors(path):
            folder.write_settings(settings)
            recorder.save()
        try:
            yield keep
        finally:
            if folder.provenance.step == vmc.state.step != recorder.saved_step:
                with disk_errors(path):
                    recorder.save()


@contextmanager
def recorded_result(
    vmc: Made, out: str | os.PathLike[str], plan: MeasurementPlan
) -> Iterator[Callable[[Measured], Measured]]:
    """Judge what a block measures, keep it as result.json of the folder, and draw energy.png.

    Section [measure] of config.toml then says how it was measured.  Raises FolderError where the
    folder does not hold this state or the disk refuses, ValueError for a sampler of its own.
    """
    path = as_path("VMC.measure", out)
    if plan.sampler is not None:
        raise ValueError("VMC.measure: with out= the run's sampler measures; omit out= or sampler=")
    if not (path / CONFIG).is_file():
        raise FolderError(f"{path}: holds no run; keep its steps first, vmc.run(0, out=...)")
    before = _require_state(vmc, path)
    started = perf_counter()

    def keep(measured: Measured) -> Measured:
        with disk_errors(path), RunFolder.reopen(path, vmc.state.step, before) as folder:
            section, held = _measure_section(vmc, plan), read_toml(path / CONFIG)
            config = described(vmc, str(path), vmc.state.step, measure=section, before=held)
            folder.write_settings(config)
            since = started - wall_time(folder.history())
            recorder = Recorder(OneStage(vmc), folder)
            return recorder.finish(config, measured, reference_of(vmc), since)[0]

    yield keep


def _measure_section(vmc: Made, plan: MeasurementPlan) -> dict[str, Any]:
    sampler: Any = controlled(vmc.method, vmc.state).sampler  # of the present number of samples
    grows = vmc.state.controller(GrowingChi) is not None
    found = {
        "n_samples": plan.n_samples or sampler.n_samples,
        "n_burn": plan.n_burn,
        "n_thin": plan.n_thin or getattr(sampler, "n_thin", None),
        "chi": plan.chi or (None if grows else chi_of(vmc.ansatz)),
        "symmetrise": list(plan.symmetries) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _opened(vmc: Made, path: Path, last_step: int) -> tuple[RunFolder, dict[str, Any]]:
    """The folder, new or of this run, and settings that ask for steps up to `last_step`."""
    refuse_series(path)
    if path.exists() and not path.is_dir():
        raise FolderError(f"{path}: is no folder; choose another out=")
    if run_files_in(path):
        before, held = _require_state(vmc, path), read_toml(path / CONFIG)
        settings = described(vmc, str(path), last_step, before=held)
        return RunFolder.reopen(path, vmc.state.step, before), settings
    if vmc.state.step != len(vmc.made):
        raise FolderError(
            f"{path}: this VMC goes on after {vmc.state.step} steps of a checkpoint, whose records "
            "it has not; give the folder of that run, or begin anew with VMC(..., theta=...)"
        )
    start = str(path / START) if vmc.given.theta else None
    settings = described(vmc, str(path), last_step, init=start)
    folder = RunFolder.create(path, settings)
    if start is not None:
        checkpoint.save(path / START, vmc.begun, vmc.method)
    for record in vmc.made:
        folder.append(record.as_dict())
    return folder, settings


def _require_state(vmc: Made, path: Path) -> Provenance:
    """Give what the checkpoint of a folder says of itself; FolderError for another state or run.

    `RunFolder.reopen` asks for it again: meanwhile another process may go on with the run.
    """
    if not (path / CONFIG).is_file():
        raise FolderError(f"{path}: holds files of a run and no {CONFIG}; choose another out=")
    check_settings(path / CONFIG)
    if "stage" in read_toml(path / CONFIG):
        raise FolderError(f"{path}: a run with stages goes on with: tnvmc run --resume {path}")
    try:
        before = require_provenance(path)
        found = checkpoint.load(path / CHECKPOINT, vmc.method, vmc.state)
    except (StateFileError, ValueError) as error:
        raise FolderError(f"{path}: holds another run ({error}); choose another out=") from None
    here, there = vmc.state.here, found.here
    same = found.step == vmc.state.step and all(
        np.array_equal(to_host(one), to_host(other))
        for one, other in ((there.theta, here.theta), (there.configs, here.configs))
    )
    if not same:
        raise FolderError(
            f"{path}: holds other numbers after {found.step} steps than this VMC after "
            f"{vmc.state.step}; choose another out=, or vmc.restore({str(path / CHECKPOINT)!r})"
        )
    return before
