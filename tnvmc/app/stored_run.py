"""Runs that a folder holds: restored as they were, with the states they were kept orthogonal to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tnvmc.app.stages import StagedRun
from tnvmc.operators.properties import fingerprint
from tnvmc.operators.term import Operator
from tnvmc.sampling.configurations import sector_of
from tnvmc.sampling.problem import Point
from tnvmc.settings.config import Settings, build_operator
from tnvmc.settings.load import load_in_place
from tnvmc.settings.problems import ConfigError
from tnvmc.storage.hdf5 import read_provenance, read_stages
from tnvmc.storage.identity import differences
from tnvmc.storage.run_files import Run, is_finished, read_run
from tnvmc.storage.run_folder import (
    CHECKPOINT,
    CONFIG,
    MEASURED,
    RESULT,
    FolderError,
    check_run_folder,
    check_tied,
    stage_file,
)
from tnvmc.storage.seals import Provenance
from tnvmc.vmc import checkpoint
from tnvmc.vmc.core import Iterate
from tnvmc.vmc.measured_iterate import measured_iterate
from tnvmc.vmc.measurement import MeasurementPlan
from tnvmc.vmc.orthogonal import LowerState, largest_change_by_a_site, repeated


def check_overrides(path: Path, overrides: Sequence[str]) -> None:
    """Raise `FolderError` for changes of sections that would make another state."""
    for override in overrides:
        if override.split(".")[0].strip() not in ("measure", "run"):
            told = "a state that was made takes changes of [measure] and [run] only"
            raise FolderError(f"{path}: {override!r}: {told}")


def plan_of(settings: Settings, n_samples: int | None, chi: int | None) -> MeasurementPlan:
    """Give the plan of [measure], with this number of samples and chi."""
    asked = settings.measure
    return MeasurementPlan(n_samples, chi, asked.n_burn, asked.n_thin, tuple(asked.symmetrise))


def restored(path: Path, settings: Settings, operator: Operator | None = None) -> StagedRun:
    """Give the run in a folder as its checkpoint holds it, an archived one too, to look at.

    Raises:
        StateFileError: a damaged checkpoint, or one that does not fit the settings.
    """
    operator = build_operator(settings) if operator is None else operator
    lower, done = lower_states(settings, operator), read_stages(path / CHECKPOINT)
    run = StagedRun(settings, operator, lower, done, blank=True)
    run.restore(path / CHECKPOINT, archived=True)
    return run


def require_finished(path: Path) -> Run:
    """Give the files of a finished run; raise `FolderError` where there is none."""
    check_run_folder(path)
    run = read_run(path)
    missing = [name for name in (RESULT, CHECKPOINT) if not (path / name).is_file()]
    if missing or not is_finished(run):
        what = "is damaged" if run.result is None else "is not that of its last step"
        why = f"{missing[0]} is missing" if missing else f"{RESULT} {what}"
        raise FolderError(
            f"{path}: not a finished run ({why}); go on with it: tnvmc run --resume {path}"
        )
    return run


def measured_point(path: Path, run: StagedRun, provenance: Provenance | None) -> Iterate:
    """Give the parameters of result.json of a finished, restored run, as its folder keeps them.

    `provenance` is that of its checkpoint.  Without the file they are chosen again, which another
    version or machine might do otherwise.
    """
    vmc = run.vmc
    kept = path / (stage_file(run.stage.number) if run.staged else MEASURED)
    if not run.staged and not kept.is_file():
        return vmc.state.here  # the last ones were measured
    if not kept.is_file() or read_provenance(kept) != provenance:
        return measured_iterate(vmc.method, vmc.state)[0]
    return checkpoint.load(kept, checkpoint.identity(vmc.method), vmc.state, archived=True).here


def lower_states(settings: Settings, operator: Operator) -> tuple[LowerState, ...]:
    """Read the measured states of the runs that [[orthogonal]] names.

    A run that is not there may lie beside the folder of this one, as the sectors of one file do.

    Raises:
        ConfigError: no finished run there, one that has found another problem's state, or this run
            itself.
    """
    found: list[LowerState] = []
    for number, each in enumerate(settings.orthogonal or (), 1):
        key, path = f"orthogonal.{number}.run", Path(each.run)
        beside = Path(settings.run.out or "").parent / path.name
        if not (path / CONFIG).is_file() and (beside / CONFIG).is_file():
            path = beside
        if settings.run.out and path.resolve() == Path(settings.run.out).resolve():
            raise ConfigError(f"{key} = {each.run!r}: is the folder of this run; name another one")
        try:
            found.append(_lower_state(path, settings, operator, each.penalty))
        except (ValueError, FolderError) as error:
            raise ConfigError(f"{key} = {each.run!r}: {error}") from None
    if (pair := repeated(found)) is not None:
        raise ConfigError(
            f"orthogonal.{pair[1]}.run: holds the same state as orthogonal.{pair[0]}.run; the "
            "third level is orthogonal to two different ones: leave one out, or name another run"
        )
    return tuple(found)


def _lower_state(
    path: Path, settings: Settings, operator: Operator, penalty: float | None
) -> LowerState:
    require_finished(path)
    device, threads = json.dumps(settings.run.device), settings.run.threads
    same = [f"run.device={device}", *([] if threads is None else [f"run.threads={threads}"])]
    own = load_in_place(path, same)
    found_for = build_operator(own)
    apart = differences(own.as_dict()["hamiltonian"], settings.as_dict()["hamiltonian"])
    if apart and fingerprint(found_for) != fingerprint(operator):
        raise ValueError(
            f"found for another Hamiltonian: {', '.join(apart)}; an excited state is orthogonal to "
            "states of the same one"
        )
    run = restored(path, own, found_for)
    vmc, point = run.vmc, measured_point(path, run, check_tied(path))
    if penalty is None:
        penalty = largest_change_by_a_site(operator)
    at = Point(point.theta, point.configs)
    lower = LowerState(vmc.problem, at, vmc.method.sampler, penalty)
    sector = sector_of(operator, settings.sampler.magnetisation)
    lower.check(replace(vmc.problem, operator=operator, magnetisation=sector))
    return lower
