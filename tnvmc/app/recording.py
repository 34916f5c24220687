"""Runs from Python in a folder: the files that ``tnvmc run`` writes, for all commands that read
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import chi_of
from tnvmc.app.keeper import Keeper
from tnvmc.app.results import draw_energy, growth_of_steps, result_of
from tnvmc.backend.calls import as_path
from tnvmc.backend.namespace import to_host
from tnvmc.settings.described import Told, described
from tnvmc.settings.load import read_toml
from tnvmc.storage.hdf5 import StateFileError
from tnvmc.storage.provenance import Provenance
from tnvmc.storage.run_files import refuse_series
from tnvmc.storage.run_folder import (
    CHECKPOINT,
    CONFIG,
    MEASURED,
    FolderError,
    RunFolder,
    check_settings,
    refuse_occupied,
    require_provenance,
)
from tnvmc.trust.chi_scan import default_chis, scan_chi
from tnvmc.trust.convergence import convergence
from tnvmc.trust.energies import group_of
from tnvmc.trust.reference import find_reference
from tnvmc.vmc import checkpoint
from tnvmc.vmc.checkpoint import as_tree
from tnvmc.vmc.controllers import GrowingChi
from tnvmc.vmc.core import Iterate, Made, controlled
from tnvmc.vmc.measurement import Measured, MeasurementPlan
from tnvmc.vmc.results import StepRecord

START = "start.h5"
"""The parameters that a run began with, where they were given rather than made."""

Path_ = str | os.PathLike[str]


class _Steps:
    """A VMC whose steps are kept."""

    def __init__(self, vmc: Made) -> None:
        self.vmc = vmc

    def save(self, path: Path, provenance: Provenance | None = None) -> None:
        """Write a checkpoint."""
        identity = checkpoint.identity(self.vmc.method)
        checkpoint.save(path, self.vmc.state, identity, provenance=provenance)


@contextmanager
def steps(vmc: Made, out: Path_, steps: int) -> Iterator[Callable[[StepRecord], None]]:
    """Keep the steps of a block in a new folder, or in that of the run that this VMC goes on with.

    Config.toml says what the run is (`settings.described`), history.jsonl tells of each step, and
    checkpoint.h5 holds the state: every 10 steps, every minute (see `Keeper`) and at the end, also
    of a block that ends with an exception.

    Raises:
        FolderError: the folder holds another run, or another state of this one; a VMC that has made
            steps which no folder holds; the disk refuses.
    """
    path = as_path("VMC.run", out)
    with _written(path):
        folder = _opened(vmc, path, vmc.state.step + steps)
    with folder:
        keeper = Keeper(_Steps(vmc), folder)

        def keep(record: StepRecord) -> None:
            with _written(path):
                keeper.step(record)

        with _written(path):
            keeper.save()
        try:
            yield keep
        finally:
            if folder.provenance.step == vmc.state.step != keeper.saved_step:
                with _written(path):
                    keeper.save()


@contextmanager
def result(vmc: Made, out: Path_, plan: MeasurementPlan) -> Iterator[Callable[[Measured], None]]:
    """Keep what a block measures as result.json of the folder of the run, and draw energy.png.

    Section [measure] of config.toml then says how it was measured.  Part of the samples is measured
    at other chi too, where the state has one, as ``tnvmc run`` does.

    Raises:
        FolderError: the folder does not hold this state; the disk refuses.
        ValueError: a sampler of its own, which settings of a run do not have.
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

    def keep(measured: Measured) -> None:
        with _written(path), RunFolder.reopen(path, vmc.state.step, before) as folder:
            section = _measure_section(vmc, plan)
            told = Told(str(path), vmc.state.step, None, section, read_toml(path / CONFIG))
            config = described(vmc, told)
            folder.write_settings(config)
            _keep_point(vmc, folder, measured.point)
            problem = controlled(vmc.method, vmc.state).problem
            group, lower = group_of(vmc.ansatz), vmc.method.orthogonal_to
            reference = find_reference(vmc.operator, problem.magnetisation, group, lower)
            found = result_of(vmc, config, measured.measurement, reference) | {"stopped": "steps"}
            chis = default_chis(problem.ansatz)
            scan = scan_chi(measured, chis, vmc.method.sampler.threads).as_dicts() if chis else []
            found |= growth_of_steps(vmc.state, folder.history())
            earlier = sum(line["seconds"] for line in folder.history())
            found["wall_time_s"] = earlier + perf_counter() - started
            found["convergence"] = convergence(found, folder.history(), scan)
            folder.write_result(found)
            draw_energy(folder, found)

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


def _keep_point(vmc: Made, folder: RunFolder, point: Iterate) -> None:
    """Keep the parameters that were measured where they are not those of the checkpoint."""
    kept = folder.path / MEASURED
    if point.theta is vmc.state.here.theta:
        kept.unlink(missing_ok=True)
        return
    state = replace(vmc.state, here=point, good=None)
    checkpoint.save(kept, state, checkpoint.identity(vmc.method), provenance=folder.provenance)


def _opened(vmc: Made, path: Path, last_step: int) -> RunFolder:
    """The folder, new or of this run, with settings that ask for steps up to `last_step`."""
    refuse_series(path)
    if not _is_free(path):
        before = _require_state(vmc, path)
        config = read_toml(path / CONFIG)
        told = Told(str(path), last_step, None, config.get("measure"), config)
        folder = RunFolder.reopen(path, vmc.state.step, before)
        try:
            folder.write_settings(described(vmc, told))
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
    folder = RunFolder.create(path, described(vmc, Told(str(path), last_step, start)))
    if start is not None:
        checkpoint.save(path / START, vmc.state, checkpoint.identity(vmc.method))
    return folder


def _is_free(path: Path) -> bool:
    """Whether a folder can hold a new run; FolderError where a file stands in its place."""
    try:
        refuse_occupied(path)
    except FolderError:
        if not path.is_dir():
            raise FolderError(f"{path}: is no folder; choose another out=") from None
        return False
    return True


def _require_state(vmc: Made, path: Path) -> Provenance:
    """Give what the checkpoint of a folder says of itself, which is the state of a VMC number by
    number.

    `RunFolder.reopen` asks for it again: meanwhile another process may go on with the run.

    Raises:
        FolderError: it is another state, or of another run.
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
    if found.step != vmc.state.step:
        raise FolderError(
            f"{path}: holds a run after {found.step} steps, this VMC has made {vmc.state.step}; "
            f"choose another out=, or go on with that run: vmc.restore({str(path / CHECKPOINT)!r})"
        )
    if not _equal(as_tree(found), as_tree(vmc.state)):
        raise FolderError(
            f"{path}: holds another run of the same kind, with other numbers after step "
            f"{found.step}; choose another out=, or go on with that run: "
            f"vmc.restore({str(path / CHECKPOINT)!r})"
        )
    return before


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping):
        one, other = (
            {key: value for key, value in each.items() if value is not None}
            for each in (one, other)
        )
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    return np.array_equal(np.asarray(to_host(one)), np.asarray(to_host(other)), equal_nan=True)


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Say of an error of the disk which folder it was."""
    try:
        yield
    except OSError as error:
        raise FolderError(f"{path}: cannot be written ({error.strerror or error})") from None
