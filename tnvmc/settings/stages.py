"""[[stage]] tables, each as a run.

What a stage leaves out comes from [ansatz], [contraction], [sampler] and [optimizer].  In
completed settings every stage is written out, and those sections hold what the last stage has:
it is the last one that is measured, and that a finished run can go on from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tnvmc.settings.config import Settings
from tnvmc.settings.optimizer_settings import OptimiseStage, StageSettings

SECTION_OF = {
    "D": "ansatz",
    "edge": "ansatz",
    "chi": "contraction",
    "n_samples": "sampler",
} | dict.fromkeys(
    ("steps", "learning_rate", "schedule", "final_learning_rate", "diag_shift", "plateau"),
    "optimizer",
)
"""By key of a stage the section that it comes from where the stage leaves it out."""


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
    found = []
    for number, stage in enumerate(settings.stage, 1):
        own: dict[str, Any] = {"evolve": stage.steps}
        if isinstance(stage, OptimiseStage):
            own = {key: getattr(stage, key) or 0 for key in ("noise", "plateau", "evolve")}
        found.append(Stage(number, as_run(settings, stage), stage.kind, **own))
    return tuple(found)


def from_sections(settings: Settings, stage: StageSettings) -> dict[str, Any]:
    """Give what the sections of a run hold for the keys of a stage."""
    found = {
        key: getattr(getattr(settings, section), key, None)
        for key, section in SECTION_OF.items()
        if key in type(stage).model_fields
    }
    if isinstance(stage, OptimiseStage) and stage.learning_rate == "auto":
        found |= {"schedule": None, "final_learning_rate": None}  # those of other stages
    return found


def as_run(settings: Settings, stage: StageSettings) -> Settings:
    """Put what a completed stage says into the sections it comes from."""
    changes: dict[str, dict[str, Any]] = {section: {} for section in SECTION_OF.values()}
    for key, section in SECTION_OF.items():
        if {key} <= type(stage).model_fields.keys() & type(getattr(settings, section)).model_fields:
            changes[section][key] = getattr(stage, key)
    if not isinstance(stage, OptimiseStage):
        changes["optimizer"] = {"steps": 0}
    return settings.changed(changes)
