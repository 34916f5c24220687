"""[[stage]] tables: what they may not say, what stands where they say nothing, each as a run.

What a stage leaves out comes from [ansatz], [contraction], [sampler] and [optimizer].  In
completed settings every stage is written out, and those sections hold what the last stage has:
it is the last one that is measured, and that a finished run can go on from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tnvmc.ansatz.neural import NETWORKS
from tnvmc.settings.config import OptimizerSettings, Settings, StageSettings
from tnvmc.settings.network_settings import named

LEARNING_RATE = {"sr": 0.1, "gradient": 0.05, "random_sign": 0.005, "adam": 0.01}
"""Where none is set.  That of SR is imaginary time per step, good for all models tried."""

EVOLVE = 10
"""Steps of simple update that open new bonds, where a stage sets none.  6x6 Heisenberg from an
optimised D = 2 (relative error 1.5e-2) to D = 3: 1.1e-2 after one step, 8.5e-3 after ten, and the
same after 30.  Noise alone leaves the energy and a variance that optimises badly."""

NOISE = 0.01
"""On entries of new bonds that are zero, of the tensor's largest, where a stage sets none."""

SIMPLE_UPDATE_STEPS = 200
"""Limit, for each time step, where none is set."""

_OF_SIMPLE_UPDATE = ("kind", "D", "steps", "n_samples", "chi")
_OPTIMIZER = (
    "steps", "learning_rate", "schedule", "final_learning_rate", "diag_shift", "plateau",
)  # fmt: skip
_FROM_SECTION = {"ansatz": ("D",), "contraction": ("chi",), "sampler": ("n_samples",)} | {
    "optimizer": _OPTIMIZER
}
_DECAYING = ("exponential", "cosine")


@dataclass(frozen=True)
class Stage:
    """One stage of a run, its settings as those of a run of its own."""

    number: int  #: from 1
    settings: Settings
    kind: str = "optimise"
    noise: float = 0.0  #: on new entries that are zero, of the largest entry of a tensor
    plateau: int = 0  #: window in steps, 0 for none
    evolve: int = 0  #: steps of simple update: of the whole stage (each time step), or to grow

    @property
    def D(self) -> int | None:
        """Bond dimension, where the state has one."""
        return self.settings.ansatz.D


def stages_of(settings: Settings) -> tuple[Stage, ...]:
    """Give the stages of completed settings: one where there is no [[stage]]."""
    if settings.stage is None:
        return (Stage(1, settings, plateau=settings.optimizer.plateau or 0),)
    return tuple(
        Stage(
            number,
            _as_run(settings, stage),
            stage.kind,
            stage.noise or 0.0,
            stage.plateau or 0,
            (stage.steps if stage.kind == "simple_update" else stage.evolve) or 0,
        )
        for number, stage in enumerate(settings.stage, 1)
    )


def _as_run(settings: Settings, stage: StageSettings) -> Settings:
    """Put what a completed stage says into the sections it comes from."""
    optimizer: dict[str, Any] = {"steps": 0}
    if stage.kind == "optimise":
        names = ("steps", "learning_rate", "schedule", "final_learning_rate", "plateau")
        optimizer = {name: getattr(stage, name) for name in names}
        if settings.optimizer.kind == "sr":
            optimizer["diag_shift"] = stage.diag_shift
    changes: dict[str, dict[str, Any]] = {
        "ansatz": {"D": stage.D},
        "contraction": {"chi": stage.chi},
        "sampler": {"n_samples": stage.n_samples},
        "optimizer": optimizer,
    }
    return settings.model_copy(
        update={name: getattr(settings, name).model_copy(update=c) for name, c in changes.items()}
    )


def complete_stages(settings: Settings, default_chi: Any) -> Settings:
    """Write out every stage, and put the last one into the other sections."""
    if settings.stage is None:
        return settings
    with_chi = settings.ansatz.kind == "peps" and settings.contraction.scheme != "exact"
    stages: list[StageSettings] = []
    for stage in settings.stage:
        D = stage.D or settings.ansatz.D
        filled: dict[str, Any] = {
            "D": D,
            "n_samples": stage.n_samples or settings.sampler.n_samples,
            "chi": stage.chi
            or settings.contraction.chi
            or (default_chi(D or 1) if with_chi else None),
        }
        if stage.kind == "simple_update":
            steps = SIMPLE_UPDATE_STEPS if stage.steps is None else stage.steps
            filled["steps"] = steps
        else:
            filled |= _completed_rule(stage, settings.optimizer)
            if stages and stages[-1].D != D:
                filled["noise"] = NOISE if stage.noise is None else stage.noise
                filled["evolve"] = EVOLVE if stage.evolve is None else stage.evolve
        stages.append(stage.model_copy(update=filled))
    settings = settings.model_copy(update={"stage": tuple(stages)})
    return _as_run(settings, stages[-1])


