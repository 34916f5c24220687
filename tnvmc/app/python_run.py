"""Runs from Python in a folder: the files that ``tnvmc run`` writes, for all commands that read
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import chi_of
from tnvmc.app.recording import Recorder, save_measured, scanned
from tnvmc.backend.calls import as_path
from tnvmc.backend.namespace import to_host
from tnvmc.settings.described import described
from tnvmc.settings.load import read_toml
from tnvmc.storage.hdf5 import StateFileError
from tnvmc.storage.run_folder import (
    CHECKPOINT,
    CONFIG,
    FolderError,
    RunFolder,
    check_settings,
    disk_errors,
    refuse_series,
    require_provenance,
    run_files_in,
)
from tnvmc.storage.seals import Provenance
from tnvmc.trust.energies import judged
from tnvmc.trust.reference import find_reference
from tnvmc.vmc import checkpoint
from tnvmc.vmc.controllers import GrowingChi
from tnvmc.vmc.core import Made, controlled
from tnvmc.vmc.measurement import Measured, MeasurementPlan
from tnvmc.vmc.results import StepRecord

START = "start.h5"
"""The parameters that a run began with, where they were given rather than made."""

Path_ = str | os.PathLike[str]


class _OneStage:
    """A VMC as a `Recorder` takes it."""

    def __init__(self, vmc: Made) -> None:
        self.vmc = vmc

    def save(self, path: Path, provenance: Provenance | None = None) -> None:
        identity = checkpoint.identity(self.vmc.method)
        checkpoint.save(path, self.vmc.state, identity, provenance=provenance)

    def outcome(self, folder: Path, measured: Measured, provenance: Provenance) -> dict[str, Any]:
        save_measured(self.vmc, folder, measured.point, provenance)
        return {"stopped": "steps"}


@contextmanager
def steps(vmc: Made, out: Path_, steps: int) -> Iterator[Callable[[StepRecord], None]]:
    """Keep the steps of a block in a new folder, or in that of the run that this VMC goes on with.

    Also those before an exception.  Raises FolderError where the folder holds another run, or
    another state of this one; for steps that no folder holds; where the disk refuses.
    """
    path = as_path("VMC.run", out)
    with disk_errors(path):
        folder = _opened(vmc, path, vmc.state.step + steps)
    with folder:
        recorder = Recorder(_OneStage(vmc), folder)

        def keep(record: StepRecord) -> None:
            with disk_errors(path):
                recorder.step(record)

        with disk_errors(path):
            recorder.save()
        try:
            yield keep
        finally:
            if folder.provenance.step == vmc.state.step != recorder.saved_step:
                with disk_errors(path):
                    recorder.save()


@contextmanager
def result(
    vmc: Made, out: Path_, plan: MeasurementPlan
) -> Iterator[Callable[[Measured], Measured]]:
    """Judge what a block measures, keep it as result.json of the folder, and draw energy.png.

    Section [measure] of config.toml then says how it was measured.  Raises FolderError where the
    folder does not hold this state or the disk refuses, ValueError for a sampler of its own.
    """
    path = as_path("VMC.measure", out)
    if plan.sampler is not None:
        raise ValueError(
            "VMC.measure: out= keeps what is measured by the sampler of the run; leave out= or "
            "sampler= away"
        )
    if not (path / CONFIG).is_file():
        raise FolderError(f"{path}: holds no run; keep its steps first, vmc.run(steps, out=...)")
    before = _require_state(vmc, path)
    started = perf_counter()

    def keep(measured: Measured) -> Measured:
        with disk_errors(path), RunFolder.reopen(path, vmc.state.step, before) as folder:
            section, held = _measure_section(vmc, plan), read_toml(path / CONFIG)
            config = described(vmc, str(path), vmc.state.step, measure=section, before=held)
            folder.write_settings(config)
            problem = controlled(vmc.method, vmc.state).problem
            group, lower = vmc.ansatz.group, vmc.method.orthogonal_to
            reference = find_reference(vmc.operator, problem.magnetisation, group, lower)
            measured = judged(measured, lower, reference.bound)
            since = started - sum(line["seconds"] for line in folder.history())
            recorder, scan = Recorder(_OneStage(vmc), folder), scanned(vmc, measured)
            recorder.finish(config, measured, scan, reference, since)
            return measured

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


def _opened(vmc: Made, path: Path, last_step: int) -> RunFolder:
    """The folder, new or of this run, with settings that ask for steps up to `last_step`."""
    refuse_series(path)
    if path.exists() and not path.is_dir():
        raise FolderError(f"{path}: is no folder; choose another out=")
    if run_files_in(path):
        before = _require_state(vmc, path)
        config = read_toml(path / CONFIG)
        folder = RunFolder.reopen(path, vmc.state.step, before)
        try:
            folder.write_settings(described(vmc, str(path), last_step, before=config))
        except BaseException:
            folder.close()
            raise
        return folder
    if vmc.state.step:
        raise FolderError(
            f"{path}: this VMC has made {vmc.state.step} steps that no folder holds; give out= "
            "from the first step on, or begin anew with VMC(..., theta=vmc.measured_theta())"
        )
    start = str(path / START) if vmc.given.theta else None
    folder = RunFolder.create(path, described(vmc, str(path), last_step, init=start))
    if start is not None:
        checkpoint.save(path / START, vmc.state, checkpoint.identity(vmc.method))
    return folder


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
        found = checkpoint.load(path / CHECKPOINT, checkpoint.identity(vmc.method), vmc.state)
    except (StateFileError, ValueError) as error:
        raise FolderError(f"{path}: holds another run ({error}); choose another out=") from None
    same = found.step == vmc.state.step and all(
        np.array_equal(to_host(getattr(found.here, name)), to_host(getattr(vmc.state.here, name)))
        for name in ("theta", "configs")
    )
    if not same:
        raise FolderError(
            f"{path}: holds a run with other numbers after {found.step} steps than this VMC after "
            f"{vmc.state.step}; choose another out=, or go on with that run: "
            f"vmc.restore({str(path / CHECKPOINT)!r})"
        )
    return before
