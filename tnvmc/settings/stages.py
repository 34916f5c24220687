"""[[stage]] tables, each as a run, and those that a large state has by default.

What a stage leaves out comes from [ansatz], [contraction], [sampler] and [optimizer].  In
completed settings every stage is written out, and those sections hold what the last stage has,
which is measured (but for its learning rate).
"""

from dataclasses import dataclass
from typing import Any

from tnvmc.ansatz.peps.starts.initial import AUTO
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.peps.symmetries import sharing
from tnvmc.jacobian.covariance import MOST_PARAMETERS
from tnvmc.operators.term import Operator
from tnvmc.settings.config import DEFAULT_SAMPLES, Settings
from tnvmc.settings.optimizer_settings import StageSettings

SECTION_OF = {
    "D": "ansatz", "edge": "ansatz", "chi": "contraction", "n_samples": "sampler",
    "steps": "optimizer", "learning_rate": "optimizer", "diag_shift": "optimizer",
    "plateau": "optimizer",
}  # fmt: skip
"""By key of a stage the section that it comes from where the stage leaves it out."""


@dataclass(frozen=True)
class Stage:
    """One stage of a run, its settings as those of a run of its own."""

    number: int  #: from 1
    settings: Settings
    noise: float = 0.0  #: on new entries that are zero, of the largest entry of a tensor
    plateau: int = 0  #: window in steps, 0 for none

    @property
    def D(self) -> int | None:
        """Bond dimension, where the state has one."""
        return self.settings.ansatz.D


def stages_of(settings: Settings) -> tuple[Stage, ...]:
    """Give the stages of completed settings: one where there is no [[stage]]."""
    if settings.stage is None:
        return (Stage(1, settings, plateau=settings.optimizer.plateau or 0),)
    stages: list[Stage] = []
    for number, stage in enumerate(settings.stage, 1):
        run, noise, plateau = as_run(settings, stage), stage.noise or 0, stage.plateau or 0
        stages.append(Stage(number, run, noise, plateau))
    return tuple(stages)


def from_sections(settings: Settings, stage: StageSettings) -> dict[str, Any]:
    """Give what the sections of a run hold for the keys of a stage."""
    return {k: getattr(getattr(settings, section), k, None) for k, section in SECTION_OF.items()}


def as_run(settings: Settings, stage: StageSettings) -> Settings:
    """Put what a completed stage says into the sections it comes from."""
    changes: dict[str, dict[str, Any]] = {section: {} for section in SECTION_OF.values()}
    for key, section in SECTION_OF.items():
        if key in type(getattr(settings, section)).model_fields:
            changes[section][key] = getattr(stage, key)
    if stage.learning_rate == "auto":
        changes["optimizer"] |= {"final_learning_rate": None}
    return settings.changed(changes)


def set_by_every_stage(tables: Any, section: str, key: str) -> str | None:
    """Say that changing a key of a section is in vain where all [[stage]] tables have their own."""
    if not isinstance(tables, list) or SECTION_OF.get(key) != section:
        return None
    stages = [table for table in tables if isinstance(table, dict)]
    if not stages or not all(key in table for table in stages):
        return None
    return f"every stage has its own {key}; change stage.{len(tables)}.{key}, or another stage's"


FIRST_STEPS, SECOND_STEPS, LATER_STEPS = 25, 60, 45
"""Of D = 3 from a product state, of D = 4, and of each later one; see decision 38."""

MEASURED = 8 * DEFAULT_SAMPLES
"""Samples of the measurement after default stages, as of other files: eight times those of the last
step take up to half an hour at D = 6."""

MOST_OF_STAGES = 2**14
"""Parameters up to which there are stages: more would want more than 2,048 samples a step."""

PER_SAMPLE = 20 / 3
"""Parameters for each sample of a step at most, above `MOST_PARAMETERS`."""

_FEW = 1000
"""Parameters up to which the samples of a step are those of any file."""

_OWN_PLAN = {
    "steps", "learning_rate", "final_learning_rate", "seconds", "plateau", "momentum",
}  # fmt: skip
"""Keys of [optimizer] that make one stage: the file has a plan of its own."""


def default_stages(
    settings: Settings, operator: Operator | None
) -> tuple[StageSettings, ...] | None:
    """Give stages of growing D for a large PEPS with shared tensors.

    From a product state the steps of a large D are many and expensive, while a smaller D is soon
    where the larger one comes late; and 512 samples are too few there (decision 38).  None for
    every other state, for one too large, and where a file says anything of stages, start, steps,
    rates or samples.
    """
    state, optimizer = settings.ansatz, settings.optimizer
    if settings.stage is not None or operator is None or settings.sampler_kind != "metropolis":
        return None
    if not getattr(state, "sharing", False) or state.D is None:
        return None
    given = {"init_noise"} & state.model_fields_set
    given |= {"init"} if state.init != AUTO else set()
    given |= {"n_samples"} & settings.sampler.model_fields_set
    if optimizer.kind != "sr" or given or _OWN_PLAN & optimizer.model_fields_set:
        return None
    try:
        shared = sharing(operator, bonds=state.bonds, edge=state.edge, period=state.period or 1)
    except ValueError:  # which is told where the state is made
        return None

    def n_parameters(D: int) -> int:
        lattice, local_dim = operator.lattice, operator.local_dim
        return PEPS(lattice, D, local_dim=local_dim, bonds=state.bonds, sharing=shared).n_params

    if not MOST_PARAMETERS < n_parameters(state.D) <= MOST_OF_STAGES:
        return None
    sizes = [*(D for D in (3, *range(4, state.D, 2)) if D < state.D), state.D]
    steps = [FIRST_STEPS, SECOND_STEPS, *[LATER_STEPS] * len(sizes)]
    if len(sizes) == 1:
        steps = [optimizer.steps]
    return tuple(
        StageSettings(D=D, steps=n_steps, n_samples=_samples(n_parameters(D)))
        for D, n_steps in zip(sizes, steps, strict=False)
    )


def _samples(n_params: int) -> int:
    """As many samples of a step as so many parameters need."""
    n_samples = DEFAULT_SAMPLES if n_params <= _FEW else 2 * DEFAULT_SAMPLES
    while MOST_PARAMETERS < n_params and int(PER_SAMPLE * n_samples) < n_params:
        n_samples *= 2
    return n_samples
