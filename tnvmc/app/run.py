"""One run from settings to result.json: what the command line does, callable from Python."""

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from tnvmc.ansatz.peps.sharing import shared_counts
from tnvmc.app.recording import Recorder, draw_energy, reference_of
from tnvmc.app.stages import StagedRun, lower_states, plan_of
from tnvmc.backend.process import in_use, launched
from tnvmc.backend.progress import uninterrupted
from tnvmc.report.console import RunConsole, after_steps, embedding_text, headline, nothing_to_do
from tnvmc.report.describe import stage_line
from tnvmc.report.live import told_in_logs, working
from tnvmc.settings.build import build_ansatz, build_sampler, chi_to_measure
from tnvmc.settings.config import Settings, build_operator
from tnvmc.settings.defaults import load, load_in_place
from tnvmc.settings.load import read_toml, with_out, with_overrides
from tnvmc.settings.problems import ConfigError, ConfigProblem
from tnvmc.settings.rules import check_memory, check_symmetries
from tnvmc.shown import quoted
from tnvmc.storage.hdf5 import read_stages
from tnvmc.storage.run_files import asks_the_same, wall_time
from tnvmc.storage.run_folder import (
    CHECKPOINT,
    CONFIG,
    HISTORY,
    PICTURE,
    RESULT,
    DiskError,
    FolderError,
    Interrupted,
    RunFolder,
    check_settings,
    disk_errors,
    refuse_occupied,
    require_provenance,
    require_settings,
)
from tnvmc.trust.reference import Reference
from tnvmc.vmc.measurement import measure
from tnvmc.vmc.results import StepRecord

_FAILED = 1  # exit status of what is not the fault of the input


def run_file(
    path: str | Path, out: str | Path | None = None, overrides: Sequence[str] = ()
) -> dict[str, Any]:
    """Run a TOML file as ``tnvmc run`` does, and give the content of result.json.

    Raises:
        ConfigError: settings that cannot run.
        FolderError: `out` holds a run already.
        DiskError: no space left; the last checkpoint is good.
        Interrupted: Ctrl-C, a signal, a closed terminal or a worker that was killed, with a
            checkpoint written.
        RuntimeError: one of several processes of mpiexec or srun.
    """
    if launched()[1] > 1 and in_use().size == 1:
        raise RuntimeError(
            f"run_file: each of {launched()[1]} processes of mpiexec or srun would make the whole "
            "run; start `tnvmc run FILE` there, or VMC(..., comm=MPI.COMM_WORLD) in Python"
        )
    return new_run(load(Path(path), with_out(overrides, out)))


def new_run(settings: Settings, reference: Reference | None = None) -> dict[str, Any]:
    """Start a run from completed settings; see `run_file`.

    `reference` is the energy to compare with, found here where it is not given.
    """
    started = perf_counter()
    path = Path(settings.run.out or "")
    refuse_occupied(path)
    run, console, told = _set_up(settings)
    with disk_errors(path, DiskError), uninterrupted():
        folder = RunFolder.create(path, settings.as_dict())
    with folder, told_in_logs():
        _introduce(run, console, told)
        return _carry_on(run, settings, folder, console, started, reference)


def resume_run(
    path: str | Path, overrides: Sequence[str] = (), file: str | Path | None = None
) -> dict[str, Any]:
    """Go on with the run in a folder, with its own settings or those of another file.

    A finished run whose settings ask for nothing more gives its result again.

    Raises:
        StateFileError: a damaged checkpoint, or one that does not fit the settings.
        FolderError: no run there, or another process is at it.
        ConfigError, DiskError, Interrupted: as `run_file`.
    """
    path = Path(path)
    require_settings(path)
    _refuse_kept(path, overrides)
    if file is None:
        check_settings(path / CONFIG)
        settings = load_in_place(path, overrides)
    else:
        settings = load(Path(file), with_out(overrides, path))
    return continued_run(settings, own_settings=file is None)


_KEPT = (".kind", ".model", ".init", ".init_noise", ".momentum", ".out", ".starts", ".sharing")
"""Ends of keys that have had their effect where a run was begun."""