def _completed_rule(stage: StageSettings, optimizer: OptimizerSettings) -> dict[str, Any]:
    rate = stage.learning_rate or optimizer.learning_rate or LEARNING_RATE[optimizer.kind]
    schedule = stage.schedule or optimizer.schedule or "cosine"
    plateau = optimizer.plateau if stage.plateau is None else stage.plateau
    filled: dict[str, Any] = {
        "steps": optimizer.steps if stage.steps is None else stage.steps,
        "learning_rate": rate,
        "schedule": schedule,
        "plateau": plateau or 0,
    }
    if schedule in _DECAYING:
        filled["final_learning_rate"] = (
            stage.final_learning_rate or optimizer.final_learning_rate or rate / 10  # type: ignore[operator]
        )
    if optimizer.kind == "sr":
        shift = optimizer.diag_shift if stage.diag_shift is None else stage.diag_shift
        filled["diag_shift"] = 1e-2 if shift is None else shift
    return filled


def stage_problems(settings: Settings) -> list[str]:
    """Find what cannot be among stages that are allowed one by one: a line for each problem."""
    stages = settings.stage
    if stages is None:
        return []
    if not stages:
        return ["stage = []: must be one table or more, each headed [[stage]]"]
    problems = _clashes(settings)
    previous: int | None = None
    for number, stage in enumerate(stages, 1):
        D = stage.D or settings.ansatz.D
        where = f"stage.{number}"
        kind = settings.ansatz.kind
        if kind in NETWORKS:
            if stage.D is not None:
                problems.append(f"{where}.D = {stage.D}: {named(kind)} has no bond dimension")
        elif kind in ("product", "dimer"):
            if stage.D not in (None, 1):
                problems.append(f"{where}.D = {stage.D}: a {kind} state has no bond dimension")
        elif D is None:
            problems.append(f"{where}.D: missing, and so is ansatz.D; must be an integer >= 1")
        elif previous is not None and D < previous:
            problems.append(
                f"{where}.D = {D}: smaller than {previous}, the D of stage {number - 1}; a state "
                "grows, it is not cut"
            )
        elif previous not in (None, D) and settings.ansatz.kind == "periodic_mps":
            problems.append(f"{where}.D = {D}: a periodic_mps cannot grow; keep D = {previous}")
        grows = previous is not None and D is not None and D > previous
        problems += _problems_of(stage, where, number == 1, grows, settings)
        previous = D or previous
    return problems


def set_by_every_stage(tables: Any, section: str, key: str) -> str | None:
    """Say that changing a key of a section is in vain where all [[stage]] tables have their own."""
    if not isinstance(tables, list) or key not in _FROM_SECTION.get(section, ()):
        return None
    stages = [table for table in tables if isinstance(table, dict)]
    if key in _OPTIMIZER:
        stages = [table for table in stages if table.get("kind") != "simple_update"]
    if not stages or not all(key in table for table in stages):
        return None
    return f"every stage has its own {key}; change stage.{len(tables)}.{key}, or another stage's"


def _clashes(settings: Settings) -> list[str]:
    """Settings of other sections that cannot be together with stages."""
    problems, optimizer = [], settings.optimizer
    if (
        isinstance(optimizer.learning_rate, list)
        or optimizer.stages
        or optimizer.schedule == "stages"
    ):
        problems.append(
            "optimizer.learning_rate: a list of them does not go with [[stage]]; give each stage "
            "its own learning_rate"
        )
    if optimizer.seconds is not None:
        problems.append("optimizer.seconds: does not go with [[stage]]; give each stage its steps")
    assert settings.stage is not None
    if settings.stage[0].kind == "simple_update":
        if settings.ansatz.init not in (None, "simple_update"):
            problems.append(
                f"ansatz.init = '{settings.ansatz.init}': the first stage starts from simple "
                "update; leave one of the two away"
            )
        if settings.ansatz.kind not in ("peps", "mps"):
            problems.append(
                f"stage.1.kind = 'simple_update': {named(settings.ansatz.kind)} has no such start"
            )
    return problems


def _problems_of(
    stage: StageSettings, where: str, first: bool, grows: bool, settings: Settings
) -> list[str]:
    """Find settings of one stage that would have no effect."""
    if stage.kind == "simple_update":
        lost = _given(stage, set(type(stage).model_fields) - set(_OF_SIMPLE_UPDATE))
        problems = [f"{where}.{key}: goes with kind = 'optimise' only" for key in lost]
        return (
            problems if first else [f"{where}.kind = 'simple_update': only the first stage can be"]
        )
    problems = []
    if stage.diag_shift is not None and settings.optimizer.kind != "sr":
        problems.append(f"{where}.diag_shift: goes with optimizer.kind = 'sr' only")
    if not grows:
        problems += [
            f"{where}.{key}: goes with a D larger than that of the stage before only"
            for key in _given(stage, ("evolve", "noise"))
        ]
    schedule = stage.schedule or settings.optimizer.schedule or "cosine"
    if stage.final_learning_rate is not None and schedule not in _DECAYING:
        problems.append(
            f"{where}.final_learning_rate: goes with schedule 'exponential' or 'cosine' only"
        )
    return problems


def _given(stage: StageSettings, keys: Sequence[str] | set[str]) -> list[str]:
    return sorted(key for key in keys if getattr(stage, key) is not None)
