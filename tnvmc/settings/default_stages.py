"""The stages of a large state of which a file says its D and nothing more.

Decision 38: from a product state the steps of a large D are many and expensive, while a smaller D is soon where the larger
one comes late; and 512 samples are too few there to average S over steps.
"""

from __future__ import annotations

from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.peps.symmetries import sharing
from tnvmc.operators.term import Operator
from tnvmc.optimize.average import MOST_OF_SHARED, MOST_PARAMETERS, most_parameters
from tnvmc.settings.ansatz_settings import PEPSSettings
from tnvmc.settings.config import DEFAULT_SAMPLES, Settings
from tnvmc.settings.optimizer_settings import OptimiseStage, SRSettings, StageSettings

FIRST_STEPS, SECOND_STEPS, LATER_STEPS = 25, 60, 45
"""Of D = 3 from a product state, of D = 4, and of each later one: about those of `scripts/heisenberg_8x8_d6.toml`."""

MEASURED = 8 * DEFAULT_SAMPLES
"""Samples of the measurement at the end, as of other files: eight times those of the last step take up to half an hour at D = 6 (decision 38)."""

_FEW = 1000
"""Parameters up to which the samples of a step are those of any file."""

_OWN_PLAN = {
    "steps", "learning_rate", "schedule", "final_learning_rate", "stages", "seconds", "plateau",
    "momentum", "averaged_up_to",
}  # fmt: skip
"""Keys of [optimizer] that make one stage: the file has a plan of its own."""


def default_stages(
    settings: Settings, operator: Operator | None
) -> tuple[StageSettings, ...] | None:
    """Give stages of growing D for a PEPS that shares tensors and is too large for S to be averaged by 512 samples.

    None for every other state, for one so large that no number of samples has S averaged, and where a file says anything of
    stages, start, steps, rates or samples.

    Args:
        settings: with the decision whether tensors are shared.
        operator: the Hamiltonian.
    """
    state, optimizer = settings.ansatz, settings.optimizer
    if settings.stage is not None or operator is None or settings.sampler_kind != "metropolis":
        return None
    if not isinstance(state, PEPSSettings) or not state.sharing or state.D is None:
        return None
    said = {"init", "init_noise"} & state.model_fields_set
    said |= {"n_samples"} & settings.sampler.model_fields_set
    if not isinstance(optimizer, SRSettings) or said or _OWN_PLAN & optimizer.model_fields_set:
        return None
    try:
        shared = sharing(operator, bonds=state.bonds, edge=state.edge, period=state.period or 1)
    except ValueError:  # which is told where the state is made
        return None

    def n_parameters(D: int) -> int:
        lattice, local_dim = operator.lattice, operator.local_dim
        return PEPS(lattice, D, local_dim=local_dim, bonds=state.bonds, sharing=shared).n_params

    if not MOST_PARAMETERS < n_parameters(state.D) <= MOST_OF_SHARED:
        return None
    sizes = [*(D for D in (3, *range(4, state.D, 2)) if D < state.D), state.D]
    steps = [FIRST_STEPS, SECOND_STEPS, *[LATER_STEPS] * len(sizes)]
    if len(sizes) == 1:
        steps = [optimizer.steps]
    return tuple(
        OptimiseStage(D=D, steps=n_steps, n_samples=_samples(n_parameters(D)))
        for D, n_steps in zip(sizes, steps, strict=False)
    )


def _samples(n_params: int) -> int:
    """As many samples of a step as S needs to be averaged."""
    n_samples = DEFAULT_SAMPLES if n_params <= _FEW else 2 * DEFAULT_SAMPLES
    while most_parameters(n_samples, shared=True) < n_params:
        n_samples *= 2
    return n_samples