def _refuse_kept(path: Path, overrides: Sequence[str]) -> None:
    """Raise `ConfigError` for changes of what a run in a folder cannot change any more."""
    asked = [each for each in overrides if each.partition("=")[0].strip().endswith(_KEPT)]
    held = read_toml(path / CONFIG) if asked and (path / CHECKPOINT).exists() else {}
    if with_overrides(held, asked if held else ()) != held:
        why = f"{path} has begun, and keeps its own; start a new run with another --out"
        raise ConfigError(ConfigProblem(f"--set {' '.join(asked)}", "override", why))


def continued_run(
    settings: Settings, reference: Reference | None = None, *, own_settings: bool = False
) -> dict[str, Any]:
    """Go on with the run in the folder that completed settings name; see `resume_run`.

    `own_settings` tells whether they are those of its config.toml.
    """
    started = perf_counter()
    path = Path(settings.run.out or "")
    require_settings(path)
    checkpoint = path / CHECKPOINT
    begun = os.path.lexists(checkpoint)  # a link that leads nowhere is told as one
    if not begun and (path / HISTORY).exists() and (path / HISTORY).stat().st_size:
        why = f"{HISTORY} tells of steps, but {CHECKPOINT} is missing; put it back"
        raise FolderError(f"{path}: {why}, or start in another folder")
    provenance = require_provenance(path) if begun else None
    run, console, told = _set_up(settings, read_stages(checkpoint) if begun else [], blank=begun)
    if begun:
        run.restore(checkpoint)
    _refuse_fewer_steps(run, path)
    with disk_errors(path, DiskError):
        folder = RunFolder.reopen(path, run.vmc.state.step, provenance, own_settings)
    with folder:
        _introduce(run, console, told)
        run.recall(folder.history())
        old = folder.read_result()
        if old is not None and asks_the_same(old.get("config"), settings.as_dict()):
            console.say(nothing_to_do(old))
            if not (path / PICTURE).exists():
                draw_energy(folder, old)
            return _shown(old, console, path)
        if begun:
            console.say(f"going on after step {run.vmc.state.step}")
        if not (old or {}).get("config") and (path / RESULT).exists():
            console.say(f"{RESULT} is damaged or not of this step; it will be measured anew")
        with disk_errors(path, DiskError):
            folder.write_settings(settings.as_dict())
        with told_in_logs():
            return _carry_on(run, settings, folder, console, started, reference)


def _shown(result: dict[str, Any], console: RunConsole, path: Path) -> dict[str, Any]:
    console.result(result)
    console.say(f"written to {path}; every check: tnvmc show {quoted(path)}")
    return result


def _refuse_fewer_steps(run: StagedRun, path: Path) -> None:
    """Raise `ConfigError` where a stage has made more steps than it is asked for now."""
    made = [record["steps"] for record in run.done]
    made.append(run.vmc.state.step - run.first_step)
    for stage, steps in zip(run.stages, made, strict=False):
        asked = stage.settings.optimizer.steps
        if steps > asked:
            key = f"stage.{stage.number}" if run.staged else "optimizer"
            raise ConfigError(
                f"{key}.steps = {asked}: the run in {path} has made {steps} already, which are not "
                "taken back; ask for as many at least, or choose another --out"
            )


def _set_up(
    settings: Settings, done: Sequence[Mapping[str, Any]] = (), blank: bool = False
) -> tuple[StagedRun, RunConsole, list[str]]:
    """Make a run after the stages `done`, `blank` for a checkpoint to fill; and its first lines."""
    operator = build_operator(settings)
    check_symmetries(settings, operator)  # what the Hamiltonian lacks is told before the run
    optimizer = settings.optimizer
    console = RunConsole(optimizer.steps, operator.n_sites, optimizer.seconds)
    ansatz = build_ansatz(settings, operator)
    check_memory(settings, ansatz.n_params, operator.local_dim)
    told = [headline(settings, operator, ansatz.n_params, shared_counts(ansatz))]
    told += after_steps(settings)
    state = settings.ansatz.leading
    on_grid = state.kind == "peps" and operator.lattice.shape[0] > 1
    if on_grid and (embedded := embedding_text(operator, state.bonds_on(operator.lattice))):
        told.append(embedded)
    with working(console.console):
        run = StagedRun(settings, operator, lower_states(settings, operator), done, blank=blank)
    console.expect(run.last_step)
    return run, console, told


