"""The way of a run through its stages: optimise, stop, measure, grow or cut; and runs of folders.

A run without [[stage]] is one stage, of which no record is kept.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.peps.starts.initial import AUTO
from tnvmc.ansatz.peps.starts.other_sizes import of_next_stage
from tnvmc.ansatz.protocol import Ansatz, chi_of
from tnvmc.ansatz.wrappers.symmetrised import inner_state
from tnvmc.app.recording import OneStage
from tnvmc.backend.progress import uninterrupted
from tnvmc.estimate.line_fit import reached
from tnvmc.operators.properties import fingerprint
from tnvmc.operators.term import Operator
from tnvmc.optimize.rule import Schedule
from tnvmc.sampling.configurations import sector_of
from tnvmc.sampling.problem import Point
from tnvmc.session.vmc import VMC
from tnvmc.settings.build import build_ansatz, build_arguments, build_theta
from tnvmc.settings.config import Settings, build_operator, measured_chi
from tnvmc.settings.defaults import load_in_place
from tnvmc.settings.problems import ConfigError
from tnvmc.settings.stages import Stage, stages_of
from tnvmc.storage.hdf5 import StateFileError, read_provenance, read_stages
from tnvmc.storage.identity import differences
from tnvmc.storage.run_files import Run, is_finished, orthogonal_hashes, read_run
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
from tnvmc.trust.energies import judged
from tnvmc.vmc import checkpoint, step
from tnvmc.vmc.controllers import GrowingChi, GrowingSamples
from tnvmc.vmc.core import Iterate, State
from tnvmc.vmc.measured_iterate import measured_iterate
from tnvmc.vmc.measurement import Measured, MeasurementPlan, measure
from tnvmc.vmc.orthogonal import LowerState, largest_change_by_a_site, repeated
from tnvmc.vmc.results import Measurement, StepRecord, finite_or_none

Array = Any
Record = Mapping[str, Any]

_BRIEFLY = 4  # samples of the measurement that ends a stage, in those of a step


class StagedRun(OneStage):
    """The stages of one run; `vmc` works on the present one.

    `done` are records of the stages that lie behind; `blank` leaves the parameters at zero, for
    `restore` to fill.

    Raises:
        StateFileError: more stages lie behind than the settings have.
        ValueError: parts that cannot be built from the settings.
    """

    def __init__(
        self, settings: Settings, operator: Operator, lower: tuple[LowerState, ...] = (),
        done: Sequence[Record] = (), *, blank: bool = False,
    ) -> None:  # fmt: skip
        self.stages = stages_of(settings)
        self.done = tuple(done)
        if len(done) >= len(self.stages):
            told = f"the run is in stage {len(done) + 1}, the settings have {len(self.stages)}"
            raise StateFileError(f"{told}; stages can be added at the end, not taken away")
        self.staged = settings.stage is not None
        self.operator = operator
        self.lines: list[Record] = []  # of history.jsonl, those of the present stage
        self.seconds = 0.0  #: that those steps took
        self.lower = lower
        self.vmc: VMC = self._first_vmc(blank)

    @property
    def stage(self) -> Stage:
        """The present stage."""
        return self.stages[len(self.done)]

    @property
    def labels(self) -> dict[str, Any]:
        """What a line of history.jsonl says of its stage."""
        return {"stage": self.stage.number, "D": self.stage.D} if self.staged else {}

    @property
    def first_step(self) -> int:
        """Step with which the present stage began."""
        return sum(record["steps"] for record in self.done)

    @property
    def last_step(self) -> int:
        """Number of steps after which the run ends, if no stage stops before."""
        return self.first_step + sum(
            stage.settings.optimizer.steps for stage in self.stages[len(self.done) :]
        )

    @property
    def on_last_stage(self) -> bool:
        """Tell whether no other stage follows the present one."""
        return len(self.done) + 1 == len(self.stages)

    @property
    def _n_samples(self) -> int:
        """Samples of a step, the number at present where it grows."""
        growing = self.vmc.state.controller(GrowingSamples)
        given: Any = self.stage.settings.sampler.n_samples
        return given if growing is None else growing.n_samples  # type: ignore[no-any-return]

    @property
    def _chi(self) -> int | None:
        """Boundary bond dimension of the next step; None where nothing is cut."""
        return self.stage.settings.contraction.chi and chi_of(self.vmc.problem.ansatz)

    def restore(self, path: Path, archived: bool = False) -> None:
        """Go on from a checkpoint of the present stage; `recall` its history then.

        With `archived` also from one of `tnvmc archive`, to look at it.

        Raises:
            StateFileError: see `tnvmc.vmc.checkpoint.load`; or an [[orthogonal]] run has changed.
        """
        named = self.stage.settings.orthogonal or ()
        of_each = zip(named, self.lower, orthogonal_hashes(path), strict=False)
        for number, (each, lower, before) in enumerate(of_each, 1):
            if lower.fingerprint != before:
                raise StateFileError(
                    f"{path.parent}: orthogonal.{number}.run = {each.run!r} holds another state "
                    "than this run was kept orthogonal to: it went on, or is another run; put it "
                    "back as it was, or make this run again with another --out"
                )
        self.vmc.restore(path, archived)

    def recall(self, history: Sequence[Record]) -> None:
        """Take note of what was written to history.jsonl before the present step."""
        number = self.stage.number
        self.lines = [line for line in history if line.get("stage", number) == number]
        self.seconds = sum(line["seconds"] for line in self.lines)

    def stopped(self) -> str | None:
        """Say what ends the present stage; None while it goes on."""
        if reached(self.lines, self.stage.plateau):
            return "plateau"
        if self._time_used >= 1:
            return "seconds"
        steps = self.vmc.state.step - self.first_step
        return "steps" if steps >= self.stage.settings.optimizer.steps else None

    def optimise(self, callback: Callable[[StepRecord], None]) -> None:
        """Make steps until the present stage stops; `callback` sees each as it is made.

        Where seconds limit it, one step before is dropped: compilation is not charged to the state.
        """

        def on_step(record: StepRecord) -> None:
            self.lines.append(record.as_dict())
            self.seconds += record.seconds
            callback(record)

        if self.stage.settings.optimizer.seconds and self.stopped() is None:
            step.advance(self.vmc.method, self.vmc.state)
        own = self.stage.settings
        auto = own.ansatz.init == AUTO and own.ansatz.init_noise is None
        if auto and not self.done:
            self.vmc.choose_start(own.optimizer.steps)
        while self.stopped() is None:
            self.vmc.step(on_step)

    def next_stage(self, folder: Path, provenance: Provenance | None = None) -> Record:
        """Measure the present stage, keep its end as stage-K.h5, go on to the next; its record."""
        own, state = self.stage.settings, self.vmc.state
        plan = MeasurementPlan(
            _BRIEFLY * self._n_samples, measured_chi(self._chi), own.measure.n_burn,
            symmetries=tuple(own.measure.symmetrise),
        )  # fmt: skip
        measured = judged(measure(self.vmc.method, state, plan), self.lower, final=False)
        point, record = measured.point, self._record(measured.measurement)
        vmc, lost = self._next_vmc(self.stages[len(self.done) + 1], point, state.step)
        if lost is not None:
            record["lost_weight"] = lost
        self.save(folder / stage_file(self.stage.number), provenance, point, [record])
        with uninterrupted():
            self.vmc, self.done = vmc, (*self.done, record)
            self.lines, self.seconds = [], 0.0
        return record

    def outcome(
        self, folder: Path, measured: Measured, provenance: Provenance | None = None
    ) -> dict[str, Any]:
        """As that of one stage; with stages the measured parameters are stage-K.h5."""
        if not self.staged:
            return super().outcome(folder, measured, provenance)
        record = self._record(measured.measurement)
        self.save(folder / stage_file(self.stage.number), provenance, measured.point, [record])
        return {"stopped": self.stopped(), "stages": [*self.done, record]}

    def _record(self, measured: Measurement) -> dict[str, Any]:
        """Give what result.json says of the present stage."""
        values = {
            "stage": self.stage.number,
            "D": self.stage.D,
            "chi": self._chi,
            "n_samples": self._n_samples,
            "steps": self.vmc.state.step - self.first_step,
            "stopped": self.stopped(),
            "energy": measured.energy,
            "energy_error": measured.energy_error,
            "variance": measured.variance,
            "seconds": sum(line["seconds"] for line in self.lines) + measured.seconds,
            "measured_samples": measured.n_samples,
            "measured_chi": measured.chi,
            "diagnostics": [found.as_dict() for found in measured.diagnostics],
        }
        return finite_or_none(values)

    def _first_vmc(self, blank: bool) -> VMC:
        settings = self.stage.settings
        ansatz = build_ansatz(settings, self.operator)
        if blank:
            theta = np.zeros(ansatz.n_params, np.dtype(settings.ansatz.dtype or ansatz.dtype))
        else:
            theta = build_theta(settings, self.operator, ansatz)
        return self._vmc(self.stage, ansatz, theta, self.first_step)

    def _next_vmc(self, stage: Stage, point: Iterate, step: int) -> tuple[VMC, float | None]:
        """Begin a stage where the one before ends; also the weight that a bond lost by a cut."""
        old_ansatz, old, new = self.vmc.ansatz, self.stage.settings, stage.settings
        same = (old.ansatz, old.contraction) == (new.ansatz, new.contraction)
        # What is compiled for an ansatz serves all stages that keep it.
        ansatz = old_ansatz if same else build_ansatz(new, self.operator)
        theta, lost = of_next_stage(
            (inner_state(old_ansatz), point.theta), inner_state(ansatz), self.operator,
            stage.noise, new.run.seed + stage.number,
        )  # fmt: skip
        vmc = self._vmc(stage, ansatz, theta, step, point.configs)
        vmc.state = self._going_on(replace(vmc.state, step=step), stage, same)
        return vmc, lost

    def _going_on(self, state: State, stage: Stage, same: bool) -> State:
        """Let what grows begin where the stage before ends; chi only for the same wave function."""
        samples, chi = state.controller(GrowingSamples), state.controller(GrowingChi)
        if samples:
            walkers = stage.settings.sampler.n_walkers
            whole_draws = -(-self._n_samples // walkers) * walkers
            state = state.with_controller(GrowingSamples(max(samples.n_samples, whole_draws)))
        before = self.vmc.state.controller(GrowingChi)
        if same and chi and before:
            state = state.with_controller(replace(chi, chi=before.chi))
        return state

    def _vmc(
        self, stage: Stage, ansatz: Ansatz, theta: Array, first_step: int, configs: Array = None
    ) -> VMC:
        settings = stage.settings
        parts = build_arguments(settings, self.operator, first_step)
        if configs is not None and configs.shape[0] != parts["sampler"].n_walkers:
            configs = None
        if settings.optimizer.seconds and callable(parts["learning_rate"]):
            steps = settings.optimizer.steps
            parts["learning_rate"] = self._on_the_clock(parts["learning_rate"], steps)
        start = {"theta": theta, "configs": configs, "orthogonal_to": self.lower}
        return VMC(self.operator, ansatz, **parts, **start)

    @property
    def _time_used(self) -> float:
        """Share of the seconds of the present stage that are used; 0 where it has no limit."""
        limit = self.stage.settings.optimizer.seconds
        return self.seconds / limit if limit else 0.0

    def _on_the_clock(self, schedule: Schedule, steps: int) -> Schedule:
        """Let a schedule fall with the time used, where the steps alone would leave it behind."""
        return lambda step: schedule(max(step, int(steps * self._time_used)))


def check_overrides(path: Path, overrides: Sequence[str]) -> None:
    """Raise `FolderError` for changes of sections that would make another state."""
    for override in overrides:
        if override.split(".")[0].strip() not in ("measure", "run"):
            told = "a state that was made takes changes of [measure] and [run] only"
            raise FolderError(f"{path}: {override!r}: {told}")


def plan_of(settings: Settings, n_samples: int | None, chi: int | None) -> MeasurementPlan:
    """Give the plan of [measure], with this number of samples and chi."""
    own = settings.measure
    symmetries = tuple(own.symmetrise)
    return MeasurementPlan(n_samples, chi, own.n_burn, own.n_thin, symmetries, error=own.error)


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
    if missing:
        why = f"{missing[0]} is missing"
    elif not is_finished(run):
        what = "is damaged" if run.result is None else "is not that of its last step"
        why = f"{RESULT} {what}"
    else:
        return run
    raise FolderError(f"{path}: not finished ({why}); go on with it: tnvmc run --resume {path}")


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
    return checkpoint.load(kept, vmc.method, vmc.state, archived=True).here


def lower_states(settings: Settings, operator: Operator) -> tuple[LowerState, ...]:
    """Read the measured states of the runs that [[orthogonal]] names.

    A run that is not there may lie beside the folder of this one, as the sectors of one file do.

    Raises:
        ConfigError: no finished run there, one of another problem, or this run itself.
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
        one, two = pair
        raise ConfigError(f"orthogonal.{two}.run: holds the state of orthogonal.{one}.run; omit it")
    return tuple(found)


def _lower_state(
    path: Path, settings: Settings, operator: Operator, penalty: float | None
) -> LowerState:
    require_finished(path)
    threads, same = settings.run.threads, [f"run.device={json.dumps(settings.run.device)}"]
    own = load_in_place(path, same if threads is None else [*same, f"run.threads={threads}"])
    found_for = build_operator(own)
    apart = differences(own.as_dict()["hamiltonian"], settings.as_dict()["hamiltonian"])
    if apart and fingerprint(found_for) != fingerprint(operator):
        raise ValueError(f"found for another Hamiltonian: {', '.join(apart)}")
    run = restored(path, own, found_for)
    vmc, point = run.vmc, measured_point(path, run, check_tied(path))
    penalty = largest_change_by_a_site(operator) if penalty is None else penalty
    at = Point(point.theta, point.configs)
    lower = LowerState(vmc.problem, at, vmc.method.sampler, penalty)
    sector = sector_of(operator, settings.sampler.magnetisation)
    lower.check(replace(vmc.problem, operator=operator, magnetisation=sector))
    return lower