def _introduce(run: StagedRun, console: RunConsole, told: Sequence[str]) -> None:
    """Say what the run is, once nothing can refuse it any more."""
    for text in told:
        console.say(text)
    for own in (stage.settings for stage in run.stages):
        if own.sampler.n_samples != "auto":
            build_sampler(own, run.operator).warn_if_rounded("sampler.n_samples")


def _carry_on(
    run: StagedRun, settings: Settings, folder: RunFolder, console: RunConsole, started: float,
    reference: Reference | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Go through the stages, measure, write and show the result."""
    earlier = wall_time(folder.history())
    recorder = Recorder(run, folder)
    try:
        recorder.save()
        reference = reference or reference_of(run.vmc)
        console.used = run.seconds
        with console.live(run.vmc.state.step, reference.energy):
            _optimise(run, recorder, folder, console)
        recorder.save()
        with console.measuring():
            vmc, chi = run.vmc, chi_to_measure(settings, run.vmc.problem.ansatz)
            plan = plan_of(settings, settings.measure.n_samples, chi)
            measured = measure(vmc.method, vmc.state, plan)
            result = recorder.finish(settings.as_dict(), measured, reference, started - earlier)[1]
    except (KeyboardInterrupt, MemoryError) as stop:
        with contextlib.suppress(KeyboardInterrupt), uninterrupted():  # a second Ctrl-C
            try:
                recorder.save()
            except OSError as error:
                raise _not_written(error, folder, recorder.saved_step) from None
        status, because = _FAILED, f"not enough memory: {stop}".rstrip(": ")
        if isinstance(stop, KeyboardInterrupt):
            status, because = getattr(stop, "exit_status", 128 + signal.SIGINT), ""
        where = f"after {run.vmc.state.step} steps, checkpoint written"
        command = f"tnvmc run --resume {folder.path}"
        raise Interrupted(where, command, status, because) from None
    except OSError as error:
        raise _not_written(error, folder, recorder.saved_step) from None
    return _shown(result, console, folder.path)


def _not_written(error: OSError, folder: RunFolder, saved_step: int | None) -> DiskError:
    """The error of a run that cannot write any more."""
    folder.check_in_place()
    rescue = "make room and start again"
    if saved_step is not None:
        rescue = f"the checkpoint after {saved_step} steps is good: make room and continue with: "
        rescue += f"tnvmc run --resume {folder.path}"
    return DiskError(f"{folder.path}: cannot be written ({error.strerror or error}); {rescue}")


def _stage_headline(run: StagedRun) -> str:
    """The present stage in a line for people."""
    stage, own = run.stage, run.stage.settings
    parts = [f"D = {stage.D}"] if stage.D else []
    edge = getattr(own.ansatz, "edge", None)
    parts += [f"edge = {edge}"] if edge else []
    parts += [f"chi = {own.contraction.chi}"] if own.contraction.chi else []
    enumerated = own.sampler_kind == "enumerate"
    parts.append("all configurations" if enumerated else f"{own.sampler.n_samples} samples")
    parts.append(f"{own.optimizer.steps} steps")
    parts += [f"or until the last {stage.plateau} are a plateau"] if stage.plateau else []
    about = ", ".join(parts).replace("auto", "growing")
    return f"stage {stage.number} of {len(run.stages)}: {about}"


def _optimise(run: StagedRun, recorder: Recorder, folder: RunFolder, console: RunConsole) -> None:
    """Bring the last stage to its end."""

    def on_step(record: StepRecord) -> None:
        recorder.step(record)
        console.step(record)

    while True:
        folder.labels = run.labels
        console.expect(run.last_step)
        if run.staged:
            console.say(_stage_headline(run))
        run.optimise(on_step)
        if run.on_last_stage:
            return
        recorder.save()
        console.say(f"measuring the end of stage {run.stage.number}")
        ended = run.next_stage(folder.path, folder.provenance)
        console.say(stage_line(ended, run.operator.n_sites))
        recorder.save()
